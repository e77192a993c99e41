//! `sockeye nodes`: what the nodes of a cluster are, and the order to drain one, through the operators' listener of any of them.

use crate::config::Request;
use crate::door::{Door, Key};
use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::Value;
use std::fmt::Write as _;

/// Show the nodes of the cluster, or drain one.
#[derive(Debug, Args)]
pub struct NodesArgs {
    /// `drain`: a node sends its clients away, as at its end, and takes no others. Its process stays until it is stopped.
    #[arg(requires = "number")]
    order: Option<Order>,
    /// The number of that node.
    number: Option<u16>,
    /// As JSON, for programs.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    key: Key,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Order {
    Drain,
}

pub fn run(args: &NodesArgs, request: &Request) -> Result<()> {
    if let Some((Order::Drain, number)) = args.order.zip(args.number) {
        let door = Door::of(request, args.key.needed("drain a node")?)?;
        door.call("POST", &format!("/v1/nodes/{number}/drain"), None)?;
        println!("accepted: `sockeye nodes` shows the state");
        return Ok(());
    }
    let json = Door::of(request, &args.key)?.call("GET", "/v1/nodes", None)?;
    match args.json {
        true => println!("{json:#}"),
        false => print!("{}", table(&json)),
    }
    Ok(())
}

fn table(json: &Value) -> String {
    let mut out = format!(
        "{:>4}  {:<9}  {:>8}  {:>9}  {:<10}  {:<22}  {}\n",
        "NODE", "STATE", "SESSIONS", "AGE", "VERSION", "RELAY", "PROCESS"
    );
    for node in json["nodes"].as_array().into_iter().flatten() {
        let text = |name: &str| node[name].as_str().unwrap_or("-");
        let _ = writeln!(
            out,
            "{:>4}  {:<9}  {:>8}  {:>9}  {:<10}  {:<22}  {}",
            node["number"],
            text("state"),
            node["sessions"],
            age(node["age_seconds"].as_u64().unwrap_or_default()),
            text("version"),
            text("relay"),
            text("name"),
        );
    }
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
    fn a_node_is_a_line() {
        let node = json!({"number": 3, "state": "ready", "sessions": 12, "age_seconds": 61, "version": "0.1.0", "relay": null, "name": "a/7"});
        let table = table(&json!({ "nodes": [node] }));
        let line = table.lines().nth(1).expect("a line");
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words, ["3", "ready", "12", "1m01s", "0.1.0", "-", "a/7"]);
    }
}
