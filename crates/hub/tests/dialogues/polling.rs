//! Polling sessions and the HTTP connections that serve them, one after another.

use crate::identity::{frame, received, websocket};
use crate::rig::{Rig, handler, lab_rules};
use hub::config::{Config, Cors};
use std::time::Duration;

const SIO: &str = "/socket.io/?EIO=4&transport=websocket";

fn lab() -> Rig {
    Rig::lab(Config::default(), 1)
}

fn request(line: &str, headers: &str, body: &str) -> Vec<u8> {
    format!("{line} HTTP/1.1\r\nHost: x\r\n{headers}\r\n{body}").into_bytes()
}

fn get(sid: &str, headers: &str) -> Vec<u8> {
    let line = format!("GET /socket.io/?EIO=4&transport=polling&sid={sid}");
    request(&line, headers, "")
}

fn post(sid: &str, body: &str) -> Vec<u8> {
    let line = format!("POST /socket.io/?EIO=4&transport=polling&sid={sid}");
    let headers = format!("Content-Length: {}\r\n", body.len());
    request(&line, &headers, body)
}

fn text(rig: &mut Rig, name: usize) -> String {
    String::from_utf8(rig.take(name)).expect("text")
}

/// Opens a session; its id.
fn opened(rig: &mut Rig, name: usize) -> String {
    let line = "GET /socket.io/?EIO=4&transport=polling";
    rig.send(name, &request(line, "", ""));
    let answer = text(rig, name);
    let at = answer.find("\"sid\":\"").expect("an open packet") + 7;
    answer[at..at + 20].to_owned()
}

/// A session that has joined and has fetched what it was told.
fn joined(rig: &mut Rig, name: usize) -> String {
    let sid = opened(rig, name);
    rig.send(name, &post(&sid, "40"));
    rig.send(name, &get(&sid, ""));
    assert!(text(rig, name).contains("40{\"sid\""));
    sid
}

/// Behind a reverse proxy, or in a browser's pool, the connection that said goodbye is the next session's.
#[test]
fn the_connection_that_brought_the_close_packet_serves_the_next_session() {
    let mut rig = lab();
    let pooled = rig.open();
    let sid = joined(&mut rig, pooled);
    rig.send(pooled, &post(&sid, "41\u{1e}1"));
    let answer = text(&mut rig, pooled);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(!answer.contains("onnection: close"), "{answer}");
    let next = joined(&mut rig, pooled);
    rig.send(pooled, &get(&next, ""));
    rig.log.clear();
    rig.pass(Duration::from_secs(10));
    assert!(rig.conn(pooled).is_some(), "{:?}", rig.log);
    assert!(rig.log.is_empty(), "{:?}", rig.log);
}

#[test]
fn the_answer_to_the_close_packet_may_be_read_across_origins() {
    let config = Config {
        cors: Cors::Any,
        ..Config::default()
    };
    let mut rig = Rig::lab(config, 1);
    let client = rig.open();
    let sid = joined(&mut rig, client);
    rig.send(client, &post(&sid, "1"));
    let answer = text(&mut rig, client);
    assert!(
        answer.contains("Access-Control-Allow-Origin: *"),
        "{answer}"
    );
}

#[test]
fn an_upgraded_session_outlives_the_connection_of_its_last_poll() {
    for polls_again in [true, false] {
        let mut rig = lab();
        let [first, second] = [rig.open(), rig.open()];
        let sid = opened(&mut rig, first);
        rig.send(first, &post(&sid, "40"));
        rig.send(first, &get(&sid, ""));
        assert!(text(&mut rig, first).contains("40{\"sid\""));
        if polls_again {
            rig.send(second, &get(&sid, ""));
        }
        let socket = websocket(&mut rig, &format!("{SIO}&sid={sid}"), "");
        rig.send(socket, &frame("2probe"));
        rig.send(socket, &frame("5"));
        rig.log.clear();
        rig.break_off(first);
        assert!(rig.log.is_empty(), "{:?}", rig.log);
        received(&mut rig, socket);
        rig.send(socket, &frame("421[\"echo\",7]"));
        assert_eq!(received(&mut rig, socket), ["431[7]"]);
    }
}

