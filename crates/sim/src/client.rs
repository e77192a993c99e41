//! A Socket.IO client: over WebSocket, or by polling with requests that arrive at any hub.

use wire::websocket::frame::{self, OpCode};

/// How a client talks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    WebSocket,
    Polling,
}

/// One client and what it has received.
#[derive(Debug)]
pub struct Client {
    pub transport: Transport,
    /// Links it uses: the WebSocket, or the poll and the posts.
    pub main: usize,
    pub post: Option<usize>,
    pub sid: Option<String>,
    /// Was answered its CONNECT.
    pub joined: bool,
    pub gone: bool,
    /// Bytes not understood yet, of `main` and `post`.
    input: Vec<u8>,
    upgraded: bool,
    /// Packets that it has to send: pongs and acks.
    pub owed: Vec<String>,
    /// Everything received: Socket.IO packets.
    pub packets: Vec<String>,
}

impl Client {
    pub fn new(transport: Transport, main: usize, post: Option<usize>) -> Client {
        Client {
            transport,
            main,
            post,
            sid: None,
            joined: false,
            gone: false,
            input: Vec::new(),
            upgraded: false,
            owed: Vec::new(),
            packets: Vec::new(),
        }
    }

    /// The first request.
    pub fn hello(&self) -> Vec<u8> {
        match self.transport {
            Transport::WebSocket => {
                b"GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: x\r\n\
                Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
                    .to_vec()
            }
            Transport::Polling => self.get(""),
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
        let mut out = Vec::new();
        match self.transport {
            Transport::WebSocket => {
                frame::write_masked(&mut out, true, OpCode::Text, text.as_bytes(), [1, 2, 3, 4])
            }
            Transport::Polling => {
                let sid = self.sid.as_deref().unwrap_or_default();
                out = format!(
                    "POST /socket.io/?EIO=4&transport=polling&sid={sid} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{text}",
                    text.len()
                )
                .into_bytes();
            }
        }
        out
    }

    /// Takes in bytes of `main`; returns how many packets or answers were complete.
    pub fn receive(&mut self, bytes: &[u8]) -> usize {
        self.input.extend_from_slice(bytes);
        let mut count = 0;
        while let Some((text, len)) = self.next() {
            self.input.drain(..len);
            count += 1;
            for packet in text.split('\x1e').filter(|packet| !packet.is_empty()) {
                self.on_packet(packet);
            }
        }
        count
    }

    fn next(&mut self) -> Option<(String, usize)> {
        if self.upgraded {
            let header = frame::parse_header(&self.input).expect("frames")?;
            let end = header.len + header.payload_len as usize;
            let payload = self.input.get(header.len..end)?;
            self.gone |= header.opcode == OpCode::Close;
            let text = if header.opcode == OpCode::Text {
                String::from_utf8_lossy(payload)
            } else {
                "".into()
            };
            return Some((text.into_owned(), end));
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
        assert!(
            head.starts_with("HTTP/1.1 200"),
            "{head}{}",
            String::from_utf8_lossy(body)
        );
        let body = String::from_utf8_lossy(body).into_owned();
        // The answer to a POST.
        let text = if body == "ok" { String::new() } else { body };
        Some((text, end + length))
    }

    fn on_packet(&mut self, packet: &str) {
        if let Some(open) = packet.strip_prefix("0{\"sid\":\"") {
            self.sid = open.get(..20).map(str::to_owned);
        } else if packet.starts_with("40{") {
            self.joined = true;
        } else if packet == "1" {
            self.gone = true;
        } else {
            self.packets.push(packet.to_owned());
        }
    }
}
