//! A claim that crosses from one node to another. The homes of the namespace at all nodes pass its fence and its flush on: only they
//! publish there, and what two homes say to each other keeps its order.

use crate::recovery::circle::{Circle, Door, Post, Sender, To};
use crate::recovery::exchange::{Abroad, Recovery, Verdict};
use crate::recovery::journal::Missed;
use crate::recovery::messages::{Claim, Message, NotRecovered};
use crate::recovery::parked::Asked;
use crate::recovery::pid::Pid;
use crate::recovery::stamp::Vector;
use crate::recovery::taking::Taking;
use crate::tables::id::Place;
use crate::tables::position::Position;
use std::sync::Arc;

impl Recovery {
    // ---- who is asked, and how messages get there ---------------------------------------------------------------------

    /// All other nodes, if a socket of this namespace may be on one of them. `home`: its home here.
    pub(crate) fn circle(&self, namespace: &Arc<str>, home: u16) -> Option<Circle> {
        match &self.abroad {
            Abroad::Nodes(nodes) if !self.stays(namespace) => Some(Circle {
                namespace: Arc::clone(namespace),
                nodes: Arc::clone(nodes),
                home,
            }),
            Abroad::Nobody | Abroad::Unable | Abroad::Nodes(_) => None,
        }
    }

    fn stays(&self, namespace: &str) -> bool {
        self.apart.holds(namespace, self.now_ms)
    }

    /// The nodes are those that a claim goes around, and all that is said in its namespace has a place in their order.
    fn stands(&self, circle: &Circle) -> bool {
        self.abroad == Abroad::Nodes(Arc::clone(&circle.nodes)) && !self.stays(&circle.namespace)
    }

    fn post_abroad(&mut self, node: u16, door: Door, circle: &Circle, message: Message) {
        self.posts.push(Post {
            to: To::Node(node, door),
            namespace: Some(Arc::clone(&circle.namespace)),
            message,
        });
    }

    /// To all shards of this node, and of the others that are asked.
    pub(super) fn tell_all(&mut self, circle: Option<&Circle>, message: &Message) {
        for peer in self.peers.clone() {
            self.post(peer, message.clone());
        }
        let nodes = circle.iter().flat_map(|circle| circle.nodes.iter());
        let others: Vec<u16> = nodes
            .copied()
            .filter(|node| *node != self.me.node)
            .collect();
        for node in others {
            if let Some(circle) = circle {
                self.post_abroad(node, Door::All, circle, message.clone());
            }
        }
    }

    /// To one shard, wherever it is.
    pub(super) fn post_to(&mut self, to: Place, circle: Option<&Circle>, message: Message) {
        match circle.filter(|_| to.node != self.me.node) {
            Some(circle) => self.post_abroad(to.node, Door::Shard(to.shard), circle, message),
            None => self.post(to, message),
        }
    }

    /// To the claimer.
    pub(super) fn answer(&mut self, claim: Claim, circle: Option<&Circle>, message: Message) {
        self.post_to(claim.by, circle, message);
    }

    /// A second shard has it as well: it keeps it.
    pub(super) fn give_back(&mut self, to: Place, pid: Pid, claim: Claim) {
        let taking = self.takings.get(&claim.number);
        let circle = taking.and_then(Taking::circle).cloned();
        self.post_to(to, circle.as_ref(), Message::Released { pid, claim });
    }