/// More waited for it than it may have, so that its session had ended. It polls no more, and by its WebSocket nothing came for half a minute.
#[test]
fn a_slow_client_that_went_over_to_a_websocket_was_told_nothing() {
    let mut config = Config::default();
    config.limits.outbox_bytes_max = 64 * 1024;
    let mut rig = Rig::lab(config, 1);
    let client = rig.open();
    let sid = joined(&mut rig, client);
    let socket = websocket(&mut rig, &format!("{SIO}&sid={sid}"), "");
    rig.send(socket, &frame("2probe"));
    assert_eq!(received(&mut rig, socket), ["3probe"]);
    let long = "x".repeat(10_000);
    for number in 0..10 {
        let event = format!("42{number}[\"echo\",\"{long}\"]");
        rig.send(client, &post(&sid, &event));
    }
    rig.send(socket, &frame("5"));
    assert_eq!(received(&mut rig, socket), ["close"]);
}

/// What JavaScript's clients emit in one tick they post in one body.
#[test]
fn a_long_body_is_taken_in_with_breaks() {
    for chunked in [false, true] {
        let mut rig = lab();
        let [client, other] = [rig.open(), rig.open()];
        let sid = joined(&mut rig, client);
        let packets: Vec<String> = (0..3_000).map(|n| format!("42{n}[\"e\",{n}]")).collect();
        let body = packets.join("\u{1e}");
        let posted = match chunked {
            false => post(&sid, &body),
            true => request(
                &format!("POST /socket.io/?EIO=4&transport=polling&sid={sid}"),
                "Transfer-Encoding: chunked\r\n",
                &format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()),
            ),
        };
        // Another request behind it must find its turn behind it.
        rig.bytes(
            client,
            &[posted, get(&sid, "User-Agent: Mozilla/5.0\r\n")].concat(),
        );
        assert!(rig.hub.has_stalled(), "all in one go");
        joined(&mut rig, other);
        rig.finish_turn();
        let answers = text(&mut rig, client);
        assert!(answers.starts_with("HTTP/1.1 200"), "{}", &answers[..200]);
        let acks = answers
            .split('\u{1e}')
            .filter(|packet| packet.contains("["))
            .count();
        assert_eq!(acks, 3_000, "chunked: {chunked}");
    }
}

#[test]
fn only_clients_that_may_be_python_hear_sixteen_packets_at_a_time() {
    for (headers, expected) in [
        ("", 16),
        ("User-Agent: python-requests/2.31\r\n", 16),
        ("User-Agent: Mozilla/5.0 (X11)\r\n", 40),
        ("User-Agent: node-XMLHttpRequest\r\n", 40),
    ] {
        let mut rig = lab();
        let client = rig.open();
        let sid = joined(&mut rig, client);
        let packets: Vec<String> = (0..40).map(|n| format!("42{n}[\"e\"]")).collect();
        rig.send(client, &post(&sid, &packets.join("\u{1e}")));
        rig.take(client);
        rig.send(client, &get(&sid, headers));
        let answer = text(&mut rig, client);
        assert_eq!(answer.split('\u{1e}').count(), expected, "{headers}");
    }
}

/// Ack callbacks of JavaScript's client answer whether their socket is connected or not.
#[test]
fn who_answers_from_a_namespace_it_has_left_keeps_the_others() {
    let mut rig = lab();
    let client = websocket(&mut rig, SIO, "");
    rig.send(client, &frame("40"));
    rig.send(client, &frame("40/lab,"));
    rig.send(client, &frame("41/lab,"));
    received(&mut rig, client);
    rig.send(client, &frame("43/lab,0[\"late\"]"));
    rig.send(client, &frame("421[\"echo\",7]"));
    assert_eq!(received(&mut rig, client), ["431[7]"]);
}

