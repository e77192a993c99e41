#!/usr/bin/env bash
# Builds the gateway of an earlier commit, and lets nodes of it and of the given binary take turns in one cluster: benchmarks/mixed.mjs.
# mixed.sh [target/ci/sockeye [366857e]]; needs git's history, redis-server and the packages of sdk/node.
set -euo pipefail
cd "$(dirname "$0")/.."
new=$(realpath "${1:-target/ci/sockeye}")
commit=${2:-366857e}
old=target/builds/$commit
if [ ! -x "$old/sockeye" ]; then
  rm -rf "$old" && mkdir -p "$old/source"
  git archive "$commit" | tar -x -C "$old/source"
  (cd "$old/source" && CARGO_TARGET_DIR=../target cargo build --release --locked --package gateway --bin sockeye)
  mv "$old/target/release/sockeye" "$old/sockeye"
  rm -rf "$old/source" "$old/target"
fi
OLD="$(realpath "$old/sockeye")" NEW="$new" SDK=sdk/node node benchmarks/mixed.mjs
echo "1 passed, 0 failed"
