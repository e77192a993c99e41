//! Lines of the log about trouble: few, whatever programs write and however long it lasts.

use crate::bounds::LINES_MAX;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often the log is told of trouble that lasts.
const TELL_AGAIN: Duration = Duration::from_secs(60);

/// Those since the beginning of a second.
#[derive(Debug)]
pub struct Lines {
    since: Instant,
    count: u32,
}

impl Default for Lines {
    fn default() -> Self {
        let since = Instant::now();
        Self { since, count: 0 }
    }
}

impl Lines {
    /// Whether there may be another one.
    pub fn more(&mut self) -> bool {
        if self.since.elapsed() >= Duration::from_secs(1) {
            *self = Self::default();
        }
        self.count += 1;
        self.count <= LINES_MAX
    }
}

/// Trouble that passes by itself is told once a minute.
#[derive(Debug, Default)]
pub struct Quiet(Mutex<Option<Instant>>);

impl Quiet {
    /// Whether it is time to tell it (again).
    pub fn is_due(&self) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let due = told.is_none_or(|told| told.elapsed() >= TELL_AGAIN);
        if due {
            *told = Some(Instant::now());
        }
        due
    }
}
