//! Why a call failed, for programs and people: problem details as in RFC 9457.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use identity::keys::{Caller, Scope};
use serde::Serialize;
use utoipa::ToSchema;

/// A failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    kind: Kind,
    detail: String,
    field: Option<String>,
}

/// The kinds of problems. Each has one name, one status and one sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    InvalidRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    PayloadTooLarge,
    Conflict,
    KeyReused,
    TooManyRequests,
    Busy,
    NoAnswer,
}

impl Kind {
    /// In the order of the variants.
    pub(super) const ALL: [Self; 11] = [
        Self::InvalidRequest,
        Self::Unauthorized,
        Self::Forbidden,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::PayloadTooLarge,
        Self::Conflict,
        Self::KeyReused,
        Self::TooManyRequests,
        Self::Busy,
        Self::NoAnswer,
    ];

    pub(super) fn name(self) -> &'static str {
        self.row().0
    }

    /// Last part of the URN, status, title.
    fn row(self) -> (&'static str, u16, &'static str) {
        match self {
            Self::InvalidRequest => ("invalid-request", 400, "The request cannot be used"),
            Self::Unauthorized => ("unauthorized", 401, "An API key is needed"),
            Self::Forbidden => ("forbidden", 403, "This API key does not allow it"),
            Self::NotFound => ("not-found", 404, "There is nothing of this name"),
            Self::MethodNotAllowed => ("method-not-allowed", 405, "This path has other methods"),
            Self::PayloadTooLarge => ("payload-too-large", 413, "The body is too large"),
            Self::Conflict => ("conflict", 409, "Something else is under way"),
            Self::KeyReused => (
                "idempotency-key-reused",
                422,
                "This Idempotency-Key was used for another request",
            ),
            Self::TooManyRequests => ("too-many-requests", 429, "The rate of this key is used up"),
            Self::Busy => ("busy", 503, "The gateway has too much to do"),
            Self::NoAnswer => (
                "no-answer",
                504,
                "The gateway did not answer itself in time",
            ),
        }
    }

    pub(crate) fn status(self) -> u16 {
        self.row().1
    }
}

/// Problem details (RFC 9457), as `application/problem+json`.
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct Details<'a> {
    /// `urn:sockeye:problem:` and the kind of the problem.
    #[serde(rename = "type")]
    urn: String,
    /// One sentence for each type.
    title: &'a str,
    /// The HTTP status.
    status: u16,
    /// The fault of this request, for people.
    detail: &'a str,
    /// The member or parameter at fault, such as `rooms[2]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
}

impl Problem {
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// The caller's fault.
    pub(crate) fn is_of_caller(&self) -> bool {
        self.kind.status() < 500
    }

    pub(crate) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            field: None,
        }
    }

    /// A member or parameter cannot be used.
    pub(crate) fn field(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            field: Some(field.into()),
            ..Self::new(Kind::InvalidRequest, detail)
        }
    }

    /// The member at fault.
    pub(super) fn at(self, field: impl Into<String>) -> Self {
        Self {
            field: Some(field.into()),
            ..self
        }
    }

    /// The member at fault is in this one.
    pub(super) fn under(self, field: &str) -> Self {
        let field = match &self.field {
            Some(inner) => format!("{field}.{inner}"),
            None => field.to_owned(),
        };
        self.at(field)
    }

    /// Calls that change something need a key, also where looking needs none.
    pub(crate) fn no_keys() -> Self {
        Self::new(
            Kind::Forbidden,
            "an API key is needed and none is configured: `sockeye api-key NAME` makes one for admin.api_keys",
        )
    }

    pub(crate) fn without_scope(caller: &Caller, scope: Scope) -> Self {
        let detail = format!(
            "the key {:?} is not for this: it needs the scope {:?}",
            caller.name(),
            scope.name()
        );
        Self::new(Kind::Forbidden, detail)
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// For people, with the field.
    pub(crate) fn message(&self) -> String {
        match &self.field {
            Some(field) => format!("{field}: {}", self.detail),
            None => self.detail.clone(),
        }
    }

    fn body(&self) -> String {
        let (name, status, title) = self.kind.row();
        let details = Details {
            urn: format!("urn:sockeye:problem:{name}"),
            title,
            status,
            detail: &self.detail,
            field: self.field.as_deref(),
        };
        serde_json::to_string(&details).unwrap_or_default()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.kind.status()).unwrap_or_default();
        let kind = [(header::CONTENT_TYPE, "application/problem+json")];
        let mut response = (status, kind, self.body()).into_response();
        response.extensions_mut().insert(self.kind);
        let headers = response.headers_mut();
        match self.kind {
            Kind::Unauthorized => {
                let challenge = HeaderValue::from_static("Bearer realm=\"sockeye\"");
                headers.insert(header::WWW_AUTHENTICATE, challenge);
            }
            Kind::Busy => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        response
    }
}
