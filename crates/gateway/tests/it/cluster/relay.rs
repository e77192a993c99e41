//! No sticky sessions: requests for a session may land on any node.

use super::{BINARY, all_up, config, is_ready, member, number, numbers};
use crate::harness::{Gateway, PATIENCE, RawConn, eventually};
use client::brief::{Poller, poll_request, post_request};
use rustix::process::Signal;
use serde_json::{Value, json};
use servers::Redis;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const UNKNOWN: &str = r#"{"code":1,"message":"Session ID unknown"}"#;

/// So many nodes that relay to each other.
pub fn relaying<const N: usize>(redis: &Redis, more: &str) -> [Gateway; N] {
    let nodes = std::array::from_fn(|_| Gateway::start(&quick(redis, more)));
    all_up(&nodes);
    know_addresses(&nodes.each_ref());
    nodes
}

/// A node that does not take long to drain.
pub fn quick(redis: &Redis, more: &str) -> String {
    config(redis, more).replace(
        "shards = 2",
        "shards = 2\ndrain_window = \"1s\"\ndrain_grace = \"1s\"",
    )
}

/// Descriptions of nodes are read a moment after the nodes are heard.
pub fn know_addresses(nodes: &[&Gateway]) {
    know_addresses_by(nodes, "");
}

/// The same where the API asks for something in the head of a call.
pub fn know_addresses_by(nodes: &[&Gateway], headers: &str) {
    for node in nodes {
        let known = eventually(PATIENCE, || {
            let rows = list(node, headers);
            let mut known = rows.iter().filter(|row| row["relay"].is_string());
            known.by_ref().count() == nodes.len()
        });
        assert!(known, "{:?}", list(node, headers));
    }
}

fn list(node: &Gateway, headers: &str) -> Vec<Value> {
    let request =
        format!("GET /v1/nodes HTTP/1.1\r\nHost: admin\r\n{headers}Connection: close\r\n\r\n");
    let body = RawConn::exchange(node.admin, request).body;
    let json: Value = serde_json::from_str(&body).expect("JSON");
    json["nodes"].as_array().expect("nodes").clone()
}

fn opened(addr: SocketAddr) -> Poller {
    Poller::connect(addr)
}

/// A poll of a session by way of another node.
fn poll_at(node: &Gateway, session: &Poller) -> client::Response {
    RawConn::exchange(node.addr, poll_request(&session.sid))
}

