//! The plain protocol, and one room in which all protocols meet.

use super::client::{Encoding, Event, Plain, SocketIo, WebSocket, bytes, request};
use crate::harness::Gateway;
use serde_json::{Value, json};

fn gateway() -> Gateway {
    Gateway::start("profile = \"socket.io\"\n[server]\nshards = 4\n")
}

const BOTH: [Encoding; 2] = [Encoding::Json, Encoding::Msgpack];

#[test]
fn join_talk_and_leave() {
    let gateway = gateway();
    for encoding in BOTH {
        let [mut ann, mut ben] = [(); 2].map(|()| Plain::connect(gateway.addr, encoding));
        // Without an id there is no answer; with one there is.
        ann.send(&json!({ "type": "join", "room": "general" }));
        assert_eq!(ann.join("other"), [json!(["other"])]);
        assert_eq!(ben.join("general"), [json!(["general"])]);
        ann.send(&json!({ "type": "message", "room": "general", "payload": { "text": "hi" } }));
        assert_eq!(
            ben.receive(),
            json!({ "type": "message", "room": "general", "payload": { "text": "hi" } })
        );
        ann.send(&json!({ "type": "leave", "room": "other" }));
        // To the rooms of the sender, of which one is left.
        ann.send(&json!({ "type": "any name", "payload": [1, null] }));
        assert_eq!(
            ben.receive(),
            json!({ "type": "any name", "room": "general", "payload": [1, null] })
        );
        // An object's rest is the payload where there is none.
        ann.send(&json!({ "type": "message", "text": "short" }));
        assert_eq!(ben.receive()["payload"], json!({ "text": "short" }));
        // An answer for the sender.
        assert_eq!(
            ann.ask(json!({ "type": "message", "payload": 1 })),
            Vec::<Value>::new()
        );
        assert_eq!(ben.receive()["payload"], 1);
        // Into a room one is not in.
        ann.send(&json!({ "type": "message", "room": "elsewhere", "payload": 1 }));
        assert_eq!(ann.receive()["error"], "NOT_IN_ROOM");
    }
}

#[test]
fn what_is_no_message_is_answered_and_the_connection_kept() {
    let gateway = gateway();
    let invalid = |answer: Value, field: Option<&str>, id: Option<u64>| {
        let told = (&answer["type"], &answer["error"]);
        assert_eq!(
            told,
            (&json!("error"), &json!("INVALID_MESSAGE_FORMAT")),
            "{answer}"
        );
        assert_eq!(
            (answer["field"].as_str(), answer["id"].as_u64()),
            (field, id),
            "{answer}"
        );
        let sentence = answer["message"].as_str().expect("a sentence");
        assert!(
            field.is_none_or(|field| sentence.contains(field)),
            "{answer}"
        );
        assert!(
            answer["timestamp"]
                .as_u64()
                .is_some_and(|ms| ms > 1_700_000_000_000),
            "{answer}"
        );
        let members = 4 + usize::from(field.is_some()) + usize::from(id.is_some());
        assert_eq!(
            answer.as_object().map(serde_json::Map::len),
            Some(members),
            "{answer}"
        );
    };
    for encoding in BOTH {
        let mut ann = Plain::connect(gateway.addr, encoding);
        for (wrong, field, id) in [
            (json!({ "payload": 1, "id": 3 }), Some("type"), Some(3)),
            (json!({ "type": "message" }), Some("payload"), None),
            (json!({ "type": 5, "payload": 1 }), Some("type"), None),
            (json!({ "type": "join", "id": 4 }), Some("room"), Some(4)),
            (
                json!({ "type": "message", "room": 5, "payload": 1 }),
                Some("room"),
                None,
            ),
            (
                json!({ "type": "message", "id": "5", "payload": 1 }),
                Some("id"),
                None,
            ),
            (json!([1, 2]), Some("type"), None),
            (json!("text"), Some("type"), None),
            (json!({}), Some("type"), None),
        ] {
            ann.send(&wrong);
            invalid(ann.receive(), field, id);
        }
        match encoding {
            Encoding::Json => {
                for wrong in [
                    "",
                    "{",
                    "no JSON",
                    "{\"type\":\"a\",\"payload\":01}",
                    "\u{feff}{}",
                ] {
                    ann.socket.text(wrong);
                    invalid(ann.receive(), None, None);
                }
            }
            Encoding::Msgpack => {
                for wrong in [&b""[..], b"\xc1", b"\x81\xa4type", b"\xdf\xff\xff\xff\xff"] {
                    ann.socket.binary(wrong);
                    invalid(ann.receive(), None, None);
                }
            }
        }
        assert_eq!(ann.join("still here"), [json!(["still here"])]);
    }
    // Bytes where text was agreed.
    let mut ann = Plain::connect(gateway.addr, Encoding::Json);
    ann.socket.binary(b"{\"type\":\"a\",\"payload\":1}");
    invalid(ann.receive(), None, None);
    assert_eq!(ann.join("still here"), [json!(["still here"])]);
}

/// A client of any protocol.
enum Member {
    SocketIo(SocketIo),
    Plain(Plain),
}

impl Member {
    fn all(gateway: &Gateway) -> Vec<(&'static str, Self)> {
        let addr = gateway.addr;
        let plain = |encoding| Self::Plain(Plain::connect(addr, encoding));
        vec![
            (
                "websocket",
                Self::SocketIo(SocketIo::websocket(addr, "/", json!({}))),
            ),
            (
                "polling",
                Self::SocketIo(SocketIo::polling(addr, "/", json!({}))),
            ),
            ("plain JSON", plain(Encoding::Json)),
            ("plain MessagePack", plain(Encoding::Msgpack)),
        ]
    }

