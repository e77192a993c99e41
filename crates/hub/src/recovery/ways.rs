//! The other shards and nodes that a socket may be on, and how messages get to them.

use crate::recovery::apart::Apart;
use crate::recovery::circle::{Circle, Door, Post, Sender, To};
use crate::recovery::journal::Missed;
use crate::recovery::messages::{Claim, Message, NotRecovered};
use crate::tables::id::{Identity, Place};
use std::sync::Arc;

/// The other nodes that a socket may be on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Abroad {
    /// There are none.
    #[default]
    Nobody,
    /// All nodes, this one among them, by number.
    Nodes(Arc<[u16]>),
    /// There are some, and not all of them can take part.
    Unable,
}

/// The messages of a step leave in the order in which they are put here.
#[derive(Debug)]
pub(crate) struct Ways {
    pub(super) me: Place,
    /// The other shards of the process.
    pub(super) peers: Vec<Place>,
    /// The other nodes as they are now.
    pub(crate) abroad: Abroad,
    /// Namespaces whose sockets stay at their nodes.
    pub(crate) apart: Arc<Apart>,
    /// The time of this step.
    pub(crate) now_ms: u64,
    /// Bytes that other nodes may be handed now: what clients publish has as much.
    pub(crate) room: usize,
    /// So many bytes of what one client missed may go to another node.
    handover_bytes_max: usize,
    posts: Vec<Post>,
}

impl Ways {
    pub(super) fn new(me: Identity, handover_bytes_max: usize) -> Self {
        let (shards, me) = (me.shards, me.place());
        let all = (0..shards).map(|shard| Place { shard, ..me });
        Self {
            me,
            peers: all.filter(|place| *place != me).collect(),
            abroad: Abroad::default(),
            apart: Arc::default(),
            now_ms: 0,
            room: usize::MAX,
            handover_bytes_max,
            posts: Vec::new(),
        }
    }

    /// The messages that are to leave.
    pub(crate) fn take_posts(&mut self) -> Vec<Post> {
        std::mem::take(&mut self.posts)
    }

    // ---- who is asked -------------------------------------------------------------------------------------------------

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

    /// Whether the nodes are still those that a claim goes around, and all that is said in its namespace has a place in their order.
    pub(super) fn stands(&self, circle: &Circle) -> bool {
        self.abroad == Abroad::Nodes(Arc::clone(&circle.nodes)) && !self.stays(&circle.namespace)
    }

    /// Whether nobody could tell which of this node's events a socket of another node has. While an older node is there, events have no
    /// stamp. A worker's part that also stands for nodes without a link has a stamp that those nodes did not give.
    pub(super) fn speaks_without_stamps(&self, other: Place, way: &Circle) -> bool {
        let has_stamps = matches!(self.abroad, Abroad::Nodes(_)) && !self.stays(&way.namespace);
        other.node != self.me.node && !has_stamps
    }

    /// Another node is handed a bounded part, and only while all nodes that passed the fence on are there.
    pub(super) fn may_leave(
        &mut self,
        circle: &Circle,
        missed: Missed,
    ) -> Result<Missed, NotRecovered> {
        if !self.stands(circle) {
            return Err(NotRecovered::Nodes);
        }
        let bytes = missed.bytes();
        if bytes > self.handover_bytes_max || bytes > self.room {
            return Err(NotRecovered::TooMuch);
        }
        self.room -= bytes;
        Ok(missed)
    }

    // ---- messages -----------------------------------------------------------------------------------------------------

    /// Posts a message to a shard of this node.
    pub(super) fn post(&mut self, to: Place, message: Message) {
        let (to, namespace) = (To::Shard(to.shard), None);
        self.posts.push(Post {
            to,
            namespace,
            message,
        });
    }

    pub(super) fn post_abroad(&mut self, node: u16, door: Door, circle: &Circle, message: Message) {
        self.posts.push(Post {
            to: To::Node(node, door),
            namespace: Some(Arc::clone(&circle.namespace)),
            message,
        });
    }

    /// Posts a message to all shards of this node, and of the others that are asked.
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

    /// Posts a message to one shard, wherever it is.
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

    /// Refuses a claim. `circle`: the nodes that it goes around, as the record or the claim has them.
    pub(super) fn refuse(&mut self, claim: Claim, circle: Option<&Circle>, why: NotRecovered) {
        self.answer(claim, circle, Message::Refused { claim, why });
    }

    /// Posts a message to a shard, after all that this one, a home, published before.
    pub(super) fn behind(&mut self, to: Place, circle: &Circle, message: Message) {
        // A mailbox keeps the order within a node; between nodes only the way from home to home does.
        match to.node == self.me.node {
            true => self.post(to, message),
            false => self.post_abroad(to.node, Door::ByHome(to.shard), circle, message),
        }
    }

    pub(super) fn post_home(&mut self, circle: &Circle, message: Message) {
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
            // An answer goes to one shard, whatever nodes the claim goes around.
            nodes: Arc::default(),
            home: by.home,
        })
    }

    /// A claim of this shard.
    pub(crate) fn own(&self, number: u64) -> Claim {
        let by = self.me;
        Claim { by, number }
    }
}
