//! Which cores the shards of the real process may use.

use crate::harness::{Gateway, PATIENCE, Plain, eventually};
use std::collections::BTreeSet;
use std::fs;

/// Cores that a thread may use, as the kernel writes them (hexadecimal, with commas).
fn mask(status: &str) -> String {
    let status = fs::read_to_string(status).expect("a status");
    let line = status
        .lines()
        .find(|line| line.starts_with("Cpus_allowed:"));
    line.expect("a mask")[13..].trim().to_owned()
}

fn cores(mask: &str) -> usize {
    let digits = mask.chars().filter_map(|digit| digit.to_digit(16));
    digits.map(|digit| digit.count_ones() as usize).sum()
}

/// Masks of the shards of a gateway, in their order. A thread gives itself its name when it runs for the first time.
fn masks(gateway: &Gateway, shards: usize) -> Vec<String> {
    let tasks = format!("/proc/{}/task", gateway.pid());
    let find = |name: &str| {
        let tasks = fs::read_dir(&tasks).expect("threads");
        let mut tasks = tasks.map(|task| task.expect("a thread").path());
        tasks.find(|task| {
            fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim() == name)
        })
    };
    let named = |name: &str| {
        let mut found = None;
        let is_there = eventually(PATIENCE, || {
            found = find(name);
            found.is_some()
        });
        assert!(is_there, "no thread {name}");
        let task = found.expect("a thread");
        mask(task.join("status").to_str().expect("a path"))
    };
    let names = (0..shards).map(|shard| format!("shard-{shard}"));
    names.map(|name| named(&name)).collect()
}

/// A CPU quota is no set of cores: each gateway of a machine took its first ones.
#[test]
fn pods_with_a_quota_pinned_themselves_to_the_same_cores() {
    let whole = mask("/proc/self/status");
    let allowed = cores(&whole);
    for shards in [2, 3, allowed + 1].into_iter().filter(|n| *n != allowed) {
        let gateway = Gateway::start(&format!("[server]\nshards = {shards}\n"));
        // Enough clients for each shard to have run.
        let clients: Vec<_> = (0..32).map(|_| Plain::connect(gateway.addr)).collect();
        assert_eq!(masks(&gateway, shards), vec![whole.clone(); shards]);
        drop(clients);
    }
    if allowed < 2 {
        return;
    }
    let gateway = Gateway::start(&format!("[server]\nshards = {allowed}\n"));
    // A thread binds itself when it runs for the first time.
    let apart = eventually(PATIENCE, || {
        let masks: BTreeSet<_> = masks(&gateway, allowed).into_iter().collect();
        masks.len() == allowed && masks.iter().all(|mask| cores(mask) == 1)
    });
    assert!(apart, "{:?}", masks(&gateway, allowed));
}
