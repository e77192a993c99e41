//! Workers that speak and handle nothing, that are absent for a while, or that end over an event.

use backend::proto::command::What as Order;
use backend::proto::item::What;
use backend::proto::{self, Command, FromWorker, Hello, ToWorker};
use backend::{Backend, Down, Event, Link, Name, Said, Settings, Stray, Up, Why};
use prost::Message;

const SOCKET: &str = "00000000000000000000";

/// A backend on a clock that is played.
struct Scene {
    backend: Backend,
    now_ms: u64,
}

impl Scene {
    fn open(settings: Settings) -> Self {
        Self {
            backend: Backend::new(settings),
            now_ms: 1,
        }
    }

    fn attach(&mut self, link: u64, instance: &str) {
        let hello = Hello {
            instance: instance.to_owned(),
            ..Hello::default()
        };
        let welcome = self.backend.attach(self.now_ms, Link(link), &hello);
        assert!(!welcome.expect("welcome").resumed);
    }

    fn items(&mut self, link: u64) -> Vec<What> {
        let sent = std::iter::from_fn(|| self.backend.poll(self.now_ms, Link(link)));
        let sent = sent.map(|sent| ToWorker::decode(sent).expect("a message"));
        let items: Vec<proto::Item> = sent.flat_map(|message| message.items).collect();
        items.into_iter().filter_map(|item| item.what).collect()
    }

    fn says(&mut self, link: u64, handled: u64, first: u64, order: Option<Order>) {
        let command = |what| Command {
            what: Some(what),
            ..Command::default()
        };
        let message = FromWorker {
            handled,
            first,
            commands: order.map(command).into_iter().collect(),
            ..FromWorker::default()
        };
        let said = self.backend.received(self.now_ms, Link(link), message);
        said.expect("in order");
    }

    /// A socket that this worker let in.
    fn client_of(&mut self, link: u64) {
        let connect = proto::Connect {
            socket: SOCKET.to_owned(),
            namespace: "/".to_owned(),
            ..proto::Connect::default()
        };
        let up = Up::Connect {
            number: 1,
            connect: connect.into(),
        };
        self.backend.up(self.now_ms, up);
        assert_eq!(self.items(link).len(), 1);
        let admit = Order::Decision(proto::Decision {
            socket: SOCKET.to_owned(),
            admit: true,
            ..proto::Decision::default()
        });
        self.says(link, 1, 1, Some(admit));
        self.downs();
    }

    fn event(&mut self, ack: u64) {
        let said = Said {
            event: "order",
            ack,
            ..Said::default()
        };
        let event = Event::new(Name::parse(SOCKET).expect("a name"), &said);
        self.backend.up(self.now_ms, Up::Event(event));
    }

    /// Sockets that are to move are described at once.
    fn downs(&mut self) -> Vec<Down> {
        let mut all = Vec::new();
        for out in self.backend.take_out() {
            if let Down::Describe { socket } = out.down {
                let described = Up::Described {
                    socket,
                    rooms: Vec::new(),
                    data: "{}".to_owned(),
                };
                self.backend.up(self.now_ms, described);
            }
            all.push(out.down);
        }
        all
    }

    /// The first refusal until then, and when it came.
    fn refusal_until(&mut self, until_ms: u64) -> Option<(u64, Why)> {
        while self.now_ms < until_ms {
            self.now_ms += 20;
            self.backend.tick(self.now_ms);
            let refused = self.downs().into_iter().find_map(|down| match down {
                Down::Refuse { why, .. } => Some(why),
                _ => None,
            });
            if let Some(why) = refused {
                return Some((self.now_ms, why));
            }
        }
        None
    }

    /// Time passes. These workers say something, and nothing else.
    fn pass(&mut self, until_ms: u64, links: &[u64]) -> Vec<(Link, Stray)> {
        while self.now_ms < until_ms {
            self.now_ms += 20;
            self.backend.tick(self.now_ms);
            let ended = self.backend.take_ended();
            if !ended.is_empty() {
                return ended;
            }
            if self.now_ms % 1_000 < 20 {
                links.iter().for_each(|link| self.says(*link, 0, 0, None));
            }
        }
        Vec::new()
    }
}

fn small_window() -> Settings {
    Settings {
        window_bytes: 1,
        answer_timeout_ms: 1 << 40,
        ..Settings::default()
    }
}

/// Its connection was alive and it said something each second: its clients waited for ever.
#[test]
fn a_worker_that_spoke_and_handled_nothing_kept_its_sockets() {
    let mut scene = Scene::open(small_window());
    scene.attach(1, "deaf");
    scene.client_of(1);
    scene.attach(2, "heir");
    (0..3).for_each(|_| scene.event(0));
    assert_eq!(scene.items(1).len(), 1, "more waits");
    let ended = scene.pass(40_000, &[1, 2]);
    assert_eq!(ended, [(Link(1), Stray::Stalled)]);
    let stalled_ms = Settings::default().stalled_after_ms;
    assert!((stalled_ms..stalled_ms + 100).contains(&scene.now_ms));
    assert_eq!(scene.backend.counts().lost_stalled, 1);
    scene.downs();
    let got = scene.items(2);
    assert!(matches!(got[0], What::Resume(_)), "{got:?}");
}

