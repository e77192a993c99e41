// What this browser remembers: who was here last, and in which rooms; and per tab the name, token,
// messages and own ids. Storage may be blocked or full: then the page works without memory.

export interface StoredRoom {
  name: string;
  messages: unknown[];
  unread: number;
}

export interface StoredTab {
  rooms: StoredRoom[];
  active: string;
  ownIds: string[];
}

const NAME = "sockeye.name";
const TOKEN = "sockeye.token";
const LAST = "sockeye.last";
const TAB = "sockeye.tab";

export interface Visitor {
  name: string;
  rooms: string[];
}

/** Of this tab. */
export function loadName(): string {
  return read(sessionStorageOrNone(), NAME) ?? "";
}

export function saveName(name: string): void {
  write(sessionStorageOrNone(), NAME, name);
}

/** Of this tab. */
export function loadToken(): string | undefined {
  return read(sessionStorageOrNone(), TOKEN);
}

export function saveToken(token: string): void {
  write(sessionStorageOrNone(), TOKEN, token);
}

export function loadLast(): Visitor {
  const last = parse(read(localStorageOrNone(), LAST)) as Partial<Visitor> | undefined;
  const rooms = Array.isArray(last?.rooms) ? last.rooms : [];
  return {
    name: typeof last?.name === "string" ? last.name : "",
    rooms: rooms.filter((room) => typeof room === "string"),
  };
}

export function saveLast(visitor: Visitor): void {
  write(localStorageOrNone(), LAST, JSON.stringify(visitor));
}

export function loadTab(): StoredTab | undefined {
  const tab = parse(read(sessionStorageOrNone(), TAB)) as Partial<StoredTab> | undefined;
  if (!tab || !Array.isArray(tab.rooms) || !Array.isArray(tab.ownIds)) return undefined;
  return { rooms: tab.rooms, ownIds: tab.ownIds, active: String(tab.active) };
}

export function saveTab(tab: StoredTab): void {
  write(sessionStorageOrNone(), TAB, JSON.stringify(tab));
}

function localStorageOrNone(): Storage | undefined {
  try {
    return window.localStorage;
  } catch {
    return undefined;
  }
}

function sessionStorageOrNone(): Storage | undefined {
  try {
    return window.sessionStorage;
  } catch {
    return undefined;
  }
}

function read(storage: Storage | undefined, key: string): string | undefined {
  return storage?.getItem(key) ?? undefined;
}

function write(storage: Storage | undefined, key: string, value: string): void {
  try {
    storage?.setItem(key, value);
  } catch {
    // Quota reached: what is on the screen stays, only the copy for a reload is missing.
  }
}

function parse(text: string | undefined): unknown {
  try {
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}
