//! The edges of the gateway: Unix sockets, the PROXY protocol, forwarding headers, origins; and real proxies in front of the
//! real binary. The gateway's log says which address a client is taken for.

mod forwarded;
pub mod haproxy;
pub mod nginx;
mod origins;
mod proxy_protocol;
mod reserve;
mod resets;
pub mod server;
mod unix;

use crate::harness::client::{poll_request, post_request};
use crate::harness::{Gateway, RawConn, SocketIo, eventually};
use client::OpCode;
use rustix::net::{AddressFamily, SocketType};
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr, SocketAddrV4};
use std::time::Duration;

/// Something that takes a turn or two, on a machine that is busy with other tests.
const SOON: Duration = Duration::from_secs(5);

/// A gateway that believes this list of proxies; `more` are lines of `[server]`.
fn gateway_behind(trusted: &str, more: &str) -> Gateway {
    Gateway::start(&settings(trusted, more))
}

fn settings(trusted: &str, more: &str) -> String {
    format!(
        r#"
profile = "socket.io"

[server]
shards = 2
pin = false
trusted_proxies = [{trusted}]
{more}

[log]
level = "info,control=debug"

[limits]
handshake_timeout = "1s"

[namespaces."/".events.echo]
action = "reply"
"#
    )
}

/// The same where each address may have two connections.
fn gateway_with_two_each(more: &str) -> Gateway {
    let two = "[limits]\nconns_per_address_max = 2";
    Gateway::start(&settings("\"127.0.0.1\"", more).replace("[limits]", two))
}

/// Whether a third connection, made so, is one too many for its client.
fn is_one_too_many(mut conn: RawConn) -> bool {
    let frame = conn.frame();
    frame.opcode == OpCode::Close && frame.close_code() == Some(1008)
}

/// A connection whose client has this address of loopback.
fn connect_from(source: &str, to: SocketAddr) -> RawConn {
    let source = SocketAddrV4::new(source.parse().expect(source), 0);
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None);
    let socket = socket.expect("a socket");
    rustix::net::bind(&socket, &source).expect("bind the source address");
    rustix::net::connect(&socket, &to).expect("connect");
    RawConn::over(socket)
}

/// Values of a field in the log's lines with this message.
fn logged(gateway: &Gateway, message: &str, field: &str) -> Vec<String> {
    let lines = gateway.log();
    let lines = lines
        .iter()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines
        .filter(|line| line["message"] == message)
        .map(|line| line[field].as_str().unwrap_or_default().to_owned())
        .collect()
}

/// Addresses of the clients that connected so far, once there are this many.
#[track_caller]
fn peers(gateway: &Gateway, count: usize) -> Vec<String> {
    let mut peers = Vec::new();
    let complete = eventually(SOON, || {
        peers = logged(gateway, "connected", "peer");
        peers.len() >= count
    });
    assert!(complete, "{count} clients expected: {peers:?}");
    peers
}

/// A Socket.IO client over this connection's WebSocket, and that it is served.
fn join(conn: RawConn, headers: &str) -> SocketIo {
    let conn = conn.upgraded(crate::harness::client::SOCKETIO, headers);
    let mut client = SocketIo::over(conn);
    client.join_namespace("/", "");
    assert_eq!(client.ask(1, &json!(["echo", "hi"])), json!(["hi"]));
    client
}

/// A session by long-polling, all of it on this connection; its id.
fn poll_in(conn: &mut RawConn, headers: &str) -> String {
    let with = |request: String| request.replacen("\r\n", &format!("\r\n{headers}"), 1);
    conn.send(with(poll_request("")));
    let answer = conn.response();
    assert_eq!(answer.status, 200, "{answer:?}");
    let open: Value = serde_json::from_str(&answer.body[1..]).expect("an open packet");
    let sid = open["sid"].as_str().expect("a session id").to_owned();
    conn.send(with(post_request(&sid, "40")));
    assert_eq!(conn.response().status, 200);
    conn.send(with(poll_request(&sid)));
    let answer = conn.response();
    assert!(answer.body.starts_with("40{"), "{answer:?}");
    sid
}

/// `GET /health` on this connection; what the gateway logs as its client then.
#[track_caller]
fn page_client(gateway: &Gateway, mut conn: RawConn, headers: &str) -> String {
    let before = logged(gateway, "page", "peer").len();
    conn.send(format!(
        "GET /health HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"
    ));
    let answer = conn.response();
    assert_eq!(answer.status, 200, "{answer:?}");
    let mut seen = Vec::new();
    let found = eventually(SOON, || {
        seen = logged(gateway, "page", "peer");
        seen.len() > before
    });
    assert!(found, "the page is not in the log");
    seen.remove(before)
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect(text)
}
