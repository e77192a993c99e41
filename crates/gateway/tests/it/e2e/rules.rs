//! Built-in rules: what a client event does is read from the configuration, for Socket.IO and plain clients alike.

use super::client::{Encoding, Plain, SocketIo, request};
use crate::harness::Gateway;
use serde_json::{Value, json};

const RULES: &str = r#"
[server]
shards = 4
[namespaces."/"]
client_joins = true
auto_join = ["lobby"]
[namespaces."/".default]
action = "drop"
[namespaces."/".events.shout]
action = "rooms"
[namespaces."/".events.cheer]
action = "rooms"
echo = true
[namespaces."/".events.pin]
action = "rooms"
room = "board"
[namespaces."/".events.mirror]
action = "reply"
[namespaces."/".events.ignored]
action = "drop"
[namespaces."/".events.move]
action = "rooms"
echo = true
schema = { type = "object", required = ["x"], properties = { x = { type = "integer" } } }
[namespaces."/".events.fast]
action = "reply"
rate = "10/s"
[namespaces."/".events.seldom]
action = "reply"
rate = "2/3600s"
[namespaces."/".events.note]
action = "rooms"
history = true
[namespaces."/".events.whisper]
action = "rooms"
[namespaces."/closed".default]
action = "rooms"
"#;

fn gateway() -> Gateway {
    Gateway::start_with(RULES, &["--profile", "socket.io"])
}

fn client(gateway: &Gateway) -> SocketIo {
    SocketIo::websocket(gateway.addr, "/", json!({}))
}

/// What each client got before a marker that the last one sends to everyone in the lobby.
fn heard(clients: &mut [&mut SocketIo]) -> Vec<Vec<(String, Vec<Value>)>> {
    let last = clients.len() - 1;
    clients[last].emit("cheer", &["marker".into()]);
    let until = |client: &mut &mut SocketIo| {
        let events = client.until("cheer").into_iter();
        events.map(|event| (event.name, event.args)).collect()
    };
    clients.iter_mut().map(until).collect()
}

#[test]
fn events_go_to_the_rooms_the_rule_says() {
    let gateway = gateway();
    let (mut ann, mut ben, mut cleo) = (client(&gateway), client(&gateway), client(&gateway));
    let one = |name: &str, args: &[Value]| vec![(name.to_owned(), args.to_vec())];
    assert_eq!(ben.ask("join", &["board".into()]), [json!(["board"])]);

    // The sender's rooms, without the sender.
    assert_eq!(
        ann.ask("shout", &[1.into(), "b".into()]),
        Vec::<Value>::new()
    );
    let shouted = one("shout", &[1.into(), "b".into()]);
    assert_eq!(
        heard(&mut [&mut ben, &mut cleo, &mut ann]),
        [shouted.clone(), shouted, vec![]]
    );
    // With the sender: that is what the marker does; twice here.
    ann.emit("cheer", &["first".into()]);
    for client in [&mut ann, &mut ben, &mut cleo] {
        assert_eq!(client.expect("cheer"), ["first"]);
    }
    // A named room, also from outside it.
    ann.emit("pin", &["paper".into()]);
    assert_eq!(
        heard(&mut [&mut ben, &mut cleo, &mut ann]),
        [one("pin", &["paper".into()]), vec![], vec![]]
    );
    // Members of several of the sender's rooms get one copy.
    assert_eq!(ann.ask("join", &["board".into()]), [json!(["board"])]);
    ann.emit("shout", &["once".into()]);
    let shouted = one("shout", &["once".into()]);
    assert_eq!(
        heard(&mut [&mut ben, &mut cleo, &mut ann]),
        [shouted.clone(), shouted, vec![]]
    );
    // Left: nothing more of that room.
    assert_eq!(ben.ask("leave", &["board".into()]), [json!(["board"])]);
    cleo.emit("pin", &["gone".into()]);
    assert_eq!(
        heard(&mut [&mut ben, &mut ann, &mut cleo]),
        [vec![], one("pin", &["gone".into()]), vec![]]
    );
}

