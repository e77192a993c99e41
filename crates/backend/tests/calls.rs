//! An endpoint that is called: seeded histories in which it fails, refuses, is down for a minute, and comes back.

use backend::proto;
use backend::proto::command::What as Order;
use backend::proto::item::What;
use backend::{Backend, Call, Calling, Down, Event, Name, Outcome, Said, Scope, Settings, Up};
use fastrand::Rng;
use std::collections::{BTreeMap, HashSet};

fn name(number: u64) -> String {
    format!("{number:020}")
}

fn connect(number: u64) -> Up {
    Up::Connect {
        number,
        connect: Box::new(proto::Connect {
            socket: name(number),
            namespace: "/".to_owned(),
            auth: "{}".into(),
            ..proto::Connect::default()
        }),
    }
}

fn event(number: u64, ack: u64) -> Up {
    let said = Said {
        event: "e",
        ack,
        ..Said::default()
    };
    let socket = Name::parse(&name(number)).expect("a name");
    Up::Event(Event::new(socket, &said))
}

fn gone(number: u64) -> Up {
    Up::Gone(proto::Gone {
        socket: name(number),
        reason: "transport close".to_owned(),
        ..proto::Gone::default()
    })
}

/// The gateway's side and the endpoint's, on a clock that is played.
struct Play {
    backend: Backend,
    settings: Settings,
    calling: Calling,
    now: u64,
    rng: Rng,
    /// Calls under way, and when they end.
    under_way: Vec<(u64, Call)>,
    /// Numbers of the items that the endpoint took, by socket.
    taken: BTreeMap<String, Vec<(u64, bool)>>,
    ended: BTreeMap<String, u64>,
    admitted: BTreeMap<String, bool>,
    answered: BTreeMap<u64, bool>,
    largest: usize,
    calls: u64,
}

impl Play {
    fn new(seed: u64, settings: Settings, calling: Calling) -> Self {
        Self {
            backend: Backend::calling(settings.clone(), calling.clone()),
            settings,
            calling,
            now: 1_000,
            rng: Rng::with_seed(seed),
            under_way: Vec::new(),
            taken: BTreeMap::new(),
            ended: BTreeMap::new(),
            admitted: BTreeMap::new(),
            answered: BTreeMap::new(),
            largest: 0,
            calls: 0,
        }
    }

    fn up(&mut self, up: Up) {
        self.backend.up(self.now, up);
    }

    /// Lets time pass; `fails` in 256 calls fail, and of those some had reached the endpoint.
    fn pass(&mut self, millis: u64, fails: u8) {
        for _ in 0..millis.div_ceil(10) {
            self.now += 10;
            self.backend.tick(self.now);
            while let Some(call) = self.backend.next_call(self.now) {
                self.calls += 1;
                assert!(!call.news.is_empty());
                let due = self.now + self.rng.u64(1..60);
                self.under_way.push((due, call));
            }
            let now = self.now;
            let (done, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.under_way)
                .into_iter()
                .partition(|(due, _)| *due <= now);
            self.under_way = rest;
            for (_, call) in done {
                self.end(call, fails);
            }
            self.largest = self.largest.max(self.backend.bytes());
            self.hear();
        }
    }

    fn end(&mut self, call: Call, fails: u8) {
        let failed = fails > 0 && self.rng.u8(..) <= fails;
        if !failed || (fails < 255 && self.rng.bool()) {
            self.take(&call);
        }
        let outcome = match failed {
            true => Outcome::Failed,
            false => Outcome::Taken(Vec::new()),
        };
        let ended = self.backend.call_ended(self.now, call.number, outcome);
        ended.expect("it can be carried out");
    }

