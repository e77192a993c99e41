//! What a process hands over with.

use super::fit;
use super::seat::Seat;
use crate::config::Resolved;
use crate::workers::Held;
use control::health::Readiness;
use control::history::History;
use control::relay::Relays;
use handoff::Fit;
use shard::Givers;
use std::net::TcpListener;
use std::sync::Arc;
use tokio::task::AbortHandle;

/// What is handed over, and what must fit.
#[derive(Debug)]
pub struct Parts {
    pub givers: Givers,
    pub fit: Fit,
    /// The part of the configuration that cannot be handed over.
    pub obstacle: Option<&'static str>,
    pub admin: Option<TcpListener>,
    pub workers: Held,
    /// The place in the cluster.
    pub seat: Option<Seat>,
    pub relays: Option<Relays>,
    /// A store that all nodes have: what waits for it is stored before another process says more.
    pub history: Option<Arc<History>>,
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
        (workers, history): (Held, Option<Arc<History>>),
        (seat, relays): (Option<Seat>, Option<Relays>),
    ) -> Self {
        Self {
            givers,
            fit: fit::of(config),
            obstacle: fit::obstacle(config),
            admin,
            workers,
            seat,
            relays,
            history,
            readiness,
            admin_service,
        }
    }
}
