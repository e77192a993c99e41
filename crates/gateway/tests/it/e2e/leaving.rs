//! A drain among clients that do not behave: it ends in time, and says how it went.

use super::client::{SocketIo, request};
use crate::harness::client::{Poller, post_request};
use crate::harness::{Alone, Ended, Gateway, PATIENCE, RawConn, eventually};
use ::client::OpCode;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const CONFIG: &str =
    "profile = \"socket.io\"\n[server]\nshards = 2\ndrain_window = \"1s\"\ndrain_grace = \"2s\"\n";

/// The last line of a gateway that has ended in order.
fn stopped(gateway: &Gateway) -> Value {
    let lines = gateway.log().into_iter();
    let mut lines = lines.filter_map(|line| serde_json::from_str::<Value>(&line).ok());
    let stopped = lines.find(|line| line["message"] == "stopped");
    stopped.unwrap_or_else(|| panic!("{:?}", gateway.log().last()))
}

/// Drains, and how long that takes.
fn drain(gateway: &mut Gateway) -> Duration {
    let asked = Instant::now();
    gateway.terminate();
    let status = gateway.exit_status(PATIENCE).expect("the process ends");
    assert_eq!(status.code(), Some(0));
    asked.elapsed()
}

/// Asks, and again 60 ms after each answer, until it is closed: answers, questions without one, and how it was closed.
fn ask_on(mut conn: RawConn) -> (u32, u32, Option<u16>) {
    let mut answered = 0;
    loop {
        conn.send_text(format!(r#"42{answered}["n"]"#));
        if let Err(code) = hear(&mut conn, Some(&format!("43{answered}[")), PATIENCE) {
            return (answered, 1, code);
        }
        answered += 1;
        if let Err(code) = hear(&mut conn, None, Duration::from_millis(60)) {
            return (answered, 0, code);
        }
    }
}

/// Hears frames for so long, or until one begins so; `Err`: the code of the end.
fn hear(conn: &mut RawConn, until: Option<&str>, within: Duration) -> Result<(), Option<u16>> {
    let deadline = Instant::now() + within;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match conn.frame_within(left) {
            Ok(frame) if frame.opcode == OpCode::Close => return Err(frame.close_code()),
            Ok(frame) if until.is_some_and(|text| frame.text().starts_with(text)) => return Ok(()),
            Ok(_) => {}
            Err(Ended::Open) => return Ok(()),
            Err(_) => return Err(None),
        }
    }
}

#[test]
fn a_client_lost_the_answer_to_what_it_said_while_it_was_sent_away() {
    let _alone = Alone::or_with_a_quiet_one();
    let mut gateway = Gateway::start(CONFIG);
    let clients: Vec<_> = (0..40)
        .map(|_| {
            let conn = ::client::brief::SocketIo::connect(gateway.addr).conn;
            std::thread::spawn(move || ask_on(conn))
        })
        .collect();
    std::thread::sleep(Duration::from_millis(300));
    drain(&mut gateway);
    for client in clients {
        let (answered, unanswered, code) = client.join().expect("a client");
        assert!(answered > 3 && code == Some(1001), "{answered} {code:?}");
        assert_eq!(unanswered, 0, "after {answered} answers");
    }
    let line = stopped(&gateway);
    let closed = (&line["closed_in_a_pause"], &line["closed_while_busy"]);
    assert_eq!(closed, (&json!(40), &json!(0)));
}

/// One that never reads, one that sends for ever, one that stops in the middle of a message, one that polls no more, one in the middle
/// of a POST, one that is not there any more.
#[test]
fn clients_that_never_pause_held_up_nothing() {
    let _alone = Alone::or_with_a_quiet_one();
    let mut gateway = Gateway::start(CONFIG);
    let addr = gateway.addr;
    let mut deaf = ::client::brief::SocketIo::connect(addr);
    deaf.send(r#"42["join","loud"]"#);
    let mut loud = SocketIo::websocket(addr, "/", json!({}));
    loud.ask("join", &["loud".into()]);
    let text = Value::from("x".repeat(60_000));
    for _ in 0..40 {
        loud.ask("loud", std::slice::from_ref(&text));
    }
    let torrent = std::thread::spawn(move || {
        let mut conn = RawConn::websocket(addr, "/socket.io/?EIO=4&transport=websocket");
        conn.send_text("40");
        while conn.try_send_frame(OpCode::Text, r#"42["n",1]"#) {}
    });
    let mut half = RawConn::websocket(addr, "/socket.io/?EIO=4&transport=websocket");
    half.send_text("40");
    half.send_frame(false, OpCode::Text, r#"42["n","#);
    let away = Poller::connect(addr);
    let posting = Poller::connect(addr);
    let mut post = RawConn::connect(addr);
    let whole = post_request(&posting.sid, r#"42["n",1]"#);
    post.send(&whole[..whole.len() - 3]);
    let silent = RawConn::websocket(addr, "/ws");
    let all = || gateway.metric("sockeye_sessions") == 7.0;
    assert!(
        eventually(PATIENCE, all),
        "{}",
        gateway.metric("sockeye_sessions")
    );
    let took = drain(&mut gateway);
    assert!(took < Duration::from_millis(3_900), "{took:?}");
    torrent.join().expect("it was cut off");
    drop((deaf, half, away, silent));
    let log = gateway.log();
    let ended = |word: &str| log.iter().any(|line| line.contains(word));
    assert!(
        ended("\"stopped\"") || ended("stopped before all connections were closed"),
        "{:?}",
        log.last()
    );
}

/// In order, and long before a window of a minute is over.
fn ends(gateway: &mut Gateway) {
    let status = gateway.exit_status(PATIENCE);
    let code = status.and_then(|status| status.code());
    assert_eq!(code, Some(0), "{:?}", gateway.log().last());
}

/// A gateway that drains for a minute, because this client stays.
fn drains_for_long() -> (Gateway, SocketIo) {
    let gateway = Gateway::start(&CONFIG.replace("\"1s\"", "\"60s\""));
    let keys = SocketIo::websocket(gateway.addr, "/", json!({}));
    (gateway, keys)
}

const NEWCOMER: &str = "GET /socket.io/?EIO=4&transport=polling HTTP/1.1\r\nHost: a\r\n\r\n";

/// The kernel leads clients to any shard. One that had nobody left closed its door and cut off those who had just come, while another shard
/// waited for its clients.
#[test]
fn whoever_came_to_an_empty_shard_during_a_drain_had_no_answer() {
    let (mut gateway, keys) = drains_for_long();
    let connect = || RawConn::connect(gateway.addr);
    // They have said nothing yet, and some of them are on the shard without a session.
    let early: Vec<RawConn> = (0..16).map(|_| connect()).collect();
    let accepted = || gateway.metric("sockeye_connections") >= 17.0;
    assert!(eventually(PATIENCE, accepted));
    gateway.terminate();
    assert!(gateway.logged("\"draining\"", PATIENCE));
    // Far longer than an empty shard needs.
    std::thread::sleep(Duration::from_millis(500));
    for mut conn in early.into_iter().chain((0..16).map(|_| connect())) {
        conn.send(NEWCOMER);
        let answer = conn.response();
        assert_eq!(answer.status, 503);
        assert!(answer.header("retry-after").is_some(), "{answer:?}");
    }
    drop(keys);
    ends(&mut gateway);
}

/// The rest of the window was waited for, with nobody there.
#[test]
fn a_drain_went_on_when_its_last_client_had_left_by_itself() {
    let (mut gateway, keys) = drains_for_long();
    gateway.terminate();
    assert!(gateway.logged("\"draining\"", PATIENCE));
    drop(keys);
    ends(&mut gateway);
}

/// Those who come back to the node that they were sent away from are told when to come again.
#[test]
fn a_client_that_comes_back_during_the_drain_is_told_when() {
    let (mut gateway, keys) = drains_for_long();
    gateway.terminate();
    assert!(gateway.logged("\"draining\"", PATIENCE));
    let asks = |request: &str| {
        let mut conn = RawConn::connect(gateway.addr);
        conn.send(request);
        let answer = conn.response();
        answer.status == 503 && answer.header("retry-after").is_some()
    };
    // A session that begins in the last moment ends with its connection. Both shards drain once they refuse one after the other.
    let upgrade = NEWCOMER.replace("polling", "websocket").replace(
        "\r\n\r\n",
        "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    let refused = || (0..16).all(|_| asks(&upgrade));
    assert!(eventually(PATIENCE, refused));
    assert!(asks(NEWCOMER));
    let ready = request(gateway.admin, "GET", "/ready", "", "");
    assert_eq!(ready.status, 503);
    drop(keys);
    ends(&mut gateway);
}
