//! `sockeye trace`: what passes a user, a session, a room or events of one name, line by line, from all nodes.

use crate::config::Request;
use crate::door::{Door, Key, escaped, plain};
use crate::print;
use anyhow::{Context, Result, bail};
use clap::{ArgGroup, Args};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::BufRead;

/// Follow a user, a session, a room or events of one name, on all nodes: each event with the decision about it, until Ctrl+C. Arguments of
/// events are told by type and size only.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("subject").required(true),
    after_help = "Examples: sockeye trace ada, sockeye trace --room den --json, sockeye trace --event chat --payload --reason \"case 7\""
)]
pub struct TraceArgs {
    /// All sockets of this user.
    #[arg(value_name = "USER", group = "subject")]
    user: Option<String>,
    /// The session of this id, or of the socket of this id.
    #[arg(long, value_name = "ID", group = "subject")]
    session: Option<String>,
    /// Events to this room.
    #[arg(long, value_name = "NAME", group = "subject")]
    room: Option<String>,
    /// Events of this name.
    #[arg(long, value_name = "NAME", group = "subject")]
    event: Option<String>,
    /// Only in this namespace. Rooms and events: of `/`, if none is given.
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// For so long.
    #[arg(long, value_name = "N", default_value = "600", value_parser = clap::value_parser!(u16).range(1..=600))]
    seconds: u16,
    /// Most lines of each node in a second. What is beyond is counted.
    #[arg(long, value_name = "N", default_value = "200", value_parser = clap::value_parser!(u16).range(1..=1000))]
    lines: u16,
    /// Show arguments as they are. The key needs the scope `trace:payload`.
    #[arg(long, requires = "reason")]
    payload: bool,
    /// Why, for the audit.
    #[arg(long, value_name = "TEXT", requires = "payload")]
    reason: Option<String>,
    /// Only at the node that is asked.
    #[arg(long)]
    local: bool,
    /// As JSON, for programs: one object a line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    key: Key,
}

/// Adds to the path of a trace all that was named, and all that is wanted.
pub fn ask(path: &mut String, named: &[(&str, &Option<String>)], wanted: &[(&str, bool)]) {
    for (name, value) in named {
        if let Some(value) = value {
            // Writing into a `String` cannot fail.
            let _ = write!(path, "&{name}={}", escaped(value));
        }
    }
    for (name, _) in wanted.iter().filter(|(_, is_wanted)| *is_wanted) {
        let _ = write!(path, "&{name}=true");
    }
}

impl TraceArgs {
    fn path(&self) -> String {
        let mut path = format!("/v1/trace?seconds={}&lines={}", self.seconds, self.lines);
        ask(
            &mut path,
            &[
                ("user", &self.user),
                ("session", &self.session),
                ("room", &self.room),
                ("event", &self.event),
                ("namespace", &self.namespace),
                ("reason", &self.reason),
            ],
            &[("payload", self.payload), ("local", self.local)],
        );
        path
    }
}

pub fn run(args: &TraceArgs, request: &Request) -> Result<()> {
    let door = Door::of(request, args.key.needed("follow what passes")?)?;
    let mut lines = door.stream(&args.path())?;
    let mut text = String::new();
    loop {
        text.clear();
        let read = lines.read_line(&mut text);
        if read.context("cannot read the trace on: the gateway said nothing for 15 s")? == 0 {
            bail!(
                "the trace broke off: the gateway, or a proxy before it, has closed the connection"
            );
        }
        if args.json {
            print::print(&text)?;
        }
        let line: Value = serde_json::from_str(&text).context("cannot read a line of the trace")?;
        match line["kind"].as_str() {
            Some("line") if !args.json => print::line(words(&line))?,
            Some("line" | "alive") => {}
            Some("end") => {
                eprintln!("the trace has ended: {}", text_of(&line, "why"));
                return Ok(());
            }
            _ => eprintln!("{}", aside(&line)),
        }
    }
}

fn text_of(line: &Value, name: &str) -> String {
    plain(line[name].as_str().unwrap_or_default())
}

