//! Own heartbeats and what came of them: when they were made, and whether the engine takes anything.

use crate::interest::DOUBT_US;
use std::collections::VecDeque;

/// An engine that took nothing for so long is away, or this node stood still. A heartbeat is due much more often.
const AWAY_US: u64 = 500_000;
/// When the engine is back, letters wait at most so long for what peers hold.
const HEARING_US: u64 = 1_000_000;

/// Heartbeats whose time is remembered.
const MADE_MAX: usize = 64;

/// Round trips that are remembered: those of four seconds.
const TRIPS_MAX: usize = 16;

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It takes nothing.
    Away,
    /// It has taken something again.
    Back,
    Steady,
}

#[derive(Debug, Default)]
pub(crate) struct Pulse {
    beats: u64,
    /// Heartbeats and when they were made, as long as that matters.
    made: VecDeque<(u64, u64)>,
    taken_us: u64,
    /// Until then peers are waited for.
    back_until_us: u64,
    /// How long the last heartbeats took through the engine and back.
    trips_us: VecDeque<u64>,
}

impl Pulse {
    /// The node begins.
    pub(crate) fn begin(&mut self, now_us: u64) {
        self.taken_us = now_us;
    }

    /// The node goes on after so many heartbeats.
    pub(crate) fn go_on(&mut self, beats: u64, now_us: u64) {
        self.beats = beats;
        self.taken_us = now_us;
    }

    pub(crate) fn beats(&self) -> u64 {
        self.beats
    }

    /// The number of the next heartbeat.
    pub(crate) fn beat(&mut self, now_us: u64) -> u64 {
        self.beats += 1;
        while self.made.len() >= MADE_MAX {
            self.made.pop_front();
        }
        self.made.push_back((self.beats, now_us));
        self.beats
    }

    /// When a heartbeat was made, if that was not too long ago.
    pub(crate) fn sent_us(&mut self, beat: u64, now_us: u64) -> Option<u64> {
        while let Some((_, at_us)) = self.made.front()
            && at_us + DOUBT_US < now_us
        {
            self.made.pop_front();
        }
        let made = self.made.iter().find(|(made, _)| *made == beat);
        made.map(|(_, at_us)| *at_us)
    }

    /// An own heartbeat came back. One whose time is forgotten took longer than that is remembered.
    pub(crate) fn came_back(&mut self, beat: u64, now_us: u64) {
        let sent_us = self.sent_us(beat, now_us);
        let trip_us = sent_us.map_or(DOUBT_US, |sent_us| now_us.saturating_sub(sent_us));
        while self.trips_us.len() >= TRIPS_MAX {
            self.trips_us.pop_front();
        }
        self.trips_us.push_back(trip_us);
    }

    /// The longest of the last round trips; `None` before the first.
    pub(crate) fn round_trip_us(&self) -> Option<u64> {
        self.trips_us.iter().max().copied()
    }

    /// The engine took something.
    pub(crate) fn taken(&mut self, now_us: u64) {
        if self.state(now_us) == State::Away {
            self.back_until_us = now_us + HEARING_US;
        }
        self.taken_us = now_us;
    }

    pub(crate) fn state(&self, now_us: u64) -> State {
        if now_us > self.taken_us + AWAY_US {
            State::Away
        } else if now_us < self.back_until_us {
            State::Back
        } else {
            State::Steady
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_round_trip_is_seen_for_four_seconds() {
        let mut pulse = Pulse::default();
        pulse.begin(1);
        assert_eq!(pulse.round_trip_us(), None);
        for n in 0..20_u64 {
            let now_us = 1_000 + n * 250_000;
            let beat = pulse.beat(now_us);
            let took_us = if n == 2 { 90_000 } else { 700 };
            pulse.came_back(beat, now_us + took_us);
            let seen = (2..18).contains(&n);
            let longest = if seen { 90_000 } else { 700 };
            assert_eq!(pulse.round_trip_us(), Some(longest), "{n}");
        }
        pulse.came_back(20, 9_000_000);
        assert_eq!(pulse.round_trip_us(), Some(DOUBT_US), "and perhaps longer");
    }
}
