//! Who gets in: versions, names, protocols, tickets, and what happens to those who speak something else or stop half-way.

use super::pki::{Pki, shown};
use crate::harness::{Alone, Ended, PATIENCE, RawConn, eventually};
use rustls::{HandshakeKind, ProtocolVersion};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const GET: &str = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";

#[test]
fn both_versions_are_spoken_and_counted() {
    let pki = Pki::new();
    let secure = pki.gateway("", "");
    for (version, spoken) in [
        (&rustls::version::TLS12, ProtocolVersion::TLSv1_2),
        (&rustls::version::TLS13, ProtocolVersion::TLSv1_3),
    ] {
        let mut conn = pki.client_of(version).connect(secure.addr);
        assert_eq!(conn.tls().protocol_version(), Some(spoken));
        conn.send(GET);
        assert_eq!(conn.response().status, 200);
    }
    assert_eq!(secure.handshakes("full"), 2.0);
    assert_eq!(secure.handshakes("resumed"), 0.0);
}

#[test]
fn the_oldest_version_is_configurable() {
    let pki = Pki::new();
    let secure = pki.gateway("min_version = \"1.3\"", "");
    let old = pki.client_of(&rustls::version::TLS12);
    let error = old
        .try_connect(secure.addr, "localhost")
        .expect_err("refused");
    assert!(error.to_string().contains("ProtocolVersion"), "{error}");
    assert_eq!(secure.errors("version"), 1.0);
    let mut conn = pki.client().connect(secure.addr);
    assert_eq!(
        conn.tls().protocol_version(),
        Some(ProtocolVersion::TLSv1_3)
    );
}

#[test]
fn who_comes_back_resumes_whatever_the_shard() {
    let pki = Pki::new();
    let secure = pki.gateway("", "[server]\nshards = 4\n");
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let client = pki.client_of(version);
        let full = client.exchange(secure.addr, GET);
        assert_eq!(full.status, 200);
        let mut kinds = Vec::new();
        for _ in 0..8 {
            let mut conn = client.connect(secure.addr);
            conn.send(GET);
            // Tickets come behind the handshake: they are read with the answer.
            assert_eq!(conn.response().status, 200);
            kinds.push(conn.tls().handshake_kind());
        }
        assert_eq!(kinds, [Some(HandshakeKind::Resumed); 8], "{version:?}");
    }
    assert_eq!(secure.handshakes("full"), 2.0);
    assert_eq!(secure.handshakes("resumed"), 16.0);
}

/// Attack A13.
#[test]
fn a_name_decides_the_certificate() {
    let pki = Pki::new();
    let other = pki.renew("other", "other.example");
    let (cert, key) = (pki.path("other.pem"), pki.path("other.key"));
    let both = |unknown: &str| {
        let (first, first_key) = (pki.path("tls.pem"), pki.path("tls.key"));
        let config = format!(
            "[tls]\nlisten = [\"127.0.0.1:0\"]\ncert = [{first:?}, {cert:?}]\n\
             key = [{first_key:?}, {key:?}]\nunknown_name = \"{unknown}\"\n"
        );
        super::pki::Secure::new(crate::harness::Gateway::start(&config))
    };
    let client = pki.client_for(&[pki.current(), other.clone()]);
    let lenient = both("default");
    let by_name = |name| client.try_connect(lenient.addr, name);
    assert_eq!(
        shown(&mut by_name("localhost").expect("known")),
        pki.current()
    );
    assert_eq!(shown(&mut by_name("other.example").expect("known")), other);
    let stranger = by_name("stranger.example").expect_err("another certificate");
    assert!(
        stranger.to_string().contains("not valid for name"),
        "{stranger}"
    );

    let strict = both("refuse");
    let stranger = client.try_connect(strict.addr, "stranger.example");
    let stranger = stranger.expect_err("no certificate");
    assert!(stranger.to_string().contains("AccessDenied"), "{stranger}");
    assert_eq!(strict.errors("unknown_name"), 1.0);
    assert!(client.try_connect(strict.addr, "other.example").is_ok());
}

#[test]
fn the_application_protocol_is_http_1() {
    let pki = Pki::new();
    let secure = pki.gateway("", "");
    let client = pki.client();
    let mut both = client.offering(&[b"h2", b"http/1.1"]).connect(secure.addr);
    assert_eq!(both.tls().alpn_protocol(), Some(&b"http/1.1"[..]));
    let mut none = client.connect(secure.addr);
    assert_eq!(none.tls().alpn_protocol(), None);
    let h2 = client.offering(&[b"h2"]);
    let error = h2
        .try_connect(secure.addr, "localhost")
        .expect_err("refused");
    assert!(
        error.to_string().contains("NoApplicationProtocol"),
        "{error}"
    );
    assert_eq!(secure.errors("alpn"), 1.0);
}

