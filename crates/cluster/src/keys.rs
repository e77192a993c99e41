//! Keys that local members hold: what the peers were told of them, and when they are told the rest.
//!
//! Changes are flooded as letters like any other, so they arrive once and in order. A digest now and then shows a peer what it missed,
//! and a snapshot is for one that knows nothing.

use crate::bounds::CHANGES_MAX;
use crate::frame::NodeId;
use crate::letter::{CHANGES, DIGEST, SNAPSHOT, push_number, tagged};
use crate::outlet::Outlet;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Microseconds between digests.
const DIGEST_US: u64 = 10_000_000;
/// Keys that went are told this late: members who leave and come back cost nothing then.
const RELEASE_US: u64 = 250_000;
/// Bytes of a change in a letter.
pub(crate) const CHANGE_BYTES: usize = 9;
/// Keys in one letter of a snapshot.
const SNAPSHOT_KEYS: usize = 1_000;

/// A change of one key.
pub(crate) type Change = (u64, bool);

#[derive(Debug, Default)]
pub(crate) struct Keys {
    /// How many members hold each.
    held: HashMap<u64, u32>,
    announced: HashSet<u64>,
    sum: u64,
    changed: BTreeSet<u64>,
    /// How many of these came.
    coming: usize,
    tell_us: Option<u64>,
    /// Position in the flood of the last changes.
    told_at: u64,
    digest_us: u64,
}

