//! Recovery on the real binary: clients that lose their connection and come back, its bounds, and what it says of itself. The stock client is
//! in `conformance/js/optional/returning.test.js`.

use super::client::PATIENCE;
use crate::harness::{Ended, Gateway, RawConn, eventually};
use client::OpCode;
use client::conn::upgrade_request;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const SIO: &str = "/socket.io/?EIO=4&transport=websocket";

fn start(recovery: &str, more: &str) -> Gateway {
    Gateway::start(&format!(
        "profile = \"socket.io\"\nserver.shards = 2\n{more}\n\
         [namespaces.\"/\"]\nclient_joins = true\n\
         [namespaces.\"/\".recovery]\nlevel = \"node\"\n{recovery}\n\
         [namespaces.\"/\".events.say]\naction = \"rooms\"\nroom_field = \"room\"\n\
         [namespaces.\"/\".events.echo]\naction = \"reply\"\n"
    ))
}

/// A client by its own account.
pub struct Client {
    conn: RawConn,
    pub sid: String,
    pid: Option<String>,
    /// The last argument of the last event that ended in a string.
    offset: Option<String>,
}

impl Client {
    pub fn new(gateway: &Gateway) -> Self {
        Self::open(gateway, SIO, json!({}))
    }

    /// Where offsets are for those who ask for them.
    pub fn asking(gateway: &Gateway) -> Self {
        Self::comes_back_asking(gateway, json!({}))
    }

    pub fn comes_back_asking(gateway: &Gateway, auth: Value) -> Self {
        Self::open(gateway, &format!("{SIO}&recovery=1"), auth)
    }

    fn open(gateway: &Gateway, target: &str, auth: Value) -> Self {
        Self::open_at(gateway.addr, target, auth)
    }

    /// By a proxy, to whichever gateway is behind it.
    pub fn through(addr: SocketAddr, auth: Value) -> Self {
        Self::open_at(addr, SIO, auth)
    }

    fn open_at(addr: SocketAddr, target: &str, auth: Value) -> Self {
        Self::over(RawConn::websocket(addr, target), auth)
    }

    /// On a connection that has become a WebSocket.
    pub fn over(mut conn: RawConn, auth: Value) -> Self {
        conn.frame();
        conn.send_text(format!("40{auth}"));
        let reply = text(&mut conn);
        Self::welcomed(conn, &reply)
    }

    /// `None`: its connection ends before it is welcome.
    pub fn tries(addr: SocketAddr, auth: &Value) -> Option<Self> {
        let mut conn = RawConn::try_connect(addr).ok()?;
        conn.try_send(upgrade_request(SIO, ""));
        let response = conn.response_within(PATIENCE).ok()?;
        if response.status != 101 {
            return None;
        }
        conn.frame_within(PATIENCE).ok()?;
        conn.try_send_frame(OpCode::Text, format!("40{auth}"));
        loop {
            let frame = conn.frame_within(PATIENCE).ok()?;
            if frame.opcode != OpCode::Text || frame.text().starts_with("44") {
                return None;
            }
            if frame.text().starts_with("40") {
                let reply = frame.text().to_owned();
                return Some(Self::welcomed(conn, &reply));
            }
        }
    }

    fn welcomed(conn: RawConn, reply: &str) -> Self {
        let reply: Value = serde_json::from_str(reply.strip_prefix("40").unwrap_or_default())
            .unwrap_or_else(|_| panic!("no answer to CONNECT: {reply}"));
        let member = |name: &str| reply[name].as_str().map(str::to_owned);
        Self {
            conn,
            sid: member("sid").expect("a sid"),
            pid: member("pid"),
            offset: None,
        }
    }

    /// Loses its connection without a word; the rest of it comes back.
    pub fn lose(self) -> Value {
        json!({ "pid": self.pid, "offset": self.offset })
    }

    /// The same by an RST.
    pub fn breaks(self) -> Value {
        let rest = json!({ "pid": self.pid, "offset": self.offset });
        self.conn.reset();
        rest
    }

