#!/bin/sh
# Builds all fuzz targets with AddressSanitizer on the stable compiler and runs each for a while.
#
#   fuzz/run.sh [seconds-per-target] [target...]        default: 20 s, all targets
#
# A target is a file in src/bin. What it begins with is in seeds/<target>, for `hub` also what the transcripts
# do; what it learns is kept in target/corpus/<target>. A new past crash belongs into seeds/<target>, named by what it was.
# Exits with 1 if any target crashed, hung or ran out of memory.
set -eu
cd "$(dirname "$0")"
seconds=${1:-20}
[ $# -gt 0 ] && shift
targets=${*:-$(basename -s .rs -a src/bin/*.rs)}

rm -rf target/seeds
cargo run --quiet --locked --example hub_seeds -- target/seeds/hub

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
  mkdir -p "$corpus" "$crashes" "$made" "seeds/$target"
  echo "== $target, $seconds s"
  if ! "target/$triple/release/$target" "$corpus" "seeds/$target" "$made" \
    -max_total_time="$seconds" -max_len=32768 -timeout=5 -rss_limit_mb=1024 \
    -artifact_prefix="$crashes/" -print_final_stats=1 -verbosity=0 2>"target/$target.log"; then
    failed="$failed $target"
    cat "target/$target.log"
    echo "== $target failed; input in fuzz/$crashes, run it again with:"
    echo "   fuzz/target/$triple/release/$target fuzz/$crashes/<file>"
    continue
  fi
  sed -n 's/^stat::\(number_of_executed_units\|peak_rss_mb\): */   \1 /p' "target/$target.log"
done

if [ -n "$failed" ]; then
  echo "failed:$failed"
  exit 1
fi
