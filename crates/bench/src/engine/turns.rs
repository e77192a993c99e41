//! Owns the turns of loops that all users share: the pace of the phase, turns that are due, and users that wait for one.

use super::course::State;
use super::tally::Tally;
use super::timers::Metronome;
use super::user::User;
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub struct Turns {
    pace: Option<Metronome>,
    /// Numbers of waiting users, with their epochs.
    parked: VecDeque<(u32, u32)>,
    /// Turns that came up while nobody waited.
    owed: VecDeque<u64>,
    /// The turn that the user at hand was woken for: when it was due.
    in_hand: Option<u64>,
    /// Turns are owed although users wait for them: this generator is too slow.
    is_behind: bool,
}

impl Turns {
    /// A phase begins, or all is over: turns that nobody was free to take are no longer waited for, but they are told.
    pub fn begin(&mut self, pace: Option<Metronome>, tally: &mut Tally) {
        self.pace = pace;
        let owed = std::mem::take(&mut self.owed).len() as u64;
        let reason = match (self.is_behind, tally.connections) {
            (true, _) => "the generator was too slow",
            (false, 0) => "no user was connected",
            (false, _) => "every user was busy with earlier steps",
        };
        tally.unbegun(reason, owed);
    }

    fn is_owing(&self) -> bool {
        !self.owed.is_empty() && !self.parked.is_empty()
    }

    pub fn next_due_ns(&self, now_ns: u64) -> Option<u64> {
        match self.is_owing() {
            true => Some(now_ns),
            false => self.pace.as_ref().and_then(Metronome::next_due_ns),
        }
    }

    /// Owes the turns that are due by now. Returns whether some were owed before.
    pub fn fall_due(&mut self, now_ns: u64, tally: &mut Tally) -> bool {
        while let Some(due_ns) = self.pace.as_mut().and_then(|pace| pace.take(now_ns)) {
            tally.latencies.turn_lag.record(now_ns - due_ns);
            self.owed.push_back(due_ns);
        }
        std::mem::take(&mut self.is_behind)
    }

    /// The user that has waited longest, and its epoch, if a turn is owed. It is perhaps gone by now.
    pub fn next_user(&mut self) -> Option<(u32, u32)> {
        self.parked.pop_front_if(|_| !self.owed.is_empty())
    }

    /// Hands the oldest turn to the user at hand; one that is free again goes to the end of the queue.
    pub fn hand_out(&mut self) -> Option<u64> {
        self.in_hand = self.owed.pop_front();
        self.in_hand
    }

    /// So many users had a turn that others have to wait.
    pub fn look_behind(&mut self) {
        self.is_behind = self.is_owing();
    }

    /// The turn of the user at hand; without one, it waits.
    pub fn take(&mut self, user: &mut User) -> Option<u64> {
        let turn = self.in_hand.take();
        if turn.is_none() {
            user.wait(State::Parked, u64::MAX);
            self.parked.push_back((user.number, user.course.epoch));
        }
        turn
    }
}