/// A word about the trace itself.
fn aside(line: &Value) -> String {
    let node = &line["node"];
    match line["kind"].as_str() {
        Some("begin") => format!("following {}", text_of(line, "of")),
        Some("dropped") => format!(
            "{} lines of node {node} are missing: there was no room for them",
            line["lines"]
        ),
        Some("node") => {
            let why = text_of(line, "why");
            let why = if why.is_empty() {
                why
            } else {
                format!(": {why}")
            };
            format!("node {node}: {}{why}", text_of(line, "state"))
        }
        _ => plain(&line.to_string()),
    }
}

/// A line for people.
fn words(line: &Value) -> String {
    let at_ms = line["at_ms"].as_u64().unwrap_or_default();
    let seconds = at_ms / 1_000 % 86_400;
    let arrow = if line["direction"] == "in" {
        "->"
    } else {
        "<-"
    };
    let mut out = format!(
        "{:02}:{:02}:{:02}.{:03}  {}/{}  {arrow} {:<8}",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60,
        at_ms % 1_000,
        line["node"],
        line["shard"],
        text_of(line, "what"),
    );
    let who = ["user", "socket", "session"]
        .into_iter()
        .find(|name| line[name].is_string());
    for name in who.into_iter().chain(["namespace", "event"]) {
        if line[name].is_string() {
            let _ = write!(out, "  {}", text_of(line, name));
        }
    }
    if line["args"].is_string() {
        let _ = write!(out, "  [{}] {} B", text_of(line, "args"), line["bytes"]);
    }
    let _ = write!(out, "  {}", decision(line));
    if line["rule"].is_string() {
        let _ = write!(out, "  ({})", text_of(line, "rule"));
    }
    out
}

fn decision(line: &Value) -> String {
    let decision = text_of(line, "decision");
    let number = |name: &str| line[name].as_u64().unwrap_or_default();
    match decision.as_str() {
        "relayed" => format!(
            "relayed to {} here, {} shards, {} nodes",
            number("sockets"),
            number("shards"),
            number("nodes")
        ),
        "backend" => "sent to the backend".to_owned(),
        "delivered" => match line["by"].is_string() {
            true => format!(
                "delivered to {}, by {}",
                number("sockets"),
                text_of(line, "by")
            ),
            false => format!("delivered to {}", number("sockets")),
        },
        "answered" => match line["after_ms"].as_u64() {
            Some(after_ms) => format!("answered after {after_ms} ms"),
            None => decision,
        },
        "refused" => format!(
            "refused: {} ({})",
            text_of(line, "why"),
            text_of(line, "code")
        ),
        "dropped" | "ended" => format!("{decision}: {}", text_of(line, "why")),
        "joined" => format!("joined by {}", text_of(line, "transport")),
        _ => decision,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_line_is_one_line_whatever_names_have_in_them() {
        let line = json!({"kind": "line", "at_ms": 86_400_000_u64 * 20_000 + 3_723_004, "node": 3, "shard": 1, "direction": "in",
            "what": "event", "user": "a\n\u{1b}[31mda", "namespace": "/", "event": "chat", "bytes": 9, "args": "string(7)",
            "rule": "/ default: rooms", "decision": "relayed", "sockets": 2, "shards": 1, "nodes": 0});
        assert_eq!(
            words(&line),
            "01:02:03.004  3/1  -> event     a\u{fffd}\u{fffd}[31mda  /  chat  [string(7)] 9 B  relayed to 2 here, 1 shards, 0 nodes  \
             (/ default: rooms)"
        );
    }

    #[test]
    fn each_decision_has_its_words() {
        for (line, wanted) in [
            (json!({"decision": "backend"}), "sent to the backend"),
            (
                json!({"decision": "delivered", "sockets": 1, "by": "bob"}),
                "delivered to 1, by bob",
            ),
            (
                json!({"decision": "answered", "after_ms": 7}),
                "answered after 7 ms",
            ),
            (
                json!({"decision": "refused", "why": "too fast", "code": "RATE"}),
                "refused: too fast (RATE)",
            ),
            (
                json!({"decision": "ended", "why": "ping_timeout"}),
                "ended: ping_timeout",
            ),
            (json!({"decision": "handled"}), "handled"),
        ] {
            assert_eq!(decision(&line), wanted);
        }
    }
}
