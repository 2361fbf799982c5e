#!/bin/sh
# The demonstration behind `make demo`: all three verbs over real HTTP on loopback, against the built-in
# simulated server. Leaves the dataset, two runs to compare, and the report in $DEMO.
set -eu
parley=${BIN:?}/parley
demo=${DEMO:?}
rm -rf "$demo"
mkdir -p "$demo"
cd_note() { printf '\n$ %s\n' "$*"; }
run() {
	cd_note "$@"
	"$@"
}

run "$parley" generate -o "$demo/chat.parquet" --preset chat -n 400 --seed 7
run "$parley" replay "$demo/chat.parquet" -o "$demo/run.parquet" --label cached \
	--url 'sim:?prefill=20000&itl=4ms&slots=48' --concurrency 48 --think 0.002x --think-cap 1s
run "$parley" replay "$demo/chat.parquet" -o "$demo/nocache.parquet" --label no-cache \
	--url 'sim:?prefill=20000&itl=4ms&slots=48&cache_blocks=0' --concurrency 48 --think 0.002x --think-cap 1s --requests 400
run "$parley" analyze "$demo/run.parquet" --by turn --slo ttft=200ms --slo tpot=20ms --html "$demo/report.html"
printf '\nThe report is %s/report.html; the files are %s/*.parquet.\n' "$demo" "$demo"
