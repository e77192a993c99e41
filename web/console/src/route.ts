// Places in the page: `#/sessions?user=ada`, `#/session/ID`.

export interface Route {
  page: string;
  /** What stands behind the page's name. */
  rest: string;
  query: URLSearchParams;
}

export function readRoute(hash = location.hash): Route {
  const [path = "", search = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [page = "", rest = ""] = path.split(/\/(.*)/s);
  return { page: page || "overview", rest: decode(rest), query: new URLSearchParams(search) };
}

export function hrefTo(page: string, query: Record<string, string> = {}): string {
  const filled = Object.entries(query).filter(([, value]) => value !== "");
  const search = new URLSearchParams(filled).toString();
  return `#/${page}${search && `?${search}`}`;
}

/** `node`: another one than that which serves the page. */
export const sessionHref = (id: string, node?: number): string =>
  hrefTo(`session/${encodeURIComponent(id)}`, node === undefined ? {} : { node: String(node) });

export const roomHref = (namespace: string, room: string): string =>
  hrefTo("rooms", { namespace, room });

/** Keeps what a form asks for in the address, without opening the page again. */
export function rememberQuery(page: string, query: Record<string, string>): void {
  history.replaceState(null, "", hrefTo(page, query));
}

/** A path of the API with its parameters; empty ones are left out. */
export function callPath(path: string, query: Record<string, string | number>): string {
  const filled = Object.entries(query).filter(([, value]) => value !== "");
  return `${path}?${new URLSearchParams(filled.map(([name, value]) => [name, String(value)]))}`;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
