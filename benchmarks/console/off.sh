#!/bin/sh
# Instructions of an event while nobody follows anything, with the tests for that and without them: the same settings of the compiler, the
# production profile, callgrind. An event's figure is the difference between 3,000 and 1,000 of them. Needs valgrind; the load of the machine
# does not matter. `benchmarks/console/off.sh FOLDER` builds there.
set -eu
cd "$(dirname "$0")/../.."
CARGO_TARGET_DIR=${1:-target/console-off}
export CARGO_TARGET_DIR

build() {
    cargo test --profile production --locked --package hub --test alloc --no-run --message-format json "$@" |
        sed -n 's/.*"executable":"\([^"]*alloc-[^"]*\)".*/\1/p' | tail -n 1
}

count() { # BINARY KIND EVENTS
    EVENTS=$3 KIND=$2 valgrind --tool=callgrind --callgrind-out-file=/dev/null "$1" --test-threads 1 --exact as_many_events_as_one_wants 2>&1 |
        sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}

with=$(build)
cp "$with" "$CARGO_TARGET_DIR/alloc-with"
without=$(build --features hub/untraced)
cp "$without" "$CARGO_TARGET_DIR/alloc-without"
echo "kind without with difference"
for kind in echo acked shout; do
    for build in without with; do
        few=$(count "$CARGO_TARGET_DIR/alloc-$build" "$kind" 1000)
        many=$(count "$CARGO_TARGET_DIR/alloc-$build" "$kind" 3000)
        eval "$build=$(((many - few) / 20))"
    done
    awk -v kind="$kind" -v without="$without" -v with="$with" 'BEGIN {
        printf "%s %.2f %.2f %.2f %%\n", kind, without / 100, with / 100, 100 * (with - without) / without }'
done
