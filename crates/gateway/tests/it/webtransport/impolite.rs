//! Clients of WebTransport that stop half-way, lie, or ask for too much.

use super::client::{OFFERED, OPEN, Quic, Talk, frame, gateway, play, session_on, settles, soon};
use crate::harness::client::SocketIo;
use crate::harness::{Gateway, PATIENCE, eventually};
use crate::tls::pki::{Pki, Secure};
use serde_json::json;
use std::time::Duration;
use web_transport_quinn::quinn::ConnectionError;

const SHORT: &str = "[limits]\nhandshake_timeout = \"500ms\"";

fn turned_away(reason: &str) -> String {
    format!("sockeye_webtransport_turned_away_total{{reason=\"{reason}\"}}")
}

#[test]
fn half_open_sessions_have_a_deadline() {
    let pki = Pki::new();
    let secure = gateway(&pki, SHORT);
    play(async {
        let quic = Quic::new(&pki);
        // A handshake and no request; a session and no stream; a stream and no word; half a word.
        let handshake = quic.handshake(secure.addr).await.expect("QUIC");
        let silent = quic
            .connect(secure.addr, "/socket.io/", &[])
            .await
            .expect("a session");
        let wordless = quic.stream(secure.addr).await;
        let mut broken_off = quic.stream(secure.addr).await;
        broken_off
            .raw(&frame(false, b"0{\"sid\":\"x\"}")[..5])
            .await;
        soon(handshake.closed()).await;
        soon(silent.closed()).await;
        soon(wordless.session.closed()).await;
        soon(broken_off.session.closed()).await;
        settles(&secure, &turned_away("slow"), 4.0).await;
        settles(&secure, "sockeye_webtransport_opening", 0.0).await;
    });
}

#[test]
fn sessions_are_opened_at_one_place_by_pages_that_may() {
    let pki = Pki::new();
    let origins = "origins = [\"https://good.example\"]";
    let config = format!(
        "profile = \"socket.io\"\n{}{OFFERED}{origins}\n",
        pki.section("")
    );
    let secure = Secure::new(Gateway::start(&config));
    play(async {
        let quic = Quic::new(&pki);
        for path in ["/", "/ws", "/socket.io", "/socket.io/../ws", "/chat"] {
            let refused = quic.connect(secure.addr, path, &[]).await;
            assert!(refused.is_err(), "{path}");
        }
        let at = "/socket.io/?token=x&sid=other";
        for (origin, code) in [("https://bad.example", 403), ("null", 403)] {
            let session = quic.connect(secure.addr, at, &[("origin", origin)]).await;
            let mut talk = Talk::on(session.expect("a session of WebTransport")).await;
            talk.say("0").await;
            assert_eq!(talk.hear().await, None);
            let (ended, why) = talk.ended().await;
            assert_eq!((ended, why.contains("Forbidden")), (code, true), "{why}");
        }
        let good = [("origin", "https://good.example")];
        let session = quic.connect(secure.addr, at, &good).await;
        let mut talk = Talk::on(session.expect("a session of WebTransport")).await;
        talk.say("0").await;
        talk.opened().await;
        assert_eq!(secure.gateway.metric(&turned_away("wrong")), 5.0);
        assert_eq!(secure.gateway.metric(&turned_away("refused")), 2.0);
    });
}

#[test]
fn a_session_that_nobody_knows_is_not_opened() {
    let pki = Pki::new();
    let secure = gateway(&pki, "");
    play(async {
        let mut talk = Quic::new(&pki).stream(secure.addr).await;
        talk.say("0{\"sid\":\"n2tYsQdc0rQqRtH-AABg\"}").await;
        assert_eq!(talk.hear().await, None);
        let (code, why) = talk.ended().await;
        assert_eq!(
            (code, why.contains("Session ID unknown")),
            (400, true),
            "{why}"
        );
    });
}

/// It had a tenth of a second to read how its session ended. Then the connection was ended as well, and browsers tell a page nothing but that.
#[test]
fn a_client_that_read_its_end_late_heard_of_a_lost_connection() {
    let pki = Pki::new();
    let secure = gateway(&pki, "");
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let quic = Quic::new(&pki);
        let conn = quic.handshake(secure.addr).await.expect("QUIC");
        let session = session_on(conn.clone(), secure.addr, "/socket.io/", &[]).await;
        let mut talk = Talk::on(session.expect("a session of WebTransport")).await;
        talk.say("0{\"sid\":\"n2tYsQdc0rQqRtH-AABg\"}").await;
        // The tasks of the connection send it.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        // This thread waits, and with it all of the client.
        let refused = || secure.gateway.metric(&turned_away("refused")) == 1.0;
        assert!(eventually(PATIENCE, refused));
        std::thread::sleep(Duration::from_millis(500));
        let (code, why) = talk.ended().await;
        assert_eq!(code, 400, "{why}");
        let ended = soon(conn.closed()).await;
        assert_eq!(ended, ConnectionError::LocallyClosed, "it goes by itself");
    });
}

