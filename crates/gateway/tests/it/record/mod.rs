//! `sockeye record` and `sockeye replay`: what passed comes again, nothing of it is given away, and what cannot be is told.

mod nodes;
mod troubles;

use crate::harness::token::{SECRET, token};
use crate::harness::{Gateway, PATIENCE, eventually};
use ::client::full::SocketIo;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_sockeye");

static OPS: LazyLock<(String, String)> =
    LazyLock::new(|| identity::keys::generate("ops", &[]).expect("a key"));

fn config(more: &str) -> String {
    format!(
        "profile = \"socket.io\"\n[server]\nshards = 2\n[admin]\napi_keys = [{:?}]\n[auth]\nsecret = \"{SECRET}\"\nrequired = false\n\
         [namespaces.\"/\"]\nclient_joins = true\n[namespaces.\"/\".events.checked]\nschema = '{{\"type\":\"string\"}}'\n\
         [namespaces.\"/\".events.echo]\naction = \"reply\"\n{more}\n",
        OPS.1
    )
}

/// A socket of a user, in a room.
fn comes(node: &Gateway, user: &str, room: &str) -> SocketIo {
    let mut client = SocketIo::websocket(node.addr, "/", json!({"token": token(user)}));
    assert_eq!(client.ask("join", &[json!(room)]), [json!([room])]);
    client
}

/// A recorder that runs.
struct Recorder {
    child: Child,
    file: PathBuf,
    _folder: TempDir,
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Recorder {
    /// It follows when this returns.
    fn start(node: &Gateway, args: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("recording.jsonl");
        let before = node.metric("sockeye_traces_live");
        let mut command = Command::new(BINARY);
        let admin = node.admin.to_string();
        command.arg("record").arg(&file);
        command
            .args(["--key", &OPS.0, "--admin", &admin])
            .args(args);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().expect("sockeye record starts");
        let is_live = || node.metric("sockeye_traces_live") > before && file.exists();
        assert!(eventually(PATIENCE, is_live));
        Self {
            child,
            file,
            _folder: folder,
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("it is there");
    }

    /// Its lines of this kind.
    fn lines(&self, kind: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.file).expect("the file");
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line["kind"] == kind).collect()
    }

    fn waits_for(&self, what: &str, event: &str, times: usize) {
        let is_there = || {
            let lines = self.lines("line");
            let fits = |line: &&Value| line["what"] == what && line["event"] == event;
            lines.iter().filter(fits).count() >= times
        };
        assert!(eventually(PATIENCE, is_there), "{:#?}", self.lines("line"));
    }

    /// Ctrl+C.
    fn stop(&mut self) -> String {
        self.signal(Signal::INT);
        self.ended()
    }

    fn ended(&mut self) -> String {
        let mut said = String::new();
        let mut aside = self.child.stderr.take().expect("its words");
        std::io::Read::read_to_string(&mut aside, &mut said).expect("text");
        self.child.wait().expect("its end");
        said
    }
}

fn replay(file: &Path, addr: std::net::SocketAddr, args: &[&str]) -> Output {
    let mut command = Command::new(BINARY);
    command.arg("replay").arg(file);
    command.args(["--against", &format!("http://{addr}")]);
    command.args(args).output().expect("sockeye replay runs")
}

