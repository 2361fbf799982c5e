#!/bin/sh
# The demonstration behind `make demo`: all three verbs over real HTTP on loopback, against the built-in
# simulated server. Leaves the dataset, two runs to compare, and the report in $DEMO.
set -eu
parley=${BIN:?}/parley
demo=${DEMO:?}
rm -rf "$demo"
mkdir -p "$demo"
run() {
	printf '\n$ %s\n' "$*" >&2
	"$@"
}

# A machine that does other things meanwhile earns a run the verdict INVALID (exit code 3): the numbers are
# then not worth much, but the demonstration goes on.
replay() { run "$parley" replay "$@" || [ $? -eq 3 ]; }

run "$parley" generate -o "$demo/chat.parquet" --preset chat -n 300 --seed 7
replay "$demo/chat.parquet" -o "$demo/run.parquet" --label cached --concurrency 64 \
	--url 'sim:?prefill=20000&itl=2500us&slots=64' --think 0.001x --think-cap 1s --ignore-eos >"$demo/run.txt"
replay "$demo/chat.parquet" -o "$demo/nocache.parquet" --label no-cache --concurrency 64 --requests 500 \
	--url 'sim:?prefill=20000&itl=2500us&slots=64&cache_blocks=0' --think 0.001x --think-cap 1s --ignore-eos >"$demo/nocache.txt"
run "$parley" analyze "$demo/run.parquet" --by turn --slo ttft=200ms --slo tpot=20ms --html "$demo/report.html"
printf '\nThe report is %s/report.html; the files are %s/*.parquet.\n' "$demo" "$demo"
