//! Letters to a backend's driver, and its messages to the connections of links.

use super::glance::Glance;
use super::intake::Share;
use super::pipe::Pipe;
use super::webhook::Failed;
use backend::proto::Hello;
use backend::{Call, Denied, Frame, Link, Outcome};
use prost::bytes::Bytes;
use rules::TraceParent;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::oneshot;
use tonic::Status;

/// Messages that a link's connection has not taken yet. More stay in the backend's state, where they are counted.
pub(super) const LINK_MESSAGES: usize = 4;

/// For encoded `ToWorker`s.
pub(super) type Outbox = Sender<Result<Bytes, Status>>;

/// A link's messages on their way to its connection.
pub(super) fn outbox() -> (Outbox, Receiver<Result<Bytes, Status>>) {
    mpsc::channel(LINK_MESSAGES)
}

/// From the service to a driver.
pub(super) enum Letter {
    Attach {
        hello: Hello,
        outbox: Outbox,
        /// The way of messages for as long as a shard serves the connection.
        pipe: Option<Arc<Pipe>>,
        answer: oneshot::Sender<Result<Link, Denied>>,
    },
    /// The share is given back when the frame is handled.
    Frame(Link, Frame, Option<Share>),
    /// Its worker is there: a large frame of it comes in.
    Heard(Link),
    /// With what was wrong with the last frame.
    Detached(Link, Option<Status>),
    /// The key that its worker showed is one no more.
    Expelled(Link),
    /// A call of the endpoint ended.
    Called(Called),
    /// An operator looks.
    Glance(Glance),
}

/// How a call went, and why it came to nothing.
pub(super) struct Called {
    pub(super) number: u64,
    pub(super) outcome: Outcome,
    /// With the call, for operators.
    pub(super) failed: Option<(Failed, Call)>,
    pub(super) took: Duration,
    /// The socket or call that the commands of the answer belong to.
    pub(super) context: Option<TraceParent>,
}
