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

# The server is an 8 B model on one H100, as far as continuous batching in steps goes; its mood comes from a seed.
run "$parley" generate -o "$demo/chat.parquet" --preset chat -n 600 --seed 7
replay "$demo/chat.parquet" -o "$demo/run.parquet" --label cached --concurrency 32 --ramp 2s --duration 30s --grace 4s \
	--url 'sim:?gpu=h100&mood=0.03&drift=0.02' --think 0.001x --think-cap 1s --ignore-eos >"$demo/run.txt"
replay "$demo/chat.parquet" -o "$demo/nocache.parquet" --label no-cache --concurrency 32 --ramp 2s --duration 14s --grace 4s \
	--url 'sim:?gpu=h100&mood=0.03&drift=0.02&cache_blocks=0' --think 0.001x --think-cap 1s --ignore-eos >"$demo/nocache.txt"
run "$parley" analyze "$demo/run.parquet" --by turn --slo ttft=200ms --slo tpot=20ms --html "$demo/report.html"
printf '\nThe report is %s/report.html; the files are %s/*.parquet.\n' "$demo" "$demo"
