//! Sessions by WebTransport and by WebSocket (both by TLS 1.3), and how long a question takes on each: `benchmarks/webtransport.py` plays
//! it over a network that loses and delays packets.
//!
//! lossy ADDR CERT websocket|webtransport SESSIONS QUESTIONS INTERVAL_MS BYTES

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::collections::BTreeMap;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use web_transport_quinn::proto::ConnectRequest;
use web_transport_quinn::quinn::{self, Endpoint, crypto::rustls::QuicClientConfig};
use web_transport_quinn::{ALPN, Session};
use wire::engineio::webtransport::{ToClient, ToHub};
use wire::websocket::frame::{OpCode, parse_header, write_frame, write_masked};
use wire::websocket::handshake::write_request;

type Failure = Box<dyn Error + Send + Sync>;
/// What is late counts as this.
const PATIENCE: Duration = Duration::from_secs(30);
const KEY: &[u8; 24] = b"dGhlIHNhbXBsZSBub25jZQ==";

struct Plan {
    addr: SocketAddr,
    webtransport: bool,
    questions: usize,
    interval: Duration,
    bytes: usize,
    tls: ClientConfig,
}

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [addr, cert, transport, sessions, questions, interval, bytes] = args.as_slice() else {
        return Err(
            "lossy ADDR CERT websocket|webtransport SESSIONS QUESTIONS INTERVAL_MS BYTES".into(),
        );
    };
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(cert)?)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let plan = Arc::new(Plan {
        addr: addr.parse()?,
        webtransport: transport == "webtransport",
        questions: questions.parse()?,
        interval: Duration::from_millis(interval.parse()?),
        bytes: bytes.parse()?,
        tls,
    });
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime
        .enable_all()
        .build()?
        .block_on(measure(plan, sessions.parse()?))
}

async fn measure(plan: Arc<Plan>, sessions: usize) -> Result<(), Failure> {
    let endpoint = Arc::new(Endpoint::client("0.0.0.0:0".parse()?)?);
    let mut tasks = Vec::new();
    for _ in 0..sessions {
        let (plan, endpoint) = (Arc::clone(&plan), Arc::clone(&endpoint));
        tasks.push(tokio::spawn(async move { session(&plan, &endpoint).await }));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let (mut took, mut failed) = (Vec::new(), 0);
    for task in tasks {
        match task.await? {
            Ok(more) => took.extend(more),
            Err(error) => {
                eprintln!("a session failed: {error}");
                failed += 1;
            }
        }
    }
    took.sort();
    let at = |part: f64| {
        let index = (took.len() as f64 * part) as usize;
        took.get(index.min(took.len().saturating_sub(1)))
            .map_or(0.0, |took| took.as_secs_f64() * 1e3)
    };
    let answers = took.len();
    println!(
        "{{\"sessions\":{sessions},\"failed\":{failed},\"answers\":{answers},\"p50_ms\":{:.1},\"p90_ms\":{:.1},\"p99_ms\":{:.1},\"max_ms\":{:.1}}}",
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0)
    );
    Ok(())
}

async fn session(plan: &Plan, endpoint: &Endpoint) -> Result<Vec<Duration>, Failure> {
    if plan.webtransport {
        let mut tls = plan.tls.clone();
        tls.alpn_protocols = vec![ALPN.as_bytes().to_vec()];
        let config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
        let conn = endpoint
            .connect_with(config, plan.addr, "localhost")?
            .await?;
        let url: url::Url = format!("https://localhost:{}/socket.io/", plan.addr.port()).parse()?;
        let session = Session::connect(conn, ConnectRequest::new(url)).await?;
        let (send, recv) = session.open_bi().await?;
        return talk(plan, recv, send, true).await;
    }
    let stream = TcpStream::connect(plan.addr).await?;
    stream.set_nodelay(true)?;
    let connector = tokio_rustls::TlsConnector::from(Arc::new(plan.tls.clone()));
    let mut stream = connector
        .connect(ServerName::try_from("localhost")?, stream)
        .await?;
    let mut request = Vec::new();
    write_request(
        &mut request,
        "localhost",
        "/socket.io/?EIO=4&transport=websocket",
        KEY,
        b"",
    );
    stream.write_all(&request).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let (recv, send) = tokio::io::split(stream);
    talk(plan, recv, send, false).await
}

/// Questions at their times, whatever the answers do, and how long each took.
async fn talk(
    plan: &Plan,
    mut recv: impl AsyncRead + Unpin,
    mut send: impl AsyncWrite + Unpin,
    webtransport: bool,
) -> Result<Vec<Duration>, Failure> {
    let mut ear = Ear::default();
    if webtransport {
        send.write_all(&[1, b'0']).await?;
    }
    say(&mut send, "40", webtransport).await?;
    while !ear.next(&mut recv, webtransport).await?.starts_with("40{") {}
    let text = "x".repeat(plan.bytes);
    let (mut asked, mut took, mut next) = (BTreeMap::new(), Vec::new(), Instant::now());
    let mut number = 0;
    let mut deadline = Instant::now() + PATIENCE;
    while took.len() < plan.questions {
        tokio::select! {
            () = tokio::time::sleep_until(next.into()), if number < plan.questions => {
                asked.insert(number, Instant::now());
                say(&mut send, &format!("42{number}[\"echo\",\"{text}\"]"), webtransport).await?;
                number += 1;
                next += plan.interval;
                deadline = Instant::now() + PATIENCE;
            }
            () = tokio::time::sleep_until(deadline.into()) => return Err("no answer".into()),
            heard = ear.next(&mut recv, webtransport) => {
                let heard = heard?;
                if heard == "2" {
                    say(&mut send, "3", webtransport).await?;
                } else if let Some(answer) = heard.strip_prefix("43") {
                    let digits = answer.split('[').next().unwrap_or_default();
                    took.extend(asked.remove(&digits.parse()?).map(|at| at.elapsed()));
                }
            }
        }
    }
    if plan.questions == 0 {
        tokio::time::sleep(plan.interval).await;
    }
    Ok(took)
}

async fn say(
    send: &mut (impl AsyncWrite + Unpin),
    packet: &str,
    webtransport: bool,
) -> Result<(), Failure> {
    let mut out = Vec::new();
    if webtransport {
        let mut frame = Vec::new();
        write_frame(&mut frame, OpCode::Text, packet.as_bytes());
        ToClient::default()
            .translate(&frame, &mut out)
            .map_err(|why| why.text())?;
    } else {
        write_masked(
            &mut out,
            true,
            OpCode::Text,
            packet.as_bytes(),
            [1, 2, 3, 4],
        );
    }
    send.write_all(&out).await?;
    send.flush().await?;
    Ok(())
}

#[derive(Default)]
struct Ear {
    to_hub: ToHub,
    read: Vec<u8>,
}

impl Ear {
    /// The next text. Nothing is lost when this is dropped while it waits.
    async fn next(
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
            let mut buf = [0; 16_384];
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
