//! Logic outside: the real binary, workers over real links, and what clients see while workers work, freeze, leave, lose
//! their links and die.

mod credentials;
mod doorkeepers;
mod dynamic;
mod framing;
mod intake;
mod openings;
mod rebinding;
pub mod receiver;
mod siege;
mod troubles;
mod wakeups;
mod webhook;
pub mod worker;

use crate::harness::token::{SECRET, token};
use crate::harness::{Gateway, PATIENCE, SocketIo, eventually};
use backend::proto::command::What as Order;
use backend::proto::{self, FromWorker};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::LazyLock;
use worker::{Worker, emit, introduced, open, runtime, target};

/// A key for workers, and its entry.
pub static KEY: LazyLock<(String, String)> =
    LazyLock::new(|| identity::keys::generate("kitchen", &[]).expect("a key"));

/// A gateway whose main namespace has a backend.
pub struct Kitchen {
    pub gateway: Gateway,
    pub workers: SocketAddr,
}

impl Kitchen {
    /// `more`: keys of the backend.
    pub fn open(more: &str) -> Kitchen {
        Self::open_with("", more)
    }

    /// `workers`: keys of the listener for workers.
    fn open_with(workers: &str, more: &str) -> Kitchen {
        Self::start(&[], workers, more)
    }

    fn start(flags: &[&str], workers: &str, more: &str) -> Kitchen {
        Self::with_shards(4, flags, workers, more)
    }

    fn with_shards(shards: u16, flags: &[&str], workers: &str, more: &str) -> Kitchen {
        let config = format!(
            "[server]\nshards = {shards}\n[workers]\nlisten = \"127.0.0.1:0\"\n{workers}\n[namespaces.\"/\"]\nbackend = \"kitchen\"\n\
             [namespaces.\"/\".events.local]\naction = \"reply\"\n\
             [backends.kitchen]\napi_keys = [{:?}]\n{more}\n",
            KEY.1
        );
        let gateway = Gateway::start_with(&config, &[&["--profile", "socket.io"], flags].concat());
        let log = gateway.log();
        let line = log.iter().find(|line| line.contains("\"listening\""));
        let line: Value = serde_json::from_str(line.expect("a line")).expect("JSON");
        let workers = line["workers"].as_str().expect("an address");
        Kitchen {
            workers: workers.parse().expect("an address"),
            gateway,
        }
    }

    fn worker(&self, instance: &str) -> Worker {
        Worker::attach(self.workers, &KEY.0, instance)
    }

    fn client(&self) -> SocketIo {
        let mut client = SocketIo::connect(self.gateway.addr);
        assert_eq!(
            client.expect("hello"),
            [json!(client.sid)],
            "its id from the start"
        );
        client
    }

    pub fn metric(&self, name: &str) -> f64 {
        self.gateway.metric(name)
    }
}

#[test]
fn a_worker_is_the_logic_of_a_namespace() {
    let kitchen = Kitchen::open("");
    let worker = kitchen.worker("a");
    let mut client = kitchen.client();
    let said = json!(["echo", 1, {"a": [null, "\u{1f980}"]}]);
    assert_eq!(client.ask(1, &said), json!([1, {"a": [null, "\u{1f980}"]}]));
    // A rule comes before the worker.
    assert_eq!(client.ask(2, &json!(["local", "x"])), json!(["x"]));
    let connects = worker.memory().connects.clone();
    assert_eq!(connects[0].socket, client.sid);
    assert_eq!(connects[0].address, "127.0.0.1");
    let upgrade = connects[0].headers.iter();
    assert!(
        upgrade
            .clone()
            .any(|header| header.name.eq_ignore_ascii_case("upgrade"))
    );
    assert!(
        connects[0].query.contains("EIO=4"),
        "{:?}",
        connects[0].query
    );
}

/// A program asked for recovery, or had handlers for a namespace, and nothing told it that no client would ever come by that.
#[test]
fn a_worker_is_told_which_namespaces_are_its_own() {
    let recovers =
        |namespace: &str| format!("[namespaces.{namespace:?}.recovery]\nlevel = \"node\"\n");
    let others =
        "[namespaces.\"*\"]\nbackend = \"kitchen\"\n[namespaces.\"/chat\"]\nclient_joins = true\n";
    for (more, name, all_but, recovers) in [
        (String::new(), "/", false, false),
        (recovers("/"), "/", false, true),
        (
            format!("{others}{}", recovers("/chat")),
            "/chat",
            true,
            false,
        ),
        (format!("{others}{}", recovers("*")), "/chat", true, true),
    ] {
        let kitchen = Kitchen::open(&more);
        let worker = kitchen.worker("a");
        let welcome = worker.memory().welcome.clone().expect("a welcome");
        let manners = welcome.manners.expect("manners");
        let told = manners.namespaces.expect("its namespaces");
        assert!(told.names.iter().any(|own| own == name), "{more}{told:?}");
        assert_eq!((told.all_but, told.recovers), (all_but, recovers), "{more}");
        let own = |namespace: &str| told.names.iter().any(|name| name == namespace) != told.all_but;
        assert!(own("/") && !own("/chat"), "{more}{told:?}");
    }
}

