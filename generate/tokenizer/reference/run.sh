#!/bin/sh
# Holds the tokenizer package against the reference encoder (the npm package "tokenizers", which is the
# Rust one) on real tokenizer files. Needs node, npm and go.
#
#     generate/tokenizer/reference/run.sh CACHE_DIRECTORY
#
# The packages go into the cache directory, which is kept for the next time and stays outside the checkout.
set -eu
if [ $# -ne 1 ]; then
    echo "usage: $0 CACHE_DIRECTORY" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
cache=$(cd "$1" && pwd)
if ! cmp -s "$here/package.json" "$cache/installed.json"; then
    cp "$here/package.json" "$cache/package.json"
    (cd "$cache" && npm install --no-audit --no-fund --no-package-lock --silent)
    cp "$here/package.json" "$cache/installed.json"
fi
cd "$here/.."
PARLEY_TOKENIZER_REFERENCE="$cache/node_modules" go test -count=1 -run '^TestReference$' -v .
