//! The console's page, and how a browser logs in to it. All that the page shows and does goes through the server API.

use super::guard::Guard;
use super::logins::{CONSOLE, Pass, forged, is_foreign};
use crate::api::problem::{Kind, Problem};
use crate::assets::{self, Coding};
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use identity::keys::{Caller, Shown};
use serde_json::json;
use std::sync::Arc;
use std::time::Instant;

/// A key has some 50 bytes.
const LOGIN_BYTES_MAX: usize = 4_096;
/// Nothing comes from elsewhere, nothing is written into the page, and no other page shows it in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

pub(super) fn routes<S: Clone + Send + Sync + 'static>(guard: Arc<Guard>) -> Router<S> {
    Router::new()
        .route(CONSOLE, get(|| async { Redirect::permanent("/console/") }))
        .route("/console/", get(index))
        .route("/console/login", get(whoami).post(login))
        .route("/console/logout", post(logout))
        .route("/console/{file}", get(file))
        .layer(DefaultBodyLimit::max(LOGIN_BYTES_MAX))
        .with_state(guard)
}

async fn index(headers: HeaderMap) -> Response {
    asset("index.html", &headers)
}

async fn file(Path(name): Path<String>, headers: HeaderMap) -> Response {
    asset(&name, &headers)
}

fn asset(name: &str, headers: &HeaderMap) -> Response {
    let accepted = headers.get(header::ACCEPT_ENCODING);
    let accepted = accepted.and_then(|value| value.to_str().ok());
    let takes_gzip = accepted.is_some_and(|accepted| accepted.contains("gzip"));
    let coding = takes_gzip.then_some(Coding::Gzip);
    let Some(asset) = assets::console(name, coding.as_slice()) else {
        let detail = format!("{name:?} is no file of the console");
        return Problem::new(Kind::NotFound, detail).into_response();
    };
    let known = headers.get(header::IF_NONE_MATCH);
    let is_known = known.is_some_and(|tag| tag.as_bytes() == asset.etag.as_bytes());
    let mut response = match is_known {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => asset.body.into_response(),
    };
    let mut set = |name, value: &str| {
        if let Ok(value) = value.parse() {
            response.headers_mut().insert(name, value);
        }
    };
    set(header::CONTENT_TYPE, asset.content_type);
    set(header::ETAG, &asset.etag);
    set(header::CACHE_CONTROL, "no-cache");
    set(header::VARY, "Accept-Encoding");
    set(header::CONTENT_SECURITY_POLICY, POLICY);
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(header::REFERRER_POLICY, "no-referrer");
    set(header::X_FRAME_OPTIONS, "DENY");
    if let Some(encoding) = asset.encoding {
        set(header::CONTENT_ENCODING, encoding);
    }
    response
}

/// Tells the page which login it has.
async fn whoami(State(guard): State<Arc<Guard>>, headers: HeaderMap) -> Response {
    if guard.keys().is_empty() {
        // Nobody can log in; what needs no key can be looked at.
        let nobody = json!({"name": "", "scopes": [], "namespaces": [], "csrf": ""});
        return private(Json(nobody));
    }
    match guard.pass(&headers) {
        Pass::Good(caller) => private(Json(told(&caller))),
        Pass::Forged | Pass::None => {
            Problem::new(Kind::Unauthorized, "log in with an API key").into_response()
        }
    }
}

async fn login(State(guard): State<Arc<Guard>>, headers: HeaderMap, body: Bytes) -> Response {
    if is_foreign(&headers) {
        return Problem::new(Kind::Forbidden, "another page asks for a login").into_response();
    }
    // A form of another page cannot send this type.
    let kind = headers.get(header::CONTENT_TYPE);
    if !kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json")) {
        let detail = "the body has to be JSON, with Content-Type: application/json";
        return Problem::new(Kind::InvalidRequest, detail).into_response();
    }
    let read: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    let Some(key) = read["key"].as_str() else {
        return Problem::field("key", "an API key is needed").into_response();
    };
    let shown = Shown::of(key.trim());
    let Some(caller) = guard.keys().of(shown) else {
        guard.note_refusal("/console/login");
        let detail = match guard.keys().is_empty() {
            true => "no API key is configured: `sockeye api-key NAME` makes one for admin.api_keys",
            false => "this API key is not known here",
        };
        return Problem::new(Kind::Unauthorized, detail).into_response();
    };
    let Some((cookie, token)) = guard.begin(shown, Instant::now()) else {
        let detail = "the system gives no random bytes";
        return Problem::new(Kind::Busy, detail).into_response();
    };
    tracing::info!(key = caller.name(), "login to the console");
    guard.note(caller.clone().at_the_console(), "login");
    let mut told = told(&caller);
    told["csrf"] = token.into();
    private(([(header::SET_COOKIE, cookie)], Json(told)))
}

async fn logout(State(guard): State<Arc<Guard>>, headers: HeaderMap) -> Response {
    let caller = match guard.pass(&headers) {
        Pass::Good(caller) => caller,
        Pass::Forged => return forged().into_response(),
        Pass::None => {
            return Problem::new(Kind::Unauthorized, "nobody is logged in").into_response();
        }
    };
    guard.note(caller, "logout");
    let gone = [(header::SET_COOKIE, guard.end(&headers))];
    (StatusCode::NO_CONTENT, gone).into_response()
}

/// For the browser that asked, and for no cache.
fn private(answer: impl IntoResponse) -> Response {
    ([(header::CACHE_CONTROL, "no-store")], answer).into_response()
}

fn told(caller: &Caller) -> serde_json::Value {
    json!({
        "name": caller.name(),
        "scopes": caller.scope_names(),
        "namespaces": caller.namespaces(),
    })
}
