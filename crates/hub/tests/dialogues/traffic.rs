//! Rates for all messages, bounds per address, and doors that close when there is too much to do.

use crate::identity::{frame, received, websocket};
use crate::rig::Rig;
use hub::config::{Config, Rate, Rates};
use std::time::Duration;

const SIO: &str = "/socket.io/?EIO=4&transport=websocket";

fn per_second(events: u32) -> Option<Rate> {
    Some(Rate::new(events, Duration::from_secs(1)))
}

pub fn joined(rig: &mut Rig) -> usize {
    let client = websocket(rig, SIO, "");
    rig.send(client, &frame("40"));
    rig.take(client);
    client
}

#[test]
fn a_session_is_held_to_its_rate_and_told() {
    let mut rig = Rig::lab(
        Config {
            rates: Rates {
                session: per_second(3),
                ..Rates::default()
            },
            ..Config::default()
        },
        1,
    );
    // Joining the namespace counts.
    let client = joined(&mut rig);
    for _ in 0..4 {
        rig.bytes(client, &frame("421[\"echo\"]"));
    }
    rig.finish_turn();
    let told = "42[\"error\",{\"message\":\"Rate limit exceeded: 3 messages/second\"}]";
    let answered = "431[{\"error\":\"Rate limit exceeded: 3 messages/second\"}]";
    assert_eq!(
        received(&mut rig, client),
        ["431[]", "431[]", told, answered, told, answered],
        "the event and, where one is waited for, the answer"
    );
    rig.pass(Duration::from_secs(1));
    rig.send(client, &frame("421[\"echo\"]"));
    assert_eq!(received(&mut rig, client), ["431[]"]);
    let plain = websocket(&mut rig, "/ws", "");
    for _ in 0..4 {
        rig.bytes(plain, &frame("{\"type\":\"echo\",\"payload\":1}"));
    }
    rig.finish_turn();
    let texts = received(&mut rig, plain);
    assert_eq!(texts.len(), 4, "{texts:?}");
    assert!(
        texts[3].starts_with("{\"type\":\"error\",\"error\":\"RATE_LIMIT_EXCEEDED\""),
        "{texts:?}"
    );
    assert!(texts[3].ends_with(",\"retryAfter\":1}"), "{texts:?}");
    rig.bytes(plain, &frame("{\"type\":\"echo\",\"payload\":1,\"id\":7}"));
    rig.finish_turn();
    let texts = received(&mut rig, plain);
    assert!(
        texts[1].contains("\"id\":7") && texts[1].contains("Rate limit exceeded"),
        "{texts:?}"
    );
}

#[test]
fn a_flood_ends_and_a_dry_run_only_counts() {
    for dry_run in [false, true] {
        let mut config = Config {
            rates: Rates {
                session: per_second(5),
                dry_run,
                ..Rates::default()
            },
            ..Config::default()
        };
        config.limits.flood_rejections_max = 50;
        let mut rig = Rig::lab(config, 1);
        let client = joined(&mut rig);
        for _ in 0..60 {
            rig.send(client, &frame("421[\"echo\"]"));
        }
        let texts = received(&mut rig, client);
        if dry_run {
            assert_eq!(texts.len(), 60);
        } else {
            assert_eq!(
                texts.last().map(String::as_str),
                Some("close 1008 Rate limit exceeded")
            );
            // Each rejection is an event and an answer.
            assert_eq!(texts.len(), 4 + 2 * (50 + 1) + 1, "{texts:?}");
            assert_eq!(rig.log, ["connected socket.io", "disconnected flood"]);
        }
    }
}

/// The rate of one event counts as much as the rate of all messages.
#[test]
fn a_flood_of_one_event_ends_too() {
    for session in [None, per_second(1_000)] {
        one_event_floods(session);
    }
}

