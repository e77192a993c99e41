//! What the log says of those who leave: the reason that wire and metrics have, whatever Socket.IO calls it.

use crate::identity::{frame, received, websocket};
use crate::rig::Rig;
use hub::config::Config;
use hub::{Context, Decision, DisconnectReason, Event, Handler, SocketKey};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SIO: &str = "/socket.io/?EIO=4&transport=websocket";

/// Lets everybody in, puts out who asks for it, and keeps what it is told of those who leave.
#[derive(Debug, Default)]
struct Door {
    told: Arc<Mutex<Vec<DisconnectReason>>>,
}

impl Handler for Door {
    fn connecting(&mut self, _: &mut Context<'_>, _: &hub::ConnectRequest<'_>) -> Decision {
        Decision::Admit
    }

    fn event(&mut self, cx: &mut Context<'_>, socket: SocketKey, event: Event<'_>) {
        match event.name {
            "leave" => cx.socket(socket).disconnect(false),
            "end" => cx.socket(socket).disconnect(true),
            "drop" => cx.socket(socket).drop_transport(),
            "fail" => std::panic::panic_any("a failure"),
            _ => {}
        }
    }

    fn disconnected(&mut self, _: &mut Context<'_>, _: SocketKey, reason: DisconnectReason) {
        self.told.lock().expect("nobody panics").push(reason);
    }
}

/// The line about a client that did this, and what the handler was told.
fn after(act: impl Fn(&mut Rig, usize)) -> (String, String) {
    let door = Door::default();
    let told = Arc::clone(&door.told);
    let mut rig = Rig::new(Config::default(), Box::new(door), 1);
    let client = websocket(&mut rig, SIO, "");
    rig.send(client, &frame("40"));
    act(&mut rig, client);
    let told = told.lock().expect("nobody panics");
    let [reason] = told[..] else {
        panic!("told {told:?}, logged {:?}", rig.log);
    };
    let lines = rig.log.iter().filter(|line| *line != "a handler failed");
    let [came, left] = &lines.collect::<Vec<_>>()[..] else {
        panic!("{:?}", rig.log);
    };
    assert_eq!(*came, "connected socket.io");
    (left.to_string(), reason.as_str().to_owned())
}

#[test]
fn the_log_has_the_close_reason_and_handlers_have_socketios_word() {
    let says = |text: &'static str| after(move |rig, client| rig.send(client, &frame(text)));
    let line = |reason: &str, word: &str| (format!("disconnected {reason}"), word.to_owned());
    assert_eq!(
        says("41"),
        line("client_namespace_disconnect", "client namespace disconnect")
    );
    assert_eq!(
        says("42[\"leave\"]"),
        line("server_namespace_disconnect", "server namespace disconnect")
    );
    assert_eq!(
        says("42[\"end\"]"),
        line("server_close", "server namespace disconnect")
    );
    assert_eq!(
        says("42[\"drop\"]"),
        line("server_close", "forced server close")
    );
    assert_eq!(
        says("42[\"fail\"]"),
        line("internal_error", "forced server close")
    );
    assert_eq!(says("x"), line("parse_error", "parse error"));
    assert_eq!(
        after(|rig, client| rig.send(client, b"\x81\x01x")),
        line("protocol_error", "transport error")
    );
    let too_big = format!("42[\"{}\"]", "x".repeat(2_000_000));
    assert_eq!(
        after(|rig, client| rig.send(client, &frame(&too_big))),
        line("message_too_big", "transport error")
    );
    assert_eq!(
        after(|rig, client| rig.end(client)),
        line("transport_close", "transport close")
    );
    assert_eq!(
        after(|rig, _| rig.pass(Duration::from_secs(60))),
        line("ping_timeout", "ping timeout")
    );
}

/// It was in, and the log has told that it left: nobody was refused.
#[test]
fn who_has_left_its_namespace_is_not_refused_later() {
    let mut rig = Rig::new(Config::default(), Box::new(Door::default()), 1);
    let client = websocket(&mut rig, SIO, "");
    rig.send(client, &frame("40"));
    rig.send(client, &frame("41"));
    rig.send(client, &frame("x"));
    assert_eq!(
        received(&mut rig, client).last().map(String::as_str),
        Some("close 4500 parse error")
    );
    let lines = [
        "connected socket.io",
        "disconnected client_namespace_disconnect",
    ];
    assert_eq!(rig.log, lines);
}

/// Tells the rooms of a socket that it goes, as applications do.
#[derive(Debug, Default)]
struct Mourner(Arc<Mutex<Vec<String>>>);

