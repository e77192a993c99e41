//! What a turn may spend before its output is flushed and other connections have their turn. Everything that costs others time
//! or memory is charged here, so a path that spends cannot forget a bound that another path keeps.

use crate::books::faults::{self, Fault};
use crate::books::limits::Limits;
use crate::bounds::{
    BROADCASTS_PER_TURN_MIN, FLOODS_PER_TURN, LETTER_BYTES_PER_TURN, LETTERS_PER_TURN,
    LIST_BYTES_PER_TURN, LOG_BYTES_PER_TURN,
};

#[derive(Debug, Default)]
pub(crate) struct Budget {
    /// Since the last flush.
    deliveries: usize,
    broadcasts: u64,
    /// Messages to other shards since the turn began, and their bytes.
    letters: usize,
    letter_bytes: usize,
    /// Lists of sockets since then.
    list_bytes: usize,
    /// Messages rejected since the turn began.
    rejections: u32,
    /// Messages rejected of the connection whose input is being worked on.
    rejections_of_conn: u32,
}

impl Budget {
    pub(crate) fn begin_turn(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn begin_conn(&mut self) {
        self.rejections_of_conn = 0;
    }

    /// The output is with the kernel. Returns the deliveries that it held.
    pub(crate) fn flushed(&mut self) -> usize {
        // Letters, lists and rejections count for a whole turn: a flush gives them no new share.
        self.broadcasts = 0;
        std::mem::take(&mut self.deliveries)
    }

    #[inline]
    pub(crate) fn deliver(&mut self) {
        self.deliveries += 1;
    }

    pub(crate) fn broadcast(&mut self) {
        self.broadcasts += 1;
    }

    pub(crate) fn post(&mut self, bytes: usize) {
        if faults::is_back(Fault::LettersUncounted) {
            return;
        }
        self.letters += 1;
        self.letter_bytes += bytes;
    }

    /// A list of sockets is made, for whomever, or taken in.
    pub(crate) fn list(&mut self, bytes: usize) {
        if faults::is_back(Fault::ListsUncounted) {
            return;
        }
        self.list_bytes += bytes;
    }

    pub(crate) fn reject(&mut self) {
        self.rejections += 1;
        self.rejections_of_conn += 1;
    }

    /// Whether the turn has done its share. A flush costs a call per receiver, however much it brings. Where rooms are so large that a few
    /// events are a turn's share, some more events make each call worth while.
    pub(crate) fn is_spent(&self, limits: &Limits, log_bytes: usize) -> bool {
        let delivered = self.deliveries >= limits.deliveries_per_turn
            && self.broadcasts >= BROADCASTS_PER_TURN_MIN;
        delivered
            || log_bytes >= LOG_BYTES_PER_TURN
            || self.letters >= LETTERS_PER_TURN
            || self.letter_bytes >= LETTER_BYTES_PER_TURN
            || self.is_listed()
    }

    /// A new list may begin with its first page at once. Half of the share is for lists that are under way.
    pub(crate) fn begins_lists(&self) -> bool {
        self.list_bytes < LIST_BYTES_PER_TURN / 2
    }

    /// The turn has made and taken in its share of lists.
    pub(crate) fn is_listed(&self) -> bool {
        self.list_bytes >= LIST_BYTES_PER_TURN
    }

    /// However many clients flood, the others wait for the share of a few.
    pub(crate) fn is_flooded(&self, limits: &Limits) -> bool {
        self.rejections / FLOODS_PER_TURN >= limits.rejections_per_turn
    }

    /// The connection being worked on had its share of rejected messages: a flood must not make others wait.
    pub(crate) fn conn_floods(&self, limits: &Limits) -> bool {
        // A rejection costs more than a message that passes, because its sender is told (ADR 9).
        let floods = self.rejections_of_conn >= limits.rejections_per_turn;
        floods || self.rejections_of_conn > 0 && self.is_flooded(limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_that_a_turn_spends_ends_it() {
        let limits = Limits::default();
        let spent = |spend: &dyn Fn(&mut Budget), log_bytes| {
            let mut budget = Budget::default();
            spend(&mut budget);
            budget.is_spent(&limits, log_bytes)
        };
        assert!(!spent(&|_| {}, LOG_BYTES_PER_TURN - 1));
        assert!(spent(&|_| {}, LOG_BYTES_PER_TURN));
        let letters = |budget: &mut Budget| (0..LETTERS_PER_TURN).for_each(|_| budget.post(1));
        assert!(spent(&letters, 0));
        assert!(spent(&|budget| budget.post(LETTER_BYTES_PER_TURN), 0));
        assert!(spent(&|budget| budget.list(LIST_BYTES_PER_TURN), 0));
        let deliveries = |budget: &mut Budget| {
            (0..limits.deliveries_per_turn).for_each(|_| budget.deliver());
        };
        assert!(
            !spent(&deliveries, 0),
            "one huge room: more events share its flush"
        );
        let both = |budget: &mut Budget| {
            deliveries(budget);
            (0..BROADCASTS_PER_TURN_MIN).for_each(|_| budget.broadcast());
        };
        assert!(spent(&both, 0));
    }
}
