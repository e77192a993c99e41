//! Drivers that stand still, because another process is to go on with what they know. No worker is heard meanwhile; what shards have said is
//! worked on in rounds. If the one who holds them goes away, for whatever reason, they go on as if nothing had been.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

/// What a driver that stands still is told.
pub(super) enum Order {
    /// Works on what shards have said, and answers with how much that was.
    Round(Sender<u64>),
    /// Answers with what it knows.
    Record(Sender<Vec<u8>>),
    /// Another process has all.
    Commit,
}

/// Orders for a driver that stands still.
pub(super) type Orders = UnboundedReceiver<Order>;

/// The drivers of a process, for one who hands over what they know.
#[derive(Clone, Debug)]
pub struct Drivers {
    /// By name of their backends.
    doors: Vec<(String, UnboundedSender<Orders>)>,
    /// Another process serves workers.
    gone: Arc<watch::Sender<bool>>,
    calls: Arc<CallGate>,
}

impl Default for Drivers {
    fn default() -> Self {
        Self {
            doors: Vec::new(),
            gone: Arc::new(watch::Sender::new(false)),
            calls: Arc::default(),
        }
    }
}

/// Calls of endpoints: how many are under way, and whether more may begin.
#[derive(Debug, Default)]
pub(super) struct CallGate {
    under_way: AtomicUsize,
    is_held: AtomicBool,
}

impl CallGate {
    /// One begins, if it may. [`ended`](Self::ended) tells of its end.
    pub(super) fn begin(&self) -> bool {
        // First: whoever holds the gate counts those that did not see that.
        self.under_way.fetch_add(1, Ordering::SeqCst);
        let may = !self.is_held.load(Ordering::SeqCst);
        if !may {
            self.ended();
        }
        may
    }

    pub(super) fn ended(&self) {
        self.under_way.fetch_sub(1, Ordering::SeqCst);
    }
}

/// No call of an endpoint begins until this is dropped.
#[derive(Debug)]
pub struct HeldCalls(Arc<CallGate>);

impl Drop for HeldCalls {
    fn drop(&mut self) {
        self.0.is_held.store(false, Ordering::SeqCst);
    }
}

impl Drivers {
    pub(super) fn door(&mut self, backend: String) -> UnboundedReceiver<Orders> {
        let (door, holds) = unbounded_channel();
        self.doors.push((backend, door));
        holds
    }

    pub(super) fn calls(&self) -> Arc<CallGate> {
        Arc::clone(&self.calls)
    }

    /// Lets no call of an endpoint begin, and blocks until none is under way.
    ///
    /// # Errors
    /// Some take longer than that.
    pub fn hold_calls(&self, within: Duration) -> Result<HeldCalls, String> {
        const LOOK: Duration = Duration::from_millis(2);
        let held = HeldCalls(Arc::clone(&self.calls));
        self.calls.is_held.store(true, Ordering::SeqCst);
        let deadline = Instant::now() + within;
        loop {
            let under_way = self.calls.under_way.load(Ordering::SeqCst);
            if under_way == 0 {
                return Ok(held);
            }
            if Instant::now() >= deadline {
                return Err(format!(
                    "{under_way} calls of endpoints (backends.NAME.url) were under way for more than {} s: try again when the endpoint answers sooner",
                    within.as_secs()
                ));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Tells when another process serves workers.
    pub fn gone(&self) -> Gone {
        Gone(self.gone.subscribe())
    }

    pub fn are_there(&self) -> bool {
        !self.doors.is_empty()
    }

    /// All of them stand still from now on.
    ///
    /// # Errors
    /// One has ended.
    pub fn stand_still(&self) -> Result<Still, String> {
        let mut desks = Vec::new();
        for (backend, door) in &self.doors {
            let (desk, orders) = unbounded_channel();
            let sent = door.send(orders);
            sent.map_err(|_| format!("the driver of backend {backend} has ended"))?;
            desks.push((backend.clone(), desk));
        }
        Ok(Still {
            desks,
            gone: Arc::clone(&self.gone),
        })
    }
}

/// Another process serves workers, once.
#[derive(Clone, Debug)]
pub struct Gone(watch::Receiver<bool>);

impl Gone {
    pub(super) fn is_so(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for it: for ever where nobody can hand over any more.
    pub(super) async fn happens(&mut self) {
        if self.0.wait_for(|gone| *gone).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Drivers that stand still. They go on when this is dropped.
#[derive(Debug)]
pub struct Still {
    desks: Vec<(String, UnboundedSender<Order>)>,
    gone: Arc<watch::Sender<bool>>,
}

impl Still {
    /// They work on what shards have said; how much that was.
    ///
    /// # Errors
    /// One does not answer in time.
    pub fn round(&self, within: Duration) -> Result<u64, String> {
        let answers = self.ask(within, Order::Round)?;
        Ok(answers.into_iter().map(|(_, worked)| worked).sum())
    }

    /// What each of them knows, by name of its backend.
    ///
    /// # Errors
    /// One does not answer in time.
    pub fn records(&self, within: Duration) -> Result<Vec<(String, Vec<u8>)>, String> {
        self.ask(within, Order::Record)
    }

    /// Another process has all: workers are cut off, and find it.
    pub fn commit(self) {
        // First: it says of a driver that ends why it does.
        self.gone.send_replace(true);
        // One that has ended has nothing.
        let told = self.desks.iter().map(|(_, desk)| desk.send(Order::Commit));
        told.for_each(drop);
    }

    fn ask<T>(
        &self,
        within: Duration,
        order: impl Fn(Sender<T>) -> Order,
    ) -> Result<Vec<(String, T)>, String> {
        let deadline = Instant::now() + within;
        let asked = self.desks.iter().map(|(backend, desk)| {
            let (answer, answers) = mpsc::channel();
            // The end of the answer's channel tells of a driver that has ended.
            let _ = desk.send(order(answer));
            (backend, answers)
        });
        let asked: Vec<(&String, Receiver<T>)> = asked.collect();
        let answers = asked.into_iter().map(|(backend, answers)| {
            let left = deadline.saturating_duration_since(Instant::now());
            let answer = answers.recv_timeout(left);
            let answer =
                answer.map_err(|_| format!("the driver of backend {backend} does not answer"))?;
            Ok((backend.clone(), answer))
        });
        answers.collect()
    }
}