    /// To a shard behind all that this one, a home, published before.
    fn behind(&mut self, to: Place, circle: &Circle, message: Message) {
        match to.node == self.me.node {
            true => self.post(to, message),
            false => self.post_abroad(to.node, Door::ByHome(to.shard), circle, message),
        }
    }

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
            Ok(record) if record.namespace != circle.namespace => NotRecovered::Unknown,
            Ok(_) if !self.stands(&circle) => NotRecovered::Nodes,
            // A claim that is repeated gets the same answer.
            Ok(_) | Err(NotRecovered::Claimed) => {
                return self.claimed(asked, shown, Some(circle), now_ms);
            }
            Err(why) => why,
        };
        self.answer(claim, Some(&circle), Message::Refused { claim, why });
    }

    /// Another node is handed a bounded part, and only while all nodes are there that passed the fence on.
    pub(super) fn may_leave(
        &mut self,
        circle: &Circle,
        missed: Missed,
    ) -> Result<Missed, NotRecovered> {
        if !self.stands(circle) {
            return Err(NotRecovered::Nodes);
        }
        let bytes = missed.bytes();
        if bytes > self.bounds.handover_bytes_max || bytes > self.room {
            return Err(NotRecovered::TooMuch);
        }
        self.room -= bytes;
        Ok(missed)
    }

    /// All homes had sent the claimer what it is handed, if they send it at all. They say when that is there.
    pub(super) fn flush_all(&mut self, claim: Claim, circle: &Circle) {
        for node in circle.nodes.iter().copied() {
            if node != self.me.node {
                self.post_abroad(node, Door::Home, circle, Message::Flush { claim });
            } else if circle.home == self.me.shard {
                self.behind(claim.by, circle, Message::Flushed { claim });
            } else {
                self.post_home(circle, Message::Flush { claim });
            }
        }
    }

    // ---- the homes ----------------------------------------------------------------------------------------------------

    fn post_home(&mut self, circle: &Circle, message: Message) {
        self.posts.push(Post {
            to: To::Shard(circle.home),
            namespace: Some(Arc::clone(&circle.namespace)),
            message,
        });
    }

    /// The way of an answer to a message about a claim between nodes.
    pub(super) fn way(by: Sender<'_>) -> Option<Circle> {
        by.namespace.map(|namespace| Circle {
            namespace: Arc::clone(namespace),
            nodes: Arc::default(),
            home: by.home,
        })
    }

    /// The owner is told behind all that this home published so far. All later events go to the claimer, too.
    pub(super) fn pass_fence(
        &mut self,
        by: Sender<'_>,
        pid: Pid,
        (claim, round): (Claim, u32),
        owner: Place,
    ) {
        let Some(way) = Self::way(by) else {
            return;
        };
        if self.speaks_without_stamps(by.place, &way) {
            let why = NotRecovered::Nodes;
            return self.answer(claim, Some(&way), Message::Refused { claim, why });
        }
        // Not what it passed on: the owner has that from the nodes that published it.
        let last: Vector = [self.stamps.last()].into_iter().collect();
        match owner == self.me {
            true => {
                let own = Sender {
                    place: self.me,
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
                self.behind(owner, &way, fenced);
            }
        }
    }

    /// What this node says now has no stamp, as while an older node is there, or one that is not the others', as a worker's part does that
    /// stands for nodes without a link: nobody could tell what of it a socket has.
    fn speaks_without_stamps(&self, other: Place, way: &Circle) -> bool {
        let has_stamps = matches!(self.abroad, Abroad::Nodes(_)) && !self.stays(&way.namespace);
        other.node != self.me.node && !has_stamps
    }

    /// The claimer is told behind all that the owner had seen of this shard.
    pub(super) fn pass_flush(
        &mut self,
        by: Sender<'_>,
        claim: Claim,
        now_ms: u64,
    ) -> Option<Verdict> {
        if claim.by == self.me {
            // The claimer is the home.
            self.takings.get_mut(&claim.number)?.flushed(self.me);
            return self.complete(claim, now_ms);
        }
        match Self::way(by) {
            Some(way) if self.speaks_without_stamps(claim.by, &way) => {
                let why = NotRecovered::Nodes;
                self.answer(claim, Some(&way), Message::Refused { claim, why });
            }
            Some(way) => self.behind(claim.by, &way, Message::Flushed { claim }),
            None => self.post(claim.by, Message::Flushed { claim }),
        }
        None
    }

    // ---- the claimer's side -------------------------------------------------------------------------------------------

    /// All that is wanted here was told to other nodes, up to this ticket.
    pub(crate) fn listed(&mut self, ticket: u64) {
        for taking in self.takings.values_mut() {
            taking.listed(ticket);
        }
        self.confirmed(self.known);
    }

    /// Whether a fence waits for what is wanted here.
    pub(crate) fn waits_for_ticket(&self) -> bool {
        self.takings.values().any(Taking::waits_for_ticket)
    }

    /// Other nodes know what is wanted here up to this ticket.
    pub(crate) fn confirmed(&mut self, ticket: u64) {
        self.known = self.known.max(ticket);
        let known = self.known;
        let fences = self.takings.iter_mut().filter_map(|(number, taking)| {
            let round = taking.confirmed(known)?;
            Some((*number, round, taking.owner()?, taking.circle()?.clone()))
        });
        let fences: Vec<_> = fences.collect();
        for (number, round, owner, circle) in fences {
            self.fence_all((number, round), owner, &circle);
        }
    }

    fn fence_all(&mut self, (number, round): (u64, u32), owner: Place, circle: &Circle) {
        let Some(pid) = self.takings.get(&number).map(|taking| taking.pid) else {
            return;
        };
        let claim = self.own(number);
        for node in circle.nodes.iter().copied() {
            let fence = Message::Fence {
                pid,
                claim,
                round,
                owner,
                last: Vector::default(),
            };
            if node != self.me.node {
                self.post_abroad(node, Door::Home, circle, fence);
            } else if circle.home == self.me.shard {
                let last = [self.stamps.last()].into_iter().collect();
                let fenced = Message::Fenced {
                    pid,
                    claim,
                    round,
                    last,
                };
                self.behind(owner, circle, fenced);
            } else {
                self.post_home(circle, fence);
            }
        }
    }

    /// The nodes are those that were asked: none came or went meanwhile.
    pub(super) fn is_unchanged(&self, taking: &Taking) -> Result<(), NotRecovered> {
        let Some(circle) = taking.around() else {
            return Ok(());
        };
        match self.stands(circle) {
            true => Ok(()),
            false => Err(NotRecovered::Nodes),
        }
    }

    /// A node went, or something that it said was lost: nobody knows any more what passed the fences of these claims.
    pub(crate) fn break_claims(&mut self, node: u16) -> Vec<Verdict> {
        let broken = self.takings.iter_mut().filter_map(|(number, taking)| {
            let why = taking.broken(node)?;
            Some((*number, why))
        });
        let broken: Vec<(u64, NotRecovered)> = broken.collect();
        let verdicts = broken.into_iter().map(|(number, why)| {
            self.give_up(number);
            let result = Err(why);
            Verdict { number, result }
        });
        verdicts.collect()
    }
}
