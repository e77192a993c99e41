//! A client of WebTransport, byte by byte.

use crate::harness::PATIENCE;
use crate::tls::pki::{Pki, Secure};
use serde_json::Value;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use web_transport_quinn::http::{HeaderName, HeaderValue};
use web_transport_quinn::proto::ConnectRequest;
use web_transport_quinn::quinn::{self, Endpoint, crypto::rustls::QuicClientConfig};
use web_transport_quinn::{ALPN, RecvStream, SendStream, Session, SessionError, WebTransportError};

/// Plays a test in a runtime of its own.
pub fn play<T>(test: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(test)
}

/// What a test waits for.
pub async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(PATIENCE, what).await.expect("it comes in time")
}

pub const OFFERED: &str =
    "[socketio]\ntransports = [\"polling\", \"websocket\", \"webtransport\"]\n";

/// A gateway that offers WebTransport on the port of its TLS; everybody may join rooms.
pub fn gateway(pki: &Pki, more: &str) -> Secure {
    let rest = format!("{OFFERED}{more}\n");
    Secure::new(crate::harness::Gateway::start(&format!(
        "profile = \"socket.io\"\n{}{rest}",
        pki.section("check_interval = \"100ms\"")
    )))
}

#[derive(Debug)]
pub struct Quic {
    pub endpoint: Endpoint,
    config: quinn::ClientConfig,
}

impl Quic {
    pub fn new(pki: &Pki) -> Quic {
        let tls = pki.client().offering(&[ALPN.as_bytes()]).config();
        let tls = QuicClientConfig::try_from(tls).expect("TLS 1.3");
        let any = "127.0.0.1:0".parse().expect("an address");
        Quic {
            endpoint: Endpoint::client(any).expect("a UDP socket"),
            config: quinn::ClientConfig::new(Arc::new(tls)),
        }
    }

    pub async fn handshake(&self, addr: SocketAddr) -> Result<quinn::Connection, String> {
        soon(self.try_handshake(addr)).await
    }

    /// It may never end where nobody answers.
    pub async fn try_handshake(&self, addr: SocketAddr) -> Result<quinn::Connection, String> {
        let connecting = self
            .endpoint
            .connect_with(self.config.clone(), addr, "localhost");
        let connected = connecting.expect("an address").await;
        connected.map_err(|error| error.to_string())
    }

    pub async fn connect(
        &self,
        addr: SocketAddr,
        path: &str,
        lines: &[(&'static str, &'static str)],
    ) -> Result<Session, String> {
        let conn = self.handshake(addr).await?;
        session_on(conn, addr, path, lines).await
    }

    /// A session's stream, without a word on it.
    pub async fn stream(&self, addr: SocketAddr) -> Talk {
        let session = self.connect(addr, "/socket.io/", &[]).await;
        Talk::on(session.expect("a session of WebTransport")).await
    }

    /// A client in the main namespace.
    pub async fn join(&self, addr: SocketAddr) -> Talk {
        let mut talk = self.stream(addr).await;
        talk.say("0").await;
        talk.opened().await;
        talk.join().await;
        talk
    }
}

/// Asks for a session.
pub async fn session_on(
    conn: quinn::Connection,
    addr: SocketAddr,
    path: &str,
    lines: &[(&'static str, &'static str)],
) -> Result<Session, String> {
    let url = format!("https://localhost:{}{path}", addr.port());
    let url: url::Url = url.parse().expect("a URL");
    let mut request = ConnectRequest::new(url);
    for (name, value) in lines {
        let name = HeaderName::from_static(name);
        request = request.with_header(name, HeaderValue::from_static(value));
    }
    let session = soon(Session::connect(conn, request)).await;
    session.map_err(|error| error.to_string())
}

/// A frame with its header as short as can be.
pub fn frame(binary: bool, packet: &[u8]) -> Vec<u8> {
    let mut frame = match packet.len() {
        len @ 0..=125 => vec![len as u8],
        len @ 126..=0xffff => [&[126], &(len as u16).to_be_bytes()[..]].concat(),
        len => [&[127], &(len as u64).to_be_bytes()[..]].concat(),
    };
    frame[0] |= u8::from(binary) << 7;
    frame.extend_from_slice(packet);
    frame
}

