#!/usr/bin/env bash
# Points every conformance runner at a server and sums up.
#
#   run.sh --url http://127.0.0.1:PORT   a server that runs already (and --patient-url, --recovery-url,
#                                        --msgpack-url, --deflate-url, --eio3-url for the variants below,
#                                        as far as they exist)
#   run.sh --server "COMMAND"            starts COMMAND --port P itself, and with it the variants:
#                                        --ping-timeout 5000, --recovery all|asked, --parser msgpack, --deflate, --allow-eio3,
#                                        --tls-cert FILE --tls-key FILE, and with these --webtransport
#   run.sh --reference                   the same with Socket.IO's Node server from reference/
#
#   --only js|core|timing|python|java|autobahn|webtransport   may be repeated; default: all but core, which is a part of js, and
#                                        webtransport, where a browser stands between
#   --cases quick|all                    Autobahn's case set; default: quick
#
# The servers are the conformance application. What a suite needs is installed beside it, in folders
# that git ignores. Logs are in .runs/latest/. The last line is `N passed, N failed, N skipped`; exit 1 on
# any failure. A suite that is not run counts as one skipped and has a line `NOT RUN: …`; with a server
# started here it is a failure, unless servers.sh lists it as absent.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
cd "$here"
source ./servers.sh

usage() { sed -n '2,/^set /s/^# \{0,1\}//p' run.sh | sed '/^set /d' >&2; exit 2; }

url= patient_url= others_url= recovery_url= msgpack_url= deflate_url= eio3_url= tls_url= webtransport_url= tls_cert= server= peer=sockeye cases=quick
suites=()
while (($#)); do
  case "$1" in
    --url) url="${2:?}"; shift 2 ;;
    --patient-url) patient_url="${2:?}"; shift 2 ;;
    --recovery-url) recovery_url="${2:?}"; shift 2 ;;
    --msgpack-url) msgpack_url="${2:?}"; shift 2 ;;
    --deflate-url) deflate_url="${2:?}"; shift 2 ;;
    --eio3-url) eio3_url="${2:?}"; shift 2 ;;
    --server) server="${2:?}"; shift 2 ;;
    --reference) peer=reference; server="node $here/reference/server.js"; shift ;;
    --only) suites+=("${2:?}"); shift 2 ;;
    --cases) cases="${2:?}"; shift 2 ;;
    *) usage ;;
  esac
