//! Requests for sessions: who decides about them, and that each is answered whatever becomes of workers.

use backend::proto::command::What as Order;
use backend::proto::item::What;
use backend::proto::{self, Command, FromWorker, Hello, ToWorker};
use backend::{Backend, Down, Frame, Link, Settings, Up, opening_number};
use prost::Message;
use std::collections::BTreeMap;

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

fn deciding() -> Settings {
    Settings {
        openings: true,
        ..Settings::default()
    }
}

/// Of two workers the first wants to decide, as `wants` says of each.
fn two(wants: [bool; 2]) -> Backend {
    let mut backend = Backend::new(deciding());
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

/// A worker of any backend that said so got the handshakes of all clients, and refused those of others.
#[test]
fn a_wish_was_enough_to_decide() {
    let settings = |openings| Settings {
        openings,
        ..Settings::default()
    };
    for openings in [false, true] {
        let mut backend = Backend::new(settings(openings));
        attach(&mut backend, 1, A, "a", 0);
        backend.received(1, A, says(true)).expect("in order");
        assert_eq!(backend.wishes_in_vain(), !openings);
        backend.detached(2, A);
        backend.tick(1_000);
        assert!(!backend.wishes_in_vain(), "the wish ended with its worker");
    }
}

#[test]
fn requests_wait_for_a_worker_that_decides() {
    let mut backend = two([true, false]);
    assert!(!backend.lacks_deciders());
    backend.detached(2, A);
    ask(&mut backend, 3, 7);
    backend.tick(1_000);
    assert!(backend.lacks_deciders());
    assert!(answered(&mut backend).is_empty());
    attach(&mut backend, 1_002, Link(3), "c", 0);
    backend
        .received(1_002, Link(3), says(true))
        .expect("in order");
    assert!(!backend.lacks_deciders());
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
    let mut backend = Backend::new(deciding());
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
        assert_eq!(answered(&mut backend), [(7, None)], "{name}");
    }
}

/// A client could be left without an end of its answer, or with one of any size. Later it waited until its time was up.
#[test]
fn an_answer_that_no_client_can_read_ends_the_wait_of_its_client() {
    const MOST: usize = 64 << 10;
    const LINE: usize = "X-Why".len() + "text/plain".len();
    let typed = |name: &str| proto::Header {
        name: name.to_owned(),
        value: "text/plain".into(),
    };
    // Let in or not, status, name of a line, length of the content, and whether it is carried out.
    for (admit, status, name, len, good) in [
        (false, 401, "Content-Type", 5, true),
        (false, 599, "X-Why", MOST - LINE, true),
        (false, 200, "X-Why", MOST - LINE + 1, false),
        (false, 204, "X-Why", 0, true),
        (false, 304, "X-Why", 1, false),
        (false, 101, "X-Why", 0, false),
        (false, 600, "X-Why", 0, false),
        (false, 65_536 + 401, "X-Why", 0, false),
        (false, 0, "X-Why", 1, false),
        (false, 0, "Content-Type", 0, false),
        (false, 401, "Content-Length", 5, false),
        (true, 401, "X-Why", 0, false),
        (true, 0, "X-Why", 1, false),
    ] {
        let mut backend = two([true, false]);
        ask(&mut backend, 2, 7);
        assert_eq!(asked(&mut backend, A), [7]);
        let mut said = verdict(1, 1, 7);
        if let Some(Order::Verdict(verdict)) = &mut said.commands[0].what {
            (verdict.admit, verdict.status) = (admit, status);
            verdict.headers.push(typed(name));
            verdict.body = vec![b'x'; len].into();
        }
        backend.received(3, A, said).expect("in order");
        let answered = answered(&mut backend);
        let expected = good.then_some(admit);
        assert_eq!(answered, [(7, expected)], "{status} {name} {len}");
    }
}

/// The verdict about request 7, with so many header lines.
fn with_lines(admit: bool, count: usize, value_bytes: usize) -> FromWorker {
    let mut said = verdict(1, 1, 7);
    if let Some(Order::Verdict(verdict)) = &mut said.commands[0].what {
        let line = proto::Header {
            name: "X-Why".to_owned(),
            value: vec![b'x'; value_bytes].into(),
        };
        verdict.admit = admit;
        verdict.headers = vec![line; count];
    }
    said
}

