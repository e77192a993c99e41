#!/usr/bin/env bash
# Whether the workspace compiles for macOS, on Linux and without Apple's SDK: rustc checks all Rust code for both targets, and C code is
# not compiled, because a stub stands in for the compiler. Nothing is linked or run. The last line is `N passed, N failed`.
set -euo pipefail
cd "$(dirname "$0")/.."
targets=(aarch64-apple-darwin x86_64-apple-darwin)
command -v rustup > /dev/null || { echo "cannot check for macOS: rustup, which brings Apple's standard library, is not installed: https://rustup.rs"; exit 1; }
rustup target add "${targets[@]}"
stub="$PWD/target/macos/cc"
mkdir -p "${stub%/*}"
cat > "$stub" << 'STUB'
#!/bin/sh
# Makes an empty file where an object or an archive is asked for.
while [ $# -gt 1 ]; do
  case "$1" in -o) : > "$2" ;; esac
  shift
done
STUB
chmod +x "$stub"
# SDKROOT: nobody asks xcrun, which only a Mac has. The rest keeps aws-lc to the same compiler.
export TARGET_CC="$stub" TARGET_CXX="$stub" TARGET_AR="$stub" TARGET_RANLIB="$stub"
export SDKROOT="$PWD/target/macos" AWS_LC_SYS_CMAKE_BUILDER=0
passed=0 failed=0
for target in "${targets[@]}"; do
  if cargo check --profile ci --workspace --locked --all-targets --target "$target"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
done
echo "$passed passed, $failed failed"
[[ $failed == 0 ]]
