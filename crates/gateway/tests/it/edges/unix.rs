//! Unix sockets: the same service as on TCP, the files they leave and do not leave.

use super::{SOON, join, page_client, peers, poll_in, settings};
use crate::harness::client::post_request;
use crate::harness::{Gateway, Plain, RawConn, SocketIo};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

fn connect(path: &Path) -> RawConn {
    RawConn::over(UnixStream::connect(path).expect("connect to the Unix socket"))
}

/// A gateway that listens on TCP and on these Unix sockets of a folder.
fn listening(folder: &Path, names: &[&str], trusted: &str, more: &str) -> Gateway {
    let places: Vec<_> = names
        .iter()
        .map(|name| format!("unix:{}", folder.join(name).display()))
        .collect();
    let flags: Vec<_> = places
        .iter()
        .flat_map(|place| ["--listen", place])
        .collect();
    Gateway::start_with(&settings(trusted, more), &flags)
}

#[test]
fn every_transport_is_served_on_every_shard() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let gateway = listening(folder.path(), &["a.sock", "b.sock"], "", "");
    assert!(gateway.logged(
        &format!("unix:{}", folder.path().join("b.sock").display()),
        SOON
    ));
    let mut clients: Vec<_> = (0..8)
        .map(|n| {
            join(
                connect(&folder.path().join(["a.sock", "b.sock"][n % 2])),
                "",
            )
        })
        .collect();
    // Members of one room are on both shards, and on TCP: each hears all others.
    clients.push(SocketIo::connect(gateway.addr));
    for client in &mut clients {
        client.ask(2, &json!(["join", "mixed"]));
    }
    clients[0].emit(&json!(["news", 1]));
    for client in &mut clients[1..] {
        assert_eq!(client.expect("news"), [json!(1)]);
    }
    for _ in 0..4 {
        let socket = folder.path().join("a.sock");
        let sid = poll_in(&mut connect(&socket), "");
        // Each connection comes to another shard than the one before.
        for _ in 0..2 {
            let mut conn = connect(&socket);
            conn.send(post_request(&sid, "6"));
            assert_eq!(conn.response().status, 200);
        }
    }
    let mut plain = connect(&folder.path().join("b.sock")).upgraded("/ws", "");
    plain.send_text(r#"{"type":"join","room":"mixed","id":7}"#);
    Plain { conn: plain }.expect_type("ack");
    let peers = peers(&gateway, 14);
    assert!(peers.iter().all(|peer| peer == "127.0.0.1"), "{peers:?}");
    let moved = gateway.metric_settles("sockeye_connections_moved_total", |moved| moved >= 4.0);
    assert!(
        moved.is_ok(),
        "{moved:?} connections moved: are all on one shard?"
    );
}

#[test]
fn pages_are_served_over_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let gateway = listening(folder.path(), &["s.sock"], "", "");
    for _ in 0..4 {
        let conn = connect(&folder.path().join("s.sock"));
        assert_eq!(page_client(&gateway, conn, ""), "127.0.0.1");
    }
}

#[test]
fn a_proxy_behind_it_is_believed_when_loopback_is() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let socket = folder.path().join("s.sock");
    let gateway = listening(
        folder.path(),
        &["s.sock"],
        "\"127.0.0.1\"",
        "proxy_protocol = \"optional\"",
    );
    let _named = join(connect(&socket), "X-Forwarded-For: 203.0.113.9\r\n");
    let mut conn = connect(&socket);
    conn.send("PROXY TCP4 192.0.2.77 192.0.2.1 5 80\r\n");
    let _told = join(conn, "");
    assert_eq!(peers(&gateway, 2), ["203.0.113.9", "192.0.2.77"]);
}

#[test]
fn the_file_has_its_mode_and_goes_with_the_process() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let socket = folder.path().join("s.sock");
    let mut gateway = listening(
        folder.path(),
        &["s.sock"],
        "",
        "unix_mode = \"0606\"\ndrain_window = \"0s\"",
    );
    let mode = std::fs::metadata(&socket)
        .expect("the file")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o606);
    let mut client = join(connect(&socket), "");
    gateway.terminate();
    client.packet_starting("42[\"SERVER_SHUTDOWN\"");
    assert_eq!(client.conn.close_code(SOON), 1001);
    drop(client);
    let status = gateway.exit_status(SOON).expect("an end");
    assert!(status.success() && !socket.exists());
}

#[test]
fn a_dead_process_does_not_keep_its_place_and_a_living_one_does() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let socket = folder.path().join("s.sock");
    // What a process that was killed leaves behind.
    drop(UnixListener::bind(&socket).expect("bind"));
    assert!(socket.exists() && UnixStream::connect(&socket).is_err());
    let heir = listening(folder.path(), &["s.sock"], "", "");
    let mut client = join(connect(&socket), "");
    let config = folder.path().join("second.toml");
    std::fs::write(&config, settings("", "")).expect("write");
    let second = std::process::Command::new(env!("CARGO_BIN_EXE_sockeye"))
        .args([
            "--listen",
            &format!("unix:{}", socket.display()),
            "--admin",
            "off",
            "--config",
        ])
        .arg(&config)
        .output()
        .expect("run a second gateway");
    assert_eq!(second.status.code(), Some(2), "{second:?}");
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(said.contains("another process listens there"), "{said}");
    // After SIGTERM it has its place while it drains.
    let next = format!(
        "or a gateway that still drains: `ss -lxp src {}` says which. Wait until it has ended, ",
        socket.display()
    );
    assert!(said.contains(&next), "{said}");
    assert_eq!(client.ask(3, &json!(["echo", "here"])), json!(["here"]));
    drop(connect(&socket));
    drop(heir);
}
