//! What a process hands over with.

use super::counted::Books;
use super::fit;
use super::seat::Seat;
use crate::config::Resolved;
use crate::workers::Held;
use control::bridge::Bridges;
use control::history::History;
use control::metrics::node::Node as Facts;
use handoff::Fit;
use nodes::chronicle::Acks;
use nodes::relay::Relays;
use process::health::Readiness;
use shard::{Givers, Shards};
use std::net::TcpListener;
use std::sync::Arc;
use tokio::task::AbortHandle;

/// What is handed over, and what must fit.
#[derive(Debug)]
pub struct Parts {
    pub givers: Givers,
    pub fit: Fit,
    pub books: Books,
    /// The part of the configuration that cannot be handed over.
    pub obstacle: Option<&'static str>,
    pub admin: Option<TcpListener>,
    pub workers: Held,
    /// The place in the cluster.
    pub seat: Option<Seat>,
    pub relays: Option<Relays>,
    /// A store that all nodes have: what waits for it is stored before another process says more.
    pub history: Option<Arc<History>>,
    /// Recovery that all nodes share.
    pub recovery: Option<Arc<Acks>>,
    pub bridges: Arc<Bridges>,
    /// Large events are stored, and said when they are.
    pub stores_large: bool,
    /// Whether an operator wants the clients elsewhere.
    pub readiness: Readiness,
    /// Ends the service of operators.
    pub admin_service: Option<AbortHandle>,
}

impl Parts {
    pub fn new(
        config: &Resolved,
        shards: &Shards,
        (admin, admin_service): (Option<TcpListener>, Option<AbortHandle>),
        (workers, seat): (Held, Option<Seat>),
        facts: &Arc<Facts>,
    ) -> Self {
        Self {
            givers: shards.givers(),
            books: Books::of(shards, facts),
            fit: fit::of(config),
            obstacle: fit::obstacle(config),
            admin,
            workers,
            seat,
            relays: facts.relays.get().cloned(),
            history: facts.history.get().cloned(),
            recovery: facts.chronicle.get().cloned(),
            bridges: Arc::clone(&facts.bridges),
            stores_large: config.bodies.is_some(),
            readiness: facts.readiness.clone(),
            admin_service,
        }
    }
}
