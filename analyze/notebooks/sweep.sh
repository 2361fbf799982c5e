#!/bin/sh
# Makes the sweep that the notebooks look for the knee in: short runs of the demo's dataset against one simulated
# server, with ever more conversations at once. Takes about half a minute.
#
#     sh analyze/notebooks/sweep.sh [PARLEY [DEMO_DIR]]
#
# after make demo; PARLEY is bin/parley and DEMO_DIR is demo if not given.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
parley=${1:-$root/bin/parley}
demo=${2:-$root/demo}
[ -x "$parley" ] && [ -f "$demo/chat.parquet" ] || { echo "sweep.sh: no $parley or no $demo/chat.parquet: run make demo first" >&2; exit 1; }
rm -rf "$demo/sweep"
mkdir "$demo/sweep"
for n in 2 4 8 16 32 64; do
	# Exit code 3 is a verdict of INVALID, as a busy machine earns it: the rows are there all the same.
	"$parley" replay "$demo/chat.parquet" -o "$demo/sweep/c$n.parquet" --label "c$n" --concurrency "$n" \
		--url 'sim:?prefill=20000&itl=4ms&slots=16' --think none --duration 4s --grace 4s || [ $? -eq 3 ]
done
