//! Rooms get their first members on a node while Redis, or the node's way to it, is away. From the ack of its join on, a member misses
//! nothing that clients of other nodes publish.

use super::fault::{Fault, Scene};
use crate::harness::{Gateway, Stop};
use client::OpCode;
use client::brief::Plain;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, scope, sleep, spawn};
use std::time::{Duration, Instant};

/// Rooms that each publisher speaks to.
const ROOMS: usize = 10;
/// From one newcomer to the next.
const PAUSE: Duration = Duration::from_millis(500);

/// A client that says one number after the other to each of its rooms, which have no other member at first.
struct Publisher {
    node: usize,
    /// The next number for each room.
    next: Arc<[AtomicU64; ROOMS]>,
    stop: Arc<AtomicBool>,
    done: Arc<AtomicBool>,
    speaks: JoinHandle<()>,
}

fn room(publisher: usize, at: usize) -> String {
    format!("of {publisher}, {at}")
}

impl Publisher {
    fn start(nodes: &[Gateway; 3], node: usize) -> Publisher {
        let mut client = Plain::connect(nodes[node].addr);
        for at in 0..ROOMS {
            client.send(&json!({"type": "join", "room": room(node, at), "id": 1}));
            client.expect_type("ack");
        }
        let next: Arc<[AtomicU64; ROOMS]> = Arc::default();
        let (stop, done) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (numbers, stopped, over) = (Arc::clone(&next), Arc::clone(&stop), Arc::clone(&done));
        let speaks = spawn(move || {
            let mut say = |at: usize, last: bool| {
                // It has a number before it is said: one that a newcomer does not know of yet is said after its ack.
                let n = numbers[at].fetch_add(1, Ordering::SeqCst);
                let payload = json!({"n": n, "last": last, "text": "x".repeat(100)});
                let message =
                    json!({"type": "message", "room": room(node, at), "payload": payload});
                client.send(&message);
                listen(&mut client);
            };
            while !stopped.load(Ordering::SeqCst) {
                (0..ROOMS).for_each(|at| say(at, false));
                sleep(Duration::from_millis(10));
            }
            (0..ROOMS).for_each(|at| say(at, true));
            while !over.load(Ordering::SeqCst) {
                listen(&mut client);
            }
        });
        Publisher {
            node,
            next,
            stop,
            done,
            speaks,
        }
    }
}

/// A publisher must hear no refusal: that would be a message that nobody waits for.
pub fn listen(client: &mut Plain) {
    let Ok(frame) = client.conn.frame_within(Duration::from_millis(1)) else {
        return;
    };
    match frame.opcode {
        OpCode::Ping => client.conn.send_frame(true, OpCode::Pong, frame.payload),
        _ => {
            let said = String::from_utf8_lossy(&frame.payload);
            assert!(!said.contains("\"error\""), "the publisher is told: {said}");
        }
    }
}

/// Joins a room and follows it to its last message. How many messages it missed of those said after its ack.
fn follow(node: &Gateway, publisher: &Publisher, at: usize) -> u64 {
    let mut client = Plain::connect(node.addr);
    client.send(&json!({"type": "join", "room": room(publisher.node, at), "id": 1}));
    let (mut next, mut missed) = (None, 0);
    let mut heard = Instant::now();
    loop {
        // Heartbeats come all the time.
        let left = Duration::from_secs(60).saturating_sub(heard.elapsed());
        let frame = client.conn.frame_within(left);
        let frame = frame.unwrap_or_else(|ended| panic!("{next:?} never came: {ended:?}"));
        match frame.opcode {
            OpCode::Ping => client.conn.send_frame(true, OpCode::Pong, frame.payload),
            OpCode::Text => {
                heard = Instant::now();
                let said: Value = serde_json::from_slice(&frame.payload).expect("JSON");
                match said["type"].as_str() {
                    Some("ack") => {
                        let from = publisher.next[at].load(Ordering::SeqCst);
                        next = Some(next.map_or(from, |next: u64| next.min(from)));
                    }
                    Some("message") => {
                        let n = said["payload"]["n"].as_u64().expect("a number");
                        let Some(due) = next else { continue };
                        // What was said before the ack may come, too.
                        assert!(n >= due || missed == 0, "{n} after {due}");
                        missed += n.saturating_sub(due);
                        next = Some(due.max(n + 1));
                        if said["payload"]["last"] == true {
                            return missed;
                        }
                    }
                    _ => {}
                }
            }
            other => panic!("a member was sent {other:?}: {:?}", frame.payload),
        }
    }
}

fn newcomers_miss_nothing(fault: Fault) {
    newcomers_miss_nothing_in(Scene::set(fault, 0));
}

pub fn newcomers_miss_nothing_in(scene: Scene) {
    let mut scene = scene.with_join_wait("1s");
    let fault = scene.fault();
    let nodes = scene.start_nodes();
    let publishers = [0, 1].map(|node| Publisher::start(&nodes, node));
    let missed = AtomicU64::new(0);
    scope(|threads| {
        let (nodes, publishers, missed) = (&nodes, &publishers, &missed);
        threads.spawn(|| {
            let _stops = publishers.each_ref().map(|one| Stop(&one.stop));
            scene.happen();
        });
        // Some come before it happens, most while it lasts, and some after it.
        for at in 0..ROOMS {
            for publisher in publishers {
                for node in (0..3).filter(|node| *node != publisher.node) {
                    threads.spawn(move || {
                        sleep(PAUSE * at as u32);
                        let count = follow(&nodes[node], publisher, at);
                        eprintln!(
                            "node {node}, room {:?}: {count} missed",
                            room(publisher.node, at)
                        );
                        missed.fetch_add(count, Ordering::SeqCst);
                    });
                }
            }
        }
    });
    for publisher in publishers {
        publisher.done.store(true, Ordering::SeqCst);
        publisher.speaks.join().expect("a publisher");
    }
    let [missed, lost] = [
        missed.into_inner() as f64,
        nodes
            .iter()
            .map(|node| node.metric("sockeye_cluster_lost_total"))
            .sum(),
    ];
    assert_eq!((missed, lost), (0.0, 0.0), "{fault:?}: missed, lost");
    if matches!(fault, Fault::Freeze | Fault::Kill) {
        // The channel that was away may have been one that nobody needed for a join.
        return;
    }
    let unconfirmed = |node: &Gateway| node.metric("sockeye_cluster_joins_unconfirmed_total");
    assert!(
        nodes.iter().map(unconfirmed).sum::<f64>() > 0.0,
        "it lasted"
    );
    let doubts = |node: &Gateway| node.metric("sockeye_cluster_interest_misses_total");
    assert!(
        nodes.iter().map(doubts).sum::<f64>() > 0.0,
        "it was noticed"
    );
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn newcomers_heard_nothing_while_redis_stood_still() {
    newcomers_miss_nothing(Fault::Stand);
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn newcomers_heard_nothing_while_redis_was_dead() {
    newcomers_miss_nothing(Fault::Dead);
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn newcomers_heard_nothing_while_a_master_was_frozen() {
    newcomers_miss_nothing(Fault::Freeze);
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn newcomers_heard_nothing_while_a_master_was_dead() {
    newcomers_miss_nothing(Fault::Kill);
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn newcomers_heard_nothing_while_one_node_was_cut_off() {
    newcomers_miss_nothing(Fault::Cut);
}
