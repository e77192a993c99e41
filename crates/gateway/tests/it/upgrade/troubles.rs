//! Successors that die, are of another kind, or come at once: the process that runs goes on.

use super::chain::{Chain, ends, said, signal, started};
use crate::harness::PATIENCE;
use crate::harness::client::{Plain, SocketIo};
use crate::harness::eventually;
use rustix::process::Signal;
use serde_json::json;
use std::process::Stdio;
use std::time::Duration;

const CONFIG: &str = "profile = \"socket.io\"\n[server]\nshards = 2\n";

/// Clients that hear each other.
pub struct Pair {
    pub ann: SocketIo,
    pub ben: Plain,
    said: u64,
}

impl Pair {
    pub fn join(chain: &Chain) -> Self {
        let mut ann = SocketIo::connect(chain.first.addr);
        ann.ask(1, &json!(["join", "lobby"]));
        let ben = Plain::join(chain.first.addr, "lobby");
        Self { ann, ben, said: 0 }
    }

    /// What one says the other hears, and the other way round.
    pub fn talk(&mut self) {
        self.said += 1;
        self.ann.emit(&json!(["there", self.said]));
        assert_eq!(self.ben.expect_type("there")["payload"], self.said);
        self.ben
            .send(&json!({"type": "back", "payload": self.said}));
        assert_eq!(self.ann.expect("back"), [json!(self.said)]);
    }
}

/// It is killed at thirty moments from its start on. Either it had taken over, which the command knows, or nothing has changed.
#[test]
fn a_successor_that_is_killed_at_any_moment_changes_nothing() {
    const POINTS: u32 = 30;
    let mut chain = Chain::start(CONFIG);
    let mut pair = Pair::join(&chain);
    let (mut given_up, mut delay, mut step) = (0, Duration::ZERO, Duration::from_millis(2));
    while given_up < POINTS {
        let upgrade = chain.begin_upgrade();
        if upgrade.killed_after(delay) {
            // It had taken over before it was killed, as the next would have: the moments before are looked at more closely.
            println!("at {delay:?} it had taken over; {given_up} were given up before");
            chain = Chain::start(CONFIG);
            pair = Pair::join(&chain);
            step /= 2;
            delay = step;
            continue;
        }
        given_up += 1;
        pair.talk();
        delay += step;
    }
}

/// The second may come in the middle of the first, or after its end.
#[test]
fn two_at_once_are_one_and_a_refusal() {
    let mut chain = Chain::start(CONFIG);
    let mut pair = Pair::join(&chain);
    let mut commands: Vec<_> = (0..2)
        .map(|_| {
            let mut command = chain.command(&[]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().expect("sockeye upgrade")
        })
        .collect();
    let outputs: Vec<_> = commands
        .drain(..)
        .map(|child| child.wait_with_output().expect("its end"))
        .collect();
    for output in &outputs {
        if let Some(pid) = started(&said(output)) {
            chain.note_successor(pid);
        }
    }
    let done = outputs.iter().filter(|output| output.status.success());
    // The second may have come after the first had ended, or in the middle.
    assert!(done.count() >= 1, "{outputs:?}");
    for output in outputs.iter().filter(|output| !output.status.success()) {
        let text = said(output);
        let told = text.contains("another upgrade is under way") || text.contains("handed over");
        assert!(told, "{text}");
    }
    pair.talk();
}

#[test]
fn a_program_that_is_none_leaves_the_old_one_as_it_was() {
    let mut chain = Chain::start(CONFIG);
    let mut pair = Pair::join(&chain);
    let text = chain.failing_upgrade(&["--binary", "/nowhere/sockeye"]);
    assert!(text.contains("cannot start /nowhere/sockeye"), "{text}");
    let text = chain.failing_upgrade(&["--binary", "/bin/false"]);
    assert!(text.contains("ended before it came"), "{text}");
    pair.talk();
    chain.upgrade();
    pair.talk();
}

/// A process of a supervisor comes by itself; its configuration has other addresses.
#[test]
fn another_configuration_is_refused_by_name() {
    let chain = Chain::start(CONFIG);
    let mut pair = Pair::join(&chain);
    let other = chain.folder().join("other.toml");
    let socket = chain.socket().display().to_string();
    let text = format!(
        "{}shards = 3\n[upgrade]\nsocket = {socket:?}\n",
        CONFIG.replace("shards = 2\n", "")
    );
    std::fs::write(&other, text).expect("write");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sockeye"));
    command.args([
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
        "--take-over",
        "--config",
    ]);
    let output = command.arg(&other).output().expect("a successor");
    let text = said(&output);
    assert!(!output.status.success(), "{text}");
    assert!(
        text.contains("server.shards is 2 here and 3 there"),
        "{text}"
    );
    pair.talk();
}

/// The successor cannot open a socket of its own: that is found out before it has anybody.
#[test]
fn a_socket_that_cannot_be_opened_is_found_before_the_last_word() {
    let mut chain = Chain::start(CONFIG);
    let mut pair = Pair::join(&chain);
    let beside = chain.folder().join("upgrade.sock.new");
    std::fs::write(&beside, "precious").expect("write");
    chain.failing_upgrade(&[]);
    pair.talk();
    assert_eq!(std::fs::read_to_string(&beside).expect("read"), "precious");
    std::fs::remove_file(&beside).expect("remove");
    // What a successor that was killed leaves is no obstacle.
    drop(std::os::unix::net::UnixListener::bind(&beside).expect("bind"));
    chain.upgrade();
    assert!(!beside.exists());
    pair.talk();
    chain.upgrade();
    pair.talk();
}

/// Somebody has removed the file of a listener: the clients are worth more.
#[test]
fn a_file_that_is_gone_costs_no_session() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("clients.sock");
    let place = format!("unix:{}", path.display());
    let mut chain = Chain::start_with(CONFIG, &["--listen", &place], &[]);
    let mut pair = Pair::join(&chain);
    std::fs::remove_file(&path).expect("remove");
    for _ in 0..2 {
        chain.upgrade();
        pair.talk();
    }
}

