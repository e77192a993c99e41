//! A client that comes back to the id that it had: nothing of its connection before is taken for a part of the next one.

use backend::proto::command::What as Order;
use backend::proto::item::What;
use backend::proto::{self, Command, FromWorker, Hello, Item, ToWorker};
use backend::{Backend, Call, Calling, Down, Event, Link, Name, Outcome, Said, Settings, Up};
use handoff::backend::Backend as Record;
use prost::Message;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

const SOCKET: &str = "00000000000000000000";

fn attach(backend: &mut Backend, now_ms: u64, link: Link) {
    let hello = Hello {
        instance: format!("{link:?}"),
        ..Hello::default()
    };
    backend.attach(now_ms, link, &hello).expect("welcome");
}

/// The items that a worker is sent, as their first letters; `'` marks one that comes again.
fn sent(backend: &mut Backend, now_ms: u64, link: Link) -> String {
    let sent = std::iter::from_fn(|| backend.poll(now_ms, link));
    let items = sent.flat_map(|message| ToWorker::decode(message).expect("a message").items);
    items.map(|item| letter(&item)).collect()
}

fn letter(item: &Item) -> String {
    let letter = match item.what.as_ref().expect("an item") {
        What::Connect(_) => "C",
        What::Resume(_) => "R",
        What::Event(_) => "E",
        What::Gone(_) => "G",
        What::Upgraded(_) => "U",
        other => panic!("{other:?}"),
    };
    let again = if item.redelivered { "'" } else { "" };
    format!("{letter}{again}")
}

/// No two have one number.
fn connect() -> Up {
    static ASKED: AtomicU64 = AtomicU64::new(1);
    connect_as(ASKED.fetch_add(1, Ordering::Relaxed))
}

fn connect_as(number: u64) -> Up {
    Up::Connect {
        number,
        connect: Box::new(proto::Connect {
            socket: SOCKET.to_owned(),
            namespace: "/".to_owned(),
            ..proto::Connect::default()
        }),
    }
}

fn gone() -> Up {
    Up::Gone(proto::Gone {
        socket: SOCKET.to_owned(),
        ..proto::Gone::default()
    })
}

fn event(ack: u64) -> Up {
    let said = Said {
        event: "e",
        ack,
        ..Said::default()
    };
    let name = Name::parse(SOCKET).expect("a name");
    Up::Event(Event::new(name, &said))
}

fn handled(handled: u64) -> FromWorker {
    FromWorker {
        handled,
        ..FromWorker::default()
    }
}

/// The worker has handled so many items, and lets the client in or not by its command with this number.
fn decides(first: u64, handled: u64, admit: bool) -> FromWorker {
    let decision = proto::Decision {
        socket: SOCKET.to_owned(),
        admit,
        ..proto::Decision::default()
    };
    FromWorker {
        handled,
        first,
        commands: vec![Command {
            what: Some(Order::Decision(decision)),
            ..Command::default()
        }],
        ..FromWorker::default()
    }
}

/// The numbers of the CONNECTs that were decided about, and whether the client was let in.
fn decided(backend: &mut Backend) -> Vec<(u64, bool)> {
    let out = backend.take_out().into_iter();
    let decisions = out.filter_map(|out| match out.down {
        Down::Decide {
            number, decision, ..
        } => Some((number, decision.is_ok())),
        _ => None,
    });
    decisions.collect()
}

/// Whether its client was let in, each time that somebody said so.
fn decisions(backend: &mut Backend) -> Vec<bool> {
    let decided = decided(backend).into_iter();
    decided.map(|(_, admitted)| admitted).collect()
}

/// A worker and its socket. It has handled one item and said one command.
fn one() -> Backend {
    let mut backend = Backend::new(Settings::default());
    attach(&mut backend, 1, Link(1));
    backend.up(1, connect());
    assert_eq!(sent(&mut backend, 1, Link(1)), "C");
    let said = decides(1, 1, true);
    backend.received(1, Link(1), said).expect("in order");
    assert_eq!(decisions(&mut backend), [true]);
    backend
}

