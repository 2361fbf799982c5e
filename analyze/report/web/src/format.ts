// Numbers as people read them. The tables' numbers are formatted by the Go side with the same rules; full
// precision is always in the CSV.

const formats = new Map<number, Intl.NumberFormat>();

function fixed(value: number, digits: number): string {
  let f = formats.get(digits);
  if (!f) {
    f = new Intl.NumberFormat("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
    formats.set(digits, f);
  }
  return f.format(value);
}

/** A value with three to four significant digits. */
export function number(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "\u2013";
  const size = Math.abs(value);
  if (size >= 1000 || Number.isInteger(value)) return fixed(value, 0);
  if (size >= 100) return fixed(value, 1);
  if (size >= 10) return fixed(value, 2);
  if (size >= 0.1) return fixed(value, 3);
  if (size >= 0.01) return fixed(value, 4);
  if (size >= 0.001) return fixed(value, 5);
  return value.toExponential(2);
}

/** A value of an axis: no digits that say nothing. */
export function tick(value: number): string {
  const rounded = Number(value.toPrecision(10));
  if (rounded !== 0 && Math.abs(rounded) < 1e-4) return rounded.toExponential();
  return new Intl.NumberFormat("en-US", { maximumFractionDigits: 6 }).format(rounded);
}

/** What a figure is measured in. */
export type Unit = "ms" | "s" | "share" | "count" | "tokens" | "tokens/s" | "requests/s" | "bytes" | "turn" | "";

/** A value with its unit, for read-outs: 12.3 ms, 45.1 %, 3.2 GB. */
export function withUnit(value: number | null | undefined, unit: string): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "\u2013";
  switch (unit) {
    case "ms":
      return Math.abs(value) >= 10_000 ? `${number(value / 1000)} s` : `${number(value)} ms`;
    case "share":
      return `${share(value)} %`;
    case "bytes":
      return bytes(value);
    case "":
    case "count":
    case "turn":
      return number(value);
    default:
      return `${number(value)} ${unit}`;
  }
}

function share(value: number): string {
  const percent = value * 100;
  if (Number.isInteger(percent)) return fixed(percent, 0);
  return fixed(percent, Math.abs(percent) >= 10 ? 1 : Math.abs(percent) >= 0.1 ? 2 : 3);
}

function bytes(value: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  while (Math.abs(value) >= 1000 && i < units.length - 1) {
    value /= 1000;
    i++;
  }
  return `${number(value)} ${units[i]}`;
}

/** What a time axis up to max seconds is called; see clock. */
export function timeLabel(max: number): string {
  return max >= 3600 ? "Time (h:min:s)" : max >= 180 ? "Time (min:s)" : "Time (s)";
}

/** Seconds of a run as m:ss or h:mm:ss, by how far the axis goes. */
export function clock(seconds: number, step: number, max: number): string {
  const h = Math.floor(seconds / 3600);
  const m = Math.floor((seconds % 3600) / 60);
  const s = seconds % 60;
  const ss = (step < 1 ? s.toFixed(1) : Math.round(s).toString()).padStart(step < 1 ? 4 : 2, "0");
  return max >= 3600 ? `${h}:${m.toString().padStart(2, "0")}:${ss}` : `${h * 60 + m}:${ss}`;
}
