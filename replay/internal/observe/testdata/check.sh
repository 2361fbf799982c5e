#!/usr/bin/env bash
# Sends a run's spans and histograms to the OpenTelemetry collector's own OTLP receiver, and holds what it took against
# the run's rows. The receiver is a module of its own, built into the cache.
#
#   check.sh CACHE BIN DATASET
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=$1 bin=$2 dataset=$3
mkdir -p "$cache"
(cd "$here/receiver" && go build -o "$cache/receiver" .)
out=$(mktemp -d)
mkfifo "$out/in"
"$cache/receiver" 127.0.0.1:43180 <"$out/in" >"$out/got" 2>"$out/err" &
receiver=$!
exec 9>"$out/in"
trap 'exec 9>&-; wait "$receiver" || true; rm -rf "$out"' EXIT
for _ in $(seq 100); do grep -q ready "$out/got" && break; sleep 0.1; done
grep -q ready "$out/got" || { echo "the receiver did not start:"; cat "$out/err"; exit 1; }
"$bin/parley" replay "$dataset" -o "$out/run.parquet" --concurrency 8 --requests 200 --think none --traceparent --otlp http://127.0.0.1:43180 \
	--url 'sim:?ttft=5ms&itl=1ms&slots=16&fail=0.05' >"$out/log" 2>&1 || [[ $? == 3 ]] || { cat "$out/log"; exit 1; }
exec 9>&-
wait "$receiver" || { cat "$out/err"; exit 1; }
"${PARLEY_PYTHON:-python3}" - "$out/run.parquet" "$out/got" <<'PY'
import json, sys
import duckdb
run, got = sys.argv[1], json.loads(open(sys.argv[2]).read().splitlines()[-1])
one = lambda q: duckdb.sql(f"select {q} from '{run}' where start_ns is not null").fetchall()[0]
turns, conversations, failed, tokens_in, tokens_out, durations, firsts, gaps, total = one(
    "count(*), count(distinct trace_id), count(*) filter (status in ('http_error','stream_error','transport_error','timeout','incomplete','empty')),"
    "coalesce(sum(prompt_tokens) filter (status = 'ok'), 0), coalesce(sum(completion_tokens) filter (status = 'ok'), 0), count(done_ns),"
    "count(first_event_ns) filter (streamed), coalesce(sum(greatest(len(chunk_ns) - 1, 0)) filter (streamed), 0), sum(done_ns - start_ns) / 1e9")
all_in, all_out = one("count(prompt_tokens), count(completion_tokens)")
assert one("count(distinct span_id)")[0] == turns, "span ids are not unique"
m, s = got["Metrics"], got["Sums"]
base = "gen_ai.client."
pairs = {
    "turns": (got["Turns"], turns), "conversations": (got["Conversations"], conversations), "orphans": (got["Orphans"], 0), "errors": (got["Errors"], failed),
    "input": (got["Input"], tokens_in), "output": (got["Output"], tokens_out), "durations": (m[base + "operation.duration"], durations),
    "first chunks": (m[base + "operation.time_to_first_chunk"], firsts), "chunks": (m[base + "operation.time_per_output_chunk"], gaps),
    "usage in": (m[base + "token.usage input"], all_in), "usage out": (m[base + "token.usage output"], all_out),
}
bad = [f"{k}: the receiver has {a}, the run {b}" for k, (a, b) in pairs.items() if a != b]
if abs(s[base + "operation.duration"] / total - 1) > 1e-9:
    bad.append(f"durations add up to {s}, the run's to {total}")
if "/1.41.0" not in got["SchemaURL"]:
    bad.append(f"schema {got['SchemaURL']}")
bad += got["Problems"] or []
assert turns >= 200 and failed > 0, (turns, failed)
sys.exit("\n".join(bad) if bad else print(f"the collector's receiver took {turns} turns of {conversations} conversations, as the rows have them"))
PY
