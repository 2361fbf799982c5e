#!/bin/sh
# Builds the report's script again and compares it with the committed one, byte for byte, then tests reports
# in headless Chromium.
#
#     analyze/report/web/check.sh CACHEDIR
#
# CACHEDIR keeps node_modules between runs and gets the built files and the reports that were tested. Needs
# Go, Node 20 or later with npm, and Chromium (CHROMIUM names it, /usr/bin/chromium if unset).
set -eu

[ $# -eq 1 ] || { echo "usage: check.sh CACHEDIR" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
mkdir -p "$1"
cache=$(cd "$1" && pwd)
web=$cache/web
reports=$cache/reports
export CHROMIUM="${CHROMIUM:-/usr/bin/chromium}"
[ -x "$CHROMIUM" ] || { echo "check.sh: no Chromium at $CHROMIUM: install it (Debian: apt-get install chromium) or set CHROMIUM" >&2; exit 1; }

# A copy, so that neither node_modules nor the built files come into the checkout.
mkdir -p "$web"
rm -rf "$web/src" "$web/test" "$reports"
mkdir -p "$reports"
for f in package.json package-lock.json .npmrc tsconfig.json build.mjs src test; do cp -R "$here/$f" "$web/"; done

lock=$(cat "$web/package.json" "$web/package-lock.json" | sha256sum)
if [ "$(cat "$cache/installed" 2>/dev/null || true)" != "$lock" ]; then
	rm -f "$cache/installed"
	(cd "$web" && npm ci)
	echo "$lock" >"$cache/installed"
fi

(cd "$web" && npm run --silent check && npm run --silent build -- "$cache/dist")
for f in report.js report.css LICENSE.uplot.txt; do
	cmp "$cache/dist/$f" "$here/dist/$f" || {
		echo "check.sh: dist/$f is not what src/ gives: run 'npm ci && npm run build' in analyze/report/web and commit dist" >&2
		exit 1
	}
done

(cd "$root" && go run ./analyze/report/web/test/sample -dir "$reports")
cd "$web" && REPORTS="$reports" npm run --silent test
