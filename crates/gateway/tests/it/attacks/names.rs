//! What clients choose freely: ids they guess, rooms, event names, keys and text.

use super::{SOON, assert_serves, gateway};
use crate::harness::client::{SOCKETIO, poll_request};
use crate::harness::raw::upgrade_request;
use crate::harness::{Alone, Gateway, Plain, Poller, RawConn, SocketIo};
use fastrand::Rng;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

/// Attack A04: ids do not repeat, and neighbours of an id are nobody's.
#[test]
fn session_ids_cannot_be_guessed_from_others() {
    let gateway = gateway();
    let sids: Vec<String> = (0..200).map(|_| Poller::open(gateway.addr).sid).collect();
    assert_eq!(sids.iter().collect::<HashSet<_>>().len(), sids.len());
    // Ids of one gateway share the bits that name it, and no others: the beginnings all differ.
    let beginnings: HashSet<&str> = sids.iter().map(|sid| &sid[..8]).collect();
    assert_eq!(beginnings.len(), sids.len());
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut random = Rng::with_seed(0xa04);
    for sid in &sids {
        let mut guess = sid.clone().into_bytes();
        let at = random.usize(..20);
        let other = alphabet
            .iter()
            .find(|letter| **letter != guess[at])
            .expect("a letter");
        guess[at] = *other;
        let guess = String::from_utf8(guess).expect("ASCII");
        let answer = RawConn::exchange(gateway.addr, poll_request(&guess));
        assert_eq!(
            answer.status, 400,
            "{guess} guessed from {}: {answer:?}",
            sid
        );
    }
    assert_serves(gateway.addr);
}

/// Attack A07: names that are too long, empty or odd.
#[test]
fn room_names_are_bounded_and_mean_nothing() {
    let gateway = gateway();
    let mut client = SocketIo::connect(gateway.addr);
    for name in ["a".repeat(900_000), "a".repeat(257), "a\0b".to_owned()] {
        let answer = client.ask(1, &json!(["join", name]));
        assert_eq!(answer, json!([{"error": "Invalid room name"}]));
    }
    for name in [json!(1), json!(null), json!({"a": 1}), json!(["x"])] {
        let answer = client.ask(2, &json!(["join", name]));
        assert_eq!(answer, json!([{"error": "Room must be a string"}]));
    }
    // Patterns are names: whoever joins one hears nothing of the rooms it would match.
    let mut spies: Vec<SocketIo> = Vec::new();
    for name in [
        "*", "?ecret", "[s]ecret", "s*", "secret/", "SECRET", "secret ",
    ] {
        let mut spy = SocketIo::connect(gateway.addr);
        spy.ask(3, &json!(["join", name]));
        spies.push(spy);
    }
    let mut member = Plain::join(gateway.addr, "secret");
    let mut speaker = Plain::join(gateway.addr, "secret");
    speaker.send(&json!({"type": "message", "room": "secret", "payload": "hush"}));
    assert_eq!(member.expect_type("message")["payload"], "hush");
    for spy in &mut spies {
        let packets = spy.ask(4, &json!(["echo", "done"]));
        assert_eq!(packets, json!(["done"]));
        assert!(spy.is_spared("message", Duration::from_millis(50)));
    }
    assert_serves(gateway.addr);
}

/// Halves of surrogate pairs became one character, so rooms of two names were one: Node tells them apart.
#[test]
fn two_rooms_with_broken_names_were_one() {
    let gateway = gateway();
    let mut client = SocketIo::connect(gateway.addr);
    for (number, half) in ["\\ud800", "\\udfff", "a\\udc00\\ud800"].iter().enumerate() {
        for event in ["join", "leave"] {
            client.send(&format!("42{number}[\"{event}\",\"{half}\"]"));
            let answer = client.packet_starting(&format!("43{number}["));
            assert!(
                answer.contains("\"error\":\"Invalid room name\""),
                "{answer}"
            );
        }
    }
    // A whole pair is a character, and so is the one that stood for half of it.
    for name in ["\u{1f600}", "\u{fffd}"] {
        assert_eq!(client.ask(7, &json!(["join", name])), json!([[name]]));
    }
    let mut plain = Plain::connect(gateway.addr);
    plain
        .conn
        .send_text("{\"type\":\"join\",\"room\":\"\\ud800\",\"id\":1}");
    let refused = plain.message();
    assert_eq!(refused["error"], "INVALID_MESSAGE_FORMAT", "{refused}");
    assert_eq!(refused["field"], "room", "{refused}");
    assert_serves(gateway.addr);
}

