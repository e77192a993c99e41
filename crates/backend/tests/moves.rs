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

fn upgraded(transport: &'static str) -> Up {
    Up::Upgraded {
        socket: name(),
        transport,
    }
}

fn says(first: u64, what: Order) -> FromWorker {
    FromWorker {
        handled: 1,
        first,
        commands: vec![Command {
            what: Some(what),
            ..Command::default()
        }],
        ..FromWorker::default()
    }
}

fn connect(socket: &str) -> proto::Connect {
    proto::Connect {
        socket: socket.to_owned(),
        namespace: "/".to_owned(),
        ..proto::Connect::default()
    }
}

fn comes(socket: &str) -> Up {
    Up::Connect {
        number: 1,
        connect: connect(socket).into(),
    }
}

fn admission(socket: &str) -> proto::Decision {
    proto::Decision {
        socket: socket.to_owned(),
        admit: true,
        ..proto::Decision::default()
    }
}

/// A worker that is asked about a socket.
fn asked() -> Backend {
    let mut backend = Backend::new(Settings::default());
    attach(&mut backend, 1, Link(1));
    backend.up(1, comes(SOCKET));
    assert_eq!(items(&mut backend, Link(1)).len(), 1);
    backend
}

/// A worker and its socket.
fn one() -> Backend {
    let mut backend = asked();
    let said = says(1, Order::Decision(admission(SOCKET)));
    backend.received(1, Link(1), said).expect("in order");
    assert_eq!(backend.bytes(), 0);
    backend
}

