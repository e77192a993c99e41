//! Owns which phase is under way, which comes next, and which users should be there by now. Pure: times are arguments.

use crate::scenario::Scenario;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub struct Current {
    pub phase: usize,
    pub begins_ns: u64,
    pub ends_ns: u64,
}

#[derive(Debug, Default)]
pub struct Schedule {
    /// Users (of all workers) to be there as soon as possible.
    wanted: u32,
    current: Option<Current>,
    next: Option<Current>,
    is_over: bool,
}

impl Schedule {
    pub fn raise(&mut self, users: u32) {
        self.wanted = self.wanted.max(users);
    }

    pub fn announce(&mut self, phase: usize, begins_ns: u64, duration: Duration) {
        self.next = Some(Current {
            phase,
            begins_ns,
            ends_ns: begins_ns + duration.as_nanos() as u64,
        });
    }

    /// The phase that begins by now.
    pub fn begin(&mut self, now_ns: u64) -> Option<Current> {
        let next = self.next.take_if(|next| next.begins_ns <= now_ns)?;
        self.current = Some(next);
        Some(next)
    }

    /// Nothing new from now on. Returns when the phase under way ends.
    pub fn stop(&mut self) -> u64 {
        self.wanted = 0;
        self.next = None;
        self.is_over = true;
        self.current.map_or(0, |current| current.ends_ns)
    }

    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// When the phase began, if it has.
    pub fn begun_ns(&self, phase: usize) -> Option<u64> {
        let current = self.current.filter(|current| current.phase >= phase)?;
        Some(current.begins_ns)
    }

    pub fn next_begins_ns(&self) -> Option<u64> {
        self.next.map(|next| next.begins_ns)
    }

    pub fn is_wanted(&self, number: u32) -> bool {
        number < self.wanted
    }

    /// When user `number`, the worker's next, arrives in a phase with an arrival rate.
    pub fn arrival_ns(&self, scenario: &Scenario, number: u32) -> Option<u64> {
        let current = self.current.filter(|_| !self.is_over)?;
        let rate = scenario.phases[current.phase].arrivals?;
        let before = match current.phase {
            0 => 0,
            phase => scenario.users_by(phase - 1),
        };
        if number >= scenario.users_by(current.phase) {
            return None;
        }
        let place = f64::from(number.saturating_sub(before));
        let due_ns = current.begins_ns + (place / rate * 1e9) as u64;
        (due_ns < current.ends_ns).then_some(due_ns)
    }
}
