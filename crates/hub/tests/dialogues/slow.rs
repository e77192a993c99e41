//! Events that wait for clients that do not read: policies per namespace, in every protocol and form.

use crate::compression::{frames, upgrade};
use crate::rig::{self, Rig, handler, rule};
use flate2::Decompress;
use hub::Written;
use hub::config::{Compression, Config, PlainRaw, SlowConsumer, SlowEvents};
use hub::{ConnectRequest, Context, Decision, Emit, Event, Handler, SocketKey};
use hub::{Look, Question, RoomsWanted, Sight};
use rules::{Action, EventRule, NamespaceRules, Rules};
use std::sync::atomic::Ordering;
use std::time::Duration;

const ROUNDS: usize = 50;
const SYMBOLS: [&str; 3] = ["AA", "BB", "CC"];
const DEFLATE: &str = "permessage-deflate; client_max_window_bits";

/// How a client is connected, and what it gets when it reads again.
#[derive(Clone, Copy, Debug)]
enum Form {
    SocketIo,
    Deflated,
    Polling,
    PlainJson,
    PlainMsgpack,
    PlainRaw,
}

const FORMS: [Form; 6] = [
    Form::SocketIo,
    Form::Deflated,
    Form::Polling,
    Form::PlainJson,
    Form::PlainMsgpack,
    Form::PlainRaw,
];

fn rig(policy: SlowConsumer, key: Option<&str>) -> Rig {
    let mut config = Config {
        compression: Compression {
            websocket: true,
            ..Compression::default()
        },
        plain_raw: Some(PlainRaw {
            namespace: "/".to_owned(),
            ..rig::lab_raw()
        }),
        ..Config::default()
    };
    config.limits.outbox_bytes_max = 64 * 1024;
    let key = key.map(str::to_owned);
    config
        .slow_consumers
        .insert("/".to_owned(), SlowEvents { policy, key });
    Rig::lab(config, 1)
}

