# Sourced by run.sh: starts the conformance application in its variants on free ports, waits until
# each one listens, and ends them with the run. Sets url, patient_url, others_url, recovery_url,
# msgpack_url, deflate_url, eio3_url, tls_url, webtransport_url, tls_cert.

# A first start may compile.
START_TIMEOUT_SECONDS=900
# Variants that Sockeye does not have yet. Any other that does not start is a failure, and so is one of
# these that does: the list must say what is.
ABSENT_AT_SOCKEYE=()
# For clients that follow their own pace: on a busy machine a handshake of TLS and a CONNECT may take more than the second that the main
# variant allows.
PATIENCE=(--ping-timeout 5000 --connect-timeout 45000)
server_pids=()

start_servers() {
  trap stop_servers EXIT
  # It keeps them until this program ends. There are fewer variants.
  coproc PORTS { node "$here/ports.mjs" 19; }
  need_variant main
  url="$started_url"
  need_variant patient "${PATIENCE[@]}"
  patient_url="$started_url"
  # Recovery for those who ask: clients of other languages notice nothing of it.
  if { wants python || wants java; } && [[ "$peer" == sockeye ]]; then
    need_variant asked "${PATIENCE[@]}" --recovery asked
    others_url="$started_url"
  fi
  if wants js; then
    if offers recovery "${PATIENCE[@]}" --recovery; then recovery_url="$started_url"; fi
    # Its clients ping by themselves, so the interval is theirs, and a test waits for the end of one that does not.
    if offers eio3 --ping-timeout 1000 --connect-timeout 45000 --allow-eio3; then eio3_url="$started_url"; fi
  fi
  if wants js || wants webtransport; then start_tls_variants; fi
  if wants js || wants python; then
    if offers msgpack "${PATIENCE[@]}" --parser msgpack; then msgpack_url="$started_url"; fi
  fi
  if wants js || wants autobahn; then
    if offers deflate "${PATIENCE[@]}" --deflate; then deflate_url="$started_url"; fi
  fi
}

# Without these two nothing can be said.
need_variant() {
  start_variant "$@" && return
  tail -20 "$CONFORMANCE_RUN_DIR/server-$1.log" >&2
  echo "the $1 server does not start: $server ${*:2}" >&2
  exit 1
}

# With a certificate made for the run, which clients are told to trust.
start_tls_variants() {
  local cert="$CONFORMANCE_RUN_DIR/tls.pem" key="$CONFORMANCE_RUN_DIR/tls.key"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc -days 2 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout "$key" -out "$cert" 2>/dev/null
  tls_cert="$cert"
  if wants js && offers tls "${PATIENCE[@]}" --tls-cert "$cert" --tls-key "$key"; then
    tls_url="${started_url/http:/https:}"
  fi
  # Socket.IO's own server has WebTransport only with another library's help.
  if wants webtransport && [[ "$peer" == sockeye ]] && offers webtransport "${PATIENCE[@]}" --tls-cert "$cert" --tls-key "$key" --webtransport; then
    webtransport_url="${started_url/http:/https:}"
  fi
}

# offers NAME FLAGS...: starts a variant whose suite is run only if the server has it.
offers() {
  local expected=present
  [[ "$peer" == sockeye && " ${ABSENT_AT_SOCKEYE[*]} " == *" $1 "* ]] && expected=absent
  if start_variant "$@"; then
    [[ $expected == present ]] || failed "$1" "the server has it by now, take it off the list in servers.sh"
    return 0
  fi
  if [[ $expected == absent ]]; then
    not_run "$1" "Sockeye does not have it yet"
  else
    failed "$1" "not run, the server does not start with ${*:2}: $(tail -1 "$CONFORMANCE_RUN_DIR/server-$1.log")"
  fi
  return 1
}

# A server that is given by its address has the variants that are given as well.
say_what_has_no_url() {
  wants js || return 0
  [[ -n "$recovery_url" ]] || not_run recovery "no --recovery-url"
  [[ -n "$msgpack_url" ]] || not_run msgpack "no --msgpack-url"
  [[ -n "$deflate_url" ]] || not_run deflate "no --deflate-url"
  [[ -n "$eio3_url" ]] || not_run eio3 "no --eio3-url"
  not_run tls "needs --server"
}

# Both take NAME WHY and go into the closing line.
not_run() {
  echo "NOT RUN: $1: $2"
  echo "0 0 1" > "$CONFORMANCE_RUN_DIR/variant-$1.result"
}

failed() {
  echo "FAILED: $1: $2"
  echo "0 1 0" > "$CONFORMANCE_RUN_DIR/variant-$1.result"
}

stop_servers() {
  ((${#server_pids[@]})) && kill "${server_pids[@]}" 2>/dev/null || true
}

# start_variant NAME FLAGS...: sets started_url; fails when the process ends instead of listening.
start_variant() {
  local name="$1" port deadline=$((SECONDS + START_TIMEOUT_SECONDS))
  shift
  read -r port <&"${PORTS[0]}"
  # Unquoted on purpose: the command may have arguments.
  $server --port "$port" "$@" > "$CONFORMANCE_RUN_DIR/server-$name.log" 2>&1 &
  local pid=$!
  while ! (exec 3<> "/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
    if ! kill -0 "$pid" 2>/dev/null || ((SECONDS > deadline)); then
      kill "$pid" 2>/dev/null || true
      return 1
    fi
    sleep 0.1
  done
  server_pids+=("$pid")
  started_url="http://127.0.0.1:$port"
}