    /// The last that it was told.
    pub fn offset(&self) -> Value {
        json!(self.offset)
    }

    pub fn comes_back(gateway: &Gateway, auth: Value) -> Self {
        Self::open(gateway, SIO, auth)
    }

    /// Its node tells it to go; after how long it may come back.
    pub fn told_to_leave(&mut self) -> Duration {
        loop {
            let frame = self.conn.frame_within(3 * PATIENCE).expect("a notice");
            if frame.text() == "2" {
                self.conn.send_text("3");
            }
            if let Some(event) = frame.text().strip_prefix("42") {
                let event: Value = serde_json::from_str(event).expect("a packet");
                self.note(&event);
                if event[0] == "SERVER_SHUTDOWN" {
                    let delay_ms = event[1]["retry_after_ms"].as_u64();
                    return Duration::from_millis(delay_ms.expect("a delay"));
                }
            }
        }
    }

    /// Notes the numbers that it hears. `true`: its connection has ended; `false`: it is all over.
    pub fn listens(&mut self, numbers: &mut Vec<u64>, over: &AtomicBool) -> bool {
        while !over.load(Ordering::Acquire) {
            let frame = match self.conn.frame_within(Duration::from_millis(50)) {
                Ok(frame) if frame.opcode == OpCode::Close => return true,
                Ok(frame) => frame,
                Err(Ended::Open) => continue,
                Err(Ended::Cleanly | Ended::Reset) => return true,
            };
            if frame.text() == "2" {
                self.conn.send_text("3");
            }
            if let Some(event) = frame.text().strip_prefix("42") {
                let event: Value = serde_json::from_str(event).expect("a packet");
                numbers.extend(self.note(&event));
            }
        }
        false
    }

    /// The numbers that it hears until its node sends it away, and what comes back of it.
    pub fn sent_away(mut self) -> (Vec<u64>, Value) {
        let mut numbers = Vec::new();
        loop {
            let frame = self.conn.frame_within(3 * PATIENCE).expect("a close frame");
            if frame.opcode == OpCode::Close {
                return (numbers, self.lose());
            }
            if frame.text() == "2" {
                self.conn.send_text("3");
            }
            if let Some(event) = frame.text().strip_prefix("42") {
                let event: Value = serde_json::from_str(event).expect("a packet");
                numbers.extend(self.note(&event));
            }
        }
    }

    /// Keeps the offset of an event; its number, if it has one.
    fn note(&mut self, event: &Value) -> Option<u64> {
        let last = event.as_array().and_then(|event| event.last()?.as_str());
        self.offset = last.map(str::to_owned);
        event[1]["n"].as_u64()
    }

    fn ask(&mut self, id: u64, event: Value) {
        self.conn.send_text(format!("42{id}{event}"));
        let ack = format!("43{id}");
        while !text(&mut self.conn).starts_with(&ack) {}
    }

    pub fn join(&mut self, room: &str) {
        self.ask(1, json!(["join", room]));
    }

    /// Answers so many pings; nothing else comes.
    fn idles(&mut self, pings: usize) {
        for _ in 0..pings {
            let frame = self.conn.frame_within(PATIENCE).expect("a ping");
            assert_eq!(frame.text(), "2");
            self.conn.send_text("3");
        }
    }

    /// The numbers of events up to an echo that it sends now.
    pub fn hears(&mut self) -> Vec<u64> {
        self.conn.send_text("42[\"echo\",\"end\"]");
        let mut numbers = Vec::new();
        loop {
            let said = text(&mut self.conn);
            let event: Value =
                serde_json::from_str(said.strip_prefix("42").expect("an event")).expect("a packet");
            let number = self.note(&event);
            if event[0] == "echo" {
                return numbers;
            }
            numbers.push(number.expect("a number"));
        }
    }
}

/// The next text that is no ping.
fn text(conn: &mut RawConn) -> String {
    loop {
        let frame = conn.frame_within(PATIENCE).expect("a frame");
        assert_eq!(frame.opcode, OpCode::Text, "{frame:?}");
        if frame.text() != "2" {
            return frame.text().to_owned();
        }
        conn.send_text("3");
    }
}

