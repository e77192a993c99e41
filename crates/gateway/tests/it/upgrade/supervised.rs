//! `sockeye supervise`: the process above the gateway, as in a container.

use super::chain::{Chain, ends, lives, said, signal};
use super::troubles::Pair;
use crate::e2e::recovery::Client;
use crate::harness::{PATIENCE, eventually};
use crate::tls::pki::{Pki, Secure};
use rustix::process::Signal;
use serde_json::json;
use std::fs::{self, Permissions};
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

const CONFIG: &str =
    "profile = \"socket.io\"\n[server]\nshards = 2\ndrain_window = \"0s\"\ndrain_grace = \"5s\"\n";

/// A gateway below a supervisor. Killed, a supervisor would leave its gateway behind.
struct Ward(Chain);

impl Deref for Ward {
    type Target = Chain;

    fn deref(&self) -> &Chain {
        &self.0
    }
}

impl DerefMut for Ward {
    fn deref_mut(&mut self) -> &mut Chain {
        &mut self.0
    }
}

impl Drop for Ward {
    fn drop(&mut self) {
        if self.0.first.is_alive() {
            let all = children(&self.0).into_iter();
            all.for_each(|pid| signal(pid, Signal::KILL));
        }
    }
}

fn supervised(config: &str) -> Ward {
    supervised_with(config, &["supervise"])
}

fn supervised_with(config: &str, flags: &[&str]) -> Ward {
    Ward(Chain::start_with(config, flags, &[]))
}

/// The state and the parent of a process.
fn stat(pid: u32) -> Option<(String, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit(')').next()?.split_whitespace();
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}

/// Children of the supervisor, those that have ended and that nobody has waited for included.
fn children(chain: &Chain) -> Vec<u32> {
    children_of(chain.first.pid())
}

fn children_of(parent: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").expect("processes");
    let numbers = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let own = numbers.filter(|pid| stat(*pid).is_some_and(|(_, of)| of == parent));
    own.collect()
}

/// The one gateway below the supervisor, once there is one.
fn gateway(chain: &Chain) -> u32 {
    let mut found = Vec::new();
    let one = eventually(3 * PATIENCE, || {
        found = children(chain);
        found.len() == 1 && lives(found[0])
    });
    assert!(one, "{found:?}");
    found[0]
}

fn exit_code(chain: &mut Chain) -> Option<i32> {
    chain.first.exit_status(3 * PATIENCE)?.code()
}

#[test]
fn an_upgrade_ended_the_container() {
    let mut chain = supervised(CONFIG);
    let mut pair = Pair::join(&chain);
    let mut before = gateway(&chain);
    for _ in 0..3 {
        chain.upgrade();
        pair.talk();
        assert!(ends(before));
        let now = gateway(&chain);
        assert_ne!(now, before, "another one serves");
        before = now;
        pair.talk();
    }
    assert!(chain.first.is_alive());
    chain.first.terminate();
    pair.ann.packet_starting("42[\"SERVER_SHUTDOWN\"");
    drop(pair);
    assert_eq!(exit_code(&mut chain), Some(0));
    assert!(ends(before));
}

/// It woke up late on a busy machine: the gateway that it knew had handed over twice, and the container ended.
#[test]
fn upgrades_go_on_while_the_supervisor_stands_still() {
    let mut chain = supervised(CONFIG);
    let mut pair = Pair::join(&chain);
    let first = gateway(&chain);
    chain.first.signal(Signal::STOP);
    for _ in 0..3 {
        chain.upgrade();
        pair.talk();
    }
    chain.first.signal(Signal::CONT);
    assert!(ends(first));
    assert_ne!(gateway(&chain), first);
    assert!(chain.first.is_alive());
    pair.talk();
    chain.upgrade();
    pair.talk();
    chain.first.terminate();
    drop(pair);
    assert_eq!(exit_code(&mut chain), Some(0));
}

/// A gateway, one that took over from it, and one that took over from that. The second one's first thread ends before its last, as of each process
/// of many threads for a moment: it cannot be waited for, and its child is not yet the supervisor's.
const SLOW_END: &str = r#"#!/usr/bin/env python3
import ctypes, os, subprocess, sys, threading, time
if "third" in sys.argv:
    time.sleep(3)
elif "--take-over" in sys.argv:
    subprocess.Popen([sys.argv[0], "--take-over", "third"])
    threading.Thread(target=time.sleep, args=(1,)).start()
    ctypes.CDLL(None).pthread_exit(None)
else:
    second = subprocess.Popen([sys.argv[0], "--take-over"]).pid
    while open(f"/proc/{second}/stat").read().rsplit(")", 1)[1].split()[0] != "Z":
        time.sleep(0.001)
    os._exit(0)