/// Each of a verdict's lines was looked at, and nobody counted them: strangers asked for answers of any size.
#[test]
fn header_lines_of_a_verdict_had_no_bound() {
    const LINE: usize = "X-Why".len() + 59;
    const MOST: usize = (64 << 10) / LINE;
    // Let in or not, lines, and whether it is carried out.
    for (admit, count, good) in [
        (true, MOST, true),
        (true, MOST + 1, false),
        (false, MOST, true),
        (false, MOST + 1, false),
    ] {
        let mut backend = two([true, false]);
        ask(&mut backend, 2, 7);
        assert_eq!(asked(&mut backend, A), [7]);
        backend
            .received(3, A, with_lines(admit, count, 59))
            .expect("in order");
        let expected = good.then_some(admit);
        assert_eq!(answered(&mut backend), [(7, expected)], "{admit} {count}");
    }
}

/// Of a command with more than 1,000 lines nothing was made, so nobody knew whose answer it was.
#[test]
fn a_verdict_with_too_many_lines_ends_the_wait_of_its_client() {
    let mut backend = two([true, true]);
    ask(&mut backend, 2, 7);
    assert_eq!(asked(&mut backend, A), [7]);
    let said = with_lines(true, 1_001, 1);
    let elsewhere = FromWorker {
        handled: 0,
        ..said.clone()
    };
    let frame = |said: FromWorker| Frame::decode(said.encode_to_vec().into()).expect("a frame");
    backend.received(3, B, frame(elsewhere)).expect("in order");
    assert!(answered(&mut backend).is_empty(), "another one was asked");
    backend.received(3, A, frame(said)).expect("in order");
    assert_eq!(answered(&mut backend), [(7, None)]);
    backend.tick(100_000);
    assert!(answered(&mut backend).is_empty(), "once");
}

/// Numbers of JavaScript are exact to 2^53: a worker answered about another request.
#[test]
fn numbers_of_requests_were_larger_than_workers_can_say() {
    let largest = opening_number(u16::MAX, u64::MAX);
    assert!(largest < 1 << 53, "{largest}");
    assert_ne!(opening_number(1, 5), opening_number(2, 5));
    assert_ne!(opening_number(1, 5), opening_number(1, 6));
}

/// What a worker does with the requests that it has been sent.
struct Judge {
    link: Link,
    sent: u64,
    commands: u64,
    undecided: Vec<u64>,
}

/// Workers come, go, change their minds and lose their links, while clients ask.
struct Storm {
    backend: Backend,
    rng: fastrand::Rng,
    now_ms: u64,
    judges: Vec<Judge>,
    links: u64,
    asked: u64,
    answers: BTreeMap<u64, Option<bool>>,
}

