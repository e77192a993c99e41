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
/** Without an answer by then the figures are too old to be shown as if they were new. */
const ANSWER_MS = 10_000;
/** An event may wait 5 s for the answers of clients. */
const ORDER_MS = 20_000;
/** A stream says something each five seconds. */
const SILENCE_MS = 20_000;

let token = "";

/**
 * The cookie is worth nothing without the token, nor the token without the cookie. All tabs have
 * one cookie, so they share the token. Where storage is blocked they cannot: there the login of
 * one tab ends that of another.
 */
function readToken(): string {
  try {
    return localStorage.getItem(TOKEN) || token;
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

interface Call {
  /** JSON that is written already, so that numbers arrive as they were typed. */
  body?: string;
  /** Calls with the same key are carried out once. */
  once?: string;
  signal?: AbortSignal | undefined;
}

export class Api {
  login: Login | undefined;
  /** Called when the node does not know this login any more. */
  ended: () => void = () => {};

  async get<T>(path: string, signal?: AbortSignal): Promise<T> {
    return parse(await this.#call("GET", path, { signal }));
  }

  async text(path: string, signal?: AbortSignal): Promise<string> {
    return await this.#call("GET", path, { signal });
  }

  /** An answer that goes on and on, line by line, until it ends or the signal comes. */
  async lines(path: string, signal: AbortSignal, each: (line: string) => void): Promise<void> {
    const token = readToken();
    const limit = new AbortController();
    let timer = 0;
    const wait = () => {
      clearTimeout(timer);
      timer = setTimeout(() => limit.abort(), SILENCE_MS);
    };
    wait();
    let refused: [answer: Response, text: string] | undefined;
    try {
      const answer = await fetch(path, {
        headers: { "X-Sockeye-CSRF": token },
        cache: "no-store",
        signal: AbortSignal.any([signal, limit.signal]),
      });
      if (answer.ok) await readLines(answer, wait, each);
      else refused = [answer, await answer.text()];
    } catch (error) {
      if (signal.aborted) throw error;
      throw noAnswer(limit.signal.aborted);
    } finally {
      clearTimeout(timer);
    }
    if (!refused) return;
    await this.#checkLogin(refused[0].status, token);
    throw readProblem(...refused);
  }

  async post<T>(path: string, body = "", once = ""): Promise<T> {
    const answer = await this.#call("POST", path, { body, once });
    return answer === "" ? ({} as T) : parse(answer);
  }

  /** Goes on with the cookie of an earlier visit, or of another tab. */
  async resume(): Promise<void> {
    this.login = await this.get<Login>(LOGIN);
  }

  /** Tells when another tab has logged in or out: from then on this one acts with its login. */
  onOtherTab(changed: () => void): void {
    window.addEventListener("storage", ({ key, newValue }) => {
      if (key === TOKEN && (this.login || newValue)) changed();
    });
  }

  async enter(key: string): Promise<void> {
    const login = await this.post<Login>(LOGIN, JSON.stringify({ key }));
    keepToken(login.csrf ?? "");
    this.login = login;
  }

  async leave(): Promise<void> {
    const { login } = this;
    // A poll that is answered meanwhile must not say that the login has ended by itself.
    this.login = undefined;
    try {
      await this.post("/console/logout");
    } catch (error) {
      const over = error instanceof Problem && [401, 403].includes(error.status);
      if (!over) this.login = login;
      if (!over) throw error;
    }
    keepToken("");
  }

  /** Whether the key of this login has the scope; the node judges again. */
  allows(scope: string): boolean {
    const { name = "", scopes = [] } = this.login ?? {};
    // Without configured keys anybody may look a little, and nobody may act.
    if (name === "") return false;
    return scopes.length === 0 || scopes.includes(scope);
  }

  /** The same for calls about the whole node: they are for keys of all namespaces. */
  allowsEverywhere(scope: string): boolean {
    return this.allows(scope) && this.login?.namespaces.length === 0;
  }

  /** The text of the answer, all of it: one that breaks off is none. */
  async #call(method: string, path: string, { body, once, signal }: Call): Promise<string> {
    const token = readToken();
    const headers: Record<string, string> = { "X-Sockeye-CSRF": token };
    if (body) headers["Content-Type"] = "application/json";
    if (once) headers["Idempotency-Key"] = once;
    const limit = AbortSignal.timeout(method === "GET" ? ANSWER_MS : ORDER_MS);
    let answer: Response;
    let text: string;
    try {
      answer = await fetch(path, {
        method,
        headers,
        cache: "no-store",
        signal: signal ? AbortSignal.any([signal, limit]) : limit,
        ...(body ? { body } : {}),
      });
      text = await answer.text();
    } catch (error) {
      if (signal?.aborted) throw error;
      throw noAnswer(limit.aborted);
    }
    if (answer.ok) return text;
    if (path !== LOGIN) await this.#checkLogin(answer.status, token);
    throw readProblem(answer, text);
  }

  /** A refusal may mean that the login is over, if it is still the one of the call. */
  async #checkLogin(status: number, token: string): Promise<void> {
    const isOther = () => !this.login || token !== readToken();
    if (isOther() || (status !== 401 && status !== 403)) return;
    // A cookie of another login is refused as forged: only the login itself says which it is.
    if (status === 403 && !(await this.#isOver())) return;
    if (isOther()) return;
    this.login = undefined;
    this.ended();
  }

  async #isOver(): Promise<boolean> {
    try {
      await this.get(LOGIN);
      return false;
    } catch (error) {
      return error instanceof Problem && error.status === 401;
    }
  }
}

/** `wait`: something came. */
async function readLines(
  answer: Response,
  wait: () => void,
  each: (line: string) => void,
): Promise<void> {
  const reader = answer.body?.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const part = await reader?.read();
    if (!part || part.done) return;
    wait();
    const lines = (rest + decoder.decode(part.value, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) each(line);
  }
}

function noAnswer(late: boolean): Problem {
  const why = late ? "its answer did not come in time" : "it cannot be reached from this browser";
  return new Problem(0, "The node does not answer", why);
}

/** A proxy may answer with a page of its own. */
function parse<T>(text: string): T {
  try {
    return JSON.parse(text) as T;
  } catch {
    throw new Problem(0, "The node does not answer", "something else answers in its place");
  }
}

function readProblem(answer: Response, text: string): Problem {
  let said: Record<string, unknown> = {};
  try {
    said = (JSON.parse(text) as Record<string, unknown> | null) ?? {};
  } catch {
    // A proxy's page, or nothing: the status has to do.
  }
  const seconds = answer.headers.get("retry-after");
  const later = seconds === null ? "" : ` (try again in ${seconds} s)`;
  return new Problem(
    answer.status,
    String(said.title ?? "The call was refused"),
    `${String(said.detail ?? `the node answers ${answer.status}`)}${later}`,
    String(said.field ?? ""),
  );
}
