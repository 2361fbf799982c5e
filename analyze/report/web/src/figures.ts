// Which plots the report has, and what goes into each. The figures themselves are analyze's; this only
// lays series of several runs over one axis.

import type { Bands, CacheTurn, Num, Plots, Points, Result, RunPlots } from "./data";
import { timeLabel } from "./format";
import { type Bar, choose, chosenConversation, lanesSpec } from "./lanes";
import { failColor, type Series, type Spec, tint } from "./plot";
import { color, seriesColors } from "./theme";

/** What a section says below its heading, if it says more than the page has already. */
export interface Section {
  specs: Spec[];
  note?: string;
}

/** The plots of each section of the page, by the section's id. */
export function sections(plots: Plots, result: Result): Map<string, Section> {
  const runs = plots.runs;
  const out = new Map<string, Spec[]>();
  out.set("first", [...load(runs), ...spread(runs, result)]);
  out.set("sweep", sweep(result));
  out.set("distributions", distributions(runs));
  out.set("conversation", [...along(runs, "by_turn"), ...along(runs, "by_context"), ...cache(runs)]);
  out.set("time", [...overTime(runs), ...perSecond(runs), ...lanes(runs)]);
  const all = telemetry(runs);
  const zero = (spec: Spec): boolean => spec.series.every((s) => s.values.every((v) => v === null || v === 0));
  out.set("telemetry", all.filter((spec) => !zero(spec)));
  const zeros = all.filter(zero).map((spec) => spec.title);
  // Dimmed plots explain the dimming once per section.
  for (const id of ["time", "telemetry"]) for (const spec of (out.get(id) ?? []).slice(1)) if (spec.shaded) delete spec.keys;
  const done = new Map<string, Section>();
  for (const [id, specs] of out) done.set(id, { specs });
  const last = done.get("telemetry");
  if (last && zeros.length > 0) last.note = `Always 0, and so without a plot: ${zeros.join("; ")}.`;
  return done;
}

interface Track {
  x: Num[];
  y: Num[];
  low?: Num[];
  high?: Num[];
  series: Omit<Series, "values" | "low" | "high">;
}

/**
 * Lays tracks with x values of their own over one sorted x column. A track with several values at one x
 * keeps them all, in rows of the same x.
 */
export function join(tracks: Track[]): { x: number[]; series: Series[] } {
  // Each track's points in order of x; the n-th point at the same x within a track gets row (x, n).
  const keys: { x: number; n: number }[] = [];
  const seen = new Map<number, number>();
  const orders: { i: number; x: number; n: number }[][] = [];
  for (const track of tracks) {
    const order: { i: number; x: number; n: number }[] = [];
    for (const [i, x] of track.x.entries()) if (x !== null) order.push({ i, x, n: 0 });
    order.sort((a, b) => a.x - b.x || a.i - b.i);
    for (let k = 1; k < order.length; k++) {
      const here = order[k];
      const before = order[k - 1];
      if (here && before && here.x === before.x) here.n = before.n + 1;
    }
    for (const { x, n } of order) {
      const have = seen.get(x) ?? 0;
      for (let m = have; m <= n; m++) keys.push({ x, n: m });
      if (n + 1 > have) seen.set(x, n + 1);
    }
    orders.push(order);
  }
  keys.sort((a, b) => a.x - b.x || a.n - b.n);
  const firstRow = new Map<number, number>();
  for (const [row, key] of keys.entries()) if (key.n === 0) firstRow.set(key.x, row);

  const series = tracks.map((track, t): Series => {
    const take = (from: Num[]): Num[] => {
      const column: Num[] = new Array<Num>(keys.length).fill(null);
      for (const { i, x, n } of orders[t] ?? []) column[(firstRow.get(x) ?? 0) + n] = from[i] ?? null;
      return column;
    };
    const s: Series = { ...track.series, values: take(track.y) };
    if (track.low && track.high) {
      s.low = take(track.low);
      s.high = take(track.high);
    }
    return s;
  });
  return { x: keys.map((k) => k.x), series };
}

