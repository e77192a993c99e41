//! A test that waits for ever is found: when no test has begun or ended a process for long, the processes of this one are ended, so that
//! whoever waits for one of them fails, and says for which.

use rustix::process::{Pid, Signal, kill_process};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Seconds without a change after which processes are ended. Only `cargo xtask test` sets it: runs by hand may be longer.
const LIMIT: &str = "TESTS_STUCK_AFTER";
const LOOK: Duration = Duration::from_secs(5);

struct Running {
    tests: Vec<String>,
    changed: Option<Instant>,
}

static RUNNING: Mutex<Running> = Mutex::new(Running {
    tests: Vec::new(),
    changed: None,
});
static WATCHED: Once = Once::new();

fn lock() -> MutexGuard<'static, Running> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn name() -> String {
    let thread = std::thread::current();
    thread.name().unwrap_or("a thread of a test").to_owned()
}

/// This test has one process more, or is alone now.
pub fn begins() {
    let mut running = lock();
    running.tests.push(name());
    running.changed = Some(Instant::now());
    drop(running);
    WATCHED.call_once(|| {
        let limit = std::env::var(LIMIT).ok();
        let limit = limit.map(|limit| limit.parse().expect("seconds"));
        if let Some(limit) = limit.map(Duration::from_secs) {
            std::thread::spawn(move || watch(limit));
        }
    });
}

/// This test has one process less.
pub fn ends() {
    let (mut running, name) = (lock(), name());
    running.changed = Some(Instant::now());
    // It may have been begun by another thread.
    let at = running.tests.iter().position(|test| *test == name);
    let at = at.unwrap_or(running.tests.len().saturating_sub(1));
    if at < running.tests.len() {
        running.tests.swap_remove(at);
    }
}

fn watch(limit: Duration) {
    loop {
        sleep(LOOK);
        let mut running = lock();
        let still = running.changed.map_or(Duration::ZERO, |at| at.elapsed());
        if running.tests.is_empty() || still < limit {
            continue;
        }
        running.changed = Some(Instant::now());
        let children = children();
        eprintln!(
            "STUCK: no test has begun or ended a process for {} s. These run: {:?}. Their processes are ended now: {children:?}",
            still.as_secs(),
            running.tests,
        );
        drop(running);
        for (pid, _) in children {
            if let Some(pid) = Pid::from_raw(pid) {
                // It may have ended.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

/// Processes that this one started, and their command lines.
fn children() -> Vec<(i32, String)> {
    let own = i32::try_from(std::process::id()).ok();
    let folders = std::fs::read_dir("/proc").into_iter().flatten();
    let pids = folders.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_own = |pid: &i32| parent(*pid) == own;
    let line = |pid: i32| {
        let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        (pid, String::from_utf8_lossy(&bytes).replace('\0', " "))
    };
    pids.filter(is_own).map(line).collect()
}

fn parent(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}
