// The swim-lane: one row per place that a conversation holds, one bar per turn, light while the client
// waits for the first token and full while tokens arrive.

import type uPlot from "uplot";
import type { Cell } from "./csv";
import { timeLabel, withUnit } from "./format";
import { plots, type Spec, tint } from "./plot";
import { color } from "./theme";

let chosen: string | null = null;

/** The conversation that a click chose, by its key; null: all. */
export const chosenConversation = (): string | null => chosen;

/** Chooses a conversation; the same again, or none: all. */
export function choose(key: string | undefined): void {
  chosen = key === undefined || key === chosen ? null : key;
  for (const plot of plots()) plot.redraw();
}

/** One turn on the time axis, in seconds from the run's start. */
export interface Bar {
  /** Tells conversations apart; conversation is what people read. */
  key: string;
  conversation: string;
  turn: number;
  status: string;
  start: number;
  /** null when no token came. */
  first: number | null;
  end: number;
}

interface Placed extends Bar {
  lane: number;
}

/**
 * Gives each conversation a lane: the lowest that is free from its first turn's start to its last turn's
 * end, so that the number of lanes is the number of conversations at once.
 */
export function place(bars: Bar[]): { placed: Placed[]; lanes: number } {
  const spans = new Map<string, { start: number; end: number; bars: Bar[] }>();
  for (const bar of bars) {
    const span = spans.get(bar.key);
    if (span) {
      span.start = Math.min(span.start, bar.start);
      span.end = Math.max(span.end, bar.end);
      span.bars.push(bar);
    } else {
      spans.set(bar.key, { start: bar.start, end: bar.end, bars: [bar] });
    }
  }
  const free: number[] = []; // when each lane is free again
  const placed: Placed[] = [];
  for (const span of [...spans.values()].sort((a, b) => a.start - b.start)) {
    let lane = free.findIndex((until) => until <= span.start);
    if (lane < 0) lane = free.length;
    free[lane] = span.end;
    for (const bar of span.bars) placed.push({ ...bar, lane });
  }
  placed.sort((a, b) => a.start - b.start);
  return { placed, lanes: free.length };
}

/** The swim-lane as a plot of the group that shares the time axis. */
export function lanesSpec(bars: Bar[], range: [number, number], help: string): Spec {
  const { placed, lanes } = place(bars);
  const byLane: Placed[][] = Array.from({ length: lanes }, () => []);
  for (const bar of placed) byLane[bar.lane]?.push(bar);
  const failed = (b: Bar): boolean => b.status !== "ok";

  const draw = (u: uPlot): void => {
    const ctx = u.ctx;
    const { left, top, width, height } = u.bbox;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, width, height);
    ctx.clip();
    const wait = tint(color("--s0"), "60");
    const full = color("--s0");
    const bad = color("--bad");
    const xMin = u.scales["x"]?.min ?? range[0];
    const xMax = u.scales["x"]?.max ?? range[1];
    const y0 = u.valToPos(0, "y", true);
    const pitch = Math.abs(u.valToPos(1, "y", true) - y0);
    const gap = pitch > 5 * devicePixelRatio ? devicePixelRatio * 1.5 : pitch > 2 ? 1 : 0;
    const thick = Math.max(pitch - gap, 1);
    const px = (t: number): number => u.valToPos(t, "x", true);
    // One colour after the other: changing the fill for each bar is what makes a canvas slow.
    for (const [fill, from, to] of [
      [wait, (b: Placed) => (failed(b) ? null : b.start), (b: Placed) => b.first ?? b.end],
      [full, (b: Placed) => (failed(b) ? null : b.first), (b: Placed) => b.end],
      [bad, (b: Placed) => (failed(b) ? b.start : null), (b: Placed) => b.end],
    ] as [string, (b: Placed) => number | null, (b: Placed) => number][]) {
      ctx.fillStyle = fill;
      for (const bar of placed) {
        const a = from(bar);
        if (a === null) continue;
        const b = to(bar);
        if (b < xMin || a > xMax) continue;
        ctx.globalAlpha = chosen === null || bar.key === chosen ? 1 : 0.12;
        const x = px(a);
        ctx.fillRect(x, u.valToPos(bar.lane + 1, "y", true) + gap / 2, Math.max(px(b) - x, devicePixelRatio), thick);
      }
    }
    ctx.restore();
  };

  const find = (u: uPlot, left: number, top: number): Placed | undefined => {
    const t = u.posToVal(left, "x");
    const slack = 3 * Math.abs(u.posToVal(1, "x") - u.posToVal(0, "x"));
    return byLane[Math.floor(u.posToVal(top, "y"))]?.find((b) => b.start - slack <= t && t <= b.end + slack);
  };

  const readout = (u: uPlot, left: number, top: number): string | null => {
    const t = u.posToVal(left, "x");
    const at = `at ${withUnit(t, "s")}`;
    if (!u.over.matches(":hover")) return at; // another plot of the group has the pointer
    const bar = find(u, left, top);
    if (!bar) return at;
    const ttft = bar.first === null ? "no token" : `TTFT ${withUnit((bar.first - bar.start) * 1000, "ms")}`;
    const state = bar.status === "ok" ? "" : `, ${bar.status}`;
    return `${bar.conversation}, turn ${bar.turn}${state}: ${ttft}, in all ${withUnit((bar.end - bar.start) * 1000, "ms")}`;
  };

  const rows = (): Cell[][] => [
    ["Conversation", "Turn", "Status", "Lane", "Sent (s)", "First token (s)", "End (s)"],
    ...placed.map((b): Cell[] => [b.conversation, b.turn, b.status, b.lane, b.start, b.first, b.end]),
  ];

  const xs = placed.map((b) => b.start);
  return {
    id: "lanes",
    title: "Conversations",
    help,
    x: { label: timeLabel(range[1]), unit: "s", values: xs, range },
    y: { label: "At once", unit: "count" },
    series: [{ label: "", values: placed.map(() => null), color: 0, kind: "points" }],
    keys: [
      { label: "waiting for the first token", css: "block faint c0" },
      { label: "tokens arriving", css: "block c0" },
      { label: "did not succeed", css: "block c7" },
    ],
    height: Math.min(Math.max(140, lanes * 9 + 60), 460),
    group: "time",
    draw,
    readout,
    click: (u, left, top) => choose(find(u, left, top)?.key),
    rows,
    zoomY: true,
    yRange: [0, Math.max(lanes, 1)],
  };
}