fn post_at(node: &Gateway, session: &Poller, body: &str) -> client::Response {
    RawConn::exchange(node.addr, post_request(&session.sid, body))
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn requests_of_a_polling_session_were_unknown_on_other_nodes() {
    let redis = Redis::start();
    let nodes: [Gateway; 3] = relaying(&redis, "");
    let session = opened(nodes[0].addr);
    let posted = post_at(&nodes[1], &session, r#"421["join","room"]"#);
    assert_eq!((posted.status, posted.body.as_str()), (200, "ok"));
    assert_eq!(
        posted.header("connection"),
        Some("close"),
        "the next request may be for another node"
    );
    let polled = poll_at(&nodes[2], &session);
    assert_eq!(polled.body, r#"431[["room"]]"#);
    // A large body, in pieces, and an event that comes while a poll waits.
    let mut speaker = member(&nodes[2], "room");
    let text = "x".repeat(300_000);
    let posted = post_at(&nodes[1], &session, &format!(r#"42["n","{text}"]"#));
    assert_eq!(posted.status, 200, "{posted:?}");
    assert_eq!(speaker.expect("n"), [json!(text)]);
    let mut waiting = RawConn::connect(nodes[1].addr);
    waiting.send(poll_request(&session.sid));
    assert_eq!(nodes[0].reaches("sockeye_relay_taken_total", 4.0), 4.0);
    speaker.emit("n", &[json!(7)]);
    assert_eq!(waiting.response().body, r#"42["n",7]"#);
    let relayed = [1, 2].map(|at| nodes[at].metric("sockeye_relay_total"));
    assert_eq!(relayed, [3.0, 1.0]);
    assert!(nodes[1].metric("sockeye_relay_sent_bytes_total") > 100_000.0);
    assert_eq!(nodes[1].metric("sockeye_relay_failed_total"), 0.0);
}

/// A connection that is relayed hid whether its answer arrived: the owner saw an orderly end in both cases.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn the_owner_did_not_know_whether_a_relayed_answer_arrived() {
    let large =
        "[socketio]\nmax_http_buffer_size = \"8MiB\"\n[limits]\noutbox_bytes_max = \"16MiB\"\n";
    for encrypted in [true, false] {
        let redis = Redis::start();
        let nodes: [Gateway; 2] = relaying(&redis, &format!("relay_tls = {encrypted}\n{large}"));
        // Whole, and then a reset: it arrived.
        let session = opened(nodes[0].addr);
        for n in 0..3 {
            post_at(&nodes[1], &session, &format!(r#"42{n}["join","room-{n}"]"#));
            let mut poll = RawConn::connect(nodes[1].addr);
            poll.send(poll_request(&session.sid));
            assert_eq!(poll.response().body, format!(r#"43{n}[["room-{n}"]]"#));
            poll.reset();
        }
        // Half of it, and then a reset: the session is over.
        let session = opened(nodes[0].addr);
        post_at(&nodes[1], &session, r#"421["join","room"]"#);
        assert_eq!(poll_at(&nodes[1], &session).body, r#"431[["room"]]"#);
        let mut poll = RawConn::connect(nodes[1].addr);
        poll.shrink_receive_buffer(4_096);
        poll.send(poll_request(&session.sid));
        let mut speaker = member(&nodes[0], "room");
        speaker.emit("n", &[json!("p".repeat(7_000_000))]);
        poll.bytes_within(100, PATIENCE)
            .expect("the answer has begun");
        poll.reset();
        let over = eventually(PATIENCE, || poll_at(&nodes[1], &session).status == 400);
        assert!(over, "it went on after lost packets");
    }
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn an_upgrade_may_land_on_another_node_and_the_websocket_stays_there() {
    let redis = Redis::start();
    let nodes: [Gateway; 2] = relaying(&redis, "");
    let session = opened(nodes[0].addr);
    let mut socket = upgraded(&nodes[1], &session);
    let mut speaker = member(&nodes[1], "room");
    socket.send_text(r#"421["join","room"]"#);
    assert_eq!(socket.frame().text(), r#"431[["room"]]"#);
    speaker.emit("n", &[json!("à bientôt")]);
    assert_eq!(socket.frame().text(), r#"42["n","à bientôt"]"#);
    socket.send_text(r#"42["n",1]"#);
    assert_eq!(numbers(&mut speaker, 1), [1]);
    assert_eq!(nodes[1].metric("sockeye_relay_connections"), 1.0);
    drop(socket);
    let open = nodes[1].metric_settles("sockeye_relay_connections", |open| open == 0.0);
    assert_eq!(open, Ok(0.0));
    let sessions = nodes[0].metric_settles("sockeye_sessions", |sessions| sessions == 0.0);
    assert_eq!(sessions, Ok(0.0), "the owner sees the end");
}

/// The session's transport is a WebSocket by way of this node.
fn upgraded(node: &Gateway, session: &Poller) -> RawConn {
    let target = format!("/socket.io/?EIO=4&transport=websocket&sid={}", session.sid);
    let mut socket = RawConn::connect(node.addr).upgraded(&target, "");
    socket.send_text("2probe");
    assert_eq!(socket.frame().text(), "3probe");
    socket.send_text("5");
    socket
}

/// The answer is that of one node about a session that it does not know, so that stock clients start anew.
fn is_unknown(answer: &client::Response) {
    assert_eq!((answer.status, answer.body.as_str()), (400, UNKNOWN));
    assert_eq!(answer.header("content-type"), Some("application/json"));
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn clients_of_a_killed_node_are_told_to_start_anew_by_the_others() {
    let redis = Redis::start();
    let [mut owner, beside, other] = relaying(&redis, "");
    let (polling, upgraded_one) = (opened(owner.addr), opened(owner.addr));
    let mut socket = upgraded(&other, &upgraded_one);
    let mut waiting = RawConn::connect(beside.addr);
    waiting.send(poll_request(&polling.sid));
    assert_eq!(owner.reaches("sockeye_relay_taken_total", 2.0), 2.0);
    owner.kill();
    is_unknown(&waiting.response());
    is_unknown(&poll_at(&beside, &polling));
    is_unknown(&post_at(&other, &polling, "3"));
    socket.ended(PATIENCE);
    let target = format!("/socket.io/?EIO=4&transport=websocket&sid={}", polling.sid);
    let mut refused = RawConn::connect(beside.addr);
    refused.send(client::conn::upgrade_request(&target, ""));
    let refused = refused.response();
    assert_eq!(
        (refused.status, refused.body.as_str()),
        (400, "Session ID unknown")
    );
    // The answer of any node about a session of its own that is over.
    let stranger = format!("{}{}", &polling.sid[..10], &polling.sid[..10]);
    is_unknown(&RawConn::exchange(other.addr, poll_request(&stranger)));
    assert!(beside.metric("sockeye_relay_failed_total") >= 2.0);
}

/// It accepts and never answers.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_that_stands_still_does_not_hold_requests_of_others() {
    let redis = Redis::start();
    let nodes: [Gateway; 2] = relaying(&redis, "");
    let session = opened(nodes[0].addr);
    nodes[0].freeze();
    let answer = poll_at(&nodes[1], &session);
    nodes[0].signal(Signal::CONT);
    is_unknown(&answer);
}

/// All clients that a node relays counted as that node.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_relayed_client_counts_by_its_own_address() {
    let redis = Redis::start();
    let more = "[limits]\nconns_per_address_max = 10\n";
    let nodes: [Gateway; 2] = relaying(&redis, more);
    // More than an address may have in any case.
    let crowd = |address: fn(u8) -> u8| -> Vec<RawConn> {
        let poll = |n: u8| {
            let session = opened(nodes[0].addr);
            let mut conn = RawConn::connect_from([127, 0, 0, address(n)], nodes[1].addr);
            // Only a trusted proxy is believed.
            let lie = format!("\r\nX-Forwarded-For: 10.0.{n}.1\r\n\r\n");
            conn.send(poll_request(&session.sid).trim_end().to_owned() + &lie);
            conn
        };
        (0..45).map(poll).collect()
    };
    let several = crowd(|n| 100 + n);
    assert_eq!(nodes[0].reaches("sockeye_relay_taken_total", 45.0), 45.0);
    assert_eq!(nodes[0].hits("conns_per_address"), 0.0);
    let one = crowd(|_| 99);
    assert!(nodes[0].hits_reach("conns_per_address", 1.0) >= 1.0);
    drop((several, one));
}

/// One client with many waiting polls took all places: requests of others got "Session ID unknown".
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn one_client_with_many_polls_shut_out_all_others() {
    const PLACES: usize = 20;
    let redis = Redis::start();
    let nodes: [Gateway; 2] = relaying(&redis, &format!("relays_max = {PLACES}\n"));
    let waits = |_| {
        let session = opened(nodes[0].addr);
        let mut poll = RawConn::connect_from([127, 0, 0, 9], nodes[1].addr);
        poll.send(poll_request(&session.sid));
        poll
    };
    let mut greedy: Vec<RawConn> = (0..PLACES).map(waits).collect();
    let full = nodes[1].reaches("sockeye_relay_connections", PLACES as f64);
    assert_eq!(full, PLACES as f64);
    let session = opened(nodes[0].addr);
    for n in 0..5 {
        assert_eq!(post_at(&nodes[1], &session, "3").status, 200, "request {n}");
    }
    assert!(nodes[1].metric("sockeye_relay_refused_total") >= 1.0);
    assert_eq!(nodes[1].metric("sockeye_relay_failed_total"), 0.0);
    // One of its polls made way, and was told.
    let told = eventually(PATIENCE, || {
        greedy.iter_mut().any(|poll| {
            let answer = poll.response_within(Duration::from_millis(10));
            answer.is_ok_and(|answer| answer.body == UNKNOWN)
        })
    });
    assert!(told);
}

/// On a node that is full, what other nodes relay has half of the reserve, and not all of it.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn relayed_requests_took_the_whole_reserve() {
    let redis = Redis::start();
    let limits = "[limits]\nconns_max = 70\nhandshake_timeout = \"5m\"\n";
    let nodes: [Gateway; 2] = relaying(&redis, limits);
    let sessions: Vec<Poller> = (0..60).map(|_| opened(nodes[0].addr)).collect();
    // Connections that say nothing take the places: sessions have a bound of their own, which is 70, too.
    let silent = |_| RawConn::connect(nodes[0].addr);
    let silent: Vec<RawConn> = (0..70).map(silent).collect();
    let full = nodes[0].reaches("sockeye_connections", 70.0);
    assert!(full >= 70.0, "{full}");
    let waits = |session: &Poller| {
        let mut poll = RawConn::connect(nodes[1].addr);
        poll.send(poll_request(&session.sid));
        poll
    };
    let polls: Vec<RawConn> = sessions.iter().map(waits).collect();
    let refused = || nodes[1].metric("sockeye_relay_failed_total") >= 30.0;
    assert!(eventually(PATIENCE, refused), "half of 48 have places");
    for n in 0..20 {
        let request = "GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let answer = RawConn::exchange(nodes[0].addr, request);
        assert_eq!(answer.status, 200, "health check {n}");
    }
    drop((polls, silent));
}

/// Its port is for nodes with the secret alone.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn strangers_get_nothing_from_the_door_for_nodes() {
    let redis = Redis::start();
    let nodes: [Gateway; 2] = relaying(&redis, "");
    let rows = list(&nodes[0], "");
    let own = rows.iter().find(|row| row["number"] == number(&nodes[0]));
    let door = own.and_then(|row| row["relay"].as_str()?.parse().ok());
    let mut stranger = RawConn::connect(door.expect("an address"));
    stranger.send([7; 128]);
    stranger.ended(PATIENCE);
    let strangers = nodes[0].reaches("sockeye_relay_strangers_total", 1.0);
    assert_eq!(strangers, 1.0);
    let why = "a connection to cluster.relay_listen was refused";
    assert!(nodes[0].logged(why, PATIENCE), "{:?}", nodes[0].log());
}

/// Strangers that said nothing held all places at the door for five seconds each.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn silent_strangers_at_the_door_for_nodes_kept_nodes_out() {
    let redis = Redis::start();
    let nodes: [Gateway; 2] = relaying(&redis, "");
    let session = opened(nodes[0].addr);
    let rows = list(&nodes[0], "");
    let own = rows.iter().find(|row| row["number"] == number(&nodes[0]));
    let door: SocketAddr = own
        .and_then(|row| row["relay"].as_str()?.parse().ok())
        .expect("an address");
    let strangers: Vec<RawConn> = (0..300).map(|_| RawConn::connect(door)).collect();
    for n in 0..20 {
        assert_eq!(post_at(&nodes[1], &session, "3").status, 200, "request {n}");
    }
    drop(strangers);
}

/// The door has 256 places for strangers: of 600 connections that a node brought at once, the first were hung up on for the last.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn connections_that_a_node_brought_pushed_each_other_out() {
    const POLLS: usize = 600;
    let redis = Redis::start();
    let nodes: [Gateway; 2] = relaying(&redis, "");
    let sessions: Vec<Poller> = (0..POLLS).map(|_| opened(nodes[0].addr)).collect();
    nodes[0].freeze();
    let waits = |session: &Poller| {
        let mut poll = RawConn::connect(nodes[1].addr);
        poll.send(poll_request(&session.sid));
        poll
    };
    let polls: Vec<RawConn> = sessions.iter().map(waits).collect();
    let brought = nodes[1].reaches("sockeye_relay_connections", POLLS as f64);
    nodes[0].signal(Signal::CONT);
    assert_eq!(brought, POLLS as f64);
    let taken = nodes[0].reaches("sockeye_relay_taken_total", POLLS as f64);
    assert_eq!(taken, POLLS as f64);
    assert_eq!(nodes[0].metric("sockeye_relay_strangers_total"), 0.0);
    assert_eq!(nodes[1].metric("sockeye_relay_failed_total"), 0.0);
    drop(polls);
}

/// Somebody between two nodes, who passes on what they say and keeps a copy.
struct Tap {
    addr: SocketAddr,
    heard: Arc<Mutex<Vec<u8>>>,
}

impl Tap {
    /// It ends with the test's process.
    fn start(door: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let addr = listener.local_addr().expect("its address");
        let heard = Arc::<Mutex<Vec<u8>>>::default();
        let copy = Arc::clone(&heard);
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect(door) else {
                    continue;
                };
                for (mut from, mut to) in [
                    (
                        near.try_clone().expect("a copy"),
                        far.try_clone().expect("a copy"),
                    ),
                    (far, near),
                ] {
                    let copy = Arc::clone(&copy);
                    std::thread::spawn(move || {
                        let mut room = [0; 4096];
                        while let Ok(len @ 1..) = from.read(&mut room) {
                            copy.lock().expect("a copy").extend(&room[..len]);
                            if to.write_all(&room[..len]).is_err() {
                                break;
                            }
                        }
                        let _ = to.shutdown(Shutdown::Write);
                    });
                }
            }
        });
        Self { addr, heard }
    }

    fn heard(&self, word: &str) -> bool {
        let heard = self.heard.lock().expect("a copy");
        heard
            .windows(word.len())
            .any(|bytes| bytes == word.as_bytes())
    }
}

/// Somebody between two nodes could read what clients said, and the ids of their sessions.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn what_nodes_relay_could_be_read_between_them() {
    let [_, a, b, c] = std::process::id().to_be_bytes();
    for (encrypted, port) in [(true, 4101), (false, 4102)] {
        let redis = Redis::start();
        // An address of its own: no other test listens there.
        let door = SocketAddr::from(([127, 100 + a, b, c], port));
        let tap = Tap::start(door);
        let more = format!(
            "relay_listen = \"{door}\"\nrelay_advertise = \"{}\"\nrelay_tls = {encrypted}\n",
            tap.addr
        );
        let nodes = [quick(&redis, &more), quick(&redis, "")].map(|config| Gateway::start(&config));
        all_up(&nodes);
        know_addresses(&nodes.each_ref());
        let (polling, moved) = (opened(nodes[0].addr), opened(nodes[0].addr));
        let posted = post_at(&nodes[1], &polling, r#"421["join","room"]"#);
        assert_eq!(posted.status, 200, "{posted:?}");
        assert_eq!(poll_at(&nodes[1], &polling).body, r#"431[["room"]]"#);
        let mut socket = upgraded(&nodes[1], &moved);
        socket.send_text(r#"421["join","room"]"#);
        assert_eq!(socket.frame().text(), r#"431[["room"]]"#);
        post_at(&nodes[1], &polling, r#"42["n","melanzane"]"#);
        assert_eq!(socket.frame().text(), r#"42["n","melanzane"]"#);
        for word in ["melanzane", "HTTP/1.1", &polling.sid, &moved.sid, "room"] {
            assert_eq!(tap.heard(word), !encrypted, "{word}");
        }
        assert!(tap.heard("SKR2"));
        assert!(nodes[0].metric("sockeye_relay_taken_total") >= 4.0);
    }
}

/// A node that relays nothing gave such connections away, and nobody answered them.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_that_relays_nothing_answers_by_itself() {
    let redis = Redis::start();
    let off = config(&redis, "relay_listen = \"off\"\n");
    let nodes = [Gateway::start(&config(&redis, "")), Gateway::start(&off)];
    all_up(&nodes);
    let known = eventually(PATIENCE, || {
        let rows = list(&nodes[1], "");
        rows.iter().any(|row| row["relay"].is_string())
    });
    assert!(known, "{:?}", list(&nodes[1], ""));
    is_unknown(&poll_at(&nodes[1], &opened(nodes[0].addr)));
    is_unknown(&poll_at(&nodes[0], &opened(nodes[1].addr)));
    assert_eq!(nodes[1].metric("sockeye_relay_failed_total"), 0.0);
}

/// Nobody could tell a node's connection from a stranger's.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn without_a_secret_nothing_is_relayed_and_the_log_says_so() {
    let redis = Redis::start();
    let without = config(&redis, "").replace("secret = \"s\"\n", "");
    let nodes = [(); 2].map(|()| Gateway::start(&without));
    all_up(&nodes);
    let session = opened(nodes[0].addr);
    is_unknown(&poll_at(&nodes[1], &session));
    let why = "not relayed without cluster.secret";
    assert!(nodes[0].logged(why, PATIENCE), "{:?}", nodes[0].log());
    assert_eq!(nodes[1].metric("sockeye_relay_failed_total"), 0.0);
}

/// They were cut off in the middle of a word when the process ended.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_that_stops_ends_what_it_relays_within_its_window() {
    let redis = Redis::start();
    let mut nodes: [Gateway; 2] = relaying(&redis, "");
    let session = opened(nodes[0].addr);
    let mut socket = upgraded(&nodes[1], &session);
    nodes[1].terminate();
    socket.ended(PATIENCE);
    let status = nodes[1].exit_status(PATIENCE);
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
    assert!(is_ready(&nodes[0]));
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn an_operator_drains_a_node_by_way_of_another_one() {
    let redis = Redis::start();
    let (key, entry) = identity::keys::generate("ci", &[]).expect("a key");
    let more = format!("[admin]\napi_keys = [{entry:?}]\n");
    let mut nodes: [Gateway; 2] = nodes_with(&redis, &more);
    let order = |words: &[&str]| {
        let mut command = Command::new(BINARY);
        command.arg("nodes").args(words).args(["--key", &key]);
        command.args(["--admin", &nodes[0].admin.to_string()]);
        let ended = command.output().expect("run sockeye nodes");
        let said = String::from_utf8_lossy(&ended.stdout).into_owned();
        (
            ended.status.code(),
            said + &String::from_utf8_lossy(&ended.stderr),
        )
    };
    let row = |number: u64| {
        let (_, said) = order(&["--json"]);
        let json: Value = serde_json::from_str(&said).expect(&said);
        let mut rows = json["nodes"].as_array().expect("nodes").iter();
        rows.find(|row| row["number"] == number).cloned()
    };
    let late = opened(nodes[1].addr);
    let mut leaver = member(&nodes[1], "room");
    let mut stays = member(&nodes[0], "room");
    let number = number(&nodes[1]);
    let counted = eventually(PATIENCE, || {
        row(number).is_some_and(|row| row["sessions"] == 2)
    });
    assert!(counted, "{:?}", row(number));
    assert_eq!(row(number).expect("a node")["state"], "ready");
    assert_eq!(order(&["drain", "1000"]).0, Some(1));
    let (code, said) = order(&["drain", &number.to_string()]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(leaver.until_closed().1, Some(1001));
    // It kept other nodes waiting for answers that its shards did not give.
    let left = eventually(PATIENCE, || row(number).is_none());
    assert!(left, "{:?}", row(number));
    stays.emit("n", &[json!(1)]);
    is_unknown(&poll_at(&nodes[0], &late));
    assert!(!is_ready(&nodes[1]) && is_ready(&nodes[0]));
    assert!(nodes[1].is_alive(), "no supervisor starts another");
    nodes[1].terminate();
    let status = nodes[1].exit_status(PATIENCE);
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
}

fn nodes_with<const N: usize>(redis: &Redis, more: &str) -> [Gateway; N] {
    let nodes = std::array::from_fn(|_| Gateway::start(&quick(redis, more)));
    all_up(&nodes);
    nodes
}
