//! A WebSocket of Engine.IO as a client has it, over a stream that is there: for test clients of operators and for those of a replay.

use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use wire::socketio::{self, Packet};
use wire::websocket::frame::{self, OpCode};
use wire::websocket::handshake;
use wire::websocket::message::{Assembler, Limits, Message, Step};

/// For what the other side takes.
const PATIENCE: Duration = Duration::from_secs(10);
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Room for one read: a room that talks is not read event by event.
const READ_BYTES: usize = 16 << 10;
const LIMITS: Limits = Limits {
    message_bytes_max: 16 << 20,
    fragments_max: 1_024,
    masked: false,
    deflate: false,
};
/// Any 16 bytes; no cache that it could deceive is asked.
const KEY: &[u8; 24] = b"c29ja2V5ZS1jbGllbnQtIQ==";
/// Masking is a client's duty; nothing here is secret.
const MASK: [u8; 4] = [0x5a, 0x13, 0xc7, 0x2e];

/// A stream, and what has come by it.
pub(crate) struct WebSocket<S> {
    stream: S,
    input: Vec<u8>,
    assembler: Assembler,
}

/// Something that came.
pub(crate) enum Heard {
    Text(String),
    Closed,
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocket<S> {
    pub(crate) fn over(stream: S) -> Self {
        Self {
            stream,
            input: Vec::new(),
            assembler: Assembler::default(),
        }
    }

    /// Asks for it; why it is refused. `lines` are more header lines.
    pub(crate) async fn open(
        &mut self,
        host: &str,
        path: &str,
        lines: &[u8],
    ) -> Result<(), String> {
        let mut request = Vec::new();
        let target = format!("{path}?EIO=4&transport=websocket");
        handshake::write_request(&mut request, host, &target, KEY, lines);
        self.send(&request).await?;
        let end = loop {
            match self.input.windows(4).position(|four| four == b"\r\n\r\n") {
                Some(end) => break end + 4,
                None if self.input.len() > HEAD_BYTES_MAX => {
                    return Err("the answer is not HTTP".to_owned());
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
        Ok(())
    }

    /// Waits for more. May be given up at any time.
    pub(crate) async fn read(&mut self) -> Result<(), String> {
        self.input.reserve(READ_BYTES);
        match self.stream.read_buf(&mut self.input).await {
            Ok(0) => Err("the gateway closed the connection".to_owned()),
            Ok(_) => Ok(()),
            Err(error) => Err(format!("the connection was lost: {error}")),
        }
    }

    /// The next of what has come in whole. Answers pings, and passes over attachments: their number is in the packet before them.
    pub(crate) async fn heard(&mut self) -> Result<Option<Heard>, String> {
        loop {
            let step = self.assembler.step(&mut self.input, &LIMITS);
            let step = step.map_err(|why| format!("the gateway broke RFC 6455: {why:?}"))?;
            let (consumed, heard, ping) = match step {
                Step::NeedMore { .. } => return Ok(None),
                Step::Fragment { consumed } => (consumed, None, None),
                Step::Message {
                    consumed, message, ..
                } => match message {
                    Message::Text(text) => (consumed, Some(Heard::Text(text.to_owned())), None),
                    Message::Ping(bytes) => (consumed, None, Some(bytes.to_vec())),
                    Message::Close(_) => (consumed, Some(Heard::Closed), None),
                    Message::Binary(_) | Message::Pong(_) => (consumed, None, None),
                },
            };
            self.input.drain(..consumed);
            if let Some(bytes) = ping {
                self.frame(OpCode::Pong, &bytes).await?;
            }
            if heard.is_some() {
                return Ok(heard);
            }
        }
    }

    pub(crate) async fn packet(&mut self, packet: &Packet<'_>) -> Result<(), String> {
        let mut text = b"4".to_vec();
        socketio::write(&mut text, packet);
        self.frame(OpCode::Text, &text).await
    }

    pub(crate) async fn frame(&mut self, opcode: OpCode, payload: &[u8]) -> Result<(), String> {
        let mut bytes = Vec::new();
        frame::write_masked(&mut bytes, true, opcode, payload, MASK);
        self.send(&bytes).await
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        let sending = async {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        };
        let sent = timeout(PATIENCE, sending).await;
        let sent = sent.map_err(|_| "the gateway took nothing for 10 s".to_owned())?;
        sent.map_err(|error| format!("the connection was lost: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::duplex;

    #[tokio::test]
    async fn what_comes_in_pieces_is_heard_in_whole_and_pings_are_answered() {
        let (ours, mut theirs) = duplex(64);
        let mut socket = WebSocket::over(ours);
        let server = async {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                theirs.read_buf(&mut head).await.expect("a request");
            }
            let answer = b"HTTP/1.1 101 Switching Protocols\r\n\r\n\x89\x01!\x81\x05hello\x88\x00";
            for byte in answer {
                theirs.write_all(&[*byte]).await.expect("a byte");
            }
            let mut pong = [0; 7];
            theirs.read_exact(&mut pong).await.expect("a pong");
            (head, pong)
        };
        let client = async {
            socket.open("a", "/io/", b"X-A: b\r\n").await.expect("open");
            let mut heard = Vec::new();
            while heard.len() < 2 {
                match socket.heard().await.expect("no fault") {
                    Some(one) => heard.push(one),
                    None => socket.read().await.expect("more"),
                }
            }
            heard
        };
        let ((head, pong), heard) = tokio::join!(server, client);
        let head = String::from_utf8(head).expect("text");
        assert!(head.starts_with("GET /io/?EIO=4&transport=websocket HTTP/1.1\r\n"));
        assert!(head.contains("X-A: b\r\n"), "{head}");
        assert_eq!((pong[0], pong[1], pong[6] ^ MASK[0]), (0x8a, 0x81, b'!'));
        assert!(matches!(&heard[..], [Heard::Text(text), Heard::Closed] if text == "hello"));
    }

    #[tokio::test]
    async fn a_refusal_is_told_with_its_first_line_and_a_long_head_is_no_answer() {
        for (answer, why) in [
            (
                "HTTP/1.1 503 Busy\r\n\r\n".to_owned(),
                "\"HTTP/1.1 503 Busy\"",
            ),
            ("x".repeat(HEAD_BYTES_MAX + 2), "the answer is not HTTP"),
            (
                "HTTP/1.1 101".to_owned(),
                "the gateway closed the connection",
            ),
        ] {
            let (ours, mut theirs) = duplex(64 << 10);
            theirs.write_all(answer.as_bytes()).await.expect("room");
            theirs.shutdown().await.expect("an end");
            let refused = WebSocket::over(ours).open("a", "/", b"").await;
            let refused = refused.expect_err("a refusal");
            assert!(refused.contains(why), "{refused}");
        }
    }
}
