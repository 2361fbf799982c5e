// One plot: a figure with a title, a line that says how to read it, tools, a legend that doubles as the
// read-out, and a uPlot canvas.

import uPlot from "uplot";
import { type Cell, copyButton, say } from "./csv";
import { clock, number, tick, withUnit } from "./format";
import { color, seriesColor } from "./theme";

export type Values = (number | null)[];

export interface Series {
  label: string;
  values: Values;
  color: number;
  /** line (the default), step (holds until the next value), points, or both: line with points. */
  kind?: "line" | "step" | "points" | "both";
  dash?: boolean;
  fill?: boolean;
  /** Diameter of points in CSS pixels. */
  size?: number;
  hidden?: boolean;
  /** Measured on the axis at the right. */
  right?: boolean;
  /** An interval around the values, drawn as a band. */
  low?: Values;
  high?: Values;
}

export interface Axis {
  label: string;
  unit: string;
}

export interface Spec {
  id: string;
  title: string;
  help: string;
  x: Axis & {
    values: number[];
    /** Logarithmic to begin with. */
    log?: boolean;
    /** What the plot shows unzoomed; else the extent of the values. */
    range?: [number, number];
    /** Whole numbers only on the axis. */
    whole?: boolean;
  };
  y: Axis & {
    /** Offers a button that makes the scale logarithmic. */
    canLog?: boolean;
    log?: boolean;
    max?: number;
  };
  /** A second axis, at the right. */
  right?: Axis;
  /** Values of the x axis that are named: percentiles, objectives. */
  marks?: { x: number; text: string; color: number; dash?: boolean }[];
  series: Series[];
  height: number;
  /** Plots of one group share their cursor and their zoom. */
  group?: string;
  /** Draws more than the series, below them. */
  draw?: (u: uPlot) => void;
  /** What is at a value of the x axis, by name. */
  named?: (x: number) => string | undefined;
  /** Whether the points at a value of the x axis have a ring around them. */
  rings?: (x: number) => boolean;
  /** A click that is no drag, at CSS pixels of the plot. */
  click?: (u: uPlot, left: number, top: number) => void;
  /** The read-out in place of the series' values. */
  readout?: (u: uPlot, left: number, top: number) => string | null;
  /** Rows to copy, if not simply x and the series. */
  rows?: () => Cell[][];
  /** Legend entries that are no series. */
  keys?: { label: string; css: string }[];
  /** draw dims a part of the plot, and keys say so. */
  shaded?: boolean;
  /** Text beside points. */
  notes?: { x: number | null; y: number | null; text: string }[];
  /** Zooming by drag also zooms the y axis. */
  zoomY?: boolean;
  yRange?: [number, number];
}

/** The colour number of what failed; the others are the series' hues. */
export const failColor = 7;

/** Width of the y axis in CSS pixels: the same everywhere, so that plots below each other line up. */
const axisWidth = 64;

const groups = new Map<string, Set<Plot>>();
const all: Plot[] = [];

/** Every plot of the page. */
export function plots(): readonly Plot[] {
  return all;
}

export class Plot {
  readonly figure: HTMLElement;
  private readonly host: HTMLDivElement;
  private readonly stamp: HTMLSpanElement;
  private readonly reset: HTMLButtonElement;
  private readonly entries: { button: HTMLButtonElement; value: HTMLSpanElement; index: number; bands: number[] }[] = [];
  private readonly hidden = new Set<number>();
  private log: { x: boolean; y: boolean };
  private columns: Values[] = [];
  private bands: uPlot.Band[] = [];
  private zoom: [number, number] | null = null;
  u: uPlot | null = null;

