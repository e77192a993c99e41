//! What a session keeps.

use super::chain::Chain;
use crate::harness::client::{Plain, Poller, SocketIo, poll_request, post_request};
use crate::harness::{Ended, PATIENCE, RawConn, eventually};
use crate::tls::pki::{Pki, Secure};
use client::OpCode;
use client::full::SocketIo as Client;
use serde_json::{Value, json};
use std::time::Duration;

const CONFIG: &str = "profile = \"socket.io\"\n[server]\nshards = 2\n";

#[test]
fn ids_rooms_and_answers_are_what_they_were() {
    let mut chain = Chain::start(CONFIG);
    let addr = chain.first.addr;
    let mut ann = SocketIo::connect(addr);
    let mut ben = Plain::join(addr, "lobby");
    ann.ask(1, &json!(["join", "lobby"]));
    chain.upgrade();
    ann.emit(&json!(["after", 1]));
    let heard = ben.expect_type("after");
    assert_eq!(heard["payload"], 1);
    ben.send(&json!({"type": "back", "payload": 2}));
    assert_eq!(ann.expect("back"), [json!(2)]);
    // It leaves, and is heard no more.
    ann.ask(2, &json!(["leave", "lobby"]));
    ben.send(&json!({"type": "unheard", "payload": 0}));
    assert!(ann.is_spared("unheard", Duration::from_millis(300)));
    chain.first_ends();
}

/// Its clients stay, and waited for answers that never came.
#[test]
fn events_for_a_namespace_that_went_away_were_lost_without_a_word() {
    let rules = "[namespaces.\"/old\".events.mirror]\naction = \"reply\"\n";
    let mut chain = Chain::start(&format!("{CONFIG}{rules}"));
    let mut ann = Client::websocket(chain.first.addr, "/old", json!({}));
    assert_eq!(ann.ask("mirror", &[json!(1)]), [json!(1)]);
    let socket = chain.socket().display().to_string();
    let without = format!("{CONFIG}[upgrade]\nsocket = {socket:?}\n");
    chain.first.reload(&without);
    chain.upgrade();
    let unknown = json!({"error": "No rule knows this event", "code": "UNKNOWN_EVENT"});
    assert_eq!(ann.ask("mirror", &[json!(2)]), [unknown]);
}

/// A frame whose beginning was read, and a message whose attachment is still to come.
#[test]
fn what_was_read_and_not_understood_goes_along() {
    let mut chain = Chain::start(CONFIG);
    let addr = chain.first.addr;
    let mut ben = SocketIo::connect(addr);
    ben.ask(1, &json!(["join", "lobby"]));
    let mut ann = SocketIo::connect(addr);
    ann.ask(1, &json!(["join", "lobby"]));
    let mut carl = SocketIo::connect(addr);
    carl.ask(1, &json!(["join", "lobby"]));
    let frame = client::conn::masked(true, OpCode::Text, "42[\"torn\",\"abcdefgh\"]");
    let (first, rest) = frame.split_at(9);
    ann.conn.send(first);
    carl.send("451-[\"picture\",{\"_placeholder\":true,\"num\":0}]");
    std::thread::sleep(Duration::from_millis(200));
    chain.upgrade();
    chain.upgrade();
    ann.conn.send(rest);
    assert_eq!(ben.expect("torn"), [json!("abcdefgh")]);
    carl.conn.send_binary([1, 2, 3]);
    let packet = ben.packet_starting("451-");
    assert!(packet.contains("picture"), "{packet}");
    let frame = ben.conn.frame();
    assert_eq!(
        (frame.opcode, &*frame.payload),
        (OpCode::Binary, &[1, 2, 3][..])
    );
}

