//! Answers for those who get or leave no body.

use super::fault::Fault;
use hyper::StatusCode;

/// An answer that is no body.
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    /// For programs.
    pub(crate) code: &'static str,
    /// For people.
    pub(crate) message: String,
    /// When to come again.
    pub(crate) retry_after_seconds: Option<u64>,
}

impl Refusal {
    pub(crate) fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::from_u16(status).unwrap_or_default(),
            code,
            message: message.into(),
            retry_after_seconds: None,
        }
    }

    pub(crate) fn after(self, seconds: u64) -> Self {
        Self {
            retry_after_seconds: Some(seconds),
            ..self
        }
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        use Fault::{Full, Missing};
        match fault {
            Missing => Self::new(404, "NOT_FOUND", "there is no such body, or no more"),
            Full => Self::new(507, "STORE_FULL", fault.message()),
            _ => {
                tracing::warn!(%fault, "cannot serve a body");
                Self::new(503, "STORE_UNAVAILABLE", fault.message()).after(1)
            }
        }
    }
}
