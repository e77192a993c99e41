//! TLS of the workers' listener: who gets in, what those hear that do not, and new certificates while it serves.

use super::pki::{Client, Pki, shown};
use crate::harness::{Ended, Gateway, PATIENCE, RawConn, eventually};
use rustix::process::Signal;
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;

/// What an HTTP/2 client says first (RFC 9113 §3.4), with empty settings; the server answers with its own.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const SETTINGS: u8 = 4;

fn section(pki: &Pki, more: &str) -> String {
    let (cert, key) = (pki.path("tls.pem"), pki.path("tls.key"));
    format!("[workers]\nlisten = \"127.0.0.1:0\"\ncert = [{cert:?}]\nkey = [{key:?}]\n{more}\n")
}

fn workers(gateway: &Gateway) -> SocketAddr {
    let log = gateway.log();
    let line = log.iter().find(|line| line.contains("\"listening\""));
    let line: Value = serde_json::from_str(line.expect("a line")).expect("JSON");
    let workers = line["workers"].as_str().expect("an address");
    workers.parse().expect("an address")
}

/// Whether the gateway speaks HTTP/2 with this client.
fn is_served(client: &Client, addr: SocketAddr) -> bool {
    let Ok(mut conn) = client.offering(&[b"h2"]).try_connect(addr, "localhost") else {
        return false;
    };
    assert_eq!(conn.tls().alpn_protocol(), Some(&b"h2"[..]));
    speaks_http2(&mut conn)
}

fn speaks_http2(conn: &mut RawConn) -> bool {
    let head = conn
        .try_send(PREFACE)
        .then(|| conn.bytes_within(9, PATIENCE));
    matches!(head, Some(Ok(head)) if head[3] == SETTINGS)
}

#[test]
fn workers_need_a_certificate_of_the_authority_if_one_is_named() {
    let pki = Pki::new();
    pki.renew("worker", "worker");
    pki.renew("stranger", "stranger");
    let ca = format!("client_ca = {:?}", pki.path("worker.pem"));
    let gateway = Gateway::start(&section(&pki, &ca));
    let addr = workers(&gateway);
    assert!(is_served(&pki.client().identified(&pki, "worker"), addr));
    assert!(!is_served(&pki.client().identified(&pki, "stranger"), addr));
    assert!(!is_served(&pki.client(), addr));
    assert!(gateway.logged("the TLS handshake failed", PATIENCE));
    assert!(gateway.logged("sent no certificates", PATIENCE));
    // Without TLS.
    assert!(!speaks_http2(&mut RawConn::connect(addr)));
}

#[test]
fn a_silent_handshake_keeps_no_worker_waiting() {
    let pki = Pki::new();
    let gateway = Gateway::start(&section(&pki, ""));
    let addr = workers(&gateway);
    let _silent: Vec<RawConn> = (0..40).map(|_| RawConn::connect(addr)).collect();
    assert!(is_served(&pki.client(), addr));
}

#[test]
fn connections_above_the_bound_take_the_place_of_the_silent() {
    let pki = Pki::new();
    let gateway = Gateway::start(&section(&pki, "conns_max = 3"));
    let addr = workers(&gateway);
    let mut silent: Vec<RawConn> = (0..3).map(|_| RawConn::connect(addr)).collect();
    let client = pki.client();
    // The first of the three goes, then the second.
    assert!(is_served(&client, addr) && is_served(&client, addr));
    assert_ne!(silent[0].ended(PATIENCE), Ended::Open);
    // By that, and not because its handshake took too long.
    assert_eq!(silent[2].ended(Duration::from_millis(50)), Ended::Open);
    assert!(gateway.logged("gives its place to another", PATIENCE));
}

#[test]
fn certificates_of_workers_change_while_it_serves() {
    let pki = Pki::new();
    pki.renew("worker", "worker");
    let ca = format!("client_ca = {:?}", pki.path("worker.pem"));
    let gateway = Gateway::start(&section(&pki, &ca));
    let addr = workers(&gateway);
    let old = pki.current();
    let before = pki.client().identified(&pki, "worker");
    assert!(is_served(&before, addr));
    let new = pki.renew("tls", "localhost");
    pki.renew("worker", "worker");
    gateway.signal(Signal::HUP);
    assert!(gateway.logged("\"reloaded\"", PATIENCE));
    let after = pki
        .client_for(&[old, new.clone()])
        .identified(&pki, "worker");
    assert!(eventually(PATIENCE, || is_served(&after, addr)));
    assert_eq!(shown(&mut after.connect(addr)), new);
    assert!(
        !is_served(&before, addr),
        "the old certificate of the worker"
    );
}
