//! HTTP for connections that turned out not to be realtime: a shard accepted them, read their first
//! bytes, saw another path and handed them over. Chat page, client bundles, health.
//!
//! One request a connection: a browser keeps connections open and sends realtime requests over the
//! same one, and those have to arrive at a shard.

pub(crate) mod limiter;

pub use limiter::PageRate;

use crate::assets::{self, Asset, Coding};
use crate::bodies::{self, Bodies};
use crate::metrics::node::Node;
use crate::replay::Replay;
use axum::body::Body;
use hub::Places;
use hub::config::{Cors, PROBES};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use limiter::{Limiter, Standing};
use process::health::{self, Readiness};
use process::stream::Stream;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;

/// Connections answered at once; more get 503.
pub const CONNS_MAX: usize = 1_024;
/// Health checks answered at once, beside all else: slow readers of pages must not make a node look dead.
pub const PROBES_MAX: usize = 32;
/// A request head must be complete by then.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The whole exchange must be over by then, however slowly the client reads.
pub const CONN_TIMEOUT: Duration = Duration::from_secs(60);

const CONTENT_POLICY: &str = "default-src 'self'; connect-src 'self' ws: wss:; img-src 'self' data:; \
    object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// What is served.
#[derive(Clone, Debug)]
pub struct PageConfig {
    /// The chat page at `/`.
    pub chat_page: bool,
    /// What `/` says where there is no page.
    pub doors: String,
    /// Serve the client bundles.
    pub serve_client: bool,
    /// Path of Socket.IO, with both slashes: the bundles are below it.
    pub socketio_path: String,
    /// Whose pages may load the bundles with credentials; all may without.
    pub cors: Cors,
}

/// Whether this part answers the path, so that nothing else can be served there.
pub fn is_reserved(path: &str, chat_page: bool) -> bool {
    let is_file = |name: &str| !name.is_empty() && assets::page(name, &[]).is_some();
    let is_ours = PROBES.contains(&path) || bodies::is_reserved(path);
    is_ours || (chat_page && path.strip_prefix('/').is_some_and(is_file))
}

/// Answers handed-over connections.
#[derive(Clone, Debug)]
pub struct Pages {
    runtime: tokio::runtime::Handle,
    conns: Arc<Semaphore>,
    probes: Arc<Semaphore>,
    places: Arc<Places>,
    site: Arc<Site>,
    /// The server of large bodies, if they are kept.
    bodies: Option<Arc<Bodies>>,
}

/// The asker, in a request's extensions: the client itself, also behind a trusted proxy. Counters and logs of requests by
/// address use this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress(pub IpAddr);

#[derive(Debug)]
struct Site {
    config: PageConfig,
    readiness: Readiness,
    /// And where its refusals are counted.
    limiter: Option<(Limiter, Arc<Node>)>,
}

impl Pages {
    /// Answers on the runtime this is called from. Connections keep the places that they had at their shards.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new(config: PageConfig, readiness: Readiness, places: &Arc<Places>) -> Self {
        Pages {
            runtime: tokio::runtime::Handle::current(),
            conns: Arc::new(Semaphore::new(CONNS_MAX)),
            probes: Arc::new(Semaphore::new(PROBES_MAX)),
            places: Arc::clone(places),
            site: Arc::new(Site {
                config,
                readiness,
                limiter: None,
            }),
            bodies: None,
        }
    }

    /// The same with large bodies.
    pub fn with_bodies(self, bodies: Option<Arc<Bodies>>) -> Self {
        Self { bodies, ..self }
    }

    /// The same with a bound on what one address may ask for; refusals are counted in `node`.
    pub fn limited(mut self, rate: PageRate, node: Arc<Node>) -> Self {
        if let Some(site) = Arc::get_mut(&mut self.site) {
            site.limiter = Some((Limiter::new(rate), node));
        }
        self
    }

    /// The keeper of large bodies, if there is one.
    pub fn bodies(&self) -> Option<&Arc<Bodies>> {
        self.bodies.as_ref()
    }

    /// Takes a connection, the bytes already read from it, and its client's address. Never blocks:
    /// shards call this in the middle of a turn.
    pub fn accept(&self, mut stream: Stream, read: Vec<u8>, peer: IpAddr) {
        if let Some(bodies) = self.bodies.as_ref().filter(|bodies| bodies.serves(&read)) {
            return bodies.accept(stream, read, peer);
        }
        let permits = match is_probe(&read) {
            true => &self.probes,
            false => &self.conns,
        };
        let Ok(permit) = Arc::clone(permits).try_acquire_owned() else {
            return stream.overloaded();
        };
        let (site, place) = (Arc::clone(&self.site), self.places.keep());
        self.runtime.spawn(async move {
            match stream.open() {
                Ok(stream) => serve(site, Replay::new(read, stream), peer).await,
                Err(error) => tracing::warn!(%peer, %error, "cannot take over a connection"),
            }
            drop((permit, place));
        });
    }
}