fn one_event_floods(session: Option<Rate>) {
    let mut config = Config {
        rates: Rates {
            session,
            ..Rates::default()
        },
        ..Config::default()
    };
    config.limits.flood_rejections_max = 20;
    let mut rig = Rig::lab(config, 1);
    let (patient, flooder) = (joined(&mut rig), joined(&mut rig));
    for _ in 0..30 {
        // A few too many each second, and as many within the rate.
        rig.send(patient, &frame("42[\"few\"]").repeat(4));
        rig.pass(Duration::from_secs(1));
        let texts = received(&mut rig, patient);
        assert!(
            !texts.iter().any(|text| text.starts_with("close")),
            "{texts:?}"
        );
    }
    rig.send(flooder, &frame("42[\"few\"]").repeat(30));
    assert_eq!(
        received(&mut rig, flooder).last().map(String::as_str),
        Some("close 1008 Rate limit exceeded")
    );
}

/// Attack A16: one read may bring thousands of messages to be rejected; others do not wait for all of them.
#[test]
fn a_flood_is_rejected_in_parts() {
    let mut config = Config {
        rates: Rates {
            session: per_second(5),
            ..Rates::default()
        },
        ..Config::default()
    };
    config.limits.flood_rejections_max = 150;
    config.limits.rejections_per_turn = 40;
    let mut rig = Rig::lab(config, 1);
    let (flooder, other) = (joined(&mut rig), joined(&mut rig));
    let burst = frame("421[\"echo\"]").repeat(1_000);
    rig.bytes(flooder, &burst);
    assert!(rig.hub.has_stalled());
    for _ in 0..2 {
        rig.turn(|turn| turn.resume());
        assert!(rig.hub.has_stalled(), "forty more, and no end yet");
    }
    rig.bytes(other, &frame("421[\"echo\"]"));
    rig.finish_turn();
    assert_eq!(received(&mut rig, other), ["431[]"]);
    assert!(!rig.hub.has_stalled());
    let texts = received(&mut rig, flooder);
    // Each rejection is an event and an answer.
    assert_eq!(
        texts.len(),
        4 + 2 * (150 + 1) + 1,
        "nothing is lost on the way"
    );
    assert_eq!(
        texts.last().map(String::as_str),
        Some("close 1008 Rate limit exceeded")
    );
    let conn = rig.conn(flooder).expect("it has not answered the close");
    rig.bytes(flooder, &burst);
    assert!(rig.hub.is_ignored(conn), "the rest stays in the kernel");
}

#[test]
fn an_address_is_one_sender_however_many_connections_it_has() {
    let rates = Rates {
        address: per_second(10),
        connects: per_second(4),
        ..Rates::default()
    };
    let mut rig = Rig::lab(
        Config {
            rates,
            ..Config::default()
        },
        1,
    );
    let clients: Vec<_> = (0..4).map(|_| joined(&mut rig)).collect();
    for client in &clients {
        (0..5).for_each(|_| rig.bytes(*client, &frame("421[\"echo\"]")));
    }
    rig.finish_turn();
    let answers: usize = clients
        .iter()
        .map(|name| {
            received(&mut rig, *name)
                .iter()
                .filter(|text| *text == "431[]")
                .count()
        })
        .sum();
    // Four of the ten were namespaces joined.
    assert_eq!(answers, 6);
    let late = websocket(&mut rig, SIO, "");
    let answer = String::from_utf8_lossy(&rig.take(late)).into_owned();
    assert!(answer.starts_with("HTTP/1.1 429 "), "{answer}");
    assert!(answer.contains("Retry-After: 1\r\n"), "{answer}");
}

#[test]
fn an_address_has_so_many_connections_and_no_more() {
    let mut config = Config::default();
    config.limits.conns_per_address_max = 3;
    let mut rig = Rig::lab(config, 1);
    let clients: Vec<_> = (0..3).map(|_| joined(&mut rig)).collect();
    let fourth = websocket(&mut rig, SIO, "");
    assert_eq!(
        received(&mut rig, fourth),
        ["close 1008 Connection limit exceeded"]
    );
    let polling = rig.open();
    rig.send(
        polling,
        b"GET /socket.io/?EIO=4&transport=polling HTTP/1.1\r\nHost: x\r\n\r\n",
    );
    let answer = String::from_utf8_lossy(&rig.take(polling)).into_owned();
    assert!(answer.starts_with("HTTP/1.1 429 "), "{answer}");
    rig.end(fourth);
    rig.end(polling);
    rig.break_off(clients[0]);
    let next = joined(&mut rig);
    rig.send(next, &frame("421[\"echo\"]"));
    assert_eq!(received(&mut rig, next), ["431[]"]);
    // A crowd that says nothing is not even kept waiting.
    let silent: Vec<_> = (0..40).map(|_| rig.open()).collect();
    rig.finish_turn();
    let kept = silent
        .iter()
        .filter(|name| rig.conn(**name).is_some())
        .count();
    assert_eq!(kept, 3 * 2 + 16 - 3);
}

