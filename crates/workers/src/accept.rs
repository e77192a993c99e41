//! Connections of the workers' listener: TLS, how many there may be, and which protocol each speaks.

use super::conn::{Bytes, Conn};
use super::link;
use super::pipe::MAGIC;
use super::service::{LINES, Workers};
use super::standstill::Gone;
use arc_swap::ArcSwap;
use hub::Places;
use process::flood::Lines;
use process::seats::{Seat, Seats};
use rustls::ServerConfig;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio_rustls::TlsAcceptor;
use tonic::codegen::tokio_stream::Stream;
use tonic::service::Routes;

/// A peer's part of the handshake comes by then, and behind it the first bytes.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// After a failed accept: what is missing (descriptors) does not come back at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Connections that the server has not taken yet.
const WAITING_MAX: usize = 16;
/// Calls at once on one connection; others wait for their turn at the caller's side.
const STREAMS_MAX: u32 = 128;
const PING_INTERVAL: Duration = Duration::from_secs(5);

/// What handshakes with workers use. It may change while they come.
#[derive(Clone, Debug)]
pub struct Secured(Arc<ArcSwap<ServerConfig>>);

impl Secured {
    pub fn new(config: Arc<ServerConfig>) -> Self {
        Self(Arc::new(ArcSwap::new(config)))
    }

    pub fn set(&self, config: Arc<ServerConfig>) {
        self.0.store(config);
    }
}

/// Where workers attach.
#[derive(Debug)]
pub struct Listener {
    pub socket: Socket,
    /// None: without TLS.
    pub secured: Option<Secured>,
    pub conns_max: usize,
    /// Of clients, for more than a few of them.
    pub places: Arc<Places>,
    /// Another process accepts from it.
    pub gone: Gone,
    /// The server API, which has the same address.
    pub api: Routes,
}

/// It is nonblocking.
#[derive(Debug)]
pub enum Socket {
    Tcp(std::net::TcpListener),
    Unix(UnixListener),
}

impl Socket {
    /// As configurations have it.
    pub fn address(&self) -> io::Result<String> {
        Ok(match self {
            Self::Tcp(listener) => listener.local_addr()?.to_string(),
            Self::Unix(listener) => {
                let addr = listener.local_addr()?;
                let path = addr.as_pathname().unwrap_or(Path::new(""));
                format!("unix:{}", path.display())
            }
        })
    }

    /// For another process.
    pub fn try_clone(&self) -> io::Result<OwnedFd> {
        let socket = match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
        };
        socket.try_clone_to_owned()
    }
}

/// The same in a runtime.
enum Door {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener),
}

impl Door {
    fn open(socket: Socket) -> io::Result<Self> {
        Ok(match socket {
            Socket::Tcp(listener) => Self::Tcp(tokio::net::TcpListener::from_std(listener)?),
            Socket::Unix(listener) => Self::Unix(tokio::net::UnixListener::from_std(listener)?),
        })
    }

    async fn accept(&self) -> io::Result<Bytes> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // Small frames go both ways: none waits for the next. A failure costs time only.
                let _ = stream.set_nodelay(true);
                Ok(Bytes::Tcp(stream))
            }
            Self::Unix(listener) => Ok(Bytes::Unix(listener.accept().await?.0)),
        }
    }
}

/// Connections that may speak, one after the other.
struct Incoming(Receiver<Conn>);

impl Listener {
    /// In the runtime that this is called in.
    fn open(self, workers: Workers) -> io::Result<Incoming> {
        let door = Door::open(self.socket)?;
        let (ready, incoming) = channel(WAITING_MAX);
        let room = (self.places, self.conns_max);
        let served = Served { ready, workers };
        let mut gone = self.gone;
        tokio::spawn(async move {
            tokio::select! {
                () = accept(door, self.secured, room, served) => {}
                () = gone.happens() => {}
            }
        });
        Ok(Incoming(incoming))
    }
}

/// The services for connections that may speak.
#[derive(Clone)]
struct Served {
    /// Those that speak HTTP/2.
    ready: Sender<Conn>,
    /// Links without it.
    workers: Workers,
}

async fn accept(
    door: Door,
    secured: Option<Secured>,
    (places, conns_max): (Arc<Places>, usize),
    served: Served,
) {
    let (seats, lines) = (Seats::new(&places), Lines::new(LINES));
    loop {
        seats.settle().await;
        let stream = match door.accept().await {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a worker's connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (seat, taken) = seats.take(conns_max);
        if taken {
            let displaced = &served.workers.host.facts.displaced;
            displaced.fetch_add(1, Ordering::Relaxed);
            if lines.admit() {
                tracing::warn!(
                    conns_max,
                    "a worker's connection gives its place to another (workers.conns_max, or fewer if descriptors do not suffice)"
                );
            }
        }
        let lines = lines.clone();
        tokio::spawn(welcome(
            stream,
            seat,
            secured.clone(),
            served.clone(),
            lines,
        ));
    }
}

/// Nobody waits for another's handshake.
async fn welcome(
    stream: Bytes,
    mut seat: Seat,
    secured: Option<Secured>,
    served: Served,
    lines: Lines,
) {
    let peer = match &stream {
        Bytes::Tcp(stream) => stream.peer_addr().ok(),
        _ => None,
    };
    let shaken = tokio::select! {
        shaken = shake_hands(stream, secured) => shaken,
        // Its place is another's: none is open without one.
        () = seat.lost() => return,
    };
    let mut conn = match shaken {
        Ok(bytes) => Conn::new(bytes, seat),
        Err(error) => {
            if lines.admit() {
                tracing::warn!(?peer, %error, "worker refused: the TLS handshake failed");
            }
            return;
        }
    };
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, conn.says(&MAGIC)).await {
        Ok(Ok(true)) => {
            let known = conn.peer().clone();
            link::serve(conn, served.workers, known).await;
        }
        // The server may be gone: then so is the process.
        Ok(Ok(false)) => drop(served.ready.send(conn).await),
        Ok(Err(_)) => {}
        Err(_) if lines.admit() => {
            tracing::warn!(?peer, "worker refused: it said nothing for 10 s");
        }
        Err(_) => {}
    }
}

async fn shake_hands(stream: Bytes, secured: Option<Secured>) -> io::Result<Bytes> {
    let (stream, secured) = match (stream, secured) {
        (Bytes::Tcp(stream), Some(secured)) => (stream, secured),
        (stream, _) => return Ok(stream),
    };
    let acceptor = TlsAcceptor::from(secured.0.load_full());
    let shaken = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await;
    let stream = shaken.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
    Ok(Bytes::Tls(Box::new(stream)))
}

impl Stream for Incoming {
    type Item = io::Result<Conn>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|conn| conn.map(Ok))
    }
}

/// Accepts workers until the process ends.
pub(super) async fn serve(listener: Listener, workers: Workers) {
    let api = listener.api.clone();
    let incoming = match listener.open(workers.clone()) {
        Ok(incoming) => incoming,
        Err(error) => return tracing::error!(%error, "cannot listen for workers"),
    };
    let server = tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(PING_INTERVAL))
        .http2_keepalive_timeout(Some(2 * PING_INTERVAL))
        .max_concurrent_streams(Some(STREAMS_MAX))
        .add_routes(api)
        .add_service(workers);
    if let Err(error) = server.serve_with_incoming(incoming).await {
        tracing::error!(%error, "the listener for workers ended");
    }
}
