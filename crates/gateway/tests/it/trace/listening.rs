//! A test client of operators: it hears what a member of a room does, without a token, and leaves no trace of itself.

use super::reader::Reader;
use super::{DESK, EARS, OPS, VIEWER, audit, comes, config};
use crate::harness::{Gateway, PATIENCE, eventually};
use ::client::full::request;
use serde_json::{Value, json};

fn listens(node: &Gateway, query: &str) -> Reader {
    let path = format!("/v1/node/listen?reason=case%207&{query}");
    let reader = Reader::of(node.admin, &OPS.0, &path);
    assert_eq!(reader.status, 200, "{query}");
    reader
}

fn members(node: &Gateway, room: &str) -> usize {
    let headers = format!("Authorization: Bearer {}\r\n", OPS.0);
    let path = format!("/v1/sockets?room={room}");
    let answer = request(node.admin, "GET", &path, &headers, "");
    let answer: Value = serde_json::from_str(&answer.body).expect("JSON");
    answer["sockets"].as_array().expect("sockets").len()
}

/// What the audit has of test clients, the newest first.
fn heard_of(node: &Gateway) -> Vec<Value> {
    let actions = audit(node);
    let actions = actions.as_array().expect("actions").iter();
    let actions = actions.filter(|one| one["what"] == "listen");
    actions.cloned().collect()
}

fn event(reader: &mut Reader) -> Value {
    reader.until("event", |line| line["kind"] == "event")
}

