//! The test client: Socket.IO by WebSocket, over a stream within this process.

use super::Doorway;
use hub::notices;
use serde_json::{Value, json};
use std::any::Any;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;
use wire::socketio::{self, Packet, PacketType};
use wire::websocket::frame::{self, OpCode};
use wire::websocket::message::{Assembler, Limits, Message, Step};

/// For the way in, and for what the shard takes.
const PATIENCE: Duration = Duration::from_secs(10);
const HEAD_BYTES_MAX: usize = 16 * 1024;
const LIMITS: Limits = Limits {
    message_bytes_max: 16 << 20,
    fragments_max: 1_024,
    masked: false,
    deflate: false,
};
/// Arguments that are shown of one event.
const ARGS_BYTES_MAX: usize = 4 << 10;
/// Any 16 bytes; there is no cache between us that it could deceive.
const KEY: &[u8; 24] = b"c29ja2V5ZS1jb25zb2xlIQ==";
/// Masking is a client's duty; nothing leaves the process.
const MASK: [u8; 4] = [0x31, 0x7a, 0xd4, 0x0b];
const AGENT: &[u8] = b"User-Agent: sockeye-console\r\n";

/// A client that is in its namespace.
pub(super) struct Client {
    stream: UnixStream,
    /// The stream's place among the connections of the process.
    _place: Box<dyn Any + Send>,
    input: Vec<u8>,
    assembler: Assembler,
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
            stream,
            _place: place,
            input: Vec::new(),
            assembler: Assembler::default(),
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
        let mut request = Vec::new();
        let target = format!("{path}?EIO=4&transport=websocket");
        wire::websocket::handshake::write_request(&mut request, "sockeye", &target, KEY, AGENT);
        self.send(&request).await?;
        let end = loop {
            match self.input.windows(4).position(|four| four == b"\r\n\r\n") {
                Some(end) => break end + 4,
                None if self.input.len() > HEAD_BYTES_MAX => {
                    return Err("the answer of the shard is not HTTP".to_owned());
                }
                None => self.read().await?,
            }
        };
        let head = String::from_utf8_lossy(&self.input[..end]).into_owned();
        self.input.drain(..end);
        if head.split(' ').nth(1) != Some("101") {
            let line = head.lines().next().unwrap_or_default();
            return Err(format!("the gateway does not take a WebSocket: {line:?}"));
        }
        self.hear().await?;
        while !self.has_session {
            self.read().await?;
            self.hear().await?;
        }
        let namespace = self.namespace.clone();
        self.packet(&Packet {
            kind: PacketType::Connect,
            attachments: 0,
            namespace: &namespace,
            id: None,
            data: "",
        })
        .await?;
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
        match self.stream.read_buf(&mut self.input).await {
            Ok(0) => Err("the gateway closed the connection".to_owned()),
            Ok(_) => Ok(()),
            Err(error) => Err(format!("the connection was lost: {error}")),
        }
    }

    /// Takes in what has come.
    pub(super) async fn hear(&mut self) -> Result<(), String> {
        loop {
            let step = self.assembler.step(&mut self.input, &LIMITS);
            let step = step.map_err(|why| format!("a frame cannot be read: {why:?}"))?;
            let (consumed, said) = match step {
                Step::NeedMore { .. } => return Ok(()),
                Step::Fragment { consumed } => (consumed, Said::Nothing),
                Step::Message {
                    consumed, message, ..
                } => (consumed, said(message)),
            };
            self.input.drain(..consumed);
            match said {
                Said::Text(text) => self.take_packet(&text).await?,
                Said::Ping(bytes) => self.frame(OpCode::Pong, &bytes).await?,
                Said::Closed => return Err("the gateway closed the connection".to_owned()),
                Said::Nothing => {}
            }
        }
    }

    /// One packet of Engine.IO.
    async fn take_packet(&mut self, text: &str) -> Result<(), String> {
        match text.as_bytes().first() {
            Some(b'0') => self.has_session = true,
            Some(b'1') => return Err("the gateway ended the session".to_owned()),
            Some(b'2') => return self.frame(OpCode::Text, b"3").await,
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
        self.packet(&Packet {
            kind: PacketType::Ack,
            attachments: 0,
            namespace: &namespace,
            id: Some(id),
            data: "[]",
        })
        .await
    }

    async fn packet(&mut self, packet: &Packet<'_>) -> Result<(), String> {
        let mut text = b"4".to_vec();
        socketio::write(&mut text, packet);
        self.frame(OpCode::Text, &text).await
    }

    async fn frame(&mut self, opcode: OpCode, payload: &[u8]) -> Result<(), String> {
        let mut bytes = Vec::new();
        frame::write_masked(&mut bytes, true, opcode, payload, MASK);
        self.send(&bytes).await
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        let sent = timeout(PATIENCE, self.stream.write_all(bytes)).await;
        let sent = sent.map_err(|_| "the gateway took nothing for 10 s".to_owned())?;
        sent.map_err(|error| format!("the connection was lost: {error}"))
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

/// A message that does not borrow.
enum Said {
    Text(String),
    Ping(Vec<u8>),
    Closed,
    Nothing,
}

fn said(message: Message<'_>) -> Said {
    match message {
        Message::Text(text) => Said::Text(text.to_owned()),
        Message::Ping(bytes) => Said::Ping(bytes.to_vec()),
        Message::Close(_) => Said::Closed,
        // Attachments: their number is in the packet before them.
        Message::Binary(_) | Message::Pong(_) => Said::Nothing,
    }
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
