//! A hub with a clock, dice and a kernel of the test's own. Connections are named by the order in which they were opened, also
//! after the hub has given their slot to another one.

pub mod net;
pub mod nodes;

use client::{Frame, OpCode};
use fastrand::Rng;
use hub::ConnId;
use hub::claims::{Claims, Denied};
use hub::config::{Config, PlainRaw, Rate};
use hub::metrics::Cells;
use hub::{
    Ask, AskKey, Effect, Entropy, Handler, HandlerFactory, Hub, Identity, Moved, Notice, Now,
    Process, Reply, Sink, Spent, Turn, World, Writes, Written,
};
use rules::{Action, EventRule, NamespaceRules, Rules, RulesFactory};
use std::collections::{BTreeMap, HashMap};
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

/// How the kernel takes bytes: given the connection's name and how many there are, says how many go.
pub type Kernel = Box<dyn FnMut(usize, usize) -> Written>;

/// One client's end.
#[derive(Debug, Default)]
pub struct Link {
    conn: Option<ConnId>,
    /// What the hub wrote and nobody has taken yet.
    pub out: Vec<u8>,
    /// The hub ended its side.
    pub ended: bool,
    /// The kernel refused bytes since the last `writable`.
    pub blocked: bool,
}

/// The kernel's side of all connections.
pub struct Wires {
    pub links: Vec<Link>,
    by_conn: HashMap<ConnId, usize>,
    pub kernel: Kernel,
}

impl Wires {
    fn closed(&mut self, conn: ConnId) {
        let name = self.by_conn.remove(&conn).expect("closed once");
        let link = &mut self.links[name];
        (link.conn, link.ended) = (None, true);
    }
}

impl Wires {
    fn take(&mut self, conn: ConnId, slices: &[IoSlice<'_>]) -> Written {
        let name = *self
            .by_conn
            .get(&conn)
            .expect("the hub writes to its own connections only");
        let total: usize = slices.iter().map(|slice| slice.len()).sum();
        assert!(total > 0, "a write of nothing");
        let written = (self.kernel)(name, total);
        let link = &mut self.links[name];
        assert!(!link.ended, "a write behind the end of the stream");
        let mut left = match written {
            Written::Bytes(n) | Written::Held(n) => n.min(total),
            Written::WouldBlock | Written::Gone => 0,
        };
        link.blocked |= left < total || matches!(written, Written::Held(_));
        for slice in slices {
            let take = slice.len().min(left);
            link.out.extend_from_slice(&slice[..take]);
            left -= take;
        }
        written
    }
}

impl Sink for Wires {
    fn write(&mut self, writes: Writes<'_>) {
        writes.one_by_one(|conn, slices| self.take(conn, slices));
    }
}

/// What the hub of a test acts on.
pub struct Desk<'a> {
    wires: &'a mut Wires,
    asked: &'a mut Vec<(AskKey, String)>,
    log: &'a mut Vec<String>,
}

impl Sink for Desk<'_> {
    fn write(&mut self, writes: Writes<'_>) {
        self.wires.write(writes);
    }
}

impl World for Desk<'_> {
    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Close { conn } | Effect::Handover { conn, .. } => self.wires.closed(conn),
            Effect::Shutdown { conn } => {
                let name = self.wires.by_conn[&conn];
                self.wires.links[name].ended = true;
            }
            Effect::Move { .. } | Effect::Send { .. } | Effect::Pass { .. } => {
                panic!("there is one shard")
            }
            Effect::Ask { key, ask } => {
                let question = match ask {
                    Ask::Verify { token } => token.to_string(),
                    Ask::Handler { question } => String::from_utf8_lossy(&question).into_owned(),
                };
                self.asked.push((key, question));
            }
            Effect::Relay { .. } | Effect::Away(_) => panic!("there is one node"),
            Effect::Log(notice) => self.log.push(line(notice)),
        }
    }
}

pub struct Rig {
    pub hub: Hub,
    pub process: Process,
    pub cells: Arc<Cells>,
    pub now: Now,
    pub wires: Wires,
    /// Walk all tables after every entry point.
    pub checks: bool,
    /// Tokens the hub asked about and got no answer for yet.
    pub asked: Vec<(AskKey, String)>,
    /// Lines of the connection log: what happened, and why.
    pub log: Vec<String>,
    /// How long turns seem to take, microseconds.
    pub turns_take_us: u64,
}

/// Unix milliseconds at the beginning of every test.
pub(crate) const WALL_MS: u64 = 1_750_000_000_000;

