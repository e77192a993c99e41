//! What safety costs: the same load on a gateway with tokens, rates, address bounds and a scraped metrics listener, and on one
//! without any of it, in turn.
//!
//! `cargo build --release -p gateway -p bench && cargo run --release -p gateway --example overhead`

use anyhow::{Context, Result, ensure};
use control::identity::issue::SigningKey;
use serde_json::{Map, Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const SECRET: &str = "overhead-of-safety-thirty-two-bytes";
const ROUNDS: usize = 5;
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

struct Gateway {
    process: Child,
    addr: SocketAddr,
    admin: SocketAddr,
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Gateway {
    fn start(folder: &Path, name: &str, more: &str) -> Result<Self> {
        let base = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benchmarks/sockeye.toml");
        let text = fs::read_to_string(base)?
            .replace("level = \"warn\"", "format = \"json\"\nconnections = false");
        let file = folder.join(format!("{name}.toml"));
        fs::write(&file, format!("{text}\n{more}"))?;
        let mut process = Command::new(built("sockeye")?)
            .args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--admin",
                "127.0.0.1:0",
                "--shards",
                "1",
            ])
            .arg("--config")
            .arg(&file)
            .stderr(Stdio::piped())
            .spawn()?;
        let log = process.stderr.take().context("no log")?;
        let mut lines = BufReader::new(log).lines();
        let line = lines.find_map(|line| line.ok().filter(|line| line.contains("listening")));
        let line: Value = serde_json::from_str(&line.context("the gateway did not start")?)?;
        std::thread::spawn(move || lines.for_each(drop));
        let addr =
            |key: &str| -> Result<SocketAddr> { Ok(line[key].as_str().unwrap_or("").parse()?) };
        Ok(Self {
            addr: addr("addresses")?,
            admin: addr("admin")?,
            process,
        })
    }

    fn resident(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let kib: u64 = line
            .and_then(|line| line.split_whitespace().nth(1))
            .context("VmRSS")?
            .parse()?;
        Ok(kib * 1024)
    }

    /// One case of `sockeye-bench measure`, as JSON.
    fn measure(&self, token: Option<&str>, case: &[&str]) -> Result<Value> {
        let token = token.map_or(String::new(), |token| format!("&token={token}"));
        let output = Command::new(built("sockeye-bench")?)
            .args([
                "measure",
                "--json",
                "--quick",
                "--addr",
                &self.addr.to_string(),
            ])
            .args(["--pid", &self.process.id().to_string()])
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
}

/// A binary of the release profile, beside this example.
fn built(name: &str) -> Result<PathBuf> {
    let folder = std::env::current_exe()?;
    let folder = folder
        .parent()
        .and_then(Path::parent)
        .context("a folder above")?;
    Ok(folder.join(name))
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
            clients.push(client(gateway.addr, &auth)?);
        }
        std::thread::sleep(Duration::from_millis(500));
        resident.push(gateway.resident()?);
    }
    Ok((resident[1] - resident[0]) as f64 / (IDLE[1] - IDLE[0]) as f64)
}

fn client(addr: SocketAddr, auth: &str) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(addr)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(
        b"GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
          Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
    )?;
    expect(&mut stream, b"0{\"sid\"")?;
    let packet = format!("40{auth}");
    let mut frame = vec![0x81];
    match packet.len() {
        len @ 0..126 => frame.push(0x80 | len as u8),
        len => {
            frame.push(0x80 | 126);
            frame.extend_from_slice(&(len as u16).to_be_bytes());
        }
    }
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(packet.as_bytes());
    stream.write_all(&frame)?;
    expect(&mut stream, b"40{\"sid\"")?;
    Ok(stream)
}

fn expect(stream: &mut TcpStream, wanted: &[u8]) -> Result<()> {
    let (mut seen, mut buf) = (Vec::new(), [0; 1024]);
    while !seen.windows(wanted.len()).any(|window| window == wanted) {
        let n = stream.read(&mut buf)?;
        ensure!(n > 0, "closed: {}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&buf[..n]);
    }
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let key = SigningKey::from_secret(SECRET).map_err(anyhow::Error::msg)?;
    let bare = Gateway::start(folder.path(), "bare", "")?;
    let safe = Gateway::start(folder.path(), "safe", SAFE)?;
    let admin = safe.admin;
    std::thread::spawn(move || scrape(admin));
    let shared = token(&key, 0)?;
    let cases: [(&str, &[&str]); 3] = [
        ("acked event, depth 8", &["ack", "--depth", "8"]),
        ("acked event, depth 1", &["ack", "--depth", "1"]),
        ("delivery, room of 1,000", &["delivery"]),
    ];
    println!("| CPU us | everything off | everything on | ratio |\n|---|---|---|---|");
    for (name, case) in cases {
        let (mut off, mut on) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            off.push(cost(&bare.measure(None, case)?)?);
            on.push(cost(&safe.measure(Some(&shared), case)?)?);
        }
        let (off, on) = (median(off), median(on));
        println!("| {name} | {off:.3} | {on:.3} | {:.3} |", on / off);
    }
    drop((bare, safe));
    let bare = Gateway::start(folder.path(), "bare", "")?;
    let off = idle(&bare, None)?;
    drop(bare);
    let safe = Gateway::start(folder.path(), "safe", SAFE)?;
    let on = idle(&safe, Some(&key))?;
    println!(
        "| bytes per idle session, a user each | {off:.0} | {on:.0} | +{:.0} |",
        on - off
    );
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
