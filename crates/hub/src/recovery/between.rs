//! A claim that crosses from one node to another. The homes of the namespace at all nodes pass its fence and its flush on: only they
//! publish there, and what two homes say to each other keeps its order.

use crate::recovery::circle::{Circle, Door, Sender};
use crate::recovery::exchange::{Recovery, Verdict};
use crate::recovery::messages::{Claim, Message, NotRecovered};
use crate::recovery::parked::Asked;
use crate::recovery::pid::Pid;
use crate::recovery::stamp::Vector;
use crate::recovery::taking::Taking;
use crate::recovery::ways::Ways;
use crate::tables::id::Place;
use crate::tables::position::Position;
use std::sync::Arc;

impl Recovery {
    // ---- the owner's side ---------------------------------------------------------------------------------------------

    /// A shard of another node asks for a socket.
    pub(super) fn claimed_abroad(
        &mut self,
        by: Sender<'_>,
        asked: Asked<'_>,
        shown: Option<Position>,
        nodes: Arc<[u16]>,
        now_ms: u64,
    ) {
        let Some(namespace) = by.namespace else {
            return;
        };
        let circle = Circle {
            namespace: Arc::clone(namespace),
            nodes,
            home: by.home,
        };
        let claim = asked.claim;
        let record = self.parked.look(asked.pid, asked.uid);
        let why = match record {
            // The fence goes by the homes of the circle's namespace, which need not be those of the record's.
            Ok(record) if record.namespace != circle.namespace => NotRecovered::Unknown,
            Ok(_) if !self.ways.stands(&circle) => NotRecovered::Nodes,
            // A claim that is repeated gets the same answer.
            Ok(_) | Err(NotRecovered::Claimed) => {
                return self.claimed(asked, shown, Some(circle), now_ms);
            }
            Err(why) => why,
        };
        self.ways
            .answer(claim, Some(&circle), Message::Refused { claim, why });
    }

    /// Asks all homes for a word to the claimer. What it is handed had left each home by now, so the claimer has it when their words
    /// arrive.
    pub(super) fn flush_all(&mut self, claim: Claim, circle: &Circle) {
        for node in circle.nodes.iter().copied() {
            if node != self.ways.me.node {
                self.ways
                    .post_abroad(node, Door::Home, circle, Message::Flush { claim });
            } else if circle.home == self.ways.me.shard {
                // This shard is the home: its word goes after all that it published.
                self.ways
                    .behind(claim.by, circle, Message::Flushed { claim });
            } else {
                self.ways.post_home(circle, Message::Flush { claim });
            }
        }
    }

    // ---- the homes ----------------------------------------------------------------------------------------------------

    /// The owner is told after all that this home published so far. All later events go to the claimer, too.
    pub(super) fn pass_fence(
        &mut self,
        by: Sender<'_>,
        pid: Pid,
        (claim, round): (Claim, u32),
        owner: Place,
    ) {
        let Some(way) = Ways::way(by) else {
            return;
        };
        // The owner's vector cannot tell whether such an event was heard, so the claim would lose or repeat it (ADR 59).
        if self.ways.speaks_without_stamps(by.place, &way) {
            let why = NotRecovered::Nodes;
            return self
                .ways
                .answer(claim, Some(&way), Message::Refused { claim, why });
        }
        // The vector leaves out what this home passed on: the owner has that from the nodes that published it.
        let last: Vector = [self.stamps.last()].into_iter().collect();
        match owner == self.ways.me {
            true => {
                let own = Sender {
                    place: self.ways.me,
                    ..by
                };
                self.fenced(own, pid, (claim, round), &last);
            }
            false => {
                let fenced = Message::Fenced {
                    pid,
                    claim,
                    round,
                    last,
                };
                self.ways.behind(owner, &way, fenced);
            }
        }
    }

    /// The claimer is told after all that the owner had seen of this shard.
    pub(super) fn pass_flush(
        &mut self,
        by: Sender<'_>,
        claim: Claim,
        now_ms: u64,
    ) -> Option<Verdict> {
        if claim.by == self.ways.me {
            // The claimer is the home.
            self.takings.get_mut(claim.number)?.flushed(self.ways.me);
            return self.complete(claim, now_ms);
        }
        match Ways::way(by) {
            Some(way) if self.ways.speaks_without_stamps(claim.by, &way) => {
                let why = NotRecovered::Nodes;
                self.ways
                    .answer(claim, Some(&way), Message::Refused { claim, why });
            }
            Some(way) => self.ways.behind(claim.by, &way, Message::Flushed { claim }),
            None => self.ways.post(claim.by, Message::Flushed { claim }),
        }
        None
    }

    // ---- the claimer's side -------------------------------------------------------------------------------------------

    /// All that is wanted here was told to other nodes, up to this ticket.
    pub(crate) fn listed(&mut self, ticket: u64) {
        self.takings.listed(ticket);
        // Other nodes may know it already, and no later word of theirs would start the fence.
        self.confirmed(0);
    }

    /// Other nodes know what is wanted here up to this ticket.
    pub(crate) fn confirmed(&mut self, ticket: u64) {
        for (number, round, owner, circle) in self.takings.confirmed(ticket) {
            self.fence_all((number, round), owner, &circle);
        }
    }

    fn fence_all(&mut self, (number, round): (u64, u32), owner: Place, circle: &Circle) {
        let Some(pid) = self.takings.get(number).map(|taking| taking.pid) else {
            return;
        };
        let claim = self.ways.own(number);
        for node in circle.nodes.iter().copied() {
            let fence = Message::Fence {
                pid,
                claim,
                round,
                owner,
                // A home answers with a vector of its own and reads none here.
                last: Vector::default(),
            };
            if node != self.ways.me.node {
                self.ways.post_abroad(node, Door::Home, circle, fence);
            } else if circle.home == self.ways.me.shard {
                // The home needs no fence to itself: it is its own pass.
                let last = [self.stamps.last()].into_iter().collect();
                let fenced = Message::Fenced {
                    pid,
                    claim,
                    round,
                    last,
                };
                self.ways.behind(owner, circle, fenced);
            } else {
                self.ways.post_home(circle, fence);
            }
        }
    }

    /// Whether the nodes are those that were asked: none came or went meanwhile.
    pub(super) fn is_unchanged(&self, taking: &Taking) -> Result<(), NotRecovered> {
        let Some(circle) = taking.around() else {
            return Ok(());
        };
        match self.ways.stands(circle) {
            true => Ok(()),
            false => Err(NotRecovered::Nodes),
        }
    }

    /// A node went, or something that it said was lost: nobody knows any more what passed the fences of these claims.
    pub(crate) fn break_claims(&mut self, node: u16) -> Vec<Verdict> {
        let broken = self.takings.broken(node).into_iter();
        let verdicts = broken.map(|(number, why)| {
            self.give_up(number);
            let result = Err(why);
            Verdict { number, result }
        });
        verdicts.collect()
    }
}
