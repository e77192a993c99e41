//! The operators' listener before the node can be operated: it is alive, and not ready.

use super::{alive, conns, metrics_of, reply};
use crate::metrics::Exporter;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::map_response;
use axum::response::Response;
use axum::routing::get;
use hub::Places;
use process::health::Readiness;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tokio::net::TcpListener;

/// Seconds.
const COME_AGAIN: HeaderValue = HeaderValue::from_static("2");

/// What can be asked then.
#[derive(Clone, Debug)]
pub struct Starting {
    pub readiness: Readiness,
    /// `None`: they need a key.
    pub metrics: Option<Arc<Exporter>>,
    pub conns_max: usize,
    pub places: Arc<Places>,
}

impl Starting {
    /// Serves until it is dropped.
    ///
    /// # Errors
    /// The listener failed.
    pub async fn serve(self, listener: TcpListener) -> io::Result<()> {
        let (places, conns_max) = (Arc::clone(&self.places), self.conns_max);
        let routes = Router::new()
            .route("/health", get(alive))
            .route("/ready", get(ready))
            .route("/metrics", get(metrics))
            .fallback(later)
            .layer(map_response(last))
            .with_state(self);
        let room = (&places, conns_max);
        let (displaced, owed) = (AtomicU64::new(0), Arc::default());
        conns::serve(listener, routes, room, &displaced, &owed).await
    }
}

/// The next request of a connection is for the node itself, if there is one by then.
async fn last(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

async fn ready(State(starting): State<Starting>) -> Response {
    let (status, body) = starting.readiness.answer();
    reply(status, body.to_string())
}

async fn metrics(State(starting): State<Starting>, headers: HeaderMap) -> Response {
    match starting.metrics {
        Some(exporter) => metrics_of(exporter, None, headers).await,
        None => later().await,
    }
}

async fn later() -> Response {
    let mut response = reply(503, r#"{"error":"STARTING"}"#.to_owned());
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, COME_AGAIN);
    response
}
