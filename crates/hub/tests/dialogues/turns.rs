//! What a turn leaves for later: deadlines, input that waits, output that a sink holds, messages between two hubs.

use crate::identity::{frame, received, websocket};
use crate::rig::{Rig, dice, frames};
use client::OpCode;
use hub::ConnId;
use hub::config::{Config, SlowConsumer};
use hub::mailbox::{Weigh, mailbox, waker};
use hub::metrics::Cells;
use hub::{
    ConnectRequest, Context, Decision, DisconnectReason, Effect, Emit, Event, Handler, Hub,
    Identity, Letter, Now, Process, Sink, SocketKey, Spent, Turn, World, Writes, Written,
};
use std::io::IoSlice;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SIO: &str = "/socket.io/?EIO=4&transport=websocket";

fn joined(rig: &mut Rig) -> usize {
    let client = websocket(rig, SIO, "");
    rig.send(client, &frame("40"));
    received(rig, client);
    client
}

/// The deadline of an earlier message is looked at in the very millisecond, an even one, in which another begins.
#[test]
fn a_message_that_begins_now_is_not_late() {
    let mut rig = Rig::lab(Config::default(), 1);
    let client = joined(&mut rig);
    let whole = frame("42[\"void\",\"some text\"]");
    rig.pass(Duration::from_millis(10_000 - rig.now.mono_ms));
    rig.send(client, &whole[..5]);
    rig.send(client, &whole[5..]);
    for _ in 0..29 {
        rig.pass(Duration::from_secs(1));
        if received(&mut rig, client).contains(&"2".to_owned()) {
            rig.send(client, &frame("3"));
        }
    }
    rig.pass(Duration::from_millis(999));
    rig.now.mono_ms += 1;
    rig.now.wall_ms += 1;
    assert_eq!(rig.now.mono_ms, 40_000);
    rig.log.clear();
    rig.send(client, &whole[..5]);
    rig.send(client, &whole[5..]);
    assert_eq!(received(&mut rig, client), Vec::<String>::new());
    assert!(rig.log.is_empty(), "{:?}", rig.log);
}

/// With TLS one read may bring messages and the end of the stream: the end must not overtake them.
#[test]
fn the_end_of_the_stream_waits_for_input_that_waits() {
    let mut config = Config::default();
    config.limits.deliveries_per_turn = 1;
    let mut rig = Rig::lab(config, 1);
    let (listener, talker) = (joined(&mut rig), joined(&mut rig));
    let shouts: Vec<String> = (0..100).map(|n| format!("42[\"shout\",{n}]")).collect();
    let batch: Vec<u8> = shouts.iter().flat_map(|text| frame(text)).collect();
    rig.bytes(talker, &batch);
    assert!(rig.hub.has_stalled());
    rig.end(talker);
    assert_eq!(received(&mut rig, listener), shouts);
    assert!(rig.conn(talker).is_none(), "then it ends");
}

/// Encrypts in records as TLS does: of the first write it takes so many bytes, which then wait for the kernel in it.
struct Holding {
    conn: ConnId,
    first: usize,
    held: bool,
    stream: Vec<u8>,
    /// To the other hub.
    sent: Vec<Arc<Letter>>,
    /// What happened, in its order.
    order: Vec<&'static str>,
}

impl Holding {
    fn take(&mut self, conn: ConnId, slices: &[IoSlice<'_>]) -> Written {
        self.order.push("written");
        let all: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
        if conn != self.conn {
            return Written::Bytes(all.len());
        }
        if self.held {
            return Written::WouldBlock;
        }
        let taken = self.first.min(all.len());
        self.stream.extend_from_slice(&all[..taken]);
        if taken == self.first {
            (self.held, self.first) = (true, usize::MAX);
            return Written::Held(taken);
        }
        Written::Bytes(taken)
    }
}

impl Sink for Holding {
    fn write(&mut self, writes: Writes<'_>) {
        writes.one_by_one(|conn, slices| self.take(conn, slices));
    }
}

impl World for Holding {
    fn carry_out(&mut self, effect: Effect) {
        if let Effect::Send { letter, .. } = effect {
            self.order.push("sent");
            self.sent.push(letter);
        }
    }