    /// Another process goes on, while no call is under way.
    fn hand_over(&mut self, fails: u8) {
        for (_, call) in std::mem::take(&mut self.under_way) {
            self.end(call, fails);
        }
        self.hear();
        let record = self.backend.record(self.now);
        self.now = self.rng.u64(500..2_000);
        self.backend = Backend::calling(self.settings.clone(), self.calling.clone());
        let arrived = self.backend.arrive(self.now, &record, &HashSet::new());
        arrived.expect("it fits");
    }

    fn take(&mut self, call: &Call) {
        let alone = call.news.len() == 1;
        for news in &call.news {
            let item = &news.item;
            let socket = match item.what.as_ref().expect("an item") {
                What::Connect(connect) => {
                    assert!(alone || !news.decides);
                    &connect.socket
                }
                What::Event(event) => {
                    assert!(alone || event.ack == 0, "a client waits for it");
                    &event.socket
                }
                What::Gone(gone) => {
                    *self.ended.entry(gone.socket.clone()).or_default() += 1;
                    &gone.socket
                }
                other => panic!("{other:?}"),
            };
            let seen = self.taken.entry(socket.clone()).or_default();
            seen.push((item.sequence, item.redelivered));
        }
    }

    fn hear(&mut self) {
        for out in self.backend.take_out() {
            match out.down {
                Down::Decide {
                    socket, decision, ..
                } => {
                    let before = self.admitted.insert(text(socket), decision.is_ok());
                    assert_eq!(before, None, "decided twice");
                }
                Down::Ack(ack) => self.answer(ack.ack, true),
                Down::Refuse { ack, .. } if ack != 0 => self.answer(ack, false),
                _ => {}
            }
        }
    }

    fn answer(&mut self, ack: u64, well: bool) {
        let before = self.answered.insert(ack, well);
        assert_eq!(before, None, "answered twice");
    }

    /// Nothing is taken before what came before it, and what comes again is marked.
    fn check_order(&self) {
        for (socket, seen) in &self.taken {
            let mut highest = 0;
            for (number, redelivered) in seen {
                let next = *number == highest + 1;
                let again = *number <= highest && *redelivered;
                assert!(next || again, "{socket}: {seen:?}");
                highest = highest.max(*number);
            }
        }
    }
}

fn text(socket: Name) -> String {
    socket.as_str().to_owned()
}

#[test]
fn an_endpoint_gets_everything_in_order_however_often_it_fails() {
    for seed in seeds::seeds(60) {
        let calling = Calling {
            decides: seed % 2 == 0,
            calls_max: [1, 4, 32][seed as usize % 3],
            ..Calling::default()
        };
        let mut play = Play::new(seed, Settings::default(), calling);
        let (mut acks, mut waiting) = (0, Vec::new());
        for socket in 0..20 {
            play.up(connect(socket));
        }
        play.pass(2_000, 0);
        for round in 0..200 {
            let socket = play.rng.u64(..20);
            acks += 1;
            let waits = play.rng.u8(..4) == 0;
            waiting.extend(waits.then_some(acks));
            play.up(event(socket, u64::from(waits) * acks));
            let pause = play.rng.u64(..30);
            play.pass(pause, if round < 150 { 60 } else { 0 });
        }
        play.pass(40_000, 0);
        assert!(waiting.iter().all(|ack| play.answered.contains_key(ack)));
        (0..20).for_each(|socket| play.up(gone(socket)));
        play.pass(60_000, 0);
        play.check_order();
        for socket in 0..20 {
            let socket = name(socket);
            assert_eq!(play.admitted.get(&socket), Some(&true), "seed {seed}");
            assert!(play.ended[&socket] >= 1, "seed {seed}: {socket}");
        }
        let backend = &play.backend;
        assert_eq!((backend.bytes(), backend.sockets()), (0, 0), "seed {seed}");
        assert_eq!(backend.counts().dead_letters, 0);
    }
}