impl Storm {
    fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let settings = Settings {
            openings: true,
            opening_timeout_ms: 2_000,
            queue_bytes_max: rng.usize(2_000..40_000),
            ..Settings::default()
        };
        Self {
            backend: Backend::new(settings),
            rng,
            now_ms: 1,
            judges: Vec::new(),
            links: 0,
            asked: 0,
            answers: BTreeMap::new(),
        }
    }

    fn step(&mut self) {
        self.now_ms += self.rng.u64(1..200);
        self.backend.tick(self.now_ms);
        let some = self.rng.usize(0..self.judges.len().max(1));
        match self.rng.u8(0..12) {
            0 if self.judges.len() < 4 => self.hire(),
            1 if !self.judges.is_empty() => {
                let judge = self.judges.remove(some);
                self.backend.detached(self.now_ms, judge.link);
            }
            2 => {
                let leaving = self.rng.bool();
                let wish = says(self.rng.bool());
                self.say(some, FromWorker { leaving, ..wish });
            }
            3..=6 => {
                self.asked += 1;
                ask(&mut self.backend, self.now_ms, self.asked);
            }
            _ => self.judge(some),
        }
        self.take();
    }

    fn hire(&mut self) {
        self.links += 1;
        let link = Link(self.links);
        attach(
            &mut self.backend,
            self.now_ms,
            link,
            &self.links.to_string(),
            0,
        );
        let judge = Judge {
            link,
            sent: 0,
            commands: 0,
            undecided: Vec::new(),
        };
        self.judges.push(judge);
        let wish = says(self.rng.bool());
        self.say(self.judges.len() - 1, wish);
    }

    fn say(&mut self, at: usize, said: FromWorker) {
        let Some(judge) = self.judges.get_mut(at) else {
            return;
        };
        let said = FromWorker {
            handled: judge.sent,
            ..said
        };
        if self
            .backend
            .received(self.now_ms, judge.link, said)
            .is_err()
        {
            self.judges.remove(at);
        }
    }

    /// One takes what it is sent, and decides about something of it.
    fn judge(&mut self, at: usize) {
        let Some(judge) = self.judges.get_mut(at) else {
            return;
        };
        while let Some(message) = self.backend.poll(self.now_ms, judge.link) {
            let items = ToWorker::decode(message).expect("a message").items;
            judge.sent += items.len() as u64;
            let openings = items.into_iter().filter_map(|item| match item.what {
                Some(What::Opening(opening)) => Some(opening.opening),
                _ => None,
            });
            judge.undecided.extend(openings);
        }
        if judge.undecided.is_empty() {
            return;
        }
        let opening = judge
            .undecided
            .swap_remove(self.rng.usize(0..judge.undecided.len()));
        judge.commands += 1;
        let mut said = verdict(0, judge.commands, opening);
        if let Some(Order::Verdict(verdict)) = &mut said.commands[0].what {
            verdict.admit = self.rng.bool();
        }
        self.say(at, said);
    }

    fn take(&mut self) {
        for (number, answer) in answered(&mut self.backend) {
            let before = self.answers.insert(number, answer);
            assert_eq!(before, None, "{number} was answered twice");
        }
        let ended = self.backend.take_ended();
        let farewells = self.backend.take_farewells();
        let gone =
            |link| ended.iter().any(|(other, _)| *other == link) || farewells.contains(&link);
        self.judges.retain(|judge| !gone(judge.link));
    }

    fn count(&self, wanted: Option<bool>) -> u64 {
        self.answers
            .values()
            .filter(|answer| **answer == wanted)
            .count() as u64
    }
}

#[test]
fn each_request_is_answered_once_or_given_up_in_time() {
    for seed in seeds::seeds(200) {
        let mut storm = Storm::new(seed);
        (0..400).for_each(|_| storm.step());
        storm.now_ms += 2_001;
        storm.backend.tick(storm.now_ms);
        storm.take();
        let counts = storm.backend.counts().openings;
        assert_eq!(
            (counts.asked, counts.waiting()),
            (storm.asked, 0),
            "{seed}: {counts:?}"
        );
        let told = [Some(true), Some(false), None].map(|answer| storm.count(answer));
        let counted = [counts.admitted, counts.refused, counts.busy + counts.deadly];
        assert_eq!(told, counted, "{seed}: {counts:?}");
        assert_eq!(
            storm.asked,
            told.iter().sum::<u64>() + counts.unanswered,
            "{seed}"
        );
        // Workers have not handled all that they were sent.
        storm
            .judges
            .iter()
            .for_each(|judge| storm.backend.detached(storm.now_ms, judge.link));
        storm.backend.tick(storm.now_ms + 1_000);
        assert_eq!(storm.backend.bytes(), 0, "{seed}");
    }
}

/// Clients that open sessions and never join were kept for a minute, in any number.
#[test]
fn clients_that_were_let_in_and_never_joined_were_kept_without_bound() {
    let mut backend = two([true, false]);
    let most = 65_536;
    for number in 1..=most + 1 {
        ask(&mut backend, 2, number);
        assert_eq!(asked(&mut backend, A), [number]);
        backend
            .received(2, A, verdict(number, number, number))
            .expect("in order");
    }
    while backend.poll(2, A).is_some() {}
    // The worker that let a client in gets its socket; one that nobody remembers goes to the other, which has less to do.
    for (opening, home) in [(1, B), (2, A), (most + 1, A)] {
        let connect = proto::Connect {
            socket: format!("{opening:020}"),
            opening,
            ..proto::Connect::default()
        };
        let up = Up::Connect {
            number: opening,
            connect: connect.into(),
        };
        backend.up(2, up);
        let gets =
            |backend: &mut Backend, link| std::iter::from_fn(|| backend.poll(2, link)).count() > 0;
        let got = (gets(&mut backend, A), gets(&mut backend, B));
        assert_eq!(got, (home == A, home == B), "{opening}");
    }
}
