//! A Socket.IO client: over WebSocket, or by polling with requests that arrive at any hub.

use crate::plain;
use wire::websocket::frame::{self, OpCode};

const WEBSOCKET: &str = "GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: x\r\n\
    Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// What a node says of a session that it does not know.
pub(crate) const UNKNOWN: &str = "Session ID unknown";

fn text_frame(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    frame::write_masked(&mut out, true, OpCode::Text, text.as_bytes(), [1, 2, 3, 4]);
    out
}

/// How a client talks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    WebSocket,
    Polling,
    /// The plain protocol, in JSON or in MessagePack: it is in its namespace at once.
    Plain {
        is_packed: bool,
    },
}

/// Understands what comes on one link.
#[derive(Debug, Default)]
struct Reader {
    /// Bytes not understood yet.
    input: Vec<u8>,
    upgraded: bool,
    closed: bool,
    /// A request was not answered as it should be.
    refused: bool,
    /// Frames are plain messages, in MessagePack or not.
    plain: Option<bool>,
}

/// A WebSocket that is to take over.
#[derive(Debug)]
pub struct Probe {
    pub link: usize,
    reader: Reader,
    asked: bool,
    /// The hub answered: the client polls and posts no more.
    pub answered: bool,
}

/// One client and what it has received.
#[derive(Debug)]
pub struct Client {
    pub transport: Transport,
    /// Links it uses: the WebSocket, or the poll and the posts.
    pub main: usize,
    pub post: Option<usize>,
    pub sid: Option<String>,
    /// By which it can ask for its socket when it comes back.
    pub pid: Option<String>,
    /// Was answered its CONNECT.
    pub joined: bool,
    pub gone: bool,
    /// Waits for the answer of a poll.
    pub polling: bool,
    /// It began by polling, whatever it went over to.
    pub has_polled: bool,
    reader: Reader,
    /// The WebSocket that is to take over from polling.
    pub probe: Option<Probe>,
    /// Packets that it has to send: pongs and acks.
    pub owed: Vec<String>,
    /// Everything received: Socket.IO packets.
    pub packets: Vec<String>,
}

impl Client {
    pub fn new(transport: Transport, main: usize, post: Option<usize>) -> Client {
        let plain = match transport {
            Transport::Plain { is_packed } => Some(is_packed),
            Transport::WebSocket | Transport::Polling => None,
        };
        Client {
            transport,
            main,
            post,
            sid: None,
            pid: None,
            joined: false,
            gone: false,
            polling: transport == Transport::Polling,
            has_polled: transport == Transport::Polling,
            reader: Reader {
                plain,
                ..Reader::default()
            },
            probe: None,
            owed: Vec::new(),
            packets: Vec::new(),
        }
    }

    /// The first request.
    pub fn hello(&self) -> Vec<u8> {
        match self.transport {
            Transport::WebSocket => WEBSOCKET.into(),
            Transport::Polling => self.get(""),
            Transport::Plain { is_packed } => plain::hello(is_packed),
        }
    }

    fn get(&self, sid: &str) -> Vec<u8> {
        format!("GET /socket.io/?EIO=4&transport=polling{sid} HTTP/1.1\r\nHost: x\r\n\r\n")
            .into_bytes()
    }

    /// A GET that waits for packets.
    pub fn poll(&self) -> Option<Vec<u8>> {
        let sid = self.sid.as_ref()?;
        Some(self.get(&format!("&sid={sid}")))
    }

    /// A packet as bytes for `main` (WebSocket) or `post` (polling).
    pub fn packet(&self, text: &str) -> Vec<u8> {
        match self.transport {
            Transport::WebSocket => text_frame(text),
            Transport::Plain { is_packed } => plain::write(text, is_packed),
            Transport::Polling => self.post(text),
        }
    }

    /// A node does not know its session.
    pub fn is_unknown(&self) -> bool {
        let probe = self.probe.as_ref();
        self.reader.refused || probe.is_some_and(|probe| probe.reader.refused)
    }

    /// The request that ends a session of long-polling.
    pub fn end(&self) -> Vec<u8> {
        self.post("1")
    }

    fn post(&self, text: &str) -> Vec<u8> {
        let sid = self.sid.as_deref().unwrap_or_default();
        format!(
            "POST /socket.io/?EIO=4&transport=polling&sid={sid} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{text}",
            text.len()
        )
        .into_bytes()
    }

