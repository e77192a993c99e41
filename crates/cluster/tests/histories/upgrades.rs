//! Processes that hand their places over to others, which go on as the same lives of their nodes.

use super::{Faults, MS, SECOND, STEADY_ROOMS, Step, World, holds, play};
use cluster::node::Node;
use std::sync::Arc;

impl World<'_> {
    pub(super) fn stands(&self, step: &Step) -> bool {
        let life = match step {
            Step::Wake(life) | Step::Acked(life) => *life,
            Step::Act(number) => self.present[*number],
            _ => return false,
        };
        self.lives[life].standing.is_some()
    }

    /// What was heard a moment ago is heard by a successor, too.
    pub(super) fn note_recent(&mut self, life: usize, frame: &Arc<[u8]>) {
        if self.faults.upgrades {
            let recent = &mut self.lives[life].recent;
            recent.push_back(Arc::clone(frame));
            if recent.len() > 30 {
                recent.pop_front();
            }
        }
    }

    /// A process writes its place down, once nothing of it is under way.
    pub(super) fn stand(&mut self, number: usize) {
        let life = self.present[number];
        let me = &mut self.lives[life];
        if !me.alive || me.standing.is_some() {
            return;
        }
        if !me.batches.is_empty() {
            return self.at(self.now_us + MS, Step::Upgrade(number));
        }
        let place = me.node.record().expect("nothing is under way");
        me.standing = Some(place);
        let stands = match self.rng.u8(..3) {
            0 => self.rng.u64(..2 * SECOND),
            _ => self.rng.u64(..200 * MS),
        };
        self.at(self.now_us + stands, Step::Resume(life));
    }

    /// Another process goes on with the place, or the same one if that was given up.
    pub(super) fn resume(&mut self, life: usize) {
        let (now_us, limits, number) = (self.now_us, self.limits(), self.lives[life].peer.node.0);
        let place = self.lives[life].standing.take().expect("it stands");
        let mut feed = std::mem::take(&mut self.lives[life].feed);
        if !self.lives[life].alive {
            return;
        }
        if self.rng.u8(..4) > 0 {
            let me = &mut self.lives[life];
            me.node = Node::restored(me.peer, limits, &place).expect("a place");
            // Some members are sent away.
            let stays = self.rng.usize(..=me.churn.len());
            me.churn.truncate(stays);
            let steady = (0..STEADY_ROOMS).filter(|room| holds(usize::from(number), *room));
            let more = me.churn.iter().chain(me.acked.keys()).copied();
            let coming = me.joins.iter().map(|(room, ..)| *room);
            let all: Vec<u64> = steady.chain(more).chain(coming).collect();
            all.into_iter().for_each(|room| me.node.hold(room));
            me.node.settle();
            me.joins
                .iter_mut()
                .for_each(|(.., position)| *position = None);
            let mut all: Vec<Arc<[u8]>> = me.recent.iter().cloned().collect();
            all.append(&mut feed);
            feed = all;
        }
        self.lives[life].node.begin(now_us);
        for frame in feed {
            self.lives[life].node.arrived(frame.to_vec());
        }
        self.after(life);
    }
}

#[test]
fn a_process_that_goes_on_for_another_loses_nothing() {
    play(
        "upgrades",
        Faults {
            upgrades: true,
            ..Faults::default()
        },
    );
}

/// Cuts, frozen servers, deaths, and messages that come twice or in another order, with upgrades beside them.
#[test]
fn upgrades_beside_troubles_lose_nothing_that_is_not_told() {
    play(
        "upgrades in trouble",
        Faults {
            upgrades: true,
            cuts_us: 5 * SECOND,
            freezes_us: 2 * SECOND,
            repeats: true,
            reorders: true,
            deaths: true,
            ..Faults::default()
        },
    );
}
