//! `sockeye sessions`, `sockeye top` and `sockeye doctor --live`: one node from the command line, through its operators' listener.

use crate::config::Request;
use crate::door::{Door, Key, escaped, plain};
use crate::plans::age;
use crate::print;
use anyhow::Result;
use clap::Args;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Find sessions of a node, with what waits for them and what they are in; or how the last ones ended.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples: sockeye sessions --user ada, sockeye sessions --ended --limit 20"
)]
pub struct SessionsArgs {
    /// The session of this id, or of the socket of this id.
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// With a socket of this user.
    #[arg(long, value_name = "UID")]
    user: Option<String>,
    /// Of clients at this address.
    #[arg(long, value_name = "IP")]
    address: Option<String>,
    /// With a socket in this room.
    #[arg(long, value_name = "NAME")]
    room: Option<String>,
    /// With a socket in this namespace.
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Of all nodes of the cluster; those that do not answer are named.
    #[arg(long)]
    all_nodes: bool,
    /// How the last sessions ended, the newest first.
    #[arg(long, conflicts_with_all = ["id", "user", "address", "room", "namespace"])]
    ended: bool,
    /// Most lines.
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u16).range(1..=200))]
    limit: u16,
    /// As JSON, for programs.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    key: Key,
}

/// Watch a node: sessions, messages, memory and whether it is well, once a second, until Ctrl+C.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Print once and end.
    #[arg(long)]
    once: bool,
    /// As JSON, for programs: one line each second.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    key: Key,
}

pub fn sessions(args: &SessionsArgs, request: &Request) -> Result<()> {
    let door = Door::of(request, args.key.needed("look at sessions")?)?;
    let of = if args.all_nodes { "nodes" } else { "node" };
    let mut path = match args.ended {
        true => format!("/v1/{of}/ends?limit={}", args.limit),
        false => format!("/v1/{of}/sessions?limit={}", args.limit),
    };
    for (name, value) in [
        ("id", &args.id),
        ("user", &args.user),
        ("address", &args.address),
        ("room", &args.room),
        ("namespace", &args.namespace),
    ] {
        if let Some(value) = value {
            let _ = write!(path, "&{name}={}", escaped(value));
        }
    }
    let found = door.call("GET", &path, None)?;
    match (args.json, args.ended) {
        (true, _) => print::line(format_args!("{found:#}"))?,
        (false, true) => print::print(ends(&found))?,
        (false, false) => print::print(lines(&found))?,
    }
    if found["complete"] == Value::Bool(false) {
        eprintln!("the list is not complete: {}", missing(&found));
    }
    Ok(())
}

/// The nodes that did not answer, and why.
fn missing(found: &Value) -> String {
    let nodes = found["nodes"].as_array().into_iter().flatten();
    let silent = nodes.filter(|node| node["answered"] == Value::Bool(false));
    let told =
        silent.map(|node| format!("node {} is missing: {}", node["node"], text(node, "why")));
    let told: Vec<String> = told.collect();
    match told.is_empty() {
        true => "a shard did not answer in time".to_owned(),
        false => told.join("; "),
    }
}

/// In front of a line, where the answer is of several nodes.
fn node_of(found: &Value, item: &Value) -> String {
    match (found["nodes"].is_array(), item) {
        (false, _) => String::new(),
        (true, Value::Null) => "NODE  ".to_owned(),
        (true, item) => format!("{:<4}  ", item["node"].as_u64().unwrap_or_default()),
    }
}

fn text(of: &Value, name: &str) -> String {
    plain(of[name].as_str().unwrap_or("-"))
}

