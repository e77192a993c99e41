//! Connections of the operators' listener. They are few, they send their requests soon, and they do not stay for ever: a
//! forgotten scraper must not take the place of the one that looks for trouble.

use axum::Router;
use hub::Places;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use process::owed::Owed;
use process::seats::{Peer, Seats};
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// A request head must be complete by then, counted from the end of the answer before it.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// After this a connection ends with the answer it is at.
pub const AGE_MAX: Duration = Duration::from_secs(600);
/// Time for that answer.
const LAST_ANSWER: Duration = Duration::from_secs(30);
/// After a failed accept: what is missing (descriptors) does not come back at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until the runtime ends.
pub(crate) async fn serve(
    listener: TcpListener,
    routes: Router,
    (places, conns_max): (&Arc<Places>, usize),
    displaced: &AtomicU64,
    owed: &Arc<Owed>,
) -> io::Result<()> {
    let seats = Seats::new(places);
    loop {
        seats.settle().await;
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "cannot accept an admin connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (mut seat, taken) = seats.take(conns_max);
        if taken {
            displaced.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(conns_max, "an admin connection gives its place to another");
        }
        let (routes, owed) = (routes.clone(), Arc::clone(owed));
        tokio::spawn(async move {
            let peer = seat.peer().clone();
            tokio::select! {
                () = converse(stream, routes, peer, owed) => {}
                () = seat.lost() => {}
            }
        });
    }
}

async fn converse(stream: TcpStream, routes: Router, peer: Peer, owed: Arc<Owed>) {
    let routes = TowerToHyperService::new(routes);
    let stays = peer.clone();
    let first = Mutex::new(Some(owed.one()));
    let service = service_fn(|mut request: Request<Incoming>| {
        peer.heard();
        request.extensions_mut().insert(peer.clone());
        let first = first.lock().unwrap_or_else(PoisonError::into_inner).take();
        let owes = first.unwrap_or_else(|| owed.one());
        let answer = routes.call(request);
        async move {
            let answer = answer.await;
            drop(owes);
            answer
        }
    });
    let conn = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    let mut conn = pin!(conn);
    let ended = tokio::time::timeout(AGE_MAX, conn.as_mut()).await;
    let ended = match ended {
        Ok(ended) => ended,
        Err(_) => {
            conn.as_mut().graceful_shutdown();
            match tokio::time::timeout(LAST_ANSWER.max(stays.stays()), conn).await {
                Ok(ended) => ended,
                Err(_) => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "admin connection ended");
    }
}
