//! Clients that talk to each other all the time, and count what they hear.

use super::chain::Chain;
use crate::harness::client::{PLAIN, Plain, SOCKETIO, SocketIo};
use crate::harness::{Alone, Ended, RawConn};
use client::{Frame, OpCode};
use serde_json::json;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// All events go to the rooms of their sender.
const CONFIG: &str = "profile = \"socket.io\"\n[server]\nshards = 2\n";
const CLIENTS: usize = 200;
/// Clients that hear each other.
const ROOM: usize = 10;
const PACE: Duration = Duration::from_millis(400);
const UPGRADES: usize = 3;
/// After the last event, whatever is on its way has come.
const QUIET: Duration = Duration::from_secs(3);

#[derive(Clone, Copy)]
enum Kind {
    SocketIo,
    Plain,
}

/// What a client has to say at the end.
#[derive(Debug, Default)]
struct Account {
    sent: u64,
    /// Of each other client, the numbers that came, in their order.
    heard: BTreeMap<u64, Vec<u64>>,
    ended: Option<String>,
    /// Milliseconds from sending to hearing.
    delays: Vec<u64>,
}

struct Talker {
    number: usize,
    kind: Kind,
    conn: RawConn,
    began: Instant,
    account: Account,
}

impl Talker {
    fn connect(addr: SocketAddr, number: usize, began: Instant) -> Self {
        let room = format!("room-{}", number / ROOM);
        let (kind, conn) = match number % 3 {
            0 => (Kind::Plain, Plain::join(addr, &room).conn),
            _ => {
                let mut client = SocketIo::connect(addr);
                client.ask(1, &json!(["join", room]));
                (Kind::SocketIo, client.conn)
            }
        };
        Self {
            number,
            kind,
            conn,
            began,
            account: Account::default(),
        }
    }

    fn say(&mut self) {
        let what = json!({"from": self.number, "n": self.account.sent, "t": self.now_ms()});
        self.account.sent += 1;
        let text = match self.kind {
            Kind::SocketIo => format!("42{}", json!(["count", what])),
            Kind::Plain => json!({"type": "count", "payload": what}).to_string(),
        };
        if !self.conn.try_send_frame(OpCode::Text, text) {
            self.account.ended.get_or_insert("cannot write".to_owned());
        }
    }

    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    fn hear(&mut self, frame: &Frame) {
        match frame.opcode {
            OpCode::Text if frame.payload == b"2" => {
                self.conn.try_send_frame(OpCode::Text, "3");
            }
            OpCode::Text => {
                let text = frame.text();
                let part = |name: &str| {
                    let at = text.find(name)? + name.len();
                    let digits = text[at..].split(|c: char| !c.is_ascii_digit()).next()?;
                    digits.parse::<u64>().ok()
                };
                if let (Some(from), Some(n), Some(t)) =
                    (part("\"from\":"), part("\"n\":"), part("\"t\":"))
                {
                    self.account.heard.entry(from).or_default().push(n);
                    self.account.delays.push(self.now_ms().saturating_sub(t));
                }
            }
            OpCode::Ping => {
                self.conn.try_send_frame(OpCode::Pong, &frame.payload);
            }
            OpCode::Close => {
                let code = frame.close_code();
                self.account
                    .ended
                    .get_or_insert(format!("closed with {code:?}"));
            }
            _ => {}
        }
    }

    /// Talks and listens until it is told to stop, then only listens for a while.
    fn run(mut self, stop: &AtomicBool) -> Account {
        let phase = PACE * u32::try_from(self.number % 40).unwrap_or(0) / 40;
        let mut next = Instant::now() + phase;
        let mut until = None;
        loop {
            let now = Instant::now();
            if until.is_none() && stop.load(Ordering::Relaxed) {
                until = Some(now + QUIET);
            }
            if until.is_some_and(|until| now >= until) || self.account.ended.is_some() {
                return self.account;
            }
            if until.is_none() && now >= next {
                self.say();
                next += PACE;
            }
            let wait = next.saturating_duration_since(now).min(PACE);
            match self.conn.frame_within(wait.max(Duration::from_millis(5))) {
                Ok(frame) => self.hear(&frame),
                Err(Ended::Open) => {}
                Err(ended) => {
                    self.account.ended.get_or_insert(format!("{ended:?}"));
                }
            }
        }
    }
}

