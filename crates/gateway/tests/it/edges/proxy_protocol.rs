//! The PROXY protocol, byte by byte: whole, in pieces, wrong, late, missing, and from those who may not speak it.

use super::{
    SOON, connect_from, gateway_behind, gateway_with_two_each, ip, is_one_too_many, join, logged,
    page_client, peers, poll_in, settings,
};
use crate::harness::client::SOCKETIO;
use crate::harness::{Ended, Gateway, Plain, RawConn, SocketIo, eventually};
use std::net::SocketAddr;
use wire::proxy::write_v2;

const REQUIRED: &str = "proxy_protocol = \"required\"";

fn required() -> Gateway {
    gateway_behind("\"127.0.0.1\"", REQUIRED)
}

/// A version 2 header for this client.
fn v2(client: &str, extensions: &[u8]) -> Vec<u8> {
    let to = if ip(client).is_ipv4() {
        "192.0.2.1"
    } else {
        "::1"
    };
    let pair = (
        SocketAddr::new(ip(client), 4_711),
        SocketAddr::new(ip(to), 80),
    );
    let mut bytes = Vec::new();
    write_v2(&mut bytes, Some(pair), extensions);
    bytes
}

fn local() -> Vec<u8> {
    let mut bytes = Vec::new();
    write_v2(&mut bytes, None, b"");
    bytes
}

fn introduced(gateway: &Gateway, header: impl AsRef<[u8]>) -> RawConn {
    let mut conn = RawConn::connect(gateway.addr);
    conn.send(header);
    conn
}

#[test]
fn the_client_is_whom_the_header_names() {
    let gateway = required();
    let v1 = "PROXY TCP4 203.0.113.9 192.0.2.1 56324 443\r\n";
    let v1_6 = "PROXY TCP6 2001:db8::9 ::1 56324 443\r\n";
    // Unknown extensions, one of them of a kind that nobody has thought of.
    let tlv = b"\x01\x00\x02h2\xee\x00\x04\xff\xff\xff\xff";
    let _clients = [
        join(introduced(&gateway, v1), ""),
        join(introduced(&gateway, v1_6), ""),
        join(introduced(&gateway, v2("198.51.100.3", tlv)), ""),
        join(introduced(&gateway, v2("2001:db8::33", b"")), ""),
        join(introduced(&gateway, v2("::ffff:198.51.100.4", b"")), ""),
        // The proxy itself, and one that does not know.
        join(introduced(&gateway, local()), ""),
        join(introduced(&gateway, "PROXY UNKNOWN\r\n"), ""),
    ];
    let expected = [
        "203.0.113.9",
        "2001:db8::9",
        "198.51.100.3",
        "2001:db8::33",
        "198.51.100.4",
        "127.0.0.1",
        "127.0.0.1",
    ];
    assert_eq!(peers(&gateway, 7), expected);
}