  constructor(readonly spec: Spec) {
    this.log = { x: spec.x.log ?? false, y: spec.y.log ?? false };
    const figure = document.createElement("figure");
    figure.className = "plot";
    figure.id = `plot-${spec.id}`;

    const caption = document.createElement("figcaption");
    const title = document.createElement("h3");
    title.textContent = spec.title;
    const help = document.createElement("p");
    help.textContent = spec.help;
    caption.append(title, help);

    const tools = document.createElement("div");
    tools.className = "tools";
    this.reset = document.createElement("button");
    this.reset.type = "button";
    this.reset.className = "tool reset";
    this.reset.textContent = "Reset zoom";
    this.reset.setAttribute("aria-label", `Reset zoom: ${spec.title}`);
    this.reset.hidden = true;
    this.reset.addEventListener("click", () => this.resetZoom());
    tools.append(this.reset);
    if (spec.y.canLog) tools.append(this.logButton("y"));
    if (spec.x.log !== undefined) tools.append(this.logButton("x"));
    tools.append(copyButton(spec.title, spec.rows ?? (() => this.rows())));

    const head = document.createElement("div");
    head.className = "plot-head";
    head.append(caption, tools);

    const legend = document.createElement("div");
    legend.className = "legend";
    this.stamp = document.createElement("span");
    this.stamp.className = "stamp";

    this.host = document.createElement("div");
    this.host.className = "canvas";
    this.host.style.minHeight = `${spec.height}px`; // the page keeps its layout while plots are drawn
    this.host.tabIndex = 0;
    this.host.setAttribute("role", "img");
    this.host.setAttribute("aria-label", this.describe());
    this.host.addEventListener("keydown", (e) => this.key(e));

    this.assemble();
    for (const [i, s] of spec.series.entries()) {
      if (s.label !== "") legend.append(this.legendEntry(s, i));
    }
    for (const key of spec.keys ?? []) {
      const item = document.createElement("span");
      item.className = "key";
      const swatch = document.createElement("i");
      swatch.className = `swatch ${key.css}`;
      item.append(swatch, key.label);
      legend.append(item);
    }
    legend.append(this.stamp);
    figure.append(head, legend, this.host);
    this.figure = figure;

    all.push(this);
    if (spec.group) {
      const members = groups.get(spec.group) ?? new Set<Plot>();
      members.add(this);
      groups.set(spec.group, members);
    }
  }

  /** Draws the plot, if it is not drawn yet. Its figure must be in the page. */
  start(): void {
    if (this.u) return;
    this.create();
    let width = this.host.clientWidth;
    new ResizeObserver(() => {
      if (this.host.clientWidth !== width) {
        width = this.host.clientWidth;
        this.fit();
      }
    }).observe(this.host);
  }

  /** Takes the width that the page gives now. */
  fit(): void {
    const width = this.host.clientWidth;
    if (this.u && width > 0) this.u.setSize({ width, height: this.spec.height });
  }

  redraw(): void {
    this.u?.redraw(false, true);
  }

  private logButton(axis: "x" | "y"): HTMLButtonElement {
    const button = document.createElement("button");
    button.type = "button";
    button.className = `tool log-${axis}`;
    const both = this.spec.y.canLog === true && this.spec.x.log !== undefined;
    button.textContent = both ? `Log ${axis}` : "Log scale";
    button.setAttribute("aria-label", `${button.textContent} (${axis} axis): ${this.spec.title}`);
    button.setAttribute("aria-pressed", String(this.log[axis]));
    button.addEventListener("click", () => {
      this.log[axis] = !this.log[axis];
      button.setAttribute("aria-pressed", String(this.log[axis]));
      this.create();
    });
    return button;
  }

  private legendEntry(s: Series, i: number): HTMLButtonElement {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "entry";
    const swatch = document.createElement("i");
    swatch.className = `swatch c${s.color}${s.kind === "points" ? " dot" : ""}${s.dash ? " dashed" : ""}`;
    const name = document.createElement("span");
    name.textContent = s.label;
    const value = document.createElement("span");
    value.className = "value";
    button.append(swatch, name, value);
    const show = (on: boolean): void => {
      button.setAttribute("aria-pressed", String(on));
      if (on) this.hidden.delete(i);
      else this.hidden.add(i);
    };
    show(!s.hidden);
    const entry = this.entries[i];
    if (entry) {
      entry.button = button;
      entry.value = value;
    }
    button.addEventListener("click", () => {
      const on = this.hidden.has(i);
      show(on);
      for (const index of this.indices(i)) this.u?.setSeries(index, { show: on });
    });
    return button;
  }

  private indices(i: number): number[] {
    const entry = this.entries[i];
    return entry ? [entry.index, ...entry.bands] : [];
  }

  /** Lays the series and their bands out as uPlot's columns. */
  private assemble(): void {
    this.columns = [this.spec.x.values];
    this.bands = [];
    const none = document.createElement("button");
    for (const s of this.spec.series) {
      const bands: number[] = [];
      if (s.low && s.high) {
        const high = this.columns.push(s.high) - 1;
        const low = this.columns.push(s.low) - 1;
        bands.push(high, low);
        this.bands.push({ series: [high, low], fill: () => tint(paint(s.color), "28") });
      }
      const index = this.columns.push(s.values) - 1;
      this.entries.push({ button: none, value: none, index, bands });
    }
  }

