//! Events on their way out: from the rules' words to records of the client, and the answers that clients wait for.

use super::{Key, Out};
use ::kafka::{
    Delivery, Encoding, Event, Fault, Kind, Limits, Operator, OutFigures, Outlet, Settings,
};
use arc_swap::ArcSwap;
use rules::kafka::{Inner, Moment, Record, Recorder, Unwritten, Waits};
use std::collections::HashMap;
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
    operator: Option<Operator>,
    outlet: ArcSwap<Outlet>,
    /// Outlets that failed for good.
    before: Mutex<Before>,
    /// Records that never came here.
    refused: AtomicU64,
    /// Answers that shards will ask for, by the number of the record.
    asked: Mutex<HashMap<u64, Delivery>>,
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
        let operator = out.operator.as_deref().and_then(Operator::from_word);
        let outgoing = Arc::new(Self {
            client,
            out,
            operator,
            outlet: ArcSwap::from_pointee(outlet),
            before: Mutex::default(),
            refused: AtomicU64::new(0),
            asked: Mutex::default(),
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
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.remove(&number)
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
        let pattern = self.out.room.as_deref();
        let fits = |room: &&String| pattern.is_some_and(|pattern| units::fits(pattern, room));
        let room = match record.inner {
            // It speaks of the room that was joined or left, whatever its name.
            Some(_) => record.rooms.first(),
            None => record.rooms.iter().find(fits),
        };
        let trace = record.trace.map(|trace| format!("{trace:032x}"));
        let event = Event {
            moment: match record.moment {
                Moment::Connect => ::kafka::Moment::Connect,
                Moment::Message => ::kafka::Moment::Message,
                Moment::Disconnect => ::kafka::Moment::Disconnect,
            },
            socket: record.socket,
            user: record.user,
            room: room.map(String::as_str),
            inner: record.inner.map(|inner| match inner {
                Inner::Join => "join",
                Inner::Leave => "leave",
            }),
            operator: self.operator,
            auth: Some(record.auth),
            trace: trace.as_deref(),
            namespace: record.namespace,
            name: Some(record.name),
            sequence: Some(record.sequence),
            encoding: Encoding::Json,
            attachments: record.attachments,
            key: match self.out.key {
                Key::User => ::kafka::Key::User,
                Key::Room => ::kafka::Key::Room,
                Key::Socket => ::kafka::Key::Socket,
                Key::Claim => record
                    .claim
                    .map_or(::kafka::Key::Socket, ::kafka::Key::Claim),
            },
            body: record.body,
        };
        let delivery = self.outlet.load().send(&event);
        let delivery = delivery.map_err(|fault| unwritten(&fault))?;
        if let Some(number) = asked {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            asked.insert(number, delivery);
        }
        Ok(())
    }

    fn reads_rooms(&self) -> bool {
        self.out.room.is_some()
    }

    fn waits(&self) -> Option<Waits> {
        self.out.waits.then_some(Waits {
            time: self.out.time,
            acks_max: self.out.acks_max,
        })
    }

    fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

/// What a client is told.
pub(super) fn unwritten(fault: &Fault) -> Unwritten {
    match fault.kind() {
        Kind::Full => Unwritten::Busy,
        Kind::Refused | Kind::Settings => Unwritten::Refused,
        Kind::Away | Kind::Closed | Kind::Broken => Unwritten::Away,
    }
}

fn open(client: &Settings, out: &Out) -> Result<Outlet, Fault> {
    let limits = Limits {
        waiting_bytes_max: out.waiting_bytes_max,
        record_bytes_max: out.record_bytes_max,
        time: out.time,
    };
    Outlet::new(client, &out.topic, limits)
}
