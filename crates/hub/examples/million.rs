//! One hub with 10,000, 100,000 and 1,000,000 Socket.IO sessions over WebSocket, without sockets of the kernel: bytes of a session, and
//! microseconds of a connect, of a heartbeat and of an acked event. One thread: `cargo run --release -p hub --example million`; with a
//! number, so many sessions.
//!
//! Heartbeats are spread over their interval, as those of clients are that came over time. Events come from random sessions, so that each
//! finds the caches cold.

mod bare;

use bare::{Kernel, SOCKET_IO, connect, message, turn};
use hub::config::Config;
use hub::{ConnId, Hub, Now, Spent};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Bytes that are allocated now, as they were asked for.
static LIVE: AtomicUsize = AtomicUsize::new(0);

struct Counting;

#[expect(unsafe_code, reason = "an allocator that counts has no safe form")]
// SAFETY: all is done by the system's allocator, with the arguments that came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const EVENTS: usize = 200_000;

struct Crowd {
    hub: Hub,
    now: Now,
    kernel: Kernel,
    conns: Vec<ConnId>,
}

/// Turns of one kind: how many, and how long they took.
#[derive(Default)]
struct Turns {
    took: Vec<Duration>,
}

impl Turns {
    fn time(&mut self, f: impl FnOnce()) {
        let began = Instant::now();
        f();
        self.took.push(began.elapsed());
    }

    fn us_each(&self, count: usize) -> f64 {
        let all: Duration = self.took.iter().sum();
        all.as_secs_f64() * 1e6 / count as f64
    }

    /// Microseconds that so many of a thousand stay below.
    fn us_at(&mut self, thousandth: usize) -> f64 {
        self.took.sort_unstable();
        let at = (self.took.len() - 1) * thousandth / 1_000;
        self.took[at].as_secs_f64() * 1e6
    }
}

impl Crowd {
    /// Sessions that come one after the other within an interval of heartbeats.
    fn gather(count: usize) -> (Self, Turns) {
        let mut config = Config::default();
        config.limits.conns_max = 2 * count;
        let interval_ms = config.ping_interval.as_millis() as u64;
        let mut crowd = Self {
            hub: bare::hub(config),
            now: Now {
                mono_ms: 1_000,
                wall_ms: 1_750_000_000_000,
            },
            kernel: Kernel::default(),
            conns: Vec::with_capacity(count),
        };
        let (mut turns, began_ms) = (Turns::default(), crowd.now.mono_ms);
        turns.took.reserve(count);
        for at in 0..count as u64 {
            crowd.pass_to(began_ms + at * interval_ms / count as u64);
            turns.time(|| {
                let Self {
                    hub, now, kernel, ..
                } = &mut crowd;
                let conn = connect(hub, *now, kernel, SOCKET_IO, &["40"]);
                crowd.conns.push(conn);
            });
        }
        (crowd, turns)
    }

    fn pass_to(&mut self, mono_ms: u64) {
        self.now.wall_ms += mono_ms - self.now.mono_ms;
        self.now.mono_ms = mono_ms;
    }

    /// A turn without input: only what is due.
    fn tick(&mut self) {
        let turn = self.hub.turn(self.now, &mut self.kernel);
        turn.end(false, |_| Spent { us: 10, mailbox: 0 });
    }

    /// All sessions are asked for a sign of life once, and give it. How many times that was.
    fn heartbeats(&mut self, interval_ms: u64) -> (usize, Turns) {
        let (mut pings, mut turns) = (0, Turns::default());
        let pong = message("3");
        let end_ms = self.now.mono_ms + interval_ms;
        while let Some(due_ms) = self.hub.next_deadline().filter(|due| *due <= end_ms) {
            self.pass_to(due_ms.max(self.now.mono_ms));
            self.kernel.heard = Some(Vec::new());
            turns.time(|| self.tick());
            let asked = self.kernel.heard.take().unwrap_or_default();
            pings += asked.len();
            for conn in asked {
                let mut pong = pong.clone();
                turns.time(|| turn(&mut self.hub, self.now, &mut self.kernel, conn, &mut pong));
            }
        }
        (pings, turns)
    }

    fn events(&mut self) -> Turns {
        let (mut turns, mut dice) = (Turns::default(), fastrand::Rng::with_seed(9));
        turns.took.reserve(EVENTS);
        let event = message("427[\"echo\",7]");
        for _ in 0..EVENTS {
            let conn = self.conns[dice.usize(..self.conns.len())];
            let mut event = event.clone();
            turns.time(|| turn(&mut self.hub, self.now, &mut self.kernel, conn, &mut event));
        }
        turns
    }
}

fn measure(count: usize) {
    let before = LIVE.load(Ordering::Relaxed);
    let (mut crowd, mut connects) = Crowd::gather(count);
    let own = size_of::<ConnId>() + size_of::<Duration>();
    let bytes = (LIVE.load(Ordering::Relaxed) - before) / count - own;
    let interval_ms = Config::default().ping_interval.as_millis() as u64;
    let (pings, mut beats) = crowd.heartbeats(interval_ms);
    assert_eq!(pings, count, "each session was asked once");
    let mut events = crowd.events();
    println!(
        "| {count} | {bytes} | {:.2} ({:.1}) | {:.2} ({:.1}) | {:.2} ({:.1}) |",
        connects.us_each(count),
        connects.us_at(999),
        beats.us_each(pings),
        beats.us_at(999),
        events.us_each(EVENTS),
        events.us_at(999),
    );
}

fn main() {
    println!(
        "| sessions | bytes each | connect, us (p99.9) | heartbeat, us (p99.9 of its turns) | acked event, us (p99.9) |"
    );
    println!("|---:|---:|---:|---:|---:|");
    let asked = std::env::args().nth(1);
    match asked.and_then(|count| count.parse().ok()) {
        Some(count) => measure(count),
        None => [10_000, 100_000, 1_000_000].into_iter().for_each(measure),
    }
}