/// Whether a request is a health check, by its first line.
fn is_probe(read: &[u8]) -> bool {
    let target = read.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    let path = target.split(|byte| *byte == b'?').next();
    PROBES.iter().any(|probe| path == Some(probe.as_bytes()))
}

async fn serve<S>(site: Arc<Site>, stream: Replay<S>, peer: IpAddr)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ClientAddress(peer));
        let response = site.respond(&request);
        let (path, status) = (request.uri().path(), response.status().as_u16());
        tracing::debug!(%peer, method = %request.method(), path, status, "page");
        async move { Ok::<_, Infallible>(response) }
    });
    let conn = hyper::server::conn::http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    match tokio::time::timeout(CONN_TIMEOUT, conn).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%peer, %error, "page connection ended"),
        Err(_) => tracing::debug!(%peer, "page connection was too slow"),
    }
}

impl Site {
    fn respond(&self, request: &Request<Incoming>) -> Response<Body> {
        let standing = self.count(request);
        let mut response = match standing {
            Some(standing) if standing.is_over => too_many(&standing, request.headers()),
            _ => self.route(request.method(), request.uri().path(), request.headers()),
        };
        let headers = response.headers_mut();
        if let Some(standing) = standing {
            standing.write(headers);
        }
        headers.insert(
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        );
        response
    }

    /// Probes come often and from few addresses; files come several for each page, and a page without one of them is broken.
    /// Neither is counted.
    fn count(&self, request: &Request<Incoming>) -> Option<Standing> {
        let (limiter, node) = self.limiter.as_ref()?;
        let path = request.uri().path();
        if is_reserved(path, self.config.chat_page) || self.bundle(path, &[]).is_some() {
            return None;
        }
        let ClientAddress(address) = request.extensions().get()?;
        let standing = limiter.count(*address, Instant::now())?;
        if standing.is_over {
            node.refused.pages.fetch_add(1, Ordering::Relaxed);
        }
        Some(standing)
    }

    fn route(&self, method: &Method, path: &str, headers: &HeaderMap) -> Response<Body> {
        if method != Method::GET && method != Method::HEAD {
            let mut response = json(
                StatusCode::METHOD_NOT_ALLOWED,
                error_body("METHOD_NOT_ALLOWED"),
            );
            response
                .headers_mut()
                .insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        match path {
            "/health" => json(StatusCode::OK, health::healthy()),
            "/ready" => {
                let (status, body) = self.readiness.answer();
                json(
                    StatusCode::from_u16(status).unwrap_or_default(),
                    body.to_string(),
                )
            }
            _ => self.file(path, headers),
        }
    }

    fn file(&self, path: &str, headers: &HeaderMap) -> Response<Body> {
        let accepted = accepted(headers);
        if let Some(asset) = self.bundle(path, &accepted) {
            return bundle_response(asset, headers, &self.config.cors);
        }
        // What is no file there is a request of Engine.IO without its parameters.
        if path.starts_with(&self.config.socketio_path) {
            return no_transport();
        }
        let page = self
            .config
            .chat_page
            .then(|| path.strip_prefix('/'))
            .flatten();
        let page = page.and_then(|name| assets::page(name, &accepted));
        match page {
            Some(asset) => page_response(asset, headers),
            // Somebody looks whether it runs: no page, but a word for them.
            None if path == "/" => {
                let text = self.config.doors.clone();
                answer(StatusCode::NOT_FOUND, text, "text/plain; charset=utf-8")
            }
            None => not_found(),
        }
    }

    fn bundle(&self, path: &str, accepted: &[Coding]) -> Option<Asset> {
        let name = path.strip_prefix(&self.config.socketio_path)?;
        let name = self.config.serve_client.then_some(name)?;
        assets::bundle(name, accepted)
    }
}

fn page_response(asset: Asset, headers: &HeaderMap) -> Response<Body> {
    let mut response = asset_response(asset, headers);
    let out = response.headers_mut();
    out.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    out.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(CONTENT_POLICY),
    );
    out.insert(
        header::REFERRER_POLICY,
        HeaderValue::from_static("same-origin"),
    );
    response
}

