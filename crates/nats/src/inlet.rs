//! Commands on their way in: messages are read, each is handed over, and those of a stream are acknowledged afterwards.

use crate::desk::Desk;
use crate::letters::Letters;
use crate::link::{Line, Link};
use crate::settings::Settings;
use crate::{stream, subject};
use async_nats::Subscriber;
use bridge::{Command, Fault, InFigures, Kind, Operator, Quiet, Rights, Unhandled};
use futures_util::StreamExt;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::time::timeout;

/// How soon a stop is noticed.
pub(crate) const POLL: Duration = Duration::from_millis(100);
/// Before something that failed is tried again.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);
/// At the end, the server has so long to end a subscription, and what it sent before is handed over.
const DRAIN_TIME: Duration = Duration::from_secs(1);

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

/// Reads commands until it is dropped or stopped, in a thread of its own.
pub struct Inlet {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Inlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inlet").finish_non_exhaustive()
    }
}

/// What the thread and those who look at it share.
#[derive(Default)]
pub(crate) struct Shared {
    stops: AtomicBool,
    quiet: Quiet,
    pub(crate) handed: AtomicU64,
    pub(crate) repeated: AtomicU64,
    pub(crate) dead: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) lag: AtomicU64,
}

impl Shared {
    pub(crate) fn stops(&self) -> bool {
        self.stops.load(Ordering::Acquire)
    }

    pub(crate) fn trouble(&self, what: impl fmt::Display) {
        if self.quiet.is_due() {
            tracing::warn!("NATS: {what}: it is tried again");
        }
    }
}

impl Inlet {
    /// Begins to read. `hand` gets each command, one after the other, and may block: that holds the others back. When it returns, the
    /// command counts as handed over. The text of a flaw is the reason in the dead letter.
    ///
    /// Servers and streams may be missing: they are looked for in the background. Within a runtime with other threads.
    ///
    /// # Errors
    /// A name is wrong.
    pub fn start(
        settings: &Settings,
        reading: Reading,
        hand: impl FnMut(Command<'_>) -> Result<(), Unhandled> + Send + 'static,
    ) -> Result<Self, Fault> {
        reading.check()?;
        let shared = Arc::new(Shared::default());
        let slow = Arc::clone(&shared);
        // A message that nobody had room for.
        let link = Link::start(settings.clone(), move || {
            slow.lost.fetch_add(1, Ordering::Relaxed);
            slow.trouble("messages come faster than they are handed over: some are lost");
        });
        let runtime = Handle::current();
        let letters = Letters::new(reading.dead_letters.clone(), runtime.clone());
        let desk = Desk::new(Arc::clone(&shared), letters, reading, hand);
        let thread = thread::Builder::new().name("nats-in".to_owned());
        let thread = thread.spawn(move || run(&runtime, &link, desk));
        let thread = thread.map_err(|error| {
            Fault::new(
                Kind::Settings,
                format!("cannot start a thread for NATS: {error}"),
            )
        })?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// What became of messages so far.
    pub fn figures(&self) -> InFigures {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        InFigures {
            handed: read(&self.shared.handed),
            repeated: read(&self.shared.repeated),
            dead: read(&self.shared.dead),
            lost: read(&self.shared.lost),
            lag: read(&self.shared.lag),
        }
    }

    /// Finishes what is at hand, and acknowledges it. Blocks for that time.
    pub fn stop(mut self) {
        self.shared.stops.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // It catches its panics.
            let _ = thread.join();
        }
    }
}

impl Drop for Inlet {
    fn drop(&mut self) {
        self.shared.stops.store(true, Ordering::Release);
    }
}

fn run<H>(runtime: &Handle, link: &Link, mut desk: Desk<H>)
where
    H: FnMut(Command<'_>) -> Result<(), Unhandled>,
{
    while !desk.stops() {
        let Ok(line) = runtime.block_on(async { timeout(POLL, link.line()).await }) else {
            continue;
        };
        let read = match desk.source() {
            Source::Subject { group } => by_subject(runtime, link, &line, &group, &mut desk),
            Source::Stream { .. } => stream::read(runtime, link, &line, &mut desk),
        };
        if let Err(why) = read {
            desk.trouble(&why);
            let until = Instant::now() + PAUSE;
            while Instant::now() < until && !desk.stops() {
                thread::sleep(POLL);
            }
        }
    }
}

/// Until it stops, or the connection has a successor.
fn by_subject<H>(
    runtime: &Handle,
    link: &Link,
    line: &Line,
    group: &str,
    desk: &mut Desk<H>,
) -> Result<(), String>
where
    H: FnMut(Command<'_>) -> Result<(), Unhandled>,
{
    let subject = desk.subject().to_owned();
    let subscribed = line
        .client
        .queue_subscribe(subject.clone(), group.to_owned());
    let mut messages: Subscriber = runtime
        .block_on(subscribed)
        .map_err(|error| format!("cannot listen to {subject}: {error}"))?;
    while !desk.stops() {
        match runtime.block_on(async { timeout(POLL, messages.next()).await }) {
            Ok(Some(message)) => desk.settle_once(&message, line),
            Ok(None) => return Ok(()),
            Err(_) if link.is_up() => {}
            Err(_) => return Ok(()),
        }
    }
    // Others of the group hear what comes from now on.
    let drained = runtime.block_on(async { timeout(DRAIN_TIME, messages.drain()).await });
    if matches!(drained, Ok(Ok(()))) {
        let until = Instant::now() + DRAIN_TIME;
        while Instant::now() < until
            && let Ok(Some(message)) =
                runtime.block_on(async { timeout(DRAIN_TIME, messages.next()).await })
        {
            desk.settle_once(&message, line);
        }
    }
    Ok(())
}
