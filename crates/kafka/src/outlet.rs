//! Events on their way out: one record for each.

use crate::settings::Settings;
use crate::writer::{Delivery, Out, Writer};
use bridge::{Event, Fault, Limits, OutFigures};
use rdkafka::message::{Header, OwnedHeaders};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Writes events to a topic: `acks=all`, idempotent, in order for each key.
#[derive(Clone)]
pub struct Outlet {
    writer: Arc<Writer>,
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outlet").finish_non_exhaustive()
    }
}

impl Outlet {
    /// Brokers may be away: they are looked for in the background.
    ///
    /// # Errors
    /// A property has a value that librdkafka does not take, or Kafka has no such topic name.
    pub fn new(settings: &Settings, topic: &str, limits: Limits) -> Result<Self, Fault> {
        let writer = Arc::new(Writer::new(settings, topic, limits)?);
        Ok(Self { writer })
    }

    /// Takes an event, and never waits. From now on it is tried until [`Limits::time`] is over; [`Delivery::answer`] tells what became
    /// of it. A gateway that is killed loses what Kafka has not acknowledged.
    ///
    /// # Errors
    /// Too much waits, the record is too large, or the bridge is closed.
    pub fn send(&self, event: &Event<'_>) -> Result<Delivery, Fault> {
        let (headers, headers_bytes) = headers(event);
        self.writer.write(Out {
            key: Some(event.key().as_bytes()),
            headers,
            headers_bytes,
            value: Some(event.body),
        })
    }

    /// Its client has failed for good: another outlet must take its place.
    pub fn is_broken(&self) -> bool {
        self.writer.is_broken()
    }

    /// What became of events so far.
    pub fn figures(&self) -> OutFigures {
        self.writer.figures()
    }

    /// Takes nothing more, waits for Kafka to take what is there, and says how many records it did not take in this time. Whoever waits
    /// for one of them is told.
    pub async fn close(&self, within: Duration) -> u64 {
        let writer = Arc::clone(&self.writer);
        let closing = tokio::task::spawn_blocking(move || writer.close(within));
        let left = closing.await.unwrap_or_default();
        if left > 0 {
            tracing::error!(
                records = left,
                "Kafka did not take them in time: they are lost"
            );
        }
        left
    }
}

/// And their bytes, names included.
fn headers(event: &Event<'_>) -> (OwnedHeaders, usize) {
    let (mut all, mut bytes) = (Some(OwnedHeaders::new_with_capacity(13)), 0);
    event.each_header(|key, value| {
        bytes += key.len() + value.len();
        let value = Some(value);
        all = all.take().map(|all| all.insert(Header { key, value }));
    });
    (all.unwrap_or_else(OwnedHeaders::new), bytes)
}