/// Clients come, speak and go, calls fail, and now and then another process goes on, with a clock of its own.
#[test]
fn an_endpoint_gets_everything_in_order_from_one_process_after_the_other() {
    for seed in 0..60 {
        let calling = Calling {
            decides: seed % 2 == 0,
            calls_max: [1, 4, 32][seed as usize % 3],
            ..Calling::default()
        };
        let mut play = Play::new(seed, Settings::default(), calling);
        let mut waiting = Vec::new();
        for ack in 1..=220 {
            let fails = if ack < 150 { 60 } else { 0 };
            let socket = ack % 20;
            if ack <= 20 {
                play.up(connect(socket));
            } else if ack > 200 {
                play.up(gone(socket));
            } else if play.admitted.get(&name(socket)) == Some(&true) {
                let waits = play.rng.u8(..4) == 0;
                waiting.extend(waits.then_some(ack));
                play.up(event(socket, u64::from(waits) * ack));
            }
            let pause = play.rng.u64(..60);
            play.pass(pause, fails);
            if play.rng.u8(..6) == 0 {
                play.hand_over(fails);
            }
            if ack == 200 {
                play.pass(40_000, 0);
                assert!(waiting.iter().all(|ack| play.answered.contains_key(ack)));
            }
        }
        play.pass(60_000, 0);
        play.check_order();
        let backend = &play.backend;
        assert_eq!((backend.bytes(), backend.sockets()), (0, 0), "seed {seed}");
        assert_eq!(backend.counts().dead_letters, 0, "seed {seed}");
    }
}

/// The endpoint is down for 60 s. Clients come, speak and go meanwhile.
#[test]
fn news_of_an_endpoint_that_was_down_arrive_later_and_the_memory_is_bounded() {
    let settings = Settings {
        queue_bytes_max: 512 << 10,
        ..Settings::default()
    };
    let calling = Calling {
        decides: false,
        ..Calling::default()
    };
    let mut play = Play::new(1, settings, calling);
    for socket in 0..200 {
        play.up(connect(socket));
        play.pass(300, 255);
        if socket % 2 == 0 {
            play.up(gone(socket));
        }
    }
    assert!(play.taken.is_empty(), "it was down");
    assert!(
        play.calls < 200,
        "{} calls: an endpoint that is down is left alone",
        play.calls
    );
    let well = play.backend.endpoint_is_well();
    assert_eq!(well, Some(false));
    play.pass(40_000, 0);
    play.check_order();
    for socket in 0..200 {
        let seen = &play.taken[&name(socket)];
        let numbers: Vec<u64> = seen.iter().map(|(number, _)| *number).collect();
        let expected: &[u64] = if socket % 2 == 0 { &[1, 2] } else { &[1] };
        assert_eq!(numbers, expected, "{socket}");
    }
    assert_eq!(play.backend.counts().dead_letters, 0);
    // More than there is room for: the rest is counted, and everybody is let in all the same.
    for socket in 1_000..3_000 {
        play.up(connect(socket));
    }
    play.pass(10, 255);
    assert!(play.largest <= 512 << 10, "{} bytes", play.largest);
    assert!(play.backend.counts().dead_letters > 500);
    assert!((1_000..3_000).all(|socket| play.admitted[&name(socket)]));
}

#[test]
fn a_session_that_is_tried_again_holds_up_no_other() {
    let mut play = Play::new(1, Settings::default(), Calling::default());
    (0..2).for_each(|socket| play.up(connect(socket)));
    play.pass(1_000, 0);
    play.up(event(0, 1));
    play.pass(100, 255);
    assert!(play.backend.counts().calls_failed > 0);
    assert!(!play.answered.contains_key(&1));
    play.up(event(0, 2));
    play.up(event(1, 3));
    play.pass(100, 0);
    assert_eq!(play.answered.get(&3), Some(&true));
    assert_eq!(play.answered.get(&2), None, "it is behind the first");
    play.pass(2_000, 0);
    assert_eq!((play.answered[&1], play.answered[&2]), (true, true));
    let numbers: Vec<u64> = play.taken[&name(0)].iter().map(|seen| seen.0).collect();
    assert_eq!(numbers, [1, 2, 3]);
}

