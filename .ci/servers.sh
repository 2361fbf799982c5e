#!/usr/bin/env bash
# servers.sh CACHE [TEST]: installs the real servers into CACHE/servers with the scripts of $PARLEY_SHARED/tools/servers, and
# drives them with the tests of cmd/parley (TestServers..., or those that TEST matches). vLLM takes 6 GB: with less than
# 15 GB free it is left out. What was left out stands in CACHE/servers/left-out. No server outlives the script.
set -euo pipefail
cache=${1:?usage: servers.sh CACHE [TEST]} only=${2:-TestServers}
cd "$(dirname "$0")/.."
scripts=${PARLEY_SHARED:-$(cd .. && pwd)/shared}/tools/servers
[[ -x $scripts/dynamo.sh ]] || { echo "no $scripts to install servers with"; exit 1; }
mkdir -p "$cache/servers"
servers=$(cd "$cache/servers" && pwd)
: >"$servers/left-out"
groups_file=$(mktemp)
# A group may be that of another program by now, unless one of its processes works in the servers' folder.
finish() {
	local g p
	while read -r g; do
		for p in $(pgrep -g "$g" || true); do
			[[ $(readlink "/proc/$p/cwd" || true) == "$servers"/* ]] && kill -KILL -- "-$g" 2>/dev/null && break
		done
	done <"$groups_file"
	rm -f "$groups_file"
}
trap finish EXIT
trap 'exit 1' INT TERM
free=$(df --output=avail -BG "$servers" | tail -1 | tr -dc 0-9)
for server in model dynamo litellm ollama vllm; do
	if [[ $server == vllm && ! -f $servers/vllm/installed && $free -lt 15 ]]; then
		echo "vLLM was not driven: it takes 6 GB, and only $free GB are free" | tee -a "$servers/left-out"
		continue
	fi
	bash "$scripts/$server.sh" "$servers/$server" >"$cache/$server.log" 2>&1 || { tail -30 "$cache/$server.log"; exit 1; }
done
export PARLEY_SERVERS=$servers SERVER_SCRIPTS=$scripts SERVER_GROUPS=$groups_file OLLAMA_GGUF=${OLLAMA_GGUF:-$cache/llama/tiny.gguf}
go test -trimpath -tags integration -count=1 -timeout 40m -run "$only" -v ./cmd/parley 2>&1 | tee "$cache/servers-${only//[^A-Za-z]/}.log" | grep -E '^ *(---|FAIL|ok|PASS|panic)|_test.go:|LEFT OUT' || { tail -60 "$cache/servers-${only//[^A-Za-z]/}.log"; exit 1; }
