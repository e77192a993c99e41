//! The hot path of a hub allocates nothing once it is warm: counted, not believed.

#![expect(
    unsafe_code,
    reason = "an allocator that counts is unsafe by its trait"
)]

#[path = "alloc/presence.rs"]
mod presence;
#[expect(dead_code, reason = "shared by several test binaries")]
mod rig;

use hub::ConnId;
use hub::config::{Config, Offsets, Recover, Recovery};
use hub::metrics::Cells;
use hub::{Effect, Handler, Hub, Identity, Now, Sink, Spent, Turn, World, Writes, Written};
use hub::{LiveTrace, Subject, TraceBounds};
use rig::{chat_rules, handler, lab_rules, rule};
use rules::{Action, Rules};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use wire::websocket::frame::{self, OpCode};

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    /// Bytes that are in use.
    static IN_USE: Cell<isize> = const { Cell::new(0) };
}

/// As allocators round it.
fn rounded(size: usize) -> isize {
    size.next_multiple_of(16) as isize
}

fn in_use(bytes: isize) {
    IN_USE.with(|count| count.set(count.get() + bytes));
}

struct Counting;

// SAFETY: every call goes unchanged to the system allocator, which keeps the contract; counting
// touches only thread-local integers that need no allocation themselves.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        in_use(rounded(layout.size()));
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        in_use(rounded(size) - rounded(layout.size()));
        // SAFETY: the caller's promises about `pointer`, `layout` and `size` are passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        in_use(-rounded(layout.size()));
        // SAFETY: `pointer` came from `System` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(run: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.with(Cell::get);
    run();
    ALLOCATIONS.with(Cell::get) - before
}

/// A kernel that takes everything and only counts.
#[derive(Default)]
struct Counter {
    writes: usize,
    bytes: usize,
}

impl Sink for Counter {
    fn write(&mut self, writes: Writes<'_>) {
        writes.one_by_one(|_, slices| {
            let bytes = slices.iter().map(|slice| slice.len()).sum();
            self.writes += 1;
            self.bytes += bytes;
            Written::Bytes(bytes)
        });
    }
}

impl World for Counter {
    fn carry_out(&mut self, _: Effect) {}
}

/// A hub and its kernel; connections are the hub's own numbers, because nobody leaves.
struct Bench {
    hub: Hub,
    now: Now,
    sink: Counter,
    buf: Vec<u8>,
    cells: Arc<Cells>,
}

impl Bench {
    fn new(config: Config, handler: Box<dyn Handler>) -> Bench {
        let me = Identity {
            node: 0,
            shard: 0,
            shards: 1,
        };
        let cells = Arc::new(Cells::default());
        let hub = Hub::new(Arc::new(config), me, handler, cells.clone(), rig::dice(1));
        let now = Now {
            mono_ms: 1_000,
            wall_ms: 1_750_000_000_000,
        };
        Bench {
            hub,
            now,
            sink: Counter::default(),
            buf: Vec::with_capacity(4096),
            cells,
        }
    }

    /// A client that has sent its request and these messages.
    fn client(&mut self, target: &str, messages: &[&str]) -> ConnId {
        self.client_with(target, "", messages)
    }

