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

/** A value with three digits, or all before the point; what is not 0 never prints as 0. As render.Number. */
export function number(value: number | null | undefined): string {
  return rounded(value, 4);
}

function rounded(value: number | null | undefined, most: number): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "-";
  if (value === 0) return "0";
  const size = Math.abs(value);
  const digits = Math.min(Math.max(2 - Math.floor(Math.log10(Number(size.toPrecision(3))) + 1e-9), 0), most);
  let text = fixed(size, digits);
  let prefix = "";
  if (/^[0.,]*$/.test(text)) {
    prefix = value < 0 ? ">" : "<";
    text = `${text.slice(0, -1)}1`;
  }
  return prefix + (value < 0 ? "-" : "") + text;
}

/** A value of an axis: no digits that say nothing. */
export function tick(value: number): string {
  const rounded = Number(value.toPrecision(10)); // not 0.30000000000000004
  return new Intl.NumberFormat("en-US", { maximumSignificantDigits: 6 }).format(rounded);
}

/** What a figure is measured in. */
export type Unit = "ms" | "s" | "share" | "count" | "tokens" | "tokens/s" | "requests/s" | "bytes" | "turn" | "";

/** A value with its unit, for read-outs: 12.3 ms, 45.1 %, 3.2 GB. */
export function withUnit(value: number | null | undefined, unit: string): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "-";
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
      return Number.isInteger(value) ? fixed(value, 0) : number(value);
    default:
      return `${number(value)} ${unit}`;
  }
}

/** A share in percent; what is not all never prints as all. As render.Share. */
function share(value: number): string {
  if (value === 1) return "100";
  if (value < 1 && value >= 0.9995) return ">99.9";
  return rounded(value * 100, 3);
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