/// Opens a client of that form; a polling one is named by its session.
fn connect(rig: &mut Rig, form: Form) -> (usize, String) {
    let socketio = "/socket.io/?EIO=4&transport=websocket";
    let name = match form {
        Form::SocketIo => upgrade(rig, socketio, "").0,
        Form::Deflated => upgrade(rig, socketio, DEFLATE).0,
        Form::PlainJson => upgrade(rig, "/ws", "").0,
        Form::PlainRaw => upgrade(rig, "/raw", "").0,
        Form::PlainMsgpack => {
            let name = rig.open();
            rig.send(
                name,
                b"GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                  Sec-WebSocket-Protocol: sockeye.msgpack\r\nSec-WebSocket-Version: 13\r\n\
                  Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            );
            name
        }
        Form::Polling => {
            let name = rig.open();
            rig.send(name, &request("GET", "", ""));
            let open = String::from_utf8(rig.take(name)).expect("text");
            let sid = open.split("\"sid\":\"").nth(1).expect("a sid");
            let sid = format!("&sid={}", &sid[..20]);
            rig.send(name, &request("POST", &sid, "40"));
            rig.send(name, &request("GET", &sid, ""));
            rig.take(name);
            return (name, sid);
        }
    };
    if matches!(form, Form::SocketIo | Form::Deflated) {
        rig.send(name, &rig::masked(b"40"));
    }
    rig.take(name);
    (name, String::new())
}

fn request(method: &str, sid: &str, body: &str) -> Vec<u8> {
    let len = body.len();
    format!(
        "{method} /socket.io/?EIO=4&transport=polling{sid} HTTP/1.1\r\nHost: x\r\nUser-Agent: Mozilla/5.0\r\n\
         Content-Length: {len}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// What waited, as text that holds the numbers of the events.
fn read_again(rig: &mut Rig, (name, sid): &(usize, String), form: Form) -> String {
    rig.wires.kernel = Box::new(|_, n| Written::Bytes(n));
    if let Form::Polling = form {
        rig.send(*name, &request("GET", sid, ""));
    } else {
        rig.writable(*name);
    }
    let bytes = rig.take(*name);
    match form {
        Form::Polling => String::from_utf8_lossy(&bytes).into_owned(),
        _ => {
            let all = frames(&bytes, &mut Decompress::new(false), false);
            all.into_iter().map(|got| got.text + "\n").collect()
        }
    }
}

/// A publisher tells the price of three symbols fifty times while the client does not read.
fn stall_and_publish(rig: &mut Rig, form: Form, pad: usize) -> (usize, String) {
    let client = connect(rig, form);
    let sender = connect(rig, Form::SocketIo).0;
    let slow = client.0;
    rig.wires.kernel = Box::new(move |name, n| match name == slow {
        true => Written::WouldBlock,
        false => Written::Bytes(n),
    });
    let pad = "p".repeat(pad);
    for round in 0..ROUNDS {
        for symbol in SYMBOLS {
            let tick = format!(
                "42[\"shout\",{{\"symbol\":\"{symbol}\",\"price\":\"{symbol}-{round:02}.\",\"pad\":\"{pad}\"}}]"
            );
            rig.send(sender, &rig::masked(tick.as_bytes()));
        }
    }
    client
}

fn rounds_of(text: &str, symbol: &str) -> Vec<usize> {
    let there = |round: &usize| text.contains(&format!("{symbol}-{round:02}."));
    (0..ROUNDS).filter(there).collect()
}

fn dropped(rig: &mut Rig, policy: SlowConsumer) -> u64 {
    rig.finish_turn();
    rig.cells.dropped_slow[policy as usize].load(Ordering::Relaxed)
}

#[test]
fn of_each_key_only_the_newest_waits_in_every_protocol_and_form() {
    for form in FORMS {
        let mut rig = rig(SlowConsumer::Conflate, Some("symbol"));
        let client = stall_and_publish(&mut rig, form, 1_200);
        let text = read_again(&mut rig, &client, form);
        for symbol in SYMBOLS {
            assert_eq!(rounds_of(&text, symbol), [ROUNDS - 1], "{form:?} {symbol}");
        }
        let replaced = SYMBOLS.len() * (ROUNDS - 1);
        assert_eq!(
            dropped(&mut rig, SlowConsumer::Conflate),
            replaced as u64,
            "{form:?}"
        );
    }
}

#[test]
fn without_a_member_the_name_and_the_room_are_the_key() {
    let mut rig = rig(SlowConsumer::Conflate, None);
    let client = stall_and_publish(&mut rig, Form::SocketIo, 10);
    let text = read_again(&mut rig, &client, Form::SocketIo);
    let all = SYMBOLS.map(|symbol| rounds_of(&text, symbol).len());
    assert_eq!(all, [0, 0, 1]);
}

/// A slow client whose packets wait, and what it finds when it reads again.
fn conflated(handler: Box<dyn Handler>, before: &[&str], packets: &[&str]) -> String {
    let config = Config {
        slow_consumer: SlowConsumer::Conflate,
        ..Config::default()
    };
    let mut rig = Rig::new(config, handler, 1);
    let client = connect(&mut rig, Form::SocketIo);
    for packet in before {
        rig.send(client.0, &rig::masked(packet.as_bytes()));
    }
    rig.take(client.0);
    rig.wires.kernel = Box::new(|_, _| Written::WouldBlock);
    for packet in packets {
        rig.send(client.0, &rig::masked(packet.as_bytes()));
    }
    read_again(&mut rig, &client, Form::SocketIo)
}

#[test]
fn events_of_one_name_in_two_namespaces_do_not_replace_each_other() {
    let packets = ["42[\"tick\",1]", "42/lab,[\"tick\",2]", "42[\"tick\",3]"];
    let text = conflated(handler(&rig::lab_rules()), &["40/lab,"], &packets);
    assert_eq!(text, "42[\"tick\",3]\n42/lab,[\"tick\",2]\n");
}

#[test]
fn histories_of_two_rooms_do_not_replace_each_other() {
    let kept = EventRule {
        history: true,
        ..rule(Action::Rooms {
            room: None,
            echo: false,
        })
    };
    let main = NamespaceRules {
        client_joins: true,
        events: [("say".to_owned(), kept)].into(),
        ..NamespaceRules::new(rule(Action::Drop))
    };
    let rules = Rules {
        namespaces: [("/".to_owned(), main)].into(),
    };
    let say = |room: &str| {
        let join = format!("42[\"join\",\"{room}\"]");
        let leave = format!("42[\"leave\",\"{room}\"]");
        [join, format!("42[\"say\",\"in-{room}\"]"), leave]
    };
    let before = [say("a"), say("b")].concat();
    let before: Vec<&str> = before.iter().map(String::as_str).collect();
    let joins = ["42[\"join\",\"a\"]", "42[\"join\",\"b\"]"];
    let text = conflated(handler(&rules), &before, &joins);
    for said in ["in-a", "in-b"] {
        assert_eq!(text.matches(said).count(), 1, "{said}: {text}");
    }
}

/// Asks the client back, once for each event.
struct Asks;

impl Handler for Asks {
    fn connecting(&mut self, _: &mut Context<'_>, _: &ConnectRequest<'_>) -> Decision {
        Decision::Admit
    }

    fn event(&mut self, cx: &mut Context<'_>, socket: SocketKey, event: Event<'_>) {
        let question = Emit {
            name: "question",
            args: event.args,
            ..Emit::default()
        };
        assert!(cx.socket(socket).ask(&question, Duration::from_secs(9), 1));
    }
}

#[test]
fn questions_of_one_name_do_not_replace_each_other() {
    let text = conflated(Box::new(Asks), &[], &["42[\"x\",1]", "42[\"x\",2]"]);
    let asked: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_once('['))
        .map(|(_, args)| args)
        .collect();
    assert_eq!(asked, ["\"question\",1]", "\"question\",2]"]);
}

#[test]
fn drop_newest_keeps_the_first_and_drop_oldest_the_last_in_every_protocol_and_form() {
    for form in FORMS {
        for policy in [SlowConsumer::DropNewest, SlowConsumer::DropOldest] {
            let mut rig = rig(policy, None);
            let client = stall_and_publish(&mut rig, form, 3_000);
            let text = read_again(&mut rig, &client, form);
            let kept = SYMBOLS.map(|symbol| rounds_of(&text, symbol));
            let count: usize = kept.iter().map(Vec::len).sum();
            // Compressed, all of them fit.
            let fits = matches!(form, Form::Deflated);
            assert_eq!(count == ROUNDS * SYMBOLS.len(), fits, "{form:?} {policy:?}");
            let missing = ROUNDS * SYMBOLS.len() - count;
            assert_eq!(
                dropped(&mut rig, policy),
                missing as u64,
                "{form:?} {policy:?}"
            );
            let whole = |rounds: &Vec<usize>| {
                let first = if policy == SlowConsumer::DropNewest {
                    0
                } else {
                    ROUNDS - rounds.len()
                };
                rounds.iter().copied().eq(first..first + rounds.len())
            };
            assert!(kept.iter().all(whole), "{form:?} {policy:?}: {kept:?}");
        }
    }
}

/// Its client was disconnected for it, came back for it, and was disconnected again.
#[test]
fn one_event_that_is_larger_than_the_bound_ends_nobody() {
    for (form, larger) in FORMS.into_iter().flat_map(|form| [(form, 1), (form, 2)]) {
        let mut rig = rig(SlowConsumer::Disconnect, None);
        let client = connect(&mut rig, form);
        let sender = connect(&mut rig, Form::SocketIo).0;
        let slow = client.0;
        rig.wires.kernel = Box::new(move |name, n| match name == slow {
            true => Written::WouldBlock,
            false => Written::Bytes(n),
        });
        let mut shout = |text: &str| {
            let event = format!("42[\"shout\",\"{text}\"]");
            rig.send(sender, &rig::masked(event.as_bytes()));
        };
        shout("before");
        let noise = noise(400_000);
        (0..larger).for_each(|_| shout(&noise));
        shout("behind");
        rig.finish_turn();
        let text = read_again(&mut rig, &client, form);
        let all = text.contains("before") && text.contains(&noise) && text.contains("behind");
        assert_eq!(all, larger == 1, "{form:?}: {} bytes", text.len());
    }
}

/// Letters that no compression makes few.
fn noise(count: usize) -> String {
    let mut state = 7u32;
    let letter = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b'a' + (state >> 24) as u8 % 26)
    };
    (0..count).map(letter).collect()
}

