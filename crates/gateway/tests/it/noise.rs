//! Random bad input over real sockets: the transcripts' own dialogues with bytes changed, cut, doubled and mixed, from many clients at
//! once, against one gateway that must neither end nor grow.
//!
//! `SOCKEYE_NOISE_SECONDS=600 cargo test --release -p gateway --test it noise -- --nocapture` is the long run; the short one is a
//! smoke test of the same.

use crate::harness::{Alone, Gateway, SocketIo, Stop};
use crate::player::{Received, Script, World, play};
use fastrand::Rng;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const CLIENTS: u64 = 32;
const SHORT_SECONDS: u64 = 10;
/// How long an answer is waited for that may never come: the request was broken.
const PATIENCE: Duration = Duration::from_millis(100);

const CONFIG: &str = r#"
profile = "socket.io"
[server]
shards = 2
pin = false
[log]
connections = false
[limits]
message_timeout = "1s"
handshake_timeout = "1s"
close_timeout = "1s"
# Sessions that polled and were left alone end within two seconds: what lives is as much early as late.
[socketio]
ping_interval = "1s"
ping_timeout = "1s"
[compression]
websocket = true
[namespaces."/"]
client_joins = true
auto_join = ["hall"]
[namespaces."/".default]
action = "reply"
[namespaces."/".events.shout]
action = "rooms"
room = "hall"
echo = true
[namespaces."/lab".default]
action = "reply"
"#;

/// A world in which what clients send is damaged on its way.
struct Damage<'a> {
    addr: SocketAddr,
    conns: BTreeMap<String, TcpStream>,
    dice: &'a mut Rng,
    /// What was sent before: pieces of it come again in the wrong place.
    heap: Vec<u8>,
}

impl Damage<'_> {
    fn damage(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for _ in 0..=self.dice.usize(..3) {
            let at = self.dice.usize(..bytes.len() + 1);
            let len = self.dice.usize(..40).min(bytes.len() - at);
            match self.dice.usize(..6) {
                0 if at < bytes.len() => bytes[at] = self.dice.u8(..),
                1 if at < bytes.len() => bytes[at] ^= 1 << self.dice.usize(..8),
                2 => drop(bytes.drain(at..at + len)),
                3 => bytes.truncate(at),
                4 => {
                    let again = bytes[at..at + len].repeat(1 + self.dice.usize(..50));
                    bytes.splice(at..at, again);
                }
                _ => {
                    let from = self.dice.usize(..self.heap.len() + 1);
                    let len = self.dice.usize(..200).min(self.heap.len() - from);
                    bytes.splice(at..at, self.heap[from..from + len].iter().copied());
                }
            }
        }
        bytes
    }
}

impl World for Damage<'_> {
    fn open(&mut self, conn: &str) {
        if let Ok(stream) = TcpStream::connect(self.addr) {
            let _ = stream.set_nodelay(true);
            let _ = stream.set_write_timeout(Some(PATIENCE));
            self.conns.insert(conn.to_owned(), stream);
        }
    }

    fn send(&mut self, conn: &str, bytes: &[u8]) {
        // Most steps stay whole, or no dialogue would get beyond its first.
        let sent = match self.dice.usize(..4) {
            0 => self.damage(bytes),
            _ => bytes.to_vec(),
        };
        self.heap.extend_from_slice(&bytes[..bytes.len().min(512)]);
        if self.heap.len() > 64 * 1024 {
            self.heap.drain(..32 * 1024);
        }
        if let Some(mut stream) = self.conns.get(conn) {
            let _ = stream.write_all(&sent);
        }
    }

    fn end(&mut self, conn: &str) {
        if let Some(stream) = self.conns.get(conn) {
            let _ = stream.shutdown(Shutdown::Write);
        }
    }

    fn receive(&mut self, conn: &str, patient: bool) -> Received {
        let Some(mut stream) = self.conns.get(conn) else {
            return Received::End;
        };
        let time = if patient {
            PATIENCE
        } else {
            Duration::from_millis(1)
        };
        let _ = stream.set_read_timeout(Some(time));
        let mut buf = [0; 4096];
        match stream.read(&mut buf) {
            Ok(0) => Received::End,
            Ok(n) => Received::Bytes(buf[..n].to_vec()),
            Err(_) => Received::Nothing,
        }
    }

    fn pass(&mut self, _: Duration) {}

    fn drain(&mut self) {}

    fn is_exact(&self) -> bool {
        false
    }
}

/// Dialogues one after the other until time is over; what comes back does not matter here.
fn client(seed: u64, addr: SocketAddr, scripts: &[Script], over: &AtomicBool, played: &AtomicU64) {
    let mut dice = Rng::with_seed(seed);
    let mut heap = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let script = &scripts[dice.usize(..scripts.len())];
        let mut world = Damage {
            addr,
            conns: BTreeMap::new(),
            dice: &mut dice,
            heap: std::mem::take(&mut heap),
        };
        // A dialogue that went wrong may lack a name that a later line uses: the player ends it there.
        let _ = catch_unwind(AssertUnwindSafe(|| play(script, &mut world)));
        heap = world.heap;
        played.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn noise_neither_ends_the_gateway_nor_makes_it_grow() {
    let _alone = Alone::wait();
    let seconds = std::env::var("SOCKEYE_NOISE_SECONDS").ok();
    let seconds = seconds.map_or(SHORT_SECONDS, |text| text.parse().expect("seconds"));
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().name() != Some("noise") {
            report(panic);
        }
    }));
    let mut gateway = Gateway::start(CONFIG);
    let scripts = crate::player::all();
    let (over, played) = (AtomicBool::new(false), AtomicU64::new(0));
    let addr = gateway.addr;
    let mut resident = Vec::new();
    std::thread::scope(|scope| {
        let _stop = Stop(&over);
        for seed in 0..CLIENTS {
            let (scripts, over, played) = (&scripts, &over, &played);
            std::thread::Builder::new()
                .name("noise".to_owned())
                .spawn_scoped(scope, move || client(seed, addr, scripts, over, played))
                .expect("a client");
        }
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(seconds) {
            std::thread::sleep(Duration::from_secs(1));
            resident.push(gateway.memory());
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(gateway.is_alive(), "{:?}", gateway.log().last());
    assert_eq!(gateway.metric("sockeye_handler_panics_total"), 0.0);
    let gone = gateway.metric_settles("sockeye_connections", |open| open == 0.0);
    assert!(gone.is_ok(), "{gone:?} connections are left");
    // The first third warms up buffers that are kept.
    let [early, late] = [resident.len() / 3, resident.len() - 1].map(|at| resident[at]);
    println!(
        "{} dialogues in {seconds} s; resident {early} bytes after a third, {late} at the end",
        played.load(Ordering::Relaxed)
    );
    assert!(
        played.load(Ordering::Relaxed) > CLIENTS * seconds / 4,
        "too few dialogues"
    );
    // The short run is too short to be flat to the last bytes.
    let allowed = if seconds < 60 { 120 } else { 105 };
    assert!(
        late <= early * allowed / 100,
        "{early} bytes grew to {late}: {resident:?}"
    );
    let mut client = SocketIo::connect(gateway.addr);
    assert_eq!(
        client.ask(1, &json!(["echo", "still here"])),
        json!(["still here"])
    );
}
