# Sourced by run.sh: starts the conformance application in its variants on free ports, waits until
# each one listens, and ends them with the run. Sets url, patient_url, recovery_url, msgpack_url,
# deflate_url, tls_url, tls_cert.

# A first start may compile.
START_TIMEOUT_SECONDS=900
server_pids=()

start_servers() {
  trap stop_servers EXIT
  start_variant main || { tail -20 "$CONFORMANCE_RUN_DIR/server-main.log" >&2; echo "the server does not start: $server" >&2; exit 1; }
  url="$started_url"
  start_variant patient --ping-timeout 5000 && patient_url="$started_url"
  if wants js; then
    if start_variant recovery --ping-timeout 5000 --recovery; then recovery_url="$started_url"; else without recovery; fi
    if start_variant msgpack --ping-timeout 5000 --parser msgpack; then msgpack_url="$started_url"; else without msgpack; fi
    start_tls_variant
  fi
  if wants js || wants autobahn; then
    if start_variant deflate --ping-timeout 5000 --deflate; then deflate_url="$started_url"; else without deflate; fi
  fi
}

# With a certificate made for the run, which clients are told to trust.
start_tls_variant() {
  local cert="$CONFORMANCE_RUN_DIR/tls.pem" key="$CONFORMANCE_RUN_DIR/tls.key"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc -days 2 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout "$key" -out "$cert" 2>/dev/null
  if start_variant tls --ping-timeout 5000 --tls-cert "$cert" --tls-key "$key"; then
    tls_url="${started_url/http:/https:}" tls_cert="$cert"
  else
    without tls
  fi
}

without() {
  echo "NOT RUN: the $1 suite, the server refuses its flag: $(tail -1 "$CONFORMANCE_RUN_DIR/server-$1.log")"
}

stop_servers() {
  ((${#server_pids[@]})) && kill "${server_pids[@]}" 2>/dev/null || true
}

# start_variant NAME FLAGS...: sets started_url; fails when the process ends instead of listening.
start_variant() {
  local name="$1" port deadline=$((SECONDS + START_TIMEOUT_SECONDS))
  shift
  port="$(free_port)"
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

free_port() {
  node -e 'const s = require("net").createServer().listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close(); })'
}