/// Its output stands in the kernel and in the gateway, cut off in the middle of a frame.
#[test]
fn a_slow_reader_gets_every_byte_once() {
    let mut chain = Chain::start(CONFIG);
    let addr = chain.first.addr;
    let mut slow = SocketIo::connect(addr);
    slow.conn.shrink_receive_buffer(65_536);
    slow.ask(1, &json!(["join", "lobby"]));
    let mut fast = SocketIo::connect(addr);
    fast.ask(1, &json!(["join", "lobby"]));
    // Far more than the kernel takes; below what the gateway keeps for one connection.
    let filler = "x".repeat(20_000);
    let mut waits = false;
    for n in 0..400 {
        fast.emit(&json!(["bulk", n, filler]));
        if n % 4 == 3 {
            fast.ask(2, &json!(["join", "lobby"]));
            waits = chain.first.metric("sockeye_waiting_bytes") > 20_000.0;
        }
        if waits {
            fast.emit(&json!(["last", n]));
            break;
        }
    }
    assert!(waits, "the kernel took everything");
    chain.upgrade();
    let mut expected = 0;
    let last = loop {
        let packet = slow.packet_starting("42");
        let event: Vec<Value> = serde_json::from_str(&packet[2..]).expect("JSON");
        if event[0] == "last" {
            break event[1].as_u64();
        }
        assert_eq!(event[1], expected, "in order");
        assert_eq!(event[2].as_str().map(str::len), Some(20_000));
        expected += 1;
    };
    assert_eq!(last, Some(expected - 1));
    // And it can speak.
    slow.emit(&json!(["alive"]));
    fast.expect("alive");
}

/// It lost events of two rooms, was told of the first when that went, and would have been told of the other one when it has caught up.
#[test]
fn a_slow_reader_is_told_of_all_that_it_lost() {
    const DROPPED: &str = "sockeye_dropped_slow_total{policy=\"drop-newest\"}";
    let mut chain = Chain::start(&format!(
        "{CONFIG}[socketio]\nmax_http_buffer_size = \"64KiB\"\n[limits]\noutbox_bytes_max = \"64KiB\"\nslow_consumer = \"drop-newest\"\n\
         [namespaces.\"/\"]\nclient_joins = true\n[namespaces.\"/\".recovery]\nlevel = \"node\"\n\
         [namespaces.\"/\".events.say]\naction = \"rooms\"\nroom_field = \"room\"\n"
    ));
    let addr = chain.first.addr;
    let mut slow = SocketIo::connect(addr);
    slow.conn.shrink_receive_buffer(65_536);
    let mut fast = SocketIo::connect(addr);
    for member in [&mut slow, &mut fast] {
        member.ask(1, &json!(["join", "early"]));
        member.ask(2, &json!(["join", "late"]));
    }
    let filler = "x".repeat(20_000);
    for room in ["early", "late"] {
        let before = chain.first.metric(DROPPED);
        let lost = eventually(PATIENCE, || {
            for _ in 0..20 {
                fast.emit(&json!(["say", {"room": room, "filler": filler}]));
            }
            chain.first.metric(DROPPED) > before
        });
        assert!(lost, "the kernel took everything");
    }
    chain.upgrade();
    let first = slow.expect("sockeye:gap");
    assert_eq!(first, [json!({"rooms": ["early"]})]);
    let second = slow.expect("sockeye:gap");
    assert_eq!(second, [json!({"rooms": ["early", "late"]})]);
}

/// Heartbeats go on: an idle client is pinged in time, and one that does not answer is found.
#[test]
fn hearts_beat_on() {
    let config = format!("{CONFIG}[socketio]\nping_interval = \"1s\"\nping_timeout = \"1s\"\n");
    let mut chain = Chain::start(&config);
    let addr = chain.first.addr;
    let mut lively = SocketIo::connect(addr);
    let mut dead = SocketIo::connect(addr);
    chain.upgrade();
    for _ in 0..3 {
        let frame = lively.conn.frame_within(Duration::from_secs(3));
        assert_eq!(frame.expect("a ping").payload, b"2");
        lively.send("3");
    }
    assert_ne!(dead.conn.ended(PATIENCE), Ended::Open);
}