fn loses(backend: &mut Backend, now_ms: u64, link: Link) {
    backend.detached(now_ms, link);
    backend.tick(now_ms + Settings::default().rehome_after_ms);
}

#[test]
fn a_client_that_came_back_at_once_was_forgotten_with_its_old_connection() {
    let mut backend = one();
    backend.up(2, gone());
    backend.up(2, connect());
    assert_eq!(sent(&mut backend, 2, Link(1)), "G");
    backend.received(3, Link(1), handled(2)).expect("in order");
    assert_eq!(sent(&mut backend, 3, Link(1)), "C");
    let said = decides(2, 3, true);
    backend.received(3, Link(1), said).expect("in order");
    assert_eq!((decisions(&mut backend), backend.bytes()), (vec![true], 0));
    // It is there, and its end is the last that is heard of it.
    let name = Name::parse(SOCKET).expect("a name");
    let upgraded = || Up::Upgraded {
        socket: name,
        transport: "websocket",
    };
    backend.up(4, upgraded());
    backend.up(4, gone());
    assert_eq!(sent(&mut backend, 4, Link(1)), "UG");
    backend.received(5, Link(1), handled(5)).expect("in order");
    backend.up(6, upgraded());
    assert_eq!(sent(&mut backend, 6, Link(1)), "");
    assert_eq!((backend.sockets(), backend.bytes()), (0, 0));
}

/// The next worker got the items of both connections as those of one.
#[test]
fn a_worker_that_died_between_two_connections_left_the_end_of_the_first_to_the_second() {
    let mut backend = one();
    attach(&mut backend, 2, Link(2));
    backend.up(2, event(0));
    assert_eq!(sent(&mut backend, 2, Link(1)), "E");
    backend.up(2, gone());
    backend.up(2, connect());
    loses(&mut backend, 3, Link(1));
    assert_eq!(sent(&mut backend, 600, Link(2)), "RE'G");
    backend
        .received(601, Link(2), handled(3))
        .expect("in order");
    assert_eq!(sent(&mut backend, 601, Link(2)), "C");
    let said = decides(1, 4, true);
    backend.received(602, Link(2), said).expect("in order");
    assert_eq!(decisions(&mut backend), [true]);
    backend.up(603, event(7));
    assert_eq!(sent(&mut backend, 603, Link(2)), "E");
}

/// Nobody was there to hear of the end: it was given up.
#[test]
fn the_end_of_a_connection_was_given_up_because_its_client_came_back() {
    let mut backend = one();
    loses(&mut backend, 2, Link(1));
    backend.up(600, event(0));
    backend.up(601, gone());
    backend.up(602, connect());
    attach(&mut backend, 603, Link(2));
    assert_eq!(sent(&mut backend, 603, Link(2)), "REG");
    backend
        .received(604, Link(2), handled(3))
        .expect("in order");
    assert_eq!(sent(&mut backend, 604, Link(2)), "C");
    assert_eq!(backend.counts().dead_letters, 0);
}

/// One that goes again before its time has come is nobody's business, and those behind it are.
#[test]
fn a_client_may_come_and_go_often_before_its_worker_hears_of_the_first_end() {
    let mut backend = one();
    backend.up(2, gone());
    for _ in 0..5 {
        backend.up(3, connect());
        backend.up(4, gone());
    }
    backend.up(5, connect());
    assert_eq!(sent(&mut backend, 5, Link(1)), "G");
    backend.received(6, Link(1), handled(2)).expect("in order");
    assert_eq!(sent(&mut backend, 6, Link(1)), "C");
    backend.up(7, gone());
    backend.up(7, connect());
    // The decision about a connection that has ended is none about the next.
    let said = decides(2, 3, true);
    backend.received(8, Link(1), said).expect("in order");
    assert_eq!(sent(&mut backend, 8, Link(1)), "G");
    assert!(decisions(&mut backend).is_empty());
    backend.received(9, Link(1), handled(4)).expect("in order");
    assert_eq!(sent(&mut backend, 9, Link(1)), "C");
    assert_eq!(backend.sockets(), 1);
}