    fn wake(&mut self) {
        self.order.push("woken");
    }
}

/// What is in a record is sent: a frame of which it holds a byte is begun, and one that it ends with is over.
#[test]
fn a_frame_is_never_cut_where_a_record_ends() {
    let text = format!("42[\"shout\",\"{}\"]", "x".repeat(199));
    let whole = frame(&text).len() - 4;
    for policy in [SlowConsumer::Disconnect, SlowConsumer::DropOldest] {
        for beyond in [0, 1, 2, 3, 100, whole - 1] {
            let mut config = Config::default();
            config.limits.outbox_bytes_max = 16 * 1024;
            config.slow_consumer = policy;
            let mut rig = Rig::lab(config, 1);
            rig.checks = false;
            let (slow, talker) = (joined(&mut rig), joined(&mut rig));
            let mut sink = Holding {
                conn: rig.conn(slow).expect("open"),
                first: 100 * whole + beyond,
                held: false,
                stream: Vec::new(),
                sent: Vec::new(),
                order: Vec::new(),
            };
            rig.bytes(talker, &frame(&text).repeat(400));
            flush(&mut rig, &mut sink);
            sink.held = false;
            let conn = sink.conn;
            rig.hub.turn(rig.now, &mut sink).writable(conn);
            flush(&mut rig, &mut sink);
            let frames = frames(&sink.stream, false);
            assert!(frames.len() > 100, "{policy:?} {beyond}");
            let broken = frames.iter().find(|found| {
                let close = found.opcode == OpCode::Close && policy == SlowConsumer::Disconnect;
                !close && found.payload != text.as_bytes()
            });
            assert_eq!(broken, None, "{policy:?} {beyond}");
        }
    }
}

fn flush(rig: &mut Rig, sink: &mut Holding) {
    loop {
        rig.hub.turn(rig.now, sink).end(false, |_| Spent::default());
        if !rig.hub.has_stalled() {
            return;
        }
        rig.hub.turn(rig.now, sink).resume();
    }
}

/// Does what events say, and notes the namespaces of those who leave.
#[derive(Default)]
struct Doer(Arc<Mutex<Vec<Option<String>>>>);

impl Handler for Doer {
    fn connecting(&mut self, _: &mut Context<'_>, _: &ConnectRequest<'_>) -> Decision {
        Decision::Admit
    }

    fn event(&mut self, cx: &mut Context<'_>, socket: SocketKey, event: Event<'_>) {
        match event.name {
            "join" => assert!(cx.socket(socket).join("x").is_ok()),
            "leave" => cx.socket(socket).leave("x"),
            "join all" => drop(cx.of("/").join(&["x"])),
            "say" => {
                cx.of("/").to(&["x"]).emit(&Emit::new("said", ""));
            }
            other => panic!("{other}?"),
        }
    }

