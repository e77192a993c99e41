#!/usr/bin/env bash
# Runs Autobahn's fuzzing client against a WebSocket echo and judges its report.
#
#   run.sh URL [quick|all]
#
# URL is ws://host:port/path, or http://host:port for ws://host:port/echo. `quick` is sections 1-7,
# 9 and 10 (301 cases), `all` adds 12 and 13 (deflate, 517 cases). The suite needs Python 2.7:
# $PYTHON27, pyenv's, or one on PATH. Without one it says so and exits 77.
# The last line is `N passed, N failed`.
set -euo pipefail
cd "$(dirname "$0")"

url="${1:?usage: run.sh URL [quick|all]}"
set_name="${2:-quick}"
[[ "$url" == http://* ]] && url="ws://${url#http://}" && url="${url%/}/echo"
case "$set_name" in
  quick) cases='"1.*","2.*","3.*","4.*","5.*","6.*","7.*","9.*","10.*"' expected=301 ;;
  all) cases='"*"' expected=517 ;;
  *) echo "case set \"$set_name\" is unknown, give quick or all" >&2; exit 2 ;;
esac

find_python27() {
  local candidate
  for candidate in "${PYTHON27:-}" "$HOME"/.pyenv/versions/2.7*/bin/python2.7 python2.7 python2; do
    # A pyenv shim exists even when no such version is active, so each is tried.
    [[ -n "$candidate" ]] && "$candidate" -c 'import sys; assert sys.version_info[:2] == (2, 7)' 2>/dev/null && echo "$candidate" && return
  done
  return 1
}

if ! python="$(find_python27)"; then
  echo "AUTOBAHN SKIPPED: no Python 2.7 (pyenv install 2.7.18, or set PYTHON27)" >&2
  exit 77
fi

install_suite() {
  [[ -f .suite/.complete ]] && cmp -s requirements.txt .suite/.complete && return
  echo "installing autobahntestsuite for $("$python" --version 2>&1) into $PWD/.suite"
  rm -rf .suite
  "$python" -m pip --version >/dev/null 2>&1 || "$python" -m ensurepip --user >/dev/null
  "$python" -m pip --disable-pip-version-check install --quiet --no-warn-script-location --target .suite -r requirements.txt 2>&1 |
    grep -v -e DEPRECATION -e 'is available' || true
  [[ -x .suite/bin/wstest ]] || { echo "pip installed no wstest into $PWD/.suite" >&2; exit 1; }
  cp requirements.txt .suite/.complete
}

install_suite
run_dir="${CONFORMANCE_RUN_DIR:-$PWD/../.runs}/autobahn-$set_name"
rm -rf "$run_dir"
mkdir -p "$run_dir"
cat > "$run_dir/spec.json" <<SPEC
{"outdir": "$run_dir/report", "servers": [{"agent": "server", "url": "$url"}], "cases": [$cases], "exclude-cases": [], "exclude-agent-cases": {}}
SPEC

started=$SECONDS
# addsitedir, because zope.interface is a namespace package that only a .pth file makes visible.
boot='import site, sys; site.addsitedir(".suite"); sys.path.insert(0, ".suite"); from autobahntestsuite.wstest import run; run()'
"$python" -c "$boot" --mode fuzzingclient --spec "$run_dir/spec.json" > "$run_dir/wstest.log" 2>&1 ||
  { tail -20 "$run_dir/wstest.log" >&2; exit 1; }
echo "autobahn $set_name took $((SECONDS - started)) s"
exec python3 judge.py "$run_dir/report/index.json" "$expected"
