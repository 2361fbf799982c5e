// What the Go side embeds: analyze's Plots and Result as they are. Only the fields that this script uses
// are named here. A figure that is missing is null.

export type Num = number | null;

export interface Plots {
  runs: RunPlots[];
}

export interface RunPlots {
  label: string;
  window_from_s: Num;
  window_to_s: Num;
  over_time: Points[] | null;
  failures: Points;
  cdfs: Curve[] | null;
  by_turn: Bands[] | null;
  by_context: Bands[] | null;
  per_second: PerSecond;
  cache_by_turn: CacheTurn[] | null;
  lanes: Lane[] | null;
  lanes_of: number;
  telemetry: TelemetrySeries[] | null;
}

export interface Points {
  figure: string;
  title: string;
  unit: string;
  t: Num[] | null;
  v: Num[] | null;
  status?: string[];
  of: number;
}

export interface Curve {
  figure: string;
  title: string;
  unit: string;
  value: Num[] | null;
  share: Num[] | null;
  n: number;
}

export interface Bands {
  figure: string;
  title: string;
  unit: string;
  x_name: string;
  x: Num[] | null;
  n: number[] | null;
  p50: Num[] | null;
  p90: Num[] | null;
  p99: Num[] | null;
}

export interface PerSecond {
  step_s: Num;
  t: Num[] | null;
  started_per_s: Num[] | null;
  completed_per_s: Num[] | null;
  failed_per_s: Num[] | null;
  prompt_tokens_per_s: Num[] | null;
  completion_tokens_per_s: Num[] | null;
  in_flight: Num[] | null;
  in_flight_peak: Num[] | null;
  conversations: Num[] | null;
  ttft_p50: Num[] | null;
}

export interface CacheTurn {
  turn: number;
  rows: number;
  reuse: Num;
  ceiling: Num;
}

export interface Lane {
  conversation: string;
  instance: number;
  turns: Span[] | null;
}

export interface Span {
  turn: number;
  status: string;
  sent_s: Num;
  first_token_s: Num;
  end_s: Num;
}

export interface TelemetrySeries {
  source: string;
  name: string;
  rate: boolean;
  t: Num[] | null;
  v: Num[] | null;
  of: number;
}

export interface Result {
  objectives?: { figure: string; limit_ms: number }[];
  runs: { total: { figures: Figure[] | null } }[];
  sweep?: { gpus?: number; rows: SweepRow[] | null };
}

export interface Figure {
  name: string;
  title: string;
  percentiles: { p: number; value: Num; carried: boolean }[] | null;
}

export interface SweepRow {
  label: string;
  concurrency: Num;
  offered_rate: Num;
  completion_tokens_per_s: Num;
  tokens_per_s_per_user: Num;
  completion_tokens_per_s_per_gpu: Num;
  ttft_p50: Num;
  ttft_p99: Num;
  pareto: boolean;
}

/** The data of an embedded JSON element. */
export function embedded<T>(id: string): T {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no element ${id}`);
  return JSON.parse(element.textContent ?? "") as T;
}
