#!/usr/bin/env bash
# The load scripts against a gateway:  examples/load/run.sh SOCKEYE
# Needs Node, and Go, which builds k6. Artillery and k6 come in exact versions.
set -euo pipefail
sockeye="$(realpath "${1:?usage: run.sh SOCKEYE (the binary)}")"
cd "$(dirname "$0")"
tools="$(realpath ../../target)/tools/bin"
[[ -x "$tools/k6" ]] || GOBIN="$tools" go install go.k6.io/k6@v1.8.1
[[ node_modules/.package-lock.json -nt package-lock.json ]] || npm ci --ignore-scripts --no-audit --no-fund
SOCKEYE_BIN="$sockeye" K6="$tools/k6" npm run --silent test