impl Rig {
    pub fn new(config: Config, handler: Box<dyn Handler>, seed: u64) -> Rig {
        let me = Identity {
            node: 1,
            shard: 0,
            shards: 1,
        };
        let cells = Arc::new(Cells::default());
        let published = Arc::clone(&cells);
        let process = Process::new(&config.rates);
        let config = Arc::new(config);
        let hub = Hub::in_process(config, me, handler, published, dice(seed), &process);
        Rig {
            hub,
            process,
            cells,
            now: Now {
                mono_ms: 1_000,
                wall_ms: WALL_MS,
            },
            wires: Wires {
                links: Vec::new(),
                by_conn: HashMap::new(),
                kernel: Box::new(|_, n| Written::Bytes(n)),
            },
            checks: true,
            asked: Vec::new(),
            log: Vec::new(),
            turns_take_us: 1,
        }
    }

    /// A hub that answers events with their own arguments, and knows the transcripts' rules.
    pub fn lab(config: Config, seed: u64) -> Rig {
        Rig::new(config, handler(&lab_rules()), seed)
    }

    /// A new connection; its name.
    pub fn open(&mut self) -> usize {
        self.open_from([127, 0, 0, 1])
    }

    pub fn open_from(&mut self, peer: [u8; 4]) -> usize {
        let name = self.wires.links.len();
        self.turn(|turn| {
            turn.opened(peer.into(), |desk, conn| {
                desk.wires.links.push(Link {
                    conn: Some(conn),
                    ..Link::default()
                });
                desk.wires.by_conn.insert(conn, name);
                true
            })
        });
        name
    }

    /// A connection that comes with its first bytes from elsewhere; its name.
    pub fn open_moved(&mut self, moved: Moved<'_>) -> usize {
        let name = self.wires.links.len();
        self.turn(|turn| {
            turn.moved_here(moved, |desk, conn| {
                desk.wires.links.push(Link {
                    conn: Some(conn),
                    ..Link::default()
                });
                desk.wires.by_conn.insert(conn, name);
                true
            });
        });
        self.finish_turn();
        name
    }

    /// Does something within the turn.
    pub fn turn<R>(&mut self, f: impl FnOnce(&mut Turn<'_, Desk<'_>>) -> R) -> R {
        let mut desk = Desk {
            wires: &mut self.wires,
            asked: &mut self.asked,
            log: &mut self.log,
        };
        f(&mut self.hub.turn(self.now, &mut desk))
    }

    pub fn conn(&self, name: usize) -> Option<ConnId> {
        self.wires.links[name].conn
    }

    /// Bytes of a client, within the turn.
    pub fn bytes(&mut self, name: usize, bytes: &[u8]) {
        if let Some(conn) = self.conn(name) {
            self.turn(|turn| turn.bytes(conn, &mut bytes.to_vec()));
        }
    }

    /// A whole turn that brings a client's bytes.
    pub fn send(&mut self, name: usize, bytes: &[u8]) {
        self.bytes(name, bytes);
        self.finish_turn();
    }

    /// Answers the oldest question, which a handler asked; the question.
    pub fn answer_handler(&mut self, answer: &str) -> String {
        let (key, question) = self.asked.remove(0);
        let answer = Some(answer.as_bytes().into());
        self.turn(|turn| turn.answered(key, Reply::Answered(answer)));
        self.finish_turn();
        question
    }

    /// Answers the oldest question; the token it was about.
    pub fn answer(&mut self, verdict: Result<Claims, Denied>) -> String {
        let (key, token) = self.asked.remove(0);
        let verdict = verdict.map_err(Into::into);
        self.turn(|turn| turn.answered(key, Reply::Verified(verdict)));
        self.finish_turn();
        token
    }

    /// The client ends its side.
    pub fn end(&mut self, name: usize) {
        if let Some(conn) = self.conn(name) {
            self.turn(|turn| turn.eof(conn));
            self.finish_turn();
        }
    }

    /// The connection breaks.
    pub fn break_off(&mut self, name: usize) {
        if let Some(conn) = self.conn(name) {
            self.turn(|turn| turn.broken(conn));
            self.finish_turn();
        }
    }

    /// The kernel takes bytes of this connection again.
    pub fn writable(&mut self, name: usize) {
        if let Some(conn) = self.conn(name) {
            self.wires.links[name].blocked = false;
            self.turn(|turn| turn.writable(conn));
        }
    }

    /// Ends the turn, and does what it left in turns of its own.
    pub fn finish_turn(&mut self) {
        loop {
            self.end_turn();
            if !self.hub.has_stalled() {
                return;
            }
            self.turn(|turn| turn.resume());
        }
    }

    /// Ends the turn; what it left stays.
    pub fn end_turn(&mut self) {
        let mut desk = Desk {
            wires: &mut self.wires,
            asked: &mut self.asked,
            log: &mut self.log,
        };
        let us = self.turns_take_us;
        let turn = self.hub.turn(self.now, &mut desk);
        turn.end(false, |_| Spent { us, mailbox: 0 });
        if self.checks {
            self.hub.check_invariants();
        }
    }

