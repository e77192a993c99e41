//! The test client: Socket.IO by WebSocket, over a stream within this process.

use super::Doorway;
use crate::websocket::{Heard, WebSocket};
use hub::notices;
use serde_json::{Value, json};
use std::any::Any;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::net::UnixStream;
use tokio::time::timeout;
use wire::socketio::{self, Packet, PacketType};
use wire::websocket::frame::OpCode;

/// For the way in.
const PATIENCE: Duration = Duration::from_secs(10);
/// Arguments that are shown of one event.
const ARGS_BYTES_MAX: usize = 4 << 10;
const AGENT: &[u8] = b"User-Agent: sockeye-console\r\n";

/// A client that is in its namespace.
pub(super) struct Client {
    stream: WebSocket<UnixStream>,
    /// The stream's place among the connections of the process.
    _place: Box<dyn Any + Send>,
    namespace: String,
    socket: Option<String>,
    has_session: bool,
    /// Lines that nobody has taken yet.
    heard: VecDeque<Value>,
}

impl Client {
    /// Comes in, or says why it is not let in.
    pub(super) async fn come(doorway: &Doorway, namespace: &str) -> Result<Self, String> {
        let full = || "the process has no room for another connection".to_owned();
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(|_| full())?;
        let stream = ours.set_nonblocking(true);
        let stream = stream.and_then(|()| UnixStream::from_std(ours));
        let stream = stream.map_err(|_| full())?;
        let place = (doorway.bring)(theirs, IpAddr::V4(Ipv4Addr::LOCALHOST)).ok_or_else(full)?;
        let mut client = Self {
            stream: WebSocket::over(stream),
            _place: place,
            namespace: namespace.to_owned(),
            socket: None,
            has_session: false,
            heard: VecDeque::new(),
        };
        match timeout(PATIENCE, client.come_in(&doorway.path)).await {
            Ok(came) => came.map(|()| client),
            Err(_) => Err("it was not let in within 10 s".to_owned()),
        }
    }

    /// The id of its socket.
    pub(super) fn socket(&self) -> &str {
        self.socket.as_deref().unwrap_or_default()
    }

    async fn come_in(&mut self, path: &str) -> Result<(), String> {
        self.stream.open("sockeye", path, AGENT).await?;
        self.hear().await?;
        while !self.has_session {
            self.read().await?;
            self.hear().await?;
        }
        let namespace = self.namespace.clone();
        let packet = Packet {
            kind: PacketType::Connect,
            attachments: 0,
            namespace: &namespace,
            id: None,
            data: "",
        };
        self.stream.packet(&packet).await?;
        while self.socket.is_none() {
            self.read().await?;
            self.hear().await?;
        }
        Ok(())
    }

    /// What it has heard since.
    pub(super) fn take(&mut self) -> VecDeque<Value> {
        std::mem::take(&mut self.heard)
    }

    /// Waits for more. May be given up at any time.
    pub(super) async fn read(&mut self) -> Result<(), String> {
        self.stream.read().await
    }

    /// Takes in what has come.
    pub(super) async fn hear(&mut self) -> Result<(), String> {
        while let Some(heard) = self.stream.heard().await? {
            match heard {
                Heard::Text(text) => self.take_packet(&text).await?,
                Heard::Closed => return Err("the gateway closed the connection".to_owned()),
            }
        }
        Ok(())
    }

    /// One packet of Engine.IO.
    async fn take_packet(&mut self, text: &str) -> Result<(), String> {
        match text.as_bytes().first() {
            Some(b'0') => self.has_session = true,
            Some(b'1') => return Err("the gateway ended the session".to_owned()),
            Some(b'2') => return self.stream.frame(OpCode::Text, b"3").await,
            Some(b'4') => {
                let packet = socketio::parse(&text[1..]);
                let packet = packet.map_err(|why| format!("a packet cannot be read: {why:?}"))?;
                return self.note(&packet).await;
            }
            _ => {}
        }
        Ok(())
    }

    async fn note(&mut self, packet: &Packet<'_>) -> Result<(), String> {
        if packet.namespace != self.namespace {
            return Ok(());
        }
        match packet.kind {
            PacketType::Connect => {
                let data: Value = serde_json::from_str(packet.data).unwrap_or_default();
                self.socket = Some(data["sid"].as_str().unwrap_or_default().to_owned());
            }
            PacketType::ConnectError => {
                let data: Value = serde_json::from_str(packet.data).unwrap_or_default();
                let why = data["message"].as_str().unwrap_or(packet.data);
                return Err(format!("it was not let into the namespace: {why}"));
            }
            PacketType::Disconnect => return Err("it was put out of the namespace".to_owned()),
            PacketType::Event | PacketType::BinaryEvent => {
                self.heard.push_back(line(packet));
                // Whoever asks all in the room is not kept waiting.
                if let Some(id) = packet.id {
                    self.answer(id).await?;
                }
            }
            PacketType::Ack | PacketType::BinaryAck => {}
        }
        Ok(())
    }

    async fn answer(&mut self, id: u64) -> Result<(), String> {
        let namespace = self.namespace.clone();
        let packet = Packet {
            kind: PacketType::Ack,
            attachments: 0,
            namespace: &namespace,
            id: Some(id),
            data: "[]",
        };
        self.stream.packet(&packet).await
    }
}

/// An event as a line.
fn line(packet: &Packet<'_>) -> Value {
    let event = socketio::event(packet.data);
    let shown = match notices::has_secret(&event.name, event.args) {
        true => "",
        false => event.args,
    };
    let end = shown.floor_char_boundary(ARGS_BYTES_MAX);
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    json!({
        "kind": "event",
        "at_ms": since.map_or(0, |since| since.as_millis() as u64),
        "event": event.name,
        "args": shown[..end],
        "bytes": event.args.len(),
        "attachments": packet.attachments,
        "asks": packet.id.is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signed_address_is_shown_to_nobody() {
        let packet = socketio::parse("2[\"news\",{\"large_message\":\"https://a/b?sig=c\"}]");
        let line = line(&packet.expect("a packet"));
        assert_eq!(
            (&line["args"], &line["event"]),
            (&json!(""), &json!("news"))
        );
        assert!(line["bytes"].as_u64() > Some(20), "{line}");
    }

    #[test]
    fn an_event_is_a_line_with_the_beginning_of_its_arguments() {
        let long = "ö".repeat(5_000);
        let text = format!("51-/lab,7[\"news\",\"{long}\",{{\"_placeholder\":true,\"num\":0}}]");
        let packet = socketio::parse(&text).expect("a packet");
        let line = line(&packet);
        assert_eq!(
            (&line["event"], &line["asks"]),
            (&json!("news"), &json!(true))
        );
        assert_eq!(line["attachments"], 1);
        assert!(line["bytes"].as_u64() > Some(10_000), "{line}");
        assert!(
            line["args"]
                .as_str()
                .is_some_and(|args| args.len() <= ARGS_BYTES_MAX)
        );
    }
}
