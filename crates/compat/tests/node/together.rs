//! One Node server and one member of ours in a cluster: each reaches the other's sockets.

use crate::member::{ALL, Dialect, Member};
use compat::asked::{Asked, End, Step, Wait};
use compat::verb::{Answer, Args, Event, Fetched, Selection, Verb};
use serde_json::{Value, json};
use servers::{NodePeer, Redis, wait_for};

const LAB: &str = "/lab";

/// A Node server with two clients in /lab: `one` in r1 and 42, `two` in r2; and a member of ours.
struct Cluster {
    peer: NodePeer,
    member: Member,
    ids: [String; 2],
    _redis: Redis,
}

fn cluster(dialect: Dialect) -> Cluster {
    let redis = Redis::start();
    let mut peer = NodePeer::start(&redis.url(), dialect.name(), "/,/lab");
    let mut client = |name: &str, rooms: Value| {
        let id = peer.call(json!({"do": "client", "name": name, "nsp": LAB, "rooms": rooms}));
        id.as_str().expect("an id").to_owned()
    };
    let ids = [
        client("one", json!(["r1", 42])),
        client("two", json!(["r2"])),
    ];
    let member = Member::join(&redis.addr(), dialect, LAB);
    let mut cluster = Cluster {
        peer,
        member,
        ids,
        _redis: redis,
    };
    cluster.settle();
    cluster
}

