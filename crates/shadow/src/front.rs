//! The door that clients come to. All that they say goes to the running server, and its answers to them, byte by byte.

use crate::log;
use crate::server::Server;
use crate::sessions::{Opening, Session, Sessions, Word, lock};
use crate::tap::{Tap, payload};
use anyhow::{Context, Result};
use axum::body::{Body, Bytes, to_bytes};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::upgrade::Upgraded;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;

/// A longer body of polling passes unread.
const BODY_BYTES_MAX: usize = 4 << 20;
/// A client's request comes whole within this time, or its connection ends.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Node's servers keep a connection for 5 s after an answer.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3);
const CHUNK_BYTES: usize = 16 << 10;
const LOOK: Duration = Duration::from_secs(5);
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

#[derive(Debug)]
pub struct Front {
    /// The running server.
    pub real: Server,
    pub gateway: Server,
    /// Percent of the new sessions that go to the gateway.
    pub switch: f64,
    pub sessions: Arc<Sessions>,
    /// Sessions that may be open at once and be compared.
    pub copies_max: usize,
    pub http: Http,
}

/// Connections to both servers.
pub type Http = Client<HttpConnector, Body>;

pub fn http() -> Http {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    Client::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_timer(TokioTimer::new())
        .http1_preserve_header_case(true)
        .build(connector)
}

/// What a request to Engine.IO says of its session.
#[derive(Debug, Default)]
struct Asked {
    sid: Option<String>,
    /// All else but the transport, the protocol and what keeps caches away.
    rest: String,
    is_websocket: bool,
    /// A reason why the session is not compared.
    odd: Option<&'static str>,
}

impl Asked {
    fn of(uri: &Uri) -> Self {
        let mut asked = Self::default();
        let mut protocol = "";
        for pair in uri.query().unwrap_or_default().split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "sid" => asked.sid = Some(value.to_owned()),
                "transport" => asked.is_websocket = value == "websocket",
                "EIO" => protocol = value,
                "j" => asked.odd = Some("it polls by JSONP"),
                "t" | "" => {}
                _ => asked.rest.extend(["&", pair]),
            }
        }
        if protocol != "4" {
            asked.odd = Some("its Engine.IO is not of protocol 4");
        }
        asked
    }
}

impl Front {
    /// Until the process ends.
    pub async fn serve(self: Arc<Self>, listener: TcpListener) {
        let watched = Arc::clone(&self.sessions);
        tokio::spawn(async move {
            let mut looks = tokio::time::interval(LOOK);
            loop {
                looks.tick().await;
                watched.end_silent();
            }
        });
        loop {
            let Ok((stream, peer)) = listener.accept().await else {
                // Descriptors are used up: some will be given back.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let _ = stream.set_nodelay(true);
            let front = Arc::clone(&self);
            tokio::spawn(async move {
                let service = service_fn(|request| {
                    let front = Arc::clone(&front);
                    async move { Ok::<_, Infallible>(front.answer(request, peer).await) }
                });
                let conn = hyper::server::conn::http1::Builder::new()
                    .preserve_header_case(true)
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD_TIMEOUT)
                    .serve_connection(TokioIo::new(stream), service);
                // A client that hangs up is no news.
                let _ = conn.with_upgrades().await;
            });
        }
    }

    async fn answer(&self, mut request: Request<Incoming>, peer: SocketAddr) -> Response<Body> {
        forward_for(request.headers_mut(), peer);
        let is_engine = request.uri().path() == self.real.path
            || request.uri().path() == self.real.path.trim_end_matches('/');
        let answered = match is_engine {
            true => self.engine(request).await,
            false => self.pass(request).await,
        };
        answered.unwrap_or_else(|error| {
            // The address of a server behind this door is nobody's business.
            log::say(format!("a request had no answer: {error:#}"));
            let mut response =
                Response::new(Body::from("the server behind this door did not answer\n"));
            *response.status_mut() = StatusCode::BAD_GATEWAY;
            response
        })
    }

    async fn engine(&self, request: Request<Incoming>) -> Result<Response<Body>> {
        let asked = Asked::of(request.uri());
        let session = match asked.sid.as_deref() {
            // What a browser asks beforehand (`OPTIONS`) is about no session.
            Some(sid) if [Method::GET, Method::POST].contains(request.method()) => {
                self.sessions.find(sid)
            }
            Some(_) => None,
            None if request.method() == Method::GET => Some(self.open(&asked, request.headers())),
            None => None,
        };
        match session {
            Some(session) if asked.is_websocket => self.websocket(request, session).await,
            Some(session) => self.poll(request, session).await,
            // Older than we are, or nobody's.
            None => self.pass(request).await,
        }
    }