/** The name of a series: the run's where there are several, with the figure's where there are several of those. */
function named(runs: RunPlots[], run: RunPlots, what: string): string {
  if (runs.length === 1) return what;
  return what === "" ? run.label : `${run.label}: ${what}`;
}

/** How a run's main line looks: a hue, and dashes when the hues are used up. */
function look(r: number, dash = false): { color: number; dash: boolean } {
  return { color: r % seriesColors, dash: dash !== r >= seriesColors };
}

const compact = new Intl.NumberFormat("en-US");

function distributions(runs: RunPlots[]): Spec[] {
  const specs: Spec[] = [];
  // Chunk gaps are the ITL of other tools: both are drawn into one plot.
  const together: Record<string, string> = { chunk_gap: "itl" };
  const figures: string[] = [];
  for (const run of runs) for (const c of run.cdfs ?? []) if (!figures.includes(c.figure)) figures.push(c.figure);
  for (const figure of figures) {
    if (together[figure] && figures.includes(together[figure])) continue;
    const names = [figure, ...figures.filter((f) => together[f] === figure)];
    const tracks: Track[] = [];
    let title = figure;
    let unit = "ms";
    let n = 0;
    for (const [r, run] of runs.entries()) {
      for (const [k, name] of names.entries()) {
        const curve = run.cdfs?.find((c) => c.figure === name);
        if (!curve?.value || !curve.share || curve.value.length === 0) continue;
        if (k === 0) {
          title = curve.title;
          unit = curve.unit;
          n += curve.n;
        }
        tracks.push({
          x: curve.value,
          y: curve.share,
          series: {
            label: named(runs, run, names.length > 1 || runs.length === 1 ? curve.title : ""),
            ...(runs.length > 1 ? look(r, k > 0) : { color: k, dash: k > 0 }),
          },
        });
      }
    }
    if (tracks.length === 0) continue;
    const { x, series } = join(tracks);
    specs.push({
      id: `cdf-${figure}`,
      title: `Distribution of ${title}`,
      help: `Share of ${figure === "itl" || figure === "chunk_gap" ? "tokens" : "turns"} at or below a value; ${compact.format(n)} values.`,
      x: { label: title, unit, values: x, log: figure !== "tpot" },
      y: { label: "At or below", unit: "share", max: 1 },
      series,
      height: 250,
    });
  }
  return specs;
}

/** The first screen's plot of time: what the server got done, and at how much load. */
function load(runs: RunPlots[]): Spec[] {
  const range = timeRange(runs);
  const single = runs.length === 1;
  const tracks: Track[] = [];
  for (const [r, run] of runs.entries()) {
    const { t, completion_tokens_per_s: tokens, in_flight: flight } = run.per_second;
    if (!t || t.length === 0 || !tokens) continue;
    const x = [...t, (t[t.length - 1] ?? 0) + (run.per_second.step_s ?? 1)]; // the end of the last step
    const held = (v: Num[]): Num[] => [...v, v[v.length - 1] ?? null];
    tracks.push({ x, y: held(tokens), series: { label: named(runs, run, single ? "output tokens" : ""), kind: "step", fill: single, ...look(r) } });
    if (single && flight) tracks.push({ x, y: held(flight), series: { label: "in flight", kind: "step", color: 1, right: true } });
  }
  if (tracks.length === 0) return [];
  const { x, series } = join(tracks);
  const right = single ? { right: { label: "In flight", unit: "count" } } : {};
  return [
    {
      id: "load",
      title: single ? "Throughput and requests in flight" : "Throughput",
      help: "Tokens at their arrival, over the run.",
      x: { ...timeAxis(range), values: x, range },
      y: { label: "Output", unit: "tokens/s" },
      ...right,
      series,
      height: 230,
      group: "time",
      ...window(runs),
    },
  ];
}

