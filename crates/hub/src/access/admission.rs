//! Admission: whether a newcomer is let in when there is much to do already. Clients that are here come first, then those that
//! come back to a session they have; newcomers are asked to come again in a moment. Three things are measured: how long turns take, how
//! long questions to the control plane stay open, and how much of the process's memory is used.

use crate::books::config;
use crate::books::metrics::Limit;
use crate::bounds::SHED_INTERVAL_MS;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// What only the process as a whole knows; written outside, read by all hubs.
#[derive(Debug, Default)]
pub struct Pressure {
    memory_percent: AtomicU8,
    /// Sessions of all hubs.
    sessions: AtomicUsize,
}

impl Pressure {
    /// Memory in use, percent of what the process may have.
    pub fn set_memory_percent(&self, percent: u8) {
        self.memory_percent.store(percent, Ordering::Relaxed);
    }

    pub(crate) fn memory_percent(&self) -> u8 {
        self.memory_percent.load(Ordering::Relaxed)
    }
}

/// Weight of the newest value in a running mean: one part of this many.
const PARTS: u64 = 8;

/// The measurements of one hub.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    turn_us: u64,
    ask_ms: u64,
    shed_due_ms: u64,
    pressure: Arc<Pressure>,
}

impl Admission {
    pub(crate) fn new(pressure: Arc<Pressure>) -> Self {
        Self {
            pressure,
            ..Self::default()
        }
    }

    pub(crate) fn turn_took(&mut self, us: u64) {
        self.turn_us = mean(self.turn_us, us);
    }

    pub(crate) fn answered(&mut self, ms: u64) {
        self.ask_ms = mean(self.ask_ms, ms);
    }

    /// No question is open, so nothing is known of how long one would take.
    pub(crate) fn forget_answers(&mut self) {
        self.ask_ms = 0;
    }

    pub(crate) fn memory_percent(&self) -> u8 {
        self.pressure.memory_percent()
    }

    pub(crate) fn session_came(&self) {
        self.pressure.sessions.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn session_left(&self) {
        self.pressure.sessions.fetch_sub(1, Ordering::Relaxed);
    }

    /// Sessions of the process, whichever hub has them.
    pub(crate) fn sessions(&self) -> usize {
        self.pressure.sessions.load(Ordering::Relaxed)
    }

    /// Memory is beyond this bound, and nobody was closed for it of late.
    pub(crate) fn sheds(&mut self, percent: u8, now_ms: u64) -> bool {
        let sheds = percent > 0 && self.memory_percent() >= percent && now_ms >= self.shed_due_ms;
        if sheds {
            self.shed_due_ms = now_ms + SHED_INTERVAL_MS;
        }
        sheds
    }

    /// The bound that keeps newcomers out now.
    pub(crate) fn closed_by(&self, bounds: &config::Admission) -> Option<Limit> {
        let over = |value: u64, bound: u128| bound > 0 && u128::from(value) > bound;
        if over(self.turn_us, bounds.turn_max.as_micros()) {
            Some(Limit::AdmissionTurn)
        } else if over(self.ask_ms, bounds.ask_max.as_millis()) {
            Some(Limit::AdmissionAsk)
        } else if bounds.memory_percent_max > 0
            && self.memory_percent() >= bounds.memory_percent_max
        {
            Some(Limit::AdmissionMemory)
        } else {
            None
        }
    }
}

fn mean(before: u64, now: u64) -> u64 {
    (before * (PARTS - 1) + now) / PARTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newcomers_wait_while_turns_are_long_and_come_in_when_they_are_short() {
        let bounds = config::Admission::default();
        let mut admission = Admission::default();
        assert_eq!(admission.closed_by(&bounds), None);
        let long = bounds.turn_max.as_micros() as u64 * 3;
        (0..8).for_each(|_| admission.turn_took(long));
        assert_eq!(admission.closed_by(&bounds), Some(Limit::AdmissionTurn));
        (0..32).for_each(|_| admission.turn_took(100));
        assert_eq!(admission.closed_by(&bounds), None);
    }

    #[test]
    fn slow_answers_and_full_memory_keep_newcomers_out() {
        let bounds = config::Admission::default();
        let pressure = Arc::new(Pressure::default());
        let mut admission = Admission::new(Arc::clone(&pressure));
        (0..20).for_each(|_| admission.answered(bounds.ask_max.as_millis() as u64 * 2));
        assert_eq!(admission.closed_by(&bounds), Some(Limit::AdmissionAsk));
        admission.forget_answers();
        pressure.set_memory_percent(bounds.memory_percent_max);
        assert_eq!(admission.closed_by(&bounds), Some(Limit::AdmissionMemory));
    }
}
