//! A full node: its reserve is for those that have a session or ask for its health.

use super::SOON;
use crate::backend::KEY;
use crate::harness::client::{SOCKETIO, poll_request};
use crate::harness::{Gateway, RawConn, SocketIo, eventually};
use client::brief::Poller;
use client::conn::upgrade_request;
use serde_json::Value;
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

/// Descriptors that the process may have.
const DESCRIPTORS: u32 = 600;

/// A node with a port for workers, and the addresses of its other ports.
fn with_other_ports() -> (Gateway, [SocketAddr; 2]) {
    let config = format!(
        "profile = \"socket.io\"\n[server]\nshards = 2\npin = false\n[workers]\nlisten = \"127.0.0.1:0\"\n\
         [namespaces.\"/kitchen\"]\nbackend = \"kitchen\"\n[backends.kitchen]\napi_keys = [{:?}]\n",
        KEY.1
    );
    let gateway = Gateway::start_limited(&config, DESCRIPTORS);
    let log = gateway.log();
    let line = log.iter().find(|line| line.contains("\"listening\""));
    let line: Value = serde_json::from_str(line.expect("a line")).expect("JSON");
    let workers = line["workers"].as_str().expect("an address");
    let others = [gateway.admin, workers.parse().expect("an address")];
    (gateway, others)
}

fn silent(addrs: [SocketAddr; 2]) -> Vec<RawConn> {
    let addrs = addrs.into_iter().cycle();
    addrs.take(600).map(RawConn::connect).collect()
}

/// Clients until the node takes no more.
fn as_many_as_there_is_room_for(addr: SocketAddr) -> Vec<RawConn> {
    let clients = (0..DESCRIPTORS).map(|_| {
        let mut conn = RawConn::connect(addr);
        // One that is refused may be closed already.
        conn.try_send(upgrade_request(SOCKETIO, ""));
        conn
    });
    let mut clients: Vec<RawConn> = clients.collect();
    clients.retain_mut(|conn| {
        let answer = conn.response_within(SOON);
        answer.is_ok_and(|answer| answer.status == 101)
    });
    clients
}

/// Each port had a count of its own, and together they took all descriptors: nobody was answered anywhere.
#[test]
fn silent_strangers_at_other_ports_took_the_descriptors_of_clients() {
    for strangers_first in [true, false] {
        let (gateway, others) = with_other_ports();
        let poller = Poller::connect(gateway.addr);
        let early = strangers_first.then(|| silent(others));
        let clients = as_many_as_there_is_room_for(gateway.addr);
        let late = (!strangers_first).then(|| silent(others));
        assert!(clients.len() >= 300, "{} clients", clients.len());
        is_served(&gateway, &poller);
        assert!(is_healthy(gateway.admin));
        assert_eq!(gateway.metric("sockeye_accept_pauses_total"), 0.0);
        let held = gateway.descriptors();
        assert!(held < DESCRIPTORS as usize, "{held}");
        drop((early, late));
    }
}
