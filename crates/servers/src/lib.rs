//! Real servers for tests: Redis alone, with Sentinels, and as a cluster; PostgreSQL; Kafka; NATS; servers of Node and Python beside it. Each has a folder and free ports of its own, and ends with
//! its handle.
//!
//! `cargo xtask test foreign` brings the programs. They block, and panic when what must come does not: in a test that is what one
//! wants.

mod askers;
mod bucket;
mod cable;
mod cluster;
mod crowd;
mod go_program;
mod kafka;
mod nats;
mod node;
mod node_program;
mod peer;
mod ports;
mod postgres;
mod python;
mod redis;
mod reference;
mod roamers;
mod sentinel;
mod worker;

pub use askers::{Answers, Askers, Manners};
pub use bucket::Bucket;
pub use cable::Cable;
pub use cluster::Cluster;
pub use go_program::GoProgram;
pub use kafka::Kafka;
pub use nats::Nats;
pub use node::NodePeer;
pub use node_program::NodeProgram;
pub use ports::{free_addr, free_ports};
pub use postgres::Postgres;
pub use python::{Python, installed};
pub use redis::Redis;
pub use reference::Reference;
pub use roamers::{Language, Report, Roamers, stock_returns};
pub use sentinel::Sentinels;
pub use worker::{Handled, NodeWorker, handled};

use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// What a healthy server answers well within, even on a machine that is busy with other tests.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Asks until there is an answer.
///
/// # Panics
/// There was none in time.
pub fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends SIGSTOP and waits until each thread stands still: on a busy machine the others run on until one of them has seen the signal.
///
/// # Panics
/// The process is not ours, or some thread does not stop.
pub fn freeze(pid: u32) {
    let id = i32::try_from(pid).ok().and_then(Pid::from_raw);
    kill_process(id.expect("a process id"), Signal::STOP).expect("the process is ours");
    wait_for("all threads to stand still", || {
        all_stopped(pid).then_some(())
    });
}

/// The state of a thread stands after its name, which may hold anything.
fn all_stopped(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    threads.into_iter().flatten().flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat"));
        let stat = stat.unwrap_or_default();
        let state = stat.rsplit_once(") ").map(|(_, rest)| rest.as_bytes()[0]);
        !matches!(state, Some(b'R' | b'S' | b'D'))
    })
}

/// A program of the PATH, or one that xtask unpacked.
fn program(name: &str) -> Command {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/bin");
    let before = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::env::split_paths(&before).chain([tools]);
    let paths: OsString = std::env::join_paths(paths).unwrap_or(before);
    let mut command = Command::new(name);
    command.env("PATH", paths);
    command
}

/// Runs a script that installs what a list names. Of several tests and test programs that do so at once, all but the first find
/// it done.
fn one_at_a_time(folder: &Path, list: &str, script: &str) {
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = INSTALLING.lock();
    let mut command = Command::new("flock");
    command
        .args([list, "sh", "-ec", script])
        .current_dir(folder);
    let done = command.status();
    let done = done.is_ok_and(|status| status.success());
    assert!(
        done,
        "cannot install what {list} in {} names",
        folder.display()
    );
}