    fn disconnected(&mut self, cx: &mut Context<'_>, socket: SocketKey, _: DisconnectReason) {
        let namespace = cx.socket(socket).namespace().map(str::to_owned);
        self.0.lock().expect("nobody panicked").push(namespace);
    }
}

#[test]
fn the_namespace_of_the_last_socket_is_known_while_handlers_hear_that_it_left() {
    let left = Arc::default();
    let mut rig = Rig::new(Config::default(), Box::new(Doer(Arc::clone(&left))), 1);
    let client = websocket(&mut rig, SIO, "");
    rig.send(client, &frame("40/a,"));
    rig.pass(Duration::from_secs(60));
    assert_eq!(*left.lock().unwrap(), [Some("/a".to_owned())]);
}

/// All writes of a flush are out before the first end is dealt with: what that end makes a handler say comes behind them.
#[test]
fn what_is_said_of_a_broken_connection_comes_behind_a_frame_that_was_cut_beside_it() {
    for broken in [0, 1] {
        let mut rig = Rig::new(Config::default(), Box::new(Farewell), 1);
        let clients = [joined(&mut rig), joined(&mut rig)];
        let (broken, cut) = (clients[broken], clients[1 - broken]);
        rig.wires.kernel = Box::new(move |name, len| match name == broken {
            true => Written::Gone,
            false => Written::Bytes(len.min(3)),
        });
        rig.send(broken, &frame("42[\"say\"]"));
        assert!(rig.conn(broken).is_none(), "it is lost");
        rig.wires.kernel = Box::new(|_, len| Written::Bytes(len));
        rig.writable(cut);
        rig.end_turn();
        assert_eq!(received(&mut rig, cut), ["42[\"said\"]", "42[\"left\"]"]);
    }
}

/// Tells all what is said and that somebody left.
struct Farewell;

impl Farewell {
    fn tell(cx: &mut Context<'_>, name: &str) {
        cx.of("/").emit(&Emit::new(name, ""));
    }
}

impl Handler for Farewell {
    fn connecting(&mut self, _: &mut Context<'_>, _: &ConnectRequest<'_>) -> Decision {
        Decision::Admit
    }

    fn event(&mut self, cx: &mut Context<'_>, _: SocketKey, _: Event<'_>) {
        Self::tell(cx, "said");
    }

    fn disconnected(&mut self, cx: &mut Context<'_>, _: SocketKey, _: DisconnectReason) {
        Self::tell(cx, "left");
    }
}

/// One of two hubs, whose messages to the other are carried by hand.
struct Half {
    hub: Hub,
    now: Now,
    conn: ConnId,
    world: Holding,
}

impl Half {
    fn in_process(shard: u16, config: Config, process: &Process) -> Half {
        let me = Identity {
            node: 1,
            shard,
            shards: 2,
        };
        let (config, cells) = (Arc::new(config), Arc::new(Cells::default()));
        let entropy = dice(u64::from(shard) + 1);
        let doer = Box::new(Doer::default());
        let mut hub = Hub::in_process(config, me, doer, cells, entropy, process);
        let now = Now {
            mono_ms: 1_000,
            wall_ms: 1_750_000_000_000,
        };
        let mut world = Holding {
            conn: ConnId::from_index(0).expect("small"),
            first: usize::MAX,
            held: false,
            stream: Vec::new(),
            sent: Vec::new(),
            order: Vec::new(),
        };
        let conn = hub
            .turn(now, &mut world)
            .opened([127, 0, 0, 1].into(), |_, _| true);
        let mut half = Half {
            hub,
            now,
            conn,
            world,
        };
        half.greet();
        half
    }

    fn input(&mut self) -> Turn<'_, Holding> {
        self.hub.turn(self.now, &mut self.world)
    }

    /// One more client of this hub, which speaks from now on.
    fn newcomer(&mut self) -> ConnId {
        self.conn = self.input().opened([127, 0, 0, 1].into(), |_, _| true);
        self.greet();
        self.conn
    }