"#;

#[test]
#[ignore = "needs Python: cargo xtask test foreign"]
fn a_gateway_served_while_one_before_it_ended_slowly_and_the_container_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("gateway");
    fs::write(&program, SLOW_END).expect("write");
    fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("mode");
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockeye"));
    command.args(["supervise", "--program"]).arg(&program);
    let ended = command.output().expect("the supervisor");
    let text = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{:?}: {text}", ended.status);
    assert_eq!(text.matches("goes on in the place of").count(), 1, "{text}");
}

#[test]
fn a_signal_starts_an_upgrade() {
    let mut chain = supervised(CONFIG);
    let mut pair = Pair::join(&chain);
    let before = gateway(&chain);
    chain.first.signal(Signal::USR2);
    assert!(ends(before));
    let now = gateway(&chain);
    assert_ne!(now, before);
    pair.talk();
    // The next one by the command.
    chain.upgrade();
    pair.talk();
    chain.first.terminate();
    drop(pair);
    assert_eq!(exit_code(&mut chain), Some(0));
}

/// The program of a volume was replaced by one that does not come: the old one goes on, and the next one takes over.
#[test]
fn a_program_of_a_volume_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("sockeye");
    let put = |from: &Path| {
        let beside = folder.path().join("beside");
        fs::copy(from, &beside).expect("a copy");
        fs::set_permissions(&beside, Permissions::from_mode(0o755)).expect("a program");
        fs::rename(&beside, &program).expect("in its place");
    };
    let ours = Path::new(env!("CARGO_BIN_EXE_sockeye"));
    put(ours);
    let name = program.display().to_string();
    let mut chain = supervised_with(CONFIG, &["supervise", "--program", &name]);
    let mut pair = Pair::join(&chain);
    let before = gateway(&chain);
    assert_eq!(
        fs::read_link(format!("/proc/{before}/exe")).ok().as_deref(),
        Some(&*program)
    );
    put(Path::new("/bin/false"));
    chain.first.signal(Signal::USR2);
    assert!(
        chain
            .first
            .logged("was to take over and has ended", PATIENCE)
    );
    pair.talk();
    assert_eq!(gateway(&chain), before);
    put(ours);
    chain.first.signal(Signal::USR2);
    assert!(ends(before));
    assert_ne!(gateway(&chain), before);
    pair.talk();
    chain.upgrade();
    pair.talk();
}

#[test]
fn a_gateway_that_is_killed_ends_the_container_with_its_signal() {
    let mut chain = supervised(CONFIG);
    signal(gateway(&chain), Signal::KILL);
    assert_eq!(exit_code(&mut chain), Some(128 + 9));
    // The same of one that has taken over.
    let mut chain = supervised(CONFIG);
    let first = gateway(&chain);
    chain.upgrade();
    assert!(ends(first));
    signal(gateway(&chain), Signal::KILL);
    assert_eq!(exit_code(&mut chain), Some(128 + 9));
}

/// The one before it waited for a client still, and ended with 0. So did the container, whose gateway had been killed.
#[test]
fn a_successor_that_is_killed_before_its_predecessor_has_ended_ends_the_container_with_its_signal()
{
    for by_signal in [true, false] {
        let pki = Pki::new();
        let mut chain = supervised(&format!("{CONFIG}{}", pki.section("")));
        let conn = pki.client().connect(Secure::addr_of(&chain.first));
        let conn = conn.upgraded("/socket.io/?EIO=4&transport=websocket", "");
        let stays = Client::over(conn, json!({}));
        let before = gateway(&chain);
        match by_signal {
            true => chain.first.signal(Signal::USR2),
            false => drop(chain.upgrade()),
        }
        let handed_over = chain
            .first
            .logged("handed over to another process", PATIENCE);
        assert!(handed_over);
        signal(before, Signal::STOP);
        let mut others = children(&chain).into_iter().chain(children_of(before));
        let successor = others.find(|pid| *pid != before).expect("a successor");
        signal(successor, Signal::KILL);
        let ended = eventually(PATIENCE, || {
            stat(successor).is_none_or(|(state, _)| state == "Z")
        });
        assert!(ended);
        if by_signal {
            let told = "was to take over and has ended";
            assert!(chain.first.logged(told, PATIENCE));
        }
        assert!(lives(before), "it is stopped");
        drop(stays);
        signal(before, Signal::CONT);
        assert_eq!(exit_code(&mut chain), Some(128 + 9), "{by_signal}");
    }
}