    /// The same with more header lines.
    fn client_with(&mut self, target: &str, headers: &str, messages: &[&str]) -> ConnId {
        let mut turn = self.hub.turn(self.now, &mut self.sink);
        let conn = turn.opened([127, 0, 0, 1].into(), |_, _| true);
        let mut head = format!(
            "GET {target} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{headers}\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        .into_bytes();
        let mut turn = self.hub.turn(self.now, &mut self.sink);
        turn.bytes(conn, &mut head);
        end(turn);
        for message in messages {
            self.say(conn, message.as_bytes());
        }
        conn
    }

    fn socketio(&mut self) -> ConnId {
        self.client("/socket.io/?EIO=4&transport=websocket", &["40"])
    }

    /// One turn in which one client sends one text frame. Building the frame reuses a buffer.
    fn say(&mut self, conn: ConnId, text: &[u8]) {
        self.buf.clear();
        frame::write_masked(&mut self.buf, true, OpCode::Text, text, [1, 2, 3, 4]);
        let mut turn = self.hub.turn(self.now, &mut self.sink);
        turn.bytes(conn, &mut self.buf);
        end(turn);
    }

    /// Allocations of `count` rounds, after as many to warm up.
    fn rounds(&mut self, count: usize, mut round: impl FnMut(&mut Bench)) -> usize {
        (0..count).for_each(|_| round(self));
        allocations(|| (0..count).for_each(|_| round(self)))
    }

    /// Writes and bytes that leave meanwhile.
    fn written(&mut self, run: impl FnOnce(&mut Bench)) -> (usize, usize) {
        let before = (self.sink.writes, self.sink.bytes);
        run(self);
        (self.sink.writes - before.0, self.sink.bytes - before.1)
    }
}

fn end(turn: Turn<'_, Counter>) {
    turn.end(false, |_| Spent { us: 10, mailbox: 0 });
}

fn lab() -> Bench {
    Bench::new(Config::default(), handler(&lab_rules()))
}

#[test]
fn an_echoed_and_acked_event_allocates_nothing() {
    let mut bench = lab();
    let conn = bench.socketio();
    let acked = br#"4217["echo",{"text":"hello","list":[1,2.5,null]},"x"]"#;
    let plain = br#"42["echo",{"text":"hello","list":[1,2.5,null]},"x"]"#;
    let written = bench.written(|bench| bench.say(conn, acked));
    assert_eq!(
        written,
        (1, 2 + acked.len() - "\"echo\",".len()),
        "the ack went out"
    );
    let count = bench.rounds(1_000, |bench| {
        bench.say(conn, acked);
        bench.say(conn, plain);
    });
    assert_eq!(count, 0, "allocations of 1,000 acks and 1,000 echoes");
}

#[test]
fn eight_events_in_one_read_allocate_nothing() {
    let mut bench = lab();
    let conn = bench.socketio();
    let mut input = Vec::new();
    for id in 0..8 {
        let text = format!("42{id}[\"echo\",\"hello\"]");
        frame::write_masked(
            &mut input,
            true,
            OpCode::Text,
            text.as_bytes(),
            [1, 2, 3, 4],
        );
    }
    let read = |bench: &mut Bench| {
        bench.buf.clear();
        bench.buf.extend_from_slice(&input);
        let mut turn = bench.hub.turn(bench.now, &mut bench.sink);
        turn.bytes(conn, &mut bench.buf);
        end(turn);
    };
    let answers = 8 * (2 + r#"430["hello"]"#.len());
    assert_eq!(bench.written(read), (1, answers), "eight acks");
    assert_eq!(bench.rounds(500, read), 0);
    assert_eq!(bench.written(read), (1, answers), "and at the end");
}

#[test]
fn a_broadcast_to_a_thousand_members_allocates_nothing() {
    let mut bench = lab();
    let conns: Vec<ConnId> = (0..1_000).map(|_| bench.socketio()).collect();
    let event = br#"42["shout",{"text":"hello everybody"}]"#;
    let written = bench.written(|bench| bench.say(conns[0], event));
    assert_eq!(
        written,
        (1_000, 1_000 * (2 + event.len())),
        "each member got it once"
    );
    let count = bench.rounds(50, |bench| bench.say(conns[7], event));
    assert_eq!(count, 0, "allocations of 50 broadcasts, 50,000 deliveries");
}

#[test]
fn a_compressed_broadcast_allocates_nothing() {
    let mut config = Config::default();
    config.compression.websocket = true;
    let mut bench = Bench::new(config, handler(&lab_rules()));
    let offer = "Sec-WebSocket-Extensions: permessage-deflate\r\n";
    let target = "/socket.io/?EIO=4&transport=websocket";
    let conns: Vec<ConnId> = (0..100)
        .map(|_| bench.client_with(target, offer, &["40"]))
        .collect();
    let event = format!("42[\"shout\",\"{}\"]", "hello everybody, ".repeat(100));
    let (writes, bytes) = bench.written(|bench| bench.say(conns[0], event.as_bytes()));
    assert_eq!(writes, 100);
    assert!(bytes < 100 * 100, "{bytes} bytes for 100 members");
    let count = bench.rounds(50, |bench| bench.say(conns[7], event.as_bytes()));
    assert_eq!(count, 0, "allocations of 50 broadcasts");
}

/// Without a room in the rule, the names of the sender's rooms are collected: a constant per
/// broadcast, nothing per delivery.
#[test]
fn a_broadcast_to_the_senders_rooms_costs_a_constant() {
    let costs = [10, 1_000].map(|members| {
        let mut bench = lab();
        let conns: Vec<ConnId> = (0..members).map(|_| bench.socketio()).collect();
        bench.rounds(50, |bench| bench.say(conns[0], br#"42["tell","hello"]"#))
    });
    assert_eq!(
        costs,
        [50 * 5, 50 * 5],
        "50 broadcasts to 10 and to 1,000 members"
    );
}

#[test]
fn a_chat_message_costs_a_constant() {
    let costs = [10, 1_000].map(|members| {
        let mut bench = Bench::new(Config::default(), handler(&chat_rules()));
        let conns: Vec<ConnId> = (0..members).map(|_| bench.socketio()).collect();
        let event = br#"421["chat-message",{"content":"hello"}]"#;
        bench.rounds(100, |bench| bench.say(conns[0], event))
    });
    assert_eq!(costs[0], costs[1], "for 10 and for 1,000 members");
    assert_eq!(costs[0], 100 * 10, "allocations of 100 chat messages");
}

#[test]
fn a_plain_json_echo_allocates_nothing() {
    let mut bench = lab();
    let conn = bench.client("/ws", &[]);
    let event = br#"{"type":"echo","payload":{"text":"hello"}}"#;
    let acked = br#"{"type":"echo","payload":{"text":"hello"},"id":7}"#;
    let written = bench.written(|bench| bench.say(conn, event));
    assert_eq!(written, (1, 2 + event.len()));
    let count = bench.rounds(1_000, |bench| {
        bench.say(conn, event);
        bench.say(conn, acked);
    });
    assert_eq!(count, 0, "allocations of 1,000 echoes and 1,000 acks");
}

#[test]
fn heartbeats_allocate_nothing() {
    // Nobody is to be told that no namespace was joined.
    let connect_timeout = Duration::from_secs(1_000_000);
    let config = Config {
        connect_timeout,
        ..Config::default()
    };
    let mut bench = Bench::new(config, handler(&Rules::default()));
    let target = "/socket.io/?EIO=4&transport=websocket";
    let conns: Vec<ConnId> = (0..100).map(|_| bench.client(target, &[])).collect();
    let beat = |bench: &mut Bench| {
        bench.now.mono_ms += 25_000;
        end(bench.hub.turn(bench.now, &mut bench.sink));
        conns.iter().for_each(|conn| bench.say(*conn, b"3"));
    };
    assert_eq!(bench.written(beat), (100, 300), "one ping each");
    assert_eq!(
        bench.rounds(20, beat),
        0,
        "allocations of 2,000 pings and pongs"
    );
    assert_eq!(bench.hub.conns(), 100, "everybody is still there");
}

#[test]
fn a_dropped_event_allocates_nothing() {
    let mut rules = lab_rules();
    let main = rules.namespaces.get_mut("/").expect("the main namespace");
    main.default_event = rule(Action::Drop);
    let mut bench = Bench::new(Config::default(), handler(&rules));
    let conn = bench.socketio();
    let written = bench.written(|bench| {
        let count = bench.rounds(100, |bench| bench.say(conn, br#"42["x",1]"#));
        assert_eq!(count, 0);
    });
    assert_eq!(written, (0, 0), "dropped is not answered");
    let dropped = bench
        .cells
        .dropped
        .iter()
        .map(|cell| cell.load(Ordering::Relaxed))
        .sum::<u64>();
    assert_eq!(dropped, 2 * 100, "the warm-up counts too");
}

fn followed(bench: &mut Bench, subject: Subject) -> Arc<LiveTrace> {
    let bounds = TraceBounds {
        until_ms: u64::MAX,
        lines_per_s: 1_000_000,
        payload: false,
        marks: None,
    };
    let trace = Arc::new(LiveTrace::new(subject, None, bounds));
    let mut turn = bench.hub.turn(bench.now, &mut bench.sink);
    turn.trace(Arc::clone(&trace));
    end(turn);
    trace
}

/// As many events as `EVENTS` says, for `MEMBERS` clients: instructions are counted from outside for two numbers of them, while nobody is followed
/// or somebody else (`benchmarks/console/off.sh`), and with offsets for `RECOVERY` of "all" or "asked", or without.
#[test]
fn as_many_events_as_one_wants() {
    let word = |name: &str| std::env::var(name).unwrap_or_default();
    let times = word("EVENTS").parse().unwrap_or(10);
    let text: &[u8] = match word("KIND").as_str() {
        "acked" => br#"4217["echo",{"text":"hello","list":[1,2.5,null]},"x"]"#,
        "shout" => br#"42["shout",{"text":"hello everybody"}]"#,
        _ => br#"42["echo",{"text":"hello","list":[1,2.5,null]},"x"]"#,
    };
    let offsets = match word("RECOVERY").as_str() {
        "" => None,
        "asked" => Some(Offsets::Asked),
        _ => Some(Offsets::All),
    };
    let recover = offsets.map(|offsets| Recover {
        window: Duration::from_secs(120),
        offsets,
        goes_abroad: false,
        chronicle: false,
        replicas: 0,
    });
    let config = Config {
        recovery: Recovery {
            namespaces: [("/".to_owned(), recover)].into(),
        },
        ..Config::default()
    };
    let mut bench = Bench::new(config, handler(&lab_rules()));
    let members = word("MEMBERS").parse().unwrap_or(10);
    let conns: Vec<ConnId> = (0..members).map(|_| bench.socketio()).collect();
    if word("FOLLOW") == "user" {
        followed(&mut bench, Subject::User("somebody".into()));
    }
    for _ in 0..times {
        bench.say(conns[0], text);
    }
    assert!(bench.sink.writes >= times);
}

/// Others do not pay for it that somebody is followed, and nobody does when that is over.
#[test]
fn events_that_nobody_follows_allocate_nothing() {
    let mut bench = lab();
    let conns: Vec<ConnId> = (0..10).map(|_| bench.socketio()).collect();
    let acked = br#"4217["echo",{"text":"hello"}]"#;
    let shout = br#"42["shout",{"text":"hello everybody"}]"#;
    let round = |bench: &mut Bench| {
        bench.say(conns[0], acked);
        bench.say(conns[1], shout);
    };
    let somebody = followed(&mut bench, Subject::User("somebody".into()));
    let other = followed(&mut bench, Subject::Event("other".into()));
    assert_eq!(bench.rounds(100, round), 0, "somebody else is followed");
    assert!(somebody.next().is_none() && other.next().is_none());
    let echo = followed(&mut bench, Subject::Event("echo".into()));
    let room = followed(&mut bench, Subject::Room("everybody".into()));
    round(&mut bench);
    let lines: Vec<_> = std::iter::from_fn(|| echo.next()).collect();
    let seen: Vec<_> = lines.iter().map(|line| (line.inward, line.what)).collect();
    assert_eq!(seen, [(true, "event"), (false, "answer")]);
    for trace in [somebody, other, echo, room] {
        trace.end();
    }
    assert_eq!(bench.rounds(100, round), 0, "nobody is followed any more");
}
