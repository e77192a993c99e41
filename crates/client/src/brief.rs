//! Well-behaved clients in a few lines: Socket.IO over WebSocket, Engine.IO polling, plain protocol.

use crate::conn::{Ended, RawConn, Response};
use crate::{Frame, OpCode, PATIENCE};
use serde_json::Value;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Target of a Socket.IO WebSocket.
pub const SOCKETIO: &str = "/socket.io/?EIO=4&transport=websocket";
/// Target of the plain protocol.
pub const PLAIN: &str = "/ws";

/// A Socket.IO client over WebSocket. Answers heartbeats whenever it reads.
#[derive(Debug)]
pub struct SocketIo {
    pub conn: RawConn,
    /// The open packet.
    pub open: Value,
    /// Socket id in the namespace that was connected last.
    pub sid: String,
}

impl SocketIo {
    /// An Engine.IO session without any namespace yet.
    pub fn open(addr: SocketAddr) -> SocketIo {
        SocketIo::over(RawConn::websocket(addr, SOCKETIO))
    }

    /// The same on a WebSocket that was opened before.
    pub fn over(mut conn: RawConn) -> SocketIo {
        let open = conn.frame();
        let open = open.text().strip_prefix('0').expect("an open packet");
        let open = serde_json::from_str(open).expect("JSON in the open packet");
        SocketIo {
            conn,
            open,
            sid: String::new(),
        }
    }

    /// A client in the main namespace.
    pub fn connect(addr: SocketAddr) -> SocketIo {
        let mut client = SocketIo::open(addr);
        client.join_namespace("/", "");
        client
    }

    /// Connects to a namespace with this JSON (or none) as auth; returns the socket id.
    pub fn join_namespace(&mut self, namespace: &str, auth: &str) -> &str {
        let prefix = prefix(namespace);
        self.send(&format!("40{prefix}{auth}"));
        let reply = self.packet_starting(&format!("40{prefix}{{"));
        let data: Value = serde_json::from_str(&reply[2 + prefix.len()..]).expect("JSON");
        self.sid = data["sid"].as_str().expect("a socket id").to_owned();
        &self.sid
    }

    /// Sends one Engine.IO packet as text.
    pub fn send(&mut self, packet: &str) {
        self.conn.send_text(packet);
    }

    /// Emits in the main namespace; `event` is the array: name and arguments.
    pub fn emit(&mut self, event: &Value) {
        self.send(&format!("42{event}"));
    }

    /// Emits and waits for the acknowledgement's arguments.
    pub fn ask(&mut self, id: u64, event: &Value) -> Value {
        self.send(&format!("42{id}{event}"));
        let prefix = format!("43{id}[");
        let reply = self.packet_starting(&prefix);
        serde_json::from_str(&reply[prefix.len() - 1..]).expect("JSON in the ack")
    }

    /// The next packet that is not a heartbeat.
    pub fn packet(&mut self) -> String {
        self.packet_within(PATIENCE).expect("a packet")
    }

    pub fn packet_within(&mut self, within: Duration) -> Result<String, Ended> {
        let deadline = Instant::now() + within;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let frame = self.conn.frame_within(left)?;
            match frame.opcode {
                OpCode::Text if frame.payload == b"2" => self.send("3"),
                OpCode::Text => return Ok(frame.text().to_owned()),
                OpCode::Close => panic!("closed by the gateway: {:?}", frame.close_code()),
                _ => panic!("unexpected {frame:?}"),
            }
        }
    }

    /// The next packet that begins so; others are skipped.
    pub fn packet_starting(&mut self, prefix: &str) -> String {
        loop {
            let packet = self.packet();
            if packet.starts_with(prefix) {
                return packet;
            }
        }
    }

    /// Arguments of the next event of this name in the main namespace; others are skipped.
    pub fn expect(&mut self, name: &str) -> Vec<Value> {
        loop {
            let packet = self.packet_starting("42");
            let Some(at) = packet.find('[') else { continue };
            let event: Vec<Value> = serde_json::from_str(&packet[at..]).expect("JSON in an event");
            if event.first().and_then(Value::as_str) == Some(name) {
                return event[1..].to_vec();
            }
        }
    }

    /// No event of this name for this long; heartbeats are answered meanwhile.
    pub fn is_spared(&mut self, name: &str, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        let prefix = format!("42[\"{name}\"");
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            match self.packet_within(left) {
                Ok(packet) if packet.starts_with(&prefix) => return false,
                Ok(_) => {}
                Err(ended) => return ended == Ended::Open,
            }
        }
    }
}