/// Attack A13.
#[test]
fn nobody_is_offered_early_data() {
    let pki = Pki::new();
    let secure = pki.gateway("", "");
    let client = pki.client();
    assert_eq!(client.exchange(secure.addr, GET).status, 200);
    let mut again = client.begin("localhost");
    assert!(
        again.early_data().is_none(),
        "a ticket must not allow early data"
    );
}

#[test]
fn plain_http_on_a_tls_port_is_told_so() {
    let pki = Pki::new();
    let secure = pki.gateway("", "");
    let mut conn = RawConn::connect(secure.addr);
    conn.send(GET);
    let response = conn.response();
    assert_eq!(response.status, 400);
    assert!(
        response.body.contains("This port speaks TLS"),
        "{response:?}"
    );
    assert_ne!(conn.ended(PATIENCE), Ended::Open);
    assert_eq!(secure.errors("not_tls"), 1.0);
    assert_eq!(pki.client().exchange(secure.addr, GET).status, 200);
}

/// Attack H30.
#[test]
fn a_tls_hello_on_a_plain_port_gets_400() {
    let pki = Pki::new();
    let secure = pki.gateway("", "");
    let mut hello = Vec::new();
    let mut client = pki.client().begin("localhost");
    client.write_tls(&mut hello).expect("a hello");
    let mut conn = RawConn::connect(secure.gateway.addr);
    conn.send(&hello);
    assert_eq!(conn.response().status, 400);
}

/// Attack H30.
#[test]
fn noise_gets_an_alert_and_the_end() {
    let pki = Pki::new();
    let secure = pki.gateway("", "");
    for noise in [
        &b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\xff"[..],
        b"\x17\x03\x03\x00\x02hi",
        b"\x16\x03\x01\xff\xff\x01",
        b"\x80\x2e\x01\x00\x02",
    ] {
        let mut stream = TcpStream::connect(secure.addr).expect("connect");
        stream.write_all(noise).expect("send");
        stream.set_read_timeout(Some(PATIENCE)).expect("timeout");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        // A fatal alert: content type 21, level 2.
        assert_eq!(answer.first(), Some(&21), "{noise:?} {answer:?}");
        assert_eq!(answer.get(5), Some(&2), "{noise:?} {answer:?}");
    }
    assert_eq!(pki.client().exchange(secure.addr, GET).status, 200);
}

/// Attack A13.
#[test]
fn a_client_that_stops_in_the_handshake_is_closed_in_time() {
    let _alone = Alone::wait();
    let pki = Pki::new();
    let secure = pki.gateway("", "[limits]\nhandshake_timeout = \"500ms\"\n");
    let mut hello = Vec::new();
    let mut client = pki.client().begin("localhost");
    client.write_tls(&mut hello).expect("a hello");
    // Nothing at all, half a hello, a whole hello and nothing more.
    for len in [0, hello.len() / 2, hello.len()] {
        let started = Instant::now();
        let mut conn = RawConn::connect(secure.addr);
        conn.send(&hello[..len]);
        assert_ne!(conn.ended(PATIENCE), Ended::Open, "{len}");
        let took = started.elapsed();
        assert!(took >= Duration::from_millis(400), "{len} {took:?}");
        assert!(took < Duration::from_secs(3), "{len} {took:?}");
    }
    assert_eq!(secure.counts("unfinished", 3.0), Ok(3.0));
    assert!(eventually(PATIENCE, || {
        secure.gateway.metric("sockeye_tls_connections") == 0.0
    }));
}

#[test]
fn a_handshake_byte_by_byte_is_a_handshake() {
    let pki = Pki::new();
    let secure = pki.gateway("", "");
    let mut stream = TcpStream::connect(secure.addr).expect("connect");
    stream.set_nodelay(true).expect("nodelay");
    let mut client = pki.client().begin("localhost");
    let mut out = Vec::new();
    while client.is_handshaking() || client.wants_write() {
        out.clear();
        while client.wants_write() {
            client.write_tls(&mut out).expect("bytes to send");
        }
        for byte in &out {
            stream.write_all(&[*byte]).expect("send");
        }
        if client.is_handshaking() {
            client.read_tls(&mut stream).expect("bytes");
            client.process_new_packets().expect("a sound handshake");
        }
    }
    client
        .writer()
        .write_all(GET.as_bytes())
        .expect("a request");
    let mut answer = [0; 12];
    rustls::Stream::new(&mut client, &mut stream)
        .read_exact(&mut answer)
        .expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 200");
}
