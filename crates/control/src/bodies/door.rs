//! HTTP for bodies: connections that shards handed over because their path is one of these. One request each, with deadlines of
//! their own: a transfer takes longer than a page.

use super::books::{Open, Outcomes};
use super::quota::Entry;
use super::refusal::Refusal;
use super::sign::{ROOT, UPLOAD};
use super::stall::{Ours, Stall};
use super::{Bodies, download, upload};
use crate::page::{ClientAddress, HEAD_TIMEOUT};
use crate::replay::Replay;
use axum::body::Body;
use hub::config::Cors;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use process::stream::Stream;
use std::convert::Infallible;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::OwnedSemaphorePermit;
use tonic::codegen::Body as _;

/// Of one connection, for what it sends and for what it gets.
const BUFFER_BYTES: usize = 64 * 1024;
/// Bytes that a client sends after it was refused are thrown away up to here, so that it reads the answer.
const REFUSED_BYTES: usize = 8 << 20;
const REFUSED_TIME: Duration = Duration::from_secs(5);

impl Bodies {
    /// Whether a connection whose first bytes are these is for this part.
    pub(crate) fn serves(&self, read: &[u8]) -> bool {
        let target = read.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
        let path = target
            .split(|byte| *byte == b'?')
            .next()
            .unwrap_or_default();
        path.starts_with(ROOT.as_bytes()) || path == UPLOAD.as_bytes()
    }

    /// Takes a connection, the bytes already read from it, and its client's address. Never blocks.
    pub(crate) fn accept(self: &Arc<Self>, mut stream: Stream, read: Vec<u8>, peer: IpAddr) {
        let Some(place) = self.place(peer) else {
            // Clients come again: `Retry-After` is in it.
            return stream.overloaded();
        };
        let bodies = Arc::clone(self);
        self.runtime.spawn(async move {
            match stream.open() {
                Ok(stream) => serve(&bodies, Replay::new(read, stream), peer, place).await,
                Err(error) => tracing::warn!(%peer, %error, "cannot take over a connection"),
            }
        });
    }

    /// `None`: there are none, or this address has its share of them.
    fn place(&self, peer: IpAddr) -> Option<Place> {
        let permit = Arc::clone(&self.transfers).try_acquire_owned().ok()?;
        let of_address = self.addresses.begin(peer).ok()?;
        Some(Place(Arc::new((permit, of_address, self.books.open()))))
    }

    async fn respond(self: &Arc<Self>, request: Request<Incoming>, ours: Ours) -> Response<Body> {
        let (head, mut body) = request.into_parts();
        let is_upload = head.uri.path() == UPLOAD;
        let outcomes = match is_upload {
            true => &self.books.uploads,
            false => &self.books.downloads,
        };
        let answered = match (&head.method, is_upload) {
            (&Method::OPTIONS, _) => Ok(preflight(is_upload)),
            (&Method::POST, true) => upload::take(self, &head, &mut body, &ours).await,
            (&Method::GET | &Method::HEAD, false) => download::give(self, &head, &ours).await,
            (_, true) => Err(wrong_method("POST, OPTIONS")),
            (_, false) => Err(wrong_method("GET, HEAD, OPTIONS")),
        };
        let mut response = answered.unwrap_or_else(|refusal| {
            tokio::spawn(discard(body));
            refused(&refusal)
        });
        note(outcomes, &head.method, response.status());
        let headers = response.headers_mut();
        headers.insert(
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        );
        allow_origin(&self.settings.cors, &head.headers, headers);
        response
    }
}

fn note(outcomes: &Outcomes, method: &Method, status: StatusCode) {
    if method != Method::OPTIONS {
        outcomes.of_status(status.as_u16());
    }
}

/// Of a transfer that is under way. What goes on without its client keeps it.
#[derive(Clone, Debug)]
struct Place(
    #[expect(dead_code, reason = "it is held")] Arc<(OwnedSemaphorePermit, Entry<IpAddr>, Open)>,
);