  private create(): void {
    this.u?.destroy();
    const spec = this.spec;
    const series: uPlot.Series[] = [{}];
    for (const [i, s] of spec.series.entries()) {
      const show = !this.hidden.has(i);
      if (s.low && s.high) {
        const edge: uPlot.Series = { show, stroke: "transparent", width: 0, points: { show: false }, spanGaps: true };
        series.push(edge, { ...edge });
      }
      series.push(this.series(s, show));
    }
    // A logarithmic axis has no place for 0. A distribution function loses nothing there: its height at
    // the first positive value says how much lies below.
    let data = this.columns;
    if (this.log.x) {
      const keep = this.spec.x.values.map((v) => v > 0);
      data = data.map((column) => column.filter((_, i) => keep[i]));
    }
    if (this.log.y) {
      data = data.map((column, i) => (i === 0 ? column : column.map((v) => (v !== null && v > 0 ? v : null))));
    }
    const opts: uPlot.Options = {
      width: Math.max(this.host.clientWidth, 160),
      height: spec.height,
      padding: [10, 14, 0, 0],
      legend: { show: false },
      series,
      bands: this.bands,
      scales: {
        x: { time: false, distr: this.log.x ? 3 : 1, range: (u, min, max) => this.xScale(u, min, max) },
        y: { distr: this.log.y ? 3 : 1, range: (_, min, max) => this.yRange(min, max) },
        ...(spec.right ? { right: { range: (_: uPlot, _min: number | null, max: number | null): [number, number] => [0, Math.max(max ?? 0, 1) * 1.06] } } : {}),
      },
      axes: [this.axis("x"), this.axis("y"), ...(spec.right ? [this.rightAxis(spec.right)] : [])],
      cursor: {
        drag: { x: true, y: spec.zoomY ?? false, uni: spec.zoomY ? 24 : 1e9, dist: 4 },
        points: { size: 7, width: 2 },
        focus: { prox: -1 },
        dataIdx: (u, i, nearest) => nearestValue(u, i, nearest),
        ...(spec.group
          ? { sync: { key: spec.group, setSeries: false, scales: ["x", null], filters: { pub: isMove, sub: isMove } } }
          : {}),
      },
      hooks: {
        setCursor: [(u) => this.readOut(u)],
        setScale: [(u, key) => this.scaled(u, key)],
        ...(spec.draw ? { drawAxes: [spec.draw] } : {}),
        draw: [(u) => drawNotes(u, spec.notes ?? []), (u) => drawMarks(u, spec.marks ?? []), (u) => drawRings(u, spec.rings)],
      },
    };
    this.host.replaceChildren();
    this.u = new uPlot(opts, data as uPlot.AlignedData, this.host);
    this.u.over.addEventListener("dblclick", () => this.resetZoom());
    const { click } = spec;
    if (click) {
      let down = -1;
      this.u.over.addEventListener("mousedown", (e) => (down = e.offsetX));
      this.u.over.addEventListener("click", (e) => {
        if (this.u && Math.abs(e.offsetX - down) < 4) click(this.u, e.offsetX, e.offsetY);
      });
    }
    this.readOut(this.u);
  }

  private series(s: Series, show: boolean): uPlot.Series {
    const stroke = (): string => paint(s.color);
    const base: uPlot.Series = { show, stroke, width: 1.75, spanGaps: true, label: s.label, points: { show: false } };
    if (s.right) base.scale = "right";
    if (s.dash) base.dash = [6 * devicePixelRatio, 4 * devicePixelRatio];
    if (s.fill) base.fill = () => tint(paint(s.color), "1f");
    switch (s.kind ?? "line") {
      case "points":
        base.paths = () => null;
        base.points = { show: true, size: s.size ?? 4, width: 0, fill: () => tint(paint(s.color), "a0"), stroke };
        break;
      case "both":
        base.points = { show: true, size: 6, width: 1.5, fill: () => color("--card"), stroke };
        break;
      case "step": {
        const stepped = uPlot.paths.stepped?.({ align: 1 });
        if (stepped) base.paths = stepped;
        base.spanGaps = false;
        break;
      }
    }
    return base;
  }

