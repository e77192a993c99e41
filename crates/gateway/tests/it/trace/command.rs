//! `sockeye trace` as people and programs start it.

use super::{BINARY, DESK, OPS, comes, config};
use crate::harness::Gateway;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

struct Tracer {
    child: Child,
    out: BufReader<ChildStdout>,
    aside: BufReader<ChildStderr>,
}

impl Drop for Tracer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Tracer {
    fn start(node: &Gateway, key: &str, args: &[&str]) -> Self {
        let admin = node.admin.to_string();
        let mut command = Command::new(BINARY);
        command.args(["trace", "--key", key, "--admin", &admin]);
        command.args(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("sockeye trace starts");
        Self {
            out: BufReader::new(child.stdout.take().expect("its output")),
            aside: BufReader::new(child.stderr.take().expect("its remarks")),
            child,
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("a line");
        line
    }

    fn remark(&mut self) -> String {
        let mut line = String::new();
        self.aside.read_line(&mut line).expect("a remark");
        line
    }

    fn code(&mut self) -> Option<i32> {
        self.child.wait().expect("its end").code()
    }
}

#[test]
fn sockeye_trace_shows_what_passes_a_user_and_ends_in_an_orderly_way() {
    let node = Gateway::start(&config(""));
    let (mut ada, mut bob) = (comes(&node, "ada", "den"), comes(&node, "bob", "den"));
    let mut people = Tracer::start(&node, &OPS.0, &["ada", "--seconds", "3"]);
    assert_eq!(people.remark(), "following user ada\n");
    let args = [
        "--event",
        "chat",
        "--json",
        "--payload",
        "--reason",
        "case 7",
    ];
    let mut program = Tracer::start(&node, &OPS.0, &args);
    let begin: Value = serde_json::from_str(&program.line()).expect("JSON");
    assert_eq!(begin["payload"], true);
    ada.emit("chat", &[json!("x")]);
    assert_eq!(bob.expect("chat"), [json!("x")]);
    let line = people.line();
    let parts = [
        "-> event     ada  /  chat  [string(1)] 3 B  relayed to ",
        "(/ default: rooms)",
    ];
    assert!(parts.iter().all(|part| line.contains(part)), "{line}");
    let line: Value = serde_json::from_str(&program.line()).expect("JSON");
    assert_eq!(
        (&line["user"], &line["args"]),
        (&json!("ada"), &json!("\"x\""))
    );
    assert_eq!(people.remark(), "the trace has ended: its time is over\n");
    assert_eq!(people.code(), Some(0));
}

#[test]
fn sockeye_trace_says_why_it_cannot_and_when_the_gateway_is_gone() {
    let mut node = Gateway::start(&config(""));
    let mut refused = Tracer::start(&node, &DESK.0, &["ada", "--payload", "--reason", "x"]);
    let why = refused.remark();
    assert!(
        why.contains("answers 403") && why.contains("trace:payload"),
        "{why}"
    );
    assert_eq!(refused.code(), Some(1));
    for args in [&["ada", "--room", "den"][..], &[], &["ada", "--payload"]] {
        assert_eq!(
            Tracer::start(&node, &OPS.0, args).code(),
            Some(2),
            "{args:?}"
        );
    }
    let mut trace = Tracer::start(&node, &OPS.0, &["--room", "den"]);
    assert_eq!(trace.remark(), "following room den\n");
    node.kill();
    let why = trace.remark();
    assert!(
        why.contains("the trace broke off") || why.contains("cannot read"),
        "{why}"
    );
    assert_eq!(trace.code(), Some(1));
}