#[test]
fn events_are_answered_or_dropped_as_the_rule_says() {
    const DROPPED: &str = "sockeye_dropped_received_total{reason=\"rule\"}";
    let gateway = gateway();
    let (mut ann, mut ben) = (client(&gateway), client(&gateway));
    let args = [json!({ "a": [1, 2] }), "b".into()];
    assert_eq!(ann.ask("mirror", &args), args);
    ann.emit("mirror", &args);
    assert_eq!(ann.expect("mirror"), args);
    // Dropped by their rule, and by the default for what has none.
    let before = gateway.metric(DROPPED);
    ann.emit("ignored", &args);
    ann.emit("never-heard-of", &args);
    assert_eq!(heard(&mut [&mut ben, &mut ann]), [vec![], vec![]]);
    let dropped = gateway.metric_settles(DROPPED, |now| now == before + 1.0);
    assert_eq!(dropped, Ok(before + 1.0));
}

#[test]
fn a_payload_that_breaks_the_schema_is_refused_and_goes_nowhere() {
    let gateway = gateway();
    let (mut ann, mut ben) = (client(&gateway), client(&gateway));
    ann.emit("move", &[json!({ "x": 3 }), "more".into()]);
    assert_eq!(ben.expect("move"), [json!({ "x": 3 }), "more".into()]);
    assert_eq!(ann.expect("move"), [json!({ "x": 3 }), "more".into()]);
    for wrong in [
        vec![json!({ "x": "three" })],
        vec![json!({})],
        vec![json!(7)],
        vec![],
    ] {
        let answer = ann.ask("move", &wrong);
        let error = answer[0]["error"].as_str().expect("an error in the ack");
        assert!(error.starts_with("Invalid payload: "), "{wrong:?}: {error}");
        assert_eq!(ann.expect("error"), [json!({ "message": error })]);
    }
    assert_eq!(heard(&mut [&mut ben, &mut ann]), [vec![], vec![]]);

    let mut plain = Plain::connect(gateway.addr, Encoding::Json);
    plain.send(&json!({ "type": "move", "payload": { "x": 0.5 } }));
    let refused = plain.receive();
    assert_eq!(refused["error"], "INVALID_PAYLOAD");
    assert!(refused["timestamp"].is_u64(), "{refused}");
    plain.send(&json!({ "type": "mirror", "payload": "kept" }));
    assert_eq!(plain.next().args, ["kept"]);
}

#[test]
fn over_the_rate_the_client_is_told_and_kept() {
    let gateway = gateway();
    let mut ann = client(&gateway);
    let text = "Rate limit exceeded: 2 messages/3600 seconds";
    for n in 0..2 {
        assert_eq!(ann.ask("seldom", &[n.into()]), [n]);
    }
    for n in 2..5 {
        assert_eq!(ann.ask("seldom", &[n.into()]), [json!({ "error": text })]);
        assert_eq!(ann.expect("error"), [json!({ "message": text })]);
    }
    // Another event, another client: limits of their own.
    assert_eq!(ann.ask("mirror", &["kept".into()]), ["kept"]);
    let mut ben = client(&gateway);
    assert_eq!(ben.ask("seldom", &[0.into()]), [0]);

    // Thirty at once: ten pass (one more for each 100 ms the machine was busy).
    let burst: Vec<(&str, Vec<Value>)> = (0..30).map(|n| ("fast", vec![n.into()])).collect();
    ann.emit_all(&burst);
    ann.emit("mirror", &[]);
    let events = ann.until("mirror");
    assert_eq!(events.len(), 30);
    let refusal = [json!({ "message": "Rate limit exceeded: 10 messages/second" })];
    let refused = events
        .iter()
        .filter(|event| event.name == "error" && event.args == refusal)
        .count();
    let passed = events.iter().filter(|event| event.name == "fast").count();
    assert_eq!(passed + refused, 30);
    assert!((10..30).contains(&passed), "{passed} passed");
    assert!(
        events[..10].iter().all(|event| event.name == "fast"),
        "the first ten are within the burst"
    );
    let hits = gateway.metric_settles("sockeye_limit_hits_total{limit=\"rate\"}", |n| {
        n == 3.0 + refused as f64
    });
    assert!(hits.is_ok(), "{hits:?} hits, {refused} refused here");

    for encoding in [Encoding::Json, Encoding::Msgpack] {
        let mut plain = Plain::connect(gateway.addr, encoding);
        for n in 0..2 {
            plain.emit("seldom", &[n.into()]);
            assert_eq!(plain.next().args, [n]);
        }
        plain.emit("seldom", &[2.into()]);
        let refused = plain.receive();
        assert_eq!(refused["error"], "RATE_LIMIT_EXCEEDED");
        let seconds = refused["retryAfter"].as_u64().expect("seconds");
        assert!((1_700..=1_800).contains(&seconds), "{seconds}");
        plain.emit("mirror", &["kept".into()]);
        assert_eq!(plain.next().args, ["kept"]);
    }
}

