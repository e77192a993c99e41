//! Long-polling and the upgrade when every request comes on a new connection and so lands on any of four shards; and who
//! may poll at all.

use super::client::{Event, Frame, Polling, SocketIo, WebSocket, open_session, request};
use super::crowd::SHARDS;
use crate::harness::Gateway;
use serde_json::json;

const FOUR_SHARDS: &str = "profile = \"socket.io\"\n[server]\nshards = 4\n";
const POLL: &str = "/socket.io/?EIO=4&transport=polling";
const MOVED: &str = "sockeye_connections_moved_total";

#[test]
fn requests_find_their_session_on_whatever_shard_they_land() {
    let gateway = Gateway::start(FOUR_SHARDS);
    let mut clients: Vec<SocketIo> = (0..12)
        .map(|_| SocketIo::polling(gateway.addr, "/", json!({})))
        .collect();
    for client in &mut clients {
        assert_eq!(client.ask("join", &["pool".into()]), [json!(["pool"])]);
    }
    for round in 0..4 {
        for (sender, client) in clients.iter_mut().enumerate() {
            client.emit("turn", &[round.into(), sender.into()]);
        }
        for (receiver, client) in clients.iter_mut().enumerate() {
            let others = (0..12).filter(|sender| *sender != receiver);
            let mut missing: Vec<usize> = others.collect();
            while !missing.is_empty() {
                let Event { args, .. } = client.next_named("turn");
                assert_eq!(args[0], round);
                let sender = args[1].as_u64().expect("a number") as usize;
                let at = missing.iter().position(|other| *other == sender);
                missing.remove(at.unwrap_or_else(|| panic!("{sender} twice at {receiver}")));
            }
        }
    }
    // Three of four connections landed elsewhere; far fewer would mean that this test tests nothing.
    let (moved, accepted) = (
        gateway.metric(MOVED),
        gateway.metric("sockeye_connections_accepted_total"),
    );
    let expected = accepted * (SHARDS as f64 - 1.0) / SHARDS as f64;
    assert!(
        moved > expected * 0.6,
        "{moved} of {accepted} connections moved"
    );
}