/// The worker had items of the connection that was refused. They were taken for items of the next one.
#[test]
fn a_client_that_was_refused_and_came_again_was_introduced_twice() {
    let mut backend = one();
    backend.up(2, gone());
    backend.up(2, connect());
    assert_eq!(sent(&mut backend, 2, Link(1)), "G");
    backend.received(3, Link(1), handled(2)).expect("in order");
    assert_eq!(sent(&mut backend, 3, Link(1)), "C");
    backend
        .received(4, Link(1), decides(2, 0, false))
        .expect("in order");
    assert_eq!(decisions(&mut backend), [false]);
    backend.up(5, connect());
    assert_eq!(sent(&mut backend, 5, Link(1)), "C");
    attach(&mut backend, 6, Link(2));
    loses(&mut backend, 7, Link(1));
    assert_eq!(sent(&mut backend, 600, Link(2)), "C'");
}

/// The deadline was found by the id alone.
#[test]
fn the_deadline_of_a_connection_ended_the_next_one() {
    let patience_ms = Settings::default().connect_timeout_ms;
    let mut backend = one();
    backend.up(2, gone());
    assert_eq!(sent(&mut backend, 2, Link(1)), "G");
    backend.received(3, Link(1), handled(2)).expect("in order");
    backend.up(5_000, connect());
    assert_eq!(sent(&mut backend, 5_000, Link(1)), "C");
    backend.tick(1 + patience_ms);
    assert!(decisions(&mut backend).is_empty());
    backend.tick(4_999 + patience_ms);
    assert!(decisions(&mut backend).is_empty());
    backend.tick(5_000 + patience_ms);
    assert_eq!(decisions(&mut backend), [false]);
}

/// Also one that waits for the end of the one before.
#[test]
fn a_client_that_waits_for_its_own_end_waits_no_longer_than_others() {
    let patience_ms = Settings::default().connect_timeout_ms;
    let mut backend = one();
    loses(&mut backend, 2, Link(1));
    backend.up(1_000, gone());
    backend.up(1_000, connect());
    backend.tick(999 + patience_ms);
    assert!(decisions(&mut backend).is_empty());
    backend.tick(1_000 + patience_ms);
    assert_eq!(decisions(&mut backend), [false]);
    attach(&mut backend, 20_000, Link(2));
    assert_eq!(sent(&mut backend, 20_000, Link(2)), "RG");
    backend
        .received(20_001, Link(2), handled(2))
        .expect("in order");
    assert_eq!(sent(&mut backend, 20_001, Link(2)), "");
    assert_eq!((backend.sockets(), backend.bytes()), (0, 0));
}

/// Lives that wait go to the next process. Items of a life that is forgotten stay forgotten there.
#[test]
fn the_next_process_goes_on_with_both() {
    let mut backend = one();
    backend.up(2, gone());
    backend.up(2, connect());
    assert_eq!(sent(&mut backend, 2, Link(1)), "G");
    let record = backend.record(3);
    let mut heir = Backend::new(Settings::default());
    heir.arrive(3, &record, &HashSet::new()).expect("a record");
    let name = Name::parse(SOCKET).expect("a name");
    assert_eq!(heir.living().collect::<Vec<_>>(), [name]);
    let hello = Hello {
        instance: format!("{:?}", Link(1)),
        received: 2,
        resumes: true,
        ..Hello::default()
    };
    heir.attach(4, Link(2), &hello).expect("welcome");
    assert_eq!(sent(&mut heir, 4, Link(2)), "");
    heir.received(5, Link(2), handled(2)).expect("in order");
    assert_eq!(sent(&mut heir, 5, Link(2)), "C");
    heir.received(6, Link(2), decides(2, 0, false))
        .expect("in order");
    let record = heir.record(7);
    let mut heir = Backend::new(Settings::default());
    heir.arrive(7, &record, &HashSet::new()).expect("a record");
    heir.up(8, connect());
    attach(&mut heir, 9, Link(3));
    heir.tick(10_000);
    assert_eq!(sent(&mut heir, 10_000, Link(3)), "C");
}