/// Attack A07: another client's private room, a room one is not in.
#[test]
fn publishing_to_rooms_of_others_is_refused() {
    let gateway = gateway();
    let mut victim = SocketIo::connect(gateway.addr);
    victim.ask(1, &json!(["join", "club"]));
    let mut outsider = Plain::connect(gateway.addr);
    for room in ["club", victim.sid.as_str(), "nowhere"] {
        outsider.send(&json!({"type": "message", "room": room, "payload": "let me in", "id": 5}));
        let mut answers = [outsider.message(), outsider.message()];
        answers.sort_by_key(|answer| answer.get("error").is_none());
        assert_eq!(answers[0]["error"], "NOT_IN_ROOM", "{answers:?}");
    }
    // To join a room of the name of somebody's id is not to be in somebody's own room.
    let id = victim.sid.clone();
    let mut spy = SocketIo::connect(gateway.addr);
    spy.ask(2, &json!(["join", id]));
    victim.ask(3, &json!(["echo", "private"]));
    assert!(spy.is_spared("echo", Duration::from_millis(100)));
    assert!(victim.is_spared("message", Duration::from_millis(100)));
}

/// Attack A08: rooms without end by one client; the limit is a thousand each.
#[test]
fn a_client_joins_a_bounded_number_of_rooms() {
    let gateway = Gateway::start(
        &super::SETTINGS.replace("message_timeout = \"1s\"", "message_timeout = \"30s\""),
    );
    let before = super::warmed(&gateway);
    let mut client = SocketIo::connect(gateway.addr);
    for thousand in 0..100 {
        for n in 0..1_000 {
            client.emit(&json!(["join", format!("room-{thousand}-{n}")]));
        }
        // It reads what it is told; a client that does not would be a slow one.
        client.ask(1, &json!(["echo"]));
    }
    let answer = client.ask(1, &json!(["join", "one more"]));
    assert_eq!(answer, json!([{"error": "Too many rooms"}]));
    assert!(gateway.hits_reach("rooms_per_socket", 99_000.0) >= 99_000.0);
    // Each of the two shards knows the rooms of the other.
    assert!(
        gateway.metric("sockeye_rooms") <= 2_010.0,
        "{}",
        gateway.metric("sockeye_rooms")
    );
    let grown = gateway.memory().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes for a thousand rooms");
    drop(client);
    let rooms = gateway.metric_settles("sockeye_rooms", |rooms| rooms == 0.0);
    assert!(rooms.is_ok(), "{rooms:?} rooms of nobody");
    // Joining and leaving for ever keeps nothing.
    let mut client = SocketIo::connect(gateway.addr);
    client.ask(2, &json!(["join", "kept"]));
    for n in 0..20_000 {
        let room = format!("brief-{n}");
        client.emit(&json!(["join", room]));
        client.emit(&json!(["leave", room]));
    }
    client.ask(2, &json!(["echo"]));
    // Its namespace and the room it kept, known to both shards.
    let rooms = gateway.metric_settles("sockeye_rooms", |rooms| rooms <= 4.0);
    assert!(rooms.is_ok(), "{rooms:?} rooms of nobody");
    assert_serves(gateway.addr);
}

/// Attack A09: objects of 100,000 keys, and the same key as often. Read in one piece or in four, the work is the same: it grows
/// with the length and not with its square. (There is nothing to make keys collide in: none is put into a table.)
#[test]
fn objects_with_many_keys_cost_linear_time() {
    let _alone = Alone::wait();
    let gateway = gateway();
    let mut client = SocketIo::connect(gateway.addr);
    client.join_namespace("/chat", "");
    let many = |count: usize| -> String {
        let key = |n: usize| [0, 6, 12].map(|bits| char::from(b'0' + ((n >> bits) & 0x3f) as u8));
        let key = |n| key(n).iter().filter(|c| **c != '\\').collect::<String>();
        (0..count).map(|n| format!("\"{}\":0,", key(n))).collect()
    };
    let same = |count: usize| "\"abc\":0,".repeat(count);
    let mut work = |keys: &str, messages: u32| {
        let packet = format!("42/chat,7[\"chat-message\",{{{keys}\"content\":\"last\"}}]");
        let before = gateway.cpu();
        for _ in 0..messages {
            client.send(&packet);
            // The room's home may be another shard: then the ack comes before the message.
            let (mut said, mut acked) = (false, false);
            while !(said && acked) {
                let packet = client.packet();
                said |= packet.starts_with("42/chat,[\"chat-message\"")
                    && packet.contains("\"content\":\"last\"");
                acked |= packet.starts_with("43/chat,7[{\"id\"");
            }
        }
        gateway.cpu() - before
    };
    for keys in [&many as &dyn Fn(usize) -> String, &same] {
        let (small, large) = (work(&keys(25_000), 40), work(&keys(100_000), 10));
        println!("a million keys: {small:?} in forty messages, {large:?} in ten");
        assert!(
            large <= small * 2 + Duration::from_millis(50),
            "{small:?} {large:?}"
        );
    }
    let mut plain = Plain::connect(gateway.addr);
    let keys = many(6_000);
    plain.conn.send_text(format!(
        "{{{keys}\"type\":\"x\",\"type\":\"echo\",\"payload\":1}}"
    ));
    assert_eq!(plain.expect_type("echo")["payload"], 1);
    assert_serves(gateway.addr);
}

