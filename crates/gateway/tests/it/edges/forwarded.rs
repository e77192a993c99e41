//! `X-Forwarded-For` and `Forwarded`: from whom they count, and how much of them.

use super::{
    SOON, connect_from, gateway_behind, gateway_with_two_each, is_one_too_many, join, page_client,
    peers, poll_in,
};
use crate::harness::client::SOCKETIO;
use crate::harness::{Gateway, RawConn, eventually};

fn trusting() -> Gateway {
    gateway_behind("\"127.0.0.1\", \"10.0.0.0/8\", \"fd00::/8\"", "")
}

fn proxy(gateway: &Gateway) -> RawConn {
    RawConn::connect(gateway.addr)
}

#[test]
fn the_rightmost_address_that_is_no_proxy_is_the_client() {
    let gateway = trusting();
    let cases = [
        ("X-Forwarded-For: 203.0.113.9\r\n", "203.0.113.9"),
        (
            "X-Forwarded-For: 127.0.0.1, 10.6.6.6, 203.0.113.9\r\n",
            "203.0.113.9",
        ),
        (
            "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For: 203.0.113.9, 10.1.1.1\r\n",
            "203.0.113.9",
        ),
        (
            "x-forwarded-for: [2001:db8::9]:4711, fd00::1\r\n",
            "2001:db8::9",
        ),
        ("X-Forwarded-For: 203.0.113.9:80\r\n", "203.0.113.9"),
        ("X-Forwarded-For: unknown\r\n", "127.0.0.1"),
        ("X-Forwarded-For: 203.0.113.9, _hidden\r\n", "127.0.0.1"),
        ("X-Forwarded-For: <script>, 10.0.0.2\r\n", "10.0.0.2"),
        ("Forwarded: for=203.0.113.9\r\n", "127.0.0.1"),
        ("", "127.0.0.1"),
    ];
    for (n, (headers, expected)) in cases.iter().enumerate() {
        let _client = join(proxy(&gateway), headers);
        assert_eq!(peers(&gateway, n + 1)[n], *expected, "{headers}");
        assert_eq!(page_client(&gateway, proxy(&gateway), headers), *expected);
    }
}

#[test]
fn rfc_7239_is_read_where_it_is_what_proxies_write() {
    let gateway = gateway_behind(
        "\"127.0.0.1\", \"10.0.0.0/8\"",
        "client_header = \"forwarded\"",
    );
    let cases = [
        (
            "Forwarded: for=203.0.113.9;proto=https;by=10.0.0.1\r\n",
            "203.0.113.9",
        ),
        (
            "Forwarded: for=\"[2001:db8:cafe::17]:4711\", for=10.0.0.2\r\n",
            "2001:db8:cafe::17",
        ),
        ("Forwarded: for=\"a, for=203.0.113.9\r\n", "203.0.113.9"),
        ("Forwarded: for=_secret\r\n", "127.0.0.1"),
        ("X-Forwarded-For: 203.0.113.9\r\n", "127.0.0.1"),
    ];
    for (n, (headers, expected)) in cases.iter().enumerate() {
        let _client = join(proxy(&gateway), headers);
        assert_eq!(peers(&gateway, n + 1)[n], *expected, "{headers}");
    }
}

/// Attack A12.
#[test]
fn nobody_else_is_believed() {
    let gateway = trusting();
    let spoof = "X-Forwarded-For: 10.6.6.6\r\nForwarded: for=10.6.6.6\r\nX-Real-IP: 10.6.6.6\r\n";
    let _client = join(connect_from("127.0.0.2", gateway.addr), spoof);
    poll_in(&mut connect_from("127.0.0.3", gateway.addr), spoof);
    assert_eq!(peers(&gateway, 2), ["127.0.0.2", "127.0.0.3"]);
    let page = connect_from("127.0.0.4", gateway.addr);
    assert_eq!(page_client(&gateway, page, spoof), "127.0.0.4");

    let nobody = gateway_behind("", "");
    let _client = join(proxy(&nobody), spoof);
    assert_eq!(peers(&nobody, 1), ["127.0.0.1"]);
    let none = gateway_behind("\"127.0.0.1\"", "client_header = \"none\"");
    let _client = join(proxy(&none), spoof);
    assert_eq!(peers(&none, 1), ["127.0.0.1"]);
}

