//! `sockeye nodes`: what the nodes of a cluster are, and the order to drain one, through the operators' listener of any of them.

use crate::config::{self, Request};
use crate::health::reachable;
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// For connecting, and for each part of the answer.
const PATIENCE: Duration = Duration::from_secs(5);
const ANSWER_BYTES_MAX: u64 = 1024 * 1024;

/// Show the nodes of the cluster, or drain one.
#[derive(Debug, Args)]
pub struct NodesArgs {
    /// `drain`: a node sends its clients away, as at its end, and takes no others. Its process stays until it is stopped.
    #[arg(requires = "number")]
    order: Option<Order>,
    /// The number of that node.
    number: Option<u16>,
    /// For programs.
    #[arg(long)]
    json: bool,
    /// An API key of the gateway (`sockeye api-key`).
    #[arg(
        long,
        value_name = "KEY",
        env = "SOCKEYE_API_KEY",
        hide_env_values = true
    )]
    key: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Order {
    Drain,
}

pub fn run(args: &NodesArgs, request: &Request) -> Result<()> {
    let loaded = config::load(request).map_err(|problems| anyhow::anyhow!("{problems}"))?;
    let admin = loaded.resolved.server.admin;
    let addr =
        admin.context("cannot ask a gateway without an operators' listener: set server.admin")?;
    let (addr, key) = (reachable(addr), args.key.as_deref());
    if let Some((Order::Drain, number)) = args.order.zip(args.number) {
        key.context("cannot drain a node without an API key: set SOCKEYE_API_KEY, or --key; `sockeye api-key` makes one")?;
        ask(addr, key, "POST", &format!("/v1/nodes/{number}/drain"))?;
        println!("accepted: `sockeye nodes` shows the state");
        return Ok(());
    }
    let said = ask(addr, key, "GET", "/v1/nodes")?;
    let json: Value = serde_json::from_str(&said).context("cannot read the answer")?;
    match args.json {
        true => println!("{json:#}"),
        false => print!("{}", table(&json)),
    }
    Ok(())
}

/// The body of an answer that is a success.
fn ask(addr: SocketAddr, key: Option<&str>, method: &str, path: &str) -> Result<String> {
    let url = format!("http://{addr}{path}");
    let answer = exchange(addr, key, method, path).with_context(|| format!("cannot ask {url}"))?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let line = head.lines().next().unwrap_or_default();
    if !line
        .split(' ')
        .nth(1)
        .is_some_and(|status| status.starts_with('2'))
    {
        bail!("{url} answers {line}: {body}");
    }
    Ok(body.to_owned())
}

fn exchange(addr: SocketAddr, key: Option<&str>, method: &str, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&addr, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let key = key.map(|key| format!("Authorization: Bearer {key}\r\n"));
    let key = key.unwrap_or_default();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{key}Content-Length: 0\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
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

fn age(seconds: u64) -> String {
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
