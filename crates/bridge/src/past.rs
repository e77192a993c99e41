//! The commands that the readers of one inlet have handed over. This outlives each reader: an upgrade that is given up begins new ones,
//! and the last commands come again.

use crate::place::Place;
use crate::window::{Reached, Window};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// All copies are the same memory.
#[derive(Clone, Debug, Default)]
pub struct Past(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    window: Window,
    doubt: Option<Doubt>,
}

/// An acknowledgement may be lost.
#[derive(Debug)]
enum Doubt {
    /// Nothing is read: what may come again has not come.
    Open,
    /// It is read since, and all has come again by then.
    Until(Instant),
}

impl Past {
    /// Whether the record was handed over before, as far as the window reaches.
    pub fn has(&self, place: Place<'_>) -> bool {
        self.state().window.has(place)
    }

    /// Remembers it.
    pub fn add(&self, place: Place<'_>) {
        self.state().window.add(place);
    }

    /// See [`Window::reached`].
    pub fn reached(&self) -> Vec<Reached> {
        self.state().window.reached()
    }

    /// An acknowledgement may be lost: what was handed over may come again, however long the bus is away.
    pub fn doubt(&self) {
        self.state().doubt = Some(Doubt::Open);
    }

    /// The bus is read: what was doubted before comes within this time.
    pub fn comes_again_within(&self, time: Duration) {
        let mut state = self.state();
        if let Some(doubt @ Doubt::Open) = &mut state.doubt {
            *doubt = Doubt::Until(Instant::now() + time);
        }
    }

    /// Whether something that was handed over may come again.
    pub fn is_in_doubt(&self) -> bool {
        match self.state().doubt {
            None => false,
            Some(Doubt::Open) => true,
            Some(Doubt::Until(until)) => Instant::now() < until,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_reader_knows_what_the_one_before_handed_over() {
        let place = Place {
            topic: "t",
            partition: 0,
            offset: 7,
            time_ms: 1,
        };
        let past = Past::default();
        past.clone().add(place);
        assert!(past.has(place));
        assert!(!past.is_in_doubt());
    }

    /// The clock that ran while the bus was away ended the doubt.
    #[test]
    fn a_doubt_lasts_until_the_bus_was_read_for_a_while() {
        let past = Past::default();
        past.comes_again_within(Duration::from_secs(60));
        assert!(!past.is_in_doubt(), "there was none");
        past.clone().doubt();
        assert!(past.is_in_doubt(), "for as long as nothing is read");
        past.comes_again_within(Duration::from_secs(60));
        past.comes_again_within(Duration::ZERO);
        assert!(past.is_in_doubt(), "it is read, and not for long");
        past.doubt();
        past.comes_again_within(Duration::ZERO);
        assert!(!past.is_in_doubt());
    }
}
