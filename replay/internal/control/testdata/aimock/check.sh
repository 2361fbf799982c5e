#!/usr/bin/env bash
# check.sh DIR: installs the independent mock server @copilotkit/aimock into DIR, once, and checks
# parley's requests and streams against it over every API that it speaks. Needs node, npm and go.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:?usage: check.sh DIR}"
dir=$(cd "$1" && pwd)
bin=$dir/node_modules/.bin/llmock
[[ -x $bin ]] || (cd "$dir" && npm i -E @copilotkit/aimock@1.43.0 --ignore-scripts --no-audit --no-fund)
cd "$here/../.."
PARLEY_AIMOCK=$bin exec go test -count=1 -run '^TestAimock$' -v .
