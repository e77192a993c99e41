// Dark or light: the reader's choice if there is one, else what the system asks for.

export type Theme = "light" | "dark";

const KEY = "sockeye.theme";
const BAR_COLOURS: Record<Theme, string> = { light: "#fbf9f7", dark: "#19181b" };
const system = matchMedia("(prefers-color-scheme: dark)");

export function currentTheme(): Theme {
  const chosen = stored();
  if (chosen === "light" || chosen === "dark") return chosen;
  return system.matches ? "dark" : "light";
}

export function applyTheme(): Theme {
  const theme = currentTheme();
  document.documentElement.dataset.theme = theme;
  document.querySelector('meta[name="theme-color"]')?.setAttribute("content", BAR_COLOURS[theme]);
  return theme;
}

/** Choosing what the system asks for anyway means following the system again. */
export function toggleTheme(): Theme {
  const theme: Theme = currentTheme() === "dark" ? "light" : "dark";
  const followsSystem = (theme === "dark") === system.matches;
  try {
    if (followsSystem) localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, theme);
  } catch {
    // Blocked storage: the choice lasts until the page is left.
    document.documentElement.dataset.theme = theme;
    return theme;
  }
  return applyTheme();
}

export function onSystemTheme(changed: () => void): void {
  system.addEventListener("change", changed);
}

function stored(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}