#[test]
fn a_stream_that_does_not_begin_with_an_opening_is_refused() {
    let pki = Pki::new();
    let secure = gateway(&pki, "");
    play(async {
        let quic = Quic::new(&pki);
        let long = [b'0'; 200];
        for wrong in [
            &frame(false, b"40")[..],
            &frame(true, b"0"),
            &[0],
            &frame(false, &long),
            &[0xff; 9],
        ] {
            let mut talk = quic.stream(secure.addr).await;
            talk.raw(wrong).await;
            let (code, why) = talk.ended().await;
            assert!(code == 0 && !why.is_empty(), "{wrong:?}: {why}");
        }
        settles(&secure, &turned_away("wrong"), 5.0).await;
    });
}

#[test]
fn headers_that_lie_end_their_session_and_no_other() {
    let pki = Pki::new();
    let secure = gateway(&pki, "");
    play(async {
        let quic = Quic::new(&pki);
        let mut other = quic.join(secure.addr).await;
        let huge = [&[127], &(1_u64 << 40).to_be_bytes()[..]].concat();
        let just_too_long = [&[0xff], &1_000_001_u64.to_be_bytes()[..]].concat();
        for (bytes, code) in [
            (huge, 1009),
            (just_too_long, 1009),
            ([&[0x7f][..], &[0xff; 8]].concat(), 0),
            (vec![0], 0),
            (vec![0x80, 1], 0),
            // Text that is none.
            (frame(false, &[b'4', 0xff]), 1007),
        ] {
            let mut talk = quic.join(secure.addr).await;
            talk.raw(&bytes).await;
            let (ended, why) = talk.ended().await;
            assert_eq!(ended, code, "{bytes:?}: {why}");
        }
        other.enter("lab").await;
        settles(&secure, OPEN, 1.0).await;
    });
}

#[test]
fn a_packet_that_never_ends_costs_no_more_than_it_may_be_long() {
    let pki = Pki::new();
    let secure = gateway(&pki, "[limits]\nmessage_timeout = \"1s\"");
    play(async {
        let quic = Quic::new(&pki);
        let before = secure.gateway.memory();
        let mut talk = quic.join(secure.addr).await;
        // 16 MB of nothing: each zero is a packet without a byte.
        let mut nothing = vec![0; 16 << 20];
        let _ = talk.send.write_all(&nothing).await;
        talk.ended().await;
        // The longest packet there may be, which stops in the middle.
        let mut talk = quic.join(secure.addr).await;
        nothing.truncate(900_000);
        let header = [&[127], &1_000_000_u64.to_be_bytes()[..]].concat();
        talk.raw(&header).await;
        let _ = talk.send.write_all(&nothing).await;
        talk.ended().await;
        let grown = secure.gateway.memory().saturating_sub(before);
        assert!(grown < 24 << 20, "{grown}");
    });
}

#[test]
fn a_second_stream_is_refused_and_the_first_goes_on() {
    let pki = Pki::new();
    let secure = gateway(&pki, "");
    play(async {
        let mut talk = Quic::new(&pki).join(secure.addr).await;
        for _ in 0..3 {
            let (mut send, mut recv) = soon(talk.session.open_bi()).await.expect("a stream");
            let _ = send.write_all(&frame(false, b"0")).await;
            assert!(soon(recv.read_chunk(9, true)).await.is_err());
            talk.enter("lab").await;
        }
        // A datagram and a stream in one direction are nobody's.
        let mut one_way = soon(talk.session.open_uni()).await.expect("a stream");
        one_way.write_all(&[7; 100]).await.expect("sent");
        let _ = talk.session.send_datagram(vec![1, 2, 3].into());
        talk.enter("lab").await;
        assert_eq!(
            secure
                .gateway
                .metric("sockeye_webtransport_second_streams_total"),
            3.0
        );
    });
}

#[test]
fn resets_end_a_session_at_once() {
    let pki = Pki::new();
    let secure = gateway(&pki, "");
    play(async {
        let quic = Quic::new(&pki);
        for way in 0..4 {
            let mut talk = quic.join(secure.addr).await;
            settles(&secure, OPEN, 1.0).await;
            match way {
                0 => talk.send.reset(7).expect("an open stream"),
                1 => talk.recv.stop(7).expect("an open stream"),
                2 => talk.send.finish().expect("an open stream"),
                _ => talk.session.close(9, b"bye"),
            }
            if way == 1 {
                // It takes nothing more, which shows when there is something.
                talk.say("421[\"join\",\"lab\"]").await;
            }
            settles(&secure, OPEN, 0.0).await;
        }
        settles(&secure, "sockeye_sessions", 0.0).await;
    });
}