/** The first screen's plot of latencies: with percentiles and objectives drawn in. */
function spread(runs: RunPlots[], result: Result): Spec[] {
  const single = runs.length === 1;
  const tracks: Track[] = [];
  const marks: NonNullable<Spec["marks"]> = [];
  for (const [k, figure] of (single ? ["ttft", "tpot"] : ["ttft"]).entries()) {
    const hue = k * 2;
    for (const [r, run] of runs.entries()) {
      const curve = run.cdfs?.find((c) => c.figure === figure);
      if (!curve?.value || !curve.share || curve.value.length === 0) continue;
      tracks.push({ x: curve.value, y: curve.share, series: { label: named(runs, run, single ? curve.title : ""), ...(single ? { color: hue } : look(r)) } });
    }
    const about = single ? result.runs[0]?.total.figures?.find((f) => f.name === figure) : undefined;
    for (const { p, value, carried } of about?.percentiles ?? []) {
      if (value !== null && (p === 50 || p === 90 || p === 99)) marks.push({ x: value, text: `${carried ? "" : "~"}p${p}`, color: hue });
    }
    const objective = result.objectives?.find((o) => o.figure === figure);
    if (objective) marks.push({ x: objective.limit_ms, text: `objective ${figure.toUpperCase()}`, color: single ? hue : 5, dash: true });
  }
  if (tracks.length === 0) return [];
  const { x, series } = join(tracks);
  return [
    {
      id: "spread",
      title: single ? "TTFT and TPOT" : "TTFT",
      help: "Share of turns at or below a value; lines mark percentiles and objectives.",
      x: { label: single ? "Time" : "TTFT", unit: "ms", values: x, log: true },
      y: { label: "At or below", unit: "share", max: 1 },
      series,
      marks,
      height: 230,
    },
  ];
}

function along(runs: RunPlots[], which: "by_turn" | "by_context"): Spec[] {
  const specs: Spec[] = [];
  const figures: string[] = [];
  for (const run of runs) for (const b of run[which] ?? []) if (!figures.includes(b.figure)) figures.push(b.figure);
  for (const figure of figures) {
    const tracks: Track[] = [];
    let first: Bands | undefined;
    for (const [r, run] of runs.entries()) {
      const bands = run[which]?.find((b) => b.figure === figure);
      if (!bands?.x) continue;
      first ??= bands;
      const lines: [string, Num[] | null, number, boolean, boolean][] = [
        ["p50", bands.p50, 0, false, false],
        ["p90", bands.p90, 1, false, runs.length > 1],
        ["p99", bands.p99, 3, true, runs.length > 1],
      ];
      for (const [label, values, hue, dash, hidden] of lines) {
        if (!values || values.every((v) => v === null)) continue;
        tracks.push({
          x: bands.x,
          y: values,
          series: {
            label: named(runs, run, label),
            ...(runs.length > 1 ? look(r, dash) : { color: hue, dash }),
            kind: bands.x.length > 60 ? "line" : "both",
            hidden,
          },
        });
      }
    }
    if (!first || tracks.length === 0) continue;
    const byTurn = which === "by_turn";
    const { x, series } = join(tracks);
    specs.push({
      id: `${which.replace("_", "-")}-${figure}`,
      title: `${first.title} by ${byTurn ? "turn" : "context"}`,
      help: byTurn
        ? "Along a conversation; turns count from 0. A percentile is left out where too few turns carry it."
        : "By the prompt's length, cached tokens included, at the middle of each bin.",
      x: byTurn
        ? { label: "Turn", unit: "turn", values: x, whole: true }
        : { label: "Prompt", unit: "tokens", values: x, log: wide(x) },
      y: { label: short(first.title), unit: first.unit, canLog: true },
      series,
      height: 230,
    });
  }
  return specs;
}

/** Bins that grow by factors are read on a logarithmic axis. */
function wide(x: number[]): boolean {
  const first = x.find((v) => v > 0) ?? 1;
  return (x[x.length - 1] ?? 1) / first > 30;
}

/** Axis labels have little room: a title without what stands in brackets. */
function short(title: string): string {
  return title.replace(/\s*\(.*\)$/, "");
}

