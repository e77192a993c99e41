//! Own heartbeats and probes, and what came of them: when the next is due, whether the engine takes anything, and what it brings back.

use crate::bounds::{MADE_MAX, TRIPS_MAX};
use crate::interest::DOUBT_US;
use std::collections::VecDeque;

/// Microseconds between heartbeats.
const HEARTBEAT_US: u64 = 250_000;
/// A heartbeat is answered at once by one that is made so soon.
const ANSWER_US: u64 = 5_000;
/// So long after a heartbeat of version 1 this node says its own in that version, too.
const OLD_US: u64 = 60_000_000;
/// A node hears while its own probe came back within this time, and speaks while its heartbeats did.
pub(crate) const WORKING_US: u64 = 600_000;

/// An engine that took nothing for so long is away, or this node stood still. A heartbeat is due much more often.
const AWAY_US: u64 = 500_000;
/// When the engine is back, letters wait at most so long for what peers hold.
const HEARING_US: u64 = 1_000_000;

/// Round trips are remembered for so long.
const TRIPS_US: u64 = 4_000_000;

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
    next_us: u64,
    /// Until then heartbeats are said in version 1, too.
    old_until_us: u64,
    /// Heartbeats and when they were made, as long as that matters.
    made: VecDeque<(u64, u64)>,
    taken_us: u64,
    /// Until then peers are waited for.
    back_until_us: u64,
    /// When the last heartbeats came back through the engine, and how long they took.
    trips: VecDeque<(u64, u64)>,
    /// When the first heartbeat was made that is to come back: those after the last one that did.
    waits_since_us: Option<u64>,
    /// When a probe came back by the own channel, and a heartbeat by the channel of all.
    probe_back_us: Option<u64>,
    beat_back_us: Option<u64>,
    probes_back: u64,
}

impl Pulse {
    /// The node begins.
    pub(crate) fn begin(&mut self, now_us: u64) {
        self.taken_us = now_us;
    }

    /// The node goes on after so many heartbeats. Both channels were there before it: it hears from its first moment, not from its
    /// first heartbeat on.
    pub(crate) fn go_on(beats: u64, now_us: u64) -> Self {
        Self {
            beats,
            taken_us: now_us,
            probe_back_us: Some(now_us),
            beat_back_us: Some(now_us),
            ..Self::default()
        }
    }

    /// Whether a heartbeat is due; the next one is later, then.
    pub(crate) fn is_due(&mut self, now_us: u64) -> bool {
        let is_due = now_us >= self.next_us;
        if is_due {
            self.next_us = now_us + HEARTBEAT_US;
        }
        is_due
    }

    /// When a heartbeat is due.
    pub(crate) fn due_us(&self) -> u64 {
        self.next_us
    }

    /// A peer may wait for a heartbeat with all its letters.
    pub(crate) fn hurry(&mut self, now_us: u64) {
        self.next_us = self.next_us.min(now_us + ANSWER_US);
    }

    /// The node leaves: a later heartbeat would be a sign of life.
    pub(crate) fn end(&mut self) {
        self.next_us = u64::MAX;
    }

    /// A heartbeat of version 1 came.
    pub(crate) fn heard_old(&mut self, now_us: u64) {
        self.old_until_us = now_us + OLD_US;
    }

    /// Whether heartbeats are said in version 1, too.
    pub(crate) fn says_old(&self, now_us: u64) -> bool {
        now_us < self.old_until_us
    }

    /// An own probe came back.
    pub(crate) fn probe_came_back(&mut self, now_us: u64) {
        self.probe_back_us = Some(now_us);
        self.probes_back += 1;
    }

    /// How many did.
    pub(crate) fn probes_back(&self) -> u64 {
        self.probes_back
    }

    /// Whether the own channel works: the node can hear questions and answers.
    pub(crate) fn hears(&self, now_us: u64) -> bool {
        let back_us = self.probe_back_us;
        back_us.is_some_and(|back_us| now_us - back_us <= WORKING_US)
    }

    /// Whether others would be heard: the own channel works, and the one of all.
    pub(crate) fn hears_all(&self, now_us: u64) -> bool {
        self.silence_us(now_us)
            .is_some_and(|silence_us| silence_us <= WORKING_US)
    }

    /// How long ago something came back by the channel where that is longer. While it is short others would be heard, too.
    pub(crate) fn silence_us(&self, now_us: u64) -> Option<u64> {
        let back_us = self.probe_back_us?.min(self.beat_back_us?);
        Some(now_us - back_us)
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
        self.waits_since_us.get_or_insert(now_us);
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
        self.beat_back_us = Some(now_us);
        let sent_us = self.sent_us(beat, now_us);
        let trip_us = sent_us.map_or(DOUBT_US, |sent_us| now_us.saturating_sub(sent_us));
        while self.trips.len() >= TRIPS_MAX {
            self.trips.pop_front();
        }
        self.trips.push_back((now_us, trip_us));
        let next = self.made.iter().find(|(made, _)| *made > beat);
        self.waits_since_us = next.map(|(_, at_us)| *at_us);
    }

    /// The longest of the last round trips, of those that are not over as long as they take so far; `None` before the first heartbeat.
    pub(crate) fn round_trip_us(&self, now_us: u64) -> Option<u64> {
        let last = self.trips.iter();
        let last = last.filter(|(at_us, _)| at_us + TRIPS_US > now_us);
        let waits = self.waits_since_us;
        let waits_us = waits.map(|since_us| now_us.saturating_sub(since_us).min(DOUBT_US));
        last.map(|(_, trip_us)| *trip_us).max().max(waits_us)
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
        assert_eq!(pulse.round_trip_us(1), None);
        for n in 0..20_u64 {
            let now_us = 1_000 + n * 250_000;
            let beat = pulse.beat(now_us);
            let took_us = if n == 2 { 90_000 } else { 700 };
            let now_us = now_us + took_us;
            pulse.came_back(beat, now_us);
            let seen = (2..19).contains(&n);
            let longest = if seen { 90_000 } else { 700 };
            assert_eq!(pulse.round_trip_us(now_us), Some(longest), "{n}");
        }
        pulse.came_back(20, 9_000_000);
        let longest = pulse.round_trip_us(9_000_000);
        assert_eq!(longest, Some(DOUBT_US), "and perhaps longer");
        assert_eq!(pulse.round_trip_us(14_000_000), None, "that was long ago");
    }

    /// The engine takes heartbeats, and delivers nothing.
    #[test]
    fn a_heartbeat_that_does_not_come_back_takes_as_long_as_it_is_away() {
        let mut pulse = Pulse::default();
        pulse.begin(1);
        let first = pulse.beat(1_000);
        pulse.came_back(first, 1_400);
        assert_eq!(pulse.round_trip_us(1_400), Some(400));
        let mut now_us = 251_000;
        let silent = pulse.beat(now_us);
        assert_eq!(pulse.round_trip_us(301_000), Some(50_000));
        for _ in 0..100 {
            now_us += 250_000;
            pulse.beat(now_us);
            // Peers tell of heartbeats of before, and old ones are forgotten.
            pulse.sent_us(first, now_us);
        }
        assert_eq!(pulse.round_trip_us(now_us), Some(DOUBT_US));
        // It delivers all of them again.
        for beat in silent..=silent + 100 {
            pulse.came_back(beat, now_us + 300);
        }
        now_us += 5_000_000;
        let beat = pulse.beat(now_us);
        pulse.came_back(beat, now_us + 500);
        assert_eq!(pulse.round_trip_us(now_us + 500), Some(500));
    }
}
