//! Events on their way out: one message for each, within bounds of bytes and time.

use crate::courier::{self, Courier};
use crate::link::{LineNow, Link};
use crate::mode::Mode;
use crate::postbag::Parcel;
use crate::settings::Settings;
use crate::subject::Pattern;
use async_nats::HeaderMap;
use async_nats::header::HeaderValue;
use bridge::{Event, Fault, Kind, Limits, OutBooks, OutFigures};
use bytes::Bytes;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

/// Ours for a message: its place in the queue, its key, its answer.
const OVERHEAD_BYTES: usize = 512;

/// A message that was taken. The answer may be waited for, or not.
#[derive(Debug)]
pub struct Delivery(oneshot::Receiver<Result<(), Fault>>);

impl Delivery {
    /// It comes within [`Limits::time`] and some moments.
    ///
    /// # Errors
    /// NATS did not take it in time, or not at all, or the bridge is closed.
    pub async fn answer(self) -> Result<(), Fault> {
        self.0.await.unwrap_or_else(|_| Err(closed()))
    }
}

fn closed() -> Fault {
    Fault::new(Kind::Closed, "the bridge to NATS is closed")
}

/// Publishes events.
pub struct Outlet {
    pattern: Pattern,
    limits: Limits,
    books: Arc<OutBooks>,
    line: LineNow,
    /// `None`: closed.
    queue: Mutex<Option<mpsc::UnboundedSender<Parcel>>>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outlet").finish_non_exhaustive()
    }
}

impl Outlet {
    /// Servers may be away: they are looked for in the background. Within a runtime.
    pub fn start(settings: &Settings, pattern: Pattern, mode: Mode, limits: Limits) -> Self {
        let books = Arc::new(OutBooks::default());
        let link = Link::start(settings.clone(), || {});
        let line = link.line_now();
        let noted = (Arc::clone(&books), Arc::clone(settings.failures()));
        let courier = Courier::new(link, mode, noted, limits.time);
        // Bounded in bytes by the books.
        let (queue, parcels) = mpsc::unbounded_channel();
        let task = tokio::spawn(courier::run(courier, parcels));
        Self {
            pattern,
            limits,
            books,
            line,
            queue: Mutex::new(Some(queue)),
            task: Mutex::new(Some(task)),
        }
    }

    /// Takes an event, and never waits. From now on it is tried until [`Limits::time`] is over; [`Delivery::answer`] tells what became
    /// of it. A gateway that is killed loses what NATS has not acknowledged.
    ///
    /// # Errors
    /// Too much waits, the message is too large, a header cannot have its value, or the bridge is closed.
    pub fn send(&self, event: &Event<'_>) -> Result<Delivery, Fault> {
        let taken = self.take(event);
        if taken.is_err() {
            self.books.refuse();
        }
        taken
    }

    fn take(&self, event: &Event<'_>) -> Result<Delivery, Fault> {
        let subject = self
            .pattern
            .subject(event.namespace, event.name.unwrap_or_default())?;
        let (headers, headers_bytes) = headers(event)?;
        let bytes = subject.len() + headers_bytes + event.body.len();
        let max = self.limits.record_bytes_max;
        if bytes > max {
            let text = format!("the message has {bytes} bytes, at most {max} are allowed");
            return Err(Fault::new(Kind::Refused, text));
        }
        let bytes = bytes + OVERHEAD_BYTES;
        // The order of this lock is the order of the queue.
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = queue.as_ref().ok_or_else(closed)?;
        self.books
            .reserve(bytes, self.limits.waiting_bytes_max, "NATS")?;
        let (waiter, answer) = oneshot::channel();
        let parcel = Parcel {
            key: event.key().to_owned(),
            subject,
            headers,
            body: Bytes::copy_from_slice(event.body),
            deadline: Instant::now() + self.limits.time,
            bytes,
            waiter,
        };
        if let Err(unsent) = queue.send(parcel) {
            self.books.settle(unsent.0.bytes, false);
            return Err(closed());
        }
        Ok(Delivery(answer))
    }

    /// What became of events so far.
    pub fn figures(&self) -> OutFigures {
        self.books.figures()
    }

    /// Whether the connection has written all that it was given, within this time. A stream has acknowledged it before.
    pub async fn flush(&self, within: Duration) -> bool {
        // What the last connection had not written is lost with it.
        let Some(line) = self.line.get() else {
            return true;
        };
        matches!(timeout(within, line.client.flush()).await, Ok(Ok(())))
    }

    /// Takes nothing more, waits for NATS to take what is there, and says how many messages it did not take in this time. Whoever waits
    /// for one of them is told.
    pub async fn close(&self, within: Duration) -> u64 {
        drop(lock(&self.queue).take());
        let Some(mut task) = lock(&self.task).take() else {
            return 0;
        };
        if timeout(within, &mut task).await.is_err() {
            task.abort();
            // Waiters are told when their parcels are dropped.
            let _ = task.await;
        }
        let left = self.books.waiting();
        if left > 0 {
            tracing::error!(
                messages = left,
                "NATS did not take them in time: they are lost"
            );
        }
        left
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// And their bytes as they are sent.
fn headers(event: &Event<'_>) -> Result<(HeaderMap, usize), Fault> {
    let (mut all, mut bytes) = (HeaderMap::new(), 0);
    let mut wrong = None;
    event.each_header(|name, value| {
        bytes += name.len() + value.len() + 4;
        match fitting(value) {
            Some(value) => all.insert(name, value),
            None => wrong = Some(name),
        }
    });
    match wrong {
        None => Ok((all, bytes)),
        Some(name) => Err(Fault::new(
            Kind::Refused,
            format!(
                "the header {name} of NATS cannot have a value with control characters, or with spaces at its ends"
            ),
        )),
    }
}

/// Clients of NATS cut spaces off, and an end of line would begin another header.
fn fitting(value: &str) -> Option<HeaderValue> {
    let clean = value.trim() == value && !value.contains(char::is_control);
    clean.then(|| value.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::fitting;

    #[test]
    fn a_header_has_no_second_line_and_no_space_at_its_ends() {
        for value in ["a", "", "a b", "ä: x"] {
            assert!(fitting(value).is_some(), "{value:?}");
        }
        for value in ["a\r\nX-Uid: b", "a\n", "\r", " a", "a ", "a\tb", "a\0"] {
            assert!(fitting(value).is_none(), "{value:?}");
        }
    }
}
