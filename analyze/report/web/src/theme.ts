// The page's colours live in report.css as custom properties, one set per theme. Canvases cannot use them
// directly, so this reads them, remembers them, and says when they changed.

type Listener = () => void;

const listeners = new Set<Listener>();
let cache = new Map<string, string>();
let printing = false;

/** The value of a custom property, such as color("--ink"). */
export function color(name: string): string {
  let value = cache.get(name);
  if (value === undefined) {
    value = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    cache.set(name, value);
  }
  return value;
}

/** Number of different series colours; see --s0 and so on in report.css. */
export const seriesColors = 7;

/** The colour of a series. */
export function seriesColor(index: number): string {
  return color(`--s${index % seriesColors}`);
}

/** Calls f after each change of theme. */
export function onThemeChange(f: Listener): void {
  listeners.add(f);
}

function changed(): void {
  cache = new Map();
  for (const f of listeners) f();
}

const preferDark = matchMedia("(prefers-color-scheme: dark)");

function chosen(): "light" | "dark" {
  const set = document.documentElement.dataset["theme"];
  if (set === "light" || set === "dark") return set;
  return preferDark.matches ? "dark" : "light";
}

/** Paper is white: while printing, the light colours hold, whatever the screen shows. */
export function setPrinting(on: boolean): void {
  if (on === printing) return;
  printing = on;
  document.documentElement.classList.toggle("printing", on);
  changed();
}

/** Makes button switch between light and dark. The choice outlives a reload where the browser lets it. */
export function installToggle(button: HTMLButtonElement): void {
  const key = "parley-report-theme";
  const label = (): void => {
    button.textContent = chosen() === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", `${button.textContent} colours`);
  };
  try {
    const kept = localStorage.getItem(key);
    if (kept === "light" || kept === "dark") document.documentElement.dataset["theme"] = kept;
  } catch {
    // Storage is off for files in some browsers; the system's preference holds then.
  }
  button.addEventListener("click", () => {
    const next = chosen() === "dark" ? "light" : "dark";
    document.documentElement.dataset["theme"] = next;
    try {
      localStorage.setItem(key, next);
    } catch {
      // As above.
    }
    label();
    changed();
  });
  preferDark.addEventListener("change", () => {
    label();
    changed();
  });
  label();
  cache = new Map();
}