/// Two clients that do not read cost one copy of what waits for both.
#[test]
fn what_several_clients_wait_for_is_kept_once() {
    let mut rig = rig(SlowConsumer::Disconnect, None);
    let slow: Vec<usize> = (0..50)
        .map(|_| connect(&mut rig, Form::SocketIo).0)
        .collect();
    let sender = connect(&mut rig, Form::SocketIo).0;
    rig.wires.kernel = Box::new(move |name, n| match name == sender {
        true => Written::Bytes(n),
        false => Written::WouldBlock,
    });
    let text = format!("42[\"shout\",\"{}\"]", "x".repeat(10_000));
    rig.send(sender, &rig::masked(text.as_bytes()));
    let memory = rig.hub.memory();
    let outboxes = memory.iter().find(|(part, _)| *part == "outboxes");
    let bytes = outboxes.expect("a part").1;
    assert!(
        (10_000..50_000).contains(&bytes),
        "{bytes} bytes for {} clients",
        slow.len()
    );
}

/// What waits in the whole process is bounded: beyond it a slow client has room for little.
#[test]
fn too_much_waiting_in_the_process_makes_each_outbox_small() {
    let mut config = Config::default();
    config.limits.waiting_bytes_max = 100_000;
    let mut rig = Rig::lab(config, 1);
    let slow = connect(&mut rig, Form::SocketIo).0;
    let sender = connect(&mut rig, Form::SocketIo).0;
    rig.wires.kernel = Box::new(move |name, n| match name == sender {
        true => Written::Bytes(n),
        false => Written::WouldBlock,
    });
    let text = format!("42[\"shout\",\"{}\"]", "x".repeat(10_000));
    let mut sent = 0;
    while rig.hub.census().sockets == 2 && sent < 100 {
        rig.send(sender, &rig::masked(text.as_bytes()));
        sent += 1;
    }
    // Ten fill the process's share; the next finds it full.
    assert!((9..=12).contains(&sent), "{sent} events for client {slow}");
    rig.finish_turn();
    let limit = hub::metrics::Limit::WaitingBytes as usize;
    assert_eq!(rig.cells.limits[limit].load(Ordering::Relaxed), 1);
}

