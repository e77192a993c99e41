#!/usr/bin/env bash
# The library against the gateway:  sdk/go/test.sh SOCKEYE
# Formatting, vet, the generated messages, then all tests. Stock clients come from web/node_modules.
set -euo pipefail
SOCKEYE_BIN="$(realpath "${1:?usage: test.sh SOCKEYE (the binary)}")"
export SOCKEYE_BIN
cd "$(dirname "$0")"
unformatted="$(gofmt -l .)"
[[ -z $unformatted ]] || { echo "not formatted, run gofmt -w: $unformatted" >&2; exit 1; }
go vet ./...
made="$(mktemp -d)"
trap 'rm -rf "$made"' EXIT
bash generate.sh "$made"
diff -r "$made" internal/workerpb || { echo "internal/workerpb is stale, run sdk/go/generate.sh" >&2; exit 1; }
status=0
go test -v -count=1 -timeout 9m ./... >"$made/log" 2>&1 || status=$?
cat "$made/log"
echo "$(grep -c '^--- PASS' "$made/log" || true) passed, $(grep -c '^--- FAIL' "$made/log" || true) failed"
exit "$status"