#[test]
fn a_test_client_hears_its_room_as_members_do_and_leaves() {
    let node = Gateway::start(&config(""));
    let mut ada = comes(&node, "ada", "den");
    let mut ear = listens(&node, "room=den");
    let socket = ear.until("begin", |line| line["kind"] == "begin")["socket"].clone();
    assert_eq!(socket.as_str().map(str::len), Some(20), "{socket}");
    ear.until("joined", |line| {
        line["kind"] == "joined" && line["room"] == "den"
    });
    assert_eq!(members(&node, "den"), 2);
    ada.emit("chat", &[json!("geheim"), json!({"a": [1, "ö"]})]);
    let heard = event(&mut ear);
    assert_eq!(
        (&heard["event"], &heard["asks"]),
        (&json!("chat"), &json!(false))
    );
    let args = heard["args"].as_str().expect("arguments");
    assert!(args.starts_with(r#""geheim",{"a":[1,"ö"]}"#), "{args}");
    // It is nobody: a client of another room is not heard, and it has no user.
    let mut bob = comes(&node, "bob", "elsewhere");
    bob.emit("chat", &[json!("not for it")]);
    // Whoever asks all members has its answer at once.
    let headers = format!("Authorization: Bearer {}\r\n", OPS.0);
    let body = json!({"event": "ask", "sockets": [socket], "ack": {"timeout_ms": 9_000}});
    let asked = request(node.admin, "POST", "/v1/emit", &headers, &body.to_string());
    let asked: Value = serde_json::from_str(&asked.body).expect("JSON");
    assert_eq!(
        (&asked["acked"], &asked["timed_out"]),
        (&json!(1), &json!(0)),
        "{asked}"
    );
    let heard = event(&mut ear);
    assert_eq!(
        (&heard["event"], &heard["asks"]),
        (&json!("ask"), &json!(true))
    );
    // Its caller hangs up.
    drop(ear);
    assert!(eventually(PATIENCE, || members(&node, "den") == 1));
    let action = heard_of(&node).remove(0);
    assert_eq!(
        (&action["key"], &action["of"], &action["namespace"]),
        (
            &json!("ops"),
            &json!("room den, because: case 7"),
            &json!("/")
        )
    );
    assert!(eventually(PATIENCE, || node.metric("sockeye_sessions") == 2.0));
}

#[test]
fn a_test_client_ends_in_time_and_says_why_it_is_not_let_in() {
    let node = Gateway::start(&config(""));
    let quick = listens(&node, "seconds=1");
    assert_eq!(quick.end(), "its time is over");
    let nowhere = listens(&node, "namespace=/nowhere").end();
    assert!(
        nowhere.starts_with("it was not let into the namespace"),
        "{nowhere}"
    );
    let long = "x".repeat(5_000);
    let named = listens(&node, &format!("room={long}")).end();
    assert!(named.starts_with("it cannot join the room"), "{named}");
    // The audit tells those that heard nothing from the one that did.
    let outcomes = heard_of(&node);
    let outcomes = outcomes.iter().filter_map(|one| one["outcome"].as_str());
    let outcomes: Vec<&str> = outcomes.collect();
    let [third, second, first] = outcomes[..] else {
        panic!("{outcomes:?}");
    };
    assert!(third.starts_with("it cannot join the room"), "{third}");
    assert_eq!((second, first), (&*nowhere, "done"));
    // An operator puts it out.
    let mut ear = listens(&node, "room=den");
    ear.until("joined", |line| line["kind"] == "joined");
    let headers = format!("Authorization: Bearer {}\r\n", OPS.0);
    let body = json!({"rooms": ["den"]}).to_string();
    let answer = request(node.admin, "POST", "/v1/disconnect", &headers, &body);
    assert!(answer.status < 300, "{}", answer.body);
    assert_eq!(ear.end(), "it was put out of the namespace");
}

#[test]
fn only_those_who_may_see_payload_let_a_test_client_in_and_two_of_a_key_and_four_of_all() {
    let node = Gateway::start(&config(""));
    for (key, query, status) in [
        (&VIEWER.0, "reason=x", 403),
        (&DESK.0, "reason=x", 403),
        (&OPS.0, "room=den", 400),
        (&OPS.0, "reason=x&seconds=601", 400),
        (&OPS.0, "reason=x&user=ada", 400),
    ] {
        let path = format!("/v1/node/listen?{query}");
        let refused = Reader::of(node.admin, key, &path);
        assert_eq!(refused.status, status, "{query}");
    }
    let path = "/v1/node/listen?room=den&reason=x";
    let asks = |key: &str| Reader::of(node.admin, key, path);
    let joined = |key: &str| {
        let mut ear = asks(key);
        ear.until("joined", |line| line["kind"] == "joined");
        ear
    };
    let mut ears = vec![joined(&OPS.0), joined(&OPS.0)];
    assert_eq!(asks(&OPS.0).status, 503);
    ears.extend([joined(&EARS.0), joined(&EARS.0)]);
    assert_eq!(asks(&EARS.0).status, 503);
    // A place comes back, for its key alone while the other has two.
    ears.remove(0);
    assert!(eventually(PATIENCE, || asks(&OPS.0).status == 200));
    assert_eq!(asks(&EARS.0).status, 503);
}

/// More than it may tell: the rest is counted, and the room does not wait for it.
#[test]
fn a_flood_is_counted_and_holds_nobody_up() {
    let node = Gateway::start(&config(""));
    let (mut ada, mut bob) = (comes(&node, "ada", "den"), comes(&node, "bob", "den"));
    let mut ear = listens(&node, "room=den");
    ear.until("joined", |line| line["kind"] == "joined");
    // Together more than an outbox holds.
    for burst in 0..4 {
        for n in 0..500 {
            ada.emit("chat", &[json!(burst * 500 + n), json!("x".repeat(1_000))]);
        }
        for n in 0..500 {
            assert_eq!(bob.expect("chat")[0], burst * 500 + n);
        }
    }
    let dropped = ear.until("dropped", |line| line["kind"] == "dropped");
    assert!(dropped["events"].as_u64() >= Some(1), "{dropped}");
}

/// Long arguments fill what goes at once: the rest is counted, too, and the test client is no slow member.
#[test]
fn a_room_with_large_events_is_read_as_fast_as_it_talks() {
    let node = Gateway::start(&config(""));
    let (mut ada, mut bob) = (comes(&node, "ada", "den"), comes(&node, "bob", "den"));
    let mut ear = listens(&node, "room=den");
    ear.until("joined", |line| line["kind"] == "joined");
    let text = "x".repeat(4_000);
    // Together more than an outbox holds.
    for burst in 0..6 {
        for n in 0..100 {
            ada.emit("chat", &[json!(burst * 100 + n), json!(text)]);
        }
        for n in 0..100 {
            assert_eq!(bob.expect("chat")[0], burst * 100 + n);
        }
    }
    let dropped = ear.until("dropped", |line| line["kind"] == "dropped");
    assert!(dropped["events"].as_u64() >= Some(1), "{dropped}");
    assert_eq!(members(&node, "den"), 3);
}
