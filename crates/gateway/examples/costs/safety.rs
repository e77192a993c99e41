//! What safety costs in time and memory: the same load on a gateway with tokens, rates, address bounds and a scraped metrics
//! listener, and on one without any of it, in turn.

use crate::client::join;
use crate::gateway::{Gateway, built};
use crate::median;
use anyhow::{Context, Result, ensure};
use control::identity::issue::SigningKey;
use serde_json::{Map, Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

const SECRET: &str = "overhead-of-safety-thirty-two-bytes";
const ROUNDS: usize = 15;
const IDLE_ROUNDS: usize = 5;
const IDLE: [usize; 2] = [2_000, 16_000];

/// All that can be on.
const SAFE: &str = "
[auth]
required = true
secret = \"overhead-of-safety-thirty-two-bytes\"
[rates]
session = \"10000000/1s\"
user = \"100000000/1s\"
address = \"100000000/1s\"
connects = \"1000000/1s\"
[limits]
conns_per_address_max = 100000
";

/// The benchmark's rules, heard to log where it listens, and more.
fn start(more: &str) -> Result<Gateway> {
    let base = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benchmarks/sockeye.toml");
    let text = std::fs::read_to_string(base)?;
    let text = text.replace("level = \"warn\"", "connections = false");
    Gateway::start(&format!("{text}\n{more}"))
}

/// One case of `sockeye-bench measure`, as JSON.
fn measure(gateway: &Gateway, token: Option<&str>, case: &[&str]) -> Result<Value> {
    let token = token.map_or(String::new(), |token| format!("&token={token}"));
    let output = Command::new(built("sockeye-bench")?)
        .args([
            "measure",
            "--json",
            "--quick",
            "--addr",
            &gateway.addr.to_string(),
        ])
        .args(["--pid", &gateway.pid().to_string()])
        .args([
            "--path",
            &format!("/socket.io/?EIO=4&transport=websocket{token}"),
        ])
        .args(case)
        .output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// A token of its own for each client: as many users as connections.
fn token(key: &SigningKey, user: usize) -> Result<String> {
    let claims =
        json!({ "sub": format!("user-{user}"), "exp": 4_000_000_000_u64 + user as u64 % 60 });
    let claims: Map<String, Value> = claims.as_object().cloned().unwrap_or_default();
    key.sign(None, &claims).map_err(anyhow::Error::msg)
}

/// Resident bytes per idle Socket.IO session: the slope between two counts.
fn idle(gateway: &Gateway, key: Option<&SigningKey>) -> Result<f64> {
    let (mut clients, mut resident) = (Vec::new(), Vec::new());
    for count in IDLE {
        while clients.len() < count {
            let auth = match key {
                Some(key) => format!("{{\"token\":\"{}\"}}", token(key, clients.len())?),
                None => String::new(),
            };
            clients.push(join(gateway.addr, &auth)?);
        }
        std::thread::sleep(Duration::from_millis(1_500));
        resident.push(gateway.resident_bytes()?);
    }
    Ok((resident[1] - resident[0]) as f64 / (IDLE[1] - IDLE[0]) as f64)
}

pub fn report() -> Result<()> {
    let key = SigningKey::from_secret(SECRET).map_err(anyhow::Error::msg)?;
    let shared = token(&key, 0)?;
    let cases: [(&str, &[&str]); 3] = [
        ("acked event, depth 8", &["ack", "--depth", "8"]),
        ("acked event, depth 1", &["ack", "--depth", "1"]),
        ("delivery, room of 1,000", &["delivery"]),
    ];
    println!("| CPU us | everything off | everything on | ratio |\n|---|---|---|---|");
    for (name, case) in cases {
        let (mut off, mut on) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            // Processes of their own in each round, as one may be a few percent slower than another for as long as it lives; and
            // each side first as often, as what the machine does besides drifts.
            let (bare, safe) = (start("")?, start(SAFE)?);
            let admin = safe.admin.context("no metrics listener")?;
            std::thread::spawn(move || scrape(admin));
            let mut sides = vec![(bare, None, &mut off), (safe, Some(&*shared), &mut on)];
            sides.rotate_left(round % 2);
            for (gateway, token, costs) in sides {
                costs.push(cost(&measure(&gateway, token, case)?)?);
            }
        }
        let (off, on) = (median(off), median(on));
        println!("| {name} | {off:.3} | {on:.3} | {:.3} |", on / off);
    }
    Ok(())
}

/// The same for the memory of idle sessions, a user for each.
pub fn memory() -> Result<()> {
    let key = SigningKey::from_secret(SECRET).map_err(anyhow::Error::msg)?;
    println!(
        "| bytes per idle session | everything off | everything on | more |\n|---|---|---|---|"
    );
    let (mut off, mut on) = (Vec::new(), Vec::new());
    for round in 1..=IDLE_ROUNDS {
        let bare = idle(&start("")?, None)?;
        let safe = idle(&start(SAFE)?, Some(&key))?;
        println!(
            "| round {round} | {bare:.0} | {safe:.0} | {:+.0} |",
            safe - bare
        );
        off.push(bare);
        on.push(safe);
    }
    let (off, on) = (median(off), median(on));
    println!("| median | {off:.0} | {on:.0} | {:+.0} |", on - off);
    Ok(())
}

fn cost(sample: &Value) -> Result<f64> {
    let cost = sample["value"].as_f64();
    cost.with_context(|| format!("no value in {sample}"))
}

/// As Prometheus would, but more often.
fn scrape(admin: SocketAddr) {
    while let Ok(mut stream) = TcpStream::connect(admin) {
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let _ = stream.read_to_end(&mut Vec::new());
        std::thread::sleep(Duration::from_secs(1));
    }
}
