//! What is done with one message: it is read and handed over, or buried.

use crate::letters::{From, Letter, Letters};
use crate::link::Line;
use crate::reading::{PAUSE, Reading, Shared, Source};
use async_nats::{HeaderName, Message};
use bridge::{Command, Flaw, Lines, Past, Place, RawHeader, Rights, Said, Unhandled};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// Of one inlet.
pub(crate) struct Desk<H> {
    shared: Arc<Shared>,
    letters: Letters,
    past: Past,
    lines: Lines,
    rights: Rights,
    reading: Reading,
    /// Messages of a stream come one by one until then.
    careful_until: Option<Instant>,
    hand: H,
}

impl<H> Desk<H>
where
    H: FnMut(Option<Place<'_>>, Command<'_>) -> Result<(), Unhandled>,
{
    pub(crate) fn new(
        (shared, letters): (Arc<Shared>, Letters),
        reading: Reading,
        past: &Past,
        hand: H,
    ) -> Self {
        Self {
            shared,
            letters,
            past: past.clone(),
            lines: Lines::default(),
            rights: reading.rights(),
            reading,
            careful_until: None,
            hand,
        }
    }

    /// A connection has ended, perhaps by a message.
    pub(crate) fn be_careful(&mut self, time: Duration) {
        self.careful_until = Some(Instant::now() + time);
    }

    pub(crate) fn is_careful(&self) -> bool {
        self.careful_until
            .is_some_and(|until| Instant::now() < until)
    }

    /// What was handed over.
    pub(crate) fn past(&self) -> &Past {
        &self.past
    }

    /// The end of the reader.
    pub(crate) fn ends(&self) {
        if self.past.is_in_doubt() {
            self.shared.doubt();
        }
    }

    pub(crate) fn stops(&self) -> bool {
        self.shared.stops()
    }

    pub(crate) fn source(&self) -> Source {
        self.reading.source.clone()
    }

    pub(crate) fn subject(&self) -> &str {
        &self.reading.subject
    }

    pub(crate) fn trouble(&self, what: &str) {
        self.shared.trouble(what);
    }

    /// Messages of the stream that wait.
    pub(crate) fn note_lag(&self, waiting: u64) {
        self.shared.lag.store(waiting, Ordering::Relaxed);
    }

    /// Messages that the server has given up, since nobody could read them.
    pub(crate) fn note_lost(&mut self, what: &str) {
        self.shared.books.lost.fetch_add(1, Ordering::Relaxed);
        self.shared.failures.note("message lost", what);
        if self.lines.more() {
            tracing::error!("{what}");
        }
    }

    /// Messages that came while there was no room for them.
    pub(crate) fn note_dropped(&self, count: u64) {
        self.shared.books.lost.fetch_add(count, Ordering::Relaxed);
    }

    /// A message that comes once. At the end of the process it may stay undone, since nobody else gets it.
    pub(crate) fn settle_once(&mut self, message: &Message, line: &Line) {
        if !self.attend(message, None, line, || {}) {
            self.note_lost("a command of NATS was not carried out, since the gateway ends");
        }
    }

    /// A message of a stream; `false`: it comes again, since the gateway or the connection ends. `waits` is called now and then while nobody takes it.
    pub(crate) fn settle(
        &mut self,
        message: &Message,
        place: Place<'_>,
        line: &Line,
        waits: impl FnMut(),
    ) -> bool {
        if self.past.has(place) {
            self.shared.books.repeated.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        let settled = self.attend(message, Some(place), line, waits);
        if settled {
            self.past.add(place);
        }
        settled
    }

    /// Hands it over or buries it, however long that takes; `false`: neither, since it stops.
    fn attend(
        &mut self,
        message: &Message,
        place: Option<Place<'_>>,
        line: &Line,
        mut waits: impl FnMut(),
    ) -> bool {
        loop {
            let handed = catch_unwind(AssertUnwindSafe(|| self.hand_over(message, place)));
            let handed = handed.unwrap_or_else(|_| {
                Err(Unhandled::Flaw(
                    "it cannot be read: reading it failed".to_owned(),
                ))
            });
            match handed {
                Ok(()) => {
                    self.shared.books.handed.fetch_add(1, Ordering::Relaxed);
                    return true;
                }
                Err(Unhandled::Flaw(text)) => {
                    return self.bury(message, place, line, &Flaw::new(text), waits);
                }
                Err(Unhandled::Later) if self.stops() => return false,
                Err(Unhandled::Later) => {
                    waits();
                    thread::sleep(PAUSE);
                }
            }
        }
    }

    fn hand_over(&mut self, message: &Message, place: Option<Place<'_>>) -> Result<(), Unhandled> {
        let (bytes, max) = (message.payload.len(), self.reading.value_bytes_max);
        if bytes > max {
            let text = format!("the value has {bytes} bytes: at most {max} are allowed");
            return Err(text.into());
        }
        let headers: Vec<RawHeader<'_>> = message
            .headers
            .iter()
            .flat_map(|headers| headers.iter())
            .flat_map(|(name, values)| {
                let name: &str = HeaderName::as_ref(name);
                values
                    .iter()
                    .map(move |value| (name, Some(value.as_str().as_bytes())))
            })
            .collect();
        let command = Command::read(&self.rights, &headers, Some(&message.payload));
        (self.hand)(place, command.map_err(|flaw| flaw.to_string())?)
    }

    fn bury(
        &mut self,
        message: &Message,
        place: Option<Place<'_>>,
        line: &Line,
        flaw: &Flaw,
        mut waits: impl FnMut(),
    ) -> bool {
        if self.lines.more() {
            let number = place.map(|place| place.offset);
            tracing::warn!(
                subject = message.subject.as_str(),
                number,
                "a message is no command: {flaw}"
            );
        }
        let failures = &self.shared.failures;
        failures.note_said("no command", &flaw.to_string(), || {
            vec![Said::new(
                "message",
                message.subject.as_str(),
                &message.payload,
            )]
        });
        let from = From { place, flaw };
        let mut tries = 0;
        while !self.stops() {
            let count = match self.letters.write(message, &from, line, tries) {
                Letter::Written => &self.shared.books.dead,
                Letter::Lost => &self.shared.books.lost,
                Letter::Again => return false,
                Letter::Later => {
                    tries += 1;
                    waits();
                    thread::sleep(PAUSE);
                    continue;
                }
            };
            count.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        false
    }
}