#[test]
fn a_gateway_that_cannot_start_ends_it_with_its_code() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("sockeye.toml");
    fs::write(&config, "nonsense = 1\n").expect("write");
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockeye"));
    command.args(["supervise", "--config"]).arg(&config);
    let output = command.output().expect("sockeye supervise");
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockeye"));
    let output = command
        .args(["supervise", "--program", "/nowhere/sockeye"])
        .output();
    let output = output.expect("sockeye supervise");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said(&output).contains("cannot start /nowhere/sockeye"),
        "{}",
        said(&output)
    );
}

/// A program that was to take over leaves children behind, which end later.
#[test]
fn orphans_are_waited_for() {
    let mut chain = supervised(CONFIG);
    let mut pair = Pair::join(&chain);
    let script = chain.folder().join("leaves-children");
    let text = "#!/bin/sh\nfor n in 1 2 3; do sleep 0.$n & done\nsleep 9 &\nexit 1\n";
    fs::write(&script, text).expect("write");
    fs::set_permissions(&script, Permissions::from_mode(0o755)).expect("a program");
    let told = chain.failing_upgrade(&["--binary", &script.display().to_string()]);
    assert!(told.contains("ended before it came"), "{told}");
    assert!(children(&chain).len() >= 2, "the orphans are its own");
    pair.talk();
    // One that lives on is no gateway: it does not keep the container.
    let gone = || children(&chain).len() == 2;
    assert!(eventually(PATIENCE, gone), "{:?}", children(&chain));
    let of_state = |state: &str| {
        let all = children(&chain).into_iter();
        all.filter(|pid| stat(*pid).is_some_and(|(own, _)| own == state))
            .count()
    };
    assert_eq!(of_state("Z"), 0);
    let served = children(&chain).into_iter().find(|pid| lives(*pid));
    signal(served.expect("the gateway"), Signal::KILL);
    assert_eq!(exit_code(&mut chain), Some(128 + 9));
}

/// The container is stopped while all stands still: the successor takes all, and is told as well.
#[test]
fn a_stop_in_the_middle_of_an_upgrade_was_not_passed_on() {
    let mut chain = supervised(CONFIG);
    let mut pair = Pair::join(&chain);
    let before = gateway(&chain);
    // The supervisor is told first, and the gateway may be handing over then: whichever serves in the end drains.
    let mut command = chain.command(&[]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut command = command.spawn().expect("sockeye upgrade");
    let begun = eventually(PATIENCE, || {
        children(&chain).len() > 1 || !children_of(before).is_empty()
    });
    assert!(begun, "a successor");
    chain.first.terminate();
    pair.ann.packet_starting("42[\"SERVER_SHUTDOWN\"");
    drop(pair);
    assert_eq!(exit_code(&mut chain), Some(0));
    command.wait().expect("its end");
}

/// SIGHUP is the gateway's, and a file that is wrong changes nothing.
#[test]
fn the_configuration_is_read_again() {
    let chain = supervised(CONFIG);
    let (applied, _) = chain
        .first
        .reloaded(&format!("{CONFIG}[log]\nlevel = \"debug\"\n"));
    assert!(applied.contains("log.level"), "{applied}");
}

/// Process 1 of a namespace, as in a container: nobody else is there for orphans.
#[test]
#[ignore = "needs root: cargo xtask test foreign"]
fn it_is_process_1_of_a_namespace() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("sockeye.toml");
    let socket = folder.path().join("upgrade.sock");
    let text = format!(
        "{CONFIG}[upgrade]\nsocket = {:?}\n",
        socket.display().to_string()
    );
    fs::write(&config, text).expect("write");
    let binary = env!("CARGO_BIN_EXE_sockeye");
    let script = folder.path().join("in-the-container");
    // What an operator does with `docker exec`: two upgrades, and then the end of process 1.
    let text = format!(
        "#!/bin/sh\nset -e\nuntil [ -S {socket:?} ]; do sleep 0.05; done\n\
         for n in 1 2; do {binary} upgrade --config {config:?}; done\n\
         kill -TERM 1\n"
    );
    fs::write(&script, text).expect("write");
    fs::set_permissions(&script, Permissions::from_mode(0o755)).expect("a program");
    let begin = format!(
        "sh {script:?} >{0}/said 2>&1 & exec {binary} supervise --listen 127.0.0.1:0 --admin 127.0.0.1:0 --config {config:?}",
        folder.path().display()
    );
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc", "sh", "-c", &begin]);
    let output = command.output().expect("unshare");
    let upgrades = fs::read_to_string(folder.path().join("said")).unwrap_or_default();
    assert_eq!(
        output.status.code(),
        Some(0),
        "{} {upgrades}",
        said(&output)
    );
    assert_eq!(upgrades.matches("serves").count(), 2, "{upgrades}");
}
