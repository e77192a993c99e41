//! Proxies that end idle connections by a reset, and proxies that ask again: what it does to polling sessions.

use super::{SOON, gateway_behind, settings};
use crate::harness::client::{poll_request, post_request};
use crate::harness::{Gateway, RawConn, Response, eventually};
use crate::tls::pki::{Pki, Secure};
use rustix::process::Signal;

const ROUNDS: usize = 10;
const LAST: &str = "Connection: close\r\n";

/// How a client connects.
type Connect<'a> = &'a dyn Fn() -> RawConn;

/// The request with more header lines.
fn with(more: &str, request: &str) -> String {
    request.replacen("\r\n", &format!("\r\n{more}"), 1)
}

/// A new session in its namespace, by requests that are asked so; its id.
fn opened(ask: &dyn Fn(String) -> Response) -> String {
    let open = ask(poll_request("")).body;
    let sid = open.split('"').nth(3).expect("a session id").to_owned();
    assert_eq!(ask(post_request(&sid, "40")).status, 200);
    assert!(ask(poll_request(&sid)).body.starts_with("40{"));
    sid
}

/// Opens a session, each request on a connection of its own that `end` ends after the answer; whether it lives afterwards.
fn lives(connect: Connect<'_>, more: &str, end: fn(RawConn)) -> bool {
    let ask = |request: String| {
        let mut conn = connect();
        conn.send(with(more, &request));
        let answer = conn.response();
        end(conn);
        answer
    };
    let sid = opened(&ask);
    (0..3).all(|n| {
        let posted = ask(post_request(&sid, &format!("42{n}[\"echo\",{n}]")));
        posted.status == 200 && ask(poll_request(&sid)).body == format!("43{n}[{n}]")
    })
}

/// HAProxy ends the connections that it keeps by a reset: of ten sessions none lived.
#[test]
fn a_reset_after_a_whole_answer_ended_the_session() {
    let (secure, pki) = secure();
    let client = pki.client();
    let ends: [fn(RawConn); 3] = [RawConn::reset, drop, |conn| {
        conn.half_close();
        conn.reset();
    }];
    for (end, more) in ends.into_iter().flat_map(|end| [(end, ""), (end, LAST)]) {
        for _ in 0..ROUNDS {
            let plain: Connect<'_> = &|| RawConn::connect(secure.gateway.addr);
            assert!(lives(plain, more, end), "over TCP {more}");
            let over_tls: Connect<'_> = &|| client.connect(secure.addr);
            assert!(lives(over_tls, more, end), "over TLS {more}");
        }
    }
}

/// A gateway with an address for TCP and one for TLS.
fn secure() -> (Secure, Pki) {
    let pki = Pki::new();
    let config = format!("{}{}", settings("", ""), pki.section(""));
    (Secure::new(Gateway::start(&config)), pki)
}

/// A session whose next poll is to bring this text.
fn owed(connect: Connect<'_>, text: &str) -> String {
    let sid = opened(&|request| asked(connect, request));
    let echo = post_request(&sid, &format!("421[\"echo\",\"{text}\"]"));
    assert_eq!(asked(connect, echo).status, 200);
    sid
}

/// The answer to one request, on a connection of its own.
fn asked(connect: Connect<'_>, request: String) -> Response {
    let mut conn = connect();
    conn.send(request);
    conn.response()
}

/// The session must not go on without what was lost.
#[track_caller]
fn assert_over(gateway: &Gateway, connect: Connect<'_>, sid: &str) {
    let left = gateway.metric_settles("sockeye_sessions", |sessions| sessions == 0.0);
    assert_eq!(left, Ok(0.0));
    assert_eq!(asked(connect, poll_request(sid)).status, 400);
}

/// Attack A25: a client had closed before the gateway answered its poll. Its system refused the answer, which the gateway's had taken
/// whole.
#[test]
fn an_answer_to_a_client_that_had_closed_was_lost_in_silence() {
    let (secure, pki) = secure();
    let (gateway, client) = (&secure.gateway, pki.client());
    let plain: Connect<'_> = &|| RawConn::connect(gateway.addr);
    let tls: Connect<'_> = &|| client.connect(secure.addr);
    // By TLS the end of the last answer is a record of its own, and nobody knows which of both was refused.
    for (connect, more) in [(plain, ""), (plain, LAST), (tls, "")] {
        let sid = owed(connect, "lost");
        let mut poll = connect();
        // It has all that the gateway said so far: with bytes unread its close would be a reset.
        poll.send(post_request(&sid, "6"));
        assert_eq!(poll.response().status, 200);
        gateway.freeze();
        poll.send(with(more, &poll_request(&sid)));
        drop(poll);
        gateway.signal(Signal::CONT);
        assert_over(gateway, connect, &sid);
    }
}

/// Attack A25: the reset comes after the gateway has read the end of the stream. It closed its side at once, and heard of no reset. A
/// client that takes the whole answer behind its own end keeps its session.
#[test]
fn a_reset_behind_the_end_of_the_stream_was_not_heard() {
    let (secure, pki) = secure();
    let (gateway, client) = (&secure.gateway, pki.client());
    let plain: Connect<'_> = &|| RawConn::connect(gateway.addr);
    let tls: Connect<'_> = &|| client.connect(secure.addr);
    for connect in [plain, tls] {
        // The gateway's kernel takes all of it, and the client's a part.
        let text = "p".repeat(600_000);
        let poll = |sid: &str| {
            let mut poll = connect();
            poll.send(poll_request(sid));
            poll.bytes_within(100, SOON).expect("the answer has begun");
            poll.half_close();
            // The gateway reads that end before this request.
            assert_eq!(asked(connect, post_request(sid, "6")).status, 200);
            poll
        };
        let sid = owed(connect, &text);
        poll(&sid).reset();
        assert_over(gateway, connect, &sid);

        let sid = owed(connect, &text);
        assert!(poll(&sid).rest(SOON).contains(&text[..200_000]));
        let left = gateway.metric_settles("sockeye_connections", |conns| conns == 0.0);
        assert_eq!(left, Ok(0.0));
        assert_eq!(asked(connect, post_request(&sid, "1")).status, 200);
    }
}

/// It lost the answer, and the packets in it: the client must hear of that.
#[test]
fn a_proxy_that_asks_again_hid_a_lost_answer() {
    let gateway = gateway_behind("", "");
    let open = RawConn::exchange(gateway.addr, poll_request("")).body;
    let sid = open.split('"').nth(3).expect("a session id").to_owned();
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