  private domain(): [number, number] {
    const { values, range } = this.spec.x;
    if (range) return range;
    const first = this.log.x ? values.find((v) => v > 0) : values[0];
    return [first ?? 0, values[values.length - 1] ?? 1];
  }

  /** uPlot asks for the range of its data when it begins, and later with what a drag or setScale wants. */
  private xScale(u: uPlot, min: number | null, max: number | null): [number, number] {
    const xs = u.data[0];
    const begins = min === null || max === null || (min === xs[0] && max === xs[xs.length - 1]);
    return begins ? this.xRange() : [min, max];
  }

  private xRange(): [number, number] {
    let [low, high] = this.domain();
    if (this.zoom && !(this.log.x && this.zoom[0] <= 0)) [low, high] = this.zoom;
    if (low === high) {
      if (this.log.x) return [low / 2, high * 2];
      low -= 0.5;
      high += 0.5;
    }
    return [low, high];
  }

  private yRange(min: number | null, max: number | null): [number, number] {
    const { spec } = this;
    if (spec.yRange) return spec.yRange;
    if (this.log.y) {
      if (min === null || max === null || !(min > 0)) return [1, 10];
      return uPlot.rangeLog(min, max, 10, false) as [number, number];
    }
    if (spec.y.max !== undefined) return [0, spec.y.max];
    if (max === null || max <= 0) return [min !== null && min < 0 ? min * 1.05 : 0, 1];
    return [min !== null && min < 0 ? min * 1.05 : 0, max * 1.06];
  }

