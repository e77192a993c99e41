//! Connections of the operators' listener. They are few, they send their requests soon, and they do not stay for ever: a
//! forgotten scraper must not take the place of the one that looks for trouble.

use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// A request head must be complete by then, counted from the end of the answer before it.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// After this a connection ends with the answer it is at.
pub const AGE_MAX: Duration = Duration::from_secs(600);
/// Time for that answer.
const LAST_ANSWER: Duration = Duration::from_secs(30);
/// After a failed accept: what is missing (descriptors) does not come back at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const OVERLOADED: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n\
    Content-Length: 0\r\nConnection: close\r\n\r\n";

/// Serves until the runtime ends.
pub(crate) async fn serve(
    listener: TcpListener,
    routes: Router,
    conns_max: usize,
) -> io::Result<()> {
    let places = Arc::new(Semaphore::new(conns_max));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "cannot accept an admin connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        match Arc::clone(&places).try_acquire_owned() {
            Ok(place) => {
                let routes = routes.clone();
                tokio::spawn(async move {
                    converse(stream, routes).await;
                    drop(place);
                });
            }
            Err(_) => refuse(stream).await,
        }
    }
}

/// One attempt: a socket that has not been written to has room for a line.
async fn refuse(mut stream: TcpStream) {
    let answer = stream.write_all(OVERLOADED);
    let _ = tokio::time::timeout(ACCEPT_PAUSE, answer).await;
}

async fn converse(stream: TcpStream, routes: Router) {
    let conn = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    let mut conn = pin!(conn);
    let ended = tokio::time::timeout(AGE_MAX, conn.as_mut()).await;
    let ended = match ended {
        Ok(ended) => ended,
        Err(_) => {
            conn.as_mut().graceful_shutdown();
            match tokio::time::timeout(LAST_ANSWER, conn).await {
                Ok(ended) => ended,
                Err(_) => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "admin connection ended");
    }
}