#[derive(Debug)]
pub struct Talk {
    pub session: Session,
    pub send: SendStream,
    pub recv: RecvStream,
    read: Vec<u8>,
    /// The session's id, from the open packet.
    pub sid: String,
}

impl Talk {
    pub async fn on(session: Session) -> Talk {
        let (send, recv) = soon(session.open_bi()).await.expect("a stream");
        Talk {
            session,
            send,
            recv,
            read: Vec::new(),
            sid: String::new(),
        }
    }

    pub async fn raw(&mut self, bytes: &[u8]) {
        soon(self.send.write_all(bytes)).await.expect("it is sent");
    }

    pub async fn say(&mut self, packet: &str) {
        self.raw(&frame(false, packet.as_bytes())).await;
    }

    /// The next packet; `None`: the stream has ended.
    pub async fn hear(&mut self) -> Option<(bool, Vec<u8>)> {
        loop {
            if let Some((packet, len)) = first(&self.read) {
                self.read.drain(..len);
                return Some(packet);
            }
            match soon(self.recv.read_chunk(65_536, true)).await {
                Ok(Some(chunk)) => self.read.extend_from_slice(&chunk.bytes),
                Ok(None) | Err(_) => return None,
            }
        }
    }

    /// The next text that is no heartbeat; those are answered.
    pub async fn text(&mut self) -> String {
        loop {
            let (binary, packet) = self.hear().await.expect("a packet");
            assert!(!binary, "{packet:?}");
            let text = String::from_utf8(packet).expect("text");
            match text.as_str() {
                "2" => self.say("3").await,
                _ => return text,
            }
        }
    }

    pub async fn text_starting(&mut self, prefix: &str) -> String {
        loop {
            let text = self.text().await;
            if text.starts_with(prefix) {
                return text;
            }
        }
    }

    /// The open packet.
    pub async fn opened(&mut self) -> Value {
        let text = self.text().await;
        let open = text.strip_prefix('0').expect("an open packet");
        let open: Value = serde_json::from_str(open).expect("JSON");
        self.sid = open["sid"].as_str().expect("an id").to_owned();
        open
    }

    pub async fn join(&mut self) {
        self.say("40").await;
        self.text_starting("40{").await;
    }

    /// Joins a room, which the gateway confirms: it reads and answers.
    pub async fn enter(&mut self, room: &str) {
        self.say(&format!("421[\"join\",\"{room}\"]")).await;
        self.text_starting("431[").await;
    }

    /// How the gateway ended the session.
    pub async fn ended(&self) -> (u32, String) {
        end_of(&self.session).await
    }
}

pub async fn end_of(session: &Session) -> (u32, String) {
    match soon(session.closed()).await {
        SessionError::WebTransportError(WebTransportError::Closed(code, reason)) => (code, reason),
        other => panic!("no end in words: {other:?}"),
    }
}

fn first(read: &[u8]) -> Option<((bool, Vec<u8>), usize)> {
    let (first, behind) = read.split_first()?;
    let (len, at) = match first & 0x7f {
        126 => (u16::from_be_bytes(*behind.first_chunk()?).into(), 3),
        127 => (u64::from_be_bytes(*behind.first_chunk()?) as usize, 9),
        len => (usize::from(len), 1),
    };
    let packet = read.get(at..at + len)?;
    Some(((first & 0x80 != 0, packet.to_vec()), at + len))
}

/// Blocking looks at a gateway, from a test that is not.
pub async fn settles(secure: &Secure, name: &str, wanted: f64) {
    for _ in 0..PATIENCE.as_millis() / 20 {
        if secure.gateway.metric(name) == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{name} is {}, not {wanted}", secure.gateway.metric(name));
}

/// Streams that sessions have now.
pub const OPEN: &str = "sockeye_webtransport_connections";
