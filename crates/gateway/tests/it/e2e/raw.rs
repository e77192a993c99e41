//! Frames that are not parsed, on the real binary: clients that know no protocol of the gateway, a stock WebSocket library among them.

use crate::backend::Kitchen;
use crate::backend::worker::Worker;
use crate::harness::{Gateway, PATIENCE, RawConn};
use client::{Frame, OpCode};
use std::process::{Command, Stdio};

const CONFIG: &str =
    "profile = \"plain\"\n[server]\nshards = 4\npin = false\n[plain.raw]\npath = \"/raw\"\n";

/// The next frame that is no heartbeat.
fn next(conn: &mut RawConn) -> Frame {
    loop {
        let frame = conn.frame_within(PATIENCE).expect("a frame");
        match frame.opcode {
            OpCode::Ping => conn.send_frame(true, OpCode::Pong, frame.payload),
            _ => return frame,
        }
    }
}

fn hears(conn: &mut RawConn, opcode: OpCode, payload: &[u8]) {
    let frame = next(conn);
    assert_eq!((frame.opcode, &frame.payload[..]), (opcode, payload));
}

/// A program of its own and its clients, written for another server: `ws` of npm, as most Node servers use it. Each client
/// expects what the others send, as it was sent, and insists on a subprotocol.
const PAIR: &str = r#"
import assert from "node:assert/strict";
import { once } from "node:events";
import WebSocket from "ws";

const [url, echo] = process.argv.slice(-2);
const open = async () => {
  const socket = new WebSocket(url, "chat.v7");
  socket.got = [];
  socket.on("message", (data, isBinary) => socket.got.push(isBinary ? data : data.toString()));
  await once(socket, "open");
  assert.equal(socket.protocol, "chat.v7");
  return socket;
};
const until = async (done) => {
  while (!done()) await new Promise((resolve) => setTimeout(resolve, 5));
};
const sockets = [];
for (let n = 0; n < 16; n += 1) sockets.push(await open());
const said = ["plain words", "", '{"type":"join","room":"x"}', "é\u0000\u2028😀", Buffer.from([0, 255, 123]), Buffer.alloc(0), "x".repeat(60_000), "last"];
// A client that joined a moment ago hears what is said from now on: the first word tells that it is there.
const [first, ...others] = sockets;
for (const message of said) first.send(message);
for (const socket of others) {
  await until(() => socket.got.at(-1) === "last");
  assert.deepEqual(socket.got, said);
}
const expected = echo === "true" ? said : [];
await until(() => first.got.length >= expected.length);
assert.deepEqual(first.got, expected);
others[0].send("back");
await until(() => first.got.at(-1) === "back");
for (const socket of sockets) {
  socket.close(1000);
  await once(socket, "close");
}
console.log("done");
"#;

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn a_client_that_was_written_for_another_server_finds_its_frames_as_they_were() {
    let web = concat!(env!("CARGO_MANIFEST_DIR"), "/../../web");
    for (echo, compresses) in [(false, false), (true, true)] {
        let config = format!("{CONFIG}echo = {echo}\n[compression]\nwebsocket = {compresses}\n");
        let gateway = Gateway::start(&config);
        let url = format!("ws://{}/raw?name=ada", gateway.addr);
        let mut node = Command::new("node");
        node.args([
            "--input-type=module",
            "-e",
            PAIR,
            "--",
            &url,
            &echo.to_string(),
        ]);
        let output = node.current_dir(web).stdin(Stdio::null()).output();
        let output = output.expect("run node");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.stdout, b"done\n", "{error}");
        let sent = gateway.reaches(
            "sockeye_protocol_deliveries_total{protocol=\"plain_raw\"}",
            16.0 * 8.0,
        );
        assert!(sent >= 15.0 * 8.0, "{sent}");
    }
}

#[test]
fn a_worker_gets_frames_and_its_events_become_some() {
    let raw = "[plain.raw]\npath = \"/raw\"\nnamespace = \"/\"\naction = \"backend\"\n";
    let kitchen = Kitchen::open(raw);
    let _worker = Worker::attach(kitchen.workers, &crate::backend::KEY.0, "one");
    let mut conns = [(); 2].map(|()| RawConn::websocket(kitchen.gateway.addr, "/raw"));
    for conn in &mut conns {
        let hello = next(conn);
        assert_eq!((hello.opcode, hello.payload.len()), (OpCode::Text, 20));
    }
    let [mut ann, mut bob] = conns;
    ann.send_text("not json");
    bob.send_frame(true, OpCode::Binary, [0, 255]);
    // Of two clients' events no order is promised.
    for conn in [&mut ann, &mut bob] {
        let mut heard = [next(conn), next(conn)].map(|frame| (frame.opcode as u8, frame.payload));
        heard.sort();
        let text = (OpCode::Text as u8, b"not json".to_vec());
        let binary = (OpCode::Binary as u8, vec![0, 255]);
        assert_eq!(heard, [text, binary]);
    }
}

/// As clients expect it that only know the server's name.
#[test]
fn frames_may_be_at_the_root_beside_the_page() {
    let config = "profile = \"chat\"\n[plain.raw]\npath = \"/\"\n";
    let gateway = Gateway::start(config);
    let mut conns = [(); 2].map(|()| RawConn::websocket(gateway.addr, "/"));
    conns[0].send_text("hello");
    hears(&mut conns[1], OpCode::Text, b"hello");
    let page = RawConn::exchange(gateway.addr, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(page.status, 200);
    // The chat's own namespace is another one: nothing of either is heard in the other.
    let mut plain = crate::harness::Plain::connect(gateway.addr);
    conns[0].send_text("again");
    hears(&mut conns[1], OpCode::Text, b"again");
    plain.send(
        &serde_json::json!({ "type": "chat-message", "payload": { "content": "hi" }, "id": 1 }),
    );
    while plain.message()["type"] != "ack" {}
    conns[1].send_text("last");
    hears(&mut conns[0], OpCode::Text, b"last");
}

/// The origin is asked for as everywhere, and what is no WebSocket is refused.
#[test]
fn pages_that_are_not_listed_and_plain_requests_are_refused() {
    let gateway = Gateway::start(&format!(
        "{CONFIG}[socketio]\norigins = [\"https://a.example\"]\n"
    ));
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";
    let request = |origin: &str, upgrade: &str| {
        let head =
            format!("GET /raw HTTP/1.1\r\nHost: localhost\r\nOrigin: {origin}\r\n{upgrade}\r\n");
        RawConn::exchange(gateway.addr, head).status
    };
    assert_eq!(request("https://b.example", upgrade), 403);
    assert_eq!(request("https://a.example", upgrade), 101);
    assert_eq!(request("https://a.example", ""), 426);
}
