//! What the readers of one inlet have handed over. It outlives each of them: an upgrade that is given up begins new ones, and what
//! came last comes again.

use crate::place::Place;
use crate::window::Window;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// All copies are the same memory.
#[derive(Clone, Debug, Default)]
pub struct Past(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    window: Window,
    doubted_until: Option<Instant>,
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
    pub fn reached(&self, within: Duration) -> Vec<(String, i32, i64)> {
        self.state().window.reached(within)
    }

    /// An acknowledgement may be lost: what was handed over may come again within this time.
    pub fn doubt(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut state = self.state();
        state.doubted_until = state.doubted_until.max(Some(until));
    }

    /// Whether something that was handed over may come again.
    pub fn is_in_doubt(&self) -> bool {
        let until = self.state().doubted_until;
        until.is_some_and(|until| Instant::now() < until)
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
        past.clone().doubt(Duration::from_secs(60));
        past.doubt(Duration::ZERO);
        assert!(past.is_in_doubt(), "the longer doubt counts");
    }
}