function cache(runs: RunPlots[]): Spec[] {
  const tracks: Track[] = [];
  for (const [r, run] of runs.entries()) {
    const turns: CacheTurn[] = run.cache_by_turn ?? [];
    const x = turns.map((c) => c.turn);
    const hue = runs.length > 1 ? r % seriesColors : 2;
    const kind = turns.length > 60 ? "line" : "both";
    if (turns.some((c) => c.reuse !== null)) {
      tracks.push({ x, y: turns.map((c) => c.reuse), series: { label: named(runs, run, "reused"), color: hue, kind } });
    }
    if (turns.some((c) => c.ceiling !== null)) {
      tracks.push({
        x,
        y: turns.map((c) => c.ceiling),
        series: { label: named(runs, run, "ceiling"), color: runs.length > 1 ? hue : 5, dash: true },
      });
    }
  }
  if (tracks.length === 0) return [];
  const { x, series } = join(tracks);
  return [
    {
      id: "cache",
      title: "Prefix cache reuse by turn",
      help: "Share of prompt tokens that came from the server's prefix cache, next to what an infinite cache would give.",
      x: { label: "Turn", unit: "turn", values: x, whole: true },
      y: { label: "Share of prompt", unit: "share", max: 1 },
      series,
      height: 230,
    },
  ];
}

/** What the time axis of all plots of the group shows: from the run's origin to the last thing in any run. */
function timeRange(runs: RunPlots[]): [number, number] {
  let end = 0;
  const see = (values: Num[] | null | undefined, more = 0): void => {
    for (const v of values ?? []) if (v !== null && v + more > end) end = v + more;
  };
  for (const run of runs) {
    see(run.per_second.t, run.per_second.step_s ?? 1);
    for (const p of run.over_time ?? []) see(p.t);
    for (const lane of run.lanes ?? []) see((lane.turns ?? []).map((t) => t.end_s));
    for (const s of run.telemetry ?? []) see(s.t);
  }
  return [0, end > 0 ? end : 1];
}

/** The axis of time; its ticks read m:ss from the third minute on, and h:mm:ss from the first hour. */
/**
 * Until when the time axis shows the runs at first: a drain that would take a third of it or more is left to a
 * wider look. null: everything.
 */
export function drainCut(runs: RunPlots[]): number | null {
  const end = timeRange(runs)[1];
  const to = Math.max(...runs.map((r) => r.window_to_s ?? end));
  return end - to > end / 3 ? Math.min(to * 1.15, end) : null;
}

function timeAxis(range: [number, number]): { label: string; unit: string } {
  return { label: timeLabel(range[1]), unit: "s" };
}

/** Dims what lies outside of the window that the tables cover. */
function window(runs: RunPlots[]): Pick<Spec, "draw" | "keys" | "shaded"> {
  const run = runs[0];
  if (runs.length !== 1 || !run) return {};
  const from = run.window_from_s;
  const to = run.window_to_s;
  const [low, high] = timeRange(runs);
  const slack = (high - low) * 0.002;
  if ((from === null || from <= low + slack) && (to === null || to >= high - slack)) return {};
  return {
    shaded: true,
    keys: [{ label: "outside the window", css: "block faint c5" }],
    draw: (u) => {
      const { left, top, width, height } = u.bbox;
      const ctx = u.ctx;
      ctx.save();
      ctx.fillStyle = tint(color("--s5"), "1c");
      const at = (t: number): number => Math.min(Math.max(u.valToPos(t, "x", true), left), left + width);
      if (from !== null) ctx.fillRect(left, top, at(from) - left, height);
      if (to !== null) ctx.fillRect(at(to), top, left + width - at(to), height);
      ctx.restore();
    },
  };
}

function thinned(shown: number, of: number): string {
  return of > shown ? ` ${compact.format(shown)} of ${compact.format(of)} shown, extremes kept.` : "";
}

