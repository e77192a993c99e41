//! Gives one target to libFuzzer: the one that FUZZ_TARGET names. `../run.sh` builds it.
#![no_main]

use fuzz::targets::{TARGETS, Target};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|(target, _)| *target == name);
    found
        .unwrap_or_else(|| panic!("FUZZ_TARGET={name:?} is no target"))
        .1
});

fuzz_target!(|input: &[u8]| TARGET(input));
