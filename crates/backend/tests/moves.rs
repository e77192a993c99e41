//! Rooms of sockets that others change, while workers come and go.

use backend::proto::command::What as Order;
use backend::proto::item::What;
use backend::proto::{self, Command, FromWorker, Hello, ToWorker};
use backend::{Backend, Down, Event, Link, Name, Said, Settings, Up, Why};
use prost::Message;

const SOCKET: &str = "00000000000000000000";

fn name() -> Name {
    Name::parse(SOCKET).expect("a name")
}

fn attach(backend: &mut Backend, now_ms: u64, link: Link) {
    let hello = Hello {
        instance: format!("{link:?}"),
        ..Hello::default()
    };
    backend.attach(now_ms, link, &hello).expect("welcome");
}

fn items(backend: &mut Backend, link: Link) -> Vec<What> {
    let sent = std::iter::from_fn(|| backend.poll(1, link));
    let items = sent.flat_map(|message| ToWorker::decode(message).expect("a message").items);
    items.filter_map(|item| item.what).collect()
}

fn joins(backend: &mut Backend, now_ms: u64, room: &str) {
    let moved = Up::Moved {
        socket: name(),
        room: room.to_owned(),
        joined: true,
        by: 0,
    };
    backend.up(now_ms, moved);
}

/// A worker and its socket.
fn one() -> Backend {
    let mut backend = Backend::new(Settings::default());
    attach(&mut backend, 1, Link(1));
    let connect = proto::Connect {
        socket: SOCKET.to_owned(),
        namespace: "/".to_owned(),
        ..proto::Connect::default()
    };
    backend.up(1, Up::Connect(connect.into()));
    assert_eq!(items(&mut backend, Link(1)).len(), 1);
    let decision = proto::Decision {
        socket: SOCKET.to_owned(),
        admit: true,
        ..proto::Decision::default()
    };
    let said = FromWorker {
        handled: 1,
        first: 1,
        commands: vec![Command {
            what: Some(Order::Decision(decision)),
            ..Command::default()
        }],
        ..FromWorker::default()
    };
    backend.received(1, Link(1), said).expect("in order");
    assert_eq!(backend.bytes(), 0);
    backend
}

fn loses_its_worker(backend: &mut Backend) {
    backend.detached(2, Link(1));
    backend.tick(1_000);
    assert_eq!(backend.parked(), 1);
}

/// They were kept until a worker came, in the room of all clients, whatever the bound of one was.
#[test]
fn a_client_without_a_worker_that_changed_rooms_kept_others_from_speaking() {
    let mut backend = one();
    loses_its_worker(&mut backend);
    for _ in 0..1_000 {
        joins(&mut backend, 1_001, "kitchen");
    }
    assert_eq!(backend.bytes(), 0);
}

/// Meanwhile the worker that is lost took it out of the room.
#[test]
fn the_next_worker_of_a_socket_heard_of_rooms_of_before_it_came() {
    let mut backend = one();
    joins(&mut backend, 2, "kitchen");
    backend.up(2, Up::Upgraded { socket: name() });
    assert_eq!(items(&mut backend, Link(1)).len(), 2);
    loses_its_worker(&mut backend);
    attach(&mut backend, 1_001, Link(2));
    let described = Up::Described {
        socket: name(),
        rooms: Vec::new(),
        data: "{}".to_owned(),
    };
    backend.up(1_002, described);
    joins(&mut backend, 1_003, "hall");
    let got = items(&mut backend, Link(2));
    let [What::Resume(resume), What::Moved(moved)] = got.as_slice() else {
        panic!("{got:?}");
    };
    assert!(resume.rooms.is_empty());
    assert_eq!(moved.joined, ["hall"]);
    let handled = FromWorker {
        handled: 2,
        ..FromWorker::default()
    };
    backend.received(1_004, Link(2), handled).expect("in order");
    assert_eq!(backend.bytes(), 0);
}

/// The upgrade stood before them, and they were looked at only from the front.
#[test]
fn events_behind_an_upgrade_waited_for_a_worker_for_ever() {
    let mut backend = one();
    loses_its_worker(&mut backend);
    backend.up(1_001, Up::Upgraded { socket: name() });
    let event = |ack| {
        let said = Said {
            event: "order",
            ack,
            ..Said::default()
        };
        Up::Event(Event::new(name(), &said))
    };
    backend.up(1_002, event(7));
    backend.up(30_000, event(8));
    backend.take_out();
    backend.tick(1_002 + Settings::default().park_timeout_ms);
    let out = backend.take_out();
    let [refused] = out.as_slice() else {
        panic!("{out:?}");
    };
    let Down::Refuse { ack, why, .. } = refused.down else {
        panic!("{refused:?}");
    };
    assert_eq!((ack, why), (7, Why::Absent));
}