/// What the successor has, and the process before has not.
#[test]
fn a_successor_that_cannot_take_over_says_so_before_it_begins() {
    let chain = Chain::start(CONFIG);
    let mut pair = Pair::join(&chain);
    let other = chain.folder().join("other.toml");
    let socket = chain.socket();
    let text = format!(
        "{CONFIG}[upgrade]\nsocket = {socket:?}\n[large]\nfolder = \"bodies\"\n[namespaces.\"/\"]\nlarge = \"store\"\n"
    );
    std::fs::write(&other, text).expect("write");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sockeye"));
    let flags = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    command.args(flags).args(["--take-over", "--config"]);
    let output = command.arg(&other).output().expect("a successor");
    let text = said(&output);
    assert!(!output.status.success(), "{text}");
    assert!(
        text.contains("this configuration has [large] without a secret"),
        "{text}"
    );
    pair.talk();
}

/// A supervisor starts the successor itself.
#[test]
fn a_successor_may_come_by_itself() {
    let mut chain = Chain::start(CONFIG);
    let mut pair = Pair::join(&chain);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sockeye"));
    command.args([
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
        "--take-over",
        "--config",
    ]);
    command.arg(chain.folder().join("sockeye.toml"));
    let mut child = command.stderr(Stdio::null()).spawn().expect("a successor");
    chain.first_ends();
    pair.talk();
    child.kill().expect("kill");
    child.wait().expect("its end");
}

/// What a process cannot hand over yet it says before anything begins.
#[test]
fn what_cannot_be_handed_over_is_said() {
    let config =
        format!("{CONFIG}[large]\nfolder = \"bodies\"\n[namespaces.\"/\"]\nlarge = \"store\"\n");
    let mut chain = Chain::start(&config);
    let mut pair = Pair::join(&chain);
    let text = chain.failing_upgrade(&["--dry-run"]);
    assert!(
        text.contains("[large] without a secret cannot be handed over yet"),
        "{text}"
    );
    let text = chain.failing_upgrade(&[]);
    assert!(
        text.contains("[large] without a secret cannot be handed over yet"),
        "{text}"
    );
    pair.talk();
}

/// The supervisor hears who is the main process.
#[test]
fn systemd_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut buf = [0; 1_000];
    let mut hear = |wanted: &str| {
        let mut seen = String::new();
        let found = eventually(PATIENCE, || {
            let len = socket.recv(&mut buf).unwrap_or(0);
            seen = String::from_utf8_lossy(&buf[..len]).into_owned();
            seen.lines().any(|line| line == wanted)
        });
        assert!(found, "{wanted}: {seen}");
        seen
    };
    let name = path.display().to_string();
    let mut chain = Chain::start_with(CONFIG, &[], &[("NOTIFY_SOCKET", &name)]);
    let first = chain.first.pid();
    assert!(hear("READY=1").contains(&format!("MAINPID={first}")));
    chain.upgrade();
    let second = chain.pid();
    hear(&format!("MAINPID={second}"));
    signal(second, Signal::TERM);
    hear("STOPPING=1");
    assert!(ends(second));
}