/// Rooms that nobody asked for are no reason to forget those that are wanted.
#[test]
fn a_slow_room_is_found_among_thousands_of_other_namespaces() {
    const ROOMS: usize = 900;
    let namespace = |name: &str, rooms: usize| NamespaceRules {
        backend: None,
        chat: false,
        client_joins: true,
        auto_join: (0..rooms).map(|n| format!("{name}-{n}")).collect(),
        reads_history: false,
        lives: rules::bridge::Buses::default(),
        presence: false,
        recovers: false,
        events: [].into(),
        default_event: rule(Action::Reply),
    };
    let crowd: Vec<String> = (0..10).map(|n| format!("/{n}")).collect();
    let rules = Rules {
        namespaces: crowd
            .iter()
            .map(|name| (name.clone(), namespace(name, ROOMS)))
            .chain([("/lab".to_owned(), namespace("small", 1))])
            .collect(),
    };
    let mut rig = Rig::new(Config::default(), handler(&rules), 1);
    let mut clients = Vec::new();
    for name in crowd.iter().map(String::as_str).chain(["/lab"]) {
        let client = upgrade(&mut rig, "/socket.io/?EIO=4&transport=websocket", "").0;
        rig.send(client, &rig::masked(format!("40{name},").as_bytes()));
        clients.push((client, name));
    }
    rig.wires.kernel = Box::new(|_, _| Written::WouldBlock);
    for (client, name) in clients {
        let text = "x".repeat(if name == "/lab" { 1 } else { 1_000 });
        let text = format!("42{name},[\"echo\",\"{text}\"]");
        rig.send(client, &rig::masked(text.as_bytes()));
    }
    let found = |namespace: &str, contains: &str| {
        let mut look = Look::new(Question::SlowRooms(RoomsWanted {
            namespace: Some(namespace.to_owned()),
            contains: contains.to_owned(),
            limit: 10,
        }));
        let sight = (0..1_000).find_map(|_| look.step(&rig.hub, 2_048));
        let Some(Sight::Rooms(seen)) = sight else {
            panic!("{sight:?}");
        };
        let rooms = seen.items.iter();
        rooms.map(|room| room.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(found("/lab", ""), ["small-0"]);
    assert_eq!(found("/9", "-899"), ["/9-899"]);
    assert_eq!(found("/9", "").len(), 10);
}
