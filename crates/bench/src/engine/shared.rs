//! Owns what the users of a worker share while they act, a part for each concern: functions take those that they need.

use super::publications::Publications;
use super::schedule::Schedule;
use super::scratch::Scratch;
use super::tally::Tally;
use super::timers::Timers;
use super::turns::Turns;
use std::time::Duration;

#[derive(Debug, Default)]
pub struct Shared {
    /// Of the turn, or of the last read.
    pub now_ns: u64,
    pub schedule: Schedule,
    pub timers: Timers,
    pub turns: Turns,
    pub tally: Tally,
    pub publications: Publications,
    pub scratch: Scratch,
}

impl Shared {
    pub fn deadline(&self, within: Duration) -> u64 {
        self.now_ns + within.as_nanos() as u64
    }
}