/** The turns of the conversations that are drawn, by the moment they were sent. */
function turnsAt(runs: RunPlots[]): Map<number, { key: string; text: string }> {
  const out = new Map<number, { key: string; text: string }>();
  for (const lane of runs.length === 1 ? (runs[0]?.lanes ?? []) : []) {
    const name = lane.instance > 0 ? `${lane.conversation} #${lane.instance}` : lane.conversation;
    for (const t of lane.turns ?? []) if (t.sent_s !== null) out.set(t.sent_s, { key: `${lane.conversation}\u0000${lane.instance}`, text: `${name}, turn ${t.turn}` });
  }
  return out;
}

function overTime(runs: RunPlots[]): Spec[] {
  const range = timeRange(runs);
  const turns = turnsAt(runs);
  const specs: Spec[] = [];
  const figures: string[] = [];
  for (const run of runs) for (const p of run.over_time ?? []) if (!figures.includes(p.figure)) figures.push(p.figure);
  for (const figure of figures) {
    const tracks: Track[] = [];
    let first: Points | undefined;
    let shown = 0;
    let of = 0;
    for (const [r, run] of runs.entries()) {
      const points = run.over_time?.find((p) => p.figure === figure);
      if (points?.t && points.v) {
        first ??= points;
        shown += points.t.length;
        of += points.of;
        tracks.push({
          x: points.t,
          y: points.v,
          series: {
            label: named(runs, run, runs.length > 1 ? "" : "a turn"),
            color: runs.length > 1 ? r % seriesColors : 0,
            kind: "points",
          },
        });
      }
      const p50 = run.per_second.ttft_p50;
      if (figure === "ttft" && run.per_second.t && p50) {
        const half = (run.per_second.step_s ?? 1) / 2;
        tracks.push({
          x: run.per_second.t.map((t) => (t === null ? null : t + half)),
          y: p50,
          series: {
            label: named(runs, run, `p50 of ${perStep(run)}`),
            color: runs.length > 1 ? r % seriesColors : 1,
            hidden: runs.length > 1,
          },
        });
      }
      if (figure === "e2e" && run.failures.t && run.failures.v && run.failures.t.length > 0) {
        tracks.push({
          x: run.failures.t,
          y: run.failures.v,
          series: { label: named(runs, run, "failed, until the failure"), color: failColor, kind: "points" },
        });
      }
    }
    if (!first) continue;
    const { x, series } = join(tracks);
    specs.push({
      id: `time-${figure}`,
      title: `${first.title} over time`,
      help: `Each turn at the moment it was sent.${thinned(shown, of)}${turns.size > 0 ? " A click on a turn shows its conversation alone." : ""}`,
      x: { ...timeAxis(range), values: x, range },
      y: { label: short(first.title), unit: first.unit, canLog: true },
      series,
      height: 200,
      group: "time",
      ...window(runs),
      named: (x) => turns.get(x)?.text,
      click: (u) => choose(turns.get(u.data[0][u.cursor.idx ?? -1] ?? -1)?.key),
      rings: (x) => chosenConversation() !== null && turns.get(x)?.key === chosenConversation(),
    });
  }
  return specs;
}

function perStep(run: RunPlots): string {
  const step = run.per_second.step_s ?? 1;
  return step === 1 ? "each second" : `each ${compact.format(step)} s`;
}

