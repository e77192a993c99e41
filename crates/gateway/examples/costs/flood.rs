//! What a flood does to others: the p99 of 1,000 polite clients (an acked event a second each) before and while 50 connections send as
//! fast as they can, with the rates of profile `public`. The flooders take processor time from everybody on the machine: what that
//! alone does is shown by flooding another gateway beside this one.

use crate::client::{await_text, frame, join, step_back};
use crate::gateway::Gateway;
use crate::median;
use anyhow::Result;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const POLITE: usize = 1_000;
const FLOODERS: usize = 50;
const THREADS: usize = 4;
const ROUNDS: usize = 3;
const SPAN: Duration = Duration::from_secs(8);

const CONFIG: &str = "
profile = \"public\"
[limits]
conns_per_address_max = 0
[socketio]
ping_interval = \"300s\"
[log]
format = \"json\"
connections = false
[namespaces.\"/\".events.echo]
action = \"reply\"
";

/// What the flooders did.
#[derive(Default)]
struct Tally {
    sent: AtomicU64,
    closed: AtomicU64,
}

/// Each client asks once a second; latencies count from when it was to ask. Microseconds, sorted.
fn polite(clients: &mut [TcpStream]) -> Result<Vec<u64>> {
    let per_thread = clients.len().div_ceil(THREADS);
    let pause = Duration::from_secs(1) / per_thread as u32;
    let mut all = Vec::new();
    std::thread::scope(|scope| -> Result<()> {
        let threads: Vec<_> = clients
            .chunks_mut(per_thread)
            .map(|clients| scope.spawn(move || ask_in_turn(clients, pause)))
            .collect();
        for thread in threads {
            let latencies = thread
                .join()
                .map_err(|_| anyhow::anyhow!("a client thread panicked"))?;
            all.extend(latencies?);
        }
        Ok(())
    })?;
    all.sort_unstable();
    Ok(all)
}

fn ask_in_turn(clients: &mut [TcpStream], pause: Duration) -> Result<Vec<u64>> {
    let (started, mut latencies) = (Instant::now(), Vec::new());
    for n in 0.. {
        let due = started + pause * n;
        if due > started + SPAN {
            break;
        }
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let at = n as usize % clients.len();
        clients[at].write_all(&frame("421[\"echo\"]"))?;
        await_text(&mut clients[at], b"431[]")?;
        latencies.push(due.elapsed().as_micros() as u64);
    }
    Ok(latencies)
}

/// Sends as fast as the gateway takes it, and comes back when it is thrown out.
fn flood(addr: SocketAddr, over: &AtomicBool, tally: &Tally) {
    // Flooders are other machines: their work must not keep polite clients from a processor.
    step_back().expect("flooders yield to everybody, or the figures mean something else");
    let batch = frame("42[\"echo\"]").repeat(2_000);
    while !over.load(Ordering::Relaxed) {
        let Ok(mut stream) = join(addr, "") else {
            continue;
        };
        let Ok(mut reader) = stream.try_clone() else {
            continue;
        };
        let reading = std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
        while !over.load(Ordering::Relaxed) && stream.write_all(&batch).is_ok() {
            tally.sent.fetch_add(2_000, Ordering::Relaxed);
        }
        tally.closed.fetch_add(1, Ordering::Relaxed);
        let _ = stream.shutdown(std::net::Shutdown::Both);
        let _ = reading.join();
    }
}

fn percentile(sorted: &[u64], percent: usize) -> f64 {
    sorted[(sorted.len() - 1) * percent / 100] as f64 / 1000.0
}

/// Latencies of the polite clients while this address is flooded.
fn beside_a_flood(
    clients: &mut [TcpStream],
    flooded: SocketAddr,
    tally: &Tally,
) -> Result<Vec<u64>> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..FLOODERS {
            scope.spawn(|| flood(flooded, &over, tally));
        }
        std::thread::sleep(Duration::from_secs(1));
        let latencies = polite(clients);
        over.store(true, Ordering::Relaxed);
        latencies
    })
}

pub fn report() -> Result<()> {
    let (gateway, neighbour) = (Gateway::start(CONFIG)?, Gateway::start(CONFIG)?);
    let mut clients = (0..POLITE)
        .map(|_| join(gateway.addr, ""))
        .collect::<Result<Vec<_>>>()?;
    polite(&mut clients)?;
    let (beside, on) = (Tally::default(), Tally::default());
    let mut rounds: [Vec<Vec<u64>>; 3] = Default::default();
    for round in 1..=ROUNDS {
        eprintln!("round {round} of {ROUNDS}");
        rounds[0].push(polite(&mut clients)?);
        rounds[1].push(beside_a_flood(&mut clients, neighbour.addr, &beside)?);
        rounds[2].push(beside_a_flood(&mut clients, gateway.addr, &on)?);
        // What the flood left in the kernel is read or given up.
        std::thread::sleep(Duration::from_secs(6));
    }
    println!(
        "| {POLITE} polite clients | p50 ms | p99 ms | p99 of each round |\n|---|---|---|---|"
    );
    let names = [
        "no flood",
        "flood on another gateway of this machine",
        "flood on this gateway",
    ];
    for (name, rounds) in names.iter().zip(&rounds) {
        let of = |percent| -> Vec<f64> {
            rounds
                .iter()
                .map(|round| percentile(round, percent))
                .collect()
        };
        let each: Vec<String> = of(99).iter().map(|ms| format!("{ms:.2}")).collect();
        println!(
            "| {name} | {:.2} | {:.2} | {} |",
            median(of(50)),
            median(of(99)),
            each.join(", ")
        );
    }
    let (sent, closed) = (&on.sent, &on.closed);
    println!(
        "\n{} messages sent by {FLOODERS} flooders to this gateway, closed {} times",
        sent.load(Ordering::Relaxed),
        closed.load(Ordering::Relaxed)
    );
    Ok(())
}
