// Calls of the node that serves this page, and their problems.

import type { Login } from "./answers.ts";

/** Why a call was refused, in the node's own words. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
    readonly field = "",
  ) {
    super(`${title}: ${detail}`);
  }
}

const LOGIN = "/console/login";
const TOKEN = "sockeye.console";

let token = "";

/**
 * The cookie is worth nothing without the token, nor the token without the cookie. All tabs have
 * one cookie, so they have one token.
 */
function readToken(): string {
  try {
    return localStorage.getItem(TOKEN) ?? "";
  } catch {
    return token;
  }
}

function keepToken(value: string): void {
  token = value;
  try {
    localStorage.setItem(TOKEN, value);
  } catch {
    // Blocked storage: the login lasts until the page is left.
  }
}

export class Api {
  login: Login | undefined;
  /** Called when the node does not know this login any more. */
  ended: () => void = () => {};

  async get<T>(path: string, signal?: AbortSignal): Promise<T> {
    return (await (await this.#call("GET", path, undefined, signal)).json()) as T;
  }

  async text(path: string, signal?: AbortSignal): Promise<string> {
    return await (await this.#call("GET", path, undefined, signal)).text();
  }

  /** `body` is JSON that is written already, so that numbers arrive as they were typed. */
  async post<T>(path: string, body = ""): Promise<T> {
    const answer = await (await this.#call("POST", path, body)).text();
    return (answer === "" ? {} : JSON.parse(answer)) as T;
  }

  /** Goes on with the cookie of an earlier visit. */
  async resume(): Promise<void> {
    this.login = await this.get<Login>(LOGIN);
  }

  async enter(key: string): Promise<void> {
    const login = await this.post<Login>(LOGIN, JSON.stringify({ key }));
    keepToken(login.csrf ?? "");
    this.login = login;
  }

  async leave(): Promise<void> {
    await this.post("/console/logout");
    keepToken("");
    this.login = undefined;
  }

  /** Whether the key of this login has the scope; the node judges again. */
  allows(scope: string): boolean {
    const { name = "", scopes = [] } = this.login ?? {};
    // Without configured keys anybody may look a little, and nobody may act.
    if (name === "") return false;
    return scopes.length === 0 || scopes.includes(scope);
  }

  async #call(method: string, path: string, body?: string, signal?: AbortSignal) {
    const headers: Record<string, string> = { "X-Sockeye-CSRF": readToken() };
    if (body) headers["Content-Type"] = "application/json";
    const answer = await fetch(path, {
      method,
      headers,
      cache: "no-store",
      ...(body ? { body } : {}),
      ...(signal ? { signal } : {}),
    }).catch((error: unknown) => {
      if (signal?.aborted) throw error;
      throw new Problem(0, "The node does not answer", "it cannot be reached from this browser");
    });
    if (answer.ok) return answer;
    const problem = await readProblem(answer);
    if (answer.status === 401 && path !== LOGIN) {
      this.login = undefined;
      this.ended();
    }
    throw problem;
  }
}

async function readProblem(answer: Response): Promise<Problem> {
  const said = (await answer.json().catch(() => ({}))) as Record<string, unknown>;
  const seconds = answer.headers.get("retry-after");
  const later = seconds === null ? "" : ` (try again in ${seconds} s)`;
  return new Problem(
    answer.status,
    String(said.title ?? "The call was refused"),
    `${String(said.detail ?? `the node answers ${answer.status}`)}${later}`,
    String(said.field ?? ""),
  );
}
