//! Commands on their way in: messages are read, each is handed over, and those of a stream are acknowledged afterwards.

use crate::desk::Desk;
use crate::letters::Letters;
use crate::link::{Line, Link};
use crate::reading::{PAUSE, POLL, Reading, Shared, Source};
use crate::settings::Settings;
use crate::stream;
use async_nats::{Statistics, Subscriber};
use bridge::{Command, Fault, InFigures, Kind, Past, Place, Unhandled};
use futures_util::StreamExt;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::time::timeout;

/// At the end, the server has so long to end a subscription, and what it sent before is handed over.
const DRAIN_TIME: Duration = Duration::from_secs(1);

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

impl Inlet {
    /// Begins to read. `hand` gets each command, one after the other, with its place in its stream if it has one, and may block: that
    /// holds the others back. When it returns, the command counts as handed over. The text of a flaw is the reason in the dead letter.
    ///
    /// Servers and streams may be missing: they are looked for in the background. Within a runtime with other threads.
    ///
    /// # Errors
    /// A name is wrong.
    pub fn start(
        settings: &Settings,
        reading: Reading,
        hand: impl FnMut(Option<Place<'_>>, Command<'_>) -> Result<(), Unhandled> + Send + 'static,
    ) -> Result<Self, Fault> {
        Self::go_on(settings, reading, &Past::default(), hand)
    }

    /// The same behind readers that were stopped, and what they handed over.
    ///
    /// # Errors
    /// As above.
    pub fn go_on(
        settings: &Settings,
        reading: Reading,
        past: &Past,
        hand: impl FnMut(Option<Place<'_>>, Command<'_>) -> Result<(), Unhandled> + Send + 'static,
    ) -> Result<Self, Fault> {
        reading.check()?;
        let shared = Arc::new(Shared::new(settings.failures()));
        let slow = Arc::clone(&shared);
        // A message that nobody had room for.
        let link = Link::start(settings.clone(), move || {
            slow.trouble("messages come faster than they are handed over: some are lost");
        });
        let runtime = Handle::current();
        let letters = Letters::new(reading.dead_letters.clone(), runtime.clone());
        let desk = Desk::new((Arc::clone(&shared), letters), reading, past, hand);
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
        let lag = self.shared.lag.load(Ordering::Relaxed);
        self.shared.books.figures(lag)
    }

    /// Finishes what is at hand, and acknowledges it. Blocks for that time. `false`: some of the last may come again.
    pub fn stop(mut self) -> bool {
        self.shared.stop();
        if let Some(thread) = self.thread.take() {
            // It catches its panics.
            let _ = thread.join();
        }
        !self.shared.is_in_doubt()
    }
}

impl Drop for Inlet {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

fn run<H>(runtime: &Handle, link: &Link, mut desk: Desk<H>)
where
    H: FnMut(Option<Place<'_>>, Command<'_>) -> Result<(), Unhandled>,
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
    desk.ends();
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
    H: FnMut(Option<Place<'_>>, Command<'_>) -> Result<(), Unhandled>,
{
    let subject = desk.subject().to_owned();
    let subscribed = line
        .client
        .queue_subscribe(subject.clone(), group.to_owned());
    let mut messages: Subscriber = runtime
        .block_on(subscribed)
        .map_err(|error| format!("cannot listen to {subject}: {error}"))?;
    let mut arrivals = Arrivals::new(line);
    while !desk.stops() {
        match runtime.block_on(async { timeout(POLL, messages.next()).await }) {
            Ok(Some(message)) => {
                arrivals.seen += 1;
                desk.settle_once(&message, line);
            }
            Ok(None) => return Ok(()),
            Err(_) if link.is_up() => desk.note_dropped(arrivals.dropped()),
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

/// Messages of a connection with one subscription: those that came and were never seen had no room.
struct Arrivals {
    counted: Arc<Statistics>,
    before: u64,
    seen: u64,
    told: u64,
    missing: u64,
}

impl Arrivals {
    fn new(line: &Line) -> Self {
        let counted = line.client.statistics();
        let before = counted.in_messages.load(Ordering::Relaxed);
        Self {
            counted,
            before,
            seen: 0,
            told: 0,
            missing: 0,
        }
    }

    /// Since it was asked last. Only asked while nothing waits to be seen: what is missing now, and was missing at the last question, is not
    /// on its way.
    fn dropped(&mut self) -> u64 {
        let came = self.counted.in_messages.load(Ordering::Relaxed) - self.before;
        let missing = came.saturating_sub(self.seen);
        let sure = missing.min(self.missing);
        self.missing = missing;
        let fresh = sure.saturating_sub(self.told);
        self.told += fresh;
        fresh
    }
}
