//! Publishers on one node, members on all, and what each member got.

use crate::harness::Gateway;
use client::OpCode;
use client::brief::Plain;
use client::conn::masked;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

const PUBLISHERS: usize = 4;
/// Messages in one write.
const BURST: u64 = 16;
/// All publishers together: 5,000 messages a second.
const PAUSE: Duration = Duration::from_micros(BURST * PUBLISHERS as u64 * 1_000_000 / 5_000);
/// The first has members on one other node, the second on two: they go by different channels.
const ROOMS: [&str; 2] = ["near", "wide"];
/// The node of each member, and its rooms.
const MEMBERS: [(usize, &[&str]); 4] = [(0, &ROOMS), (1, &ROOMS), (1, &ROOMS), (2, &[ROOMS[1]])];
/// A message that is later than this waited for a repair.
const LATE: Duration = Duration::from_millis(200);

/// Where message `n` of a publisher goes.
fn room_of(seed: u64, publisher: usize, n: u64) -> usize {
    let mixed = (seed ^ n << 8 ^ publisher as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::from(mixed >> 63 == 1)
}

pub struct Traffic {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicBool>,
    publishers: Vec<JoinHandle<u64>>,
    members: Vec<JoinHandle<Came>>,
}

/// What came to a member, or to all of them.
#[derive(Clone, Debug, Default)]
pub struct Came {
    pub sent: u64,
    pub came: u64,
    pub lost: u64,
    /// The same by the node of the member that missed them, a number for each member.
    pub lost_at: [Vec<u64>; 3],
    pub duplicated: u64,
    pub reordered: u64,
    pub silence: Duration,
    /// When the last message came that was late.
    pub last_late: Option<Instant>,
}

impl Traffic {
    pub fn start(nodes: &[Gateway; 3], seed: u64) -> Traffic {
        Self::at(nodes.each_ref().map(|node| node.addr), seed)
    }

    /// The same at these addresses.
    pub fn at(nodes: [SocketAddr; 3], seed: u64) -> Traffic {
        let clock = Instant::now();
        let members = MEMBERS.map(|(node, rooms)| {
            let client = enter(nodes[node], rooms);
            let member = Member::new(rooms, seed, clock);
            spawn(move || member.follow(client))
        });
        let (stop, done) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let publishers = (0..PUBLISHERS).map(|publisher| {
            let client = enter(nodes[0], &ROOMS);
            let (stop, done) = (Arc::clone(&stop), Arc::clone(&done));
            spawn(move || {
                let mut client = client;
                let sent = publish(&mut client, publisher, seed, clock, &stop);
                // What the gateway has not read yet would be lost with the connection.
                while !done.load(Ordering::Relaxed) {
                    listen(&mut client);
                }
                sent
            })
        });
        Traffic {
            publishers: publishers.collect(),
            members: members.into_iter().collect(),
            stop,
            done,
        }
    }

    /// Stops the publishers, waits until every member has the last message of each, and sums up.
    pub fn end(self) -> Came {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Came::default();
        for ((node, _), member) in MEMBERS.iter().zip(self.members) {
            let came = member.join().expect("a member");
            all.came += came.came;
            all.lost += came.lost;
            all.lost_at[*node].push(came.lost);
            all.duplicated += came.duplicated;
            all.reordered += came.reordered;
            all.silence = all.silence.max(came.silence);
            all.last_late = all.last_late.max(came.last_late);
        }
        self.done.store(true, Ordering::Relaxed);
        let publishers = self.publishers.into_iter();
        all.sent = publishers.map(|one| one.join().expect("a publisher")).sum();
        all
    }
}

fn enter(addr: SocketAddr, rooms: &[&str]) -> Plain {
    let mut client = Plain::connect(addr);
    for room in rooms {
        client.send(&json!({"type": "join", "room": room, "id": 1}));
        client.expect_type("ack");
    }
    client
}

/// Returns how many messages were sent, besides the last ones.
fn publish(
    client: &mut Plain,
    publisher: usize,
    seed: u64,
    clock: Instant,
    stop: &AtomicBool,
) -> u64 {
    let (mut n, mut due) = (0, Instant::now());
    let text = |room: usize, n: u64, last: bool| {
        let at = clock.elapsed().as_micros() as u64;
        let payload = json!({"p": publisher, "n": n, "at": at, "last": last, "text": "some words that people write"});
        let message = json!({"type": "message", "room": ROOMS[room], "payload": payload});
        masked(true, OpCode::Text, message.to_string())
    };
    while !stop.load(Ordering::Relaxed) {
        let burst = (n..n + BURST).flat_map(|n| text(room_of(seed, publisher, n), n, false));
        client.conn.send(burst.collect::<Vec<u8>>());
        n += BURST;
        due += PAUSE;
        while Instant::now() < due {
            listen(client);
        }
    }
    (0..ROOMS.len()).for_each(|room| client.conn.send(text(room, n, true)));
    n
}

/// A publisher is a member too. It must hear no refusal: that would be a message that nobody waits for.
fn listen(client: &mut Plain) {
    let Ok(frame) = client.conn.frame_within(Duration::from_millis(1)) else {
        return;
    };
    match frame.opcode {
        OpCode::Ping => client.conn.send_frame(true, OpCode::Pong, frame.payload),
        _ => {
            let said = String::from_utf8_lossy(&frame.payload);
            assert!(!said.contains("\"error\""), "the publisher is told: {said}");
        }
    }
}

struct Member {
    rooms: &'static [&'static str],
    seed: u64,
    clock: Instant,
    /// The next number of each publisher.
    next: [u64; PUBLISHERS],
    missing: BTreeSet<(usize, u64)>,
    ended: BTreeSet<(usize, String)>,
    came: Came,
}

