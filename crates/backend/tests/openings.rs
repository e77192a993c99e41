//! Requests for sessions: who decides about them, and that each is answered whatever becomes of workers.

use backend::proto::command::What as Order;
use backend::proto::item::What;
use backend::proto::{self, Command, FromWorker, Hello, ToWorker};
use backend::{Backend, Down, Link, Settings, Up, opening_number};
use prost::Message;

const A: Link = Link(1);
const B: Link = Link(2);

fn attach(backend: &mut Backend, now_ms: u64, link: Link, instance: &str, received: u64) {
    let hello = Hello {
        instance: instance.to_owned(),
        received,
        ..Hello::default()
    };
    backend.attach(now_ms, link, &hello).expect("welcome");
}

/// A worker's word without commands.
fn says(openings: bool) -> FromWorker {
    FromWorker {
        openings,
        ..FromWorker::default()
    }
}

/// Of two workers the first wants to decide, as `wants` says of each.
fn two(wants: [bool; 2]) -> Backend {
    let mut backend = Backend::new(Settings::default());
    for (link, name, wants) in [(A, "a", wants[0]), (B, "b", wants[1])] {
        attach(&mut backend, 1, link, name, 0);
        backend.received(1, link, says(wants)).expect("in order");
    }
    backend
}

fn ask(backend: &mut Backend, now_ms: u64, number: u64) {
    let opening = proto::Opening {
        opening: number,
        ..proto::Opening::default()
    };
    backend.up(now_ms, Up::Opening(opening));
}

/// Numbers of the requests that a worker is sent.
fn asked(backend: &mut Backend, link: Link) -> Vec<u64> {
    let sent = std::iter::from_fn(|| backend.poll(1, link));
    let items = sent.flat_map(|message| ToWorker::decode(message).expect("a message").items);
    let openings = items.filter_map(|item| match item.what {
        Some(What::Opening(opening)) => Some(opening.opening),
        _ => None,
    });
    openings.collect()
}

/// Requests that shards may answer by now, and whether they let them in; `None`: nobody decides.
fn answered(backend: &mut Backend) -> Vec<(u64, Option<bool>)> {
    let out = backend.take_out().into_iter();
    let answers = out.filter_map(|out| match out.down {
        Down::Verdict(verdict) => Some((verdict.opening, Some(verdict.admit))),
        Down::Unavailable { opening } => Some((opening, None)),
        _ => None,
    });
    answers.collect()
}

fn verdict(handled: u64, first: u64, opening: u64) -> FromWorker {
    let verdict = proto::Verdict {
        opening,
        admit: true,
        ..proto::Verdict::default()
    };
    let command = Command {
        what: Some(Order::Verdict(verdict)),
        ..Command::default()
    };
    FromWorker {
        handled,
        first,
        commands: vec![command],
        ..says(true)
    }
}

/// In a deploy of workers that decide no more, all newcomers were locked out behind the end of the last one that did.
#[test]
fn newcomers_waited_for_a_worker_that_had_ended() {
    let mut backend = two([true, false]);
    assert!(backend.wants_openings());
    backend.detached(2, A);
    ask(&mut backend, 3, 7);
    backend.tick(1_000);
    assert!(!backend.wants_openings());
    assert_eq!(answered(&mut backend), [(7, Some(true))]);
    assert_eq!(backend.bytes(), 0);
    // A shard that has not heard of it.
    ask(&mut backend, 1_001, 8);
    assert_eq!(answered(&mut backend), [(8, Some(true))]);
}

#[test]
fn what_the_last_worker_wanted_holds_while_none_is_there() {
    let mut backend = two([true, true]);
    backend.detached(2, A);
    backend.detached(2, B);
    backend.tick(1_000);
    assert!(backend.wants_openings());
    ask(&mut backend, 1_001, 7);
    assert!(answered(&mut backend).is_empty());
    attach(&mut backend, 1_002, Link(3), "c", 0);
    backend
        .received(1_002, Link(3), says(true))
        .expect("in order");
    assert_eq!(asked(&mut backend, Link(3)), [7]);
}

/// It had said what it wants before the cut, and did not say anything new.
#[test]
fn requests_that_came_during_a_cut_were_asked_of_nobody() {
    let mut backend = two([true, true]);
    backend.detached(2, A);
    backend.detached(2, B);
    ask(&mut backend, 3, 7);
    attach(&mut backend, 4, Link(3), "a", 0);
    backend.received(4, Link(3), says(true)).expect("in order");
    assert_eq!(asked(&mut backend, Link(3)), [7]);
}

/// Its handlers decide later, and the worker said that it had handled the item.
#[test]
fn requests_that_a_lost_worker_had_were_answered_by_nobody() {
    let mut backend = two([true, true]);
    ask(&mut backend, 2, 7);
    assert_eq!(asked(&mut backend, A), [7]);
    let handled = FromWorker {
        handled: 1,
        ..says(true)
    };
    backend.received(3, A, handled).expect("in order");
    backend.detached(4, A);
    backend.tick(1_000);
    assert_eq!(asked(&mut backend, B), [7]);
    backend
        .received(1_001, B, verdict(1, 1, 7))
        .expect("in order");
    assert_eq!(answered(&mut backend), [(7, Some(true))]);
    assert_eq!(backend.bytes(), 0);
}

