//! What a session by WebTransport can do.

use super::client::{OPEN, Quic, frame, gateway, play, settles, soon};
use crate::harness::PATIENCE;
use crate::harness::client::{Poller, SocketIo};
use crate::tls::pki::Pki;
use ::client::full::request;
use serde_json::{Value, json};

#[test]
fn a_session_is_opened_talks_and_is_shown_as_what_it_is() {
    let pki = Pki::new();
    let (key, hash) = identity::keys::generate("ops", &[]).expect("a key");
    let secure = gateway(&pki, &format!("[admin]\napi_keys = [{hash:?}]"));
    play(async {
        let mut talk = Quic::new(&pki).stream(secure.addr).await;
        talk.say("0").await;
        let open = talk.opened().await;
        assert_eq!(open["upgrades"], json!([]));
        talk.join().await;
        talk.enter("lab").await;
        settles(&secure, OPEN, 1.0).await;
        assert_eq!(secure.gateway.metric("websocket_connections_total"), 0.0);
        let path = format!("/v1/node/sessions?id={}", talk.sid);
        let key = format!("Authorization: Bearer {key}\r\n");
        let shown = request(secure.gateway.admin, "GET", &path, &key, "");
        let shown: Value = serde_json::from_str(&shown.body).expect("JSON");
        assert_eq!(shown["sessions"][0]["transport"], "webtransport", "{shown}");
        assert_eq!(shown["sessions"][0]["address"], "127.0.0.1");
        talk.session.close(0, b"");
        settles(&secure, OPEN, 0.0).await;
    });
}

#[test]
fn members_hear_each_other_whatever_carries_them() {
    let pki = Pki::new();
    let secure = gateway(&pki, "");
    let mut by_websocket = SocketIo::connect(secure.gateway.addr);
    by_websocket.ask(1, &json!(["join", "lab"]));
    play(async {
        let mut talk = Quic::new(&pki).join(secure.addr).await;
        talk.enter("lab").await;
        let long = "x".repeat(70_000);
        talk.say(&format!(
            "42[\"say\",{{\"room\":\"lab\",\"text\":\"{long}\"}}]"
        ))
        .await;
        let heard = by_websocket.expect("say");
        assert_eq!(heard[0]["text"], json!(long));
        by_websocket.emit(&json!(["say", {"room": "lab", "text": long}]));
        let heard = talk.text_starting("42[\"say\"").await;
        assert!(heard.len() > 70_000, "{}", heard.len());
        // An attachment each way.
        let event = "451-[\"say\",{\"room\":\"lab\",\"b\":{\"_placeholder\":true,\"num\":0}}]";
        talk.say(event).await;
        talk.raw(&frame(true, &[0, 1, 2])).await;
        assert!(by_websocket.packet_starting("451-[\"say\"").len() > 10);
        assert_eq!(by_websocket.conn.frame().payload, [0, 1, 2]);
        by_websocket.send(event);
        by_websocket.conn.send_binary([3, 4]);
        talk.text_starting("451-[\"say\"").await;
        assert_eq!(talk.hear().await, Some((true, vec![3, 4])));
    });
}

#[test]
fn a_polling_session_moves_to_webtransport() {
    let pki = Pki::new();
    let secure = gateway(&pki, "[server]\nshards = 2");
    play(async {
        let quic = Quic::new(&pki);
        let mut all = Vec::new();
        // Whichever shard has it: the stream comes to any of them, and moves there.
        for round in 0..4 {
            let poller = Poller::open(secure.gateway.addr);
            let mut talk = quic.stream(secure.addr).await;
            talk.say(&format!("0{{\"sid\":\"{}\"}}", poller.sid)).await;
            talk.say("2probe").await;
            assert_eq!(talk.text().await, "3probe");
            // The poll is ended so that the client stops polling.
            assert_eq!(poller.poll().body, "6");
            talk.say("5").await;
            talk.join().await;
            talk.enter("lab").await;
            settles(&secure, OPEN, f64::from(round + 1)).await;
            all.push(talk);
        }
    });
}

