#!/usr/bin/env bash
# check.sh DIR: checks parley's requests, streams, counts and control requests against the real llama.cpp
# server. DIR holds llama-server and tiny.gguf, a model of random weights.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$(cd "${1:?usage: check.sh DIR}" && pwd)
[[ -x $dir/llama-server && -s $dir/tiny.gguf ]] || { echo "check.sh: no llama-server and tiny.gguf in $dir" >&2; exit 1; }
cd "$here/../.."
PARLEY_LLAMACPP=$dir exec go test -count=1 -run '^TestLlamaCpp$' -v .
