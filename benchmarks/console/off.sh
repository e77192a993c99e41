#!/bin/sh
# Instructions of an event while nobody follows anything, with the tests for that and without them: the same settings of the compiler, the
# production profile, callgrind. An event's figure is the difference between 3,000 and 1,000 of them. Then the same while one user is followed,
# whose events these are not. Needs valgrind; the load of the machine does not matter. `benchmarks/console/off.sh FOLDER` builds there.
set -eu
cd "$(dirname "$0")/../.."
CARGO_TARGET_DIR=${1:-target/console-off}
export CARGO_TARGET_DIR

build() {
    cargo test --profile production --locked --package hub --test alloc --no-run --message-format json "$@" |
        sed -n 's/.*"executable":"\([^"]*alloc-[^"]*\)".*/\1/p' | tail -n 1
}

count() { # BINARY KIND EVENTS FOLLOW
    EVENTS=$3 KIND=$2 FOLLOW=${4:-} valgrind --tool=callgrind --callgrind-out-file=/dev/null "$1" --test-threads 1 --exact as_many_events_as_one_wants 2>&1 |
        sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}

with=$(build)
cp "$with" "$CARGO_TARGET_DIR/alloc-with"
without=$(build --features hub/untraced)
cp "$without" "$CARGO_TARGET_DIR/alloc-without"
each() { # BINARY KIND FOLLOW: hundredths of an instruction for each event
    few=$(count "$CARGO_TARGET_DIR/$1" "$2" 1000 "${3:-}")
    many=$(count "$CARGO_TARGET_DIR/$1" "$2" 3000 "${3:-}")
    echo $(((many - few) / 20))
}

echo "kind, without the tests, with them, difference, while a user is followed, difference to without"
for kind in echo acked shout; do
    awk -v kind="$kind" -v without="$(each alloc-without "$kind")" -v with="$(each alloc-with "$kind")" \
        -v user="$(each alloc-with "$kind" user)" 'BEGIN {
        printf "%s %.2f %.2f %.3f%% %.2f %.3f%%\n", kind, without / 100, with / 100, 100 * (with - without) / without,
            user / 100, 100 * (user - without) / without }'
done
