//! There is too little of something for a successor: memory, room on the disk. The process that runs says so and goes on.

use super::chain::{Chain, lives, signal, started};
use super::troubles::Pair;
use crate::harness::client::{Plain, SocketIo};
use crate::harness::{PATIENCE, eventually};
use rustix::process::Signal;
use serde_json::json;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const CONFIG: &str = "profile = \"socket.io\"\n[server]\nshards = 2\n";
const MIB: u64 = 1024 * 1024;

/// This program, with so much address space.
fn starved(folder: &Path, bytes: u64) -> PathBuf {
    let script = folder.join(format!("starved-{bytes}"));
    let binary = env!("CARGO_BIN_EXE_sockeye");
    let text = format!(
        "#!/bin/sh\nulimit -v {}\nexec {binary} \"$@\"\n",
        bytes / 1024
    );
    fs::write(&script, text).expect("write");
    fs::set_permissions(&script, Permissions::from_mode(0o755)).expect("a program");
    script
}

/// From far too little on in small steps, so that it ends at its start, among listeners and in the middle of sessions; until there is enough.
#[test]
fn a_successor_without_memory_changes_nothing() {
    let mut chain = Chain::start(CONFIG);
    // Tokio's, where no thread can begin.
    chain.first.excuse("OS can't spawn worker thread");
    let mut pair = Pair::join(&chain);
    // What they are is far more than the steps.
    let crowd: Vec<Plain> = (0..200)
        .map(|n| Plain::join(chain.first.addr, &format!("room {n}")))
        .collect();
    let mut idle: Vec<SocketIo> = (0..50)
        .map(|_| SocketIo::connect(chain.first.addr))
        .collect();
    let (mut bytes, mut given_up) = (8 * MIB, Vec::new());
    loop {
        let binary = starved(&chain.folder(), bytes).display().to_string();
        let output = chain
            .command(&["--binary", &binary])
            .output()
            .expect("sockeye upgrade");
        let text = super::chain::said(&output);
        if let Some(pid) = super::chain::started(&text) {
            chain.note_successor(pid);
        }
        if output.status.success() {
            break;
        }
        assert!(text.contains("this process goes on"), "{bytes}: {text}");
        given_up.push(text);
        pair.talk();
        for client in idle.iter_mut().step_by(10) {
            client.ask(1, &json!(["join", "lobby"]));
        }
        bytes += (bytes / 16).max(2 * MIB);
        assert!(bytes < 16_384 * MIB, "it never has enough");
    }
    assert!(given_up.len() > 3, "{given_up:?}");
    println!(
        "given up {} times, up to {} MiB",
        given_up.len(),
        bytes / MIB
    );
    drop(crowd);
    // The one that took over has barely enough: how long it lives is not asked.
}

/// A file system that has room for so many files, folders and sockets.
struct Small(PathBuf);

impl Small {
    fn mount(place: PathBuf, files: u32) -> Self {
        fs::create_dir(&place).expect("a folder");
        let mut command = Command::new("mount");
        command.args([
            "-t",
            "tmpfs",
            "-o",
            &format!("nr_inodes={files},size=64k"),
            "tmpfs",
        ]);
        assert!(command.arg(&place).status().expect("mount").success());
        Self(place)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .args(["--lazy"])
            .arg(&self.0)
            .status();
    }
}

/// The successor opens its own socket beside that of the process before, and there is no room for it.
#[test]
#[ignore = "needs root: cargo xtask test foreign"]
fn a_full_disk_is_found_before_the_last_word() {
    let folder = tempfile::tempdir().expect("a folder");
    // The folder itself, the socket that stands there, and one more.
    let small = Small::mount(folder.path().join("run"), 3);
    let socket = small.0.join("upgrade.sock");
    let mut chain = Chain::start_at(CONFIG, &socket);
    let mut pair = Pair::join(&chain);
    let filler = small.0.join("filler");
    fs::write(&filler, "").expect("the last one");
    for _ in 0..2 {
        let text = chain.failing_upgrade(&[]);
        assert!(text.contains("this process goes on"), "{text}");
        pair.talk();
    }
    assert!(socket.exists(), "it is found where it was");
    fs::remove_file(&filler).expect("room");
    let (text, _) = chain.upgrade();
    pair.talk();
    // At its end nothing is needed to take the socket away. The process before holds its own until it has ended.
    assert!(eventually(PATIENCE, || fs::write(&filler, "").is_ok()));
    let pid = started(&text).expect(&text);
    drop(pair);
    signal(pid, Signal::TERM);
    assert!(eventually(PATIENCE, || !lives(pid)));
    assert!(!socket.exists(), "it was taken away");
}

/// The history of a successor stands on a disk that is full: its clients go on, and so does the next process.
#[test]
fn a_store_without_room_costs_no_session() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("history").display().to_string();
    let config = format!(
        "{CONFIG}[history]\nstore = \"disk\"\nfolder = {place:?}\n[namespaces.\"/\".history]\nrooms = [\"*\"]\n"
    );
    let mut chain = Chain::start(&config);
    let mut pair = Pair::join(&chain);
    let script = chain.folder().join("no-room");
    let binary = env!("CARGO_BIN_EXE_sockeye");
    // One more byte is an error, as on a full disk.
    let text = format!("#!/bin/sh\ntrap '' XFSZ\nulimit -f 0\nexec {binary} \"$@\"\n");
    fs::write(&script, text).expect("write");
    fs::set_permissions(&script, Permissions::from_mode(0o755)).expect("a program");
    let script = script.display().to_string();
    // What stands on the disk is read there, and nothing is written before somebody speaks.
    let output = chain.command(&["--binary", &script]).output();
    let text = super::chain::said(&output.expect("sockeye upgrade"));
    let pid = super::chain::started(&text).expect(&text);
    chain.note_successor(pid);
    pair.talk();
    chain.upgrade();
    pair.talk();
}