#[test]
fn events_with_history_are_kept_for_those_who_join_later() {
    let gateway = gateway();
    let mut ann = client(&gateway);
    ann.ask("join", &["garden".into()]);
    // One of each room: what they have heard is kept.
    let mut witnesses = [(); 2].map(|()| client(&gateway));
    witnesses[1].ask("leave", &["lobby".into()]);
    witnesses[1].ask("join", &["garden".into()]);
    let sent: [&[Value]; 3] = [&[json!({ "n": 1 })], &["two".into(), 2.into()], &[]];
    for args in sent {
        ann.ask("note", args);
        ann.ask("whisper", args);
    }
    for witness in &mut witnesses {
        sent.iter().for_each(|_| drop(witness.until("whisper")));
    }
    let mut ben = client(&gateway);
    let kept: Vec<Value> = sent
        .iter()
        .map(|args| json!({ "event": "note", "args": args }))
        .collect();
    // `note` went to all of ann's rooms: the lobby, where ben is from the start, and the garden.
    assert_eq!(
        ben.expect("history"),
        [json!({ "room": "lobby", "messages": kept })]
    );
    ben.emit("join", &["garden".into()]);
    assert_eq!(
        ben.expect("history"),
        [json!({ "room": "garden", "messages": kept })]
    );
    // Without history there is nothing to tell.
    ben.ask("join", &["elsewhere".into()]);
    assert_eq!(heard(&mut [&mut ben, &mut ann]), [vec![], vec![]]);

    let mut plain = Plain::connect(gateway.addr, Encoding::Msgpack);
    let history = plain.next();
    assert_eq!(
        (history.name.as_str(), &history.args),
        (
            "history",
            &vec![json!({ "room": "lobby", "messages": kept })]
        )
    );
}

#[test]
fn clients_join_rooms_only_where_they_may() {
    let gateway = gateway();
    let mut ann = SocketIo::websocket(gateway.addr, "/closed", json!({}));
    let mut ben = SocketIo::websocket(gateway.addr, "/closed", json!({}));
    for client in [&mut ann, &mut ben] {
        // An event like another, which here goes to rooms the sender is in: none.
        assert_eq!(client.ask("join", &["secret".into()]), Vec::<Value>::new());
    }
    ann.ask("anything", &["to nobody".into()]);
    ben.leave_session();
    let (events, _, _) = ben.until_closed();
    assert_eq!(events, []);
}

#[test]
fn names_that_are_no_rooms_and_namespaces_that_are_none_are_refused() {
    let gateway = gateway();
    let mut ann = client(&gateway);
    let long = "x".repeat(257);
    for (wrong, text) in [
        (json!(7), "Room must be a string"),
        (json!(""), "Invalid room name"),
        (json!(long), "Invalid room name"),
    ] {
        assert_eq!(ann.ask("join", &[wrong]), [json!({ "error": text })]);
        assert_eq!(ann.expect("error"), [json!({ "message": text })]);
    }
    let open = request(
        gateway.addr,
        "GET",
        "/socket.io/?EIO=4&transport=polling",
        "",
        "",
    );
    let open = super::client::open_session(&open.body);
    let path = format!(
        "/socket.io/?EIO=4&transport=polling&sid={}",
        open["sid"].as_str().expect("sid")
    );
    assert_eq!(
        request(gateway.addr, "POST", &path, "", "40/nowhere,{}").body,
        "ok"
    );
    let refused = request(gateway.addr, "GET", &path, "", "");
    assert_eq!(
        refused.body,
        r#"44/nowhere,{"message":"Invalid namespace"}"#
    );
    // The session goes on.
    assert_eq!(request(gateway.addr, "POST", &path, "", "40").body, "ok");
    let joined = request(gateway.addr, "GET", &path, "", "");
    assert!(joined.body.starts_with(r#"40{"sid":""#), "{joined:?}");
}