    /// To the running server and back, unread.
    async fn pass(&self, mut request: Request<Incoming>) -> Result<Response<Body>> {
        let client = hyper::upgrade::on(&mut request);
        let mut response = self.forward(&self.real, request.map(Body::new)).await?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let server = hyper::upgrade::on(&mut response);
            tokio::spawn(async move {
                if let (Ok(client), Ok(server)) = tokio::join!(client, server) {
                    let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
                    // However it ends, both have ended.
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                }
            });
        }
        Ok(response.map(Body::new))
    }

    fn open(&self, asked: &Asked, headers: &HeaderMap) -> Arc<Session> {
        let polls = !asked.is_websocket;
        if let Some(why) = asked.odd {
            self.sessions.count(Word::NotCompared(why));
            return self.sessions.open(None, false, polls);
        }
        // Only of those whose answers can be read the later requests are known.
        if fastrand::f64() * 100.0 < self.switch {
            self.sessions.count(Word::Switched);
            return self.sessions.open(None, true, polls);
        }
        if self.sessions.copies() >= self.copies_max {
            self.sessions.count(Word::NotCompared(
                "this process has descriptors for no more copies (ulimit -n)",
            ));
            return self.sessions.open(None, false, polls);
        }
        let kept = [
            header::AUTHORIZATION,
            header::COOKIE,
            header::ORIGIN,
            header::USER_AGENT,
            header::ACCEPT_LANGUAGE,
            FORWARDED_FOR,
        ];
        let told = kept.iter().flat_map(|name| {
            headers
                .get_all(name)
                .iter()
                .map(move |value| (name.to_string(), value.as_bytes().to_vec()))
        });
        let custom = headers
            .iter()
            .filter(|(name, _)| name.as_str().starts_with("x-") && **name != FORWARDED_FOR);
        let custom = custom.map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()));
        let opening = Opening {
            query: asked.rest.clone(),
            headers: told.chain(custom).collect(),
        };
        self.sessions.open(Some(opening), false, polls)
    }

    fn target(&self, session: &Session) -> &Server {
        match session.is_own {
            true => &self.gateway,
            false => &self.real,
        }
    }

    async fn poll(
        &self,
        mut request: Request<Incoming>,
        session: Arc<Session>,
    ) -> Result<Response<Body>> {
        let _held = self.sessions.hold(&session);
        // We read the answers.
        request.headers_mut().remove(header::ACCEPT_ENCODING);
        let is_post = request.method() == Method::POST;
        let target = self.target(&session);
        let (head, body) = request.into_parts();
        let body = match self
            .gather(&session, &head.headers, Body::new(body))
            .await?
        {
            Gathered::Whole(body) => {
                if is_post {
                    let heard = payload(&body, &mut lock(&session.up));
                    self.sessions.note(&session, true, heard);
                }
                Body::from(body)
            }
            Gathered::Passing(body) => body,
        };
        let response = self
            .forward(target, Request::from_parts(head, body))
            .await?;
        let (head, body) = response.into_parts();
        if head.status != StatusCode::OK {
            // The server knows it no more.
            self.sessions.end(&session);
            return Ok(Response::from_parts(head, Body::new(body)));
        }
        let body = match self
            .gather(&session, &head.headers, Body::new(body))
            .await?
        {
            Gathered::Whole(body) => {
                if !is_post {
                    let heard = payload(&body, &mut lock(&session.down));
                    self.sessions.note(&session, false, heard);
                }
                Body::from(body)
            }
            Gathered::Passing(body) => body,
        };
        Ok(Response::from_parts(head, body))
    }

    /// A body that is known to be small is read.
    async fn gather(&self, session: &Session, headers: &HeaderMap, body: Body) -> Result<Gathered> {
        let told = headers.get(header::CONTENT_LENGTH);
        let told = told.and_then(|len| len.to_str().ok()?.parse::<usize>().ok());
        let is_empty = told.is_none() && !headers.contains_key(header::TRANSFER_ENCODING);
        if is_empty || told.is_some_and(|len| len <= BODY_BYTES_MAX) {
            let whole = to_bytes(body, BODY_BYTES_MAX).await;
            return Ok(Gathered::Whole(whole.context("a body broke off")?));
        }
        let why = "a request or an answer of polling was too long to be read";
        self.sessions.skip(session, why);
        Ok(Gathered::Passing(body))
    }

    async fn websocket(
        &self,
        mut request: Request<Incoming>,
        session: Arc<Session>,
    ) -> Result<Response<Body>> {
        // Compressed messages could not be read.
        request
            .headers_mut()
            .remove(header::SEC_WEBSOCKET_EXTENSIONS);
        let client = hyper::upgrade::on(&mut request);
        let request = request.map(Body::new);
        let mut response = self.forward(self.target(&session), request).await?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            self.end_unless_it_polls(&session);
            return Ok(response.map(Body::new));
        }
        let server = hyper::upgrade::on(&mut response);
        let sessions = Arc::clone(&self.sessions);
        tokio::spawn(async move {
            if let (Ok(client), Ok(server)) = tokio::join!(client, server) {
                carry(&sessions, &session, client, server).await;
            }
            if !session.polls_on() {
                sessions.end(&session);
            }
        });
        Ok(response.map(|_| Body::empty()))
    }

    fn end_unless_it_polls(&self, session: &Arc<Session>) {
        if !session.polls_on() {
            self.sessions.end(session);
        }
    }

    async fn forward(
        &self,
        server: &Server,
        mut request: Request<Body>,
    ) -> Result<Response<Incoming>> {
        let path = request.uri().path_and_query();
        let path = path.map_or("/", |path| path.as_str());
        *request.uri_mut() = format!("{server}{path}")
            .parse()
            .context("cannot pass the path on")?;
        let answer = self.http.request(request).await;
        answer.with_context(|| format!("{server} did not answer"))
    }
}