#[test]
fn the_first_poll_names_the_ways_to_go_on() {
    let pki = Pki::new();
    let secure = gateway(&pki, "");
    let target = "/socket.io/?EIO=4&transport=polling";
    let opened = request(secure.gateway.addr, "GET", target, "", "").body;
    let upgrades = "\"upgrades\":[\"websocket\",\"webtransport\"]";
    assert!(opened.contains(upgrades), "{opened}");
}

#[test]
fn two_streams_for_one_session_take_nothing_from_it() {
    let pki = Pki::new();
    let secure = gateway(&pki, "");
    play(async {
        let quic = Quic::new(&pki);
        let poller = Poller::open(secure.gateway.addr);
        let opening = format!("0{{\"sid\":\"{}\"}}", poller.sid);
        let mut first = quic.stream(secure.addr).await;
        first.say(&opening).await;
        first.say("2probe").await;
        assert_eq!(first.text().await, "3probe");
        let mut second = quic.stream(secure.addr).await;
        second.say(&opening).await;
        assert_eq!(second.hear().await, None);
        assert_eq!(second.ended().await, (0, String::new()));
        first.say("5").await;
        first.join().await;
        let mut third = quic.stream(secure.addr).await;
        third.say(&opening).await;
        assert_eq!(third.hear().await, None);
        first.enter("lab").await;
    });
}

#[test]
fn nobody_gets_by_tcp_what_a_carrier_brings() {
    let pki = Pki::new();
    let secure = gateway(&pki, "");
    let target = "/socket.io/?EIO=4&transport=webtransport";
    let upgrade = "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for lines in ["", upgrade] {
        let answer = request(secure.gateway.addr, "GET", target, lines, "");
        assert_eq!(answer.status, 400, "{lines}");
        assert!(answer.body.contains("Transport unknown"), "{}", answer.body);
    }
}

#[test]
fn migration_goes_unnoticed() {
    let pki = Pki::new();
    let secure = gateway(&pki, "");
    play(async {
        let quic = Quic::new(&pki);
        let mut talk = quic.join(secure.addr).await;
        for room in ["a", "b", "c"] {
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
            quic.endpoint.rebind(socket).expect("another address");
            talk.enter(room).await;
        }
        let opened = secure.gateway.metric("sockeye_webtransport_opened_total");
        assert_eq!(opened, 1.0);
    });
}

#[test]
fn a_client_hears_of_the_end() {
    let pki = Pki::new();
    let mut secure = gateway(&pki, "[server]\ndrain_window = \"100ms\"");
    play(async {
        let mut talk = Quic::new(&pki).join(secure.addr).await;
        secure.gateway.terminate();
        while talk.hear().await.is_some() {}
        let (code, _) = talk.ended().await;
        assert_eq!(code, 1001);
    });
    let status = secure.gateway.exit_status(PATIENCE).expect("it ends");
    assert!(status.success(), "{status}");
}

#[test]
fn what_had_come_before_the_end_was_lost() {
    const EVENTS: usize = 300;
    let pki = Pki::new();
    let secure = gateway(&pki, "");
    let mut hearer = SocketIo::connect(secure.gateway.addr);
    hearer.ask(1, &json!(["join", "lab"]));
    play(async {
        let quic = Quic::new(&pki);
        for round in 0..5 {
            let mut talk = quic.join(secure.addr).await;
            talk.enter("lab").await;
            let text = "x".repeat(300);
            let event = format!("42[\"say\",{{\"room\":\"lab\",\"text\":\"{text}\"}}]");
            let mut all = frame(false, event.as_bytes()).repeat(EVENTS);
            all.extend(frame(
                false,
                b"42[\"say\",{\"room\":\"lab\",\"last\":true}]",
            ));
            talk.raw(&all).await;
            // All has come when the session is closed: its end is said by another stream.
            talk.send.finish().expect("an open stream");
            let _ = soon(talk.send.stopped()).await;
            talk.session.close(0, b"");
            let mut heard = 0;
            while hearer.expect("say")[0]["last"] != json!(true) {
                heard += 1;
            }
            assert_eq!(heard, EVENTS, "round {round}");
        }
    });
}