/// What stands between the packet type and the data.
fn prefix(namespace: &str) -> String {
    if namespace == "/" {
        String::new()
    } else {
        format!("{namespace},")
    }
}

/// An Engine.IO client over HTTP long-polling, each request on a connection of its own.
#[derive(Debug)]
pub struct Poller {
    addr: SocketAddr,
    pub sid: String,
}

impl Poller {
    pub fn open(addr: SocketAddr) -> Poller {
        Poller::open_if_let_in(addr).expect("a server that lets newcomers in")
    }

    /// `None`: the server is full (503).
    pub fn open_if_let_in(addr: SocketAddr) -> Option<Poller> {
        let response = RawConn::exchange(addr, poll_request(""));
        if response.status == 503 {
            return None;
        }
        assert_eq!(response.status, 200, "{response:?}");
        let open = response.body.strip_prefix('0').expect("an open packet");
        let open: Value = serde_json::from_str(open).expect("JSON in the open packet");
        let sid = open["sid"].as_str().expect("a session id").to_owned();
        Some(Poller { addr, sid })
    }

    /// A client in the main namespace.
    pub fn connect(addr: SocketAddr) -> Poller {
        let poller = Poller::open(addr);
        assert_eq!(poller.post("40").status, 200);
        let reply = poller.poll();
        assert!(reply.body.starts_with("40{"), "{reply:?}");
        poller
    }

    pub fn poll(&self) -> Response {
        RawConn::exchange(self.addr, poll_request(&self.sid))
    }

    /// Begins a poll and leaves it waiting.
    pub fn begin_poll(&self) -> RawConn {
        let mut conn = RawConn::connect(self.addr);
        conn.send(poll_request(&self.sid));
        conn
    }

    pub fn post(&self, body: &str) -> Response {
        RawConn::exchange(self.addr, post_request(&self.sid, body))
    }

    /// Whether the gateway still knows the session. A living one is posted a NOOP.
    pub fn is_alive(&self) -> bool {
        self.post("6").status == 200
    }
}

/// A GET for packets; without a session id, a handshake.
pub fn poll_request(sid: &str) -> String {
    let sid = if sid.is_empty() {
        String::new()
    } else {
        format!("&sid={sid}")
    };
    format!("GET /socket.io/?EIO=4&transport=polling{sid} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

pub fn post_request(sid: &str, body: &str) -> String {
    let target = format!("/socket.io/?EIO=4&transport=polling&sid={sid}");
    format!(
        "POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain;charset=UTF-8\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A client of the plain protocol, JSON text.
#[derive(Debug)]
pub struct Plain {
    pub conn: RawConn,
}

impl Plain {
    pub fn connect(addr: SocketAddr) -> Plain {
        Plain {
            conn: RawConn::websocket(addr, PLAIN),
        }
    }

    /// A client in this room; returns when the gateway has confirmed the join.
    pub fn join(addr: SocketAddr, room: &str) -> Plain {
        let mut client = Plain::connect(addr);
        client.send(&serde_json::json!({"type": "join", "room": room, "id": 1}));
        client.expect_type("ack");
        client
    }

    pub fn send(&mut self, message: &Value) {
        self.conn.send_text(message.to_string());
    }

    /// The next message; WebSocket pings are answered.
    pub fn message(&mut self) -> Value {
        loop {
            let Frame {
                opcode, payload, ..
            } = self.conn.frame();
            match opcode {
                OpCode::Text => return serde_json::from_slice(&payload).expect("JSON"),
                OpCode::Ping => self.conn.send_frame(true, OpCode::Pong, payload),
                OpCode::Close => panic!("closed by the gateway: {payload:?}"),
                _ => {}
            }
        }
    }

    /// The next message of this type; others are skipped.
    pub fn expect_type(&mut self, kind: &str) -> Value {
        loop {
            let message = self.message();
            if message["type"] == kind {
                return message;
            }
        }
    }
}