enum Gathered {
    Whole(Bytes),
    Passing(Body),
}

/// Both directions, until both have ended.
async fn carry(sessions: &Sessions, session: &Arc<Session>, client: Upgraded, server: Upgraded) {
    let _held = sessions.hold(session);
    let (from_client, to_client) = tokio::io::split(TokioIo::new(client));
    let (from_server, to_server) = tokio::io::split(TokioIo::new(server));
    tokio::join!(
        pass_on(from_client, to_server, true, sessions, session),
        pass_on(from_server, to_client, false, sessions, session),
    );
}

/// One direction: on first, read second.
async fn pass_on(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    is_client: bool,
    sessions: &Sessions,
    session: &Arc<Session>,
) {
    let (mut tap, mut chunk) = (Some(Tap::new(is_client)), vec![0; CHUNK_BYTES]);
    loop {
        let read = match from.read(&mut chunk).await {
            Ok(read) if read > 0 => read,
            _ => break,
        };
        // The conductor hears a client's words before the server can answer them.
        if let Some(reader) = tap.as_mut() {
            let heard = reader.read(&chunk[..read]);
            if heard.is_err() {
                tap = None;
            }
            sessions.note(session, is_client, heard);
        }
        if to.write_all(&chunk[..read]).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}

fn forward_for(headers: &mut HeaderMap, peer: SocketAddr) {
    let before = headers.get_all(FORWARDED_FOR).iter();
    let before = before.filter_map(|value| value.to_str().ok().map(str::to_owned));
    let all: Vec<String> = before.chain([peer.ip().to_string()]).collect();
    if let Ok(told) = HeaderValue::from_str(&all.join(", ")) {
        headers.insert(FORWARDED_FOR, told);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_says_which_session_it_is_of() {
        let of = |uri: &str| Asked::of(&uri.parse().expect("a URI"));
        let asked = of("/socket.io/?EIO=4&transport=polling&t=abc&sid=x&token=1&room=a%20b");
        assert_eq!(
            (
                asked.sid.as_deref(),
                asked.rest.as_str(),
                asked.is_websocket,
                asked.odd
            ),
            (Some("x"), "&token=1&room=a%20b", false, None)
        );
        assert!(of("/socket.io/?EIO=4&transport=websocket").is_websocket);
        for odd in [
            "/socket.io/?EIO=3&transport=polling",
            "/socket.io/?EIO=4&transport=polling&j=0",
            "/socket.io/",
        ] {
            assert!(of(odd).odd.is_some(), "{odd}");
        }
    }
}