fn played(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let read = serde_json::from_str(&text);
    read.unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Two people talk, ask, are refused, and go.
fn scene(node: &Gateway) {
    let (mut ada, mut bob) = (
        comes(node, "marlene", "geheim"),
        comes(node, "gunther", "geheim"),
    );
    ada.emit(
        "chat",
        &[json!("geheim"), json!({"of": "geheim"}), json!(7)],
    );
    assert_eq!(bob.expect("chat")[0], "geheim");
    bob.emit("chat", &[json!({"bytes": "0a0b0c"})]);
    ada.expect("chat");
    assert_eq!(ada.ask("echo", &[json!("geheim")]), [json!("geheim")]);
    let refused = ada.ask("checked", &[json!(7)]);
    assert!(refused[0]["error"].is_string(), "{refused:?}");
    bob.leave_session();
    ada.leave_session();
}

#[test]
fn a_share_of_sessions_is_recorded_and_played_again_without_a_difference() {
    let node = Gateway::start(&config(""));
    let mut before = comes(&node, "before", "geheim");
    let mut recorder = Recorder::start(&node, &["--share", "100%"]);
    scene(&node);
    recorder.waits_for("answer", "checked", 1);
    before.emit("chat", &[json!(1)]);
    let said = recorder.stop();
    assert!(said.contains("it was stopped: "), "{said}");
    let text = std::fs::read_to_string(&recorder.file).expect("the file");
    for secret in ["geheim", "marlene", "gunther", &OPS.0] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(&recorder.file)
            .expect("the file")
            .permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);

    let fresh = Gateway::start(&config(""));
    let output = replay(&recorder.file, fresh.addr, &["--secret", SECRET, "--json"]);
    let report = played(&output);
    assert_eq!(output.status.code(), Some(0), "{report:#}\n{text}");
    assert_eq!(
        (&report["sockets"], &report["failed"]),
        (&json!(2), &json!(0))
    );
    assert_eq!(report["answers"]["recorded"], 4, "{report:#}");
    assert_eq!(report["events"]["/ chat"]["replayed"], 2, "{report:#}");
    // Ten times as fast, and for people.
    let output = replay(&recorder.file, fresh.addr, &["--speed", "10"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.ends_with("\nnothing differs\n"), "{text}");
}

#[test]
fn a_gateway_with_other_rules_is_found_out() {
    let node = Gateway::start(&config(""));
    let mut recorder = Recorder::start(&node, &["--share", "100%", "--payload", "--reason", "x"]);
    scene(&node);
    recorder.waits_for("answer", "checked", 1);
    recorder.stop();
    let text = std::fs::read_to_string(&recorder.file).expect("the file");
    assert!(
        text.contains("geheim") && text.contains("marlene"),
        "{text}"
    );
    let other = config("").replace("action = \"reply\"", "action = \"drop\"");
    let other = Gateway::start(&other.replace("schema", "#schema"));
    let output = replay(&recorder.file, other.addr, &["--json", "--speed", "5"]);
    let report = played(&output);
    assert_eq!(output.status.code(), Some(1), "{report:#}");
    assert_eq!(report["other_answers"], 2, "{report:#}");
    // It was refused in the recording, and reaches somebody now.
    assert_eq!(
        report["not_judged"]["/ checked"]["additional"], 1,
        "{report:#}"
    );
    // With payload, the same gateway gives the same.
    let output = replay(&recorder.file, node.addr, &["--json"]);
    assert_eq!(output.status.code(), Some(0), "{:#}", played(&output));
}

#[test]
fn one_user_is_recorded_alone_and_others_are_not_judged() {
    let node = Gateway::start(&config(""));
    let mut bob = comes(&node, "bob", "den");
    let mut recorder = Recorder::start(&node, &["--user", "ada"]);
    let mut ada = comes(&node, "ada", "den");
    bob.emit("news", &[json!(1)]);
    ada.expect("news");
    ada.emit("chat", &[json!(2)]);
    bob.expect("chat");
    recorder.waits_for("event", "chat", 1);
    let said = recorder.stop();
    assert!(!said.contains("bob"), "{said}");
    let fresh = Gateway::start(&config(""));
    let output = replay(&recorder.file, fresh.addr, &["--json"]);
    let report = played(&output);
    assert_eq!(output.status.code(), Some(0), "{report:#}");
    assert_eq!(report["not_judged"]["/ news"]["missing"], 1, "{report:#}");
    let output = replay(&recorder.file, fresh.addr, &["--strict"]);
    assert_eq!(output.status.code(), Some(1));
}