#[test]
fn clients_of_an_endpoint_that_fails_are_told_at_once() {
    let mut play = Play::new(1, Settings::default(), Calling::default());
    play.up(connect(0));
    play.pass(200, 0);
    (1..8).for_each(|socket| play.up(connect(socket)));
    play.pass(200, 255);
    assert_eq!(play.backend.endpoint_is_well(), Some(false));
    play.up(connect(100));
    play.up(event(0, 9));
    play.hear();
    assert_eq!(play.admitted.get(&name(100)), Some(&false));
    assert_eq!(play.answered.get(&9), Some(&false));
    // It comes back, and those that waited are let in.
    play.pass(9_000, 0);
    assert!((1..8).all(|socket| play.admitted[&name(socket)]));
    assert_eq!(play.backend.endpoint_is_well(), Some(true));
}

#[test]
fn a_refused_call_is_not_made_again() {
    let mut play = Play::new(1, Settings::default(), Calling::default());
    for (number, up) in [(1, connect(0)), (2, connect(1))] {
        play.up(up);
        let call = play.backend.next_call(play.now).expect("a call");
        let outcome = match number {
            1 => Outcome::Refused,
            _ => Outcome::Taken(vec![Order::Decision(proto::Decision {
                socket: name(1),
                message: "no".to_owned(),
                ..proto::Decision::default()
            })]),
        };
        let ended = play.backend.call_ended(play.now, call.number, outcome);
        ended.expect("it can be carried out");
    }
    play.hear();
    assert_eq!(play.admitted.get(&name(0)), Some(&false));
    assert_eq!(play.admitted.get(&name(1)), Some(&false));
    play.pass(60_000, 0);
    assert_eq!(play.calls, 0);
    assert_eq!((play.backend.sockets(), play.backend.bytes()), (0, 0));
}

/// The number that stands for the endpoint is the highest: the next one was no number.
#[test]
fn a_room_in_an_answer_of_an_endpoint_ended_the_driver() {
    let mut backend = Backend::calling(Settings::default(), Calling::default());
    backend.up(1, connect(1));
    let call = backend.next_call(1).expect("a call");
    let join = Order::Join(proto::Membership {
        of: Some(proto::Target {
            namespace: "/".to_owned(),
            rooms: vec![name(1)],
            ..proto::Target::default()
        }),
        rooms: vec!["kitchen".to_owned()],
    });
    backend.take_out();
    let ended = backend.call_ended(1, call.number, Outcome::Taken(vec![join]));
    ended.expect("it can be carried out");
    let joins = backend.take_out();
    let joins = joins
        .iter()
        .filter(|out| matches!(out.down, Down::Move { by: 0, .. }));
    assert_eq!(joins.count(), 1);
}

/// The client was let in, and then the command was refused.
#[test]
fn commands_for_a_foreign_namespace_let_a_client_in() {
    let settings = Settings {
        scope: Scope::Only(vec!["/".to_owned()]),
        ..Settings::default()
    };
    let mut play = Play::new(1, settings, Calling::default());
    play.up(connect(1));
    let call = play.backend.next_call(play.now).expect("a call");
    let emit = |namespace: &str| {
        Order::Emit(Box::new(proto::Emit {
            to: Some(proto::Target::all_of(namespace)),
            event: "hello".to_owned(),
            ..proto::Emit::default()
        }))
    };
    let commands = vec![emit("/"), emit("/other")];
    let ended = play
        .backend
        .call_ended(play.now, call.number, Outcome::Taken(commands));
    assert!(ended.is_err_and(|why| why.contains("not of this backend")));
    play.hear();
    assert_eq!(play.admitted.get(&name(1)), Some(&false));
    assert_eq!(play.backend.counts().calls_refused, 1);
}
