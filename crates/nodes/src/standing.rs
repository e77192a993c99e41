//! The thread for the cluster stands still, because another process is to go on with its place. It publishes nothing and hears nobody; what
//! shards have said is worked on in rounds. If the one who holds it goes away, for whatever reason, it goes on as if nothing had been.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// What it is told while it stands still.
pub(super) enum Order {
    /// Works on what shards have said, and answers with how much that was.
    Round(Sender<u64>),
    /// Answers with its place in the cluster, or with what keeps it here.
    Record(Sender<Result<Vec<u8>, String>>),
    /// Another process has it.
    Commit,
}

/// Orders for one that stands still.
pub(super) type Orders = UnboundedReceiver<Order>;

/// Where a node is brought to a stand.
#[derive(Clone, Debug)]
pub struct Stop(UnboundedSender<Orders>, Handed);

/// A node that stands still. It goes on when this is dropped.
#[derive(Debug)]
pub struct Stopped(UnboundedSender<Order>, Handed);

/// Whether another process is the node by now: what this one wrote of its clients is that one's.
#[derive(Clone, Debug, Default)]
pub struct Handed(Arc<AtomicBool>);

impl Handed {
    pub(super) fn is_so(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Stop {
    pub(super) fn new() -> (Self, UnboundedReceiver<Orders>) {
        let (stop, stops) = unbounded_channel();
        (Self(stop, Handed::default()), stops)
    }

    /// For those who write down what the node has.
    pub fn handed(&self) -> Handed {
        self.1.clone()
    }

    /// It stands still from now on.
    ///
    /// # Errors
    /// Its thread has ended.
    pub fn stand_still(&self) -> Result<Stopped, String> {
        let (desk, orders) = unbounded_channel();
        let sent = self.0.send(orders);
        sent.map_err(|_| "the thread for the cluster has ended".to_owned())?;
        Ok(Stopped(desk, self.handed()))
    }
}

impl Stopped {
    /// It works on what shards have said; how much that was.
    ///
    /// # Errors
    /// It does not answer in time.
    pub fn round(&self, within: Duration) -> Result<u64, String> {
        self.ask(within, Order::Round)
    }

    /// Its place in the cluster.
    ///
    /// # Errors
    /// It cannot be handed over now: why, and what to do.
    pub fn record(&self, within: Duration) -> Result<Vec<u8>, String> {
        self.ask(within, Order::Record)?
    }

    /// Another process has it. To be said before the shards let go of anybody.
    pub fn note_handed(&self) {
        self.1.0.store(true, Ordering::Release);
    }

    /// The thread ends.
    pub fn commit(self) {
        // One that has ended has nothing.
        let _ = self.0.send(Order::Commit);
    }

    fn ask<T>(
        &self,
        within: Duration,
        order: impl FnOnce(Sender<T>) -> Order,
    ) -> Result<T, String> {
        let (answer, answers) = mpsc::channel();
        // The end of the answer's channel tells of a thread that has ended.
        let _ = self.0.send(order(answer));
        let answer = answers.recv_timeout(within);
        answer.map_err(|_| "the thread for the cluster does not answer".to_owned())
    }
}