impl Handler for Mourner {
    fn connecting(&mut self, _: &mut Context<'_>, _: &hub::ConnectRequest<'_>) -> Decision {
        Decision::Admit
    }

    fn connected(&mut self, cx: &mut Context<'_>, socket: SocketKey, _: &str) {
        let mut socket = cx.socket(socket);
        socket.join("choir").expect("a good name");
        socket.set_data("{\"voice\":\"alto\"}");
        socket.set_user("ann").expect("it is connected");
    }

    fn event(&mut self, _: &mut Context<'_>, _: SocketKey, _: Event<'_>) {}

    fn disconnecting(&mut self, cx: &mut Context<'_>, socket: SocketKey, _: DisconnectReason) {
        let mut socket = cx.socket(socket);
        let rooms = socket.rooms();
        assert_eq!(rooms[0], socket.id().expect("known").to_string());
        let (user, data) = (socket.user(), socket.data());
        let line = format!("disconnecting {:?} {user:?} {data:?}", &rooms[1..]);
        self.0.lock().expect("nobody panics").push(line);
        socket.to(&["choir"]).emit(&hub::Emit::new("left", ""));
    }

    fn disconnected(&mut self, cx: &mut Context<'_>, socket: SocketKey, _: DisconnectReason) {
        let socket = cx.socket(socket);
        let line = format!("disconnected {:?} {:?}", socket.rooms(), socket.user());
        self.0.lock().expect("nobody panics").push(line);
    }
}

/// Rooms were left before the handler heard of it: it could not tell them.
#[test]
fn the_rooms_of_a_socket_that_goes_are_known_while_it_is_disconnecting() {
    let told = Arc::default();
    let mut rig = Rig::new(Config::default(), Box::new(Mourner(Arc::clone(&told))), 1);
    let [stays, goes] = [(); 2].map(|()| {
        let client = websocket(&mut rig, SIO, "");
        rig.send(client, &frame("40"));
        received(&mut rig, client);
        client
    });
    rig.send(goes, &frame("41"));
    assert_eq!(received(&mut rig, stays), ["42[\"left\"]"]);
    assert_eq!(received(&mut rig, goes), Vec::<String>::new());
    let told = told.lock().expect("nobody panics");
    assert_eq!(
        told[..],
        [
            r#"disconnecting ["choir"] Some("ann") Some("{\"voice\":\"alto\"}")"#,
            "disconnected [] None"
        ]
    );
}

/// Keeps the first socket's key, and acts on it when the next one speaks.
#[derive(Default)]
struct Haunted(Option<SocketKey>);

impl Handler for Haunted {
    fn connecting(&mut self, _: &mut Context<'_>, _: &hub::ConnectRequest<'_>) -> Decision {
        Decision::Admit
    }

    fn connected(&mut self, cx: &mut Context<'_>, socket: SocketKey, _: &str) {
        self.0.get_or_insert(socket);
        cx.socket(socket).join("choir").expect("a good name");
    }

    fn event(&mut self, cx: &mut Context<'_>, socket: SocketKey, _: Event<'_>) {
        let boo = hub::Emit::new("boo", "");
        let mut ghost = cx.socket(self.0.expect("one was here"));
        assert_eq!((ghost.id(), ghost.namespace()), (None, None));
        assert!(ghost.join("choir").is_err() && ghost.rooms().is_empty());
        assert!(!ghost.ask(&boo, std::time::Duration::from_secs(1), 1));
        ghost.emit(&boo);
        ghost.to(&["choir"]).emit(&boo);
        ghost.to(&[]).disconnect(true);
        ghost.disconnect(true);
        cx.socket(socket).to(&[]).emit(&hub::Emit::new("gone", ""));
        cx.of("/").to(&["choir"]).emit(&hub::Emit::new("here", ""));
    }
}

/// The slot of a socket that left belongs to the next one.
#[test]
fn a_key_of_a_socket_that_is_gone_names_nobody() {
    let mut rig = Rig::new(Config::default(), Box::new(Haunted::default()), 1);
    let clients = [(); 2].map(|()| {
        let client = websocket(&mut rig, SIO, "");
        rig.send(client, &frame("40"));
        client
    });
    rig.break_off(clients[0]);
    let last = websocket(&mut rig, SIO, "");
    rig.send(last, &frame("40"));
    let _ = received(&mut rig, last);
    rig.send(last, &frame("42[\"speak\"]"));
    assert_eq!(received(&mut rig, last), ["42[\"here\"]"]);
    let heard = received(&mut rig, clients[1]);
    assert_eq!(heard[heard.len() - 2..], ["42[\"gone\"]", "42[\"here\"]"]);
}
