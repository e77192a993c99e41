//! Checks at the end of a history.

use super::{Faults, Life, NEW_ROOMS, World, holds};

#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) delivered: u64,
    pub(super) missing: u64,
    pub(super) told: u64,
    /// Questions since the nodes know each other.
    pub(super) asked: u64,
}

impl World<'_> {
    /// Letters that a node should have, has not, and was not told of. Pairs of lives that were there all the time only.
    pub(super) fn check(&self) -> Outcome {
        let mut outcome = Outcome::default();
        let whole = |life: &&Life| life.alive && life.peer.epoch.0 == 1;
        for receiver in self.lives.iter().filter(whole) {
            for publisher in self.lives.iter().filter(whole) {
                if publisher.peer == receiver.peer {
                    continue;
                }
                let number = usize::from(receiver.peer.node.0);
                let is_member = |room: u64, at_us: u64| match room {
                    NEW_ROOMS.. => receiver
                        .acked
                        .get(&room)
                        .is_some_and(|acked| *acked <= at_us),
                    _ => holds(number, room),
                };
                let expected = self.letters.iter().filter(|(peer, _, room, at_us)| {
                    *peer == publisher.peer && is_member(*room, *at_us)
                });
                let seen = receiver
                    .seen
                    .get(&publisher.peer)
                    .map_or(&[][..], Vec::as_slice);
                let missing =
                    expected.filter(|(_, number, ..)| seen.binary_search(number).is_err());
                let missing = missing.count() as u64;
                let told = receiver.lost.get(&publisher.peer).copied().unwrap_or(0);
                outcome.delivered += seen.len() as u64;
                outcome.missing += missing;
                outcome.told += told;
                assert!(
                    missing <= told,
                    "{:?} misses {missing} letters of {:?} and was told of {told}",
                    receiver.peer,
                    publisher.peer
                );
            }
        }
        for life in self.lives.iter().filter(|life| life.alive) {
            let peers = life.node.neighbours().up().count();
            assert_eq!(peers, self.present.len() - 1, "{:?}", life.peer);
        }
        outcome.asked = self.asked().saturating_sub(self.asked_before);
        // A ring that is too short loses what it tells of.
        let Faults {
            cuts_us,
            loses_us,
            freezes_us,
            alone_us,
            deaths,
            upgrades,
            ring_bytes,
            ..
        } = self.faults;
        let lost = (outcome.missing, outcome.told);
        assert!(ring_bytes > 0 || lost == (0, 0), "missing, told: {lost:?}");
        let is_whole = cuts_us + loses_us + freezes_us + alone_us == 0 && !deaths && !upgrades;
        assert!(
            !is_whole || outcome.asked == 0,
            "what was overtaken comes soon"
        );
        outcome
    }

    /// Questions for missing letters.
    pub(super) fn asked(&self) -> u64 {
        let alive = self.lives.iter().filter(|life| life.alive);
        alive.map(|life| life.node.counts().received.asked).sum()
    }
}
