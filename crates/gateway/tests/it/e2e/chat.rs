//! The chat profile to the letter: what a message must be, what members get, acks, presence, late joiners.

use super::client::{Event, PATIENCE, SocketIo};
use super::crowd::parts;
use crate::harness::Gateway;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

fn gateway() -> Gateway {
    // A rate of its own: these tests say more than people do.
    Gateway::start(
        "[server]\nshards = 4\n[namespaces.\"/\".events.chat-message]\nrate = \"1000/s\"\n",
    )
}

fn guest(gateway: &Gateway, name: &str) -> SocketIo {
    SocketIo::websocket(gateway.addr, "/", json!({ "name": name }))
}

fn message(client: &mut SocketIo) -> Value {
    client.next_named("chat-message").args.remove(0)
}

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect();
    keys.sort_unstable();
    keys
}

fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO)
        .as_millis() as u64
}

#[test]
fn a_message_is_stamped_and_sent_to_everyone_with_its_ack() {
    let gateway = gateway();
    let mut guests: Vec<SocketIo> = ["Ann", "Ben", "  ", "Dora", "Émile"]
        .iter()
        .map(|name| guest(&gateway, name))
        .collect();
    let before = now_ms();
    let ack = guests[0].ask("chat-message", &[json!({ "content": "hello" })]);
    let [ack] = &ack[..] else { panic!("{ack:?}") };
    assert_eq!(keys(ack), ["id", "timestamp"]);
    let sender = guests[0].id.clone();
    for guest in &mut guests {
        let got = message(guest);
        let expected = json!({
            "id": ack["id"], "sender": sender, "name": "Ann", "content": "hello",
            "timestamp": ack["timestamp"], "room": "global",
        });
        assert_eq!(got, expected);
    }
    let stamp = ack["timestamp"].as_u64().expect("milliseconds");
    assert!((before..=now_ms()).contains(&stamp), "{stamp}");
    // An empty name is none; others are kept as they are.
    guests[2].emit("chat-message", &[json!({ "content": "?" })]);
    assert_eq!(
        keys(&message(&mut guests[0])),
        ["content", "id", "room", "sender", "timestamp"]
    );
    guests[4].emit("chat-message", &[json!({ "content": "!" })]);
    assert_eq!(message(&mut guests[0])["name"], "Émile");
    // Ids increase.
    let ids: Vec<u64> = (0..50)
        .map(|n| {
            let ack = guests[1].ask("chat-message", &[json!({ "content": n.to_string() })]);
            ack[0]["id"]
                .as_str()
                .and_then(|id| id.parse().ok())
                .expect("a number as text")
        })
        .collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
}

#[test]
fn content_has_1_to_1000_utf16_units() {
    let gateway = gateway();
    let (mut ann, mut ben) = (guest(&gateway, "Ann"), guest(&gateway, "Ben"));
    for content in [
        "x".repeat(1_000),
        "ü".repeat(1_000),
        "😀".repeat(500),
        "a\"\\\u{0}\u{2028}\n".to_owned(),
    ] {
        let ack = ann.ask("chat-message", &[json!({ "content": content })]);
        assert_eq!(keys(&ack[0]), ["id", "timestamp"]);
        assert_eq!(message(&mut ben)["content"], *content);
        assert_eq!(message(&mut ann)["content"], *content);
    }
    let invalid = "Invalid message payload";
    let wrong = [
        vec![json!({ "content": "x".repeat(1_001) })],
        vec![json!({ "content": "😀".repeat(501) })],
        vec![json!({ "content": "" })],
        vec![json!({ "content": 5 })],
        vec![json!({ "content": null })],
        vec![json!({ "text": "hello" })],
        vec![json!({ "content": "fine", "room": 7 })],
        vec![json!("hello")],
        vec![json!(null)],
        vec![json!([{ "content": "hello" }])],
        vec![],
    ];
    for args in wrong {
        assert_eq!(
            ann.ask("chat-message", &args),
            [json!({ "error": invalid })],
            "{args:?}"
        );
        assert_eq!(
            ann.next_named("error").args,
            [json!({ "message": invalid })],
            "{args:?}"
        );
        // Without an ack: the event alone.
        ann.emit("chat-message", &args);
        assert_eq!(
            ann.next_named("error").args,
            [json!({ "message": invalid })],
            "{args:?}"
        );
    }
    // None of them reached anybody.
    ann.ask("chat-message", &[json!({ "content": "last" })]);
    assert_eq!(message(&mut ben)["content"], "last");
}

#[test]
fn rooms_are_joined_talked_in_and_left() {
    let gateway = gateway();
    let (mut ann, mut ben, mut cleo) = (
        guest(&gateway, "Ann"),
        guest(&gateway, "Ben"),
        guest(&gateway, "Cleo"),
    );
    assert_eq!(ann.ask("join", &["garden".into()]), [json!(["garden"])]);
    assert_eq!(ann.ask("join", &["garden".into()]), [json!(["garden"])]);
    assert_eq!(ben.ask("join", &["garden".into()]), [json!(["garden"])]);
    ann.ask(
        "chat-message",
        &[json!({ "content": "roses", "room": "garden" })],
    );
    let got = message(&mut ben);
    assert_eq!(
        (&got["content"], &got["room"]),
        (&json!("roses"), &json!("garden"))
    );
    assert_eq!(message(&mut ann)["content"], "roses");
    // Outside: neither heard nor allowed.
    let refused = cleo.ask(
        "chat-message",
        &[json!({ "content": "hey", "room": "garden" })],
    );
    assert_eq!(refused, [json!({ "error": "Not in that room" })]);
    assert_eq!(ben.ask("leave", &["garden".into()]), [json!(["garden"])]);
    assert_eq!(
        ben.ask("leave", &["never-joined".into()]),
        [json!(["never-joined"])]
    );
    ann.ask(
        "chat-message",
        &[json!({ "content": "thorns", "room": "garden" })],
    );
    ann.ask("chat-message", &[json!({ "content": "to all" })]);
    for client in [&mut ben, &mut cleo] {
        assert_eq!(message(client)["content"], "to all");
    }
    // Typing goes to the others of one's rooms.
    ann.emit("typing", &[json!({ "room": "garden" })]);
    assert_eq!(
        cleo.next_named("typing").args,
        [json!({ "room": "garden" })]
    );
}