done
[[ -n "$url" || -n "$server" ]] || usage
((${#suites[@]})) || suites=(js timing python java autobahn)
for suite in "${suites[@]}"; do [[ "$suite" =~ ^(js|core|timing|python|java|autobahn|webtransport)$ ]] || usage; done
wants() { [[ " ${suites[*]} " == *" $1 "* ]]; }

# A folder per run: two runs at once must not count each other's results. Old ones go after a day.
export CONFORMANCE_PEER="$peer" CONFORMANCE_RUN_DIR="$here/.runs/$(date +%Y%m%d-%H%M%S)-$$"
mkdir -p "$CONFORMANCE_RUN_DIR"
ln -sfn "$(basename "$CONFORMANCE_RUN_DIR")" .runs/latest
find .runs -mindepth 1 -maxdepth 1 -type d -mtime +0 -exec rm -rf {} +

# --- installing ---------------------------------------------------------------------------------

# Runs `npm ci` when the lock file is newer than what is installed.
npm_install() {
  [[ "$1/node_modules/.package-lock.json" -nt "$1/package-lock.json" ]] && return
  echo "installing npm packages of $1"
  npm ci --prefix "$1" --no-audit --no-fund --ignore-scripts --loglevel=error
  touch "$1/node_modules/.package-lock.json"
}

python_install() {
  cmp -s python/requirements.txt python/.venv/.complete && return
  echo "installing Python packages of python"
  python3 -m venv --clear python/.venv
  python/.venv/bin/pip install --quiet --disable-pip-version-check -r python/requirements.txt
  cp python/requirements.txt python/.venv/.complete
}

# --- running ------------------------------------------------------------------------------------

# record NAME COMMAND...: runs it into a log and writes "passed failed skipped" to NAME.result.
# A runner that dies without its closing line counts as one failure, never as nothing.
record() {
  local name="$1" log="$CONFORMANCE_RUN_DIR/$1.log" started=$SECONDS status=0
  shift
  "$@" > "$log" 2>&1 || status=$?
  local counts passed failed
  counts="$(grep -aE '^[0-9]+ passed, [0-9]+ failed$' "$log" | tail -1 || true)"
  read -r passed _ failed _ <<< "${counts:-0 passed, 1 failed}"
  ((status == 0 || status == 77 || failed > 0)) || failed=1
  ((status == 77)) && passed=0 failed=0
  echo "$passed $failed $((status == 77))" > "$CONFORMANCE_RUN_DIR/$name.result"
  report "$name" "$passed" "$failed" $((SECONDS - started)) "$status"
}

report() {
  local name="$1" log="$CONFORMANCE_RUN_DIR/$1.log"
  if (($5 == 77)); then echo "NOT RUN: $(grep -a SKIPPED "$log")"; return; fi
  echo "$name: $2 passed, $3 failed ($4 s)"
  (($3 == 0)) && return
  if grep -aq '^✖ failing tests:' "$log"; then
    sed -n '/^✖ failing tests:/,$p' "$log" | grep -avE '^ +at |generatedMessage|ERR_ASSERTION|passed, ' || true
  elif grep -aq '^=====' "$log"; then
    sed -n '/^=====/,$p' "$log" | grep -avE '^  +(File|return|if|self\._)|\^\^\^' || true
  else
    grep -a FAILED "$log" || tail -30 "$log"
  fi
}

# Node's own summary, turned into the closing line every runner has.
node_tests() {
  local output="$CONFORMANCE_RUN_DIR/$1.spec" status=0
  shift
  # For a whole file too, and the longest takes most of a minute on an idle machine.
  node --test --test-reporter=spec --test-timeout=300000 "$@" > "$output" 2>&1 || status=$?
  cat "$output"
  awk '/^ℹ pass /{p=$3} /^ℹ fail /{f=$3} /^ℹ cancelled /{c=$3} END {print p+0 " passed, " f+c+(p+f+c==0) " failed"}' "$output"
  rm "$output"
  return "$status"
}

js_suite() { (cd js && node_tests js --test-concurrency=3 test/*.test.js "$@"); }
# Stock clients again, https and wss this time.
js_tls_suite() { (cd js && NODE_EXTRA_CA_CERTS="$tls_cert" node_tests js-tls --test-concurrency=3 test/stock-*.test.js); }
# And by WebTransport, which a Chromium lends to Node.
js_webtransport_suite() {
  if [[ ! -x "${CHROMIUM:-/usr/bin/chromium-headless-shell}" ]]; then
    echo "SKIPPED: stock clients by WebTransport, no Chromium: apt-get install -y chromium-headless-shell"
    return 77
  fi
  (cd js && CONFORMANCE_PATIENCE_MS=30000 NODE_EXTRA_CA_CERTS="$tls_cert" node_tests js-webtransport optional/webtransport.test.js)
}
# What handlers take part in, and no time is measured.
js_core_suite() { (cd js && node_tests js-core --test-concurrency=3 optional/core.test.js test/socketio-{packets,disconnecting}.test.js); }
# What others are told drives out of the log what clients of other tests missed.
js_idle_suite() { (cd js && node_tests js-idle optional/idle.test.js); }
js_timing_suite() { (cd js && node_tests js-timing timing/*.test.js); }

run_clients() {
  local optional=()
  [[ -n "$recovery_url" ]] && optional+=(optional/recovery.test.js optional/returning.test.js)
  [[ -n "$msgpack_url" ]] && optional+=(optional/msgpack.test.js)
  [[ -n "$deflate_url" ]] && optional+=(optional/deflate.test.js)
  [[ -n "$eio3_url" ]] && optional+=(optional/eio3.test.js)
  export CONFORMANCE_RECOVERY_URL="$recovery_url" CONFORMANCE_MSGPACK_URL="$msgpack_url"
  export CONFORMANCE_PATIENT_URL="$patient_url" CONFORMANCE_DEFLATE_URL="$deflate_url" CONFORMANCE_EIO3_URL="$eio3_url"
  local jobs=()
  if wants js; then CONFORMANCE_URL="$url" record js js_suite "${optional[@]}" & jobs+=($!); fi
  if wants core; then CONFORMANCE_URL="$url" record js-core js_core_suite & jobs+=($!); fi
  if wants python || wants java; then other_languages & jobs+=($!); fi
  for job in "${jobs[@]}"; do wait "$job"; done
  if wants js && [[ -n "$recovery_url" ]]; then CONFORMANCE_URL="$url" record js-idle js_idle_suite; fi
  if wants js && [[ -n "$tls_url" ]]; then CONFORMANCE_URL="$url" CONFORMANCE_PATIENT_URL="$tls_url" record js-tls js_tls_suite; fi
  if wants webtransport && [[ -n "$webtransport_url" ]]; then
    CONFORMANCE_URL="$url" CONFORMANCE_PATIENT_URL="$webtransport_url" record js-webtransport js_webtransport_suite
  fi
  # Alone, because these measure the time between packets.
  if wants timing; then CONFORMANCE_URL="$url" record js-timing js_timing_suite; fi
}

other_languages() {
  export CONFORMANCE_URL="$others_url"
  if wants python; then record python python/.venv/bin/python python/run.py; fi
  if wants python && [[ -n "$msgpack_url" ]]; then
    CONFORMANCE_URL="$msgpack_url" CONFORMANCE_PARSER=msgpack record python-msgpack python/.venv/bin/python python/run.py
  fi
  if wants java; then record java java/run.sh; fi
}

# --- the run ------------------------------------------------------------------------------------

if wants js || wants core || wants timing || wants webtransport; then npm_install js; fi
if wants python; then python_install; fi
if [[ "$peer" == reference ]]; then npm_install reference; fi
if [[ -n "$server" ]]; then start_servers; else say_what_has_no_url; fi
patient_url="${patient_url:-$url}"
others_url="${others_url:-$patient_url}"

if wants js || wants core || wants timing || wants webtransport || wants python || wants java; then run_clients; fi
if wants autobahn; then record autobahn autobahn/run.sh "${deflate_url:-$url}" "$cases"; fi

awk '{passed += $1; failed += $2; skipped += $3}
  END {print passed " passed, " failed " failed" (skipped ? ", " skipped " skipped" : ""); exit failed > 0}' "$CONFORMANCE_RUN_DIR"/*.result
