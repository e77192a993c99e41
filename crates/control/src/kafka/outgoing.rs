//! Events on their way out: from the rules' words to records of the client, and the answers that clients wait for.

use super::Out;
use crate::bridge::{Asked, Outline, unwritten};
use ::kafka::{Delivery, Fault, OutFigures, Outlet, Settings};
use arc_swap::ArcSwap;
use rules::bridge::{Record, Recorder, Unwritten, Waits};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How soon a client that failed for good has a successor.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// A client that failed for good has so long to tell those who wait.
const TELL_TIME: Duration = Duration::from_secs(1);

/// The way out.
pub(super) struct Outgoing {
    client: Settings,
    out: Out,
    outline: Outline,
    outlet: ArcSwap<Outlet>,
    /// Outlets that failed for good.
    before: Mutex<Before>,
    /// Records that never came here.
    refused: AtomicU64,
    asked: Asked<Delivery>,
}

/// Outlets that failed for good, as far as they count.
#[derive(Default)]
struct Before {
    figures: OutFigures,
    /// One that still tells those who wait.
    ends: Option<Arc<Outlet>>,
}

impl Before {
    fn sum(&self, now: OutFigures) -> OutFigures {
        let ends = self.ends.as_ref().map(|outlet| outlet.figures());
        let counted = [self.figures, ends.unwrap_or_default()];
        counted.into_iter().fold(now, |sum, next| OutFigures {
            produced: sum.produced + next.produced,
            failed: sum.failed + next.failed,
            refused: sum.refused + next.refused,
            retried: sum.retried + next.retried,
            ..sum
        })
    }
}

impl Outgoing {
    pub(super) fn start(client: Settings, out: Out) -> Result<Arc<Self>, Fault> {
        let outlet = open(&client, &out)?;
        let outline = Outline::new(&out.writes);
        let outgoing = Arc::new(Self {
            client,
            out,
            outline,
            outlet: ArcSwap::from_pointee(outlet),
            before: Mutex::default(),
            refused: AtomicU64::new(0),
            asked: Asked::default(),
        });
        let looked = Arc::clone(&outgoing);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(LOOK_INTERVAL).await;
                looked.look().await;
            }
        });
        Ok(outgoing)
    }

    /// A client that failed for good gets a successor.
    async fn look(&self) {
        if !self.outlet.load().is_broken() {
            return;
        }
        match open(&self.client, &self.out) {
            Ok(next) => {
                tracing::error!(
                    "the client of Kafka has failed for good: another one takes its place"
                );
                let failed = self.replace(next);
                failed.close(TELL_TIME).await;
                self.count_out();
                // A shard that was just writing to it is done by then, and does not drop it: that waits for a thread.
                tokio::time::sleep(LOOK_INTERVAL).await;
                let dropped = tokio::task::spawn_blocking(move || drop(failed));
                if let Err(error) = dropped.await {
                    tracing::error!(%error, "cannot end the client of Kafka that has failed");
                }
            }
            Err(fault) => tracing::error!(%fault, "cannot make another client of Kafka"),
        }
    }

    /// Counters never go backwards: the one that failed counts on.
    fn replace(&self, next: Outlet) -> Arc<Outlet> {
        let mut before = self.before();
        let failed = self.outlet.swap(Arc::new(next));
        before.ends = Some(Arc::clone(&failed));
        failed
    }

    /// The one that failed has told all.
    fn count_out(&self) {
        let mut before = self.before();
        before.figures = before.sum(OutFigures::default());
        before.ends = None;
    }

    fn before(&self) -> MutexGuard<'_, Before> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The record that a shard asks about.
    pub(super) fn take(&self, number: u64) -> Option<Delivery> {
        self.asked.take(number)
    }

    pub(super) fn figures(&self) -> OutFigures {
        let before = self.before();
        let mut figures = before.sum(self.outlet.load().figures());
        figures.refused += self.refused.load(Ordering::Relaxed);
        figures
    }

    pub(super) async fn close(&self, within: Duration) {
        let outlet = self.outlet.load_full();
        outlet.close(within).await;
    }
}

impl Recorder for Outgoing {
    fn write(&self, record: &Record<'_>, asked: Option<u64>) -> Result<(), Unwritten> {
        let outlet = self.outlet.load();
        let delivery = self.outline.tell(record, |event| outlet.send(event));
        let delivery = delivery.map_err(|fault| unwritten(&fault))?;
        self.asked.keep(asked, delivery);
        Ok(())
    }

    fn reads_rooms(&self) -> bool {
        self.outline.reads_rooms()
    }

    fn waits(&self) -> Option<Waits> {
        self.out.writes.waits()
    }

    fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

fn open(client: &Settings, out: &Out) -> Result<Outlet, Fault> {
    Outlet::new(client, &out.topic, out.writes.limits())
}
