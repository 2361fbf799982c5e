// The report's script: reads the embedded data, builds the plots, and gives the tables their buttons.
// Everything that needs no drawing (verdict, tables, configuration) is in the page already.

import "./sharp";
import "./report.css";
import { copyButton, tableRows } from "./csv";
import { embedded, type Plots, type Result } from "./data";
import { drainCut, sections } from "./figures";
import { Plot, plots } from "./plot";
import { installToggle, onThemeChange, setPrinting } from "./theme";

function tables(): void {
  for (const holder of document.querySelectorAll<HTMLElement>(".table")) {
    const table = holder.querySelector("table");
    const head = holder.querySelector(".table-head");
    if (table && head) {
      const title = head.querySelector("h3")?.textContent ?? "table";
      head.append(copyButton(title, () => tableRows(table)));
    }
  }
}

function draw(): void {
  const data = embedded<Plots>("parley-plots");
  const result = embedded<Result>("parley-result");
  for (const [id, { specs, note }] of sections(data, result)) {
    const section = document.getElementById(id);
    const host = section?.querySelector(".plots");
    if (!section || !host) continue;
    for (const spec of specs) {
      const plot = new Plot(spec);
      host.append(plot.figure);
    }
    if (note !== undefined) {
      const p = document.createElement("p");
      p.className = "lead after";
      p.textContent = note;
      host.after(p);
    }
    if (specs.length > 0) {
      section.hidden = false;
      document.querySelector(`nav a[href="#${id}"]`)?.removeAttribute("hidden");
    }
  }
  const cut = drainCut(data.runs);
  const first = plots().find((plot) => plot.spec.group === "time");
  if (cut !== null && first) {
    first.zoomTo(0, cut);
    const help = first.figure.querySelector("figcaption p");
    if (help) help.textContent += " The end of the run, when load was no longer kept up, is cut off here: reset the zoom to see it.";
  }
  drawLater();
}

/** Draws the plots that are in sight, and the others one by one while nothing else is to be done. */
function drawLater(): void {
  const near = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        near.unobserve(entry.target);
        plots().find((plot) => plot.figure === entry.target)?.start();
      }
    },
    { rootMargin: "300px" },
  );
  for (const plot of plots()) near.observe(plot.figure);
  const rest = [...plots()];
  const step = (left: () => number): void => {
    do {
      const plot = rest.shift();
      if (!plot) {
        document.documentElement.dataset["drawn"] = "true";
        return;
      }
      plot.start();
    } while (left() > 10);
    idle(step);
  };
  idle(step);
}

/** Calls f, with the milliseconds that are left to it, when nothing else is to be done. */
function idle(f: (left: () => number) => void): void {
  if (typeof requestIdleCallback === "function") requestIdleCallback((d) => f(() => d.timeRemaining()), { timeout: 300 });
  else setTimeout(() => f(() => 0), 20); // Safari has none
}

function refit(): void {
  for (const plot of plots()) plot.fit();
}

/** Paper shows everything: what is folded, and what is not drawn yet. */
function print(on: boolean): void {
  setPrinting(on);
  if (on) for (const fold of document.querySelectorAll("details")) fold.open = true;
  for (const plot of plots()) plot.start();
  refit();
}

const toggle = document.getElementById("theme");
if (toggle instanceof HTMLButtonElement) {
  toggle.hidden = false;
  installToggle(toggle);
}
onThemeChange(() => {
  for (const plot of plots()) plot.redraw();
});
tables();
draw();
addEventListener("beforeprint", () => print(true));
addEventListener("afterprint", () => print(false));
matchMedia("print").addEventListener("change", (e) => print(e.matches));
document.documentElement.dataset["ready"] = "true";
