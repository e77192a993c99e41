//! Machines whose clocks differ.

use super::{all_up, config, member, numbers};
use crate::harness::Gateway;
use serde_json::json;
use servers::Redis;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A library under which the time of day is an hour ago.
const AN_HOUR_AGO: &str = r"
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *now) {
    int result = syscall(SYS_clock_gettime, id, now);
    if (id == CLOCK_REALTIME) now->tv_sec -= 3600;
    return result;
}
";

fn library(folder: &Path) -> PathBuf {
    let (source, library) = (folder.join("clock.c"), folder.join("clock.so"));
    std::fs::write(&source, AN_HOUR_AGO).expect("write");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source]);
    assert!(compiler.status().expect("a C compiler").success());
    library
}

/// Epochs were times of day: the others ignored the next life of the number, and no message said so.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_process_with_a_late_clock_was_ignored_under_the_number_of_a_killed_one() {
    let redis = Redis::start();
    let fifth = config(&redis, "").replace("shards = 2", "shards = 2\nnode = 5");
    let mut nodes = [Gateway::start(&config(&redis, "")), Gateway::start(&fifth)];
    all_up(&nodes);
    let mut here = member(&nodes[0], "room");
    nodes[1].kill();
    // As if its lease had ended.
    redis.ask(&["DEL", "sockeye:{nodes}:5"]);
    let folder = tempfile::tempdir().expect("a folder");
    let preload = library(folder.path()).display().to_string();
    let next = Gateway::start_in(&fifth, &[("LD_PRELOAD", &preload)]);
    let log = next.log().join("\n");
    let time = |line: &str| line.split('"').nth(3).map(str::to_owned);
    assert!(
        time(&log) < time(&nodes[0].log().join("\n")),
        "its clock is late: {log}"
    );
    nodes[1] = next;
    all_up(&nodes);
    let mut there = member(&nodes[1], "room");
    here.emit("n", &[json!(1)]);
    assert_eq!(numbers(&mut there, 1), [1]);
    there.emit("n", &[json!(2)]);
    assert_eq!(numbers(&mut here, 1), [2]);
}
