//! Machines whose clocks differ.

use super::{all_up, config, member, numbers};
use crate::harness::Gateway;
use serde_json::json;
use servers::Redis;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Command;
use tempfile::TempDir;

/// A library that shifts the time of day by the seconds in a file.
const SHIFTS: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static volatile long *shift;
__attribute__((constructor)) static void begin(void) {
    int file = open(getenv("CLOCK_SHIFT"), O_RDONLY);
    void *page = mmap(0, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED) shift = page;
    close(file);
}
int clock_gettime(clockid_t id, struct timespec *now) {
    int result = syscall(SYS_clock_gettime, id, now);
    if (id == CLOCK_REALTIME && shift) now->tv_sec += *shift;
    return result;
}
"#;
pub const HOUR: i64 = 3_600;

/// The clock of one node.
pub struct Clock {
    folder: TempDir,
    shift: File,
}

impl Clock {
    /// So many seconds away from the right time.
    pub fn shifted(seconds: i64) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let [source, library, shift] =
            ["clock.c", "clock.so", "shift"].map(|name| folder.path().join(name));
        std::fs::write(&source, SHIFTS).expect("write");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-o"]);
        compiler.args([&library, &source]);
        assert!(compiler.status().expect("a C compiler").success());
        let clock = Self {
            shift: File::create(shift).expect("a file"),
            folder,
        };
        clock.jump(seconds);
        clock
    }

    /// It is so far away from now on.
    pub fn jump(&self, seconds: i64) {
        let written = self.shift.write_all_at(&seconds.to_ne_bytes(), 0);
        written.expect("write");
    }

    /// A node that goes by it.
    pub fn start(&self, config: &str) -> Gateway {
        let file = |name: &str| self.folder.path().join(name).display().to_string();
        let variables = [
            ("LD_PRELOAD", &*file("clock.so")),
            ("CLOCK_SHIFT", &*file("shift")),
        ];
        Gateway::start_in(config, &variables)
    }
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
    let clock = Clock::shifted(-HOUR);
    let next = clock.start(&fifth);
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