/// Makes sums of keys differ where keys differ (SplitMix64's finisher).
pub(crate) fn mix(key: u64) -> u64 {
    let key = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let key = (key ^ (key >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    key ^ (key >> 31)
}

impl Keys {
    /// One more local member. `true`: the first, so the peers must be told.
    pub(crate) fn hold(&mut self, key: u64) -> bool {
        let count = self.held.entry(key).or_default();
        *count += 1;
        let first = *count == 1;
        if first {
            self.note(key);
        }
        first
    }

    /// One member fewer.
    pub(crate) fn release(&mut self, key: u64, now_us: u64) {
        if let Some(count) = self.held.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.held.remove(&key);
                self.note(key);
            }
        }
        self.tell_us.get_or_insert(now_us + RELEASE_US);
    }

    /// A key came or went. A key that the peers know already is no change: they need not be there to hear of it.
    fn note(&mut self, key: u64) {
        let is_held = self.held.contains_key(&key);
        if is_held == self.announced.contains(&key) {
            let changed = self.changed.remove(&key);
            self.coming -= usize::from(changed && !is_held);
        } else {
            let changed = self.changed.insert(key);
            self.coming += usize::from(changed && is_held);
        }
    }

    /// By which position in the flood all are told; `None` = some are not. Those that went are told late, and nobody waits for that.
    pub(crate) fn told(&self) -> Option<u64> {
        (self.coming == 0).then_some(self.told_at)
    }

    /// Tells what is due.
    pub(crate) fn begin(&mut self, outlet: &mut Outlet, now_us: u64) {
        let is_digest = now_us >= self.digest_us;
        if is_digest || self.tell_us.is_some_and(|due_us| now_us >= due_us) {
            self.tell(outlet, now_us);
        }
        if is_digest {
            self.digest_us = now_us + DIGEST_US;
            let (count, sum) = self.digest();
            let letter = tagged(DIGEST, &[count, sum]);
            if outlet.queue.has_room(letter.len()) {
                outlet.flood(&letter, now_us);
            }
        }
    }

    /// When changes are told, if nothing happens before.
    pub(crate) fn due_us(&self) -> Option<u64> {
        self.tell_us
    }

    /// Tells all changes.
    pub(crate) fn tell(&mut self, outlet: &mut Outlet, now_us: u64) {
        self.tell_us = None;
        while !self.changed.is_empty() {
            let count = self.changed.len().min(CHANGES_MAX);
            // While the engine takes nothing, changes stay where they cancel out.
            if !outlet.queue.has_room(1 + count * CHANGE_BYTES) {
                self.tell_us = Some(now_us + RELEASE_US);
                return;
            }
            let mut letter = vec![CHANGES];
            for (key, on) in self.take_changes(count) {
                push_number(&mut letter, key);
                letter.push(u8::from(on));
            }
            self.told_at = outlet.flood(&letter, now_us);
        }
    }

    /// Up to `most` changes that the peers must be told. Those of a key that came and went in between cancel out.
    pub(crate) fn take_changes(&mut self, most: usize) -> Vec<Change> {
        let mut changes = Vec::new();
        while changes.len() < most
            && let Some(key) = self.changed.pop_first()
        {
            let on = self.held.contains_key(&key);
            if on {
                self.coming -= 1;
                self.announced.insert(key);
            } else {
                self.announced.remove(&key);
            }
            self.sum ^= mix(key);
            changes.push((key, on));
        }
        changes
    }

    /// Number and sum of the keys that the peers were told.
    pub(crate) fn digest(&self) -> (u64, u64) {
        (self.announced.len() as u64, self.sum)
    }

    /// Tells a peer all keys, in parts. There is at least one, perhaps empty.
    pub(crate) fn tell_all(&mut self, node: NodeId, outlet: &mut Outlet, now_us: u64) {
        // Changes not told yet would be told twice otherwise, or not at all.
        self.tell(outlet, now_us);
        let (keys, _) = self.record();
        let last = keys.len().saturating_sub(1) / SNAPSHOT_KEYS;
        for at in 0..=last {
            let flags = u8::from(at == 0) | u8::from(at == last) << 1;
            let mut letter = vec![SNAPSHOT, flags];
            let part = keys.iter().skip(at * SNAPSHOT_KEYS).take(SNAPSHOT_KEYS);
            part.for_each(|key| push_number(&mut letter, *key));
            if !outlet.queue.has_room(letter.len()) {
                // Without the last part the peer knows that keys are missing, and asks again.
                return;
            }
            outlet.send(&[node], &letter, now_us);
        }
    }

    /// The keys that peers were told, and by which position in the flood.
    pub(crate) fn record(&self) -> (Vec<u64>, u64) {
        (self.announced.iter().copied().collect(), self.told_at)
    }

    /// The peers were told these keys up to this position, by another process.
    pub(crate) fn restored(announced: &[u64], told_at: u64) -> Self {
        let announced: HashSet<u64> = announced.iter().copied().collect();
        Self {
            sum: announced.iter().fold(0, |sum, key| sum ^ mix(*key)),
            announced,
            told_at,
            ..Self::default()
        }
    }

    /// All local members are known: what the peers were told besides went.
    pub(crate) fn settle(&mut self, now_us: u64) {
        let (mut gone, _) = self.record();
        gone.retain(|key| !self.held.contains_key(key));
        gone.into_iter().for_each(|key| self.note(key));
        self.tell_us.get_or_insert(now_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_came_and_went_is_not_told() {
        let mut keys = Keys::default();
        assert!(keys.hold(5));
        assert!(!keys.hold(5));
        keys.release(5, 0);
        keys.release(5, 0);
        assert_eq!(keys.take_changes(usize::MAX), []);
        assert_eq!(keys.digest(), (0, 0));
        keys.hold(5);
        assert_eq!(keys.take_changes(usize::MAX), [(5, true)]);
        keys.release(5, 0);
        assert_eq!(keys.take_changes(usize::MAX), [(5, false)]);
        assert_eq!(keys.digest(), (0, 0));
    }

    /// While Redis was away, each room that came and went left a key behind.
    #[test]
    fn keys_that_come_and_go_unheard_leave_nothing_behind() {
        let mut keys = Keys::default();
        keys.hold(1);
        keys.take_changes(usize::MAX);
        for key in 0..10_000 {
            keys.hold(key);
            keys.release(key, 0);
        }
        assert!(keys.changed.is_empty());
        keys.release(1, 0);
        assert_eq!(keys.take_changes(usize::MAX), [(1, false)]);
    }
}