    fn greet(&mut self) {
        let request = format!(
            "GET {SIO} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        );
        self.bytes(&mut request.into_bytes());
        self.hear("40");
    }

    fn bytes(&mut self, bytes: &mut [u8]) {
        let conn = self.conn;
        self.input().bytes(conn, bytes);
    }

    fn hear(&mut self, text: &str) {
        self.bytes(&mut frame(text));
    }

    /// Ends the turn at this time: what it sends to the other hub, and what the client got.
    fn turn(&mut self, mono_ms: u64) -> (Vec<Arc<Letter>>, String) {
        self.world.conn = self.conn;
        self.input().end(false, |_| Spent::default());
        self.now.wall_ms += mono_ms - self.now.mono_ms;
        self.now.mono_ms = mono_ms;
        self.input().end(false, |_| Spent::default());
        let got = std::mem::take(&mut self.world.stream);
        let sent = std::mem::take(&mut self.world.sent);
        (sent, String::from_utf8_lossy(&got).into_owned())
    }

    fn get(&mut self, letters: &[Arc<Letter>]) {
        letters
            .iter()
            .for_each(|letter| self.input().letter(letter));
    }
}

/// B woke at the first message of A's turn, worked on each by itself, and wrote to its clients as often.
#[test]
fn another_shard_was_woken_by_the_first_message_of_a_turn() {
    let process = Process::default();
    let mut a = Half::in_process(0, Config::default(), &process);
    let mut b = Half::in_process(1, Config::default(), &process);
    for half in [&mut a, &mut b] {
        half.hear("42[\"join\"]");
        half.turn(2_000);
    }
    a.world.order.clear();
    (0..3).for_each(|_| a.hear("42[\"say\"]"));
    a.turn(2_001);
    assert_eq!(
        a.world.order[..5],
        ["sent", "sent", "sent", "woken", "written"]
    );
}

/// A has everybody join a room that is empty so far: what A then says reaches B's member, although B has not heard of it yet.
#[test]
fn a_join_that_was_asked_for_counts_before_it_is_carried_out() {
    let process = Process::default();
    let mut a = Half::in_process(0, Config::default(), &process);
    let mut b = Half::in_process(1, Config::default(), &process);
    a.hear("42[\"join all\"]");
    let (join, _) = a.turn(2_000);
    a.hear("42[\"say\"]");
    let (say, _) = a.turn(2_001);
    b.get(&join);
    b.get(&say);
    let (_, heard) = b.turn(2_002);
    assert!(heard.contains("said"), "{heard:?}");
    // Nobody waits for the join any more: when B's member has left, A sends nothing there.
    drop(join);
    b.hear("42[\"leave\"]");
    b.turn(4_000);
    a.hear("42[\"say\"]");
    let (say, _) = a.turn(4_001);
    assert!(say.is_empty(), "{say:?}");
}

/// A client that was told of its join may tell others by another way, as a handshake of TLS does with the last of its bytes:
/// they publish before any letter has arrived.
#[test]
fn a_member_was_passed_by_until_its_join_had_been_announced() {
    let process = Process::default();
    let mut a = Half::in_process(0, Config::default(), &process);
    let mut b = Half::in_process(1, Config::default(), &process);
    a.turn(1_000);
    b.hear("42[\"join\"]");
    a.hear("42[\"say\"]");
    let (say, _) = a.turn(1_000);
    b.get(&say);
    let (_, heard) = b.turn(1_000);
    assert!(heard.contains("said"), "{heard:?}");
}

/// Two hubs that know of each other's clients; all members of room `x` are B's.
fn a_room_of_the_other() -> (Half, Half, Process) {
    let process = Process::default();
    let (mut a, mut b) = (
        Half::in_process(0, Config::default(), &process),
        Half::in_process(1, Config::default(), &process),
    );
    b.hear("42[\"join\"]");
    let (from_a, from_b) = (a.turn(1_000).0, b.turn(1_000).0);
    a.get(&from_b);
    b.get(&from_a);
    (a, b, process)
}

/// A read of many small events for members elsewhere makes no delivery here, and still it is work: for the others, and for the
/// mailbox that takes it.
#[test]
fn messages_to_another_shard_were_not_part_of_a_turns_share() {
    const READS: usize = 64;
    let (mut a, _b, _) = a_room_of_the_other();
    let event = frame("42[\"say\"]");
    let read = event.repeat(65_000 / event.len());
    a.turn(1_001);
    let full = (0..READS).find(|_| {
        a.newcomer();
        a.bytes(&mut read.clone());
        a.input().is_full()
    });
    assert!(full.is_some(), "{READS} reads of {} bytes", read.len());
    let letters = a.world.sent.len();
    assert!((1_000..32_768).contains(&letters), "{letters} in one turn");
}

struct Parcel(usize);

impl Weigh for Parcel {
    fn bytes(&self) -> usize {
        self.0
    }
}

/// A sender to the long mailbox waits until it is short again, and loses nothing; senders to others are read on.
#[test]
fn one_long_mailbox_stopped_all_reading() {
    let (mut a, mut b, process) = a_room_of_the_other();
    let talker = a.conn;
    let (sender, receiver) = mailbox(waker(|| {}), Arc::clone(&process.loads), 1);
    sender.send(Parcel(Config::default().limits.mailbox_bytes_max + 1));
    a.turn(1_001);
    let mut twice = [frame("42[\"say\"]"), frame("42[\"say\"]")].concat();
    a.bytes(&mut twice);
    assert!(a.hub.is_stalled(talker), "its next read waits");
    assert_eq!(a.hub.held_back(), 1);
    let other = a.newcomer();
    a.hear("42[\"leave\"]");
    assert!(!a.hub.is_stalled(other), "it sent nothing there");
    let broadcasts = |letters: &[Arc<Letter>]| {
        let all = letters.iter();
        all.filter(|letter| matches!(***letter, Letter::Order(_)))
            .count()
    };
    let (first, _) = a.turn(1_002);
    assert_eq!(broadcasts(&first), 1);
    a.input().resume();
    assert_eq!(broadcasts(&a.turn(1_003).0), 0, "still long");
    receiver.pop();
    a.input().resume();
    let (second, _) = a.turn(1_004);
    assert_eq!(broadcasts(&second), 1);
    assert!(!a.hub.is_stalled(talker));
    b.get(&first);
    b.get(&second);
    assert_eq!(b.turn(1_005).1.matches("said").count(), 2);
}

/// Writes down what it hears.
#[derive(Clone, Default)]
struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    fn note(&self, what: &str, cx: &mut Context<'_>, socket: SocketKey) {
        let id = cx
            .socket(socket)
            .id()
            .map_or_else(String::new, |id| id.to_string());
        self.0
            .lock()
            .expect("nobody panicked")
            .push(format!("{what} {id}"));
    }
}

