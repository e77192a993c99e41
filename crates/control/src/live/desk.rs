//! The traces that run at this node, and the service for other nodes that ask for one.

use super::gauges::Gauges;
use super::line::{self, Line};
use super::order::Order;
use crate::debug::Inspect;
use hub::LiveTrace;
use nodes::relay::Show;
use process::stream::Duplex;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, interval, timeout};

/// Traces that operators of this node run at once.
pub(super) const OWN_MAX: usize = 8;
/// Those that operators of other nodes run here.
const FOREIGN_MAX: usize = 32;
/// Lines leave so often.
pub(super) const LOOK: Duration = Duration::from_millis(100);
/// Without anything else to say.
pub(super) const ALIVE: Duration = Duration::from_secs(5);
/// A batch of lines.
pub(super) const BATCH_BYTES_MAX: usize = 64 * 1024;
const ORDER_BYTES_MAX: u64 = 8 * 1024;
const ORDER_TIMEOUT: Duration = Duration::from_secs(5);
/// A node that takes nothing for so long is given up.
const STALL: Duration = Duration::from_secs(30);

/// The way to the shards, and the places that are left. Clones are the same.
#[derive(Clone, Debug)]
pub struct Desk {
    me: u16,
    inspect: Arc<dyn Inspect>,
    own: Arc<Semaphore>,
    foreign: Arc<Semaphore>,
    gauges: Arc<Gauges>,
}

/// A trace that runs. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Running {
    trace: Arc<LiveTrace>,
    node: u16,
    told_dropped: u64,
    gauges: Arc<Gauges>,
    _place: OwnedSemaphorePermit,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.trace.end();
        self.gauges.running.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Desk {
    /// Of a node with this number.
    pub fn new(me: u16, inspect: Arc<dyn Inspect>, gauges: &Arc<Gauges>) -> Self {
        Self {
            me,
            inspect,
            own: Arc::new(Semaphore::new(OWN_MAX)),
            foreign: Arc::new(Semaphore::new(FOREIGN_MAX)),
            gauges: Arc::clone(gauges),
        }
    }

    pub(super) fn me(&self) -> u16 {
        self.me
    }

    /// Begins a trace for an operator here; `None`: there are enough.
    pub(super) fn begin(&self, order: &Order) -> Option<Running> {
        self.run(order, &self.own)
    }

    fn run(&self, order: &Order, places: &Arc<Semaphore>) -> Option<Running> {
        let place = Arc::clone(places).try_acquire_owned().ok()?;
        let trace = Arc::new(order.trace());
        self.inspect.trace(&trace);
        self.gauges.running.fetch_add(1, Ordering::Relaxed);
        Some(Running {
            trace,
            node: self.me,
            told_dropped: 0,
            gauges: Arc::clone(&self.gauges),
            _place: place,
        })
    }

    /// Serves other nodes.
    pub fn show(&self) -> Show {
        let desk = self.clone();
        Arc::new(move |stream| {
            let desk = desk.clone();
            Box::pin(async move { desk.serve(stream).await })
        })
    }

    /// Serves another node: its order is the first line, and lines go back until it hangs up.
    async fn serve(&self, stream: Box<dyn Duplex>) -> io::Result<()> {
        let (mut from, mut to) = split(stream);
        let order = timeout(ORDER_TIMEOUT, read_order(&mut from)).await??;
        let Some(mut running) = self.run(&order, &self.foreign) else {
            let why = format!("{FOREIGN_MAX} traces of other nodes run there already");
            let refusal = line::node(self.me, "refused", Some(&why));
            return to.write_all(format!("{refusal}\n").as_bytes()).await;
        };
        tracing::info!(
            of = order.words(),
            "another node's operator follows something"
        );
        let told = running.tell(&mut to, order.time());
        let gone = async {
            // It says nothing more: whatever comes is its end.
            let _ = from.read(&mut [0; 1]).await;
        };
        tokio::select! {
            told = told => told,
            () = gone => Ok(()),
        }
    }
}

async fn read_order<S: AsyncRead + Unpin>(from: &mut S) -> io::Result<Order> {
    let (mut text, mut byte) = (Vec::new(), [0]);
    let mut from = from.take(ORDER_BYTES_MAX);
    // An order is short, and comes once.
    while from.read_exact(&mut byte).await.is_ok() && byte != *b"\n" {
        text.push(byte[0]);
    }
    let order = std::str::from_utf8(&text).ok().and_then(Order::parse);
    order.ok_or_else(|| io::Error::other("the order of another node cannot be read"))
}

impl Running {
    /// Appends what has passed since, as far as a batch has room.
    pub(super) fn write(&mut self, out: &mut String) {
        while out.len() < BATCH_BYTES_MAX {
            let Some(passed) = self.trace.next() else {
                break;
            };
            line::write(out, &Line::of(passed, self.node));
            self.gauges.told.fetch_add(1, Ordering::Relaxed);
        }
        let dropped = self.trace.dropped();
        if dropped > self.told_dropped && out.len() < BATCH_BYTES_MAX {
            let fresh = dropped - self.told_dropped;
            line::write(out, &line::dropped(self.node, fresh));
            self.gauges.dropped.fetch_add(fresh, Ordering::Relaxed);
            self.told_dropped = dropped;
        }
    }

    async fn tell<S: AsyncWrite + Unpin>(&mut self, to: &mut S, time: Duration) -> io::Result<()> {
        let (until, mut looks) = (Instant::now() + time, interval(LOOK));
        let mut spoke = Instant::now();
        // The other node sees that it is followed before anything passes.
        let mut batch = format!("{}\n", line::alive());
        while Instant::now() < until {
            if batch.is_empty() && spoke.elapsed() >= ALIVE {
                line::write(&mut batch, &line::alive());
            }
            if !batch.is_empty() {
                spoke = Instant::now();
                let written = async {
                    to.write_all(batch.as_bytes()).await?;
                    to.flush().await
                };
                timeout(STALL, written).await??;
                batch.clear();
            }
            looks.tick().await;
            self.write(&mut batch);
        }
        Ok(())
    }
}
