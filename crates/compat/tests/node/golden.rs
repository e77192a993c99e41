//! What Node writes, byte by byte: it is read as it was meant, and we write the same.

use crate::member::{Dialect, Member, Raw};
use compat::names::Names;
use compat::verb::{Args, Event, Letter, Selection, Verb};
use serde_json::{Value, json};
use servers::{NodePeer, Redis};

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|word| (*word).to_owned()).collect()
}

fn selection(rooms: &[&str], except: &[&str]) -> Selection {
    Selection {
        rooms: words(rooms),
        except: words(except),
    }
}

fn args(json: &str, attachments: &[&[u8]]) -> Args {
    Args {
        json: json.to_owned(),
        attachments: attachments.iter().map(|bytes| bytes.to_vec()).collect(),
    }
}

fn event(json: &str, attachments: &[&[u8]], volatile: bool) -> Event {
    Event {
        name: "ev".to_owned(),
        args: args(json, attachments),
        volatile,
    }
}

fn broadcast(to: Selection, json: &str) -> Verb {
    let event = event(json, &[], false);
    Verb::Broadcast { to, event }
}

/// How a case is compared: some values have no place in JSON, and come back as what JSON makes of them.
#[derive(Clone, Copy, PartialEq)]
enum Bytes {
    Same,
    Differ,
}

use Bytes::{Differ, Same};