/// The decision about a connection that had ended was taken for one about the next: it names the CONNECT that it is about.
#[test]
fn a_decision_names_the_connect_that_it_is_about() {
    let mut backend = Backend::new(Settings::default());
    attach(&mut backend, 1, Link(1));
    backend.up(1, connect_as(7));
    assert_eq!(sent(&mut backend, 1, Link(1)), "C");
    let said = decides(1, 1, true);
    backend.received(1, Link(1), said).expect("in order");
    assert_eq!(decided(&mut backend), [(7, true)]);
    backend.up(2, gone());
    backend.up(2, connect_as(8));
    assert_eq!(sent(&mut backend, 2, Link(1)), "G");
    backend.received(3, Link(1), handled(2)).expect("in order");
    assert_eq!(sent(&mut backend, 3, Link(1)), "C");
    // The next process knows it, too.
    let record = backend.record(3);
    let mut heir = Backend::new(Settings::default());
    heir.arrive(3, &record, &HashSet::new()).expect("a record");
    heir.tick(1_000_000);
    assert_eq!(decided(&mut heir), [(8, false)]);
    let said = decides(2, 3, false);
    backend.received(4, Link(1), said).expect("in order");
    assert_eq!(decided(&mut backend), [(8, false)]);
    backend.up(5, connect_as(9));
    backend.tick(5 + Settings::default().connect_timeout_ms);
    assert_eq!(decided(&mut backend), [(9, false)]);
}

/// A build of before had no numbers.
#[test]
fn the_record_of_a_build_without_numbers_is_taken() {
    let mut backend = Backend::new(Settings::default());
    attach(&mut backend, 1, Link(1));
    backend.up(1, connect_as(7));
    let mut record = Record::read(&backend.record(2)).expect("a record");
    assert_eq!(std::mem::take(&mut record.homes[0].number), 7);
    let mut heir = Backend::new(Settings::default());
    heir.arrive(2, &record.write(), &HashSet::new())
        .expect("a record");
    heir.up(3, gone());
    heir.up(3, connect_as(1));
    heir.tick(3 + Settings::default().connect_timeout_ms);
    assert_eq!(decided(&mut heir), [(1, false)]);
}

// ---- endpoints ----------------------------------------------------------------------------------------------------------------

fn calls(decides: bool) -> Backend {
    let calling = Calling {
        decides,
        batch_delay_ms: 0,
        ..Calling::default()
    };
    Backend::calling(Settings::default(), calling)
}

fn next(backend: &mut Backend, now_ms: u64) -> (String, Option<Call>) {
    let call = backend.next_call(now_ms);
    let news = call.iter().flat_map(|call| &call.news);
    (news.map(|news| letter(&news.item)).collect(), call)
}

fn end(backend: &mut Backend, now_ms: u64, call: Option<Call>, outcome: Outcome) {
    let number = call.expect("a call").number;
    backend.call_ended(now_ms, number, outcome).expect("fits");
}

/// Two calls about one socket were under way at once, and the second connection was forgotten with the first.
#[test]
fn an_endpoint_hears_of_the_end_before_it_hears_of_the_return() {
    for decides in [true, false] {
        let mut backend = calls(decides);
        backend.up(1, connect());
        let (news, call) = next(&mut backend, 1);
        assert_eq!(news, "C");
        end(&mut backend, 2, call, Outcome::Taken(Vec::new()));
        backend.up(3, event(5));
        let (news, first) = next(&mut backend, 3);
        assert_eq!(news, "E");
        backend.up(4, gone());
        backend.up(4, connect());
        assert_eq!(next(&mut backend, 4).0, "");
        end(&mut backend, 5, first, Outcome::Failed);
        let later = 60_000 / 2;
        let (news, call) = next(&mut backend, later);
        assert_eq!(news, "E'");
        end(&mut backend, later, call, Outcome::Taken(Vec::new()));
        let (news, call) = next(&mut backend, later);
        assert_eq!(news, "G");
        end(&mut backend, later, call, Outcome::Taken(Vec::new()));
        let (news, call) = next(&mut backend, later);
        assert_eq!(news, "C");
        end(&mut backend, later, call, Outcome::Taken(Vec::new()));
        assert_eq!(decisions(&mut backend), [true, true]);
        assert_eq!((backend.sockets(), backend.bytes()), (1, 0));
    }
}

