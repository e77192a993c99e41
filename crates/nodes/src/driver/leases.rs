//! The leases: this node keeps its own, and reads those of the others.

use super::{Driver, Ended};
use crate::card::Card;
use crate::engine::{Engine, Held};
use crate::number::{Entry, Number, RENEWAL, Register};
use cluster::frame::{self, NodeId, Peer};
use cluster::numbers::{Claim, Guests, Verdict, judge};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Between two looks that others cause: whoever invents lives causes no more.
const PAUSE: Duration = Duration::from_millis(200);

/// What a look brought.
pub(super) struct Look {
    began: Instant,
    /// The own key was set.
    held: bool,
    entries: Option<Vec<Entry>>,
}

/// The own lease, and what is known of the others'.
pub(super) struct Leases {
    number: Number,
    register: Register,
    pub(super) guests: Guests,
    pub(super) looks: JoinSet<Look>,
    held: Instant,
    looked: Instant,
    /// How this node stands, as the own lease says since the last renewal.
    said: &'static str,
    restored: Option<Instant>,
    /// The log was told of a stranger's key.
    told: bool,
    /// And of a node without a code.
    told_bare: bool,
}

impl Leases {
    /// `expected`: who was heard before this node had its number.
    pub(super) fn new(number: Number, register: Register, expected: Vec<Peer>) -> Self {
        let now = Instant::now();
        Self {
            number,
            register,
            guests: Guests::expecting(expected.into_iter()),
            looks: JoinSet::new(),
            held: now,
            looked: now - PAUSE,
            // So the lease was taken.
            said: "starting",
            restored: None,
            told: false,
            told_bare: false,
        }
    }

    pub(super) fn me(&self) -> Peer {
        Peer {
            node: self.number.node,
            epoch: self.number.epoch(),
        }
    }

    /// Reads all keys, after the own one was set if it `holds`.
    fn spawn(&mut self, engine: &Engine, holds: bool) {
        let (engine, register) = (engine.clone(), self.register.clone());
        let (lease, began) = (self.number.lease.clone(), Instant::now());
        self.looked = began;
        self.looks.spawn(async move {
            let held = holds && matches!(engine.hold(&lease).await, Ok(Held::Mine));
            Look {
                began,
                held,
                entries: register.read(&engine).await.ok(),
            }
        });
    }

    /// Gives the number back.
    pub(super) async fn release(&self, engine: &Engine) {
        let _ = engine.release(&self.number.lease).await;
    }
}

impl Driver {
    /// How often the lease is renewed.
    pub(super) fn renewals() -> tokio::time::Interval {
        tokio::time::interval(RENEWAL)
    }

    /// Keeps the number, tells how this node stands, and reads how the others do.
    pub(super) fn renew(&mut self) {
        let office = &self.rig.office;
        self.leases.said = office.readiness.word();
        let card = Card {
            sessions: (office.sessions)(),
            state: self.leases.said.to_owned(),
            leaving: office.readiness.moving().leaving(),
            upgrading: office.readiness.upgrades().are_under_way(),
            ..self.rig.card.clone()
        };
        self.leases.number.describe(&card, &self.rig.seal);
        self.leases.spawn(&self.rig.engine, true);
        self.leases.number.lease.over = None;
    }

    /// Operators read in the lease that a node was starting, for seconds after it was ready. Its word changes three times in a life.
    pub(super) fn renew_when_it_stands_otherwise(&mut self) {
        if self.leases.said != self.rig.office.readiness.word() {
            self.renew();
        }
    }

    /// Reads the leases: somebody new has one.
    pub(super) fn look(&mut self) {
        self.leases.spawn(&self.rig.engine, false);
    }

    /// The same, because somebody spoke whose lease was not read.
    pub(super) fn look_for_strangers(&mut self) {
        let leases = &mut self.leases;
        if leases.looked.elapsed() >= PAUSE && leases.guests.take_unknown() {
            self.look();
        }
    }

    /// Whether a frame is of a node that has a lease, or cannot be read at all.
    pub(super) fn is_of_a_guest(&mut self, frame: &[u8]) -> bool {
        let me = self.leases.me();
        let known = frame::publisher(frame)
            .is_none_or(|peer| peer == me || self.leases.guests.admits(peer));
        if !known {
            self.look_for_strangers();
        }
        known
    }

    pub(super) fn on_look(&mut self, look: &Look) {
        if look.held {
            self.leases.held = look.began;
        }
        let Some(entries) = &look.entries else {
            return;
        };
        self.rig.roster.leases(self.me.0, entries);
        for (number, entry) in (0..).map(NodeId).zip(entries) {
            self.leases.guests.read(number, entry.claim);
        }
        self.tell_of_bare(entries);
        if let Some(own) = entries.get(usize::from(self.me.0)) {
            self.see_own(own);
        }
    }

    /// Nodes of earlier builds wrote no code, and would be missed in silence.
    fn tell_of_bare(&mut self, entries: &[Entry]) {
        let bare = entries.iter().position(Entry::is_bare);
        if let Some(node) = bare.filter(|node| *node != usize::from(self.me.0))
            && !std::mem::replace(&mut self.leases.told_bare, true)
        {
            tracing::warn!(
                node = self.me.0,
                other = node,
                "the lease of another node has no code made with cluster.secret, so it is not heard: it is of a build before leases had one, or has \
                 no secret; upgrade all such nodes at once, or give it the secret"
            );
        }
    }

    /// The own key as it stands.
    fn see_own(&mut self, own: &Entry) {
        let leases = &mut self.leases;
        let silent_us = leases.held.elapsed().as_micros() as u64;
        match judge(leases.number.epoch(), own.claim, silent_us) {
            Verdict::Keep => {}
            Verdict::End => self.ended = Some(Ended::Superseded),
            Verdict::Restore => {
                if own.claim == Claim::Foreign && !std::mem::replace(&mut leases.told, true) {
                    tracing::warn!(
                        node = self.me.0,
                        "another program wrote to the key of this node's number, without cluster.secret: it is set again; nobody else may \
                         write to keys that begin with cluster.prefix"
                    );
                }
                // The next renewal does it otherwise.
                if leases.restored.is_none_or(|at| at.elapsed() >= PAUSE) {
                    leases.restored = Some(Instant::now());
                    leases.number.lease.over =
                        own.holder.as_ref().map(|holder| holder.value.clone());
                    self.renew();
                }
            }
        }
    }
}