async fn serve<S>(bodies: &Arc<Bodies>, stream: Replay<S>, peer: IpAddr, place: Place)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let ours = Ours::default();
    let settings = &bodies.settings;
    let pace = Arc::clone(&bodies.pace);
    let stream = Stall::new(stream, settings.idle_timeout, ours.clone(), pace);
    let service = service_fn(|mut request: Request<Incoming>| {
        request.extensions_mut().insert(ClientAddress(peer));
        request.extensions_mut().insert(place.clone());
        let (bodies, ours) = (Arc::clone(bodies), ours.clone());
        async move {
            let (method, path) = (request.method().clone(), request.uri().path().to_owned());
            let response = bodies.respond(request, ours).await;
            // Never the query: an address is a key to its body.
            let status = response.status().as_u16();
            tracing::debug!(%peer, %method, path, status, "body");
            Ok::<_, Infallible>(response)
        }
    });
    let conn = hyper::server::conn::http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(BUFFER_BYTES)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    match tokio::time::timeout(settings.transfer_timeout, conn).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            bodies.books.downloads.cut();
            tracing::debug!(%peer, %error, "a transfer ended");
        }
        Err(_) => {
            bodies.books.downloads.cut();
            tracing::debug!(%peer, "a transfer took too long (large.transfer_timeout)");
        }
    }
}

/// Reads what a refused client is still sending.
async fn discard(mut body: Incoming) {
    let all = async {
        let mut left = REFUSED_BYTES;
        while let Some(Ok(piece)) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            let bytes = piece.data_ref().map_or(0, |data| data.len());
            let Some(rest) = left.checked_sub(bytes) else {
                return;
            };
            left = rest;
        }
    };
    let _ = tokio::time::timeout(REFUSED_TIME, all).await;
}

fn wrong_method(known: &'static str) -> Refusal {
    Refusal::new(405, "METHOD_NOT_ALLOWED", known)
}

fn refused(refusal: &Refusal) -> Response<Body> {
    let Refusal {
        code: error,
        message,
        ..
    } = refusal;
    let body = serde_json::json!({ "error": error, "message": message });
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = refusal.status;
    let headers = response.headers_mut();
    let json = HeaderValue::from_static("application/json");
    headers.insert(header::CONTENT_TYPE, json);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if refusal.status == StatusCode::METHOD_NOT_ALLOWED
        && let Ok(known) = HeaderValue::from_str(message)
    {
        headers.insert(header::ALLOW, known);
    }
    if refusal.status == StatusCode::UNAUTHORIZED {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(seconds) = refusal.retry_after_seconds {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

fn preflight(is_upload: bool) -> Response<Body> {
    let (methods, names) = match is_upload {
        true => ("POST", "authorization, content-type"),
        false => ("GET, HEAD", "range, if-range, if-none-match"),
    };
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::ACCESS_CONTROL_ALLOW_METHODS, methods),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, names),
        (header::ACCESS_CONTROL_MAX_AGE, "600"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Neither cookies nor certificates are asked for, so credentials are never allowed.
fn allow_origin(cors: &Cors, asked: &HeaderMap, headers: &mut HeaderMap) {
    let origin = asked.get(header::ORIGIN);
    let allowed = match cors {
        Cors::Off => None,
        Cors::Any => Some(HeaderValue::from_static("*")),
        Cors::Origins(_) => {
            headers.append(header::VARY, HeaderValue::from_static("Origin"));
            origin
                .filter(|origin| cors.names(origin.as_bytes()))
                .cloned()
        }
    };
    let Some(allowed) = allowed else { return };
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
    let exposed = HeaderValue::from_static("content-range, content-disposition, etag, retry-after");
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    let shared = HeaderValue::from_static("cross-origin");
    headers.insert(
        HeaderName::from_static("cross-origin-resource-policy"),
        shared,
    );
}