function perSecond(runs: RunPlots[]): Spec[] {
  const range = timeRange(runs);
  type Line = [label: string, pick: (r: RunPlots) => Num[] | null, color: number, main: boolean, style?: Partial<Series>];
  const plot = (id: string, title: string, help: string, label: string, unit: string, lines: Line[]): Spec | null => {
    const tracks: Track[] = [];
    for (const [r, run] of runs.entries()) {
      const t = run.per_second.t;
      if (!t || t.length === 0) continue;
      for (const [name, pick, hue, main, style] of lines) {
        const y = pick(run);
        if (!y || y.every((v) => v === null || (v === 0 && name === "failed"))) continue;
        // A step plot needs the end of its last step.
        const last = t[t.length - 1] ?? 0;
        tracks.push({
          x: [...t, last + (run.per_second.step_s ?? 1)],
          y: [...y, y[y.length - 1] ?? null],
          series: {
            ...style,
            label: named(runs, run, lines.length > 1 ? name : runs.length > 1 ? "" : name),
            ...(runs.length > 1 ? look(r, style?.dash) : { color: hue }),
            kind: "step",
            hidden: runs.length > 1 && !main,
          },
        });
      }
    }
    if (tracks.length === 0) return null;
    const { x, series } = join(tracks);
    return {
      id,
      title,
      help,
      x: { ...timeAxis(range), values: x, range },
      y: { label, unit },
      series,
      height: 170,
      group: "time",
      ...window(runs),
    };
  };
  const single = runs.length === 1;
  return [
    plot("in-flight", "In flight", "Requests at once, and conversations that have begun and not ended (think time included).", "At once", "count", [
      ["requests, mean", (r) => r.per_second.in_flight, 0, true, { fill: single }],
      ["requests, peak", (r) => r.per_second.in_flight_peak, 1, false],
      ["conversations, mean", (r) => r.per_second.conversations, 2, false, { dash: true }],
    ]),
    plot("output-tokens", "Output tokens per second", "Each token at its arrival where chunk times are known.", "Output", "tokens/s", [
      ["output tokens", (r) => r.per_second.completion_tokens_per_s, 0, true, { fill: single }],
    ]),
    plot("prompt-tokens", "Prompt tokens per second", "Cached ones included, at the turn's first token.", "Prompt", "tokens/s", [
      ["prompt tokens", (r) => r.per_second.prompt_tokens_per_s, 2, true, { fill: single }],
    ]),
    plot("requests", "Requests per second", "Sent, completed and failed.", "Rate", "requests/s", [
      ["completed", (r) => r.per_second.completed_per_s, 0, true, { fill: single }],
      ["sent", (r) => r.per_second.started_per_s, 5, false, { dash: true }],
      ["failed", (r) => r.per_second.failed_per_s, failColor, false],
    ]),
  ].filter((s): s is Spec => s !== null);
}

function lanes(runs: RunPlots[]): Spec[] {
  const range = timeRange(runs);
  const specs: Spec[] = [];
  // One plot per run takes much room: a comparison has them, a sweep does not.
  for (const [r, run] of (runs.length <= 4 ? runs : []).entries()) {
    const bars: Bar[] = [];
    for (const lane of run.lanes ?? []) {
      const name = lane.instance > 0 ? `${lane.conversation} #${lane.instance}` : lane.conversation;
      for (const turn of lane.turns ?? []) {
        if (turn.sent_s === null || turn.end_s === null) continue;
        bars.push({
          key: `${lane.conversation}\u0000${lane.instance}`,
          conversation: name,
          turn: turn.turn,
          status: turn.status,
          start: turn.sent_s,
          first: turn.first_token_s,
          end: turn.end_s,
        });
      }
    }
    if (bars.length === 0) continue;
    const shown = run.lanes?.length ?? 0;
    const part = run.lanes_of > shown ? ` ${compact.format(shown)} of ${compact.format(run.lanes_of)} conversations are shown.` : "";
    const dim = window(runs).draw;
    const lanes = lanesSpec(bars, range, `One bar per turn; a conversation stays on its line through its think time. Point at a bar for its figures; a click shows its conversation alone, here and above.${part}`);
    specs.push({
      ...lanes,
      draw: (u) => {
        dim?.(u);
        lanes.draw?.(u);
      },
      id: runs.length > 1 ? `lanes-${r}` : "lanes",
      title: named(runs, run, "").trim() === "" ? "Conversations" : `Conversations: ${run.label}`,
    });
  }
  return specs;
}

interface Known {
  plot: string;
  unit: string;
  label: string;
  dash?: boolean;
}

