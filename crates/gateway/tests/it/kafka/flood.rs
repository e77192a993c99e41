//! More than anybody waits for, out and in: all of it arrives, and the test tells the pace (`--nocapture`).

use super::{Program, broker, comes, config};
use crate::harness::{Gateway, all_come};
use serde_json::json;
use std::thread;
use std::time::{Duration, Instant};

const EVENTS: u64 = 200_000;
const CLIENTS: u64 = 8;
const BATCH: u64 = 500;
const COMMANDS: u64 = 100_000;
const PRODUCED: &str = "sockeye_kafka_events_total{outcome=\"produced\"}";
const REFUSED: &str = "sockeye_kafka_events_total{outcome=\"refused\"}";
const HANDED: &str = "sockeye_kafka_commands_total{outcome=\"handed\"}";

/// Since a moment of the gateway's life.
struct Clock(Instant, Duration);

impl Clock {
    fn start(node: &Gateway) -> Self {
        Self(Instant::now(), node.cpu())
    }

    fn tell(&self, node: &Gateway, what: &str, count: f64) {
        let pace = count / self.0.elapsed().as_secs_f64();
        let each = (node.cpu() - self.1).as_secs_f64() * 1e6 / count;
        eprintln!("{what}: {pace:.0}/s, {each:.1} µs of the gateway each");
    }
}

fn command(program: &Program, n: u64) {
    let headers = [("X-Operator", "user"), ("X-Uid", "nobody")];
    let value = format!("[\"say\",\"{}\"]", "x".repeat(110));
    program.write((n % 4) as i32, &headers, &value);
}

#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn all_of_a_flood_arrives() {
    let kafka = broker(4);
    let out = "key = \"socket\"\nwaiting_max = \"256MiB\"";
    let node = Gateway::start(&config(&kafka.brokers(), out, ""));
    let clock = Clock::start(&node);
    let body = json!("x".repeat(110));
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = comes(&node, "");
                let event = || ("order", vec![body.clone()]);
                let batch: Vec<_> = (0..BATCH).map(|_| event()).collect();
                for _ in 0..EVENTS / CLIENTS / BATCH {
                    client.emit_all(&batch);
                }
                // It is heard behind them.
                assert!(client.ask("order", &[json!("last")]).is_empty());
            });
        }
    });
    let all = (EVENTS + CLIENTS) as f64;
    all_come("written", all, || node.metric(PRODUCED));
    clock.tell(&node, "out", all);
    assert_eq!((node.metric(PRODUCED), node.metric(REFUSED)), (all, 0.0));
    let program = Program::new(&kafka);
    let mut written = 0;
    while written < COMMANDS {
        (written..written + 10_000).for_each(|n| command(&program, n));
        program.flush();
        written += 10_000;
    }
    // What is read while nobody writes.
    let (clock, before) = (Clock::start(&node), node.metric(HANDED));
    all_come("read", written as f64, || node.metric(HANDED));
    clock.tell(&node, "in", written as f64 - before);
    assert_eq!(node.metric(HANDED), written as f64);
}
