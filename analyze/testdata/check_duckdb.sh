#!/bin/sh
# Checks every figure against DuckDB and NumPy on runs with every kind of row:
#
#     analyze/testdata/check_duckdb.sh PYTHON [RESULT.json ...]
#
# PYTHON is an interpreter that has duckdb and numpy. Results of real runs may be named too.
set -eu
python=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
(cd "$here/../.." && go build -o "$dir/synthrun" ./analyze/internal/synthrun)
n=0
check() {
	n=$((n + 1))
	"$dir/synthrun" -o "$dir/run.parquet" -json "$dir/$n.json" "$@" >/dev/null
	"$python" "$here/check_duckdb.py" "$dir/$n.json"
}
check -slo ttft=80ms -slo tpot=9ms -by turn
check -conversations 0 -from scheduled -window all -by tag.source -by prompt_tokens
check -conversations 0 -from start -window turns -by uncached_tokens:50
check -conversations 0 -window turns=2:5 -by error_kind
check -conversations 0 -window 5s:30s -slo e2e=500ms -by time -by url
check -conversations 0 -by time:700ms
check -conversations 90 -chunks 20 -clean -by url
check -conversations 120 -turns 3 -chunks 5 -clean -seed 9 -by conversation_id
check -conversations 6000 -turns 20 -chunks 20 -slo ttft=80ms -by turn # a longer run, of 63,000 turns
for result in "$@"; do
	"$python" "$here/check_duckdb.py" "$result"
done
