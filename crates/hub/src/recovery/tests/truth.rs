//! The rules that must hold.

use super::*;

impl World<'_> {
    /// `whole`: all that was for this life must be there by now.
    pub(super) fn check(&self, client: usize, whole: bool) {
        let slot = &self.clients[client];
        let truth = &self.lives[slot.life];
        let got: BTreeSet<usize> = slot.got.iter().copied().collect();
        assert_eq!(got.len(), slot.got.len(), "twice: {:?}", slot.got);
        for from in 0..self.shards.len() {
            let own = slot.got.iter();
            let own: Vec<usize> = own
                .filter(|number| self.events[**number].from == from)
                .copied()
                .collect();
            assert!(own.is_sorted(), "out of order: {own:?}");
        }
        let known: BTreeMap<usize, Option<bool>> = truth.events.iter().copied().collect();
        for number in &slot.got {
            let event = &self.events[*number];
            let early = event.settled.is_none_or(|settled| settled >= truth.born);
            let right = known
                .get(number)
                .map_or(early, |meant| meant.unwrap_or(true) || !event.clean);
            assert!(right, "client {client} got {number}, not for it: {event:?}");
        }
        let missing = truth.events.iter().filter(|(number, meant)| {
            whole && *meant == Some(true) && self.events[*number].clean && !got.contains(number)
        });
        let missing: Vec<usize> = missing.map(|(number, _)| *number).collect();
        assert!(missing.is_empty(), "client {client} missed {missing:?}");
    }
}
