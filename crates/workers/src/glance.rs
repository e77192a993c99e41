//! A backend as operators see it. Only its last failures are kept for them while nobody looks.

use backend::{Name, PaceFigures, SeenWorker};
use bridge::Failure;
use tokio::sync::oneshot;

/// A question to the driver of a backend.
pub(super) struct Glance {
    /// Who has these sockets?
    pub(super) sockets: Vec<Name>,
    pub(super) answer: oneshot::Sender<Seen>,
}

/// A backend at a glance.
#[derive(Debug)]
pub struct Seen {
    /// The workers that have the sockets that were asked about, in the same order.
    pub holders: Vec<Option<String>>,
    /// With the shards that serve their links, if shards do.
    pub workers: Vec<(SeenWorker, Option<u16>)>,
    /// Of calls, where its logic is called.
    pub calls: Option<PaceFigures>,
    /// Whether the endpoint is well; `None`: workers attach.
    pub is_well: Option<bool>,
    /// The newest first.
    pub failures: Vec<Failure>,
}
