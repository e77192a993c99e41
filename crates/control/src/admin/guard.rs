//! Who may do what on the operators' listener: with API keys configured, every path but health and readiness needs one.

use super::Gate;
use super::logins::{self, Logins, Pass};
use super::reply::reply;
use crate::api::http;
use crate::api::problem::{Kind, Problem};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use identity::keys::{ApiKeys, Caller, Keyring, Operator, Scope, Shown, Standing};
use process::flood::Lines;
use process::seats::Peer;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// `[admin]`: whom the listener knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    pub keys: ApiKeys,
    /// Metrics too: scrapers can be told a key.
    pub metrics_need_key: bool,
}

impl Gate {
    fn is_open(&self, path: &str) -> bool {
        match path {
            "/health" | "/ready" | http::DOCUMENT => true,
            _ if is_console(path) => true,
            "/metrics" => self.keys.is_empty() || !self.metrics_need_key,
            _ => self.keys.is_empty(),
        }
    }
}

/// The page itself has no secrets: it asks for a key.
fn is_console(path: &str) -> bool {
    let rest = path.strip_prefix(logins::CONSOLE);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The requests that are let in, and the log of those that are not.
#[derive(Debug)]
pub(crate) struct Guard {
    gate: Gate,
    /// The log lines of refusals. Anybody who reaches the port can cause them.
    lines: Lines,
    logins: Logins,
}

/// The paths of calls that stay.
const STAY: [&str; 2] = ["/v1/trace", "/v1/node/listen"];

const REFUSAL: &str = "admin request without a valid API key";

impl Guard {
    pub(crate) fn new(gate: Gate) -> Self {
        Guard {
            gate,
            lines: Lines::new(REFUSAL),
            logins: Logins::default(),
        }
    }

    /// To be called once a second: what was left out of the log is told.
    pub(crate) fn pass_time(&self, now: Instant) {
        self.lines.pass_time(now);
    }

    pub(super) fn keys(&self) -> &Keyring {
        &self.gate.keys
    }

    /// Begins a login of the console: the header of its cookie, and its token.
    pub(super) fn begin(&self, key: Shown, now: Instant) -> Option<(String, String)> {
        self.logins.begin(key, now)
    }

    /// Ends the login of a request: the header that takes its cookie back.
    pub(super) fn end(&self, headers: &HeaderMap) -> String {
        self.logins.end(headers)
    }

    pub(super) fn pass(&self, headers: &HeaderMap) -> Pass {
        self.logins.pass(&self.gate.keys, headers, Instant::now())
    }

    /// Whether the key or login of a caller that stays still lasts.
    fn standing(self: &Arc<Self>, headers: HeaderMap) -> Standing {
        let guard = Arc::clone(self);
        Standing::new(move || {
            let key = guard.gate.keys.find(&headers);
            key.or_else(|| match guard.pass(&headers) {
                Pass::Good(caller) => Some(caller),
                Pass::Forged | Pass::None => None,
            })
        })
    }

    /// For the audit.
    pub(super) fn note(&self, caller: Caller, what: &str) {
        let audit = &self.gate.node.audit;
        audit.end(audit.begin(&caller, (what, None), "console"), Ok(()));
    }

    pub(super) fn note_refusal(&self, path: &str) {
        let node = &self.gate.node;
        node.refused.admin.fetch_add(1, Ordering::Relaxed);
        if self.lines.admit() {
            tracing::warn!(path, "{REFUSAL}");
        } else {
            node.log.suppressed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Lets a request through or answers 401 or 403.
pub(crate) async fn check(
    State(guard): State<Arc<Guard>>,
    mut request: Request,
    next: Next,
) -> Response {
    let gate = &guard.gate;
    let mut caller = gate.keys.find(request.headers());
    let is_open = gate.is_open(request.uri().path());
    if caller.is_none() && !is_console(request.uri().path()) {
        caller = match guard.pass(request.headers()) {
            Pass::Good(caller) => Some(caller),
            Pass::Forged if !is_open => {
                guard.note_refusal(request.uri().path());
                return logins::forged().into_response();
            }
            Pass::Forged | Pass::None => None,
        };
    }
    if caller.is_some()
        && let Some(peer) = request.extensions().get::<Peer>()
    {
        peer.trust();
    }
    let path = request.uri().path();
    if is_open {
        if let Some(caller) = caller {
            request.extensions_mut().insert(Operator(caller));
        }
        return next.run(request).await;
    }
    let Some(caller) = caller else {
        guard.note_refusal(path);
        return unauthorized(path);
    };
    let needed = needed(request.method(), path);
    if let Some(scope) = needed.filter(|scope| !caller.may_everywhere(*scope)) {
        guard.note_refusal(path);
        return forbidden(path, &caller, scope);
    }
    if STAY.contains(&path) {
        let standing = guard.standing(request.headers().clone());
        request.extensions_mut().insert(standing);
    }
    request.extensions_mut().insert(Operator(caller));
    next.run(request).await
}

/// The scope that a key needs at paths about the whole process. The others look for themselves.
fn needed(method: &Method, path: &str) -> Option<Scope> {
    match path {
        "/metrics" | "/v1/node/overview" => Some(Scope::Read),
        _ if path.starts_with("/debug/") => Some(Scope::Operate),
        _ if path.starts_with("/v1/nodes") && method == Method::GET => Some(Scope::Read),
        _ if path.starts_with("/v1/nodes") => Some(Scope::Operate),
        _ => None,
    }
}

fn unauthorized(path: &str) -> Response {
    if path.starts_with(http::ROOT) {
        let detail = "send a known API key: `Authorization: Bearer KEY` or `X-API-Key: KEY`";
        return Problem::new(Kind::Unauthorized, detail).into_response();
    }
    let mut response = reply(401, r#"{"error":"UNAUTHORIZED"}"#.to_owned());
    let challenge = HeaderValue::from_static("Bearer realm=\"sockeye\"");
    response
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, challenge);
    response
}

fn forbidden(path: &str, caller: &Caller, scope: Scope) -> Response {
    if path.starts_with(http::ROOT) {
        return Problem::without_scope(caller, scope).into_response();
    }
    reply(403, r#"{"error":"FORBIDDEN"}"#.to_owned())
}