impl Member {
    fn new(rooms: &'static [&'static str], seed: u64, clock: Instant) -> Member {
        Member {
            rooms,
            seed,
            clock,
            next: [0; PUBLISHERS],
            missing: BTreeSet::new(),
            ended: BTreeSet::new(),
            came: Came::default(),
        }
    }

    fn follow(mut self, mut client: Plain) -> Came {
        let mut before = Instant::now();
        while self.ended.len() < self.rooms.len() * PUBLISHERS {
            // Longer than any outage: then the rest is lost. Heartbeats come all the time.
            let left = Duration::from_secs(40).saturating_sub(before.elapsed());
            let frame = match client.conn.frame_within(left) {
                Ok(frame) => frame,
                Err(ended) => {
                    eprintln!("a member waits in vain ({ended:?}): {:?}", self.came);
                    self.came.lost += 1;
                    break;
                }
            };
            match frame.opcode {
                OpCode::Ping => client.conn.send_frame(true, OpCode::Pong, frame.payload),
                OpCode::Text => {
                    self.came.silence = self.came.silence.max(before.elapsed());
                    before = Instant::now();
                    self.take(&serde_json::from_slice(&frame.payload).expect("JSON"));
                }
                other => panic!("a member was sent {other:?}: {:?}", frame.payload),
            }
        }
        if !self.missing.is_empty() {
            let first: Vec<_> = self.missing.iter().take(10).collect();
            eprintln!(
                "a member of {:?} misses (publisher, number): {first:?}",
                self.rooms
            );
        }
        self.came.lost += self.missing.len() as u64;
        self.came
    }

    fn take(&mut self, message: &Value) {
        assert_eq!(message["type"], "message", "{message}");
        let number = |key: &str| message["payload"][key].as_u64().expect("a number");
        let (publisher, n) = (number("p") as usize, number("n"));
        if message["payload"]["last"] == true {
            self.skip_to(publisher, n);
            let room = message["room"].as_str().expect("a room");
            self.ended.insert((publisher, room.to_owned()));
            return;
        }
        self.came.came += 1;
        let late = self
            .clock
            .elapsed()
            .saturating_sub(Duration::from_micros(number("at")));
        if late > LATE {
            self.came.last_late = Some(Instant::now());
        }
        if n >= self.next[publisher] {
            self.skip_to(publisher, n);
            self.next[publisher] = n + 1;
        } else if self.missing.remove(&(publisher, n)) {
            self.came.reordered += 1;
        } else {
            self.came.duplicated += 1;
        }
    }

    /// Those before `n` that were for us did not come, or come too late.
    fn skip_to(&mut self, publisher: usize, n: u64) {
        let seed = self.seed;
        let mine = |n: &u64| self.rooms.contains(&ROOMS[room_of(seed, publisher, *n)]);
        let skipped = (self.next[publisher]..n).filter(mine);
        self.missing.extend(skipped.map(|n| (publisher, n)));
        self.next[publisher] = self.next[publisher].max(n);
    }
}
