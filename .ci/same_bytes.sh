#!/usr/bin/env bash
# The same seed gives the same bytes on every processor: makes datasets of all presets, of vLLM's config, of our
# example and of traces with builds for amd64 (v1; v1 without fused instructions; v3, where the compiler fuses what it
# may) and for arm64 (under qemu-user, if it is there), and compares the files byte by byte; then what replay
# plans of them. About a minute. Usage: same_bytes.sh FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
out=$1
mkdir -p "$out"

GOARCH=amd64 GOAMD64=v1 go build -o "$out/v1" ./cmd/parley
GOARCH=amd64 GOAMD64=v3 go build -o "$out/v3" ./cmd/parley
GOARCH=arm64 go build -o "$out/arm64" ./cmd/parley
kinds=(v1 nofma v3)
command -v qemu-aarch64 >/dev/null && kinds+=(arm64) || echo "qemu-aarch64 is not there: arm64 is not compared"
if ! grep -qw avx2 /proc/cpuinfo; then kinds=("${kinds[@]/v3/}"); fi

# Times with ties at half a microsecond, fractions of which none is exact, and arrivals in bunches.
awk 'BEGIN { print "TIMESTAMP,ContextTokens,GeneratedTokens"; for (i = 0; i < 60; i++) printf "2023-11-16 18:%02d:%02d.%07d,%d,%d\n", i / 60, i % 60, (i * 1234567) % 10000000, 100 + i * 7, 5 + i }' >"$out/azure.csv"
awk 'BEGIN { print "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type"; for (i = 0; i < 60; i++) printf "%.6f,s%d,%.7f,GPT-4,%d,%d,%d,Conversation log\n", i * 1.1000003, i % 20, 0.3333333 + i / 7, 50 + i, 9 + i, 59 + 2 * i }' >"$out/burst.csv"
awk 'BEGIN { for (i = 0; i < 30; i++) printf "{\"timestamp\": %d, \"input_length\": %d, \"output_length\": 20, \"hash_ids\": [0, %d]}\n", int(i / 5) * 3000, 600 + i, i + 1 }' >"$out/mooncake.jsonl"

make_all() { # the name of a build, and how to run it
	local kind=$1; shift
	local n
	for preset in $(PRESETS); do
		n=40; [[ $preset == coding-agent ]] && n=2
		"$@" generate -o "$out/$preset.$kind.parquet" --force --preset "$preset" -n "$n" --seed 42 >/dev/null
	done
	"$@" generate -o "$out/vllm.$kind.parquet" --force --config generate/testdata/vllm_generate_multi_turn.json --seed 42 >/dev/null
	"$@" generate -o "$out/example.$kind.parquet" --force --config generate/testdata/example.yaml -n 60 --seed 42 >/dev/null
	"$@" generate -o "$out/lengths.$kind.parquet" --force --turns 'zipf(1.8,max=9)' --input-tokens 'normal(60,40)' --output-tokens 'gamma(shape=0.3,average=40)' -n 60 --seed 42 >/dev/null
	"$@" generate -o "$out/tongues.$kind.parquet" --force --preset chat -n 40 --languages en:0.5,zh:0.3,ar:0.2 --images 64x48:0.3,32x32:0.1 --seed 42 >/dev/null
	"$@" generate -o "$out/azure.$kind.parquet" --force --from "$out/azure.csv" >/dev/null
	"$@" generate -o "$out/burst.$kind.parquet" --force --from "$out/burst.csv" >/dev/null
	"$@" generate -o "$out/mooncake.$kind.parquet" --force --from "$out/mooncake.jsonl" --jitter 3s --seed 42 >/dev/null
	for arrivals in '--rate 5' '--rate 5 --arrivals gamma --burstiness 0.3' '--arrivals recorded --speed 3'; do
		"$@" replay "$out/api.$kind.parquet" --url http://127.0.0.1:1 --dry-run $arrivals
	done | grep -v '^dataset ' >"$out/plan.$kind.txt"
}
PRESETS() { "$out/v1" generate --help | sed -n 's/.*A kind of traffic: \([a-z, -]*\)\..*/\1/p' | tr -d , | head -1; }
[[ $(PRESETS | wc -w) -ge 4 ]] || { echo "the presets could not be read from the help"; exit 1; }

for kind in "${kinds[@]}"; do
	case $kind in
	v1) make_all v1 "$out/v1" ;;
	nofma) GODEBUG=cpu.fma=off make_all nofma "$out/v1" ;;
	v3) make_all v3 "$out/v3" ;;
	arm64) make_all arm64 qemu-aarch64 "$out/arm64" ;;
	esac
done
GOAMD64=v3 go test -count=1 -run TestSameBits ./schemas/random ./replay/load
[[ " ${kinds[*]} " != *" arm64 "* ]] || GOARCH=arm64 go test -count=1 -exec qemu-aarch64 -run TestSameBits ./schemas/random ./replay/load
bad=0
for first in "$out"/*.v1.*; do
	for kind in "${kinds[@]}"; do
		[[ -z $kind ]] && continue
		cmp "$first" "${first/.v1./.$kind.}" || bad=1
	done
done
((bad == 0)) || { echo "the same seed gives different bytes"; exit 1; }
echo "$(ls "$out"/*.v1.* | wc -l) files are the same to the last byte with ${kinds[*]}"