    fn join(&mut self, room: &str) {
        let rooms = match self {
            Self::SocketIo(client) => client.ask("join", &[room.into()]),
            Self::Plain(client) => client.join(room),
        };
        assert_eq!(rooms, [json!([room])]);
    }

    fn emit(&mut self, name: &str, args: &[Value]) {
        match self {
            Self::SocketIo(client) => client.emit(name, args),
            Self::Plain(client) => client.emit(name, args),
        }
    }

    fn next(&mut self) -> Event {
        match self {
            Self::SocketIo(client) => client.next(),
            Self::Plain(client) => client.next(),
        }
    }

    fn is_plain(&self) -> bool {
        matches!(self, Self::Plain(_))
    }
}

#[test]
fn members_of_one_room_get_the_same_event_in_any_protocol() {
    let gateway = gateway();
    // Two of each, so that they meet over shards and within one.
    let mut members = Member::all(&gateway);
    members.extend(Member::all(&gateway));
    members
        .iter_mut()
        .for_each(|(_, member)| member.join("meeting"));
    let events: [(&str, Vec<Value>); 7] = [
        ("nothing", vec![]),
        (
            "one",
            vec![json!({ "text": "ü \"\\ \u{2028} 😀", "list": [1, -2, 2.5, true, null] })],
        ),
        ("list", vec![json!([1, 2])]),
        (
            "several",
            vec![1.into(), "two".into(), json!({ "three": 3 })],
        ),
        ("bytes", vec![bytes(b"\x00\x01\xfe\xff")]),
        (
            "deep",
            vec![
                json!({ "a": [bytes(b"one"), { "b": bytes(b"") }] }),
                2.into(),
                bytes(&[9; 3_000]),
            ],
        ),
        ("null", vec![Value::Null]),
    ];
    for sender in 0..members.len() {
        for (name, args) in &events {
            members[sender].1.emit(name, args);
            for receiver in 0..members.len() {
                if receiver == sender {
                    continue;
                }
                let (from, (to, member)) = (members[sender].0, &mut members[receiver]);
                let event = member.next();
                assert_eq!(
                    (event.name.as_str(), &event.args),
                    (*name, args),
                    "from {from} to {to}"
                );
                let room = member.is_plain().then_some("meeting");
                assert_eq!(event.room.as_deref(), room, "from {from} to {to}");
            }
        }
    }
}

/// A client's author finds every code that can come in docs/protocol.md.
#[test]
fn every_code_of_an_error_is_documented() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let page = std::fs::read_to_string(format!("{root}/docs/protocol.md")).expect("the page");
    let wings = std::fs::read_dir(format!("{root}/crates/hub/src")).expect("the hub");
    let rules = std::fs::read_dir(format!("{root}/crates/rules/src")).expect("the rules");
    let sources = wings
        .chain(rules)
        .map(|wing| wing.expect("a wing").path())
        .flat_map(|wing| match std::fs::read_dir(&wing) {
            Ok(files) => files.map(|file| file.expect("a file").path()).collect(),
            Err(_) => vec![wing],
        });
    let mut codes = Vec::new();
    for path in sources {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let is_code = |word: &&str| {
            word.len() >= 6 && word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
        };
        codes.extend(code.split('"').filter(is_code).map(str::to_owned));
    }
    assert!(codes.len() >= 12, "{codes:?}");
    codes.retain(|code| {
        !page.contains(&format!("`{code}`")) && !page.contains(&format!("\"{code}\""))
    });
    assert_eq!(codes, [""; 0], "not in docs/protocol.md");
}

/// Beside the pages, as published clients and load generators expect it: what asks for no WebSocket gets the page.
#[test]
fn the_plain_protocol_at_the_root_leaves_the_page_where_it_was() {
    let gateway = Gateway::start("profile = \"chat\"\n[plain]\npath = \"/\"\n");
    let socket = WebSocket::connect(gateway.addr, "/", "");
    let mut plain = Plain::over(socket, Encoding::Json);
    plain.send(&json!({ "type": "chat-message", "payload": { "content": "hi" }, "id": 1 }));
    // What else is said there, such as presence, is not looked at.
    while plain.receive()["payload"]["content"] != "hi" {}
    let page = request(gateway.addr, "GET", "/", "", "");
    assert_eq!(page.status, 200);
    assert!(page.body.contains("<html"), "{page:?}");
    let refused = request(
        gateway.addr,
        "GET",
        "/ws",
        "Upgrade: websocket\r\nConnection: Upgrade\r\n",
        "",
    );
    assert_eq!(refused.status, 404, "{refused:?}");
}

/// What was not carried out names the message it was, so that a client with several under way knows.
#[test]
fn a_refusal_names_the_message_that_it_answers() {
    let gateway = gateway();
    for encoding in BOTH {
        let mut ann = Plain::connect(gateway.addr, encoding);
        ann.send(&json!({ "type": "message", "room": "elsewhere", "payload": 1, "id": 7 }));
        let error = ann.receive();
        assert_eq!(error["type"], "error");
        assert_eq!(
            (&error["error"], &error["id"]),
            (&json!("NOT_IN_ROOM"), &json!(7))
        );
        assert_eq!(error["message"], "Not in that room");
        assert_eq!(ann.receive()["type"], "ack");
    }
}
