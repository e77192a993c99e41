//! Proxies that end idle connections by a reset, and proxies that ask again: what it does to polling sessions.

use super::{SOON, gateway_behind, settings};
use crate::harness::client::{poll_request, post_request};
use crate::harness::{Gateway, RawConn, eventually};
use crate::tls::pki::{Pki, Secure};
use std::net::SocketAddr;

const ROUNDS: usize = 10;

/// Opens a session, each request on a connection of its own that `end` ends after the answer; whether it lives afterwards.
fn lives(connect: &dyn Fn() -> RawConn, end: fn(RawConn)) -> bool {
    let ask = |request: String| {
        let mut conn = connect();
        conn.send(request);
        let answer = conn.response();
        end(conn);
        answer
    };
    let open = ask(poll_request(""));
    let sid = open
        .body
        .split('"')
        .nth(3)
        .expect("a session id")
        .to_owned();
    assert_eq!(ask(post_request(&sid, "40")).status, 200);
    assert!(ask(poll_request(&sid)).body.starts_with("40{"));
    (0..3).all(|n| {
        let posted = ask(post_request(&sid, &format!("42{n}[\"echo\",{n}]")));
        posted.status == 200 && ask(poll_request(&sid)).body == format!("43{n}[{n}]")
    })
}

/// HAProxy ends the connections that it keeps by a reset: of ten sessions none lived.
#[test]
fn a_reset_after_a_whole_answer_ended_the_session() {
    let gateway = gateway_behind("", "");
    let pki = Pki::new();
    let secure = Secure::new(Gateway::start(&format!(
        "{}{}",
        settings("", ""),
        pki.section("")
    )));
    let (plain, over_tls): (SocketAddr, SocketAddr) = (gateway.addr, secure.addr);
    let ends: [fn(RawConn); 2] = [RawConn::reset, drop];
    for end in ends {
        for _ in 0..ROUNDS {
            assert!(lives(&|| RawConn::connect(plain), end), "over TCP");
            assert!(lives(&|| pki.client().connect(over_tls), end), "over TLS");
        }
    }
}

/// It lost the answer, and the packets in it: the client must hear of that.
#[test]
fn a_proxy_that_asks_again_hid_a_lost_answer() {
    let gateway = gateway_behind("", "");
    let open = RawConn::exchange(gateway.addr, poll_request(""));
    let sid = open
        .body
        .split('"')
        .nth(3)
        .expect("a session id")
        .to_owned();
    let posted = RawConn::exchange(gateway.addr, post_request(&sid, "40"));
    assert_eq!(posted.status, 200);
    let get = poll_request(&sid).replacen(&sid, &format!("{sid}&t=PkZ1a2b"), 1);
    let mut lost = RawConn::connect(gateway.addr);
    lost.send(get.clone());
    assert!(eventually(SOON, || gateway.metric("sockeye_sockets") == 1.0));
    lost.reset();
    let again = RawConn::exchange(gateway.addr, get);
    assert_eq!(again.status, 400, "{again:?}");
    let sessions = gateway.metric_settles("sockeye_sessions", |sessions| sessions == 0.0);
    assert_eq!(sessions, Ok(0.0));
}