    /// Takes in bytes of `main`; returns how many packets or answers were complete.
    pub fn receive(&mut self, bytes: &[u8]) -> usize {
        self.reader.input.extend_from_slice(bytes);
        let mut count = 0;
        while let Some(text) = self.reader.next() {
            self.gone |= self.reader.closed;
            count += 1;
            if let Transport::Plain { .. } = self.transport {
                self.joined |= self.reader.upgraded;
                self.packets.extend((!text.is_empty()).then_some(text));
                continue;
            }
            for packet in text.split('\x1e').filter(|packet| !packet.is_empty()) {
                self.on_packet(packet);
            }
        }
        count
    }

    /// The request that begins an upgrade.
    pub fn begin_upgrade(&mut self, link: usize) -> Option<Vec<u8>> {
        let sid = self.sid.as_ref()?;
        self.probe = Some(Probe {
            link,
            reader: Reader::default(),
            asked: false,
            answered: false,
        });
        let hello = WEBSOCKET.replace("EIO=4", &format!("EIO=4&sid={sid}"));
        Some(hello.into_bytes())
    }

    /// Takes in bytes of the probe; what the client answers at once. There is no probe any more when it was closed.
    pub fn receive_probe(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let probe = self.probe.as_mut()?;
        probe.reader.input.extend_from_slice(bytes);
        while let Some(text) = probe.reader.next() {
            if probe.reader.closed {
                self.probe = None;
                return None;
            }
            probe.answered |= text == "3probe";
        }
        let asks = probe.reader.upgraded && !std::mem::replace(&mut probe.asked, true);
        asks.then(|| text_frame("2probe"))
    }

    /// No request is under way: the WebSocket takes over. Returns its link.
    pub fn end_upgrade(&mut self) -> Option<usize> {
        let probe = self.probe.take()?;
        self.transport = Transport::WebSocket;
        self.reader = probe.reader;
        self.main = probe.link;
        self.post = None;
        Some(probe.link)
    }

    /// Neither polls nor posts: the upgrade is about to be complete.
    pub fn pauses(&self) -> bool {
        self.probe.as_ref().is_some_and(|probe| probe.answered)
    }

    fn on_packet(&mut self, packet: &str) {
        if let Some(open) = packet.strip_prefix("0{\"sid\":\"") {
            self.sid = open.get(..20).map(str::to_owned);
        } else if packet.starts_with("40{") {
            self.joined = true;
            let pid = packet.split_once("\"pid\":\"");
            let pid = pid.and_then(|(_, rest)| rest.split('"').next());
            self.pid = pid.map(str::to_owned);
        } else if packet == "1" {
            self.gone = true;
        } else if packet != "6" {
            self.packets.push(packet.to_owned());
        }
    }
}

impl Reader {
    fn next(&mut self) -> Option<String> {
        let (text, len) = self.front()?;
        self.input.drain(..len);
        Some(text)
    }

    fn front(&mut self) -> Option<(String, usize)> {
        if self.upgraded {
            let header = frame::parse_header(&self.input).expect("frames")?;
            let end = header.len + header.payload_len as usize;
            let payload = self.input.get(header.len..end)?;
            self.closed |= header.opcode == OpCode::Close;
            let text = match (header.opcode, self.plain) {
                (OpCode::Text | OpCode::Binary, Some(is_packed)) => plain::read(payload, is_packed),
                (OpCode::Text, None) => String::from_utf8_lossy(payload).into_owned(),
                _ => String::new(),
            };
            return Some((text, end));
        }
        let end = self.input.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
        let head = String::from_utf8_lossy(&self.input[..end]).into_owned();
        if head.starts_with("HTTP/1.1 101") {
            self.upgraded = true;
            return Some((String::new(), end));
        }
        let length = head.lines().find_map(|line| {
            line.to_ascii_lowercase()
                .strip_prefix("content-length: ")
                .map(str::to_owned)
        });
        let length: usize = length.map_or(0, |text| text.trim().parse().expect("a length"));
        let body = self.input.get(end..end + length)?;
        let body = String::from_utf8_lossy(body).into_owned();
        self.refused |= head.starts_with("HTTP/1.1 400") && body.contains(UNKNOWN);
        assert!(
            self.refused || head.starts_with("HTTP/1.1 200"),
            "{head}{body}"
        );
        // The answer to a POST.
        let is_nothing = body == "ok" || self.refused;
        let text = if is_nothing { String::new() } else { body };
        Some((text, end + length))
    }
}