fn crowd(addr: SocketAddr, stop: &Arc<AtomicBool>) -> Vec<JoinHandle<Account>> {
    let (began, ready) = (Instant::now(), Arc::new(Barrier::new(CLIENTS)));
    let talkers = (0..CLIENTS).map(|number| {
        let (stop, ready) = (Arc::clone(stop), Arc::clone(&ready));
        std::thread::spawn(move || {
            let talker = Talker::connect(addr, number, began);
            ready.wait();
            talker.run(&stop)
        })
    });
    talkers.collect()
}

/// Every client has heard all that each other client of its room has said, once, in order, on one connection.
fn check(accounts: &[Account]) {
    let ended = accounts.iter().enumerate();
    let ended: Vec<_> = ended
        .filter_map(|(number, account)| Some((number, account.ended.as_ref()?)))
        .collect();
    assert!(ended.is_empty(), "disconnected: {ended:?}");
    for (number, account) in accounts.iter().enumerate() {
        let room = number / ROOM;
        for other in (room * ROOM..(room + 1) * ROOM).filter(|other| *other != number) {
            let said: Vec<u64> = (0..accounts[other].sent).collect();
            let heard = account
                .heard
                .get(&(other as u64))
                .cloned()
                .unwrap_or_default();
            assert_eq!(heard, said, "client {number} of client {other}");
        }
    }
}

/// Three upgrades in a row: nobody is cut off, nothing is lost, comes twice or in another order. The stall is printed.
#[test]
fn two_hundred_clients_talk_through_three_upgrades() {
    let _alone = Alone::wait();
    let mut chain = Chain::start(CONFIG);
    let stop = Arc::new(AtomicBool::new(false));
    let talkers = crowd(chain.first.addr, &stop);
    std::thread::sleep(Duration::from_secs(2));
    for number in 1..=UPGRADES {
        let (text, took) = chain.upgrade();
        assert!(
            text.contains(&format!("{CLIENTS} sessions go over")),
            "{text}"
        );
        println!(
            "upgrade {number}: {took:?}; {}",
            text.lines().last().unwrap_or_default()
        );
        std::thread::sleep(Duration::from_secs(2));
    }
    stop.store(true, Ordering::Relaxed);
    let accounts: Vec<Account> = talkers
        .into_iter()
        .map(|talker| talker.join().expect("a talker"))
        .collect();
    check(&accounts);
    let mut delays: Vec<u64> = accounts
        .iter()
        .flat_map(|account| account.delays.clone())
        .collect();
    delays.sort_unstable();
    let at = |share: usize| delays[(delays.len() - 1) * share / 1_000];
    println!(
        "{} events heard; delay p50 {} ms, p99 {} ms, longest {} ms",
        delays.len(),
        at(500),
        at(990),
        at(1_000)
    );
    chain.first_ends();
}

/// Newcomers knock all the time: none is refused, reset or left without an answer.
#[test]
fn newcomers_find_the_door_open_all_the_time() {
    let mut chain = Chain::start(CONFIG);
    let (addr, stop) = (chain.first.addr, Arc::new(AtomicBool::new(false)));
    let knockers: Vec<_> = (0..4)
        .map(|number| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                let mut came = 0;
                while !stop.load(Ordering::Relaxed) {
                    let target = if number % 2 == 0 { SOCKETIO } else { PLAIN };
                    let mut conn = RawConn::websocket(addr, target);
                    if number % 2 == 0 {
                        assert!(conn.frame().text().starts_with('0'));
                    }
                    came += 1;
                    // A system has so many ports.
                    std::thread::sleep(Duration::from_millis(3));
                }
                came
            })
        })
        .collect();
    for _ in 0..UPGRADES {
        std::thread::sleep(Duration::from_millis(500));
        chain.upgrade();
    }
    std::thread::sleep(Duration::from_millis(500));
    stop.store(true, Ordering::Relaxed);
    let came: usize = knockers
        .into_iter()
        .map(|knocker| knocker.join().expect("every newcomer came in"))
        .sum();
    println!("{came} newcomers during {UPGRADES} upgrades");
    assert!(came > 100);
}