/// A proxy keeps its connections and sends requests of many clients over each.
#[test]
fn each_request_of_a_connection_has_its_own_client() {
    let gateway = trusting();
    let mut conn = proxy(&gateway);
    for n in 1..=8 {
        let client = format!("203.0.113.{n}");
        poll_in(&mut conn, &format!("X-Forwarded-For: {client}\r\n"));
        // Sessions on the other shard take the connection with them, and it stays a proxy's.
        assert_eq!(peers(&gateway, n)[n - 1], client);
    }
    poll_in(&mut conn, "");
    assert_eq!(peers(&gateway, 9)[8], "127.0.0.1");
    assert_eq!(
        page_client(&gateway, conn, "X-Forwarded-For: 203.0.113.66\r\n"),
        "203.0.113.66"
    );
}

/// The bound on connections per address counts clients, not the proxy that makes all connections.
#[test]
fn limits_are_the_clients_own() {
    let gateway = gateway_with_two_each("");
    let of = |client: u8| format!("X-Forwarded-For: 203.0.113.{client}\r\n");
    let third = || RawConn::websocket_with(gateway.addr, SOCKETIO, &of(9));
    let two = [9, 9].map(|client| join(proxy(&gateway), &of(client)));
    assert!(is_one_too_many(third()));
    // Others get in, and so does the proxy; its kept connections count for whose request they carry.
    let _others = [10, 10, 11].map(|client| join(proxy(&gateway), &of(client)));
    let _own = ["", "", ""].map(|none| join(proxy(&gateway), none));
    let mut kept = [(); 4].map(|()| proxy(&gateway));
    for conn in &mut kept {
        poll_in(conn, "");
        poll_in(conn, &of(13));
        poll_in(conn, &of(14));
        poll_in(conn, "");
    }
    drop(two);
    assert!(eventually(SOON, || !is_one_too_many(third())));
}

#[test]
fn a_thousand_hops_are_a_long_header_and_no_more() {
    let gateway = trusting();
    let hops = "10.1.1.1,".repeat(1_000);
    let near = format!("X-Forwarded-For: {hops}203.0.113.9\r\n");
    let _near = join(proxy(&gateway), &near);
    let far = format!(
        "X-Forwarded-For: 203.0.113.9{}\r\n",
        ",10.1.1.1".repeat(1_000)
    );
    let _far = join(proxy(&gateway), &far);
    assert_eq!(peers(&gateway, 2), ["203.0.113.9", "10.1.1.1"]);
    let mut conn = proxy(&gateway);
    conn.try_send(format!(
        "GET /health HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {}\r\n\r\n",
        hops.repeat(3)
    ));
    assert_eq!(conn.response().status, 431);
}

/// All its clients had its address, for limits and logs, and nothing said so.
#[test]
fn a_proxy_that_nobody_named_went_unnoticed() {
    for (config, wanted) in [
        (
            "[server]\ndrain_window = \"0s\"\n[log]\nconnections = false\n",
            1,
        ),
        (
            "[server]\ndrain_window = \"0s\"\ntrusted_proxies = [\"127.0.0.0/8\"]\n",
            0,
        ),
        (
            "[server]\ndrain_window = \"0s\"\nclient_header = \"none\"\n",
            0,
        ),
    ] {
        let gateway = Gateway::start_with(config, &["--shards", "1"]);
        for source in ["127.0.0.1", "127.0.0.2", "127.0.0.1"] {
            let headers = "X-Forwarded-For: 203.0.113.9\r\n";
            poll_in(&mut connect_from(source, gateway.addr), headers);
            poll_in(&mut connect_from(source, gateway.addr), "");
        }
        gateway.terminate();
        assert!(gateway.logged("\"stopped\"", SOON * 5));
        let log = gateway.log();
        let told = log
            .iter()
            .filter(|line| line.contains("server.trusted_proxies"));
        let told: Vec<_> = told.collect();
        assert_eq!(told.len(), wanted, "{config}{told:?}");
        assert!(
            told.iter()
                .all(|line| line.contains("\"peer\":\"127.0.0.1\"")),
            "{told:?}"
        );
    }
}
