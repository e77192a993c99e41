//! Bodies for those who have their addresses.

use super::Bodies;
use super::books::{Books, add};
use super::key::{Form, Key};
use super::range::{self, Wanted};
use super::refusal::Refusal;
use super::sign::{Bad, Good, ROOT};
use super::stall::Ours;
use axum::body::{Body, Bytes};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use object_store::GetResult;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::codegen::tokio_stream::Stream;

/// A page that somebody opens from such an address can do nothing.
const CONTENT_POLICY: &str = "default-src 'none'; sandbox";
const UNKNOWN_TYPE: &str = "application/octet-stream";

pub(crate) async fn give(
    bodies: &Arc<Bodies>,
    head: &Parts,
    ours: &Ours,
) -> Result<Response<Body>, Refusal> {
    let name = head.uri.path().strip_prefix(ROOT).unwrap_or_default();
    let missing = || Refusal::new(404, "NOT_FOUND", "there is no such body");
    let key = Key::parse(name).ok_or_else(missing)?;
    let query = head.uri.query().unwrap_or_default();
    let good = bodies.signer.check(&key, query).map_err(|bad| match bad {
        Bad::Forged => Refusal::new(403, "FORBIDDEN", "this address was not made here"),
        Bad::Expired => Refusal::new(410, "EXPIRED", "the time of this address is up"),
    })?;
    let _turn = ours.turn();
    let etag = format!("\"{key}\"");
    if is_known(&head.headers, &etag) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        insert(response.headers_mut(), header::ETAG, &etag);
        return Ok(response);
    }
    let asked = text(&head.headers, header::RANGE);
    // Another body under the same name there never is: only the name can differ.
    let asked = asked.filter(|_| {
        let known = text(&head.headers, header::IF_RANGE);
        known.is_none_or(|known| known == etag)
    });
    let is_head = head.method == Method::HEAD;
    let mut response = match (is_head, asked) {
        (true, _) => {
            let size = bodies.store.size(&key).await?;
            let mut response = Response::new(Body::empty());
            insert(
                response.headers_mut(),
                header::CONTENT_LENGTH,
                &size.to_string(),
            );
            response
        }
        (false, None) => whole(bodies.store.get(&key, None).await?, &bodies.books),
        (false, asked) => {
            let size = bodies.store.size(&key).await?;
            match range::wanted(asked, size) {
                Wanted::Whole => whole(bodies.store.get(&key, None).await?, &bodies.books),
                Wanted::Part(range) => {
                    let found = bodies.store.get(&key, Some(range)).await?;
                    part(found, size, &bodies.books)
                }
                Wanted::Nothing => {
                    let mut response = Response::new(Body::empty());
                    *response.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
                    let span = format!("bytes */{size}");
                    insert(response.headers_mut(), header::CONTENT_RANGE, &span);
                    return Ok(response);
                }
            }
        }
    };
    describe(response.headers_mut(), &key, &good, &etag);
    Ok(response)
}

fn describe(headers: &mut HeaderMap, key: &Key, good: &Good, etag: &str) {
    let said = good.media_type.as_deref().unwrap_or(UNKNOWN_TYPE);
    let media_type = match key.form() {
        Form::Upload => said,
        form => form.media_type().unwrap_or(UNKNOWN_TYPE),
    };
    insert(headers, header::CONTENT_TYPE, media_type);
    insert(headers, header::ETAG, etag);
    let fresh = format!("private, max-age={}", good.seconds_left);
    insert(headers, header::CACHE_CONTROL, &fresh);
    for (name, value) in [
        (header::ACCEPT_RANGES, "bytes"),
        (header::CONTENT_DISPOSITION, "attachment"),
        (header::CONTENT_SECURITY_POLICY, CONTENT_POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

fn whole(found: GetResult, books: &Arc<Books>) -> Response<Body> {
    let size = found.range.end - found.range.start;
    let mut response = Response::new(streamed(found, books));
    insert(
        response.headers_mut(),
        header::CONTENT_LENGTH,
        &size.to_string(),
    );
    response
}

fn part(found: GetResult, size: u64, books: &Arc<Books>) -> Response<Body> {
    let range = found.range.clone();
    let mut response = whole(found, books);
    *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    let span = format!("bytes {}-{}/{size}", range.start, range.end - 1);
    insert(response.headers_mut(), header::CONTENT_RANGE, &span);
    response
}

fn streamed(found: GetResult, books: &Arc<Books>) -> Body {
    Body::from_stream(Counted {
        pieces: found.into_stream(),
        books: Arc::clone(books),
    })
}

struct Counted<S> {
    pieces: S,
    books: Arc<Books>,
}

impl<S: Stream<Item = object_store::Result<Bytes>> + Unpin> Stream for Counted<S> {
    type Item = object_store::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let piece = Pin::new(&mut self.pieces).poll_next(cx);
        if let Poll::Ready(Some(Ok(piece))) = &piece {
            add(&self.books.sent_bytes, piece.len() as u64);
        }
        piece
    }
}

fn is_known(headers: &HeaderMap, etag: &str) -> bool {
    let known = text(headers, header::IF_NONE_MATCH).unwrap_or_default();
    let mut known = known.split(',').map(str::trim);
    known.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// All values are texts of ours, or were checked when they came.
fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}
