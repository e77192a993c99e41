//! Those who read commands, from their beginning to their end.

use super::{Counted, Figures};
use ::bridge::{InFigures, OutFigures};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TryRecvError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Servers have so long for the last acknowledgement.
const STOP_TIME: Duration = Duration::from_secs(3);

/// One of them.
pub(crate) trait Reader: Send + 'static {
    fn figures(&self) -> InFigures;
    /// `false`: what was handed over last may be read again.
    fn stop(self) -> bool;
}

/// All of one bus.
pub(crate) struct Readers<R> {
    bus: &'static str,
    all: Mutex<All<R>>,
    stopped: Mutex<Figures>,
}

struct All<R> {
    open: Vec<R>,
    /// Those that were told to stop and have not: they may still acknowledge.
    late: Vec<Receiver<bool>>,
    /// Of those that stopped last.
    is_acknowledged: bool,
}

impl<R: Reader> Readers<R> {
    pub(crate) fn new(bus: &'static str) -> Self {
        Self {
            bus,
            all: Mutex::new(All {
                open: Vec::new(),
                late: Vec::new(),
                is_acknowledged: true,
            }),
            stopped: Mutex::default(),
        }
    }

    pub(crate) fn add(&self, reader: R) {
        let mut all = lock(&self.all);
        all.open.push(reader);
        // It says so of those before it, too.
        all.is_acknowledged = true;
    }

    /// `false`: what was handed over last may be read again.
    pub(crate) fn stop(&self) -> bool {
        self.stop_within(STOP_TIME)
    }

    fn stop_within(&self, time: Duration) -> bool {
        let (readers, mut ends) = {
            let mut all = lock(&self.all);
            (std::mem::take(&mut all.open), std::mem::take(&mut all.late))
        };
        for reader in readers {
            let (told, end) = mpsc::channel();
            add(&mut lock(&self.stopped), reader.figures());
            ends.push(end);
            std::thread::spawn(move || {
                // Nobody may listen any more.
                let _ = told.send(reader.stop());
            });
        }
        let deadline = Instant::now() + time;
        let ends = ends.into_iter().map(|end| {
            let left = deadline.saturating_duration_since(Instant::now());
            (end.recv_timeout(left), end)
        });
        let ends: Vec<_> = ends.collect();
        let mut all = lock(&self.all);
        for (said, end) in ends {
            all.is_acknowledged &= said == Ok(true);
            if said == Err(RecvTimeoutError::Timeout) {
                all.late.push(end);
            }
        }
        if !all.is_acknowledged {
            tracing::warn!(
                "{} does not answer at the end: commands that were handed over last may be read again",
                self.bus
            );
        }
        all.is_acknowledged
    }

    /// Whether all that were told to stop have.
    pub(crate) fn have_stopped(&self) -> bool {
        let mut all = lock(&self.all);
        all.late
            .retain(|end| end.try_recv() == Err(TryRecvError::Empty));
        all.late.is_empty()
    }

    fn figures(&self) -> Figures {
        let mut figures = Figures {
            // Others read this by now.
            lag: 0,
            ..*lock(&self.stopped)
        };
        let all = lock(&self.all);
        all.open
            .iter()
            .for_each(|reader| add(&mut figures, reader.figures()));
        figures
    }
}

/// What a bridge tells of both ways.
pub(crate) fn figures<R: Reader>(
    readers: &Readers<R>,
    partial: &Counted,
    out: Option<OutFigures>,
) -> Figures {
    let out = out.unwrap_or_default();
    Figures {
        produced: out.produced,
        failed: out.failed,
        refused: out.refused,
        retried: out.retried,
        waiting_bytes: out.waiting_bytes,
        partial: partial.get(),
        ..readers.figures()
    }
}

fn add(figures: &mut Figures, read: InFigures) {
    figures.handed += read.handed;
    figures.repeated += read.repeated;
    figures.dead += read.dead;
    figures.lost += read.lost;
    figures.lag += read.lag;
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::Sender;

    /// Stops when it is told what it says.
    struct Held(Receiver<bool>);

    impl Reader for Held {
        fn figures(&self) -> InFigures {
            InFigures::default()
        }

        fn stop(self) -> bool {
            self.0.recv().unwrap_or_default()
        }
    }

    fn reader(readers: &Readers<Held>) -> Sender<bool> {
        let (says, held) = mpsc::channel();
        readers.add(Held(held));
        says
    }

    fn say(what: &[(&Sender<bool>, bool)]) {
        for (to, acknowledged) in what {
            to.send(*acknowledged).expect("it stops");
        }
    }

    #[test]
    fn one_that_is_late_is_waited_for_although_another_one_failed() {
        let readers = Readers::new("a bus");
        let (fails, late) = (reader(&readers), reader(&readers));
        say(&[(&fails, false)]);
        let a_moment = Duration::from_millis(20);
        assert!(!readers.stop_within(a_moment));
        assert!(!readers.have_stopped(), "it may still acknowledge");
        assert!(!readers.stop_within(a_moment), "it is late still");
        say(&[(&late, true)]);
        let deadline = Instant::now() + STOP_TIME;
        while !readers.have_stopped() {
            assert!(Instant::now() < deadline);
            std::thread::yield_now();
        }
        assert!(!readers.stop(), "what the first had may be read again");
        say(&[(&reader(&readers), true)]);
        assert!(readers.stop(), "another one has seen to it");
    }
}