/// Those that cannot go are told of before, and sent to the successor.
#[test]
fn who_stays_is_told_before_and_finds_the_successor() {
    let mut chain = Chain::start(CONFIG);
    let addr = chain.first.addr;
    let mut speaker = SocketIo::connect(addr);
    speaker.conn.send_frame(false, OpCode::Text, "42[\"half\",");
    std::thread::sleep(Duration::from_millis(200));
    let mut stays = SocketIo::connect(addr);
    let dry = chain
        .command(&["--dry-run"])
        .output()
        .expect("sockeye upgrade");
    let text = super::chain::said(&dry);
    assert!(dry.status.success(), "{text}");
    assert!(text.contains("1 sessions go over"), "{text}");
    assert!(
        text.contains("1 sessions are sent away and come back by themselves: in the middle of a fragmented message"),
        "{text}"
    );
    chain.upgrade();
    let rest = speaker.conn.rest(PATIENCE);
    assert!(rest.contains("SERVER_SHUTDOWN"), "{rest}");
    stays.emit(&json!(["join", "lobby"]));
    chain.first_ends();
}

/// Connections whose request is half there, or has not come, or is one of several.
#[test]
fn whoever_has_just_come_is_served() {
    let mut chain = Chain::start(CONFIG);
    let addr = chain.first.addr;
    let request = |close| {
        format!("GET /socket.io/?EIO=4&transport=polling HTTP/1.1\r\nHost: a\r\n{close}\r\n")
    };
    let (whole, last) = (request(""), request("Connection: close\r\n"));
    let mut silent: Vec<_> = (0..20).map(|_| RawConn::connect(addr)).collect();
    let mut half: Vec<_> = (0..20).map(|_| RawConn::connect(addr)).collect();
    let mut kept: Vec<_> = (0..20).map(|_| RawConn::connect(addr)).collect();
    for conn in &mut half {
        conn.send(&last[..30]);
    }
    for conn in &mut kept {
        conn.send(&whole);
        assert_eq!(conn.response().status, 200);
    }
    chain.upgrade();
    chain.upgrade();
    for conn in &mut silent {
        conn.send(&last);
        assert_eq!(conn.response().status, 200);
    }
    for conn in &mut half {
        conn.send(&last[30..]);
        assert_eq!(conn.response().status, 200);
    }
    for conn in &mut kept {
        conn.send(&last);
        assert_eq!(conn.response().status, 200);
    }
}

/// No record may have its namespace. That ended the whole handoff, so that one client stopped every upgrade.
#[test]
fn a_client_in_a_namespace_with_a_long_name_stopped_every_upgrade() {
    let name = format!("/{}", "n".repeat(70_000));
    let mut chain = Chain::start(&format!("{CONFIG}[namespaces.{name:?}]\n"));
    let mut ben = SocketIo::connect(chain.first.addr);
    ben.ask(1, &json!(["join", "lobby"]));
    let mut ann = SocketIo::connect(chain.first.addr);
    ann.send(&format!("40{name},"));
    ann.packet_starting(&format!("40{name},{{\"sid\""));
    chain.upgrade();
    assert_eq!(ben.ask(2, &json!(["join", "hall"])), json!([["hall"]]));
}

/// Their rest is still to come, and each has far more than a batch of records is meant to have.
#[test]
fn many_large_attachments_go_over() {
    let mut chain = Chain::start(CONFIG);
    let addr = chain.first.addr;
    let mut ben = SocketIo::connect(addr);
    ben.ask(1, &json!(["join", "lobby"]));
    let attachment = vec![7; 700_000];
    let mut clients: Vec<_> = (0..60).map(|_| SocketIo::connect(addr)).collect();
    for client in &mut clients {
        client.ask(1, &json!(["join", "lobby"]));
        client.send(
            "452-[\"picture\",{\"_placeholder\":true,\"num\":0},{\"_placeholder\":true,\"num\":1}]",
        );
        client.conn.send_binary(&attachment);
    }
    std::thread::sleep(Duration::from_millis(500));
    chain.upgrade();
    clients[59].conn.send_binary([1]);
    let packet = ben.packet_starting("452-");
    assert!(packet.contains("picture"), "{packet}");
    assert_eq!(ben.conn.frame().payload.len(), attachment.len());
    assert_eq!(ben.conn.frame().payload, [1]);
}

