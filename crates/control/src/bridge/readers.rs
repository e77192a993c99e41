//! Those who read commands, from their beginning to their end.

use super::{Counted, Figures};
use ::bridge::{InFigures, OutFigures};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
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
    open: Mutex<Vec<R>>,
    stopped: Mutex<Figures>,
}

impl<R: Reader> Readers<R> {
    pub(crate) fn new(bus: &'static str) -> Self {
        Self {
            bus,
            open: Mutex::default(),
            stopped: Mutex::default(),
        }
    }

    pub(crate) fn add(&self, reader: R) {
        lock(&self.open).push(reader);
    }

    pub(crate) fn stop(&self) -> bool {
        let readers = std::mem::take(&mut *lock(&self.open));
        let (told, ends) = mpsc::channel();
        let count = readers.len();
        for reader in readers {
            let told = told.clone();
            add(&mut lock(&self.stopped), reader.figures());
            std::thread::spawn(move || {
                // Nobody may listen any more.
                let _ = told.send(reader.stop());
            });
        }
        let deadline = Instant::now() + STOP_TIME;
        let all = (0..count).all(|_| {
            let left = deadline.saturating_duration_since(Instant::now());
            matches!(ends.recv_timeout(left), Ok(true))
        });
        if !all {
            tracing::warn!(
                "{} does not answer at the end: commands that were handed over last may be read again",
                self.bus
            );
        }
        all
    }

    fn figures(&self) -> Figures {
        let mut figures = Figures {
            // Others read this by now.
            lag: 0,
            ..*lock(&self.stopped)
        };
        let open = lock(&self.open);
        open.iter()
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
