#!/usr/bin/env bash
# Checks the exports of a run, and of a run with stages, by the publishers' own schemas and models.
#
#   check.sh CACHE BIN RUN DATASET    CACHE keeps the packages; $PARLEY_SHARED/formats has llm-d's schema
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=$1 bin=$2 run=$3 dataset=$4
venv=$cache/venv
if ! cmp -s "$here/requirements.txt" "$venv/requirements.txt"; then
	rm -rf "$venv"
	python3 -m venv "$venv"
	"$venv/bin/pip" install -q --disable-pip-version-check -r "$here/requirements.txt"
	# AIPerf's models need little of what AIPerf needs.
	"$venv/bin/pip" install -q --disable-pip-version-check --no-deps aiperf==0.13.0
	cp "$here/requirements.txt" "$venv/requirements.txt"
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
"$bin/parley" replay "$dataset" -o "$out/staged.parquet" --concurrency 4:4s,8:4s --duration 8s --think none \
	--url 'sim:?ttft=20ms&itl=2ms&slots=16' >"$out/log" 2>&1 || [[ $? == 3 ]] || { cat "$out/log"; exit 1; }
facts=(--fact hw=h100 --fact tp=8)
analyze() { "$bin/parley" analyze "$@"; }
mkdir "$out/llm-d"
analyze "$run" "$out/staged.parquet" --window all --format llm-d -o "$out/llm-d" "${facts[@]}" --fact framework=vllm --fact framework_version=0.14.0
analyze "$run" "$out/staged.parquet" --window all --format aiperf -o "$out/aiperf"
analyze "$out/staged.parquet" --window all --format mlperf-endpoints -o "$out/mlperf" --facts "$here/mlperf.yaml"
analyze "$run" --format vllm-json -o "$out/vllm.json"
analyze "$run" --format inferencex -o "$out/point.json" "${facts[@]}" --fact precision=fp8 --fact disagg=false
check() { "$venv/bin/python" "$here/check.py" "$@"; }
[[ $(ls "$out/llm-d" | wc -l) == 3 && $(ls "$out/aiperf" | wc -l) == 3 ]] || { echo "a run and two stages are three levels:"; ls "$out"/*; exit 1; }
check llm-d "${PARLEY_SHARED:?}/formats/br_v0_2_1.json" "$out"/llm-d/*.json
check aiperf "$out"/aiperf/*
check mlperf "$out/mlperf"
check inferencex "$out/vllm.json" "$out/point.json"