/// Calls about the connection before had failed, and the next one was due when the client had been refused.
#[test]
fn a_client_that_came_back_waited_for_the_pause_of_its_own_end() {
    let calling = Calling {
        batch_delay_ms: 0,
        retry_min_ms: 20_000,
        ..Calling::default()
    };
    let mut backend = Backend::calling(Settings::default(), calling);
    backend.up(1, connect());
    let (news, call) = next(&mut backend, 1);
    assert_eq!(news, "C");
    end(&mut backend, 1, call, Outcome::Taken(Vec::new()));
    backend.up(2, gone());
    let (_, call) = next(&mut backend, 2);
    end(&mut backend, 3, call, Outcome::Failed);
    assert_eq!(next(&mut backend, 4).0, "");
    backend.up(4, connect());
    let (news, call) = next(&mut backend, 4);
    assert_eq!(news, "G'");
    end(&mut backend, 4, call, Outcome::Taken(Vec::new()));
    let (news, call) = next(&mut backend, 4);
    assert_eq!(news, "C");
    end(&mut backend, 4, call, Outcome::Taken(Vec::new()));
    assert_eq!(decisions(&mut backend), [true, true]);
}

/// A call that hung held up the items after it without an end.
#[test]
fn items_of_a_connection_that_waits_for_the_end_of_another_were_never_late() {
    let mut backend = calls(false);
    backend.up(1, connect());
    let (_, call) = next(&mut backend, 1);
    end(&mut backend, 1, call, Outcome::Taken(Vec::new()));
    backend.up(2, gone());
    let (news, hangs) = next(&mut backend, 2);
    assert_eq!(news, "G");
    // One connection that ends, and one that stays.
    backend.up(3, connect());
    backend.up(3, event(0));
    backend.up(4, gone());
    backend.up(5_000, connect());
    backend.up(5_000, event(0));
    let introduced = backend.bytes();
    let patience_ms = Settings::default().park_timeout_ms;
    let refused = |backend: &mut Backend| {
        let out = backend.take_out().into_iter();
        let refused = out.filter(|out| matches!(out.down, Down::Refuse { .. }));
        refused.count()
    };
    backend.tick(4_999 + patience_ms);
    // The client of the first event is gone.
    assert_eq!(refused(&mut backend), 0);
    assert!(backend.bytes() < introduced);
    backend.tick(6_000 + patience_ms);
    assert_eq!(refused(&mut backend), 1);
    assert_eq!(backend.counts().dead_letters, 0);
    // Nobody keeps the news of the one that ended for longer than that of others.
    let keep_ms = Calling::default().keep_ms;
    backend.tick(4_500 + keep_ms);
    assert_eq!(backend.counts().dead_letters, 2);
    end(
        &mut backend,
        4_600 + keep_ms,
        hangs,
        Outcome::Taken(Vec::new()),
    );
    let (news, call) = next(&mut backend, 4_700 + keep_ms);
    assert_eq!(news, "C");
    end(
        &mut backend,
        4_800 + keep_ms,
        call,
        Outcome::Taken(Vec::new()),
    );
    assert_eq!((backend.sockets(), backend.bytes()), (1, 0));
}

/// It only hears of newcomers: who comes back speaks at once, and may go again.
#[test]
fn an_endpoint_that_is_down_hears_of_all_connections_in_their_order() {
    let mut backend = calls(false);
    for at in 1..=3 {
        backend.up(at, connect());
        backend.up(at, event(0));
        backend.up(at, gone());
    }
    backend.up(4, connect());
    assert_eq!(decisions(&mut backend), [true; 4]);
    let mut heard = String::new();
    while let (news, Some(call)) = next(&mut backend, 5) {
        heard += &news;
        end(&mut backend, 5, Some(call), Outcome::Taken(Vec::new()));
    }
    assert_eq!(heard, "CEGCEGCEGC");
    assert_eq!(
        (
            backend.sockets(),
            backend.bytes(),
            backend.counts().dead_letters
        ),
        (1, 0, 0)
    );
}
