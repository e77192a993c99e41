//! How often the gateway sleeps for an event that a worker answers: a sleep costs more than the event.

use super::Kitchen;
use super::worker::emit;
use crate::harness::{PATIENCE, SocketIo, eventually};
use backend::proto::command::What as Order;
use serde_json::json;
use std::fs;
use std::time::{Duration, Instant};

const EVENTS: u64 = 200;
/// The event wakes the shard, and so does the worker's answer.
const SLEEPS_MAX: f64 = 2.5;
/// Of a second without events.
const IDLE_MAX: u64 = 40;

/// How often threads of the process gave up their core to wait.
fn sleeps(pid: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("threads");
    let of = |status: String| {
        let mut lines = status.lines();
        let count = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        count.map_or(0, |count| count.trim().parse::<u64>().expect("a number"))
    };
    let statuses = threads.flatten().map(|thread| thread.path().join("status"));
    // A thread may have ended.
    statuses.flat_map(fs::read_to_string).map(of).sum()
}

#[test]
fn an_event_and_its_answer_woke_threads_of_the_gateway_four_times() {
    if std::env::var("WORKERS_FRAMING").is_ok_and(|framing| framing == "grpc") {
        return;
    }
    let kitchen = Kitchen::with_shards(1, &[], "", "");
    let _worker = kitchen.worker("a");
    let mut client = kitchen.client();
    let pid = kitchen.gateway.pid();
    // Ticks and signs of life come whatever happens.
    let idle = (sleeps(pid), Instant::now());
    std::thread::sleep(Duration::from_secs(1));
    let idle = (sleeps(pid) - idle.0) as f64 / idle.1.elapsed().as_secs_f64();
    let (before, began) = (sleeps(pid), Instant::now());
    for n in 1..=EVENTS {
        assert_eq!(client.ask(n, &json!(["echo", n])), json!([n]));
        std::thread::sleep(Duration::from_millis(1));
    }
    let all = (sleeps(pid) - before) as f64 - idle * began.elapsed().as_secs_f64();
    let each = all / EVENTS as f64;
    assert!(each <= SLEEPS_MAX, "{each} sleeps for each event");
}

/// The clock of each backend ticked fifty times a second.
#[test]
fn a_backend_with_nothing_under_way_woke_the_gateway_all_the_time() {
    let kitchen = Kitchen::with_shards(1, &[], "", "");
    let _worker = kitchen.worker("a");
    let mut client = kitchen.client();
    assert_eq!(client.ask(1, &json!(["echo", 1])), json!([1]));
    let pid = kitchen.gateway.pid();
    let sleeps_of_a_second = || {
        let before = sleeps(pid);
        std::thread::sleep(Duration::from_secs(1));
        sleeps(pid) - before
    };
    // Other clocks tick as well, and the worker says each second that it is there.
    assert!(eventually(PATIENCE, || sleeps_of_a_second() <= IDLE_MAX));
}

/// What is too large for a shard's turn is read elsewhere, and the link goes on with nothing lost and nothing out of order.
#[test]
fn large_and_small_commands_keep_their_order() {
    let kitchen = Kitchen::open("");
    let worker = kitchen.worker("a");
    let clients: Vec<SocketIo> = (0..3).map(|_| kitchen.client()).collect();
    let mut sizes = vec![1, 1_000, 100_000, 2, 3 << 20, 3, 70_000, 4, 1 << 20, 5];
    sizes.extend([6; 50]);
    for (n, size) in sizes.iter().enumerate() {
        worker.say(numbered(n, *size));
    }
    for mut client in clients {
        for (n, size) in sizes.iter().enumerate() {
            assert_eq!(client.expect("n"), [json!(n), json!("x".repeat(*size))]);
        }
        assert_eq!(client.ask(1, &json!(["echo", 7])), json!([7]));
    }
}

fn numbered(n: usize, size: usize) -> Order {
    emit(&[], "n", &json!([n, "x".repeat(size)]))
}