/// Clients speak to rooms that they are in.
pub fn say(speaker: &mut Client, room: &str, numbers: std::ops::Range<u64>, filler: &str) {
    speaker.join(room);
    for n in numbers {
        let event = json!(["say", { "room": room, "n": n, "filler": filler }]);
        speaker.conn.send_text(format!("42{event}"));
    }
    speaker.ask(9, json!(["echo", 0]));
}

pub fn outcome(gateway: &Gateway, outcome: &str) -> f64 {
    gateway.reaches(
        &format!("sockeye_returns_total{{outcome=\"{outcome}\"}}"),
        1.0,
    )
}

/// So many numbers: its own echo may come before what is on its way from another shard.
fn hears_all(client: &mut Client, count: usize) -> Vec<u64> {
    let mut heard = client.hears();
    let came = eventually(PATIENCE, || {
        heard.len() >= count || {
            heard.extend(client.hears());
            false
        }
    });
    assert!(came, "{count} did not come, but {heard:?}");
    heard
}

#[test]
fn each_client_gets_what_it_missed_and_little_else_is_read() {
    let gateway = start("", "");
    let mut speaker = Client::new(&gateway);
    let mut clients: Vec<Client> = (0..24).map(|_| Client::new(&gateway)).collect();
    for (n, client) in clients.iter_mut().enumerate() {
        client.join(&format!("room {}", n % 8));
    }
    for room in 0..8 {
        say(&mut speaker, &format!("room {room}"), 0..3, "");
    }
    for client in &mut clients {
        assert_eq!(client.hears(), [0, 1, 2]);
    }
    let ids: Vec<String> = clients.iter().map(|client| client.sid.clone()).collect();
    let lost: Vec<Value> = clients.into_iter().map(Client::lose).collect();
    let parked = gateway.metric_settles("sockeye_parked_sockets", |sockets| sockets >= 24.0);
    assert_eq!(parked, Ok(24.0));
    for room in 0..8 {
        say(&mut speaker, &format!("room {room}"), 3..43, "");
    }
    for (id, auth) in ids.iter().zip(lost) {
        let mut client = Client::comes_back(&gateway, auth);
        assert_eq!(client.sid, *id);
        let missed: Vec<u64> = (3..43).collect();
        assert_eq!(client.hears(), missed);
    }
    let returns = "sockeye_returns_total{outcome=\"recovered\"}";
    assert_eq!(gateway.reaches(returns, 24.0), 24.0);
    let replayed = gateway.reaches("sockeye_replayed_events_total", 24.0 * 40.0);
    let read = gateway.metric("sockeye_replay_reads_total");
    assert_eq!(replayed, 24.0 * 40.0);
    assert!(read <= 1.2 * replayed, "{read} entries for {replayed}");
}

#[test]
fn offsets_go_to_clients_that_ask_where_not_all_shall_have_them() {
    let gateway = start("offsets = \"asked\"", "");
    let mut stranger = Client::new(&gateway);
    assert_eq!(stranger.pid, None);
    stranger.conn.send_text("42[\"echo\",\"x\"]");
    assert_eq!(text(&mut stranger.conn), "42[\"echo\",\"x\"]");
    let asks = format!("{SIO}&recovery=1");
    let mut client = Client::open(&gateway, &asks, json!({}));
    client.conn.send_text("42[\"echo\",\"x\"]");
    let said = text(&mut client.conn);
    assert!(said.starts_with("42[\"echo\",\"x\",\""), "{said}");
    let (sid, auth) = (client.sid.clone(), client.lose());
    let back = Client::open(&gateway, &asks, auth);
    assert_eq!(back.sid, sid);
}

#[test]
fn after_the_window_it_is_a_new_socket() {
    let gateway = start("window = \"1s\"", "");
    let client = Client::new(&gateway);
    let (sid, auth) = (client.sid.clone(), client.lose());
    let parked = gateway.metric_settles("sockeye_parked_sockets", |sockets| sockets >= 1.0);
    assert_eq!(parked, Ok(1.0));
    let gone = gateway.metric_settles("sockeye_parked_sockets", |sockets| sockets == 0.0);
    assert_eq!(gone, Ok(0.0));
    let back = Client::comes_back(&gateway, auth);
    assert_ne!(back.sid, sid);
    assert_eq!(outcome(&gateway, "unknown"), 1.0);
}