/// It has no frame in WebTransport: each member of the room ended its session, until the window of its recovery was over.
#[test]
fn an_empty_attachment_of_a_stranger_ended_all_members() {
    let pki = Pki::new();
    let recovers = "[namespaces.\"/\"]\nclient_joins = true\n[namespaces.\"/\".recovery]\nlevel = \"node\"\n\
        [namespaces.\"/\".events.say]\naction = \"rooms\"\nroom_field = \"room\"";
    for (more, is_told) in [("", false), (recovers, true)] {
        let secure = gateway(&pki, more);
        let mut stranger = SocketIo::connect(secure.gateway.addr);
        let mut other = SocketIo::connect(secure.gateway.addr);
        for client in [&mut stranger, &mut other] {
            client.ask(1, &json!(["join", "lab"]));
        }
        play(async {
            let mut talk = Quic::new(&pki).join(secure.addr).await;
            talk.enter("lab").await;
            let event = "451-[\"say\",{\"room\":\"lab\",\"b\":{\"_placeholder\":true,\"num\":0}}]";
            stranger.send(event);
            stranger.conn.send_binary([]);
            assert!(other.packet_starting("451-[\"say\"").len() > 10);
            assert!(other.conn.frame().payload.is_empty());
            let unfit = secure.gateway.reaches("sockeye_dropped_unfit_total", 1.0);
            assert_eq!(unfit, 1.0);
            stranger.emit(&json!(["say", {"room": "lab", "n": 2}]));
            let mut told = talk.text().await;
            if is_told {
                assert_eq!(told, "42[\"sockeye:gap\",{\"rooms\":[\"lab\"]}]");
                told = talk.text().await;
            }
            assert!(
                told.starts_with("42[\"say\",") && told.contains("\"n\":2"),
                "{told}"
            );
        });
    }
}

#[test]
fn a_client_that_vanishes_is_missed_by_its_heartbeat() {
    let pki = Pki::new();
    let secure = gateway(&pki, "ping_interval = \"400ms\"\nping_timeout = \"300ms\"");
    let quic = play(async {
        let quic = Quic::new(&pki);
        let talk = quic.join(secure.addr).await;
        settles(&secure, OPEN, 1.0).await;
        (quic, talk)
        // Nothing of it runs any more: no packet of QUIC is answered.
    });
    assert!(eventually(PATIENCE, || secure.gateway.metric(OPEN) == 0.0));
    drop(quic);
}

#[test]
fn a_client_that_does_not_read_is_bounded_and_ended() {
    let pki = Pki::new();
    let secure = gateway(&pki, "");
    let mut publisher = SocketIo::connect(secure.gateway.addr);
    publisher.ask(1, &json!(["join", "lab"]));
    play(async {
        let mut talk = Quic::new(&pki).join(secure.addr).await;
        talk.enter("lab").await;
        let before = secure.gateway.memory();
        let text = "x".repeat(60_000);
        for _ in 0..1_000 {
            publisher.ask(2, &json!(["say", {"room": "lab", "text": text}]));
        }
        let ended = || secure.gateway.closes("slow_consumer") == 1.0;
        assert!(eventually(PATIENCE, ended));
        let grown = secure.gateway.memory().saturating_sub(before);
        assert!(grown < 32 << 20, "{grown} for 60 MB");
        // It learns of it when it reads again.
        while talk.hear().await.is_some() {}
        let _ = soon(talk.session.closed()).await;
        settles(&secure, OPEN, 0.0).await;
    });
}

#[test]
fn an_address_opens_so_many_at_once() {
    let pki = Pki::new();
    let secure = gateway(&pki, "");
    play(async {
        let quic = Quic::new(&pki);
        let mut held = Vec::new();
        for _ in 0..64 {
            held.push(quic.handshake(secure.addr).await.expect("QUIC"));
        }
        settles(&secure, "sockeye_webtransport_opening", 64.0).await;
        assert!(quic.handshake(secure.addr).await.is_err());
        settles(&secure, &turned_away("busy"), 1.0).await;
        held.truncate(32);
        settles(&secure, "sockeye_webtransport_opening", 32.0).await;
        quic.join(secure.addr).await.enter("lab").await;
    });
}

#[test]
fn limits_of_an_address_hold_for_its_sessions() {
    let pki = Pki::new();
    let secure = gateway(&pki, "[limits]\nconns_per_address_max = 3");
    play(async {
        let quic = Quic::new(&pki);
        let mut all = Vec::new();
        for _ in 0..3 {
            all.push(quic.join(secure.addr).await);
        }
        let mut more = quic.stream(secure.addr).await;
        more.say("0").await;
        assert_eq!(more.hear().await, None);
        let (code, why) = more.ended().await;
        assert_eq!(code, 1008, "{why}");
        drop(all.pop());
        settles(&secure, OPEN, 2.0).await;
        quic.join(secure.addr).await;
    });
}

#[test]
fn noise_on_the_port_is_no_trouble() {
    let pki = Pki::new();
    let secure = gateway(&pki, SHORT);
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let mut rng = fastrand::Rng::with_seed(7);
    for _ in 0..3_000 {
        let mut bytes = vec![0; rng.usize(1..1_400)];
        rng.fill(&mut bytes);
        if rng.bool() {
            // The beginning of a first packet of QUIC.
            bytes[0] |= 0xc0;
            let version = [0, 0, 0, 1, 8];
            let len = bytes.len().min(6) - 1;
            bytes[1..=len].copy_from_slice(&version[..len]);
        }
        let _ = socket.send_to(&bytes, secure.addr);
    }
    std::thread::sleep(Duration::from_millis(100));
    play(async {
        Quic::new(&pki).join(secure.addr).await.enter("lab").await;
    });
}
