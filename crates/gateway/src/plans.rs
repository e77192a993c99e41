//! Plans of drains and rebalances, as people read them.

use serde_json::Value;
use std::fmt::Write as _;

/// Kinds of sessions: the member of the answer, and the words.
const CLASSES: [(&str, &str); 10] = [
    ("all", "sessions"),
    ("websocket", "  Socket.IO, WebSocket"),
    ("webtransport", "  Socket.IO, WebTransport"),
    ("polling", "  Socket.IO, long-polling"),
    ("plain", "  plain WebSocket"),
    ("event_streams", "  event streams"),
    ("recoverable", "can come back to what they missed"),
    ("compressed", "compressed"),
    ("relayed", "by way of another node"),
    ("tls_connections", "connections with TLS"),
];

/// How a node drains, or would.
pub fn of_drain(view: &Value) -> String {
    let mut out = format!("node {}, {}\n", view["node"], word(&view["state"]));
    for (member, words) in CLASSES {
        let _ = writeln!(out, "{words:<36}{:>9}", view["sessions"][member]);
    }
    if view["complete"] != true {
        out.push_str("a shard has not answered: there are more sessions than these\n");
    }
    let plan = &view["plan"];
    let (window, grace) = (seconds(&plan["window_ms"]), seconds(&plan["grace_ms"]));
    let _ = writeln!(
        out,
        "closed over {window}, {} a second, each in a pause of its client; a client without pauses has {} more\nends after {} at the latest",
        plan["per_second"],
        seconds(&plan["patience_ms"]),
        sum(&plan["window_ms"], &plan["grace_ms"]),
    );
    if grace == "0s" {
        out.push_str("server.drain_grace is 0: clients without pauses are cut off\n");
    }
    let progress = &view["progress"];
    if !progress.is_null() {
        let (began, now) = (
            number(&progress["sessions"]),
            number(&view["sessions"]["all"]),
        );
        let _ = writeln!(
            out,
            "under way: {} of {began} have gone, {} in a pause and {} while they were busy",
            began.saturating_sub(now),
            view["closed_in_a_pause"],
            view["closed_while_busy"],
        );
    }
    out
}

/// What each node gives.
pub fn of_rebalance(plan: &Value) -> String {
    let mut out = format!(
        "{:>4}  {:<9}  {:>8}  {:>7}  {:>6}  {}\n",
        "NODE", "STATE", "SESSIONS", "GIVES", "RATE", "TAKES"
    );
    let nodes = plan["nodes"].as_array();
    for node in nodes.into_iter().flatten() {
        let (gives, rate) = (number(&node["surplus"]), number(&node["per_second"]));
        let takes = match gives {
            0 => "-".to_owned(),
            _ => age(gives.div_ceil(rate.max(1))),
        };
        let _ = writeln!(
            out,
            "{:>4}  {:<9}  {:>8}  {gives:>7}  {rate:>4}/s  {takes}",
            node["number"],
            word(&node["state"]),
            node["sessions"],
        );
    }
    let gives = |node: &Value| number(&node["surplus"]) > 0;
    out.push_str(
        match (
            nodes.is_some_and(|nodes| nodes.iter().any(gives)),
            &plan["accepted"],
        ) {
            (false, _) => "the nodes are even within 5 %: there is nothing to do\n",
            (true, Value::Bool(true)) => {
                "accepted: `sockeye nodes` shows how many are still to go\n"
            }
            (true, _) => "nothing was done: this is the plan\n",
        },
    );
    out
}

/// Seconds as people read them.
pub fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

fn seconds(ms: &Value) -> String {
    let ms = std::time::Duration::from_millis(number(ms));
    units::format_duration(ms)
}

fn sum(one: &Value, other: &Value) -> String {
    seconds(&(number(one) + number(other)).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ages_are_as_exact_as_people_want_them() {
        let ages = [59, 61, 3_660, 90_000].map(age);
        assert_eq!(ages, ["59s", "1m01s", "1h01m", "1d01h"]);
    }

    #[test]
    fn a_plan_says_how_many_how_fast_and_until_when() {
        let sessions = json!({"all": 12, "websocket": 7, "webtransport": 0, "polling": 2, "plain": 2, "event_streams": 1, "recoverable": 3, "compressed": 4,
            "relayed": 0, "tls_connections": 5});
        let plan =
            json!({"window_ms": 5_000, "patience_ms": 2_500, "grace_ms": 5_000, "per_second": 3});
        let mut view = json!({"node": 4, "state": "ready", "plan": plan, "progress": null, "sessions": sessions,
            "closed_in_a_pause": 0, "closed_while_busy": 0, "complete": true});
        let text = of_drain(&view);
        assert!(text.starts_with("node 4, ready\nsessions"), "{text}");
        assert!(text.contains("closed over 5s, 3 a second"), "{text}");
        assert!(text.ends_with("ends after 10s at the latest\n"), "{text}");
        view["progress"] = json!({"began_ms": 1, "ends_ms": 2, "sessions": 20});
        view["closed_in_a_pause"] = json!(7);
        assert!(
            of_drain(&view).contains("8 of 20 have gone, 7 in a pause"),
            "{view}"
        );
    }

    #[test]
    fn a_rebalance_says_who_gives() {
        let node = json!({"number": 1, "state": "ready", "sessions": 900, "surplus": 500, "per_second": 100});
        let text = of_rebalance(&json!({"accepted": false, "nodes": [node]}));
        let line: Vec<&str> = text
            .lines()
            .nth(1)
            .expect("a line")
            .split_whitespace()
            .collect();
        assert_eq!(line, ["1", "ready", "900", "500", "100/s", "5s"]);
        assert!(text.ends_with("this is the plan\n"), "{text}");
        let even = of_rebalance(&json!({"accepted": true, "nodes": []}));
        assert!(even.ends_with("nothing to do\n"), "{even}");
    }
}