/// A line for each socket, and one for a session without any.
fn lines(found: &Value) -> String {
    let mut out = node_of(found, &Value::Null);
    let _ = writeln!(
        out,
        "{:<20}  {:<10}  {:<9}  {:<15}  {:>8}  {:>6}  {:<12}  {:<10}  ROOMS",
        "SOCKET", "PROTOCOL", "TRANSPORT", "ADDRESS", "WAITING", "SILENT", "USER", "NAMESPACE"
    );
    let shown = found["sessions"].as_array();
    for session in shown.into_iter().flatten() {
        let silent = session["silent_ms"].as_u64();
        let silent = silent.map_or("-".to_owned(), |ms| format!("{}s", ms / 1_000));
        let none = [Value::Null];
        let sockets = session["sockets"]
            .as_array()
            .filter(|list| !list.is_empty());
        for socket in sockets.map_or(&none[..], Vec::as_slice) {
            let rooms = socket["rooms"].as_array().into_iter().flatten();
            let rooms: Vec<String> = rooms.filter_map(Value::as_str).map(plain).collect();
            let _ = writeln!(
                out,
                "{}{:<20}  {:<10}  {:<9}  {:<15}  {:>8}  {:>6}  {:<12}  {:<10}  {}",
                node_of(found, session),
                text(socket, "id"),
                text(session, "protocol"),
                text(session, "transport"),
                text(session, "address"),
                bytes(session["waiting_bytes"].as_u64().unwrap_or_default()),
                silent,
                text(socket, "user"),
                text(socket, "namespace"),
                rooms.join(" ")
            );
        }
    }
    let (shown, all) = (shown.map_or(0, Vec::len), found["matched"].as_u64());
    if let Some(all) = all.filter(|all| *all > shown as u64) {
        let _ = writeln!(out, "{shown} of {all} sessions are shown");
    }
    out
}

fn ends(found: &Value) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ms = now.map_or(0, |now| now.as_millis() as u64);
    let mut out = node_of(found, &Value::Null);
    let _ = writeln!(
        out,
        "{:>9}  {:<18}  {:<15}  {:<9}  {:>8}  {:>6}  {:<20}  USER",
        "AGO", "REASON", "ADDRESS", "TRANSPORT", "WAITING", "SILENT", "SOCKET"
    );
    for end in found["ends"].as_array().into_iter().flatten() {
        let silent = end["silent_ms"].as_u64();
        let _ = writeln!(
            out,
            "{}{:>9}  {:<18}  {:<15}  {:<9}  {:>8}  {:>6}  {:<20}  {}",
            node_of(found, end),
            age(now_ms.saturating_sub(end["at_ms"].as_u64().unwrap_or_default()) / 1_000),
            text(end, "reason"),
            text(end, "address"),
            text(end, "transport"),
            bytes(end["waiting_bytes"].as_u64().unwrap_or_default()),
            silent.map_or("-".to_owned(), |ms| format!("{}s", ms / 1_000)),
            text(end, "socket"),
            text(end, "user"),
        );
    }
    out
}

/// Few letters for a column.
pub fn bytes(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes}"),
        10_000..10_000_000 => format!("{} KB", bytes / 1_000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}