#[test]
fn all_transports_and_pages_come_behind_it() {
    let gateway = required();
    for n in 1..=6 {
        let client = format!("203.0.113.{n}");
        // Requests find their session's shard, and their client's address goes with them.
        poll_in(&mut introduced(&gateway, v2(&client, b"")), "");
        assert_eq!(peers(&gateway, n)[n - 1], client);
    }
    let page = introduced(&gateway, "PROXY TCP4 203.0.113.7 192.0.2.1 1 2\r\n");
    assert_eq!(page_client(&gateway, page, ""), "203.0.113.7");
    let mut plain = introduced(&gateway, v2("203.0.113.8", b"")).upgraded("/ws", "");
    plain.send_text(r#"{"type":"join","room":"x","id":7}"#);
    Plain { conn: plain }.expect_type("ack");
    assert_eq!(peers(&gateway, 7)[6], "203.0.113.8");
}

#[test]
fn a_header_may_come_in_pieces_and_with_the_request() {
    // One byte after the other takes more than a second where others compute.
    let patient = settings("\"127.0.0.1\"", REQUIRED).replace("\"1s\"", "\"20s\"");
    let gateway = Gateway::start(&patient);
    for header in [
        b"PROXY TCP4 203.0.113.9 192.0.2.1 56324 443\r\n".to_vec(),
        v2("203.0.113.9", &[7; 40]),
    ] {
        let mut conn = RawConn::connect(gateway.addr);
        for byte in &header {
            conn.send([*byte]);
            std::thread::yield_now();
        }
        assert_eq!(page_client(&gateway, conn, ""), "203.0.113.9");
        // One segment; the last bytes of the header with the request.
        let request = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n";
        for cut in [0, 1, header.len() / 2, header.len() - 1] {
            let mut conn = RawConn::connect(gateway.addr);
            conn.send(&header[..cut]);
            conn.send([&header[cut..], request].concat());
            assert_eq!(conn.response().status, 200, "cut at {cut}");
        }
    }
    let seen = logged(&gateway, "page", "peer");
    assert!(seen.iter().all(|peer| peer == "203.0.113.9"), "{seen:?}");
}

/// Whom the header names is taken for the client, whatever the client itself adds.
#[test]
fn a_client_can_not_add_to_what_the_proxy_said() {
    let gateway = required();
    let spoof = "X-Forwarded-For: 10.6.6.6\r\nForwarded: for=10.6.6.6\r\n";
    let _client = join(introduced(&gateway, v2("203.0.113.9", b"")), spoof);
    assert_eq!(peers(&gateway, 1), ["203.0.113.9"]);
    // A second header is no header but the client's words.
    let mut twice = introduced(&gateway, v2("203.0.113.9", b""));
    twice.send("PROXY TCP4 10.6.6.6 192.0.2.1 1 2\r\nGET /health HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(twice.response().status, 400);
}

/// Attack A12: from anybody else the header is no header.
#[test]
fn nobody_else_may_speak_it() {
    for mode in ["required", "optional", "off"] {
        let gateway = gateway_behind("\"127.0.0.1\"", &format!("proxy_protocol = {mode:?}"));
        let mut text = connect_from("127.0.0.2", gateway.addr);
        text.send("PROXY TCP4 10.6.6.6 192.0.2.1 1 2\r\nGET /health HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(text.response().status, 400, "{mode}");
        assert_ne!(text.ended(SOON), Ended::Open, "{mode}");
        for header in [v2("10.6.6.6", b""), local()] {
            let mut binary = connect_from("127.0.0.2", gateway.addr);
            binary.send([&header[..], b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"].concat());
            if let Ok(answer) = binary.response_within(SOON) {
                assert_eq!(answer.status, 400, "{mode}");
            }
            assert_ne!(binary.ended(SOON), Ended::Open, "{mode}");
        }
        // And need not.
        let _client = join(connect_from("127.0.0.2", gateway.addr), "");
        assert_eq!(peers(&gateway, 1), ["127.0.0.2"], "{mode}");
        assert_eq!(logged(&gateway, "page", "peer"), [""; 0], "{mode}");
    }
}

#[test]
fn without_the_protocol_a_trusted_proxys_header_is_none_either() {
    let gateway = gateway_behind("\"127.0.0.1\"", "");
    let mut conn = introduced(&gateway, "PROXY TCP4 10.6.6.6 192.0.2.1 1 2\r\n");
    conn.send("GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(conn.response().status, 400);
}

#[test]
fn a_missing_header_is_named_and_a_broken_one_ends_the_connection() {
    let gateway = required();
    let mut conn = RawConn::connect(gateway.addr);
    conn.send("GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
    let answer = conn.response();
    assert_eq!(answer.status, 400);
    assert_eq!(
        answer.body,
        "A PROXY protocol header must come before requests"
    );
    assert_ne!(conn.ended(SOON), Ended::Open);

    let mut too_long = local();
    too_long[14..16].copy_from_slice(&[0xff, 0xff]);
    let mut short = v2("203.0.113.9", b"");
    short[15] = 11;
    let mut version = local();
    version[12] = 0x30;
    let mut command = local();
    command[12] = 0x2f;
    for header in [
        b"PROXY TCP4 203.0.113.9 192.0.2.1 1\r\n".to_vec(),
        b"PROXY TCP4 999.0.113.9 192.0.2.1 1 2\r\n".to_vec(),
        [b"PROXY TCP4 ", &[b'1'; 200][..]].concat(),
        too_long,
        short,
        version,
        command,
    ] {
        let mut conn = introduced(&gateway, &header);
        assert_ne!(conn.ended(SOON), Ended::Open, "{header:?}");
    }
    assert!(gateway.logged("protocol_error", SOON));
    let _others = join(introduced(&gateway, local()), "");
}

#[test]
fn a_header_has_no_longer_than_a_handshake() {
    let gateway = required();
    let header = v2("203.0.113.9", b"");
    // Nothing, the first byte, all but the last one; and one byte now and then.
    let mut silent = [0, 1, header.len() - 1].map(|len| introduced(&gateway, &header[..len]));
    let mut slow = RawConn::connect(gateway.addr);
    let mut sent = 0;
    while sent < header.len() && slow.try_send([header[sent]]) && slow.is_quiet(SOON / 25) {
        sent += 1;
    }
    assert!(
        sent < header.len(),
        "a header in 28 pieces took its time and was taken"
    );
    for conn in &mut silent {
        assert_ne!(conn.ended(SOON), Ended::Open);
    }
    let mut cut = introduced(&gateway, &header[..20]);
    cut.half_close();
    assert_ne!(cut.ended(SOON), Ended::Open);
    drop((silent, slow));
    assert_eq!(
        gateway.metric_settles("sockeye_connections", |open| open == 0.0),
        Ok(0.0)
    );
}

#[test]
fn optional_takes_both() {
    let gateway = gateway_behind("\"127.0.0.1\"", "proxy_protocol = \"optional\"");
    let _with = join(introduced(&gateway, v2("203.0.113.9", b"")), "");
    let _without = SocketIo::connect(gateway.addr);
    let mut begun_alike = RawConn::connect(gateway.addr);
    begun_alike.send("P");
    assert!(begun_alike.is_quiet(SOON / 50));
    begun_alike.send("OST /health HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(begun_alike.response().status, 405);
    assert_eq!(peers(&gateway, 2), ["203.0.113.9", "127.0.0.1"]);
}

/// A proxy named by a proxy: what the first one wrote into the request counts.
#[test]
fn a_header_may_name_another_trusted_proxy() {
    let gateway = gateway_behind("\"127.0.0.1\", \"10.0.0.0/8\"", REQUIRED);
    let conn = introduced(&gateway, v2("10.0.0.7", b""));
    let _client = join(conn, "X-Forwarded-For: 10.6.6.6, 203.0.113.9, 10.0.0.8\r\n");
    assert_eq!(peers(&gateway, 1), ["203.0.113.9"]);
}

#[test]
fn limits_are_the_clients_own() {
    let gateway = gateway_with_two_each(REQUIRED);
    let third = || introduced(&gateway, v2("203.0.113.9", b"")).upgraded(SOCKETIO, "");
    let two = [(); 2].map(|()| join(introduced(&gateway, v2("203.0.113.9", b"")), ""));
    assert!(is_one_too_many(third()));
    let _other = join(introduced(&gateway, v2("203.0.113.10", b"")), "");
    let _own = [(); 3].map(|()| join(introduced(&gateway, local()), ""));
    // A flood of one client is dropped unheard, whatever shard it comes to, and the others stay.
    let mut flood: Vec<_> = (0..40)
        .map(|_| introduced(&gateway, v2("203.0.113.9", b"")))
        .collect();
    let dropped = || gateway.hits("conns_per_address") > 0.0;
    assert!(eventually(SOON, dropped));
    let last = flood.last_mut().expect("forty");
    assert_ne!(last.ended(SOON), Ended::Open);
    drop((two, flood));
    // As long as the gateway counts them, a newcomer's connection may be dropped unheard, too.
    let settled = gateway.metric_settles("sockeye_connections", |open| open <= 4.0);
    assert!(settled.is_ok(), "{settled:?}");
    assert!(eventually(SOON, || !is_one_too_many(third())));
}
