//! What a turn leaves for later: deadlines, input that waits, output that a sink holds, messages between two hubs.

use crate::identity::{frame, received, websocket};
use crate::rig::{Rig, dice};
use hub::ConnId;
use hub::config::{Config, SlowConsumer};
use hub::metrics::Cells;
use hub::{
    ConnectRequest, Context, DisconnectReason, Effect, Emit, Event, Handler, Hub, Identity, Now,
    Refusal, Relay, Sink, SocketKey, Target, Written,
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
    rig.hub.begin_turn(rig.now);
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
}

impl Sink for Holding {
    fn write(&mut self, conn: ConnId, slices: &[IoSlice<'_>]) -> Written {
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
            };
            rig.bytes(talker, &frame(&text).repeat(400));
            flush(&mut rig, &mut sink);
            sink.held = false;
            rig.hub.writable(sink.conn, &mut sink);
            flush(&mut rig, &mut sink);
            let frames = frames(&sink.stream);
            assert!(frames.len() > 100, "{policy:?} {beyond}");
            let broken = frames.iter().find(|found| {
                let close = found.starts_with(&[0x88]) && policy == SlowConsumer::Disconnect;
                !close && found[4..] != *text.as_bytes()
            });
            assert_eq!(broken, None, "{policy:?} {beyond}");
        }
    }
}

fn flush(rig: &mut Rig, sink: &mut dyn Sink) {
    rig.hub.tick(false);
    rig.hub.flush(sink);
    while rig.hub.has_stalled() {
        rig.hub.begin_turn(rig.now);
        rig.hub.resume();
        rig.hub.tick(false);
        rig.hub.flush(sink);
    }
}

/// A server's frames, which must be whole.
fn frames(mut stream: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    while !stream.is_empty() {
        let header = wire::websocket::frame::parse_header(stream)
            .expect("a frame")
            .expect("whole");
        let (one, rest) = stream.split_at(header.len + header.payload_len as usize);
        found.push(one);
        stream = rest;
    }
    found
}

/// Does what events say, and notes the namespaces of those who leave.
#[derive(Default)]
struct Doer(Arc<Mutex<Vec<Option<String>>>>);

impl Handler for Doer {
    fn connecting(&mut self, _: &mut Context<'_>, _: &ConnectRequest<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    fn event(&mut self, cx: &mut Context<'_>, socket: SocketKey, event: Event<'_>) {
        let all = Target {
            namespace: "/",
            ..Target::default()
        };
        match event.name {
            "join" => assert!(cx.join(socket, "x").is_ok()),
            "leave" => cx.leave(socket, "x"),
            "join all" => cx.join_all(&all, &["x"]),
            "say" => {
                let emit = Emit {
                    name: "said",
                    ..Emit::default()
                };
                cx.broadcast(
                    &Target {
                        rooms: &["x"],
                        ..all
                    },
                    &emit,
                );
            }
            other => panic!("{other}?"),
        }
    }

    fn disconnected(&mut self, cx: &mut Context<'_>, socket: SocketKey, _: DisconnectReason) {
        let namespace = cx.namespace(socket).map(str::to_owned);
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

/// One of two hubs, whose messages to the other are carried by hand.
struct Half {
    hub: Hub,
    conn: ConnId,
}

impl Half {
    fn new(shard: u16) -> Half {
        let me = Identity {
            node: 1,
            shard,
            shards: 2,
        };
        let (config, cells) = (Arc::new(Config::default()), Arc::new(Cells::default()));
        let entropy = dice(u64::from(shard) + 1);
        let mut hub = Hub::new(config, me, Box::new(Doer::default()), cells, entropy);
        hub.begin_turn(Now {
            mono_ms: 1_000,
            wall_ms: 1_750_000_000_000,
        });
        let conn = hub.opened([127, 0, 0, 1].into());
        let mut half = Half { hub, conn };
        let request = format!(
            "GET {SIO} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        );
        half.hub.bytes(conn, &mut request.into_bytes());
        half.hear("40");
        half
    }

    fn hear(&mut self, text: &str) {
        self.hub.bytes(self.conn, &mut frame(text));
    }

    /// A turn at this time: what it sends to the other hub, and what the client got.
    fn turn(&mut self, mono_ms: u64) -> (Vec<Arc<Relay>>, String) {
        let wall_ms = 1_750_000_000_000 + mono_ms;
        self.hub.begin_turn(Now { mono_ms, wall_ms });
        self.hub.tick(false);
        let mut sink = Holding {
            conn: self.conn,
            first: usize::MAX,
            held: false,
            stream: Vec::new(),
        };
        self.hub.flush(&mut sink);
        let effects = self.hub.take_effects().into_iter();
        let sent = effects.filter_map(|effect| match effect {
            Effect::Send { relay, .. } => Some(relay),
            _ => None,
        });
        (
            sent.collect(),
            String::from_utf8_lossy(&sink.stream).into_owned(),
        )
    }

    fn get(&mut self, relays: &[Arc<Relay>]) {
        relays.iter().for_each(|relay| self.hub.relay(relay));
    }
}

/// B tells that nobody is left in a room while A has everybody join it: what A then says reaches B's member.
#[test]
fn an_old_count_does_not_undo_a_join_that_was_asked_for() {
    let (mut a, mut b) = (Half::new(0), Half::new(1));
    let (from_a, from_b) = (a.turn(1_000).0, b.turn(1_000).0);
    a.get(&from_b);
    b.get(&from_a);
    b.hear("42[\"join\"]");
    a.get(&b.turn(1_300).0);
    b.hear("42[\"leave\"]");
    let (nobody_left, _) = b.turn(2_000);
    assert!(!nobody_left.is_empty(), "B tells that the room is empty");
    a.hear("42[\"join all\"]");
    let (join, _) = a.turn(2_000);
    a.get(&nobody_left);
    a.hear("42[\"say\"]");
    let (say, _) = a.turn(2_001);
    b.get(&join);
    b.get(&say);
    let (answer, heard) = b.turn(2_002);
    assert!(heard.contains("said"), "{heard:?}");
    // The answer ends the waiting: when B's member has left, A sends nothing there any more.
    a.get(&answer);
    b.hear("42[\"leave\"]");
    a.get(&b.turn(4_000).0);
    a.hear("42[\"say\"]");
    let (say, _) = a.turn(4_001);
    let broadcasts = say
        .iter()
        .filter(|relay| matches!(***relay, Relay::Broadcast(_)));
    assert_eq!(broadcasts.count(), 0);
}