/// One client that upgrades while events flow to it: none may be lost, doubled or overtaken.
fn upgrade_under_load(gateway: &Gateway, sender: &mut SocketIo, room: &str) {
    let polling = Polling::connect(gateway.addr, "");
    let sid = polling.open["sid"].as_str().expect("a sid").to_owned();
    assert_eq!(polling.open["upgrades"], json!(["websocket"]));
    assert_eq!(polling.post("40").body, "ok");
    let mut packets = split(&polling.poll().body);
    assert_eq!(polling.post(&format!("42[\"join\",\"{room}\"]")).body, "ok");
    // Posted and answered: joined. From here on each number is due.
    let mut sent = 0;
    let mut send = |count: u64| {
        for _ in 0..count {
            sender.emit("n", &[sent.into()]);
            sent += 1;
        }
        sent
    };
    send(5);
    let waiting = {
        let polling = polling_of(&polling, gateway);
        std::thread::spawn(move || polling.poll().body)
    };
    let mut socket = WebSocket::connect(
        gateway.addr,
        &format!("/socket.io/?EIO=4&transport=websocket&sid={sid}"),
        "",
    );
    socket.text("2probe");
    assert_eq!(socket.frame(), Frame::Text("3probe".to_owned()));
    send(5);
    packets.extend(split(&waiting.join().expect("the waiting poll")));
    // A poll between the probe and the upgrade is told to stop (or gets what there was).
    loop {
        let more = split(&polling.poll().body);
        let last = more.iter().any(|packet| packet == "6");
        packets.extend(more);
        if last {
            break;
        }
    }
    socket.text("5");
    let due = send(5);
    let mut numbers: Vec<u64> = packets.iter().filter_map(|packet| number(packet)).collect();
    while (numbers.len() as u64) < due {
        match socket.frame() {
            Frame::Text(text) => numbers.extend(number(&text)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(numbers, (0..due).collect::<Vec<_>>());
    // The old transport is gone.
    assert_eq!(polling.poll().status, 400);
    socket.text("42[\"m\",1]");
    assert_eq!(sender.expect("m"), [1]);
    socket.text("41");
    socket.text("1");
}

/// Another handle for the same session.
fn polling_of(polling: &Polling, gateway: &Gateway) -> Polling {
    Polling::again(gateway.addr, &polling.path)
}

fn split(payload: &str) -> Vec<String> {
    payload.split('\x1e').map(str::to_owned).collect()
}

fn number(packet: &str) -> Option<u64> {
    packet
        .strip_prefix("42[\"n\",")?
        .strip_suffix(']')?
        .parse()
        .ok()
}

#[test]
fn the_upgrade_loses_and_reorders_nothing_over_shards() {
    let gateway = Gateway::start(FOUR_SHARDS);
    for n in 0..8 {
        let room = format!("room {n}");
        let mut sender = SocketIo::websocket(gateway.addr, "/", json!({}));
        sender.ask("join", &[room.as_str().into()]);
        upgrade_under_load(&gateway, &mut sender, &room);
    }
    assert!(
        gateway.metric(MOVED) > 8.0,
        "the requests all landed on the owner"
    );
}

#[test]
fn websocket_only_is_one_line() {
    let gateway =
        Gateway::start("profile = \"socket.io\"\nsocketio.transports = [\"websocket\"]\n");
    let refused = request(gateway.addr, "GET", POLL, "", "");
    assert_eq!(
        (refused.status, refused.body.as_str()),
        (400, r#"{"code":0,"message":"Transport unknown"}"#)
    );
    let mut socket = WebSocket::connect(gateway.addr, "/socket.io/?EIO=4&transport=websocket", "");
    let Frame::Text(open) = socket.frame() else {
        panic!("no open packet")
    };
    assert_eq!(open_session(&open)["upgrades"], json!([]));
    let mut client = SocketIo::websocket(gateway.addr, "/", json!({}));
    assert_eq!(client.ask("join", &["r".into()]), [json!(["r"])]);
}

#[test]
fn polling_only_offers_no_upgrade() {
    let gateway = Gateway::start("profile = \"socket.io\"\nsocketio.transports = [\"polling\"]\n");
    let open = open_session(&request(gateway.addr, "GET", POLL, "", "").body);
    assert_eq!(open["upgrades"], json!([]));
    let direct = request(
        gateway.addr,
        "GET",
        "/socket.io/?EIO=4&transport=websocket",
        "",
        "",
    );
    assert_eq!(
        (direct.status, direct.body.as_str()),
        (400, r#"{"code":0,"message":"Transport unknown"}"#)
    );
}

#[test]
fn polling_can_be_limited_to_some_user_agents() {
    let config =
        "profile = \"socket.io\"\n[socketio]\npolling_user_agents = [\"MSIE 9\", \"OldPhone\"]\n";
    let gateway = Gateway::start(config);
    let status = |agent: &str| request(gateway.addr, "GET", POLL, agent, "").status;
    assert_eq!(status("User-Agent: Mozilla/5.0 (oldphone; rv:1)\r\n"), 200);
    assert_eq!(
        status("User-Agent: Mozilla/4.0 (compatible; MSIE 9.0)\r\n"),
        200
    );
    assert_eq!(status("User-Agent: Mozilla/5.0 (X11; Linux)\r\n"), 400);
    assert_eq!(status(""), 400);
    let mut client = SocketIo::websocket(gateway.addr, "/", json!({}));
    assert_eq!(client.ask("join", &["r".into()]), [json!(["r"])]);
}

#[test]
fn the_open_packet_says_what_the_configuration_says() {
    let config = "profile = \"socket.io\"\n[socketio]\nping_interval = \"7s\"\nping_timeout = \"3s\"\nmax_http_buffer_size = \"2KB\"\n";
    let gateway = Gateway::start(config);
    let mut open = open_session(&request(gateway.addr, "GET", POLL, "", "").body);
    let sid = open["sid"].take();
    assert_eq!(sid.as_str().map(str::len), Some(20));
    let expected = json!({
        "sid": null, "upgrades": ["websocket"], "pingInterval": 7_000, "pingTimeout": 3_000, "maxPayload": 2_000,
    });
    assert_eq!(open, expected);
}
