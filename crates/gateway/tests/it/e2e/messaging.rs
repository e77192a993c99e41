//! Whom a message reaches: socket, user, room, several rooms, namespace, exceptions; acks both ways, binary, volatile.

use super::application::Application;
use super::client::{SocketIo, bytes};
use super::crowd::{heard, hearers, lab, parts};
use serde_json::{Value, json};

/// Twelve clients, three on each shard; `red` and `blue` overlap, and three users have four connections each.
struct Town {
    clients: Vec<SocketIo>,
    _application: Application,
}

const RED: [usize; 5] = [0, 1, 2, 3, 7];
const BLUE: [usize; 5] = [2, 3, 7, 9, 10];

impl Town {
    fn new() -> Self {
        let application = Application::start();
        let mut clients = lab(
            application.addr,
            3,
            |n| json!({ "user": format!("user-{}", n % 3) }),
        );
        for (room, members) in [("red", RED), ("blue", BLUE)] {
            for n in members {
                let rooms = clients[n].ask("join", &[room.into()]);
                let rooms = rooms[0].as_array().expect("a list of rooms");
                assert!(rooms.contains(&room.into()), "{rooms:?}");
            }
        }
        Self {
            clients,
            _application: application,
        }
    }

    fn id(&self, n: usize) -> Value {
        self.clients[n].id.as_str().into()
    }

    /// Client 0 does `how` to `whom`; exactly `receivers` get it, each once.
    fn reaches(&mut self, how: &str, whom: &Value, receivers: &[usize]) {
        let mut args = vec![
            whom.clone(),
            "hello".into(),
            json!({ "n": 1 }),
            "two".into(),
        ];
        if how == "all" {
            args.remove(0);
        }
        self.clients[0].emit(how, &args);
        let heard = heard(&mut self.clients);
        assert_eq!(hearers(&heard), receivers, "{how} {whom}");
        for n in receivers {
            let [event] = &heard[*n][..] else {
                panic!("{how} {whom}: client {n} got {:?}", heard[*n])
            };
            assert_eq!(event.name, "hello");
            assert_eq!(event.args, [json!({ "n": 1 }), "two".into()]);
        }
    }

    fn all_but(&self, left_out: &[usize]) -> Vec<usize> {
        (0..self.clients.len())
            .filter(|n| !left_out.contains(n))
            .collect()
    }
}

#[test]
fn each_target_reaches_its_members_on_every_shard_once() {
    let mut town = Town::new();
    for n in 0..12 {
        assert_eq!(
            parts(&town.clients[n].id).1,
            n % 4,
            "client {n} is where it should be"
        );
    }
    // One socket, here and on other shards.
    for n in [0, 1, 6, 11] {
        town.reaches("in", &town.id(n), &[n]);
    }
    town.reaches("to", &town.id(5), &[5]);
    // A user is all of its connections.
    town.reaches("to-user", &json!("user-1"), &[1, 4, 7, 10]);
    town.reaches(
        "to-user",
        &json!(["user-1", "user-2"]),
        &[1, 2, 4, 5, 7, 8, 10, 11],
    );
    // Rooms; members of several get one copy.
    town.reaches("in", &json!("red"), &RED);
    town.reaches("in", &json!(["red", "blue"]), &[0, 1, 2, 3, 7, 9, 10]);
    town.reaches(
        "in",
        &json!(["red", town.id(2), town.id(8)]),
        &[0, 1, 2, 3, 7, 8],
    );
    town.reaches("in", &json!("nobody-is-here"), &[]);
    // A name of a user is no room, a room no user.
    town.reaches("in", &json!("user-1"), &[]);
    town.reaches("to-user", &json!("red"), &[]);
    town.reaches("all", &json!(null), &town.all_but(&[]));
    // Exceptions: the sender, rooms, sockets, both.
    town.reaches("to", &json!("red"), &RED[1..]);
    town.reaches("to", &json!(["red", "blue"]), &[1, 2, 3, 7, 9, 10]);
    town.reaches("except", &json!("red"), &town.all_but(&RED));
    town.reaches("except", &json!(["red", "blue"]), &[4, 5, 6, 8, 11]);
    town.reaches("except", &town.id(6), &town.all_but(&[6]));
    town.reaches(
        "except",
        &json!(["blue", town.id(0)]),
        &town.all_but(&[0, 2, 3, 7, 9, 10]),
    );
}

#[test]
fn leaving_a_room_and_leaving_altogether_end_its_messages() {
    let mut town = Town::new();
    let rooms = town.clients[7].ask("leave", &["red".into()]);
    assert_eq!(rooms, [json!([town.id(7), "blue"])]);
    town.reaches("in", &json!("red"), &RED[..4]);
    town.clients[10].leave_session();
    let (events, code, _) = town.clients[10].until_closed();
    assert_eq!((events.len(), code), (0, None));
    town.clients.remove(10);
    town.reaches("in", &json!("blue"), &[2, 3, 7, 9]);
}

#[test]
fn namespaces_do_not_hear_each_other() {
    let mut town = Town::new();
    let addr = town._application.addr;
    let mut main = SocketIo::websocket(addr, "/", json!({}));
    assert_eq!(main.expect("auth"), [json!({})]);
    town.reaches("all", &json!(null), &town.all_but(&[]));
    // The same names elsewhere: nothing of `/lab` came in between.
    main.emit("message", &["mine".into()]);
    assert_eq!(main.expect("message-back"), ["mine"]);
}

