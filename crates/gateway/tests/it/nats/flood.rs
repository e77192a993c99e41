//! More than anybody waits for, out and in: all of it arrives, and the test tells the pace (`--nocapture`).

use super::{HANDED, PRODUCED, Program, STREAM, comes, config, listens, soon};
use crate::harness::{Gateway, all_come};
use serde_json::json;
use servers::Nats;
use std::thread;
use std::time::{Duration, Instant};

const EVENTS: u64 = 96_000;
/// Of each one event is under way at a time, and the last one of each may wait for a minute (`nats.out.time`). With eight of them, events were
/// given up where a round trip took five milliseconds, as on a busy machine.
const CLIENTS: u64 = 32;
const BATCH: u64 = 500;
const COMMANDS: u64 = 50_000;
const REFUSED: &str = "sockeye_nats_events_total{outcome=\"refused\"}";

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

#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn all_of_a_flood_arrives() {
    let nats = Nats::start();
    let program = Program::with_streams(&nats);
    for mode in ["core", "jetstream"] {
        let out = format!(
            "mode = \"{mode}\"\nkey = \"socket\"\nwaiting_max = \"256MiB\"\ntime = \"60s\""
        );
        let node = Gateway::start(&config(&nats.url(), &out, STREAM, ""));
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
        clock.tell(&node, &format!("out, {mode}"), all);
        assert_eq!((node.metric(PRODUCED), node.metric(REFUSED)), (all, 0.0));
    }
    let node = Gateway::start(&config(&nats.url(), "", STREAM, ""));
    listens(&node, &program);
    let before = node.metric(HANDED);
    let clock = Clock::start(&node);
    for _ in 0..COMMANDS {
        let headers = [("X-Operator", "user"), ("X-Uid", "nobody")];
        program.publish(
            "commands",
            &headers,
            &format!("[\"say\",\"{}\"]", "x".repeat(110)),
        );
    }
    program.flush();
    all_come("read", before + COMMANDS as f64, || node.metric(HANDED));
    clock.tell(&node, "in, stream", COMMANDS as f64);
    soon("nothing waits", || node.metric("sockeye_nats_lag") == 0.0);
}

/// Commands that no stream keeps come faster than they are carried out: what has no room is counted, and the rest goes on.
#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn a_flood_without_a_stream_is_carried_out_or_counted() {
    let nats = Nats::start();
    let program = Program::new(&nats);
    let node = Gateway::start(&config(&nats.url(), "", "", ""));
    listens(&node, &program);
    let before = node.metric(HANDED);
    let headers = [("X-Operator", "user"), ("X-Uid", "nobody")];
    for _ in 0..COMMANDS {
        program.publish("commands", &headers, "[\"say\"]");
    }
    program.flush();
    let lost = "sockeye_nats_commands_total{outcome=\"lost\"}";
    let all = || node.metric(HANDED) - before + node.metric(lost);
    all_come("counted", COMMANDS as f64, all);
    eprintln!(
        "{} of {COMMANDS} commands of core NATS were lost",
        node.metric(lost)
    );
    let mut client = comes(&node, "");
    program.say(&[("X-Operator", "broadcast")], "[\"behind\"]");
    client.next_named("behind");
}