  private axis(which: "x" | "y"): uPlot.Axis {
    const { label, unit } = this.spec[which];
    const grid = { stroke: () => color("--grid"), width: 1 };
    const axis: uPlot.Axis = {
      stroke: () => color("--muted"),
      font: `11px ${color("--sans")}`,
      labelFont: `11px ${color("--sans")}`,
      grid,
      ticks: { ...grid, size: 4 },
      gap: 5,
      ...(this.log[which]
        ? { splits: (u: uPlot) => logSplits(u, which), filter: (_: uPlot, splits: number[]) => splits }
        : {}),
      values: (_, splits) => tickLabels(splits, unit, which === "x" ? this.spec : null),
    };
    if (which === "y") {
      axis.size = axisWidth;
      axis.label = axisLabel(label, unit);
      axis.labelSize = 18;
      axis.labelGap = 0;
      axis.space = 34;
    } else {
      axis.size = 28;
      axis.label = this.spec.group === "time" ? label : axisLabel(label, unit);
      axis.labelSize = 18;
      axis.labelGap = 0;
      axis.space = 64;
      if (this.spec.group === "time") axis.incrs = timeSteps;
      if (this.spec.x.whole) axis.incrs = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000];
    }
    return axis;
  }

  private rightAxis(axis: Axis): uPlot.Axis {
    return { ...this.axis("y"), scale: "right", side: 1, grid: { show: false }, label: axisLabel(axis.label, axis.unit), values: (_, splits) => tickLabels(splits, axis.unit, null) };
  }

  /** What a series is measured in. */
  private unit(s: Series): string {
    return (s.right ? this.spec.right?.unit : undefined) ?? this.spec.y.unit;
  }

  private scaled(u: uPlot, key: string): void {
    if (key === "y" && this.spec.zoomY) this.reset.hidden = !this.zoomed();
    if (key !== "x" || u !== this.u) return;
    const { min, max } = u.scales["x"] ?? {};
    if (min === undefined || max === undefined) return;
    const [low, high] = this.xRange();
    const near = (high - low) * 1e-9;
    if (Math.abs(min - low) <= near && Math.abs(max - high) <= near) return; // what it shows already
    for (const plot of this.members()) plot.take([min, max], plot !== this);
  }

  private zoomed(): boolean {
    const y = this.u?.scales["y"];
    const range = this.spec.yRange;
    return this.zoom !== null || (range !== undefined && y !== undefined && (y.min !== range[0] || y.max !== range[1]));
  }

  /** Takes a zoom that another plot of the group, or this one, has made. */
  private take(zoom: [number, number] | null, apply: boolean): void {
    this.zoom = zoom;
    if (zoom) this.figure.dataset["zoom"] = zoom.join(" ");
    else delete this.figure.dataset["zoom"];
    this.reset.hidden = !this.zoomed();
    if (!apply || !this.u) return;
    const [min, max] = this.xRange();
    this.u.setScale("x", { min, max });
  }

  private members(): Iterable<Plot> {
    return (this.spec.group && groups.get(this.spec.group)) || [this];
  }

  /** Shows everything again, in all plots of the group. */
  resetZoom(): void {
    for (const plot of this.members()) {
      plot.take(null, true);
      if (plot.spec.yRange && plot.u) plot.u.setScale("y", { min: plot.spec.yRange[0], max: plot.spec.yRange[1] });
    }
  }

  /** Shows [min, max] of the x axis. */
  zoomTo(min: number, max: number): void {
    const [low, high] = this.domain();
    const whole = min <= low && max >= high;
    for (const plot of this.members()) plot.take(whole ? null : [Math.max(min, low), Math.min(max, high)], true);
  }

  private readOut(u: uPlot): void {
    const { left, top, idx } = u.cursor;
    const inside = left !== undefined && left !== null && left >= 0;
    if (this.spec.readout) {
      this.stamp.textContent = (inside && this.spec.readout(u, left, top ?? -1)) || "";
      return;
    }
    const x = inside && idx !== null && idx !== undefined ? (u.data[0][idx] ?? null) : null;
    const name = x === null ? undefined : this.spec.named?.(x);
    this.stamp.textContent = x === null ? "" : this.xText(x) + (name ? `: ${name}` : "");
    for (const [i, entry] of this.entries.entries()) {
      let text = "";
      const at = inside ? u.cursor.idxs?.[entry.index] : null;
      if (at !== null && at !== undefined) {
        const v = u.data[entry.index]?.[at];
        if (v !== null && v !== undefined) text = withUnit(v, this.unit(this.spec.series[i] as Series));
      }
      entry.value.textContent = text;
    }
  }

  private xText(x: number): string {
    const { label, unit, whole } = this.spec.x;
    if (this.spec.group === "time") return `at ${number(x)} s`;
    return `${label.toLowerCase()} ${whole ? number(x) : withUnit(x, unit)}`;
  }

  private key(e: KeyboardEvent): void {
    const u = this.u;
    if (!u || e.ctrlKey || e.metaKey || e.altKey) return;
    const xs = u.data[0];
    const min = u.scales["x"]?.min ?? 0;
    const max = u.scales["x"]?.max ?? 1;
    const step = e.shiftKey ? 10 : 1;
    let idx = u.cursor.idx ?? null;
    switch (e.key) {
      case "ArrowRight":
      case "ArrowLeft": {
        const way = e.key === "ArrowRight" ? step : -step;
        idx = idx === null ? u.valToIdx(min) : Math.min(Math.max(idx + way, 0), xs.length - 1);
        break;
      }
      case "Home":
        idx = u.valToIdx(min);
        break;
      case "End":
        idx = u.valToIdx(max);
        break;
      case "+":
      case "=":
      case "-": {
        const at = idx === null ? (min + max) / 2 : (xs[idx] ?? (min + max) / 2);
        const f = e.key === "-" ? 2 : 0.5;
        this.zoomTo(at - (at - min) * f, at + (max - at) * f);
        e.preventDefault();
        return;
      }
      case "Enter":
        if (idx !== null) this.spec.click?.(u, u.valToPos(xs[idx] ?? 0, "x"), u.cursor.top ?? 0);
        return;
      case "Escape":
      case "0":
        this.resetZoom();
        e.preventDefault();
        return;
      default:
        return;
    }
    e.preventDefault();
    const x = xs[idx];
    if (x === undefined) return;
    for (const plot of this.members()) {
      const other = plot.u;
      if (other) other.setCursor({ left: other.valToPos(x, "x"), top: other.over.clientHeight / 2 });
    }
    say(this.spoken(idx));
  }

  private spoken(idx: number): string {
    const x = this.u?.data[0][idx];
    const parts = [x === undefined ? "" : this.xText(x)];
    const name = x === undefined ? undefined : this.spec.named?.(x);
    if (name) parts.push(name);
    for (const [i, s] of this.spec.series.entries()) {
      const v = this.u?.data[this.entries[i]?.index ?? 0]?.[idx];
      if (s.label !== "" && v !== null && v !== undefined) parts.push(`${s.label} ${withUnit(v, this.unit(s))}`);
    }
    return parts.join(", ");
  }

  private describe(): string {
    const { spec } = this;
    const names = spec.series.map((s) => s.label).filter((l) => l !== "");
    const parts = [`${spec.title}. ${spec.help}`];
    if (names.length > 0) parts.push(`Series: ${names.join(", ")}.`);
    if (spec.marks) parts.push(`Marked: ${spec.marks.map((m) => `${m.text} ${withUnit(m.x, spec.x.unit)}`).join(", ")}.`);
    parts.push("Arrow keys move the cursor, plus and minus zoom, Escape shows everything.");
    return parts.join(" ");
  }

  private rows(): Cell[][] {
    const { spec } = this;
    const head: Cell[] = [spec.group === "time" ? "Time (s)" : axisLabel(spec.x.label, spec.x.unit)];
    for (const s of spec.series) {
      const axis = (s.right && spec.right) || spec.y;
      const name = `${s.label} (${axisLabel(axis.label, axis.unit)})`;
      head.push(name);
      if (s.low && s.high) head.push(`${name} low`, `${name} high`);
    }
    const rows: Cell[][] = [head];
    for (const [i, x] of spec.x.values.entries()) {
      const row: Cell[] = [x];
      for (const s of spec.series) {
        row.push(s.values[i]);
        if (s.low && s.high) row.push(s.low[i], s.high[i]);
      }
      rows.push(row);
    }
    return rows;
  }
}