impl Handler for Diary {
    fn connecting(&mut self, _: &mut Context<'_>, _: &ConnectRequest<'_>) -> Decision {
        Decision::Admit
    }

    fn connected(&mut self, cx: &mut Context<'_>, socket: SocketKey, _: &str) {
        self.note("connected", cx, socket);
    }

    fn event(&mut self, cx: &mut Context<'_>, socket: SocketKey, _: Event<'_>) {
        self.note("event", cx, socket);
    }

    fn disconnected(&mut self, cx: &mut Context<'_>, socket: SocketKey, _: DisconnectReason) {
        self.note("disconnected", cx, socket);
    }
}

/// A client leaves a namespace, comes back and speaks, all in one read.
#[test]
fn a_handler_heard_of_the_end_after_what_followed_it() {
    let diary = Diary::default();
    let mut rig = Rig::new(Config::default(), Box::new(diary.clone()), 1);
    let client = websocket(&mut rig, SIO, "");
    rig.send(client, &frame("40"));
    let read = ["41", "40", "42[\"hello\"]"].map(frame).concat();
    rig.send(client, &read);
    let lines = diary.0.lock().expect("nobody panicked").clone();
    let [first, second] =
        [&lines[0], &lines[2]].map(|line| line.rsplit_once(' ').expect("an id").1);
    assert_ne!(first, second);
    let expected = [
        format!("connected {first}"),
        format!("disconnected {first}"),
        format!("connected {second}"),
        format!("event {second}"),
    ];
    assert_eq!(lines, expected);
}

/// Sessions of all shards count, as connections do.
#[test]
fn conns_max_was_compared_with_one_shards_sessions() {
    let process = Process::default();
    let mut config = Config::default();
    config.limits.conns_max = 2;
    let mut a = Half::in_process(0, config.clone(), &process);
    let _b = Half::in_process(1, config, &process);
    a.newcomer();
    let (_, told) = a.turn(1_000);
    assert!(told.starts_with("HTTP/1.1 503"), "{told}");
}