#[test]
fn a_full_journal_gives_up_the_oldest_and_nobody_is_told_a_lie() {
    let gateway = start("", "limits.journal_bytes_max = \"64KiB\"");
    let mut speaker = Client::new(&gateway);
    let mut client = Client::new(&gateway);
    client.join("den");
    let mut hall: Vec<Client> = (0..8).map(|_| Client::new(&gateway)).collect();
    hall.iter_mut().for_each(|member| member.join("hall"));
    let (sid, auth) = (client.sid.clone(), client.lose());
    say(&mut speaker, "den", 0..100, &"x".repeat(1_000));
    // It goes to each shard behind all that was said before.
    say(&mut speaker, "hall", 0..1, "");
    let heard = hall.iter_mut().map(|member| hears_all(member, 1));
    assert!(heard.into_iter().all(|heard| heard == [0]));
    let back = Client::comes_back(&gateway, auth);
    assert_ne!(back.sid, sid);
    assert_eq!(outcome(&gateway, "trimmed"), 1.0);
    let bytes = gateway.metric("sockeye_journal_bytes");
    assert!(bytes <= 65_536.0, "{bytes} bytes");
}

/// The last event that it got left the journal long ago, and it missed nothing: an answered ping says how far it is.
#[test]
fn an_idle_client_comes_back_when_the_journal_has_moved_on() {
    let more = "limits.journal_bytes_max = \"64KiB\"\nsocketio.ping_interval = \"300ms\"\nsocketio.ping_timeout = \"20s\"";
    let gateway = start("", more);
    let mut speaker = Client::new(&gateway);
    let mut clients = [(); 2].map(|()| Client::new(&gateway));
    clients[0].join("den");
    say(&mut speaker, "den", 0..1, "");
    assert_eq!(hears_all(&mut clients[0], 1), [0]);
    let sids = clients.each_ref().map(|client| client.sid.clone());
    // On both shards, most likely.
    let mut hall: Vec<Client> = (0..8).map(|_| Client::new(&gateway)).collect();
    hall.iter_mut().for_each(|member| member.join("hall"));
    say(&mut speaker, "hall", 0..200, &"x".repeat(1_000));
    // The first may have been on its way before that.
    clients.iter_mut().for_each(|client| client.idles(2));
    let lost = clients.map(Client::lose);
    say(&mut speaker, "den", 1..3, "");
    let missed: [&[u64]; 2] = [&[1, 2], &[]];
    for ((sid, auth), missed) in sids.iter().zip(lost).zip(missed) {
        let mut back = Client::comes_back(&gateway, auth);
        assert_eq!(back.sid, *sid);
        assert_eq!(hears_all(&mut back, missed.len()), missed);
    }
}

#[test]
fn somebody_who_missed_more_than_may_wait_is_a_new_socket() {
    let gateway = start("", "limits.outbox_bytes_max = \"1MiB\"");
    let mut speaker = Client::new(&gateway);
    let mut client = Client::new(&gateway);
    client.join("den");
    let (sid, auth) = (client.sid.clone(), client.lose());
    say(&mut speaker, "den", 0..300, &"x".repeat(2_000));
    let back = Client::comes_back(&gateway, auth);
    assert_ne!(back.sid, sid);
    assert_eq!(outcome(&gateway, "too_much"), 1.0);
}

#[test]
fn those_that_would_end_first_make_way() {
    let gateway = start("", "limits.parked_sockets_max = 8");
    let mut clients: Vec<Client> = (0..40).map(|_| Client::new(&gateway)).collect();
    let last = clients.pop().expect("one");
    drop(clients);
    let parked = "sockeye_parked_sockets";
    assert_eq!(gateway.reaches("sockeye_parked_crowded_total", 31.0), 31.0);
    assert_eq!(gateway.metric(parked), 8.0);
    let (sid, auth) = (last.sid.clone(), last.lose());
    assert_eq!(gateway.reaches("sockeye_parked_crowded_total", 32.0), 32.0);
    let back = Client::comes_back(&gateway, auth);
    assert_eq!(back.sid, sid);
}

