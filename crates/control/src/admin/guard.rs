//! Who may do what on the operators' listener: with API keys configured, every path but health and readiness needs one.

use super::keys::ApiKeys;
use super::{Gate, reply};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use std::sync::Arc;
use std::sync::atomic::Ordering;

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

/// Lets a request through or answers 401.
pub(crate) async fn check(
    State(gate): State<Arc<Gate>>,
    mut request: Request,
    next: Next,
) -> Response {
    let access = &gate.access;
    let operator = access.keys.identify(request.headers()).map(str::to_owned);
    let path = request.uri().path();
    if operator.is_none() && !access.is_open(path) {
        gate.node.refused.admin.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(path, "admin request without a valid API key");
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