/// Reads until the counts told last are these.
fn counted(client: &mut SocketIo, counts: &[(&str, u64)]) {
    let started = Instant::now();
    let mut told: BTreeMap<String, u64> = BTreeMap::new();
    while counts
        .iter()
        .any(|(room, count)| told.get(*room) != Some(count))
    {
        assert!(started.elapsed() < PATIENCE, "{told:?}, not {counts:?}");
        let Event { args, .. } = client.next_named("presence");
        assert_eq!(keys(&args[0]), ["count", "room"]);
        let room = args[0]["room"].as_str().expect("a room").to_owned();
        told.insert(room, args[0]["count"].as_u64().expect("a count"));
    }
}

#[test]
fn members_learn_how_many_they_are_over_all_shards() {
    let gateway = gateway();
    let mut guests: Vec<SocketIo> = (0..16).map(|n| guest(&gateway, &n.to_string())).collect();
    let shards: BTreeSet<usize> = guests.iter().map(|guest| parts(&guest.id).1).collect();
    assert!(shards.len() > 1, "all on one shard");
    for guest in &mut guests {
        counted(guest, &[("global", 16)]);
    }
    for guest in &mut guests[..5] {
        guest.ask("join", &["garden".into()]);
    }
    for guest in &mut guests[..5] {
        counted(guest, &[("garden", 5)]);
    }
    guests[4].ask("leave", &["garden".into()]);
    for guest in &mut guests[..4] {
        counted(guest, &[("garden", 4)]);
    }
    // Gone without a word.
    drop(guests.remove(0));
    for (n, guest) in guests.iter_mut().enumerate() {
        let both = [("global", 15), ("garden", 3)];
        counted(guest, if n < 3 { &both } else { &both[..1] });
    }
}

#[test]
fn who_comes_later_gets_the_last_messages() {
    let gateway = gateway();
    let mut ann = guest(&gateway, "Ann");
    ann.ask("join", &["garden".into()]);
    for n in 0..3 {
        ann.ask(
            "chat-message",
            &[json!({ "content": format!("global {n}") })],
        );
        ann.ask(
            "chat-message",
            &[json!({ "content": format!("garden {n}"), "room": "garden" })],
        );
    }
    let sent: Vec<Value> = (0..6).map(|_| message(&mut ann)).collect();
    let of = |room: &str| -> Vec<Value> {
        sent.iter()
            .filter(|message| message["room"] == room)
            .cloned()
            .collect()
    };
    // On every shard, whichever keeps the room.
    for _ in 0..8 {
        let mut late = guest(&gateway, "late");
        let history = late.next_named("history").args;
        assert_eq!(
            history,
            [json!({ "room": "global", "messages": of("global") })]
        );
        late.emit("join", &["garden".into()]);
        let history = late.next_named("history").args;
        assert_eq!(
            history,
            [json!({ "room": "garden", "messages": of("garden") })]
        );
    }
}

/// Ids of the messages that a client gets, in history and behind it, up to the one that says `done`.
fn heard_until_done(client: &mut SocketIo) -> Vec<String> {
    let mut ids = Vec::new();
    loop {
        let Event { name, args, .. } = client.next();
        let messages = match name.as_str() {
            "chat-message" => args,
            "history" => args[0]["messages"].as_array().expect("a list").clone(),
            _ => continue,
        };
        for message in messages {
            ids.push(message["id"].as_str().expect("an id").to_owned());
            if message["content"] == "done" {
                return ids;
            }
        }
    }
}

/// History and live messages came by different ways: a guest that came between them missed some, or got some twice.
#[test]
fn guests_that_come_while_others_speak_hear_each_message_once_and_in_order() {
    const MESSAGES: usize = 100;
    let gateway = Gateway::start(
        "[server]\nshards = 4\n[namespaces.\"/\".events.chat-message]\nrate = \"100000/s\"\n",
    );
    let mut first = guest(&gateway, "first");
    let speakers = (0..4).map(|n| {
        let mut speaker = guest(&gateway, "speaker");
        std::thread::spawn(move || {
            for at in 0..MESSAGES {
                speaker.ask("chat-message", &[json!({ "content": format!("{n} {at}") })]);
            }
            speaker
        })
    });
    let speakers: Vec<_> = speakers.collect();
    let mut late: Vec<SocketIo> = Vec::new();
    while speakers.iter().any(|speaker| !speaker.is_finished()) && late.len() < 60 {
        late.push(guest(&gateway, "late"));
    }
    let speakers: Vec<SocketIo> = speakers
        .into_iter()
        .map(|speaker| speaker.join().expect("a speaker"))
        .collect();
    first.ask("chat-message", &[json!({ "content": "done" })]);
    let order = heard_until_done(&mut first);
    assert_eq!(order.len(), 4 * MESSAGES + 1);
    for (n, guest) in late.iter_mut().enumerate() {
        let heard = heard_until_done(guest);
        let from = order.len().saturating_sub(heard.len());
        assert_eq!(heard, order[from..], "late guest {n}");
    }
    drop(speakers);
}
