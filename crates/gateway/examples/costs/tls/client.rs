//! Clients in a few lines: one blocking connection each, plain or TLS.

use super::Secured;
use anyhow::{Context, Result, ensure};
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    Plain,
    Tls13,
    Tls12,
}

/// Knows how to connect.
#[derive(Debug)]
pub struct Peer {
    addr: SocketAddr,
    /// With and without tickets; none for plain.
    configs: Option<(Arc<ClientConfig>, Arc<ClientConfig>)>,
}

#[derive(Debug)]
pub enum Conn {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// Answered by the shard itself, with few bytes.
const SMALL: &[u8] =
    b"GET /socket.io/?EIO=4&transport=polling&sid=none HTTP/1.1\r\nHost: localhost\r\n\r\n";
const UPGRADE: &[u8] = b"GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
/// An empty ping, masked with zeros, and its pong (RFC 6455 §5.5.2).
const PING: &[u8] = b"\x89\x80\0\0\0\0";
const PONG: &[u8] = b"\x8a\x00";

impl Peer {
    pub fn new(secured: &Secured, plan: Plan) -> Result<Peer> {
        let version = match plan {
            Plan::Plain => {
                return Ok(Peer {
                    addr: secured.gateway.addr,
                    configs: None,
                });
            }
            Plan::Tls13 => &rustls::version::TLS13,
            Plan::Tls12 => &rustls::version::TLS12,
        };
        let mut roots = RootCertStore::empty();
        roots.add(secured.certificate.clone())?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let keeping = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut forgetting = keeping.clone();
        forgetting.resumption = Resumption::disabled();
        Ok(Peer {
            addr: secured.gateway.tls.context("no TLS address")?,
            configs: Some((Arc::new(keeping), Arc::new(forgetting))),
        })
    }

    fn connect(&self, resume: bool) -> Result<Conn> {
        let stream = TcpStream::connect(self.addr)?;
        stream.set_nodelay(true)?;
        let Some((keeping, forgetting)) = &self.configs else {
            return Ok(Conn::Plain(stream));
        };
        let config = if resume { keeping } else { forgetting };
        let name = ServerName::try_from("localhost")?;
        let conn = ClientConnection::new(Arc::clone(config), name)?;
        let mut stream = Box::new(StreamOwned::new(conn, stream));
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Conn::Tls(stream))
    }

    /// A full handshake and the end.
    pub fn handshake(&self) -> Result<()> {
        self.connect(false).map(drop)
    }

    /// Connects, has one small request answered and goes; whether the session was resumed.
    pub fn visit(&self, resume: bool) -> Result<bool> {
        let mut conn = self.connect(resume)?;
        conn.write_all(SMALL)?;
        let head = conn.head()?;
        ensure!(head.starts_with("HTTP/1.1 400"), "{head}");
        Ok(match &conn {
            Conn::Plain(_) => false,
            Conn::Tls(stream) => stream.conn.handshake_kind() == Some(HandshakeKind::Resumed),
        })
    }

    pub fn websocket(&self) -> Result<Conn> {
        let mut conn = self.connect(false)?;
        conn.write_all(UPGRADE)?;
        let head = conn.head()?;
        ensure!(head.starts_with("HTTP/1.1 101"), "{head}");
        Ok(conn)
    }
}

impl Conn {
    fn head(&mut self) -> Result<String> {
        let mut head = Vec::new();
        let mut buf = [0; 1024];
        while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
            let n = self.read(&mut buf)?;
            ensure!(n > 0, "the gateway ended the connection");
            head.extend_from_slice(&buf[..n]);
        }
        Ok(String::from_utf8_lossy(&head).into_owned())
    }

    pub fn ping(&mut self) -> Result<()> {
        self.write_all(PING)?;
        let mut pong = [0; PONG.len()];
        self.read_exact(&mut pong)?;
        ensure!(pong == PONG, "{pong:?}");
        Ok(())
    }
}

impl Read for Conn {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Conn::Plain(stream) => stream.read(buf),
            Conn::Tls(stream) => stream.read(buf),
        }
    }
}

impl Write for Conn {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        match self {
            Conn::Plain(stream) => stream.write(buf),
            Conn::Tls(stream) => stream.write(buf),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Conn::Plain(stream) => stream.flush(),
            Conn::Tls(stream) => stream.flush(),
        }
    }
}