pub fn top(args: &TopArgs, request: &Request) -> Result<()> {
    let door = Door::of(request, &args.key)?;
    let redraws = std::io::stdout().is_terminal() && !args.once && !args.json;
    loop {
        let overview = door.call("GET", "/v1/node/overview?limit=60", None)?;
        let kitchens = backends_of(&door);
        if args.json {
            print::line(latest(&overview, &kitchens))?;
        } else {
            // Home, and clear what is below (ECMA-48 CUP and ED).
            let begin = if redraws { "\x1b[H\x1b[J" } else { "" };
            let (screen, backends) = (screen(&overview), backends(&kitchens));
            print::print(format_args!("{begin}{screen}{backends}"))?;
        }
        if args.once {
            return Ok(());
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Without a key that may read, and of an older gateway, there are none to see.
fn backends_of(door: &Door<'_>) -> Value {
    let answer = door.call_whatever("GET", "/v1/node/backends", None);
    let answer = answer.unwrap_or_default();
    match answer["backends"].is_array() {
        true => answer,
        false => Value::Null,
    }
}

/// The node, its health, its newest point and its backends.
fn latest(overview: &Value, kitchens: &Value) -> Value {
    let points = overview["points"].as_array();
    serde_json::json!({
        "node": overview["node"], "health": overview["health"], "limits": overview["limits"],
        "point": points.and_then(|points| points.last()),
        "backends": kitchens["backends"], "kafka": kitchens["kafka"],
    })
}

fn screen(overview: &Value) -> String {
    let (node, health) = (&overview["node"], &overview["health"]);
    let mut out = format!(
        "node {} ({}), version {}, {}\n{}\n",
        node["number"],
        text(node, "name"),
        text(node, "version"),
        text(node, "state"),
        text(health, "sentence")
    );
    for found in health["conditions"].as_array().into_iter().flatten() {
        let _ = writeln!(
            out,
            "  {:<8}  {}  ({})",
            text(found, "severity"),
            text(found, "sentence"),
            text(found, "name")
        );
    }
    let none = Vec::new();
    let points = overview["points"].as_array().unwrap_or(&none);
    out.push('\n');
    for (name, unit) in [
        ("sessions", ""),
        ("connections", ""),
        ("messages_in", "/s"),
        ("deliveries", "/s"),
        ("rejected", "/s"),
        ("connects", "/s"),
        ("ends", "/s"),
        ("cpu", " cores"),
        ("memory_bytes", ""),
        ("message_p99_ms", " ms"),
        ("turn_p99_ms", " ms"),
    ] {
        let values: Vec<Option<f64>> = points.iter().map(|point| point[name].as_f64()).collect();
        let now = values.last().copied().flatten();
        let now = match (name, now) {
            (_, None) => "-".to_owned(),
            ("memory_bytes", Some(value)) => bytes(value as u64),
            (_, Some(value)) if value.fract() == 0.0 => format!("{value}{unit}"),
            (_, Some(value)) => format!("{value:.2}{unit}"),
        };
        let _ = writeln!(out, "{name:<16}{now:>14}  {}", curve(&values));
    }
    out
}

/// A line for each backend, and below it one for each of its workers. Nothing where there is no backend.
fn backends(answer: &Value) -> String {
    let all = answer["backends"].as_array().filter(|all| !all.is_empty());
    let mut out = String::new();
    if all.is_some() {
        let _ = writeln!(
            out,
            "\n{:<24}  {:<9}  {:>8}  {:>8}  {:>10}  {:>9}  {:>8}  {:>8}  {:>6}",
            "BACKEND",
            "STATE",
            "SOCKETS",
            "WAITING",
            "HANDLED/S",
            "P99",
            "AGAIN",
            "REFUSED",
            "POISON"
        );
    }
    for backend in all.into_iter().flatten() {
        let number = |name: &str| backend[name].as_u64().unwrap_or_default();
        let state = match (&backend["kind"], backend["well"] == Value::Bool(true)) {
            (Value::Null, _) => "no answer",
            (_, true) => "well",
            (kind, false) if kind == "webhook" => "fails",
            (_, false) => "no worker",
        };
        let _ = writeln!(
            out,
            "{:<24}  {:<9}  {:>8}  {:>8}  {:>10}  {:>9}  {:>8}  {:>8}  {:>6}",
            text(backend, "name"),
            state,
            number("sockets"),
            bytes(number("kept_bytes")),
            per_second(backend),
            p99(backend),
            number("redelivered") + number("retried"),
            number("refused") + number("calls_refused"),
            number("poison"),
        );
        for worker in backend["workers"].as_array().into_iter().flatten() {
            out.push_str(&worker_line(worker));
        }
    }
    out.push_str(&kafka_line(&answer["kafka"]));
    out
}

fn worker_line(worker: &Value) -> String {
    let number = |name: &str| worker[name].as_u64().unwrap_or_default();
    format!(
        "  {:<22}  {:<9}  {:>8}  {:>8}  {:>10}  {:>9}\n",
        text(worker, "instance"),
        text(worker, "state"),
        number("sockets"),
        number("waiting") + number("under_way"),
        per_second(worker),
        p99(worker),
    )
}

/// Nothing where there is no bridge.
fn kafka_line(kafka: &Value) -> String {
    if !kafka.is_object() {
        return String::new();
    }
    let number = |name: &str| kafka[name].as_u64().unwrap_or_default();
    format!(
        "\nkafka: {} written, {} failed, {} refused, {} waiting; {} commands, {} dead, {} lost, lag {}\n",
        number("produced"),
        number("failed"),
        number("refused"),
        bytes(number("waiting_bytes")),
        number("handed"),
        number("dead"),
        number("lost"),
        number("lag"),
    )
}

fn per_second(of: &Value) -> String {
    format!(
        "{:.1}",
        of["handled_per_second"].as_f64().unwrap_or_default()
    )
}

fn p99(of: &Value) -> String {
    match (of["p99_ms"].as_u64(), of["p99_over"] == Value::Bool(true)) {
        (None, _) => "-".to_owned(),
        (Some(ms), true) => format!("> {ms} ms"),
        (Some(ms), false) => format!("{ms} ms"),
    }
}

/// The last minute in one line. The highest value has a full block.
fn curve(values: &[Option<f64>]) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let highest = values.iter().flatten().copied().fold(0.0, f64::max);
    let block = |value: &Option<f64>| match value {
        None => ' ',
        Some(value) if highest > 0.0 => BLOCKS[((value / highest) * 7.0).round() as usize],
        Some(_) => BLOCKS[0],
    };
    values.iter().map(block).collect()
}

/// Whether the running gateway is well. 0: it is. 1: something is wrong. 2: it does not answer.
pub fn live(request: &Request, json: bool) -> ExitCode {
    let key = Key::default();
    let asked =
        Door::of(request, &key).and_then(|door| door.call_whatever("GET", "/ready?verbose", None));
    let answer = match asked {
        Ok(answer) => answer,
        Err(problem) => {
            eprintln!("{problem:#}");
            return ExitCode::from(2);
        }
    };
    let health = &answer["health"];
    let mut said = match json {
        true => format!("{answer:#}\n"),
        false => format!(
            "{}: {}\n",
            text(&answer, "status"),
            text(health, "sentence")
        ),
    };
    let conditions = health["conditions"].as_array().into_iter().flatten();
    for found in conditions.filter(|_| !json) {
        let (severity, sentence) = (text(found, "severity"), text(found, "sentence"));
        let (name, docs) = (text(found, "name"), text(found, "docs"));
        let _ = writeln!(said, "{severity}: {sentence} {name}, docs/{docs}");
    }
    if let Err(error) = print::aside(said) {
        eprintln!("{error:#}");
    }
    let is_well = health["ok"] == Value::Bool(true) && text(&answer, "status") == "ready";
    ExitCode::from(u8::from(!is_well))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_socket_is_a_line_and_what_is_left_out_is_told() {
        let socket = json!({"id": "s1", "namespace": "/", "user": "ada", "rooms": ["den", "hall"]});
        let session = json!({"protocol": "socket.io", "transport": "websocket", "address": "10.0.0.1",
            "waiting_bytes": 12_345, "silent_ms": 2_100, "sockets": [socket]});
        let found = json!({"sessions": [session], "matched": 7});
        let said = lines(&found);
        let words: Vec<&str> = said
            .lines()
            .nth(1)
            .expect("a line")
            .split_whitespace()
            .collect();
        let wanted = "s1 socket.io websocket 10.0.0.1 12 KB 2s ada / den hall";
        assert_eq!(words.join(" "), wanted);
        assert!(said.ends_with("1 of 7 sessions are shown\n"), "{said}");
    }

    #[test]
    fn a_backend_is_a_line_and_each_worker_is_one_below_it() {
        let worker = json!({"instance": "cook\u{1b}[2J", "state": "slow", "sockets": 3, "waiting": 2, "under_way": 5,
            "handled_per_second": 12.34, "p99_ms": 20, "p99_over": false});
        let backend = json!({"name": "kitchen", "kind": "workers", "well": true, "sockets": 3, "kept_bytes": 700,
            "handled_per_second": 12.34, "p99_ms": 10_000, "p99_over": true, "redelivered": 1, "retried": 2,
            "refused": 3, "calls_refused": 0, "poison": 4, "workers": [worker]});
        let said = backends(&json!({"backends": [backend], "kafka": null}));
        let words = |n| {
            let line: &str = said.lines().nth(n).expect("a line");
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(words(2), "kitchen well 3 700 12.3 > 10000 ms 3 3 4");
        assert!(words(3).ends_with("slow 3 7 12.3 20 ms"), "{said}");
        assert!(!said.contains('\u{1b}'), "{said:?}");
        assert_eq!(backends(&Value::Null), "");
    }

    #[test]
    fn a_curve_has_a_block_for_each_second() {
        let values = [Some(0.0), None, Some(5.0), Some(10.0)];
        assert_eq!(curve(&values), "▁ ▅█");
        assert_eq!(curve(&[Some(0.0); 2]), "▁▁");
    }
}
