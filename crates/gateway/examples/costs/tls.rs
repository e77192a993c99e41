//! What TLS costs, measured on a real gateway: resident bytes of an idle connection, processor time of a handshake, and what a storm
//! of handshakes does to those who are connected. Everything is on loopback, with a P-256 certificate made for the run.

mod client;

use crate::client::step_back;
use crate::gateway::Gateway;
use client::{Peer, Plan};
use rustls::pki_types::CertificateDer;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Connections between which the slope of the memory is taken.
const IDLE: [usize; 2] = [1_000, 9_000];
/// Handshakes per figure.
const HANDSHAKES: usize = 2_000;
/// Established connections, asked in turn.
const ESTABLISHED: usize = 200;
const ASKS_PER_SECOND: u64 = 500;
const STORM_PER_SECOND: u64 = 1_000;
const STORM_THREADS: u64 = 4;
const ROUNDS: usize = 3;
const WATCH: Duration = Duration::from_secs(8);

pub fn report() -> anyhow::Result<()> {
    println!(
        "| measure | value |
|---|---:|"
    );
    memory()?;
    handshakes()?;
    storm()
}

/// A gateway with a plain and a TLS address, and the certificate that its clients trust.
pub struct Secured {
    gateway: Gateway,
    certificate: CertificateDer<'static>,
    _files: tempfile::TempDir,
}

