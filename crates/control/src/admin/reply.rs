//! Answers that are JSON already.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

/// An order is on its way.
pub(super) fn accepted() -> Response {
    reply(202, r#"{"accepted":true}"#.to_owned())
}

pub(super) fn reply(status: u16, body: String) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or_default();
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}