/// Pages of any site may load the client from here, as module or as script; those of listed origins with credentials.
fn bundle_response(asset: Asset, headers: &HeaderMap, cors: &Cors) -> Response<Body> {
    let mut response = asset_response(asset, headers);
    let out = response.headers_mut();
    out.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("public, max-age=0"),
    );
    let origin = headers.get(header::ORIGIN);
    let listed = origin.filter(|origin| cors.names(origin.as_bytes()));
    if listed.is_some() {
        let allowed = HeaderValue::from_static("true");
        out.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, allowed);
    }
    let any = HeaderValue::from_static("*");
    let allowed = listed.cloned().unwrap_or(any);
    out.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
    if matches!(cors, Cors::Origins(_)) {
        out.append(header::VARY, HeaderValue::from_static("Origin"));
    }
    response
}

fn asset_response(asset: Asset, headers: &HeaderMap) -> Response<Body> {
    let unchanged = is_unchanged(headers, &asset.etag);
    let mut response = Response::new(Body::empty());
    let out = response.headers_mut();
    out.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    if let Ok(etag) = HeaderValue::from_str(&asset.etag) {
        out.insert(header::ETAG, etag);
    }
    if unchanged {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return response;
    }
    out.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(asset.content_type),
    );
    if let Some(encoding) = asset.encoding {
        out.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    *response.body_mut() = Body::from(asset.body.into_owned());
    response
}

fn is_unchanged(headers: &HeaderMap, etag: &str) -> bool {
    let known = headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let mut tags = known.flat_map(|value| value.split(',')).map(str::trim);
    // RFC 9110 §13.1.2: weak comparison.
    tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}

/// Codings that the client takes, the one that it likes best first (RFC 9110 §12.5.3). Of equals, the first is the best.
fn accepted(headers: &HeaderMap) -> Vec<Coding> {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter();
    let codings = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    let mut weighed: Vec<(f32, Coding)> = codings
        .filter_map(|coding| {
            let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
            let weight = weight.trim().strip_prefix("q=");
            let weight = weight.map_or(1.0, |q| q.parse().unwrap_or(0.0));
            Some((weight, Coding::named(name.trim())?)).filter(|_| weight > 0.0)
        })
        .collect();
    weighed.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    weighed.into_iter().map(|(_, coding)| coding).collect()
}

/// People who look at it get a sentence, programs a code.
fn too_many(standing: &Standing, headers: &HeaderMap) -> Response<Body> {
    let status = StatusCode::TOO_MANY_REQUESTS;
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|text| text.to_str().ok());
    if !accept.is_some_and(|text| text.contains("text/html")) {
        return json(status, error_body("RATE_LIMIT_EXCEEDED"));
    }
    let seconds = standing.reset_seconds();
    let text = format!(
        "<!doctype html><html lang=\"en\"><title>Too many requests</title><h1>Too many requests</h1>\
         <p>This address has asked for too many pages. Try again in {seconds} seconds.</p>"
    );
    let mut response = answer(status, text, "text/html; charset=utf-8");
    let policy = HeaderValue::from_static(CONTENT_POLICY);
    response
        .headers_mut()
        .insert(header::CONTENT_SECURITY_POLICY, policy);
    response
}

/// Engine.IO's error 0.
fn no_transport() -> Response<Body> {
    let body = serde_json::json!({ "code": 0, "message": "Transport unknown" }).to_string();
    json(StatusCode::BAD_REQUEST, body)
}

fn not_found() -> Response<Body> {
    json(StatusCode::NOT_FOUND, error_body("NOT_FOUND"))
}

fn error_body(error: &str) -> String {
    serde_json::json!({ "error": error }).to_string()
}

fn json(status: StatusCode, body: String) -> Response<Body> {
    answer(status, body, "application/json")
}

fn answer(status: StatusCode, body: String, content_type: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let out = response.headers_mut();
    out.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    out.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
