//! What was missed comes soon and in order, at a pace that members can read, and what only comes late is not asked for.

use super::fault::{Fault, Scene};
use super::newcomers::listen;
use crate::harness::{Alone, Gateway, PATIENCE, Stop, eventually};
use client::OpCode;
use client::brief::Plain;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

fn member(node: &Gateway, rooms: &[&str]) -> Plain {
    let mut client = Plain::connect(node.addr);
    for room in rooms {
        client.send(&json!({"type": "join", "room": room, "id": 1}));
        client.expect_type("ack");
    }
    client
}

/// A speaker that was held up for longer makes up for no more.
const BEHIND_MAX: Duration = Duration::from_millis(50);

/// How many numbers were said, and whether to stop.
#[derive(Default)]
struct Speech {
    said: AtomicU64,
    stop: AtomicBool,
}

/// Says so many numbers a second to the rooms in turn, until it is to stop; the last one says so.
fn speak(client: &mut Plain, rooms: &[&str], bytes: usize, per_second: u32, speech: &Speech) {
    let (mut n, mut due) = (0_u64, Instant::now());
    let mut is_last = false;
    while !is_last {
        is_last = speech.stop.load(Ordering::SeqCst);
        for room in rooms {
            let payload = json!({"n": n, "last": is_last, "text": "x".repeat(bytes)});
            client.send(&json!({"type": "message", "room": room, "payload": payload}));
        }
        n += 1;
        speech.said.store(n, Ordering::SeqCst);
        due += Duration::from_secs(1) * rooms.len() as u32 / per_second;
        // Else the numbers of a stall would come in one burst, which is as much as may wait for a member.
        if due.elapsed() > BEHIND_MAX {
            due = Instant::now();
        }
        while Instant::now() < due {
            listen(client);
        }
    }
}

/// A message to a member. The filling at its end is not parsed: on a busy machine that takes longer than its node takes to send it.
fn without_filling(payload: &[u8]) -> Value {
    let text = std::str::from_utf8(payload).expect("UTF-8");
    let head = text.split_once(",\"text\":").map(|(head, _)| head);
    let text = head.map_or_else(|| text.to_owned(), |head| format!("{head}}}}}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Reads one number after the other, to the last.
fn follow(mut client: Plain) {
    let mut next = 0;
    loop {
        let frame = client.conn.frame_within(PATIENCE);
        let frame = frame.unwrap_or_else(|ended| panic!("{next} never came: {ended:?}"));
        match frame.opcode {
            OpCode::Ping => client.conn.send_frame(true, OpCode::Pong, frame.payload),
            OpCode::Text => {
                let said = without_filling(&frame.payload);
                if said["type"] == "message" {
                    assert_eq!(said["payload"]["n"], next, "in order, once");
                    next += 1;
                    if said["payload"]["last"] == true {
                        return;
                    }
                }
            }
            other => panic!(
                "a member was sent {other:?} after {next}: {:?}",
                frame.payload
            ),
        }
    }
}

/// A node stood still for eight seconds. All that it had missed came to its members at once, and ended those that read as fast as usual.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn members_of_a_node_that_stood_still_were_ended_as_slow() {
    // More than Redis keeps for a subscriber that does not read: all of it is repaired.
    const MISSED: u64 = 8 * 1_500;
    let _alone = Alone::wait();
    let scene = Scene::set(Fault::Cut, 0).with_outbox("1MiB");
    let nodes = scene.start_nodes();
    let members: Vec<Plain> = (0..3).map(|_| member(&nodes[1], &["room"])).collect();
    let mut speaker = member(&nodes[0], &["room"]);
    let speech = Speech::default();
    scope(|threads| {
        let _stop = Stop(&speech.stop);
        for member in members {
            threads.spawn(move || follow(member));
        }
        threads.spawn(|| {
            speak(&mut speaker, &["room"], 3_000, 1_500, &speech);
            sleep(Duration::from_secs(1));
        });
        sleep(Duration::from_secs(3));
        nodes[1].freeze();
        let said = || speech.said.load(Ordering::SeqCst);
        let before = said();
        let is_missed = eventually(PATIENCE, || said() - before >= MISSED);
        assert!(is_missed, "{} were said of {MISSED}", said() - before);
        nodes[1].signal(Signal::CONT);
        sleep(Duration::from_secs(6));
        speech.stop.store(true, Ordering::SeqCst);
    });
    assert_eq!(nodes[1].metric("sockeye_cluster_lost_total"), 0.0);
}

/// Channels on different masters of a healthy cluster overtake each other, and each time the letters on their way were asked for.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn letters_were_asked_for_that_nobody_had_lost() {
    const ROOMS: [&str; 3] = ["first", "second", "wide"];
    let _alone = Alone::wait();
    let scene = Scene::set(Fault::Failover, 0);
    let nodes = scene.start_nodes();
    // The alerts look at gaps and repairs.
    let questions = || -> f64 {
        let asked = |node: &Gateway| -> f64 {
            let metrics = [
                "sockeye_cluster_questions_total{way=\"asked\"}",
                "sockeye_cluster_gaps_total",
                "sockeye_cluster_repairs_total",
            ];
            metrics.iter().map(|name| node.metric(name)).sum()
        };
        nodes.iter().map(asked).sum()
    };
    for per_second in [300, 1_000] {
        let speech = Speech::default();
        // By the second and third node's inboxes, and by the channel of all.
        let members = [
            member(&nodes[1], &["first", "wide"]),
            member(&nodes[2], &["second", "wide"]),
        ];
        let mut speaker = member(&nodes[0], &ROOMS);
        let (quiet, asked) = scope(|threads| {
            let _stop = Stop(&speech.stop);
            for mut member in members {
                let stop = &speech.stop;
                threads.spawn(move || {
                    while !stop.load(Ordering::SeqCst) {
                        listen(&mut member);
                    }
                });
            }
            threads.spawn(|| speak(&mut speaker, &ROOMS, 100, per_second, &speech));
            sleep(Duration::from_secs(2));
            let (began, first) = (Instant::now(), questions());
            // On a busy machine a letter may be late for longer once in a while, but not each time.
            let quiet = eventually(PATIENCE, || {
                let before = questions();
                (0..3).for_each(|_| scene.hiccup());
                sleep(Duration::from_millis(500));
                questions() == before
            });
            let speed = (questions() - first) / began.elapsed().as_secs_f64();
            speech.stop.store(true, Ordering::SeqCst);
            (quiet, speed)
        });
        eprintln!("{per_second} messages a second: {asked:.2} questions a second");
        assert!(quiet, "{per_second}: {asked} questions a second");
    }
}