#[test]
fn sockets_of_other_shards_can_be_moved_between_rooms_and_disconnected() {
    let mut town = Town::new();
    town.clients[0].emit("sockets-join", &["red".into(), "green".into()]);
    // Answered by every shard, behind the change.
    let fetched = town.clients[0].ask("fetch", &["green".into()]);
    let ids = |fetched: &[Value]| {
        let sockets = fetched[1].as_array().expect("sockets").iter();
        let mut ids: Vec<String> = sockets
            .map(|socket| socket["id"].as_str().expect("id").to_owned())
            .collect();
        ids.sort();
        ids
    };
    let mut members: Vec<String> = RED.iter().map(|n| town.clients[*n].id.clone()).collect();
    members.sort();
    assert_eq!(ids(&fetched), members);
    town.reaches("in", &json!("green"), &RED);
    town.clients[0].emit("sockets-leave", &["blue".into(), "green".into()]);
    town.reaches("in", &json!("green"), &[0, 1]);
    town.clients[0].emit("sockets-kick", &["blue".into(), true.into()]);
    for n in BLUE {
        let (events, _, how) = town.clients[n].until_closed();
        assert_eq!(
            (events.len(), how.as_str()),
            (0, "disconnect packet"),
            "client {n}"
        );
    }
    let rest = town.all_but(&BLUE);
    town.clients = town
        .clients
        .into_iter()
        .enumerate()
        .filter(|(n, _)| rest.contains(n))
        .map(|(_, c)| c)
        .collect();
    town.clients[0].emit("all", &["still".into()]);
    for client in &mut town.clients {
        assert!(client.expect("still").is_empty());
    }
}

#[test]
fn acks_go_both_ways_over_both_transports() {
    let application = Application::start();
    let clients = [
        SocketIo::websocket(application.addr, "/lab", json!({})),
        SocketIo::polling(application.addr, "/lab", json!({})),
    ];
    for mut client in clients {
        assert_eq!(client.ask("echo", &[]), Vec::<Value>::new());
        let args = [json!([1, { "a": null }]), "ü\u{2028}😀".into(), 0.5.into()];
        assert_eq!(client.ask("echo", &args), args);
        let binary = [
            json!({ "deep": [bytes(b"\x00\xff"), { "er": bytes(b"") }] }),
            bytes(&[7; 5_000]),
        ];
        assert_eq!(client.ask("echo", &binary), binary);
        client.emit("echo", &binary);
        assert_eq!(client.expect("echo"), binary);
        assert_eq!(client.ask("length", &[bytes(&[1; 70_000])]), [70_000]);
        // The server asks.
        client.emit("ask", &["why?".into(), bytes(b"x")]);
        let question = client.next();
        assert_eq!(
            (question.name.as_str(), &question.args[..]),
            ("question", &["why?".into(), bytes(b"x")][..])
        );
        client.answer(
            question.ack.expect("a question"),
            &["because".into(), bytes(b"y")],
        );
        assert_eq!(client.expect("answer"), ["because".into(), bytes(b"y")]);
    }
}

#[test]
fn a_room_on_all_shards_is_asked_and_late_ones_are_named_as_such() {
    let mut town = Town::new();
    let question = ["red".into(), 20_000.into(), "how-many".into(), 5.into()];
    town.clients[4].ask_later("collect", &question);
    for n in RED {
        let event = town.clients[n].next();
        assert_eq!(
            (event.name.as_str(), &event.args[..]),
            ("how-many", &[json!(5)][..])
        );
        town.clients[n].answer(event.ack.expect("a question"), &[n.into()]);
    }
    let [error, answers] = &town.clients[4].ack()[..] else {
        panic!("error and answers")
    };
    let mut answers: Vec<u64> = answers
        .as_array()
        .expect("answers")
        .iter()
        .filter_map(Value::as_u64)
        .collect();
    answers.sort_unstable();
    assert_eq!(
        (error, answers),
        (&json!(null), RED.map(|n| n as u64).to_vec())
    );

    let question = ["blue".into(), 300.into(), "how-many".into()];
    town.clients[4].ask_later("collect", &question);
    for n in BLUE {
        let event = town.clients[n].next();
        if n != 9 {
            town.clients[n].answer(event.ack.expect("a question"), &["me".into()]);
        }
    }
    let answer = town.clients[4].ack();
    assert_eq!(
        answer,
        [
            json!("operation has timed out"),
            json!(["me", "me", "me", "me"])
        ]
    );
}

/// Volatile events may be dropped, and are when nothing of the last one has left yet; others never.
#[test]
fn only_volatile_events_are_dropped() {
    const COUNT: u64 = 2_000;
    let application = Application::start();
    let clients = [
        SocketIo::websocket(application.addr, "/lab", json!({})),
        SocketIo::polling(application.addr, "/lab", json!({})),
    ];
    for mut client in clients {
        let numbers = |client: &mut SocketIo, how: &str| -> Vec<u64> {
            client.emit_all(&[(how, vec!["tick".into(), COUNT.into()]), ("echo", vec![])]);
            let events = client.until("echo");
            events
                .iter()
                .filter_map(|event| event.args[0].as_u64())
                .collect()
        };
        assert_eq!(
            numbers(&mut client, "burst"),
            (0..COUNT).collect::<Vec<_>>()
        );
        let volatile = numbers(&mut client, "volatile");
        assert!((volatile.len() as u64) < COUNT, "nothing was dropped");
        assert!(
            volatile.is_sorted(),
            "what came, came in order: {volatile:?}"
        );
    }
    // An idle client that is ready gets volatile events, one by one.
    let mut client = SocketIo::websocket(application.addr, "/lab", json!({}));
    for _ in 0..20 {
        client.emit("volatile", &["tick".into(), 1.into()]);
        assert_eq!(client.expect("tick"), [0]);
    }
}
