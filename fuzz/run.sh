#!/bin/sh
# Builds all fuzz targets with AddressSanitizer on the stable compiler and runs each for a while.
#
#   fuzz/run.sh [seconds-per-target] [target...]        default: 20 s, all targets
#
# A target is a file in src/targets. It begins with seeds/<target>; `hub` begins with the transcripts. New inputs are kept in
# libfuzzer/target/corpus/<target>. The input of a mended crash belongs into seeds/<target>, named after the fault: each build replays it.
# Exits with 1 if any target crashed, hung or ran out of memory.
set -eu
cd "$(dirname "$0")/libfuzzer"
seconds=${1:-20}
[ $# -gt 0 ] && shift
targets=${*:-$(basename -s .rs -a ../src/targets/*.rs | grep -vx mod)}

rm -rf target/seeds
cargo run --quiet --locked --profile ci -p fuzz --example hub_seeds --manifest-path ../Cargo.toml -- "$PWD/target/seeds/hub"

triple=$(rustc -vV | sed -n 's/^host: //p')
# The flags cargo-fuzz would set: coverage for libFuzzer, and the sanitizer, which needs the
# bootstrap switch on a stable compiler.
export RUSTC_BOOTSTRAP=1
export RUSTFLAGS="-Zsanitizer=address --cfg fuzzing -Ccodegen-units=1 \
  -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
  -Cllvm-args=-sanitizer-coverage-trace-compares"
cargo build --release --locked --target "$triple" --target-dir target

failed=""
for target in $targets; do
  corpus=target/corpus/$target
  crashes=target/crashes/$target
  made=target/seeds/$target
  mkdir -p "$corpus" "$crashes" "$made" "../seeds/$target"
  echo "== $target, $seconds s"
  if ! FUZZ_TARGET=$target "target/$triple/release/libfuzzer" "$corpus" "../seeds/$target" "$made" \
    -max_total_time="$seconds" -max_len=32768 -timeout=5 -rss_limit_mb=1024 \
    -artifact_prefix="$crashes/" -print_final_stats=1 -verbosity=0 2>"target/$target.log"; then
    failed="$failed $target"
    cat "target/$target.log"
    echo "== $target failed; input in fuzz/libfuzzer/$crashes, run it again with:"
    echo "   FUZZ_TARGET=$target fuzz/libfuzzer/target/$triple/release/libfuzzer fuzz/libfuzzer/$crashes/<file>"
    continue
  fi
  sed -n 's/^stat::\(number_of_executed_units\|peak_rss_mb\): */   \1 /p' "target/$target.log"
done

if [ -n "$failed" ]; then
  echo "failed:$failed"
  exit 1
fi
