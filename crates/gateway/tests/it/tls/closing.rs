//! Ends: who says goodbye how, and what is left of it.

use super::pki::{Pki, Secure};
use crate::harness::client::SOCKETIO;
use crate::harness::{Ended, PATIENCE, RawConn, SocketIo, eventually};
use std::io::Write;
use std::net::Shutdown;

const GET: &str = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";

fn websocket(pki: &Pki, secure: &Secure) -> SocketIo {
    let conn = pki.client().connect(secure.addr).upgraded(SOCKETIO, "");
    let mut socket = SocketIo::over(conn);
    socket.join_namespace("/", "");
    socket
}

fn settles_at(secure: &Secure, connections: f64) -> bool {
    eventually(PATIENCE, || {
        secure.gateway.metric("sockeye_tls_connections") == connections
    })
}

#[test]
fn a_drain_says_goodbye_on_every_layer() {
    let pki = Pki::new();
    let window = "[server]\ndrain_window = \"200ms\"\n";
    let mut secure = pki.gateway("", window);
    let mut sockets: Vec<_> = (0..5).map(|_| websocket(&pki, &secure)).collect();
    let mut kept_alive = pki.client().connect(secure.addr);
    secure.gateway.terminate();
    for socket in &mut sockets {
        loop {
            let frame = socket.conn.frame();
            if let Some(code) = frame.close_code() {
                assert_eq!(code, 1001);
                break;
            }
        }
        // Answered as a browser would; then close_notify and FIN.
        socket
            .conn
            .send_frame(true, client::OpCode::Close, [3, 233]);
        assert_eq!(socket.conn.ended(PATIENCE), Ended::Cleanly);
    }
    assert_eq!(kept_alive.ended(PATIENCE), Ended::Cleanly);
    drop((sockets, kept_alive));
    let status = secure.gateway.exit_status(PATIENCE).expect("it ends");
    assert_eq!(status.code(), Some(0));
}

#[test]
fn goodbye_and_silence_of_a_peer_are_told_apart() {
    let pki = Pki::new();
    let secure = pki.gateway("", "");
    let mut polite = websocket(&pki, &secure);
    polite.conn.tls().send_close_notify();
    assert_ne!(polite.conn.ended(PATIENCE), Ended::Open);
    assert!(settles_at(&secure, 0.0));
    assert_eq!(secure.errors("truncated"), 0.0);

    let rude = websocket(&pki, &secure);
    rude.conn.half_close();
    assert!(settles_at(&secure, 0.0));
    assert_eq!(secure.counts("truncated", 1.0), Ok(1.0));
    assert_eq!(secure.gateway.closes_reach("transport_close", 2.0), 2.0);
}

#[test]
fn what_was_asked_before_a_goodbye_is_answered() {
    let pki = Pki::new();
    let secure = pki.gateway("", "");
    let mut conn = pki.client().connect(secure.addr);
    // Both leave together, with the first read.
    let handshake = crate::harness::client::poll_request("");
    let mut writer = conn.tls().writer();
    writer.write_all(handshake.as_bytes()).expect("a request");
    conn.tls().send_close_notify();
    assert_eq!(conn.response().status, 200);
    assert_eq!(conn.ended(PATIENCE), Ended::Cleanly);
    assert!(settles_at(&secure, 0.0));
}

#[test]
fn records_that_were_tampered_with_end_the_connection() {
    let pki = Pki::new();
    let secure = pki.gateway("", "");
    let mut socket = websocket(&pki, &secure);
    // An application record that nobody encrypted.
    let forged = [&b"\x17\x03\x03\x00\x20"[..], &[7; 32]].concat();
    socket.conn.send_below_tls(&forged);
    assert_ne!(socket.conn.ended(PATIENCE), Ended::Open);
    assert_eq!(secure.counts("decrypt", 1.0), Ok(1.0));
    assert!(settles_at(&secure, 0.0));
}

#[test]
fn a_hundred_who_come_and_go_leave_nothing() {
    let pki = Pki::new();
    let secure = pki.gateway("", "");
    let client = pki.client();
    for n in 0..100 {
        match n % 4 {
            0 => drop(client.connect(secure.addr)),
            1 => client.connect(secure.addr).reset(),
            2 => drop(RawConn::connect(secure.addr)),
            _ => {
                let mut hello = Vec::new();
                client
                    .begin("localhost")
                    .write_tls(&mut hello)
                    .expect("a hello");
                let mut conn = std::net::TcpStream::connect(secure.addr).expect("connect");
                conn.write_all(&hello).expect("send");
                conn.shutdown(Shutdown::Both).expect("shutdown");
            }
        }
    }
    assert!(settles_at(&secure, 0.0));
    let held = || secure.gateway.metric("sockeye_tls_memory_bytes");
    assert!(eventually(PATIENCE, || held() == 0.0), "{}", held());
    assert_eq!(client.exchange(secure.addr, GET).status, 200);
}

/// Each look at such a connection shut it once more, and the kernel reports that as an event: its shard used a whole core until the
/// client was gone.
#[test]
fn a_client_that_did_not_close_kept_its_shard_busy() {
    let pki = Pki::new();
    let secure = pki.gateway("", "");
    let mut conn = pki.client().connect(secure.addr);
    let request = crate::harness::client::poll_request("");
    let last = request.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    conn.send(last.as_bytes());
    assert_eq!(conn.response().status, 200);
    assert_eq!(conn.ended(PATIENCE), Ended::Cleanly);
    // Our side is open still.
    let turns = || secure.gateway.metric("sockeye_turns_total");
    let before = turns();
    for _ in 0..10 {
        let _ = turns();
    }
    let more = turns() - before;
    assert!(more < 500.0, "{more} turns");
}
