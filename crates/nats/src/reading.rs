//! What is read, and what those who read and those who look on share.

use crate::subject;
use bridge::{Failures, Fault, InBooks, Kind, Operator, Quiet, Rights};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How soon a stop is noticed.
pub(crate) const POLL: Duration = Duration::from_millis(100);
/// Before something that failed is tried again.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);
/// Where messages come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A subject: each message goes to one member of the queue group that listens at that moment, at most once.
    Subject {
        /// Of members.
        group: String,
    },
    /// A durable consumer of a stream: each message is handed over at least once.
    Stream {
        /// Its name. It must be there.
        stream: String,
        /// The consumer. One that is missing is made.
        durable: String,
        /// Messages that are handed out and not acknowledged, by all members together; 1 keeps the order of the stream.
        pending_max: u32,
    },
}

/// What is read, and how.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The subject; `*` and `>` stand for others.
    pub subject: String,
    /// By which way.
    pub source: Source,
    /// Where messages may speak.
    pub namespaces: Vec<String>,
    /// What they may ask for.
    pub operators: Vec<Operator>,
    /// Where messages go that are no command; `None`: they are counted and dropped.
    pub dead_letters: Option<String>,
    /// Of a message's value. Larger ones are no commands.
    pub value_bytes_max: usize,
}

impl Reading {
    /// Whether servers take its names.
    ///
    /// # Errors
    /// One is wrong.
    pub fn check(&self) -> Result<(), Fault> {
        subject::readable(&self.subject)?;
        if let Some(dead) = &self.dead_letters {
            subject::writable(dead)?;
            if subject::overlap(dead, &self.subject) {
                let text = format!(
                    "{dead:?} is read as {:?}: its letters would come back for ever; use another subject",
                    self.subject
                );
                return Err(Fault::new(Kind::Settings, text));
            }
        }
        let names: &[&String] = match &self.source {
            Source::Subject { group } => &[group],
            Source::Stream {
                stream, durable, ..
            } => &[stream, durable],
        };
        let fits = |name: &&&String| {
            let known = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
            (1..=255).contains(&name.len()) && name.bytes().all(known)
        };
        match names.iter().find(|name| !fits(name)) {
            None => Ok(()),
            Some(name) => {
                let text = format!(
                    "cannot use the name {name:?}: streams, consumers and groups have 1 to 255 letters, digits, underscores and hyphens"
                );
                Err(Fault::new(Kind::Settings, text))
            }
        }
    }

    pub(crate) fn rights(&self) -> Rights {
        let holder = format!("the subject {}", self.subject);
        Rights::new(holder, self.namespaces.clone(), self.operators.clone())
    }
}

/// What the thread and those who look at it share.
#[derive(Default)]
pub(crate) struct Shared {
    stops: AtomicBool,
    /// An acknowledgement may be lost.
    in_doubt: AtomicBool,
    quiet: Quiet,
    pub(crate) books: InBooks,
    pub(crate) failures: Arc<Failures>,
    pub(crate) lag: AtomicU64,
}

impl Shared {
    pub(crate) fn new(failures: &Arc<Failures>) -> Self {
        Self {
            failures: Arc::clone(failures),
            ..Self::default()
        }
    }

    pub(crate) fn stop(&self) {
        self.stops.store(true, Ordering::Release);
    }

    pub(crate) fn doubt(&self) {
        self.in_doubt.store(true, Ordering::Release);
    }

    pub(crate) fn is_in_doubt(&self) -> bool {
        self.in_doubt.load(Ordering::Acquire)
    }

    pub(crate) fn stops(&self) -> bool {
        self.stops.load(Ordering::Acquire)
    }

    pub(crate) fn trouble(&self, what: impl fmt::Display) {
        if self.quiet.is_due() {
            self.failures.note("trouble", &what.to_string());
            tracing::warn!("NATS: {what}: it is tried again");
        }
    }
}