// The figures that a client and its scraper record, by name, in the order of their plots; null are those that
// other plots show better. What is not here gets a plot under its own name, behind these.
const known: Record<string, Known | null> = {
  cpu_share: { plot: "Processor of the client", unit: "share", label: "used by parley" },
  machine_idle_share: { plot: "Processor of the client", unit: "share", label: "machine idle", dash: true },
  sched_latency_p99_ms: { plot: "Scheduler latency of the client", unit: "ms", label: "p99" },
  sched_latency_p50_ms: { plot: "Scheduler latency of the client", unit: "ms", label: "p50" },
  send_lag_p99_ms: { plot: "Lateness of sends", unit: "ms", label: "send lag, p99" },
  wake_lateness_p99_ms: { plot: "Lateness of sends", unit: "ms", label: "pacer, p99", dash: true },
  gc_pause_max_ms: { plot: "Garbage collection of the client", unit: "ms", label: "longest pause" },
  running: { plot: "Requests in the server", unit: "count", label: "running" },
  waiting: { plot: "Requests in the server", unit: "count", label: "waiting", dash: true },
  kv_usage: { plot: "KV cache in use", unit: "share", label: "fullest engine" },
  kv_usage_mean: { plot: "KV cache in use", unit: "share", label: "mean", dash: true },
  prefix_cache_queries: { plot: "Prefix cache of the server", unit: "tokens", label: "looked up" },
  prefix_cache_hits: { plot: "Prefix cache of the server", unit: "tokens", label: "found", dash: true },
  prefix_cache_hit_rate: { plot: "Prefix cache hit rate of the server", unit: "share", label: "hit rate" },
  prompt_tokens: { plot: "Prompt tokens of the server", unit: "tokens", label: "taken in" },
  prompt_tokens_evaluated: { plot: "Prompt tokens of the server", unit: "tokens", label: "evaluated", dash: true },
  generation_tokens: { plot: "Generation of the server", unit: "tokens", label: "generated" },
  preemptions: { plot: "Preemptions of the server", unit: "count", label: "preempted" },
  rss_bytes: { plot: "Memory of the client", unit: "bytes", label: "resident" },
  backlog_rows: { plot: "Rows that wait for the journal", unit: "count", label: "rows" },
  cpu_seconds_total: null, // cpu_share
  goroutines: null, // says nothing that memory does not
  in_flight: null, // In flight
  active_conversations: null,
  turns_started_total: null, // Requests per second
  rows_written_total: null,
};

const plotOrder = [...new Set(Object.values(known).map((k) => k?.plot))];

function unitOf(name: string): string {
  if (name.endsWith("_ms")) return "ms";
  if (name.endsWith("_bytes")) return "bytes";
  if (name.endsWith("_share") || name.endsWith("_usage")) return "share";
  if (name.endsWith("_seconds")) return "s";
  return "count";
}

function telemetry(runs: RunPlots[]): Spec[] {
  const found = new Map<string, { unit: string; client: boolean; tracks: Track[] }>();
  for (const [r, run] of runs.entries()) {
    const servers = new Set((run.telemetry ?? []).filter((s) => s.source !== "client").map((s) => s.source));
    for (const s of run.telemetry ?? []) {
      if (!s.t || !s.v || s.t.length === 0) continue;
      const client = s.source === "client";
      const about = Object.hasOwn(known, s.name) ? known[s.name] : undefined;
      if (about === null) continue;
      const plain = s.name.replace(/_total$/, "").replaceAll("_", " ");
      const title = about?.plot ?? `${client ? "Client" : "Server"}: ${plain}`;
      const unit = about?.unit ?? unitOf(s.name.replace(/_total$/, ""));
      const plot = found.get(title) ?? { unit: s.rate ? (unit === "count" ? "1/s" : `${unit}/s`) : unit, client, tracks: [] };
      const what = about?.label ?? plain;
      plot.tracks.push({
        x: s.t,
        y: s.v,
        series: {
          label: named(runs, run, !client && servers.size > 1 ? `${what} (${s.source})` : what),
          ...(runs.length > 1 ? look(r, about?.dash) : { color: plot.tracks.length % seriesColors, dash: about?.dash ?? false }),
        },
      });
      found.set(title, plot);
    }
  }
  const range = timeRange(runs);
  const place = (title: string): number => (plotOrder.indexOf(title) + 1 || plotOrder.length + 1);
  const inOrder = [...found].sort(([a], [b]) => place(a) - place(b) || (a < b ? -1 : 1));
  return inOrder.map(([title, { unit, client, tracks }], i) => {
    const { x, series } = join(tracks);
    return {
      id: `telemetry-${i}`,
      title,
      help: client ? "Measured by the client about itself." : "As the server reports it.",
      x: { ...timeAxis(range), values: x, range },
      y: { label: "", unit, ...(unit === "share" ? { max: 1 } : {}) },
      series,
      height: 150,
      group: "time",
      ...window(runs),
    };
  });
}