#[test]
fn a_namespace_without_recovery_knows_none() {
    let gateway = Gateway::start(
        "profile = \"socket.io\"\nserver.shards = 2\n\
         [namespaces.\"/\"]\nclient_joins = true\n\
         [namespaces.\"/\".events.echo]\naction = \"reply\"\n\
         [namespaces.\"/other\".recovery]\nlevel = \"node\"\n",
    );
    let mut client = Client::new(&gateway);
    assert_eq!(client.pid, None);
    client.conn.send_text("42[\"echo\",\"x\"]");
    assert_eq!(text(&mut client.conn), "42[\"echo\",\"x\"]");
    drop(client);
    assert_eq!(gateway.metric("sockeye_parked_sockets"), 0.0);
}

pub const SECRET: &str = "a-secret-of-more-than-thirty-two-bytes";

/// A token of a user that ends so soon.
pub fn token(uid: &str, expires: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockeye"));
    command.args([
        "token",
        "--secret",
        SECRET,
        "--uid",
        uid,
        "--expires",
        expires,
    ]);
    let output = command.output().expect("sockeye token runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    text.trim().to_owned()
}

pub fn shows(auth: &Value, token: &str) -> Value {
    let mut auth = auth.clone();
    auth["token"] = json!(token);
    auth
}

/// Whether a client is turned away.
pub fn is_refused(gateway: &Gateway, auth: &Value) -> bool {
    let mut conn = RawConn::websocket(gateway.addr, SIO);
    conn.frame();
    conn.send_text(format!("40{auth}"));
    text(&mut conn).starts_with("44")
}

/// A client shows its token again. One that ended meanwhile opens nothing, and the socket waits for its user all the same.
#[test]
fn a_token_that_ended_while_its_client_was_away_lets_nobody_back() {
    let auth = format!(
        "[auth]\nrequired = true\nsecret = {SECRET:?}\nleeway = \"0s\"\nwarn_before = \"0s\""
    );
    let gateway = start("", &auth);
    let mut speaker = Client::comes_back(&gateway, shows(&json!({}), &token("bob", "1h")));
    let brief = token("ann", "6s");
    let mut client = Client::comes_back(&gateway, shows(&json!({}), &brief));
    client.join("den");
    let (sid, lost) = (client.sid.clone(), client.lose());
    say(&mut speaker, "den", 0..3, "");
    let ended = || is_refused(&gateway, &shows(&json!({}), &brief));
    assert!(eventually(PATIENCE, ended));
    assert!(is_refused(&gateway, &shows(&lost, &brief)));
    let other = Client::comes_back(&gateway, shows(&lost, &token("bob", "1h")));
    assert_ne!(other.sid, sid);
    assert_eq!(outcome(&gateway, "other_user"), 1.0);
    let mut back = Client::comes_back(&gateway, shows(&lost, &token("ann", "1h")));
    assert_eq!(back.sid, sid);
    assert_eq!(back.hears(), [0, 1, 2]);
}

/// It gets all since it began.
#[test]
fn an_offset_that_cannot_be_its_own_skips_nothing() {
    let gateway = start("", "");
    let mut speaker = Client::new(&gateway);
    let mut client = Client::new(&gateway);
    client.join("den");
    let (sid, lost) = (client.sid.clone(), client.lose());
    say(&mut speaker, "den", 0..2, "");
    for offset in ["x".to_owned(), "_".repeat(16), "A".repeat(16)] {
        let mut forged = lost.clone();
        forged["offset"] = json!(offset);
        let mut back = Client::comes_back(&gateway, forged);
        assert_eq!(back.sid, sid, "{offset}");
        assert_eq!(hears_all(&mut back, 2), [0, 1], "{offset}");
    }
}