function isMove(type: string): boolean {
  return type === "mousemove" || type === "mouseleave";
}

/** The nearest value of a series with gaps, if it is near enough to be meant. */
function nearestValue(u: uPlot, series: number, nearest: number): number | null {
  const column = u.data[series];
  const xs = u.data[0];
  if (series === 0 || !column || (column[nearest] ?? null) !== null) return nearest;
  const near = 14;
  const at = u.cursor.left ?? -1;
  for (let d = 1; d < 400; d++) {
    let open = false;
    for (const i of [nearest - d, nearest + d]) {
      const x = xs[i];
      if (x === undefined || Math.abs(u.valToPos(x, "x") - at) > near) continue;
      open = true;
      if ((column[i] ?? null) !== null) return i;
    }
    if (!open) return null;
  }
  return null;
}

/** An axis label with its unit: "TTFT (ms)". */
export function axisLabel(label: string, unit: string): string {
  if (label === "") return unit === "share" ? "%" : unit;
  switch (unit) {
    case "":
    case "count":
    case "turn":
      return label;
    case "share":
      return `${label} (%)`;
    default:
      return `${label} (${unit})`;
  }
}

/** Steps of a time axis in seconds that read well as m:ss. */
const timeSteps = [
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400,
];

/** Grid lines of a logarithmic axis: powers of ten with 2 and 5 between, or finer where that gives too few. */
function logSplits(u: uPlot, axis: "x" | "y"): number[] {
  const { min, max } = u.scales[axis] ?? {};
  if (min === undefined || max === undefined || min === null || max === null || !(min > 0)) return [];
  const decades = Math.log10(max / min);
  const room = (axis === "x" ? u.bbox.width : u.bbox.height) / devicePixelRatio / (axis === "x" ? 56 : 26);
  const choices = [[1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9], [1, 2, 3, 4, 5, 7], [1, 2, 5], [1, 3], [1]];
  const digits = choices.find((c) => c.length * decades <= room) ?? [1];
  const out: number[] = [];
  for (let e = Math.floor(Math.log10(min)); e <= Math.ceil(Math.log10(max)); e++) {
    for (const d of digits) {
      const v = Number(`${d}e${e}`);
      if (v >= min && v <= max) out.push(v);
    }
  }
  return out;
}

/** Labels of an axis; spec is given for an x axis. */
function tickLabels(splits: number[], unit: string, spec: Spec | null): string[] {
  const step = splits.length > 1 ? Math.abs((splits[1] ?? 0) - (splits[0] ?? 0)) : 1;
  const whole = spec?.x.whole === true;
  const time = spec?.group === "time" ? (spec.x.range?.[1] ?? 0) : 0;
  return splits.map((v) => {
    if (v === null || v === undefined) return "";
    if (whole && !Number.isInteger(v)) return "";
    if (unit === "share") return tick(v * 100);
    if (time >= 180) return clock(v, step, time);
    if (unit === "bytes") return withUnit(v, "bytes");
    if (Math.abs(v) >= 1e6) return `${tick(v / 1e6)}M`;
    if (Math.abs(v) >= 1e5) return `${tick(v / 1e3)}k`;
    return tick(v);
  });
}