/** The extent of values, with room at both ends. */
function padded(x: number[]): [number, number] {
  const low = x[0] ?? 0;
  const high = x[x.length - 1] ?? 1;
  const room = (high - low || high || 1) * 0.08;
  return [low - room, high + room];
}

function sweep(result: Result): Spec[] {
  const rows = result.sweep?.rows ?? [];
  const gpus = result.sweep?.gpus ?? 0;
  const perUser = rows.map((r) => r.tokens_per_s_per_user);
  const total = rows.map((r) => (gpus > 0 ? r.completion_tokens_per_s_per_gpu : r.completion_tokens_per_s));
  if (rows.length < 2 || !perUser.some((v) => v !== null)) return [];
  const front = rows.map((r, i) => ({ x: perUser[i] ?? null, y: total[i] ?? null, pareto: r.pareto, label: r.label }));
  const on = front.filter((p) => p.pareto);
  const { x, series } = join([
    { x: front.map((p) => p.x), y: front.map((p) => p.y), series: { label: "a run", color: 5, kind: "points", size: 9 } },
    { x: on.map((p) => p.x), y: on.map((p) => p.y), series: { label: "not beaten in both", color: 0, kind: "both" } },
  ]);
  const plots: Spec[] = [
    {
      id: "pareto",
      title: "Throughput against speed for one user",
      help: "Up is more work done, right is faster for each user. The line joins the runs that no other run beats in both.",
      x: { label: "Per user", unit: "tokens/s", values: x, range: padded(x) },
      y: { label: gpus > 0 ? "Output per GPU" : "Output", unit: "tokens/s" },
      series,
      height: 260,
      notes: front.map((p) => ({ x: p.x, y: p.y, text: p.label })),
    },
  ];
  // Latency and work done along the load, where the runs say what it was.
  const loads: [string, string, Num[]][] = [
    ["Conversations at once", "count", rows.map((r) => r.concurrency)],
    ["Conversations started", "1/s", rows.map((r) => r.offered_rate)],
  ];
  const load = loads.find(([, , values]) => values.every((v) => v !== null) && new Set(values).size > 1);
  if (!load) return plots;
  const [label, unit, values] = load;
  const along = (id: string, title: string, help: string, y: Spec["y"], lines: [string, Num[], number, boolean][]): void => {
    const joined = join(lines.map(([name, v, hue, dash]) => ({ x: values, y: v, series: { label: name, color: hue, kind: "both", dash } })));
    const series = joined.series.filter((s) => s.values.some((v) => v !== null));
    if (series.length > 0) plots.push({ id, title, help, x: { label, unit, values: joined.x, log: false }, y, series, height: 260 });
  };
  along("knee-ttft", "TTFT by load", "Where it turns upwards, more load only brings more waiting.", { label: "TTFT", unit: "ms", canLog: true }, [
    ["p50", rows.map((r) => r.ttft_p50), 0, false],
    ["p99", rows.map((r) => r.ttft_p99), 3, true],
  ]);
  along("knee-output", "Throughput by load", "Where it stops rising, the server is full.", { label: "Output", unit: "tokens/s" }, [
    ["output tokens", rows.map((r) => r.completion_tokens_per_s), 0, false],
  ]);
  return plots;
}