/// `ws` and browsers break off a handshake that chooses none of the subprotocols they offer.
#[test]
fn the_first_subprotocol_offered_is_chosen() {
    let mut rig = lab();
    for (offer, chosen) in [("chat, other", "chat"), ("a.b-c", "a.b-c")] {
        let client = rig.open();
        let headers = format!(
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: {offer}\r\n"
        );
        rig.send(client, &request(&format!("GET {SIO}"), &headers, ""));
        let answer = String::from_utf8_lossy(&rig.take(client)).into_owned();
        assert!(answer.starts_with("HTTP/1.1 101"), "{answer}");
        let line = format!("Sec-WebSocket-Protocol: {chosen}\r\n");
        assert!(answer.contains(&line), "{answer}");
    }
}

#[test]
fn a_crowd_does_not_shorten_the_time_of_who_comes_next() {
    let mut config = Config::default();
    config.limits.conns_per_address_max = 1;
    let mut rig = Rig::new(config, handler(&lab_rules()), 1);
    for crowd in 0.. {
        assert!(crowd < 1_000, "nobody was turned away");
        let newcomer = rig.open();
        if rig.conn(newcomer).is_none() {
            break;
        }
    }
    rig.pass(Duration::from_millis(9_900));
    let next = rig.open_from([192, 0, 2, 7]);
    rig.send(next, b"GET /socket.io/?EIO=4");
    rig.pass(Duration::from_millis(150));
    assert_eq!(text(&mut rig, next), "");
}

/// Many clients whose queues are full poll in one turn: their answers take several turns, each within its share.
#[test]
fn one_flush_answered_any_number_of_polls() {
    const POLLERS: usize = 32;
    const SHARE: usize = 8 * 1024 * 1024;
    let mut rig = lab();
    rig.checks = false;
    let pollers: Vec<(usize, String)> = (0..POLLERS)
        .map(|_| {
            let name = rig.open();
            (name, joined(&mut rig, name))
        })
        .collect();
    let speaker = websocket(&mut rig, SIO, "");
    rig.send(speaker, &frame("40"));
    let event = frame(&format!("42[\"shout\",\"{}\"]", "x".repeat(60_000)));
    for _ in 0..15 {
        rig.send(speaker, &event);
        rig.take(speaker);
    }
    for (name, sid) in &pollers {
        rig.bytes(*name, &get(sid, "User-Agent: Mozilla/5.0\r\n"));
    }
    let answered = |rig: &Rig| -> usize {
        let links = pollers.iter().map(|(name, _)| &rig.wires.links[*name]);
        links.map(|link| link.out.len()).sum()
    };
    let (mut turns, mut before) = (0, 0);
    while answered(&rig) < POLLERS * 15 * 60_000 {
        rig.end_turn();
        let now = answered(&rig);
        assert!(now > before, "turn {turns} answered nobody");
        assert!(
            now - before < SHARE,
            "turn {turns} wrote {} bytes",
            now - before
        );
        let more = now < POLLERS * 15 * 60_000;
        assert!(!more || rig.hub.has_stalled(), "nobody answers the others");
        (turns, before) = (turns + 1, now);
    }
    rig.hub.check_invariants();
    assert!(turns > 1);
}

/// A client that polls no more holds as much memory as a WebSocket that does not read.
#[test]
fn short_memory_never_shed_who_polls() {
    let mut rig = lab();
    let (silent, lively) = (rig.open(), rig.open());
    joined(&mut rig, silent);
    let sid = joined(&mut rig, lively);
    let speaker = websocket(&mut rig, SIO, "");
    rig.send(speaker, &frame("40"));
    let event = frame(&format!("42[\"shout\",\"{}\"]", "x".repeat(60_000)));
    for _ in 0..2 {
        rig.send(speaker, &event);
        rig.send(lively, &get(&sid, ""));
        rig.take(lively);
    }
    rig.log.clear();
    rig.process.pressure.set_memory_percent(99);
    rig.pass(Duration::from_millis(300));
    assert_eq!(rig.log, ["disconnected out_of_memory"]);
}