fn start() -> anyhow::Result<Secured> {
    let files = tempfile::tempdir()?;
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let (cert, key) = (files.path().join("cert.pem"), files.path().join("key.pem"));
    std::fs::write(&cert, made.cert.pem())?;
    std::fs::write(&key, made.signing_key.serialize_pem())?;
    let gateway = Gateway::start(&format!(
        "profile = \"socket.io\"
[server]
pin = false
[log]
connections = false
\
         [tls]
listen = [\"127.0.0.1:0\"]
cert = [{cert:?}]
key = [{key:?}]
"
    ))?;
    Ok(Secured {
        gateway,
        certificate: made.cert.der().clone(),
        _files: files,
    })
}

fn line(what: &str, value: impl std::fmt::Display) {
    println!("| {what} | {value} |");
}

/// Resident bytes per idle WebSocket, as the slope between two crowds, with each way to connect.
fn memory() -> anyhow::Result<()> {
    let mut slopes = Vec::new();
    for plan in [Plan::Plain, Plan::Tls13, Plan::Tls12] {
        let gateway = start()?;
        let peer = Peer::new(&gateway, plan)?;
        let (mut crowd, mut resident) = (Vec::new(), Vec::new());
        for size in IDLE {
            while crowd.len() < size {
                crowd.push(peer.websocket()?);
            }
            // The handshakes' garbage is returned in the allocator's own time.
            std::thread::sleep(Duration::from_secs(1));
            resident.push(gateway.gateway.resident_bytes()?);
        }
        let slope = (resident[1] as f64 - resident[0] as f64) / (IDLE[1] - IDLE[0]) as f64;
        line(
            &format!("{plan:?}: resident bytes per idle WebSocket"),
            format!("{slope:.0}"),
        );
        if let Some(plain) = slopes.first() {
            line(
                &format!("{plan:?}: above plain"),
                format!("{:.0}", slope - plain),
            );
        }
        slopes.push(slope);
    }
    Ok(())
}

/// Processor time per connection with one small request, and above a plain one.
fn handshakes() -> anyhow::Result<()> {
    let gateway = start()?;
    let mut plain = None;
    for (what, plan, resume) in [
        ("plain connect, request, close", Plan::Plain, false),
        ("TLS 1.3 full", Plan::Tls13, false),
        ("TLS 1.3 resumed", Plan::Tls13, true),
        ("TLS 1.2 full", Plan::Tls12, false),
        ("TLS 1.2 resumed", Plan::Tls12, true),
    ] {
        let peer = Peer::new(&gateway, plan)?;
        let mut resumed = 0;
        peer.visit(resume)?;
        let before = gateway.gateway.cpu()?;
        for _ in 0..HANDSHAKES {
            resumed += usize::from(peer.visit(resume)?);
        }
        let micros = (gateway.gateway.cpu()? - before).as_secs_f64() * 1e6 / HANDSHAKES as f64;
        anyhow::ensure!(
            resumed == if resume { HANDSHAKES } else { 0 },
            "{resumed} resumed"
        );
        line(&format!("{what}: us of CPU"), format!("{micros:.0}"));
        match plain {
            None => plain = Some(micros),
            Some(plain) => line(
                &format!("{what}: above plain"),
                format!("{:.0}", micros - plain),
            ),
        }
    }
    Ok(())
}

/// Latency of established connections: alone, while others come to another gateway of this machine (what the machine makes of
/// it), and while they come to this one. Medians over the rounds.
fn storm() -> anyhow::Result<()> {
    let (gateway, neighbour) = (start()?, start()?);
    let established = Peer::new(&gateway, Plan::Tls13)?;
    let mut crowd = Vec::new();
    for _ in 0..ESTABLISHED {
        crowd.push(established.websocket()?);
    }
    let mut rounds: [Vec<Latencies>; 3] = Default::default();
    for _ in 0..ROUNDS {
        rounds[0].push(ask_in_turn(&mut crowd)?);
        rounds[1].push(in_a_storm(&neighbour, &mut crowd)?);
        rounds[2].push(in_a_storm(&gateway, &mut crowd)?);
    }
    let names = ["alone", "beside a storm elsewhere", "in the storm"];
    let mut p99 = Vec::new();
    for (name, rounds) in names.iter().zip(&rounds) {
        let of = |figure: fn(&Latencies) -> u64| median(rounds.iter().map(figure).collect());
        line(
            &format!("established {name}: p50 us"),
            of(|round| round.answered.0),
        );
        p99.push(of(|round| round.answered.1));
        line(
            &format!("established {name}: p99 us"),
            p99.last().unwrap_or(&0),
        );
        let late = of(|round| round.late.1);
        line(&format!("established {name}: sent late by, p99 us"), late);
    }
    let ratio = |to: usize| format!("{:.2}", p99[2] as f64 / p99[to] as f64);
    line("p99 in the storm : p99 alone", ratio(0));
    line("p99 in the storm : p99 beside one", ratio(1));
    Ok(())
}

/// Latency of the crowd while others come to this gateway.
fn in_a_storm(target: &Secured, crowd: &mut [client::Conn]) -> anyhow::Result<Latencies> {
    let stop = Arc::new(AtomicBool::new(false));
    let made = Arc::new(AtomicUsize::new(0));
    let mut threads = Vec::new();
    for _ in 0..STORM_THREADS {
        let peer = Peer::new(target, Plan::Tls13)?;
        let (stop, made) = (Arc::clone(&stop), Arc::clone(&made));
        threads.push(std::thread::spawn(move || come_and_go(&peer, &stop, &made)));
    }
    let (started, before) = (Instant::now(), target.gateway.cpu()?);
    let stormy = ask_in_turn(crowd)?;
    let (took, cpu) = (started.elapsed(), target.gateway.cpu()? - before);
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        let ended = thread.join();
        ended.map_err(|_| anyhow::anyhow!("a thread died"))??;
    }
    let seconds = took.as_secs_f64();
    let rate = made.load(Ordering::Relaxed) as f64 / seconds;
    line("storm: full handshakes per second", format!("{rate:.0}"));
    let share = 100.0 * cpu.as_secs_f64() / seconds;
    line("storm: CPU of its gateway, %", format!("{share:.0}"));
    Ok(stormy)
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

/// Median and 99th percentile, microseconds.
struct Latencies {
    /// From sending to the answer.
    answered: (u64, u64),
    /// By how much later than planned this program sent: if that is much, the machine is too busy for the figure above.
    late: (u64, u64),
}

fn ask_in_turn(crowd: &mut [client::Conn]) -> anyhow::Result<Latencies> {
    let (mut answered, mut late) = (Vec::new(), Vec::new());
    let pause = Duration::from_nanos(1_000_000_000 / ASKS_PER_SECOND);
    let started = Instant::now();
    let mut due = started;
    for n in 0.. {
        // Who is too late does not make up for it by haste.
        due = (due + pause).max(Instant::now());
        if due.duration_since(started) > WATCH {
            break;
        }
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let sent = Instant::now();
        let turn = n % crowd.len();
        crowd[turn].ping()?;
        answered.push(sent.elapsed().as_micros() as u64);
        late.push(sent.duration_since(due).as_micros() as u64);
    }
    Ok(Latencies {
        answered: percentiles(answered),
        late: percentiles(late),
    })
}

fn percentiles(mut values: Vec<u64>) -> (u64, u64) {
    values.sort_unstable();
    let at = |share: usize| values[values.len() * share / 100];
    (at(50), at(99))
}

/// Full handshakes at this thread's share of the rate.
fn come_and_go(peer: &Peer, stop: &AtomicBool, made: &AtomicUsize) -> anyhow::Result<()> {
    let pause = Duration::from_nanos(1_000_000_000 * STORM_THREADS / STORM_PER_SECOND);
    // Newcomers come from other machines: who is established does not share a processor with their arithmetic.
    step_back()?;
    let started = Instant::now();
    for n in 0.. {
        let due = started + pause * n;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        if stop.load(Ordering::Relaxed) {
            break;
        }
        peer.handshake()?;
        made.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
