//! Publishes over Redis and over NATS, as fast as they go and at a pace: nothing is lost. `--nocapture` shows what they cost;
//! `FIGURES_ROUNDS=3` plays so many rounds.

use super::all_up;
use crate::harness::{Alone, Gateway};
use client::full::SocketIo;
use serde_json::{Value, json};
use servers::{Nats, Redis};
use std::time::{Duration, Instant};

const PUBLISHES: u64 = 40_000;
const AT_ONCE: u64 = 200;
/// Rounds of each, in turns, where the environment names no other number.
const ROUNDS: usize = 1;
/// Of the clock of `/proc`.
const TICKS_PER_SECOND: f64 = 100.0;

/// Processor time of a process.
fn cpu(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
    let (_, rest) = stat.rsplit_once(") ").expect("its name");
    let words: Vec<&str> = rest.split(' ').collect();
    let ticks = |at: usize| words[at].parse::<f64>().expect("a number");
    Duration::from_secs_f64((ticks(11) + ticks(12)) / TICKS_PER_SECOND)
}

struct Side {
    name: &'static str,
    nodes: [Gateway; 2],
    server: u32,
}

fn side(name: &'static str, url: &str, server: u32) -> Side {
    let config = format!(
        "profile = \"socket.io\"\n[server]\nshards = 1\n[limits]\noutbox_bytes_max = \"64MiB\"\n[cluster]\nadapter = {name:?}\n\
         urls = [{url:?}]\nsecret = \"s\"\n[compat]\nenabled = false\n"
    );
    let nodes = [(); 2].map(|()| Gateway::start(&config));
    all_up(&nodes);
    Side {
        name,
        nodes,
        server,
    }
}

impl Side {
    /// As fast as it goes, or so many a second.
    fn play(&self, rate: Option<f64>) -> String {
        let mut here = SocketIo::websocket(self.nodes[0].addr, "/", json!({}));
        let mut there = super::member(&self.nodes[1], "room");
        here.ask("join", &[json!("room")]);
        let events: Vec<(&str, Vec<Value>)> = (0..AT_ONCE)
            .map(|n| ("n", vec![json!(n), json!("x".repeat(100))]))
            .collect();
        let before = [0, 1].map(|at| self.nodes[at].cpu());
        let (served, began) = (cpu(self.server), Instant::now());
        let reads = std::thread::spawn(move || {
            for n in 0..PUBLISHES {
                assert_eq!(there.expect("n")[0], n % AT_ONCE);
            }
        });
        for batch in 0..PUBLISHES / AT_ONCE {
            here.emit_all(&events);
            if let Some(rate) = rate {
                let due = Duration::from_secs_f64(((batch + 1) * AT_ONCE) as f64 / rate);
                std::thread::sleep(due.saturating_sub(began.elapsed()));
            }
        }
        reads.join().expect("all came");
        let took = began.elapsed();
        let nodes: Duration = [0, 1]
            .map(|at| self.nodes[at].cpu() - before[at])
            .iter()
            .sum();
        let each = |time: Duration| time.as_secs_f64() * 1e6 / PUBLISHES as f64;
        format!(
            "{}: {:.0} publishes/s, us each: nodes {:.1}, server {:.1}",
            self.name,
            PUBLISHES as f64 / took.as_secs_f64(),
            each(nodes),
            each(cpu(self.server) - served)
        )
    }
}

#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn publishes_over_nats_beside_redis() {
    let _alone = Alone::wait();
    let (redis, nats) = (Redis::start(), Nats::start());
    let sides = [
        side("redis", &redis.url(), redis.pid()),
        side("nats", &nats.url(), nats.pid()),
    ];
    let rounds = std::env::var("FIGURES_ROUNDS");
    let rounds = rounds.map_or(ROUNDS, |rounds| rounds.parse().expect("a number of rounds"));
    for rate in [None, Some(5_000.0)] {
        for round in 0..rounds {
            for side in &sides {
                println!("{rate:?}, round {round}: {}", side.play(rate));
            }
        }
    }
    for node in sides.iter().flat_map(|side| &side.nodes) {
        assert_eq!(node.metric("sockeye_cluster_lost_total"), 0.0);
    }
}