/// Their next request may come on a connection that no other process can have: whose poll waits is told of the end, and all come back.
#[test]
fn those_who_poll_over_tls_are_told_to_come_back() {
    let pki = Pki::new();
    let mut chain = Chain::start(&format!("{CONFIG}{}", pki.section("")));
    let addr = Secure::addr_of(&chain.first);
    let plain = Poller::connect(chain.first.addr);
    let mut conns: Vec<_> = (0..2).map(|_| pki.client().connect(addr)).collect();
    let mut sids = Vec::new();
    for conn in &mut conns {
        let mut ask = |request: String| {
            conn.send(request);
            conn.response().body
        };
        let opened = ask(poll_request(""));
        let sid = opened.split('"').nth(3).expect("a session id").to_owned();
        assert_eq!(ask(post_request(&sid, "40")), "ok");
        assert!(ask(poll_request(&sid)).starts_with("40"));
        sids.push(sid);
    }
    conns[0].send(poll_request(&sids[0]));
    std::thread::sleep(Duration::from_millis(200));
    let (text, _) = chain.upgrade();
    assert!(
        text.contains("1 sessions go over")
            && text.contains("2 sessions are sent away")
            && text.contains("TLS"),
        "{text}"
    );
    let told = conns[0].response();
    assert_eq!(told.status, 200, "{}", told.body);
    assert!(told.body.contains("SERVER_SHUTDOWN"), "{}", told.body);
    // Nobody waits there: its client finds the end of the connection, and of the session at the successor.
    assert_ne!(conns[1].ended(PATIENCE), Ended::Open);
    let later = pki.client().exchange(addr, poll_request(&sids[1]));
    assert_eq!(later.status, 400, "{}", later.body);
    let again = pki.client().exchange(addr, poll_request(""));
    assert_eq!(again.status, 200, "{}", again.body);
    assert!(plain.is_alive());
}

/// One whose poll waits, and one with something in its queue.
#[test]
fn those_who_poll_go_over() {
    let mut chain = Chain::start(CONFIG);
    let addr = chain.first.addr;
    let (waits, queues) = (Poller::connect(addr), Poller::connect(addr));
    let mut speaks = SocketIo::connect(addr);
    for poller in [&waits, &queues] {
        assert_eq!(poller.post("421[\"join\",\"lobby\"]").status, 200);
        assert!(poller.poll().body.starts_with("431"));
    }
    speaks.ask(1, &json!(["join", "lobby"]));
    let mut poll = waits.begin_poll();
    std::thread::sleep(Duration::from_millis(200));
    speaks.emit(&json!(["first"]));
    assert!(poll.response().body.contains("first"));
    let mut poll = waits.begin_poll();
    std::thread::sleep(Duration::from_millis(200));
    chain.upgrade();
    // Its poll ends with nothing, and it asks again.
    assert_eq!(poll.response().body, "6");
    let mut poll = waits.begin_poll();
    std::thread::sleep(Duration::from_millis(200));
    chain.upgrade();
    let answer = poll.response();
    assert_eq!((answer.status, &*answer.body), (200, "6"));
    let mut poll = waits.begin_poll();
    speaks.emit(&json!(["second"]));
    assert!(poll.response().body.contains("second"));
    let body = queues.poll().body;
    let at = |name: &str| {
        let at = body.find(name);
        at.unwrap_or_else(|| panic!("{name} in {body}"))
    };
    assert!(at("first") < at("second"));
    assert_eq!(queues.post("42[\"back\"]").status, 200);
    speaks.expect("back");
    chain.first_ends();
}
