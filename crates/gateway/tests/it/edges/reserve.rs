//! A full node: its reserve is for those that have a session or ask for its health.

use super::SOON;
use crate::harness::client::poll_request;
use crate::harness::{Gateway, RawConn, SocketIo, eventually};
use client::brief::Poller;
use std::net::SocketAddr;

const SETTINGS: &str = "profile = \"socket.io\"\n[server]\nshards = 2\npin = false\n\
    [limits]\nconns_max = 8\nclose_timeout = \"20s\"\n";

/// A node with as many clients as it may have, one of which polls.
fn full() -> (Gateway, Poller, Vec<SocketIo>) {
    let gateway = Gateway::start(SETTINGS);
    let poller = Poller::connect(gateway.addr);
    let clients = (0..7).map(|_| SocketIo::connect(gateway.addr)).collect();
    (gateway, poller, clients)
}

fn is_healthy(addr: SocketAddr) -> bool {
    let mut conn = RawConn::connect(addr);
    conn.send("GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    conn.response().status == 200
}

/// Health checks and requests of a session are served, however many strangers there are.
fn is_served(gateway: &Gateway, poller: &Poller) {
    for n in 0..50 {
        assert!(is_healthy(gateway.addr), "health check {n}");
        assert_eq!(poller.post("3").status, 200, "request {n} of a session");
    }
}

/// Refused clients kept their side open, and with it places of the reserve.
#[test]
fn refused_clients_shut_out_health_checks() {
    let (gateway, poller, _clients) = full();
    let mut refused: Vec<RawConn> = Vec::new();
    for _ in 0..120 {
        let mut conn = RawConn::connect(gateway.addr);
        conn.send(poll_request(""));
        refused.push(conn);
    }
    assert!(eventually(SOON, || gateway.hits("conns") >= 60.0));
    is_served(&gateway, &poller);
    drop(refused);
}

/// Connections that said nothing held the reserve for two seconds each.
#[test]
fn silent_clients_shut_out_health_checks() {
    let (gateway, poller, _clients) = full();
    let silent: Vec<RawConn> = (0..120).map(|_| RawConn::connect(gateway.addr)).collect();
    is_served(&gateway, &poller);
    drop(silent);
}
