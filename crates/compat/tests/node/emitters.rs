//! Processes that speak and hear nothing: `@socket.io/redis-emitter`, and python-socketio's write-only manager.

use crate::member::{Dialect, Member, Raw};
use compat::python;
use compat::verb::{Answer, Args, Event, Letter, Selection, Verb, own_uid};
use serde_json::json;
use servers::{NodePeer, Python, Redis};

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|word| (*word).to_owned()).collect()
}

fn selection(rooms: &[&str], except: &[&str]) -> Selection {
    Selection {
        rooms: words(rooms),
        except: words(except),
    }
}

fn broadcast(to: Selection, json: &str, attachments: Vec<Vec<u8>>, volatile: bool) -> Verb {
    let args = Args {
        json: json.to_owned(),
        attachments,
    };
    let event = Event {
        name: "ev".to_owned(),
        args,
        volatile,
    };
    Verb::Broadcast { to, event }
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn the_redis_emitter_is_read() {
    let redis = Redis::start();
    let mut peer = NodePeer::start(&redis.url(), "none", "/");
    let mut member = Member::join(&redis.addr(), Dialect::Classic, "/lab");
    let bytes = r#"{"_placeholder":true,"num":0}"#;
    let cases = [
        (
            json!({"do": "emit", "to": ["r1"], "event": "ev", "args": ["room", {"$date": 0}]}),
            broadcast(
                selection(&["r1"], &[]),
                r#""room","1970-01-01T00:00:00.000Z""#,
                vec![],
                false,
            ),
            "emitter",
        ),
        (
            json!({"do": "emit", "to": ["r1", 42], "except": ["r3"], "volatile": true, "event": "ev", "args": [{"$bytes": "01"}]}),
            broadcast(
                selection(&["r1", "42"], &["r3"]),
                bytes,
                vec![vec![1]],
                true,
            ),
            "emitter",
        ),
        (
            json!({"do": "emit", "event": "ev"}),
            broadcast(Selection::default(), "", vec![], false),
            "emitter",
        ),
        (
            json!({"do": "join", "to": ["r1"], "rooms": ["r4", "r5"]}),
            Verb::Join {
                of: selection(&["r1"], &[]),
                rooms: words(&["r4", "r5"]),
            },
            "",
        ),
        (
            json!({"do": "leave", "except": ["r1"], "rooms": "r4"}),
            Verb::Leave {
                of: selection(&[], &["r1"]),
                rooms: words(&["r4"]),
            },
            "",
        ),
        (
            json!({"do": "disconnect", "to": ["r4"], "close": true}),
            Verb::Disconnect {
                of: selection(&["r4"], &[]),
                close: true,
            },
            "",
        ),
        (
            json!({"do": "serverEmit", "args": ["ping-nodes", "x"]}),
            Verb::ServerEmit {
                request: None,
                args: Args {
                    json: r#""ping-nodes","x""#.to_owned(),
                    attachments: Vec::new(),
                },
            },
            "emitter",
        ),
    ];
    for (mut command, verb, from) in cases {
        command["nsp"] = "/lab".into();
        command["via"] = "emitter".into();
        peer.call(command);
        let (letter, _) = member.next();
        assert_eq!((letter.verb, letter.from.as_str()), (verb, from));
    }
}

#[test]
#[ignore = "needs Python: cargo xtask test foreign"]
fn python_socketio_is_read_and_answered() {
    let redis = Redis::start();
    let messages = Member::python(&redis.addr());
    let mut peer = Python::start(&redis.url());
    let next = || match messages.recv_timeout(servers::PATIENCE) {
        Ok(Raw::Message(_, body)) => python::decode(&body).expect("a letter"),
        other => panic!("{other:?}"),
    };
    let bytes = r#"{"a": {"_placeholder": true, "num": 0}}, 2"#;
    let socket = "Zc7f0ch5oTBIRcgBAAAA";
    let cases = [
        (
            json!({"do": "emit", "via": "emitter", "args": ["ev", {"n": 1}], "options": {"room": "r1", "namespace": "/lab", "skip_sid": socket}}),
            broadcast(selection(&["r1"], &[socket]), r#"{"n": 1}"#, vec![], false),
        ),
        (
            json!({"do": "emit", "args": ["ev", null], "options": {"namespace": "/lab"}}),
            broadcast(Selection::default(), "null", vec![], false),
        ),
        (
            json!({"do": "emit", "args": ["ev", {"$tuple": [{"a": {"$bytes": "0102"}}, 2]}], "options": {"namespace": "/lab", "room": ["r1", "r2"]}}),
            broadcast(
                selection(&["r1", "r2"], &[]),
                bytes,
                vec![vec![1, 2]],
                false,
            ),
        ),
        (
            json!({"do": "enter_room", "args": [socket, "/lab", "r1"]}),
            Verb::Join {
                of: selection(&[socket], &[]),
                rooms: words(&["r1"]),
            },
        ),
        (
            json!({"do": "leave_room", "args": [socket, "/lab", "r1"]}),
            Verb::Leave {
                of: selection(&[socket], &[]),
                rooms: words(&["r1"]),
            },
        ),
        (
            json!({"do": "close_room", "args": ["r1", "/lab"]}),
            Verb::Leave {
                of: selection(&["r1"], &[]),
                rooms: words(&["r1"]),
            },
        ),
        (
            json!({"do": "disconnect", "args": [socket, "/lab"]}),
            Verb::Disconnect {
                of: selection(&[socket], &[]),
                close: false,
            },
        ),
    ];
    for (command, verb) in cases {
        peer.tell(&command);
        let letter = next();
        assert_eq!(letter.verb, verb, "{command}");
        assert_eq!(letter.namespace, "/lab", "{command}");
    }
    // A question: the answer comes to the callback.
    peer.tell(&json!({"do": "emit", "args": ["ev", 1], "options": {"room": socket, "namespace": "/lab"}, "callback": true}));
    let asked = next();
    let Verb::Ask { request, .. } = asked.verb else {
        panic!("{asked:?}")
    };
    let answer = Letter {
        from: own_uid(1, 1),
        namespace: "/lab".to_owned(),
        verb: Verb::Answer {
            request,
            to: asked.from,
            answer: Answer::Ack(Args {
                json: r#""fine",2"#.to_owned(),
                attachments: Vec::new(),
            }),
        },
    };
    let body = python::encode(&answer).expect("a word for it");
    let body = String::from_utf8(body).expect("JSON");
    redis.ask(&["PUBLISH", python::CHANNEL, &body]);
    assert_eq!(peer.callback(), json!(["fine", 2]));
}
