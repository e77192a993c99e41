//! A client of Engine.IO by WebTransport, or by WebSocket beside it (both by TLS 1.3). Each example has its own copy, and may use a part.
#![allow(dead_code, reason = "an example uses a part")]

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use web_transport_quinn::proto::ConnectRequest;
use web_transport_quinn::quinn::{self, Endpoint, crypto::rustls::QuicClientConfig};
use web_transport_quinn::{ALPN, Session};
use wire::engineio::webtransport::{ToClient, ToHub};
use wire::websocket::frame::{OpCode, parse_header, write_frame, write_masked};
use wire::websocket::handshake::write_request;

pub(crate) type Failure = Box<dyn Error + Send + Sync>;
const KEY: &[u8; 24] = b"dGhlIHNhbXBsZSBub25jZQ==";

/// A client's TLS, which trusts this certificate and no other.
pub(crate) fn tls(cert: &str) -> Result<ClientConfig, Failure> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(cert)?)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    Ok(ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth())
}

pub(crate) fn quic(mut tls: ClientConfig) -> Result<quinn::ClientConfig, Failure> {
    tls.alpn_protocols = vec![ALPN.as_bytes().to_vec()];
    let tls = QuicClientConfig::try_from(tls)?;
    let mut transport = quinn::TransportConfig::default();
    // A heartbeat of the gateway's may be longer than QUIC's own bound.
    transport.max_idle_timeout(Some(Duration::from_secs(120).try_into()?));
    let mut config = quinn::ClientConfig::new(Arc::new(tls));
    config.transport_config(Arc::new(transport));
    Ok(config)
}

pub(crate) async fn webtransport(
    endpoint: &Endpoint,
    config: quinn::ClientConfig,
    addr: SocketAddr,
) -> Result<Session, Failure> {
    let conn = endpoint.connect_with(config, addr, "localhost")?.await?;
    let url: url::Url = format!("https://localhost:{}/socket.io/", addr.port()).parse()?;
    Ok(Session::connect(conn, ConnectRequest::new(url)).await?)
}

type Halves = (
    ReadHalf<TlsStream<TcpStream>>,
    WriteHalf<TlsStream<TcpStream>>,
);

pub(crate) async fn websocket(tls: ClientConfig, addr: SocketAddr) -> Result<Halves, Failure> {
    let stream = TcpStream::connect(addr).await?;
    stream.set_nodelay(true)?;
    let connector = tokio_rustls::TlsConnector::from(Arc::new(tls));
    let name = ServerName::try_from("localhost")?;
    let mut stream = connector.connect(name, stream).await?;
    let target = "/socket.io/?EIO=4&transport=websocket";
    let mut request = Vec::new();
    write_request(&mut request, "localhost", target, KEY, b"");
    stream.write_all(&request).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    Ok(tokio::io::split(stream))
}

pub(crate) async fn say(
    send: &mut (impl AsyncWrite + Unpin),
    packet: &str,
    webtransport: bool,
) -> Result<(), Failure> {
    let mut out = Vec::new();
    let packet = packet.as_bytes();
    if webtransport {
        let mut frame = Vec::new();
        write_frame(&mut frame, OpCode::Text, packet);
        let translated = ToClient::default().translate(&frame, &mut out);
        translated.map_err(|why| why.text())?;
    } else {
        write_masked(&mut out, true, OpCode::Text, packet, [1, 2, 3, 4]);
    }
    send.write_all(&out).await?;
    send.flush().await?;
    Ok(())
}

#[derive(Default)]
pub(crate) struct Ear {
    to_hub: ToHub,
    read: Vec<u8>,
}

impl Ear {
    /// The next text. Nothing is lost when this is dropped while it waits.
    pub(crate) async fn next(
        &mut self,
        recv: &mut (impl AsyncRead + Unpin),
        webtransport: bool,
    ) -> Result<String, Failure> {
        loop {
            if let Ok(Some(header)) = parse_header(&self.read) {
                let end = header.len + header.payload_len as usize;
                if let Some(payload) = self.read.get(header.len..end) {
                    let text = String::from_utf8_lossy(payload).into_owned();
                    self.read.drain(..end);
                    return Ok(text);
                }
            }
            let mut buf = vec![0; 16_384];
            let len = recv.read(&mut buf).await?;
            match len {
                0 => return Err("the session ended".into()),
                _ if webtransport => self
                    .to_hub
                    .translate(&buf[..len], &mut self.read)
                    .map_err(|why| why.text())?,
                _ => self.read.extend_from_slice(&buf[..len]),
            }
        }
    }
}