#[test]
fn newcomers_wait_while_turns_are_long() {
    let mut rig = Rig::lab(Config::default(), 1);
    let client = joined(&mut rig);
    rig.turns_take_us = 2_000_000;
    (0..10).for_each(|_| rig.finish_turn());
    let late = websocket(&mut rig, SIO, "");
    let answer = String::from_utf8_lossy(&rig.take(late)).into_owned();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("Retry-After: "), "{answer}");
    rig.send(client, &frame("421[\"echo\"]"));
    assert_eq!(received(&mut rig, client), ["431[]"]);
    rig.turns_take_us = 100;
    (0..40).for_each(|_| rig.finish_turn());
    let later = joined(&mut rig);
    rig.send(later, &frame("421[\"echo\"]"));
    assert_eq!(received(&mut rig, later), ["431[]"]);
}

#[test]
fn who_leaves_hears_when_to_come_back_and_who_comes_early_too() {
    let mut rig = Rig::lab(Config::default(), 1);
    let [plain, socketio] = [websocket(&mut rig, "/ws", ""), joined(&mut rig)];
    rig.take(plain);
    rig.turn(|turn| turn.drain(5_000, 1_000, false));
    rig.finish_turn();
    let notice = received(&mut rig, plain).join(" ");
    assert!(
        notice.starts_with("{\"type\":\"SERVER_SHUTDOWN\",\"message\":"),
        "{notice}"
    );
    assert!(notice.contains("\"retry_after_ms\":"), "{notice}");
    let notice = received(&mut rig, socketio).join(" ");
    assert!(
        notice.starts_with("42[\"SERVER_SHUTDOWN\",{\"message\":"),
        "{notice}"
    );
    let early = websocket(&mut rig, SIO, "");
    let answer = String::from_utf8_lossy(&rig.take(early)).into_owned();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    let at = answer.find("Retry-After: ").expect("a hint") + 13;
    let seconds: u64 = answer[at..]
        .split("\r\n")
        .next()
        .expect("a line")
        .parse()
        .expect("a number");
    assert!((5..=10).contains(&seconds), "{seconds}");
    rig.pass(Duration::from_secs(6));
    assert!(rig.wires.links[plain].ended && rig.wires.links[socketio].ended);
    assert!(rig.hub.has_let_go());
}

#[test]
fn a_drain_in_a_hurry_takes_the_place_of_one_that_is_under_way() {
    let mut rig = Rig::lab(Config::default(), 1);
    let client = joined(&mut rig);
    rig.turn(|turn| turn.drain(60_000, 60_000, false));
    rig.finish_turn();
    rig.pass(Duration::from_secs(1));
    assert!(!rig.wires.links[client].ended);
    rig.turn(|turn| turn.drain(30_000, 0, false));
    rig.pass(Duration::from_secs(1));
    assert!(!rig.wires.links[client].ended, "a second one of its kind");
    rig.turn(|turn| turn.drain(0, 0, false));
    rig.pass(Duration::from_millis(100));
    assert!(rig.wires.links[client].ended);
    let told = String::from_utf8_lossy(&rig.take(client)).into_owned();
    assert_eq!(told.matches("SERVER_SHUTDOWN").count(), 1, "{told}");
    assert!(rig.hub.has_let_go());
}

/// All others had left, which is said once. The order that came behind it waited for that for ever.
#[test]
fn a_drain_in_a_hurry_waited_for_others_that_had_left() {
    let mut rig = Rig::lab(Config::default(), 1);
    rig.turn(|turn| {
        turn.drain(60_000, 60_000, true);
        turn.others_have_left();
        turn.drain(0, 0, true);
    });
    rig.pass(Duration::from_millis(100));
    assert!(rig.hub.has_let_go());
}