#[test]
fn requests_that_a_worker_had_when_it_left_were_answered_by_nobody() {
    let mut backend = two([true, true]);
    ask(&mut backend, 2, 7);
    assert_eq!(asked(&mut backend, A), [7]);
    let leaves = FromWorker {
        handled: 1,
        leaving: true,
        ..says(true)
    };
    backend.received(3, A, leaves).expect("in order");
    assert_eq!(backend.take_farewells(), [A]);
    assert_eq!(asked(&mut backend, B), [7]);
}

#[test]
fn a_request_that_ends_workers_goes_to_three() {
    let mut backend = Backend::new(Settings::default());
    for round in 1..=3 {
        let now_ms = round * 1_000;
        let link = Link(round);
        attach(&mut backend, now_ms, link, &round.to_string(), 0);
        backend
            .received(now_ms, link, says(true))
            .expect("in order");
        if round == 1 {
            ask(&mut backend, now_ms, 7);
        }
        assert_eq!(asked(&mut backend, link), [7]);
        backend.detached(now_ms, link);
        backend.tick(now_ms + 500);
    }
    assert_eq!(answered(&mut backend), [(7, None)]);
    assert_eq!(backend.bytes(), 0);
}

/// Handlers ran for clients that had been told long before that nobody decides.
#[test]
fn workers_were_asked_about_requests_of_long_ago() {
    let mut backend = Backend::new(Settings {
        openings: true,
        ..Settings::default()
    });
    ask(&mut backend, 1, 7);
    backend.tick(10_001);
    assert_eq!(backend.bytes(), 0);
    ask(&mut backend, 10_002, 8);
    attach(&mut backend, 10_003, A, "a", 0);
    backend.received(10_003, A, says(true)).expect("in order");
    backend.tick(20_002);
    assert!(asked(&mut backend, A).is_empty());
    backend.received(20_003, A, verdict(0, 1, 8)).expect("late");
    assert_eq!((answered(&mut backend), backend.counts().late), (vec![], 1));
    assert_eq!(backend.bytes(), 0);
}

#[test]
fn requests_that_wait_were_kept_without_bound() {
    let mut backend = Backend::new(Settings {
        openings: true,
        queue_bytes_max: 10_000,
        ..Settings::default()
    });
    for number in 1..=1_000 {
        ask(&mut backend, 1, number);
    }
    assert!(backend.bytes() <= 5_000, "half is for events");
    let answers = answered(&mut backend);
    assert!(answers.len() > 900, "{}", answers.len());
    assert_eq!(answers.last(), Some(&(1_000, None)));
}

/// Sockets are counted when they come: a storm of newcomers asked the first worker only.
#[test]
fn one_worker_was_asked_by_all_newcomers_of_a_storm() {
    let mut backend = two([true, true]);
    for number in 1..=100 {
        ask(&mut backend, 2, number);
    }
    assert_eq!(asked(&mut backend, A).len(), 50);
    assert_eq!(asked(&mut backend, B).len(), 50);
}

#[test]
fn a_worker_that_handles_nothing_was_asked_before_others() {
    let mut backend = two([true, true]);
    ask(&mut backend, 2, 1);
    ask(&mut backend, 2, 2);
    assert_eq!(
        (asked(&mut backend, A), asked(&mut backend, B)),
        (vec![1], vec![2])
    );
    backend.received(6_000, B, verdict(1, 1, 2)).expect("well");
    backend.received(6_000, A, says(true)).expect("alive");
    for number in 3..=6 {
        ask(&mut backend, 6_001, number);
    }
    assert_eq!(asked(&mut backend, B), [3, 4, 5, 6]);
}

#[test]
fn a_verdict_wrote_header_lines_of_the_handshake() {
    for name in [
        "Sec-WebSocket-Accept",
        "content-type",
        "Transfer-Encoding",
        "a b",
    ] {
        let mut backend = two([true, false]);
        ask(&mut backend, 2, 7);
        assert_eq!(asked(&mut backend, A), [7]);
        let mut said = verdict(1, 1, 7);
        if let Some(Order::Verdict(verdict)) = &mut said.commands[0].what {
            verdict.headers.push(proto::Header {
                name: name.to_owned(),
                value: "x".into(),
            });
        }
        backend.received(3, A, said).expect("in order");
        assert!(answered(&mut backend).is_empty(), "{name}");
    }
}

/// Numbers of JavaScript are exact to 2^53: a worker answered about another request.
#[test]
fn numbers_of_requests_were_larger_than_workers_can_say() {
    let largest = opening_number(u16::MAX, u64::MAX);
    assert!(largest < 1 << 53, "{largest}");
    assert_ne!(opening_number(1, 5), opening_number(2, 5));
    assert_ne!(opening_number(1, 5), opening_number(1, 6));
}