/** Writes text beside points: where there is room, or not at all. */
function drawNotes(u: uPlot, notes: NonNullable<Spec["notes"]>): void {
  const { ctx, bbox } = u;
  const px = devicePixelRatio;
  const height = 13 * px;
  const gap = 8 * px;
  const taken: { left: number; top: number; right: number; bottom: number }[] = [];
  ctx.save();
  ctx.font = `${11 * px}px ${color("--sans")}`;
  ctx.fillStyle = color("--muted");
  ctx.textAlign = "left";
  ctx.textBaseline = "top";
  for (const { x, y, text } of notes) {
    if (x === null || y === null) continue;
    const at = { x: u.valToPos(x, "x", true), y: u.valToPos(y, "y", true) };
    const width = ctx.measureText(text).width;
    const places = [
      [at.x + gap, at.y - height / 2],
      [at.x - gap - width, at.y - height / 2],
      [at.x - width / 2, at.y + gap],
      [at.x - width / 2, at.y - gap - height],
    ] as const;
    for (const [left, top] of places) {
      const box = { left, top, right: left + width, bottom: top + height };
      const inside = left >= bbox.left && box.right <= bbox.left + bbox.width && top >= bbox.top && box.bottom <= bbox.top + bbox.height;
      const free = taken.every((t) => box.right < t.left || box.left > t.right || box.bottom < t.top || box.top > t.bottom);
      if (!inside || !free) continue;
      taken.push(box);
      ctx.fillText(text, left, top);
      break;
    }
  }
  ctx.restore();
}

/** Draws named values of the x axis as lines, each with its name where there is room. */
function drawMarks(u: uPlot, marks: NonNullable<Spec["marks"]>): void {
  const { ctx, bbox } = u;
  const px = devicePixelRatio;
  const taken: [number, number, number][] = [];
  ctx.save();
  ctx.font = `${11 * px}px ${color("--sans")}`;
  ctx.textBaseline = "top";
  ctx.textAlign = "left";
  ctx.lineWidth = px;
  for (const { x, text, color: hue, dash } of marks) {
    const at = u.valToPos(x, "x", true);
    if (at < bbox.left || at > bbox.left + bbox.width) continue;
    ctx.strokeStyle = paint(hue);
    ctx.fillStyle = paint(hue);
    ctx.setLineDash(dash ? [4 * px, 3 * px] : []);
    ctx.globalAlpha = 0.75;
    ctx.beginPath();
    ctx.moveTo(at, bbox.top);
    ctx.lineTo(at, bbox.top + bbox.height);
    ctx.stroke();
    ctx.globalAlpha = 1;
    const width = ctx.measureText(text).width;
    const left = at + 4 * px + width > bbox.left + bbox.width ? at - 4 * px - width : at + 4 * px;
    for (let row = 0; row < 6; row++) {
      if (taken.some(([a, b, r]) => r === row && left < b + 4 * px && left + width > a - 4 * px)) continue;
      taken.push([left, left + width, row]);
      ctx.fillText(text, left, bbox.top + (4 + 14 * row) * px);
      break;
    }
  }
  ctx.restore();
}

/** Draws rings around the points of the first series that are asked for. */
function drawRings(u: uPlot, wanted: Spec["rings"]): void {
  if (!wanted) return;
  const { ctx } = u;
  ctx.save();
  ctx.strokeStyle = color("--ink");
  ctx.lineWidth = 1.5 * devicePixelRatio;
  for (const [i, x] of u.data[0].entries()) {
    const y = u.data[1]?.[i];
    if (y === null || y === undefined || !wanted(x)) continue;
    ctx.beginPath();
    ctx.arc(u.valToPos(x, "x", true), u.valToPos(y, "y", true), 5 * devicePixelRatio, 0, 2 * Math.PI);
    ctx.stroke();
  }
  ctx.restore();
}

function paint(index: number): string {
  return index === failColor ? color("--bad") : seriesColor(index);
}

/** A #rrggbb colour with an alpha of two hex digits. */
export function tint(hex: string, alpha: string): string {
  return /^#[0-9a-f]{6}$/i.test(hex) ? hex + alpha : hex;
}