/// What the Node server is told to do, and what others are to read.
fn cases() -> Vec<(Value, Verb, Bytes)> {
    let id = "Zc7f0ch5oTBIRcgBAAAA";
    let long = "x".repeat(300);
    let numbers = "0,-1,127,128,255,256,65535,65536,4294967296,-32,-33,-129,-40000,-3000000000,1.5";
    let numbers_of_node = json!([
        0,
        -1,
        127,
        128,
        255,
        256,
        65535,
        65536,
        4294967296u64,
        -32,
        -33,
        -129,
        -40000,
        -3000000000i64,
        1.5
    ]);
    let bytes: &[&[u8]] = &[&[1, 2, 3], &[]];
    let placeholders = r#"{"_placeholder":true,"num":0},{"a":[{"_placeholder":true,"num":1}]}"#;
    vec![
        (
            json!({"do": "emit", "to": ["r1"], "event": "ev", "args": [{"n": 1}, "té"]}),
            broadcast(selection(&["r1"], &[]), r#"{"n":1},"té""#),
            Same,
        ),
        (
            json!({"do": "emit", "event": "ev", "args": [long, null, true, [], {}]}),
            broadcast(
                Selection::default(),
                &format!("\"{long}\",null,true,[],{{}}"),
            ),
            Same,
        ),
        (
            json!({"do": "emit", "event": "ev"}),
            broadcast(Selection::default(), ""),
            Same,
        ),
        (
            json!({"do": "emit", "event": "ev", "args": numbers_of_node}),
            broadcast(Selection::default(), numbers),
            Same,
        ),
        (
            json!({"do": "emit", "to": ["r1", "r2"], "except": ["r3"], "volatile": true, "event": "ev", "args": [1]}),
            Verb::Broadcast {
                to: selection(&["r1", "r2"], &["r3"]),
                event: event("1", &[], true),
            },
            Same,
        ),
        (
            json!({"do": "emit", "to": [id], "event": "ev", "args": [1]}),
            broadcast(selection(&[id], &[]), "1"),
            Same,
        ),
        (
            json!({"do": "emit", "to": ["r1"], "event": "ev", "args": [{"$bytes": "010203"}, {"a": [{"$bytes": ""}]}]}),
            Verb::Broadcast {
                to: selection(&["r1"], &[]),
                event: event(placeholders, bytes, false),
            },
            Same,
        ),
        (
            json!({"do": "emit", "to": [42, -7], "event": "ev", "args": [1]}),
            broadcast(selection(&["42", "-7"], &[]), "1"),
            Differ,
        ),
        (
            json!({"do": "emit", "event": "ev", "args": [{"$date": 1_700_000_000_123_u64}, {"$undefined": true}, {"a": {"$undefined": true}}]}),
            broadcast(
                Selection::default(),
                r#""2023-11-14T22:13:20.123Z",null,{}"#,
            ),
            Differ,
        ),
        (
            json!({"do": "ask", "to": ["r1"], "timeout": 100, "event": "ev", "args": [1]}),
            Verb::Ask {
                request: "?".to_owned(),
                to: selection(&["r1"], &[]),
                event: event("1", &[], false),
                timeout_ms: Some(100),
            },
            Same,
        ),
        (
            json!({"do": "ask", "timeout": 100, "event": "ev", "args": [{"$bytes": "010203"}, {"a": [{"$bytes": ""}]}]}),
            Verb::Ask {
                request: "?".to_owned(),
                to: Selection::default(),
                event: event(placeholders, bytes, false),
                timeout_ms: Some(100),
            },
            Same,
        ),
        (
            json!({"do": "join", "to": ["r1"], "except": ["r2"], "rooms": ["r3", "r4"]}),
            Verb::Join {
                of: selection(&["r1"], &["r2"]),
                rooms: words(&["r3", "r4"]),
            },
            Same,
        ),
        (
            json!({"do": "leave", "rooms": "r3"}),
            Verb::Leave {
                of: Selection::default(),
                rooms: words(&["r3"]),
            },
            Same,
        ),
        (
            json!({"do": "disconnect", "to": ["r9"], "close": true}),
            Verb::Disconnect {
                of: selection(&["r9"], &[]),
                close: true,
            },
            Same,
        ),
        (
            json!({"do": "disconnect", "to": ["r9"], "close": false}),
            Verb::Disconnect {
                of: selection(&["r9"], &[]),
                close: false,
            },
            Same,
        ),
        (
            json!({"do": "fetch", "to": ["r1"], "except": ["r2"]}),
            Verb::Fetch {
                request: "?".to_owned(),
                of: selection(&["r1"], &["r2"]),
            },
            Same,
        ),
        (
            json!({"do": "serverEmit", "args": ["ping-nodes", {"v": 1}]}),
            Verb::ServerEmit {
                request: None,
                args: args(r#""ping-nodes",{"v":1}"#, &[]),
            },
            Same,
        ),
        (
            json!({"do": "serverAsk", "args": ["ping-nodes", 5]}),
            Verb::ServerEmit {
                request: Some("?".to_owned()),
                args: args(r#""ping-nodes",5"#, &[]),
            },
            Same,
        ),
    ]
}

/// Names of questions are random.
fn masked(letter: &Letter) -> Verb {
    let mut verb = letter.verb.clone();
    match &mut verb {
        Verb::Ask { request, .. }
        | Verb::Fetch { request, .. }
        | Verb::Rooms { request }
        | Verb::ServerEmit {
            request: Some(request),
            ..
        } => {
            assert!(!request.is_empty());
            *request = "?".to_owned();
        }
        _ => {}
    }
    verb
}

fn check(dialect: Dialect, namespace: &str) {
    let redis = Redis::start();
    let mut peer = NodePeer::start(&redis.url(), dialect.name(), "/,/lab");
    let mut member = Member::join(&redis.addr(), dialect, namespace);
    let uid = peer.call(json!({"do": "uid", "nsp": namespace}));
    let mut all = cases();
    if dialect == Dialect::Classic {
        let request = "?".to_owned();
        all.push((json!({"do": "allRooms"}), Verb::Rooms { request }, Same));
    }
    for (mut command, expected, bytes) in all {
        command["nsp"] = namespace.into();
        let done = peer.begin(command.clone());
        let (letter, raw) = member.next();
        assert_eq!(masked(&letter), expected, "{command}");
        assert_eq!(letter.from, uid, "{command}");
        assert_eq!(letter.namespace, namespace, "{command}");
        if bytes == Same {
            let ours = member.encode(&letter);
            let raw = on_the_main_channel(dialect, &letter, raw);
            assert_eq!(ours, raw, "{command}:\n{}\n{}", shown(&ours), shown(&raw));
        }
        // Nobody answers the questions here; the next case does not wait for them.
        let _ = done;
    }
    assert!(peer.is_alive());
}

/// Sharded servers say to one room what they say to it in its own channel; we do not.
fn on_the_main_channel(dialect: Dialect, letter: &Letter, raw: Raw) -> Raw {
    match (raw, &letter.verb) {
        (Raw::Message(_, body), Verb::Broadcast { .. }) if dialect == Dialect::Sharded => {
            let main = Names::new("socket.io").main(&letter.namespace);
            Raw::Message(main, body)
        }
        (raw, _) => raw,
    }
}

fn shown(raw: &Raw) -> String {
    match raw {
        Raw::Message(channel, body) => format!("{channel} {}", body.escape_ascii()),
        Raw::Entry(fields) => fields
            .iter()
            .map(|(key, value)| format!("{}={} ", key.escape_ascii(), value.escape_ascii()))
            .collect(),
    }
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn the_classic_adapter_is_read_and_written_byte_by_byte() {
    check(Dialect::Classic, "/");
    check(Dialect::Classic, "/lab");
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn the_sharded_adapter_is_read_and_written_byte_by_byte() {
    check(Dialect::Sharded, "/lab");
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn the_streams_adapter_is_read_and_written_byte_by_byte() {
    check(Dialect::Streams, "/lab");
}