fn gone() -> proto::Gone {
    proto::Gone {
        socket: SOCKET.to_owned(),
        ..proto::Gone::default()
    }
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

#[test]
fn workers_heard_of_a_websocket_when_a_session_went_up_to_webtransport() {
    for transport in ["websocket", "webtransport"] {
        let mut backend = one();
        backend.up(2, upgraded(transport));
        let got = items(&mut backend, Link(1));
        let [What::Upgraded(told)] = got.as_slice() else {
            panic!("{got:?}");
        };
        assert_eq!(told.transport, transport);
        loses_its_worker(&mut backend);
        attach(&mut backend, 1_001, Link(2));
        backend.up(
            1_002,
            Up::Described {
                socket: name(),
                rooms: Vec::new(),
                data: "{}".to_owned(),
            },
        );
        let got = items(&mut backend, Link(2));
        let [What::Resume(resume)] = got.as_slice() else {
            panic!("{got:?}");
        };
        let introduced = resume.connect.as_ref().expect("an introduction");
        assert_eq!(introduced.transport, transport);
    }
}

/// Meanwhile the worker that is lost took it out of the room.
#[test]
fn the_next_worker_of_a_socket_heard_of_rooms_of_before_it_came() {
    let mut backend = one();
    joins(&mut backend, 2, "kitchen");
    backend.up(2, upgraded("websocket"));
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

/// It was forgotten with the events that had waited for long enough.
#[test]
fn the_end_of_a_socket_was_told_to_nobody_when_no_worker_came_for_a_while() {
    const HOUR_MS: u64 = 3_600_000;
    for (waits_ms, told) in [(HOUR_MS - 1_000, true), (HOUR_MS + 1_000, false)] {
        let mut backend = one();
        loses_its_worker(&mut backend);
        backend.up(500_000, Up::Gone(gone()));
        backend.tick(500_000 + waits_ms);
        attach(&mut backend, 600_000 + waits_ms, Link(2));
        let items = items(&mut backend, Link(2));
        let [resume, end] = items.as_slice() else {
            assert!(!told && items.is_empty(), "{items:?}");
            assert_eq!((backend.counts().dead_letters, backend.parked()), (1, 0));
            assert_eq!(backend.bytes(), 0);
            continue;
        };
        assert!(told && matches!(resume, What::Resume(_)), "{resume:?}");
        assert!(matches!(end, What::Gone(_)), "{end:?}");
    }
}

const COUNT: u64 = 200;

/// Many sockets of one worker, in a small room.
fn crowd() -> (Backend, Vec<String>) {
    let settings = Settings {
        queue_bytes_max: 64 << 10,
        ..Settings::default()
    };
    let mut backend = Backend::new(settings);
    attach(&mut backend, 1, Link(1));
    let names: Vec<String> = (0..COUNT).map(|number| format!("{number:020}")).collect();
    for (number, socket) in (1..).zip(&names) {
        backend.up(1, comes(socket));
        assert_eq!(items(&mut backend, Link(1)).len(), 1);
        let mut said = says(number, Order::Decision(admission(socket)));
        said.handled = number;
        backend.received(1, Link(1), said).expect("in order");
    }
    (backend, names)
}

fn says_something(backend: &mut Backend, socket: &str, ack: u64, args: &str) {
    let said = Said {
        event: "order",
        args,
        ack,
        ..Said::default()
    };
    let socket = Name::parse(socket).expect("a name");
    backend.up(1_001, Up::Event(Event::new(socket, &said)));
}

/// Ends may wait for long: they take no room that events need.
#[test]
fn ends_that_wait_for_a_worker_are_bounded() {
    let (mut backend, names) = crowd();
    backend.detached(2, Link(1));
    backend.tick(1_000);
    for socket in names {
        let end = proto::Gone { socket, ..gone() };
        backend.up(1_001, Up::Gone(end));
    }
    let lost = backend.counts().dead_letters;
    assert!(lost > 0 && lost < COUNT, "{lost}");
    assert_eq!(backend.parked() as u64, COUNT - lost);
    assert!(backend.bytes() <= 32 << 10, "{}", backend.bytes());
}

/// Those that came before the worker was given up took all the room there is, and more, without what is kept for them.
#[test]
fn ends_that_came_while_their_worker_was_away_were_kept_without_bound() {
    let (mut backend, names) = crowd();
    backend.detached(2, Link(1));
    for socket in names {
        let end = proto::Gone { socket, ..gone() };
        backend.up(3, Up::Gone(end));
    }
    assert_eq!(backend.counts().dead_letters, 0, "it may come back");
    backend.tick(1_000);
    let lost = backend.counts().dead_letters;
    assert!(lost > 0 && lost < COUNT, "{lost}");
    assert_eq!(backend.parked() as u64, COUNT - lost);
    assert!(backend.bytes() <= 32 << 10, "{}", backend.bytes());
    attach(&mut backend, 1_001, Link(2));
    let told = items(&mut backend, Link(2)).len() as u64;
    assert_eq!(told, 2 * (COUNT - lost));
    let handled = FromWorker {
        handled: told,
        ..FromWorker::default()
    };
    backend.received(1_002, Link(2), handled).expect("in order");
    assert_eq!((backend.bytes(), backend.sockets()), (0, 0));
}

/// They had been accepted while no worker was there, and went with the end of their client, for which there was no room.
#[test]
fn events_of_a_client_that_left_were_thrown_away_uncounted() {
    for (comes, early) in [(true, false), (false, false), (true, true)] {
        let (mut backend, names) = crowd();
        backend.detached(2, Link(1));
        // With or without its worker, which is given up then.
        backend.tick(if early { 500 } else { 1_000 });
        let large = "1".repeat(40 << 10);
        says_something(&mut backend, &names[0], 0, &large);
        for (ack, socket) in (0..).zip(&names[1..11]) {
            says_something(&mut backend, socket, ack, "1");
        }
        assert_eq!(backend.counts().events, 11);
        for socket in names[1..].iter().cloned() {
            let end = proto::Gone { socket, ..gone() };
            backend.up(1_002, Up::Gone(end));
        }
        backend.tick(1_400);
        let counts = backend.counts();
        assert_eq!((counts.dead_letters, counts.refused_absent), (189, 0));
        if comes {
            attach(&mut backend, 2_101, Link(2));
            let told = items(&mut backend, Link(2));
            let events = told.iter().filter(|item| matches!(item, What::Event(_)));
            let ends = told.iter().filter(|item| matches!(item, What::Gone(_)));
            assert_eq!((events.count(), ends.count()), (10, 10));
            continue;
        }
        // Nobody comes: all are too late, and all count. There is room for their ends then.
        backend.tick(1_001 + Settings::default().park_timeout_ms);
        let counts = backend.counts();
        assert_eq!((counts.dead_letters, counts.refused_absent), (189, 11));
        assert_eq!((backend.parked(), backend.sockets()), (11, 11));
    }
}

/// The upgrade stood before them, and they were looked at only from the front.
#[test]
fn events_behind_an_upgrade_waited_for_a_worker_for_ever() {
    let mut backend = one();
    loses_its_worker(&mut backend);
    backend.up(1_001, upgraded("websocket"));
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

/// It was introduced to a socket that was gone, and told of its end: the end of one socket had two workers.
#[test]
fn a_socket_that_a_leaving_worker_ended_came_to_another_one() {
    let mut backend = one();
    attach(&mut backend, 2, Link(2));
    backend.take_out();
    let end = proto::Disconnect {
        of: Some(proto::Target {
            namespace: "/".to_owned(),
            rooms: vec![SOCKET.to_owned()],
            ..proto::Target::default()
        }),
        ..proto::Disconnect::default()
    };
    let leaves = FromWorker {
        leaving: true,
        ..says(2, Order::Disconnect(end))
    };
    backend.received(2, Link(1), leaves).expect("in order");
    assert_eq!(backend.take_out().len(), 1, "the command");
    assert!(backend.take_farewells().is_empty());
    backend.up(3, Up::Gone(gone()));
    let got = items(&mut backend, Link(1));
    assert!(matches!(got.as_slice(), [What::Gone(_)]), "{got:?}");
    let handled = FromWorker {
        handled: 2,
        ..FromWorker::default()
    };
    backend.received(4, Link(1), handled).expect("in order");
    assert_eq!(backend.take_farewells(), [Link(1)]);
    assert!(items(&mut backend, Link(2)).is_empty());
    assert_eq!((backend.sockets(), backend.bytes()), (0, 0));
}

fn leaves() -> FromWorker {
    FromWorker {
        handled: 1,
        leaving: true,
        ..FromWorker::default()
    }
}

/// It had let the client in, and heard no more of it: the news waited for a worker that needed none.
#[test]
fn a_leaving_worker_was_not_told_of_a_client_that_left_before_its_decision() {
    let mut backend = asked();
    attach(&mut backend, 2, Link(2));
    backend.received(2, Link(1), leaves()).expect("in order");
    backend.up(3, Up::Gone(gone()));
    let got = items(&mut backend, Link(1));
    assert!(matches!(got.as_slice(), [What::Gone(_)]), "{got:?}");
    assert!(items(&mut backend, Link(2)).is_empty());
}

/// The worker ended it when its client had just left: both were told.
#[test]
fn a_client_that_left_while_its_worker_left_was_introduced_to_another_one() {
    let mut backend = one();
    attach(&mut backend, 2, Link(2));
    let said = Said {
        event: "order",
        ..Said::default()
    };
    let event = || Up::Event(Event::new(name(), &said));
    backend.up(2, event());
    assert_eq!(items(&mut backend, Link(1)).len(), 1);
    backend.received(2, Link(1), leaves()).expect("in order");
    backend.up(3, event());
    assert!(items(&mut backend, Link(1)).is_empty(), "it waits to move");
    backend.up(4, Up::Gone(gone()));
    let got = items(&mut backend, Link(1));
    let [What::Event(_), What::Gone(_)] = got.as_slice() else {
        panic!("{got:?}");
    };
    let handled = FromWorker {
        handled: 4,
        ..FromWorker::default()
    };
    backend.received(5, Link(1), handled).expect("in order");
    assert_eq!(backend.take_farewells(), [Link(1)]);
    assert!(items(&mut backend, Link(2)).is_empty());
    assert_eq!((backend.sockets(), backend.bytes()), (0, 0));
}

/// It was told goodbye at once: what it had asked for was never answered, and its handler failed.
#[test]
fn a_worker_that_asked_before_it_left_got_no_answer() {
    let mut backend = Backend::new(Settings::default());
    attach(&mut backend, 1, Link(1));
    let fetch = proto::Fetch {
        query: 7,
        of: Some(proto::Target::all_of("/")),
        timeout_ms: 1_000,
    };
    let said = FromWorker {
        handled: 0,
        leaving: true,
        ..says(1, Order::Fetch(fetch))
    };
    backend.received(2, Link(1), said).expect("in order");
    assert!(backend.take_farewells().is_empty());
    let out = backend.take_out();
    let Down::Do(Order::Fetch(asked)) = &out[0].down else {
        panic!("{out:?}");
    };
    backend.up(
        3,
        Up::Found(proto::Found {
            query: asked.query,
            ..proto::Found::default()
        }),
    );
    let got = items(&mut backend, Link(1));
    assert!(matches!(got.as_slice(), [What::Found(found)] if found.query == 7));
    backend.received(4, Link(1), leaves()).expect("in order");
    assert_eq!(backend.take_farewells(), [Link(1)]);
}

#[test]
fn a_worker_that_leaves_waits_for_no_answer_that_does_not_come() {
    let mut backend = Backend::new(Settings::default());
    attach(&mut backend, 1, Link(1));
    let count = proto::Count {
        query: 7,
        namespace: "/".to_owned(),
    };
    let said = FromWorker {
        handled: 0,
        leaving: true,
        ..says(1, Order::Count(count))
    };
    backend.received(2, Link(1), said).expect("in order");
    backend.tick(4_000);
    assert!(backend.take_farewells().is_empty());
    backend.tick(5_100);
    assert_eq!(backend.take_farewells(), [Link(1)]);
}

/// A worker that leaves, another one, and the socket from which the first is to part.
fn parting() -> Backend {
    let mut backend = one();
    attach(&mut backend, 2, Link(2));
    backend.received(2, Link(1), leaves()).expect("in order");
    let got = items(&mut backend, Link(1));
    assert!(
        matches!(got.as_slice(), [What::Part(part)] if part.socket == SOCKET),
        "{got:?}"
    );
    backend
}

fn parted(backend: &mut Backend) {
    let handled = FromWorker {
        handled: 2,
        ..FromWorker::default()
    };
    backend.received(4, Link(1), handled).expect("in order");
}

/// The worker was not told that the socket had moved: the end of another socket of the session was the end of this one there, too.
#[test]
fn the_end_of_a_socket_that_moved_was_told_by_two_workers() {
    let mut backend = parting();
    backend.up(3, Up::Gone(gone()));
    parted(&mut backend);
    assert!(items(&mut backend, Link(1)).is_empty());
    assert_eq!(backend.take_farewells(), [Link(1)]);
    let got = items(&mut backend, Link(2));
    let [What::Resume(_), What::Gone(_)] = got.as_slice() else {
        panic!("{got:?}");
    };
}

/// The worker ended the session by another of its sockets, and this one was moved before its end came.
#[test]
fn a_socket_whose_end_its_worker_had_told_came_to_another_one() {
    for gone_first in [true, false] {
        let mut backend = parting();
        let end = |backend: &mut Backend| backend.up(3, Up::Gone(gone()));
        if gone_first {
            end(&mut backend);
        }
        let ended = proto::Ended {
            socket: SOCKET.to_owned(),
        };
        let known = says(2, Order::Ended(ended));
        backend.received(3, Link(1), known).expect("in order");
        parted(&mut backend);
        if !gone_first {
            assert!(backend.take_farewells().is_empty());
            end(&mut backend);
            backend.tick(5);
        }
        assert_eq!(backend.take_farewells(), [Link(1)]);
        assert!(items(&mut backend, Link(2)).is_empty());
        assert_eq!((backend.sockets(), backend.bytes()), (0, 0));
    }
}

#[test]
fn the_next_worker_of_a_socket_is_not_told_to_part_from_it() {
    let mut backend = parting();
    backend.take_out();
    backend.detached(3, Link(1));
    backend.tick(1_000);
    let described = Up::Described {
        socket: name(),
        rooms: Vec::new(),
        data: "{}".to_owned(),
    };
    backend.up(1_001, described);
    let got = items(&mut backend, Link(2));
    assert!(matches!(got.as_slice(), [What::Resume(_)]), "{got:?}");
}

/// The first worker that came was told, and the others were not.
#[test]
fn the_end_of_a_node_was_told_to_one_worker_of_several() {
    let mut backend = Backend::new(Settings::default());
    let gone = proto::NodeGone { node: 7, life: 1 };
    backend.up(1, Up::NodeGone(gone));
    let mut hears = |number: u64, now_ms: u64| {
        let hello = Hello {
            instance: number.to_string(),
            ..Hello::default()
        };
        let link = Link(number);
        backend.attach(now_ms, link, &hello).expect("welcome");
        let sent = backend.poll(now_ms, link);
        sent.map_or(0, |sent| {
            ToWorker::decode(sent).expect("a message").items.len()
        })
    };
    assert_eq!(
        [hears(1, 500_000), hears(2, 500_100), hears(3, 559_000)],
        [1, 1, 1]
    );
    assert_eq!(hears(4, 560_000), 0, "it is no news any more");
}

#[test]
fn the_end_of_a_node_was_lost_while_no_worker_was_attached() {
    let mut backend = Backend::new(Settings::default());
    let ends = |backend: &mut Backend| -> Vec<u32> {
        let all = items(backend, Link(1)).into_iter().map(|item| match item {
            What::NodeGone(gone) => gone.node,
            other => panic!("{other:?}"),
        });
        all.collect()
    };
    let hello = |instance: &str| Hello {
        instance: instance.to_owned(),
        ..Hello::default()
    };
    for node in 0..100 {
        backend.up(1, Up::NodeGone(proto::NodeGone { node, life: 1 }));
    }
    backend.attach(1, Link(1), &hello("a")).expect("welcome");
    let newest: Vec<u32> = (36..100).collect();
    assert_eq!(ends(&mut backend), newest);
    // It did not say that it handled them, and is lost.
    backend.detached(2, Link(1));
    backend.tick(60_000);
    assert_eq!(backend.workers(), 0);
    backend
        .attach(60_001, Link(1), &hello("b"))
        .expect("welcome");
    assert_eq!(ends(&mut backend), newest);
    let handled = FromWorker {
        handled: 64,
        ..FromWorker::default()
    };
    backend
        .received(60_002, Link(1), handled)
        .expect("in order");
    assert_eq!(backend.bytes(), 0);
}