/// Attack A10: no label of a metric is made by a client.
#[test]
fn clients_cannot_add_metrics() {
    let gateway = Gateway::start(super::SETTINGS);
    let names = |gateway: &Gateway| gateway.metrics().into_keys().collect::<BTreeSet<_>>();
    let before = names(&gateway);
    let mut client = SocketIo::connect(gateway.addr);
    for n in 0..300 {
        client.emit(&json!([format!("label-event-{n}"), 1]));
        client.emit(&json!(["join", format!("label-room-{n}")]));
    }
    client.ask(1, &json!(["echo"]));
    for n in 0..20 {
        let target = format!("/label-path-{n}?label-query={n}");
        let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nX-Label-{n}: x\r\n\r\n");
        assert_eq!(RawConn::exchange(gateway.addr, request).status, 404);
        RawConn::websocket_with(gateway.addr, "/ws", "Sec-WebSocket-Protocol: label-sub\r\n");
    }
    assert_eq!(names(&gateway), before);
}

/// Attack A11: what is logged is one line of JSON each, whatever clients put in.
#[test]
fn clients_cannot_write_into_the_log() {
    let gateway =
        Gateway::start(&super::SETTINGS.replace("[limits]", "[log]\nlevel = \"debug\"\n[limits]"));
    let evil = "\u{1b}[31mred\r\n{\"level\":\"INFO\",\"message\":\"forged-line\"}";
    let mut client = SocketIo::open(gateway.addr);
    client.join_namespace("/", &json!({"name": evil, "token": evil}).to_string());
    client.ask(1, &json!(["join", evil]));
    client.ask(2, &json!(["echo", evil.repeat(1_000)]));
    client.emit(&json!([evil]));
    client.send(&format!("42[\"{}", "forged-line\u{1b}".repeat(1_000)));
    client.conn.close_code(SOON);
    let path = "%0d%0aforged-line%1b%5b31m";
    for target in [
        format!("/{path}"),
        format!("{SOCKETIO}&x={path}"),
        format!("/{}", "f".repeat(7_000)),
    ] {
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: a\r\nUser-Agent: \u{1b}[31mforged-line\r\n\r\n"
        );
        RawConn::exchange(gateway.addr, request);
        RawConn::exchange(
            gateway.addr,
            upgrade_request(&target, "Origin: \u{1b}[31mforged-line\r\n"),
        );
    }
    assert!(
        gateway.logged("\"disconnected\"", SOON),
        "{:?}",
        gateway.log()
    );
    for line in gateway.log() {
        let parsed: Result<Value, _> = serde_json::from_str(&line);
        assert!(
            parsed.is_ok_and(|line| line["message"] != "forged-line"),
            "{line}"
        );
        assert!(!line.contains('\u{1b}') && line.len() < 4_096, "{line}");
    }
}

/// Attack A24: text that JSON allows and UTF-8 decoders stumble over comes back as it was sent.
#[test]
fn odd_text_is_carried_unchanged_or_refused() {
    let gateway = gateway();
    let mut client = SocketIo::connect(gateway.addr);
    for text in [
        "\\ud800",
        "\\udc00\\ud800",
        "\u{2028}\u{2029}",
        "\\u0000",
        "\u{feff}",
        "\u{202e}abc",
        "\u{10ffff}",
        "e\u{301}",
        "\\/",
        "\u{1f469}\u{200d}\u{1f469}",
        "\u{7f}\u{80}",
    ] {
        client.send(&format!("427[\"echo\",\"{text}\"]"));
        let answer = client.packet_starting("437[");
        assert_eq!(answer, format!("437[\"{text}\"]"));
    }
    // A raw control character is not JSON; 0x1E would cut a polling payload in two.
    for text in ["\u{1e}", "\n", "\0"] {
        let mut client = SocketIo::connect(gateway.addr);
        client.send(&format!("427[\"echo\",\"{text}\"]"));
        assert_eq!(client.conn.close_code(SOON), 4500, "{text:?}");
    }
    let mut packed = RawConn::websocket_with(
        gateway.addr,
        "/ws",
        "Sec-WebSocket-Protocol: sockeye.msgpack\r\n",
    );
    // {"type": "echo", "payload": <two bytes that are not UTF-8, called a string>}
    packed.send_binary(b"\x82\xa4type\xa4echo\xa7payload\xa2\xc0\xaf");
    let answer = packed.frame().payload;
    assert!(
        answer
            .windows(22)
            .any(|bytes| bytes == b"INVALID_MESSAGE_FORMAT"),
        "{answer:02x?}"
    );
    assert_serves(gateway.addr);
}
