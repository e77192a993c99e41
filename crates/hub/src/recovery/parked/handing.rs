//! Sockets without a connection, for the process that comes next. One that somebody claims stays: in doubt its client is a new one.

use super::{Parked, State};
use crate::recovery::record::Record;

impl Parked {
    /// The place of the next record from this one on, the record, and how long it is kept; `None`: there are no more.
    pub(crate) fn from(&self, at: u32, now_ms: u64) -> Option<(u32, &Record, u64)> {
        let places = (at..).map_while(|at| Some((at, self.slots.nth(at)?)));
        let mut waiting = places.filter_map(|(at, id)| {
            let slot = self.slots.get(id)?;
            let left_ms = slot.deadline_ms.saturating_sub(now_ms);
            matches!(slot.state, State::Here).then_some((at, &slot.record, left_ms))
        });
        waiting.next()
    }

    /// Records that somebody claims, or that are on their way here.
    pub(crate) fn passing(&self) -> usize {
        let slots = self.slots.iter();
        let passing = slots.filter(|(_, slot)| !matches!(slot.state, State::Here));
        passing.count()
    }
}
