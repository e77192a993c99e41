// What this browser remembers: the name, the theme and the list of rooms per device; messages and
// own ids per tab. Storage may be blocked or full: then the page works without memory.

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
const ROOMS = "sockeye.rooms";
const TAB = "sockeye.tab";

export function loadName(): string {
  return read(localStorageOrNone(), NAME) ?? "";
}

export function saveName(name: string): void {
  write(localStorageOrNone(), NAME, name);
}

export function loadRoomNames(): string[] {
  const names = parse(read(localStorageOrNone(), ROOMS));
  return Array.isArray(names) ? names.filter((name) => typeof name === "string") : [];
}

export function saveRoomNames(names: string[]): void {
  write(localStorageOrNone(), ROOMS, JSON.stringify(names));
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