impl Cluster {
    /// Until the Node server hears us: its subscriptions are not confirmed to anybody.
    fn settle(&mut self) {
        wait_for("the Node server hears", || {
            self.member.say(Verb::ServerEmit {
                request: None,
                args: text(r#""ping-nodes","there?""#),
            });
            std::thread::sleep(std::time::Duration::from_millis(20));
            let heard = self.peer.heard_else();
            heard.iter().any(|line| line["server"] == LAB).then_some(())
        });
        // What was asked more than once is heard before what comes now.
        self.member.say(Verb::ServerEmit {
            request: None,
            args: text(r#""ping-nodes","settled""#),
        });
        while self.peer.is_told(LAB)[1] != "settled" {}
    }

    fn broadcast(&mut self, to: Selection, args: Args) {
        let event = event(args);
        self.member.say(Verb::Broadcast { to, event });
    }
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|word| (*word).to_owned()).collect()
}

fn rooms(rooms: &[&str]) -> Selection {
    Selection {
        rooms: words(rooms),
        except: Vec::new(),
    }
}

fn text(json: &str) -> Args {
    Args {
        json: json.to_owned(),
        attachments: Vec::new(),
    }
}

fn event(args: Args) -> Event {
    Event {
        name: "ev".to_owned(),
        args,
        volatile: false,
    }
}

fn foreign(test: impl Fn(Dialect)) {
    ALL.into_iter().for_each(test);
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn clients_of_node_hear_what_we_say() {
    foreign(|dialect| {
        let mut cluster = cluster(dialect);
        cluster.broadcast(rooms(&["r1"]), text(r#"{"n":1},"té",1.5"#));
        assert_eq!(
            cluster.peer.hears("one", "ev"),
            json!([{"n": 1}, "té", 1.5])
        );
        let bytes = Args {
            json: r#"{"a":{"_placeholder":true,"num":0}}"#.to_owned(),
            attachments: vec![vec![1, 2, 255]],
        };
        cluster.broadcast(rooms(&["r1", "r2"]), bytes);
        let heard = json!([{"a": {"$bytes": "0102ff"}}]);
        assert_eq!(cluster.peer.hears("one", "ev"), heard);
        assert_eq!(cluster.peer.hears("two", "ev"), heard);
        // Node's rooms may be numbers; ours are text.
        cluster.broadcast(rooms(&["42"]), text("42"));
        assert_eq!(cluster.peer.hears("one", "ev"), json!([42]));
        let all_but_two = Selection {
            rooms: Vec::new(),
            except: words(&["r2"]),
        };
        cluster.broadcast(all_but_two, Args::default());
        assert_eq!(cluster.peer.hears("one", "ev"), json!([]));
        let id = cluster.ids[1].clone();
        cluster.broadcast(rooms(&[&id]), text("\"last\""));
        assert_eq!(cluster.peer.hears("two", "ev"), json!(["last"]));
        assert_eq!(cluster.peer.heard_else(), Vec::<Value>::new());
    });
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn clients_of_node_answer_us_and_all_answers_are_counted() {
    foreign(|dialect| {
        let mut cluster = cluster(dialect);
        let wait = Wait {
            expected: 1,
            heard: 1,
            deadline_ms: 5_000,
        };
        let mut asked = Asked::default();
        let opened = asked.open("q1".to_owned(), "acks", wait, 0);
        assert_eq!(opened, Ok(()));
        cluster.member.say(Verb::Ask {
            request: "q1".to_owned(),
            to: Selection::default(),
            event: event(text("7")),
            timeout_ms: Some(5_000),
        });
        let mut acks = Vec::new();
        let end = loop {
            let step = match cluster.member.answer("q1") {
                Verb::Answer {
                    answer: Answer::Count(count),
                    ..
                } => asked.server("q1", count, 1),
                Verb::Answer {
                    answer: Answer::Ack(args),
                    ..
                } => {
                    acks.push(args.json);
                    asked.socket("q1", 1)
                }
                other => panic!("{other:?}"),
            };
            if let Step::Closed(_, end) = step {
                break end;
            }
        };
        let all = End {
            answered: 1,
            silent: 0,
            owed: 0,
        };
        assert_eq!(end, all);
        acks.sort();
        assert_eq!(acks, ["\"one got ev\"", "\"two got ev\""]);
    });
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn sockets_of_node_are_found_and_moved_between_rooms_and_disconnected() {
    foreign(|dialect| {
        let mut cluster = cluster(dialect);
        cluster.member.say(Verb::Fetch {
            request: "q1".to_owned(),
            of: rooms(&["r1"]),
        });
        let found = Verb::Answer {
            request: "q1".to_owned(),
            to: String::new(),
            answer: Answer::Sockets(vec![Fetched {
                id: cluster.ids[0].clone(),
                rooms: words(&[&cluster.ids[0], "r1", "42"]),
                data: r#"{"of":"/lab"}"#.to_owned(),
            }]),
        };
        assert_eq!(cluster.member.answer("q1"), found);

        let joins = |cluster: &mut Cluster, verb: Verb, expected: Value| {
            cluster.member.say(verb);
            wait_for("the rooms of one", || {
                let is = cluster
                    .peer
                    .call(json!({"do": "localRooms", "nsp": LAB, "name": "one"}));
                (is == expected).then_some(())
            });
        };
        let id = cluster.ids[0].clone();
        let of = || rooms(&["r1"]);
        let rooms_of_one = words(&["r3"]);
        let join = Verb::Join {
            of: of(),
            rooms: rooms_of_one,
        };
        joins(&mut cluster, join, json!([id, "r1", 42, "r3"]));
        let leave = Verb::Leave {
            of: of(),
            rooms: words(&["42", "r1"]),
        };
        joins(&mut cluster, leave, json!([id, "r3"]));
        cluster.member.say(Verb::Disconnect {
            of: rooms(&["r2"]),
            close: true,
        });
        let why = cluster.peer.hears("two", "disconnect");
        assert_eq!(why, json!(["io server disconnect"]));
    });
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn node_servers_hear_events_for_servers_and_answer_them() {
    foreign(|dialect| {
        let mut cluster = cluster(dialect);
        cluster.member.say(Verb::ServerEmit {
            request: Some("q1".to_owned()),
            args: text(r#""ping-nodes",{"v":1}"#),
        });
        let answer = Verb::Answer {
            request: "q1".to_owned(),
            to: String::new(),
            answer: Answer::Emitted(text("\"heard ping-nodes\"")),
        };
        assert_eq!(cluster.member.answer("q1"), answer);
        assert_eq!(cluster.peer.is_told(LAB), json!(["ping-nodes", {"v": 1}]));
    });
}

/// Hears the peer's next question, and answers it.
fn answer(member: &mut Member, answers: &[Answer]) -> Verb {
    // Answers of classic servers, ours among them, come to everybody and do not say whose they are.
    let is_answer = |verb: &Verb| matches!(verb, Verb::Answer { .. });
    let letter = std::iter::repeat_with(|| member.next().0).find(|letter| !is_answer(&letter.verb));
    let letter = letter.expect("letters do not end");
    let request = match &letter.verb {
        Verb::Ask { request, .. } | Verb::Fetch { request, .. } | Verb::Rooms { request } => {
            request.clone()
        }
        Verb::ServerEmit { request, .. } => request.clone().expect("a question"),
        other => panic!("{other:?}"),
    };
    for answer in answers {
        member.say(Verb::Answer {
            request: request.clone(),
            to: letter.from.clone(),
            answer: answer.clone(),
        });
    }
    letter.verb
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_server_collects_the_acks_of_our_sockets() {
    foreign(|dialect| {
        let mut cluster = cluster(dialect);
        let command =
            json!({"do": "ask", "nsp": LAB, "event": "ev", "timeout": 20_000, "args": [1]});
        let asked = cluster.peer.begin(command);
        let bytes = Args {
            json: r#"{"_placeholder":true,"num":0},"second""#.to_owned(),
            attachments: vec![vec![9, 8]],
        };
        let acks = [text("\"ours\",2"), bytes, Args::default()].map(Answer::Ack);
        let answers: Vec<_> = [Answer::Count(3)].into_iter().chain(acks).collect();
        let verb = answer(&mut cluster.member, &answers);
        assert!(
            matches!(
                verb,
                Verb::Ask {
                    timeout_ms: Some(20_000),
                    ..
                }
            ),
            "{verb:?}"
        );
        let collected = cluster.peer.finish(asked);
        let collected = collected
            .as_array()
            .expect("the answers, without a timeout");
        assert_eq!(collected.len(), 5, "{collected:?}");
        for expected in [
            json!("one got ev"),
            json!("two got ev"),
            json!("ours"),
            json!({"$bytes": "0908"}),
        ] {
            assert!(collected.contains(&expected), "{expected} in {collected:?}");
        }
        // Nobody here: the question ends at once, because we say so.
        let asked = cluster.peer.begin(
            json!({"do": "ask", "nsp": LAB, "to": ["r1"], "event": "ev", "timeout": 20_000}),
        );
        answer(&mut cluster.member, &[Answer::Count(0)]);
        assert_eq!(cluster.peer.finish(asked), json!(["one got ev"]));
    });
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_server_finds_our_sockets() {
    foreign(|dialect| {
        let mut cluster = cluster(dialect);
        let ours = Fetched {
            id: "Zc7f0ch5oTBIRcgBAAAA".to_owned(),
            rooms: words(&["Zc7f0ch5oTBIRcgBAAAA", "r1", "42"]),
            data: r#"{"name":"té"}"#.to_owned(),
        };
        let asked = cluster
            .peer
            .begin(json!({"do": "fetch", "nsp": LAB, "to": ["r1"]}));
        answer(&mut cluster.member, &[Answer::Sockets(vec![ours])]);
        let found = cluster.peer.finish(asked);
        let found = found.as_array().expect("a list");
        assert_eq!(found.len(), 2, "{found:?}");
        let ours = found
            .iter()
            .find(|socket| socket["id"] == "Zc7f0ch5oTBIRcgBAAAA");
        let ours = ours.expect("our socket");
        assert_eq!(ours["data"], json!({"name": "té"}));
        assert_eq!(ours["rooms"], json!(["Zc7f0ch5oTBIRcgBAAAA", "r1", "42"]));
        assert_eq!(
            ours["handshake"]["headers"],
            json!({}),
            "applications read it"
        );
        let asked = cluster
            .peer
            .begin(json!({"do": "fetch", "nsp": LAB, "to": ["nobody"]}));
        answer(&mut cluster.member, &[Answer::Sockets(Vec::new())]);
        assert_eq!(cluster.peer.finish(asked), json!([]));
    });
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_server_gets_our_answer_to_an_event_for_servers() {
    foreign(|dialect| {
        let mut cluster = cluster(dialect);
        let command = json!({"do": "serverAsk", "nsp": LAB, "args": ["ping-nodes", 5]});
        for (ours, expected) in [
            (text("{\"ok\":true}"), json!({"ok": true})),
            (text("null"), json!(null)),
        ] {
            let asked = cluster.peer.begin(command.clone());
            answer(&mut cluster.member, &[Answer::Emitted(ours)]);
            assert_eq!(cluster.peer.finish(asked), json!([expected]));
        }
    });
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_classic_server_lists_our_rooms_and_we_its() {
    let mut cluster = cluster(Dialect::Classic);
    let asked = cluster.peer.begin(json!({"do": "allRooms", "nsp": LAB}));
    answer(&mut cluster.member, &[Answer::Rooms(words(&["ours"]))]);
    let rooms = cluster.peer.finish(asked);
    let rooms = rooms.as_array().expect("a list");
    for expected in [json!("ours"), json!("r1"), json!(42), json!("r2")] {
        assert!(rooms.contains(&expected), "{expected} in {rooms:?}");
    }
    let request = "q1".to_owned();
    cluster.member.say(Verb::Rooms { request });
    let Verb::Answer {
        answer: Answer::Rooms(rooms),
        ..
    } = cluster.member.answer("q1")
    else {
        panic!("no rooms")
    };
    assert!(rooms.contains(&"42".to_owned()), "{rooms:?}");
}

/// A server that sends answers to the asker's own channel instead of the common one, as we do.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_classic_server_that_answers_in_the_askers_own_channel_is_answered_there() {
    let redis = Redis::start();
    let mut peer = NodePeer::start_with(&redis.url(), "classic", "/,/lab", &["--specific"]);
    let mut member = Member::join(&redis.addr(), Dialect::Classic, LAB);
    let asked = peer.begin(json!({"do": "fetch", "nsp": LAB}));
    answer(&mut member, &[Answer::Sockets(Vec::new())]);
    assert_eq!(peer.finish(asked), json!([]));
}
