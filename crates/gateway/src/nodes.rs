//! `sockeye nodes`: what the nodes of a cluster are, and orders to them, through the operators' listener of any of them.

use crate::config::Request;
use crate::door::{Door, Key, plain};
use crate::plans::{self, age};
use crate::print;
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde_json::Value;
use std::fmt::Write as _;
use std::time::Duration;

/// Show the nodes of the cluster, drain one, or even out their sessions.
#[derive(Debug, Args)]
pub struct NodesArgs {
    /// `drain`: a node sends its clients away, as at its end, and takes no others; its process stays until it is stopped. `rebalance`: nodes
    /// with too many sessions send some elsewhere.
    order: Option<Order>,
    /// The number of the node to be drained.
    number: Option<u16>,
    /// Show what would be done. Of a drain, the node that is asked shows its own, and how far it is.
    #[arg(long, requires = "order")]
    dry_run: bool,
    /// When a rebalance is done.
    #[arg(long, value_name = "GOAL", default_value = "even", requires = "order")]
    to: Goal,
    /// Sessions of all nodes together that are sent elsewhere in a time, such as `500/s`.
    #[arg(long, requires = "order", value_parser = per_second)]
    rate: Option<u64>,
    /// Stop a rebalance: sessions that have not gone yet stay.
    #[arg(long, requires = "order", conflicts_with_all = ["dry_run", "rate"])]
    stop: bool,
    /// Show who talks to whom, as each node tells it.
    #[arg(long, conflicts_with = "order")]
    links: bool,
    /// As JSON, for programs.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    key: Key,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Order {
    Drain,
    Rebalance,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Goal {
    /// No node has more than 5 % above the mean.
    Even,
}

fn per_second(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no rate of whole sessions: write 500/s");
    let (count, per) = units::rate(text).ok_or_else(wrong)?;
    let count: u64 = count.parse().map_err(|_| wrong())?;
    match per {
        second if second == Duration::from_secs(1) => Ok(count),
        per => Ok((count as f64 / per.as_secs_f64()).ceil() as u64),
    }
}

pub fn run(args: &NodesArgs, request: &Request) -> Result<()> {
    match args.order {
        Some(Order::Drain) => drain(args, request),
        Some(Order::Rebalance) => rebalance(args, request),
        None if args.links => {
            let door = Door::of(request, args.key.needed("see the links of nodes")?)?;
            let json = door.call("GET", "/v1/nodes/links", None)?;
            show(args, &json, links)
        }
        None => {
            let json = Door::of(request, &args.key)?.call("GET", "/v1/nodes", None)?;
            show(args, &json, table)
        }
    }
}

fn show(args: &NodesArgs, json: &Value, table: fn(&Value) -> String) -> Result<()> {
    match args.json {
        true => print::line(format_args!("{json:#}")),
        false => print::print(table(json)),
    }
}

fn drain(args: &NodesArgs, request: &Request) -> Result<()> {
    if args.rate.is_some() || args.stop {
        bail!("cannot drain a node with --rate or --stop: they are for `sockeye nodes rebalance`");
    }
    if args.dry_run {
        let door = Door::of(request, args.key.needed("see the plan of a drain")?)?;
        let plan = door.call("GET", "/v1/node/drain", None)?;
        let asked = args.number.map(u64::from);
        if asked.is_some_and(|number| plan["node"] != number) {
            bail!(
                "cannot show the plan of node {}: node {} answers here; ask with the configuration of that node, on its machine",
                asked.unwrap_or_default(),
                plan["node"]
            );
        }
        return show(args, &plan, plans::of_drain);
    }
    let number = args
        .number
        .context("cannot drain without the number of a node: `sockeye nodes` lists them")?;
    let door = Door::of(request, args.key.needed("drain a node")?)?;
    door.call("POST", &format!("/v1/nodes/{number}/drain"), None)?;
    print::line("accepted: `sockeye nodes` shows the state")
}

fn rebalance(args: &NodesArgs, request: &Request) -> Result<()> {
    if let Some(number) = args.number {
        bail!(
            "cannot rebalance node {number} alone: a rebalance is of all nodes; leave the number out"
        );
    }
    let door = Door::of(request, args.key.needed("rebalance the nodes")?)?;
    if args.stop {
        door.call("DELETE", "/v1/nodes/rebalance", None)?;
        return print::line("accepted: sessions that have not gone yet stay");
    }
    let Goal::Even = args.to;
    let mut path = format!("/v1/nodes/rebalance?dry_run={}", args.dry_run);
    if let Some(rate) = args.rate {
        let _ = write!(path, "&rate={rate}");
    }
    let plan = door.call("POST", &path, None)?;
    show(args, &plan, plans::of_rebalance)
}

/// A line for each link: to the engine, to each other node, to backends and bridges.
fn links(json: &Value) -> String {
    let mut out = String::new();
    let mut line = |from: &Value, to: &str, state: &str, heard: &str, more: &str| {
        let from = from.as_u64().unwrap_or_default();
        // Writing to a string does not fail.
        let _ = writeln!(out, "{from:<4}  {to:<16}  {state:<22}  {heard:>10}  {more}");
    };
    for node in json["links"].as_array().into_iter().flatten() {
        let from = &node["node"];
        let engine = &node["engine"];
        if let Some(name) = engine["name"].as_str() {
            let up = if engine["up"] == true { "up" } else { "away" };
            let trip = engine["round_trip_ms"].as_f64();
            let trip = trip.map_or_else(String::new, |ms| format!(", {ms:.1} ms and back"));
            line(from, name, &format!("{up}{trip}"), "", "");
        }
        for other in node["others"].as_array().into_iter().flatten() {
            let to = format!("node {}", other["to"]);
            let silent = other["silent_ms"].as_f64();
            let state = silent.map(|ms| format!("heard {:.1} s ago", ms / 1e3));
            let state = state.unwrap_or_else(|| "not heard".to_owned());
            let more = format!(
                "{} relayed, {} gaps, {} lost",
                other["relayed"], other["gaps"], other["lost"]
            );
            line(from, &to, &state, &other["received"].to_string(), &more);
        }
        for backend in node["backends"].as_array().into_iter().flatten() {
            let state = format!("{} up", backend["workers"]);
            let name = backend["name"].as_str().unwrap_or_default();
            line(from, &plain(name), &state, "", "");
        }
        for bridge in node["bridges"].as_array().into_iter().flatten() {
            let state = format!("{} bytes wait", bridge["waiting_bytes"]);
            let name = bridge["name"].as_str().unwrap_or_default();
            line(from, name, &state, "", "");
        }
    }
    let mut table = format!(
        "{:<4}  {:<16}  {:<22}  {:>10}\n",
        "NODE", "TO", "STATE", "MESSAGES"
    );
    table.push_str(&out);
    for node in json["nodes"].as_array().into_iter().flatten() {
        if let Some(why) = node["why"].as_str() {
            let number = node["node"].as_u64().unwrap_or_default();
            let _ = writeln!(table, "{number:<4}  is missing: {}", plain(why));
        }
    }
    table
}

fn table(json: &Value) -> String {
    let mut out = format!(
        "{:>4}  {:<9}  {:>8}  {:>7}  {:>9}  {:<10}  {:<22}  {}\n",
        "NODE", "STATE", "SESSIONS", "LEAVING", "AGE", "VERSION", "RELAY", "PROCESS"
    );
    for node in json["nodes"].as_array().into_iter().flatten() {
        let text = |name: &str| node[name].as_str().unwrap_or("-");
        let state = match node["upgrading"] == Value::Bool(true) {
            true => "upgrading",
            false => text("state"),
        };
        // A width has no effect on a `Value`.
        let figure = |name: &str| node[name].to_string();
        let _ = writeln!(
            out,
            "{:>4}  {:<9}  {:>8}  {:>7}  {:>9}  {:<10}  {:<22}  {}",
            figure("number"),
            state,
            figure("sessions"),
            figure("leaving"),
            age(node["age_seconds"].as_u64().unwrap_or_default()),
            text("version"),
            text("relay"),
            text("name"),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_rate_is_of_whole_sessions() {
        assert_eq!(["500/s", "90/m"].map(per_second), [Ok(500), Ok(2)]);
        for wrong in ["500", "0.5/s", "x/s", "1/0s"] {
            assert!(per_second(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_link_is_a_line_and_a_node_that_tells_nothing_is_named() {
        let heard =
            json!({"to": 2, "silent_ms": 120, "received": 7, "gaps": 0, "lost": 0, "relayed": 3});
        let other =
            json!({"to": 4, "silent_ms": null, "received": 0, "gaps": 0, "lost": 0, "relayed": 0});
        let node = json!({
            "node": 1,
            "engine": {"name": "Redis", "up": true, "round_trip_ms": 0.42},
            "others": [heard, other],
            "backends": [{"name": "kitchen\u{1b}", "workers": 2}],
            "bridges": [{"name": "Kafka", "waiting_bytes": 9}],
        });
        let silent = json!({"node": 2, "why": "it is silent"});
        let table = links(&json!({"links": [node], "nodes": [silent]}));
        for part in [
            "up, 0.4 ms and back",
            "heard 0.1 s ago",
            "3 relayed",
            "node 4            not heard",
            "kitchen\u{fffd}",
            "9 bytes wait",
            "2     is missing: it is silent",
        ] {
            assert!(table.contains(part), "{part}: {table}");
        }
    }

    #[test]
    fn a_node_is_a_line() {
        let node = json!({"number": 3, "state": "ready", "sessions": 12, "leaving": 2, "age_seconds": 61, "version": "0.1.0", "relay": null, "name": "a/7"});
        let table = table(&json!({ "nodes": [node] }));
        let [head, line] = [0, 1].map(|at| table.lines().nth(at).expect("a line"));
        for (title, value) in [("STATE", "ready"), ("PROCESS", "a/7")] {
            assert_eq!(head.find(title), line.find(value), "{table}");
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(
            words,
            ["3", "ready", "12", "2", "1m01s", "0.1.0", "-", "a/7"]
        );
    }
}