#[test]
fn a_client_that_the_worker_refuses_is_told_why() {
    let kitchen = Kitchen::open("");
    let _worker = kitchen.worker("a");
    let mut client = SocketIo::open(kitchen.gateway.addr);
    client.send(r#"40{"bad":true}"#);
    let reply = client.packet();
    assert_eq!(reply, r#"44{"message":"not you","data":{"code":7}}"#);
    client.send("40{}");
    assert!(
        client.packet().starts_with("40{"),
        "another try is another try"
    );
}

#[test]
fn rooms_of_a_worker_are_those_of_all_shards() {
    let kitchen = Kitchen::open("");
    let worker = kitchen.worker("a");
    let mut clients: Vec<_> = (0..12).map(|_| kitchen.client()).collect();
    clients[0].emit(&json!(["news", "soup"]));
    for client in &mut clients {
        assert_eq!(client.expect("news"), [json!("soup")]);
    }
    // A join, a broadcast and a leave behind each other, on whatever shards the sockets are.
    let ids: Vec<String> = clients.iter().map(|client| client.sid.clone()).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    for round in 0..50 {
        let membership = proto::Membership {
            of: Some(target(&ids[..6])),
            rooms: vec!["bar".to_owned()],
        };
        worker.say(Order::Join(membership.clone()));
        worker.say(emit(&["bar"], "round", &json!([round])));
        worker.say(Order::Leave(membership));
        worker.say(emit(&["bar"], "late", &json!([round])));
    }
    worker.say(emit(&[], "end", &json!([])));
    for (at, client) in clients.iter_mut().enumerate() {
        let rounds = if at < 6 { 0..50 } else { 0..0 };
        for round in rounds {
            assert_eq!(client.packet(), format!(r#"42["round",{round}]"#));
        }
        assert_eq!(client.packet(), r#"42["end"]"#);
    }
}

#[test]
fn a_worker_asks_all_and_finds_all() {
    let kitchen = Kitchen::open("");
    let _worker = kitchen.worker("a");
    let mut clients: Vec<_> = (0..5).map(|_| kitchen.client()).collect();
    clients[0].emit(&json!(["survey"]));
    for (at, client) in clients.iter_mut().enumerate() {
        let question = client.packet_starting("42");
        let id: String = question[2..]
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        client.send(&format!("43{id}[{at}]"));
    }
    let mut said = clients[0].expect("answered");
    said[0]
        .as_array_mut()
        .expect("answers")
        .sort_by_key(ToString::to_string);
    assert_eq!(said, [json!([[0], [1], [2], [3], [4]]), json!(0)]);
    clients[1].emit(&json!(["who"]));
    let found = clients[1].expect("who");
    let found = found[0].as_array().expect("sockets");
    assert_eq!(found.len(), 5);
    let own = found
        .iter()
        .find(|socket| socket[0] == clients[1].sid.as_str());
    let own = own.expect("the asker");
    assert_eq!(own[2], json!({"cook": true}));
    assert!(
        own[1]
            .as_array()
            .expect("rooms")
            .contains(&json!("kitchen")),
        "{own}"
    );
}

#[test]
fn a_fetch_behind_a_join_finds_the_new_members_and_those_before_a_leave() {
    let kitchen = Kitchen::open("");
    let worker = kitchen.worker("a");
    let clients: Vec<_> = (0..8).map(|_| kitchen.client()).collect();
    let ids: Vec<&str> = clients.iter().map(|client| client.sid.as_str()).collect();
    let fetch = |query, room: &str| {
        Order::Fetch(proto::Fetch {
            of: Some(target(&[room])),
            query,
            timeout_ms: 10_000,
        })
    };
    let rounds = 200;
    for round in 0..rounds {
        let room = format!("room {round}");
        let membership = proto::Membership {
            of: Some(target(&ids)),
            rooms: vec![room.clone()],
        };
        worker.say(Order::Join(membership.clone()));
        worker.say(fetch(1_000 + 2 * round, &room));
        worker.say(Order::Leave(membership));
        worker.say(fetch(1_001 + 2 * round, &room));
    }
    let all = || worker.memory().found.len() == 2 * rounds as usize;
    assert!(eventually(PATIENCE, all), "{}", worker.memory().found.len());
    for found in &worker.memory().found {
        let expected = if found.query % 2 == 0 { ids.len() } else { 0 };
        let (number, count) = (found.query, found.sockets.len());
        assert_eq!((count, found.incomplete), (expected, false), "{number}");
    }
}

#[test]
fn the_end_of_a_socket_is_told_with_its_rooms_and_its_reason() {
    let kitchen = Kitchen::open("");
    let worker = kitchen.worker("a");
    let mut kicked = kitchen.client();
    let left = kitchen.client();
    kicked.emit(&json!(["kick"]));
    assert_eq!(kicked.packet(), "41");
    let (kicked, gone) = (kicked.sid.clone(), left.sid.clone());
    drop(left);
    assert!(eventually(PATIENCE, || worker.memory().gone.len() == 2));
    let memory = worker.memory();
    let reason = |id: &str| {
        let mut all = memory.gone.iter();
        let gone = all.find(|gone| gone.socket == id).expect("told");
        assert!(gone.rooms.iter().any(|room| room == "kitchen"), "{gone:?}");
        gone.reason.clone()
    };
    assert_eq!(reason(&kicked), "server namespace disconnect");
    assert!(reason(&gone).starts_with("transport"), "{}", reason(&gone));
}

#[test]
fn what_a_worker_says_wrongly_reaches_no_client_and_comes_back_as_an_error() {
    let kitchen = Kitchen::open("");
    let worker = kitchen.worker("a");
    let mut client = kitchen.client();
    let broken = |args: &'static str| {
        Order::Emit(Box::new(proto::Emit {
            to: Some(target(&[])),
            event: "x".to_owned(),
            args: args.into(),
            ..proto::Emit::default()
        }))
    };
    for args in ["]", "1,", "{", "\"a", "1 2"] {
        worker.say(broken(args));
    }
    worker.say(emit(&[], "sound", &json!([1])));
    assert_eq!(client.packet(), r#"42["sound",1]"#);
    assert!(eventually(PATIENCE, || worker.memory().failed.len() == 5));
    let failed = worker.memory().failed.clone();
    assert!(failed[0].message.contains("emit.args"), "{failed:?}");
}

/// A worker's list of rooms had come out empty, and everybody was put out.
#[test]
fn a_worker_that_named_nobody_reached_everybody() {
    let kitchen = Kitchen::open(&format!("[auth]\nsecret = {SECRET:?}"));
    let worker = kitchen.worker("a");
    let comes = |uid| {
        let auth = json!({"token": token(uid)});
        ::client::full::SocketIo::websocket(kitchen.gateway.addr, "/", auth)
    };
    let mut clients = ["ann", "ben", "eve"].map(comes);
    let nobody = proto::Target {
        all: false,
        ..target(&[])
    };
    worker.say(Order::Disconnect(proto::Disconnect {
        of: Some(nobody.clone()),
        close: true,
        drop: false,
    }));
    worker.say(Order::Emit(Box::new(proto::Emit {
        to: Some(proto::Target {
            users: vec!["ann".to_owned()],
            sockets: vec![clients[1].id.clone()],
            ..nobody
        }),
        event: "some".to_owned(),
        ..proto::Emit::default()
    })));
    worker.say(emit(&[], "last", &json!([])));
    let heard = clients.each_mut().map(|client| {
        let events = client.until("last");
        events.iter().any(|event| event.name == "some")
    });
    assert_eq!(heard, [true, true, false]);
    let failed = || worker.memory().failed.clone();
    assert!(eventually(PATIENCE, || !failed().is_empty()));
    let failed = failed();
    assert!(
        failed[0].message.starts_with("all: nobody is meant"),
        "{failed:?}"
    );
    assert_eq!(failed.len(), 1);
}

#[test]
fn attachments_that_do_not_stand_in_the_arguments_break_no_client() {
    let kitchen = Kitchen::open("");
    let worker = kitchen.worker("a");
    let mut client = kitchen.client();
    let with = |args: &'static str, attachments: usize| proto::Emit {
        to: Some(target(&[])),
        event: "x".to_owned(),
        args: args.into(),
        attachments: vec![b"soup".as_slice().into(); attachments],
        ..proto::Emit::default()
    };
    const FIRST: &str = r#"{"_placeholder":true,"num":0}"#;
    const SECOND: &str = r#"{"_placeholder":true,"num":1}"#;
    for (args, attachments) in [("1", 1), (SECOND, 1), (FIRST, 2), (FIRST, 11)] {
        worker.say(Order::Emit(with(args, attachments).into()));
        let ask = proto::Ask {
            emit: Some(with(args, attachments)),
            ..proto::Ask::default()
        };
        worker.say(Order::Ask(ask.into()));
    }
    worker.say(Order::Ack(proto::Ack {
        socket: client.sid.clone(),
        ack: 1,
        args: "1".into(),
        attachments: vec![b"soup".as_slice().into()],
    }));
    worker.say(Order::Emit(with(FIRST, 1).into()));
    assert_eq!(client.packet(), format!(r#"451-["x",{FIRST}]"#));
    assert!(eventually(PATIENCE, || worker.memory().failed.len() == 9));
    let failed = worker.memory().failed.clone();
    assert!(
        failed[0].message.contains("stand in args once"),
        "{failed:?}"
    );
    assert!(failed[7].message.contains("more than 10"), "{failed:?}");
}

/// An id of another namespace stood for its socket, also where another backend holds its logic.
#[test]
fn a_worker_spoke_to_a_socket_of_another_namespace_by_its_id() {
    let config = "\n[namespaces.\"/cellar\"]\nbackend = \"kitchen\"";
    let kitchen = Kitchen::open(config);
    let worker = kitchen.worker("a");
    let mut other = ::client::full::SocketIo::websocket(kitchen.gateway.addr, "/cellar", json!({}));
    let id = other.id.clone();
    worker.say(emit(&[&id], "wrong", &json!([1])));
    worker.say(Order::Ask(Box::new(proto::Ask {
        query: 7,
        emit: match emit(&[&id], "question", &json!([])) {
            Order::Emit(emit) => Some(*emit),
            other => panic!("{other:?}"),
        },
        timeout_ms: 5_000,
    })));
    worker.say(Order::Disconnect(proto::Disconnect {
        of: Some(target(&[&id])),
        close: false,
        drop: true,
    }));
    let mut right = target(&[&id]);
    "/cellar".clone_into(&mut right.namespace);
    worker.say(Order::Emit(Box::new(proto::Emit {
        to: Some(right),
        event: "right".to_owned(),
        ..proto::Emit::default()
    })));
    assert_eq!(other.next().name, "right");
}

#[test]
fn a_worker_without_the_key_is_sent_away() {
    let kitchen = Kitchen::open("");
    let runtime = runtime();
    let attempt = |key: &str, backend: &str, instance: &str| {
        let first = introduced(backend, instance);
        runtime.block_on(async {
            let (_frames, mut messages) = open(kitchen.workers, key, first).await?;
            messages.message().await
        })
    };
    let code = |attempt: Result<_, tonic::Status>| attempt.err().map(|status| status.code());
    assert_eq!(code(attempt(&KEY.0, "kitchen", "a")), None);
    let wrong = Some(tonic::Code::Unauthenticated);
    assert_eq!(code(attempt("sockeye_wrong", "kitchen", "a")), wrong);
    assert_eq!(code(attempt(&KEY.0, "cellar", "a")), wrong);
    let invalid = Some(tonic::Code::InvalidArgument);
    assert_eq!(code(attempt(&KEY.0, "kitchen", "")), invalid);
}

/// Its link ended, and it was welcomed as the one that it was, with the same message to say.
#[test]
fn a_worker_that_said_more_than_a_message_may_have_came_back_with_it_for_ever() {
    let kitchen = Kitchen::open("rehome_after = \"60s\"");
    let hello = introduced("kitchen", "a");
    let text = format!("\"{}\"", "x".repeat(17 << 20));
    let large = FromWorker {
        first: 1,
        commands: vec![proto::Command {
            what: Some(Order::Emit(Box::new(proto::Emit {
                to: Some(target(&[])),
                event: "x".to_owned(),
                args: text.into(),
                ..proto::Emit::default()
            }))),
            ..proto::Command::default()
        }],
        ..FromWorker::default()
    };
    runtime().block_on(async {
        let stream = open(kitchen.workers, &KEY.0, hello.clone()).await;
        let (frames, mut messages) = stream.expect("attached");
        assert!(messages.message().await.expect("a message").is_some());
        frames.send(large).await.expect("room");
        let told = messages.message().await.expect_err("it is sent away");
        assert_eq!(told.code(), tonic::Code::OutOfRange, "{told}");
        let again = open(kitchen.workers, &KEY.0, hello).await;
        let (_frames, mut messages) = again.expect("attached");
        let first = messages.message().await.expect("a message");
        let welcome = first.and_then(|message| message.welcome);
        assert!(!welcome.expect("a welcome").resumed, "it begins anew");
    });
}

/// Up to 16 MiB were read from anybody before the key was looked at, and the name in it went to the log.
#[test]
fn a_message_of_a_worker_without_a_key_was_read() {
    let kitchen = Kitchen::open("");
    let first = introduced(&"cellar".repeat(1_000), "");
    let opened = runtime().block_on(open(kitchen.workers, "sockeye_wrong", first));
    let status = opened.expect_err("no key");
    assert_eq!(status.code(), tonic::Code::Unauthenticated);
    let logged = |what: &str| kitchen.gateway.log().iter().any(|line| line.contains(what));
    assert!(eventually(PATIENCE, || logged("worker refused")));
    assert!(!logged("cellar"));
}
