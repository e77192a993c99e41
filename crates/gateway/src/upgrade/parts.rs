//! What a process hands over with.

use super::fit;
use crate::config::Resolved;
use control::health::Readiness;
use handoff::Fit;
use shard::Givers;
use std::net::TcpListener;
use tokio::task::AbortHandle;

/// What is handed over, and what must fit.
#[derive(Debug)]
pub struct Parts {
    pub givers: Givers,
    pub fit: Fit,
    /// The part of the configuration that cannot be handed over.
    pub obstacle: Option<&'static str>,
    pub admin: Option<TcpListener>,
    /// Whether an operator wants the clients elsewhere.
    pub readiness: Readiness,
    /// Ends the service of operators.
    pub admin_service: Option<AbortHandle>,
}

impl Parts {
    pub fn new(
        config: &Resolved,
        givers: Givers,
        readiness: Readiness,
        (admin, admin_service): (Option<TcpListener>, Option<AbortHandle>),
    ) -> Self {
        Self {
            givers,
            fit: fit::of(config),
            obstacle: fit::obstacle(config),
            admin,
            readiness,
            admin_service,
        }
    }
}