#[test]
fn a_worker_with_one_long_handler_is_kept() {
    let mut scene = Scene::open(Settings {
        answer_timeout_ms: 1 << 40,
        ..Settings::default()
    });
    scene.attach(1, "a");
    scene.client_of(1);
    scene.event(0);
    assert_eq!(scene.items(1).len(), 1);
    assert_eq!(scene.pass(100_000, &[1]), []);
    // Something more comes for it, and goes at once.
    scene.event(0);
    assert_eq!(scene.items(1).len(), 1);
    assert_eq!(scene.pass(200_000, &[1]), []);
}

/// The others were ready, and its sockets stayed with it.
#[test]
fn a_worker_that_left_and_handled_nothing_never_went() {
    let mut scene = Scene::open(Settings::default());
    scene.attach(1, "a");
    scene.client_of(1);
    scene.attach(2, "heir");
    scene.event(0);
    assert_eq!(scene.items(1).len(), 1);
    let leaves = FromWorker {
        leaving: true,
        ..FromWorker::default()
    };
    let said = scene.backend.received(scene.now_ms, Link(1), leaves);
    said.expect("in order");
    assert_eq!(scene.pass(40_000, &[1, 2]), [(Link(1), Stray::Stalled)]);
}

/// It stood still for as long as the worker would have had to: the worker was not heard, and had handled all.
#[test]
fn a_gateway_that_stood_still_takes_no_worker_for_a_stalled_one() {
    let mut scene = Scene::open(small_window());
    scene.attach(1, "a");
    scene.client_of(1);
    (0..3).for_each(|_| scene.event(0));
    assert_eq!(scene.items(1).len(), 1);
    assert_eq!(scene.pass(2_000, &[1]), []);
    scene.now_ms += 60_000;
    assert_eq!(scene.pass(scene.now_ms + 5_000, &[1]), []);
}

/// A worker that asked for lists, and two shards. Returns our numbers of its queries.
fn asks_for_lists(scene: &mut Scene, queries: u64) -> Vec<u64> {
    let mut numbers = Vec::new();
    for query in 1..=queries {
        let fetch = Order::Fetch(proto::Fetch {
            query,
            of: Some(proto::Target::all_of("/")),
            timeout_ms: 1_000,
        });
        scene.says(1, 0, query, Some(fetch));
        for down in scene.downs() {
            let Down::Do(Order::Fetch(fetch)) = down else {
                panic!("{down:?}");
            };
            numbers.push(fetch.query);
        }
    }
    numbers
}

fn finds(scene: &mut Scene, query: u64, bytes: usize) {
    let member = proto::Member {
        data: "x".repeat(bytes),
        ..proto::Member::default()
    };
    let found = proto::Found {
        query,
        sockets: vec![member],
        incomplete: false,
    };
    scene.backend.up(scene.now_ms, Up::Found(found));
}

/// The answers of shards were kept for it without bound: those that waited for its reading, and those that waited for other shards.
#[test]
fn a_worker_that_asked_and_did_not_read_filled_the_memory() {
    let queue_bytes_max = 64 << 10;
    for shards in [1, 2] {
        let mut scene = Scene::open(Settings {
            queue_bytes_max,
            shards,
            ..Settings::default()
        });
        scene.attach(1, "a");
        let empty = scene.backend.bytes();
        let numbers = asks_for_lists(&mut scene, 100);
        for _ in 0..shards {
            for number in &numbers {
                finds(&mut scene, *number, 10_000);
                let kept = scene.backend.bytes();
                // A list is twice in memory while it is on its way.
                assert!(kept < 3 * queue_bytes_max, "{kept} bytes, {shards} shards");
            }
        }
        let got = scene.items(1);
        let incomplete = |item: &&What| matches!(item, What::Found(found) if found.incomplete);
        assert_eq!(got.len(), 100, "each question is answered");
        assert!(got.iter().filter(incomplete).count() > 80);
        scene.says(1, 100, 0, None);
        assert_eq!(scene.backend.bytes(), empty, "{shards} shards");
    }
}

/// With the worker its questions go, and what was kept for them.
#[test]
fn what_waits_for_a_lost_worker_is_off_the_books() {
    let mut scene = Scene::open(Settings {
        shards: 2,
        ..Settings::default()
    });
    scene.attach(1, "a");
    for number in asks_for_lists(&mut scene, 3) {
        finds(&mut scene, number, 10_000);
    }
    assert!(scene.backend.bytes() > 30_000);
    scene.backend.detached(scene.now_ms, Link(1));
    scene.pass(100_000, &[]);
    assert_eq!(scene.backend.bytes(), 0);
}

