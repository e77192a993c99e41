//! Who may do what on the operators' listener: with API keys configured, every path but health and readiness needs one.

use super::keys::ApiKeys;
use super::{Gate, reply};
use crate::flood::Flood;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    pub keys: ApiKeys,
    /// Metrics too: scrapers can be told a key.
    pub metrics_need_key: bool,
}

/// Name of the key a request showed, for those who write down what was done.
#[derive(Clone, Debug)]
pub(crate) struct Operator(pub(crate) String);

impl Access {
    fn is_open(&self, path: &str) -> bool {
        match path {
            "/health" | "/ready" => true,
            "/metrics" => self.keys.is_empty() || !self.metrics_need_key,
            _ => self.keys.is_empty(),
        }
    }
}

/// Who is let in, and the log of who is not.
#[derive(Debug)]
pub(crate) struct Guard {
    gate: Gate,
    /// What is written of refusals: whoever reaches the port can cause them.
    lines: Mutex<Flood>,
}

const REFUSAL: &str = "admin request without a valid API key";

impl Guard {
    pub(crate) fn new(gate: Gate) -> Self {
        let lines = Mutex::new(Flood::new(REFUSAL));
        Guard { gate, lines }
    }

    /// To be called once a second: what was left out of the log is told.
    pub(crate) fn pass_time(&self, now: Instant) {
        self.lines().pass_time(now);
    }

    fn lines(&self) -> MutexGuard<'_, Flood> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_refusal(&self, path: &str) {
        let node = &self.gate.node;
        node.refused.admin.fetch_add(1, Ordering::Relaxed);
        if self.lines().admits() {
            tracing::warn!(path, "{REFUSAL}");
        } else {
            node.log.suppressed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Lets a request through or answers 401.
pub(crate) async fn check(
    State(guard): State<Arc<Guard>>,
    mut request: Request,
    next: Next,
) -> Response {
    let access = &guard.gate.access;
    let operator = access.keys.identify(request.headers()).map(str::to_owned);
    let path = request.uri().path();
    if operator.is_none() && !access.is_open(path) {
        guard.note_refusal(path);
        let mut response = reply(401, r#"{"error":"UNAUTHORIZED"}"#.to_owned());
        let challenge = HeaderValue::from_static("Bearer realm=\"sockeye\"");
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, challenge);
        return response;
    }
    if let Some(name) = operator {
        request.extensions_mut().insert(Operator(name));
    }
    next.run(request).await
}