    /// Lets time pass, stopping wherever the hub has something to do.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now.mono_ms + time.as_millis() as u64;
        let mut repeats = 0;
        loop {
            let before = self.now.mono_ms;
            let due = self.hub.next_deadline().unwrap_or(u64::MAX);
            let next = due.clamp(self.now.mono_ms, end);
            self.now.wall_ms += next - self.now.mono_ms;
            self.now.mono_ms = next;
            self.finish_turn();
            if next == end {
                return;
            }
            // What a tick does may itself be due to be told; a deadline that stays due is a loop that burns a core.
            repeats = if next == before { repeats + 1 } else { 0 };
            assert!(repeats < 3, "still due at {next} ms after {repeats} ticks");
        }
    }

    /// What a client received since the last call.
    pub fn take(&mut self, name: usize) -> Vec<u8> {
        std::mem::take(&mut self.wires.links[name].out)
    }
}

fn line(notice: Notice) -> String {
    match notice {
        Notice::Connected { protocol, .. } => format!("connected {protocol}"),
        Notice::Disconnected { how, .. } => format!("disconnected {}", how.name()),
        Notice::Refused { reason, .. } => format!("refused {}", reason.name()),
        Notice::TokenRefused { cause, .. } => format!("token refused {cause}"),
        Notice::DistrustedProxy { peer } => format!("distrusted proxy {peer}"),
        Notice::NotRecovered { cause, .. } => format!("not recovered {cause}"),
        Notice::HandlerPanic { .. } => "a handler failed".to_owned(),
        Notice::UnknownEvent { event, .. } => format!("unknown event {}", event.as_str()),
        Notice::ReservedEvent { name } => format!("reserved event {name}"),
    }
}

/// A client's frame of text.
pub fn masked(text: &[u8]) -> Vec<u8> {
    client::conn::masked(true, OpCode::Text, text)
}

/// A server's frames, which must be whole; `deflate` was agreed on or not.
pub fn frames(bytes: &[u8], deflate: bool) -> Vec<Frame> {
    let mut rest = bytes.to_vec();
    let frames = std::iter::from_fn(|| Frame::take(&mut rest, deflate)).collect();
    assert!(rest.is_empty(), "half a frame at the end");
    frames
}

/// Bytes that look random and are the same for the same seed.
pub fn dice(seed: u64) -> Entropy {
    let mut random = Rng::with_seed(seed);
    Box::new(move |bytes| random.fill(bytes))
}

/// The built-in handler for some rules without schemas.
pub fn handler(rules: &Rules) -> Box<dyn Handler> {
    let factory = RulesFactory::new(rules, &|_| Err("no schemas here".to_owned()));
    factory.expect("rules without schemas").build(0)
}

pub fn rule(action: Action) -> EventRule {
    EventRule::new(action)
}

/// The rules that transcripts call `lab`.
pub fn lab_rules() -> Rules {
    let mut events = BTreeMap::new();
    let hall = Action::Rooms {
        room: Some("hall".to_owned()),
        echo: true,
    };
    events.insert("shout".to_owned(), rule(hall));
    events.insert(
        "tell".to_owned(),
        rule(Action::Rooms {
            room: None,
            echo: false,
        }),
    );
    events.insert("void".to_owned(), rule(Action::Drop));
    let rate = Some(Rate::new(2, Duration::from_secs(1)));
    events.insert(
        "few".to_owned(),
        EventRule {
            rate,
            ..rule(Action::Reply)
        },
    );
    let main = NamespaceRules {
        client_joins: true,
        auto_join: vec!["hall".to_owned()],
        events,
        ..NamespaceRules::new(rule(Action::Reply))
    };
    let lab = NamespaceRules::new(rule(Action::Reply));
    let PlainRaw { path, namespace } = lab_raw();
    let relay = Action::Rooms {
        room: None,
        echo: false,
    };
    let raw = NamespaceRules {
        auto_join: vec![path],
        events: [(hub::RAW_EVENT.to_owned(), rule(relay))].into(),
        ..NamespaceRules::new(rule(Action::Drop))
    };
    Rules {
        namespaces: [
            ("/".to_owned(), main),
            ("/lab".to_owned(), lab),
            (namespace, raw),
        ]
        .into(),
    }
}

/// The path on which frames are not parsed.
pub fn lab_raw() -> PlainRaw {
    PlainRaw {
        path: "/raw".to_owned(),
        namespace: "/raw".to_owned(),
    }
}

/// The rules of the chat profile.
pub fn chat_rules() -> Rules {
    let typing = rule(Action::Rooms {
        room: None,
        echo: false,
    });
    let chat = NamespaceRules {
        chat: true,
        client_joins: true,
        events: [
            ("message".to_owned(), typing.clone()),
            ("typing".to_owned(), typing),
        ]
        .into(),
        ..NamespaceRules::new(rule(Action::Drop))
    };
    Rules {
        namespaces: [("/".to_owned(), chat)].into(),
    }
}