/// The wrong one of two errors came first: the answer was due before the event was given up.
#[test]
fn an_event_that_no_worker_had_was_said_to_be_unanswered() {
    let mut scene = Scene::open(Settings::default());
    scene.attach(1, "a");
    scene.client_of(1);
    scene.backend.detached(scene.now_ms, Link(1));
    scene.pass(1_000, &[]);
    scene.event(7);
    let came_ms = scene.now_ms;
    let (refused_ms, why) = scene.refusal_until(100_000).expect("a refusal");
    let park_ms = Settings::default().park_timeout_ms;
    assert_eq!(why, Why::Absent);
    assert!((park_ms..park_ms + 500).contains(&(refused_ms - came_ms)));
}

/// It had a tenth of a second for what it may take half a minute for.
#[test]
fn a_worker_that_came_late_had_no_time_to_answer() {
    let settings = Settings {
        silent_after_ms: 1 << 40,
        ..Settings::default()
    };
    let answer_ms = settings.answer_timeout_ms;
    let mut scene = Scene::open(settings);
    scene.attach(1, "a");
    scene.client_of(1);
    scene.backend.detached(scene.now_ms, Link(1));
    scene.pass(1_000, &[]);
    scene.event(7);
    let late_ms = scene.now_ms + answer_ms - 100;
    assert_eq!(scene.refusal_until(late_ms), None);
    scene.attach(2, "heir");
    let attached_ms = scene.now_ms;
    scene.downs();
    assert_eq!(scene.items(2).len(), 2, "the socket and its event");
    let (refused_ms, why) = scene.refusal_until(200_000).expect("a refusal");
    assert_eq!(why, Why::Unanswered);
    assert!((answer_ms..answer_ms + 100).contains(&(refused_ms - attached_ms)));
}

/// Its client had left meanwhile: nobody was told, and nothing was counted.
#[test]
fn a_deadly_event_of_a_client_that_was_gone_was_dropped_in_silence() {
    let mut scene = Scene::open(Settings::default());
    scene.attach(1, "0");
    scene.client_of(1);
    scene.event(9);
    let gone = proto::Gone {
        socket: SOCKET.to_owned(),
        ..proto::Gone::default()
    };
    scene.backend.up(scene.now_ms, Up::Gone(gone));
    let has = |item: &What| matches!(item, What::Event(event) if event.ack == 9);
    for link in 1..=4 {
        let mut items = scene.items(link);
        if link > 2 {
            // It comes alone, when the socket is there.
            assert!(!items.iter().any(has));
            scene.says(link, 1, 0, None);
            items = scene.items(link);
        }
        assert_eq!(items.iter().filter(|item| has(item)).count(), 1);
        scene.backend.detached(scene.now_ms, Link(link));
        scene.pass(scene.now_ms + 1_000, &[]);
        scene.attach(link + 1, &link.to_string());
    }
    assert!(!scene.items(5).iter().any(has), "it goes to no fifth");
    assert_eq!(scene.backend.counts().refused_deadly, 1);
    assert_eq!(scene.backend.counts().lost_away, 4);
}

/// Sockets without a worker are looked at four times a second, and an answer may be due between two looks.
#[test]
fn an_event_that_no_worker_had_was_said_to_be_unanswered_at_some_moments() {
    for phase_ms in (0..300).step_by(20) {
        let mut scene = Scene::open(Settings {
            rehome_after_ms: 10,
            answer_timeout_ms: 100,
            park_timeout_ms: 400,
            ..Settings::default()
        });
        scene.attach(1, "a");
        scene.client_of(1);
        scene.backend.detached(scene.now_ms, Link(1));
        assert_eq!(scene.refusal_until(300 + phase_ms), None);
        scene.event(1);
        let why = scene.refusal_until(2_000).map(|(_, why)| why);
        assert_eq!(why, Some(Why::Absent), "{phase_ms}");
    }
}

/// Its clock ticked fifty times a second for nobody.
#[test]
fn a_backend_is_quiet_while_nobody_waits_for_it() {
    let mut scene = Scene::open(Settings::default());
    let is_quiet = |scene: &mut Scene| {
        scene.now_ms += 30;
        scene.backend.tick(scene.now_ms);
        scene.items(1);
        scene.backend.is_quiet()
    };
    assert!(is_quiet(&mut scene), "nobody is there");
    scene.attach(1, "a");
    assert!(is_quiet(&mut scene));
    scene.client_of(1);
    assert!(
        !scene.backend.is_quiet(),
        "the worker is to hear that its decision came"
    );
    assert!(is_quiet(&mut scene));
    scene.event(7);
    assert!(!is_quiet(&mut scene), "the worker has an event");
    scene.says(1, 2, 0, None);
    assert!(!is_quiet(&mut scene), "its client waits for the answer");
    let ack = Order::Ack(proto::Ack {
        socket: SOCKET.to_owned(),
        ack: 7,
        ..proto::Ack::default()
    });
    scene.says(1, 2, 2, Some(ack));
    assert!(is_quiet(&mut scene));
    scene.backend.detached(scene.now_ms, Link(1));
    assert!(!is_quiet(&mut scene), "the socket may need another worker");
}
