//! Connections of the operators' listener. They are few, they send their requests soon, and they do not stay for ever: a
//! forgotten scraper must not take the place of the one that looks for trouble.

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::collections::HashMap;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

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
    conns_max: usize,
) -> io::Result<()> {
    let places = Places::default();
    for id in 0.. {
        let stream = loop {
            match listener.accept().await {
                Ok((stream, _)) => break stream,
                Err(error) => {
                    tracing::debug!(%error, "cannot accept an admin connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        };
        let place = places.make(id, conns_max);
        let task = tokio::spawn(converse(stream, routes.clone(), place));
        places.settle(id, task.abort_handle());
    }
    Ok(())
}

/// Who is connected, and since when nothing was heard of each.
#[derive(Clone, Debug, Default)]
struct Places(Arc<Mutex<HashMap<u64, Seat>>>);

#[derive(Debug)]
struct Seat {
    heard: Instant,
    task: Option<AbortHandle>,
}

/// A connection's place; free when this is dropped.
#[derive(Debug)]
struct Place {
    id: u64,
    places: Places,
}

impl Places {
    /// A place for a new connection. When all are taken, the one that was silent for longest goes: whoever only holds a place
    /// cannot keep others out.
    fn make(&self, id: u64, conns_max: usize) -> Place {
        let mut seats = self.seats();
        if seats.len() >= conns_max {
            let oldest = seats.iter().min_by_key(|(_, seat)| seat.heard);
            let oldest = oldest.map(|(id, _)| *id);
            let left = oldest.and_then(|id| seats.remove(&id));
            if let Some(task) = left.and_then(|seat| seat.task) {
                tracing::debug!(conns_max, "an admin connection gives its place to another");
                task.abort();
            }
        }
        let heard = Instant::now();
        seats.insert(id, Seat { heard, task: None });
        let places = self.clone();
        Place { id, places }
    }

    fn settle(&self, id: u64, task: AbortHandle) {
        if let Some(seat) = self.seats().get_mut(&id) {
            seat.task = Some(task);
        }
    }

    fn seats(&self) -> MutexGuard<'_, HashMap<u64, Seat>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    fn heard(&self) {
        if let Some(seat) = self.places.seats().get_mut(&self.id) {
            seat.heard = Instant::now();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.seats().remove(&self.id);
    }
}

async fn converse(stream: TcpStream, routes: Router, place: Place) {
    let routes = TowerToHyperService::new(routes);
    let service = service_fn(|request: Request<Incoming>| {
        place.heard();
        routes.call(request)
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
