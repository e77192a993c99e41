//! Sessions by WebTransport and by WebSocket (both by TLS 1.3), and how long a question takes on each: `benchmarks/webtransport.py` plays
//! it over a network that loses and delays packets.
//!
//! lossy ADDR CERT websocket|webtransport SESSIONS QUESTIONS INTERVAL_MS BYTES

mod peer;

use peer::{Ear, Failure, say};
use rustls::ClientConfig;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use web_transport_quinn::quinn::Endpoint;

/// What is late counts as this.
const PATIENCE: Duration = Duration::from_secs(30);

struct Plan {
    addr: SocketAddr,
    webtransport: bool,
    questions: usize,
    interval: Duration,
    bytes: usize,
    tls: ClientConfig,
}

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [addr, cert, transport, sessions, questions, interval, bytes] = args.as_slice() else {
        return Err(
            "lossy ADDR CERT websocket|webtransport SESSIONS QUESTIONS INTERVAL_MS BYTES".into(),
        );
    };
    let plan = Arc::new(Plan {
        addr: addr.parse()?,
        webtransport: transport == "webtransport",
        questions: questions.parse()?,
        interval: Duration::from_millis(interval.parse()?),
        bytes: bytes.parse()?,
        tls: peer::tls(cert)?,
    });
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime
        .enable_all()
        .build()?
        .block_on(measure(plan, sessions.parse()?))
}

async fn measure(plan: Arc<Plan>, sessions: usize) -> Result<(), Failure> {
    let endpoint = Arc::new(Endpoint::client("0.0.0.0:0".parse()?)?);
    let mut tasks = Vec::new();
    for _ in 0..sessions {
        let (plan, endpoint) = (Arc::clone(&plan), Arc::clone(&endpoint));
        tasks.push(tokio::spawn(async move { session(&plan, &endpoint).await }));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let (mut took, mut failed) = (Vec::new(), 0);
    for task in tasks {
        match task.await? {
            Ok(more) => took.extend(more),
            Err(error) => {
                eprintln!("a session failed: {error}");
                failed += 1;
            }
        }
    }
    took.sort();
    let at = |part: f64| {
        let index = (took.len() as f64 * part) as usize;
        took.get(index.min(took.len().saturating_sub(1)))
            .map_or(0.0, |took| took.as_secs_f64() * 1e3)
    };
    let answers = took.len();
    println!(
        "{{\"sessions\":{sessions},\"failed\":{failed},\"answers\":{answers},\"p50_ms\":{:.1},\"p90_ms\":{:.1},\"p99_ms\":{:.1},\"max_ms\":{:.1}}}",
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0)
    );
    Ok(())
}

async fn session(plan: &Plan, endpoint: &Endpoint) -> Result<Vec<Duration>, Failure> {
    if plan.webtransport {
        let config = peer::quic(plan.tls.clone())?;
        let session = peer::webtransport(endpoint, config, plan.addr).await?;
        let (send, recv) = session.open_bi().await?;
        return talk(plan, recv, send, true).await;
    }
    let (recv, send) = peer::websocket(plan.tls.clone(), plan.addr).await?;
    talk(plan, recv, send, false).await
}

/// Questions at their times, whatever the answers do, and how long each took.
async fn talk(
    plan: &Plan,
    mut recv: impl AsyncRead + Unpin,
    mut send: impl AsyncWrite + Unpin,
    webtransport: bool,
) -> Result<Vec<Duration>, Failure> {
    let mut ear = Ear::default();
    if webtransport {
        send.write_all(&[1, b'0']).await?;
    }
    say(&mut send, "40", webtransport).await?;
    while !ear.next(&mut recv, webtransport).await?.starts_with("40{") {}
    let text = "x".repeat(plan.bytes);
    let (mut asked, mut took, mut next) = (BTreeMap::new(), Vec::new(), Instant::now());
    let mut number = 0;
    let mut deadline = Instant::now() + PATIENCE;
    while took.len() < plan.questions {
        tokio::select! {
            () = tokio::time::sleep_until(next.into()), if number < plan.questions => {
                asked.insert(number, Instant::now());
                say(&mut send, &format!("42{number}[\"echo\",\"{text}\"]"), webtransport).await?;
                number += 1;
                next += plan.interval;
                deadline = Instant::now() + PATIENCE;
            }
            () = tokio::time::sleep_until(deadline.into()) => return Err("no answer".into()),
            heard = ear.next(&mut recv, webtransport) => {
                let heard = heard?;
                if heard == "2" {
                    say(&mut send, "3", webtransport).await?;
                } else if let Some(answer) = heard.strip_prefix("43") {
                    let digits = answer.split('[').next().unwrap_or_default();
                    took.extend(asked.remove(&digits.parse()?).map(|at| at.elapsed()));
                }
            }
        }
    }
    if plan.questions == 0 {
        tokio::time::sleep(plan.interval).await;
    }
    Ok(took)
}
