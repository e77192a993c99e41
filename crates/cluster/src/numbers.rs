//! Node numbers: which one a newcomer takes, who keeps a number that two claim, and whose messages are heard.
//!
//! A number is a key in the engine that ends unless it is held. An engine that lost its keys says that all numbers are free, although
//! their holders live. So a newcomer believes the engine only together with what it has heard itself, for longer than a holder needs
//! to come back to an engine that was away. It says nothing until then: the number that it takes is nobody's.

use crate::frame::{self, Epoch, Frame, NodeId, Peer};
use std::collections::BTreeMap;

/// Numbers that an id has room for.
pub const NUMBERS: u16 = 1024;
/// A newcomer listens for so long. A holder that lost its connection comes back within half of it.
pub const LISTEN_US: u64 = 2_000_000;

/// A newcomer that is not called for so long stood still, and did not hear.
const STANDSTILL_US: u64 = 500_000;
/// A key ends so long after it was set last.
pub const KEY_US: u64 = 15_000_000;
/// Nobody is told of lives from this epoch on: engines count exactly up to 2^53, and a life that somebody invents must leave room for others.
pub(crate) const EPOCHS_TOLD: Epoch = Epoch(1 << 52);

/// What the engine says of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Nobody has it, or its holder's key was lost.
    Free,
    /// A life of a node has it.
    Held(Epoch),
    /// Something stands there that no node of this cluster wrote.
    Foreign,
}

/// The next step of a newcomer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// It has not listened for long enough.
    Listen,
    /// To take this number, if it is still free.
    Take(NodeId),
    /// The number that it was given is another's, for now.
    Taken(NodeId),
    /// All numbers are held.
    Full,
}

/// A node before it has a number.
#[derive(Debug)]
pub struct Newcomer {
    given: Option<NodeId>,
    /// Since when it hears everything.
    since_us: Option<u64>,
    /// When it was asked last whether it hears.
    looked_us: u64,
    /// The lives that it heard, and when last.
    heard: BTreeMap<Peer, u64>,
    /// The latest life that anybody told of.
    latest: Epoch,
}

impl Newcomer {
    /// `given`: the only number that it may take.
    pub fn new(given: Option<NodeId>) -> Self {
        Self {
            given,
            since_us: None,
            looked_us: 0,
            heard: BTreeMap::new(),
            latest: Epoch(0),
        }
    }

    /// Whether it hears what all nodes say; to be called several times a second. What it heard before a pause, its own included, is no
    /// proof of silence.
    pub fn hears(&mut self, hears: bool, now_us: u64) {
        let stood_still = now_us - self.looked_us > STANDSTILL_US;
        self.looked_us = now_us;
        self.since_us = match hears {
            true if stood_still => Some(now_us),
            true => self.since_us.or(Some(now_us)),
            false => None,
        };
    }

    /// A message of all nodes came: its publisher lives, and a heartbeat tells of others, also of dead ones.
    pub fn reads(&mut self, message: &[u8], now_us: u64) {
        let Some(peer) = frame::publisher(message) else {
            return;
        };
        self.heard(peer, now_us);
        self.is_told_of(peer.epoch);
        if let Ok((_, Frame::Heartbeat { known, .. })) = frame::read(message) {
            (known.iter()).for_each(|known| self.is_told_of(known.peer.epoch));
        }
    }

    /// A node speaks.
    pub fn heard(&mut self, peer: Peer, now_us: u64) {
        if peer.node.0 < NUMBERS {
            let lives = self.heard.range(lives_of(peer.node)).count();
            // Of the lives of a number one speaks. Whoever invents others fills no memory with them.
            if lives < 2 || self.heard.contains_key(&peer) {
                self.heard.insert(peer, now_us);
            }
        }
    }

    fn is_told_of(&mut self, epoch: Epoch) {
        if epoch < EPOCHS_TOLD {
            self.latest = self.latest.max(epoch);
        }
    }

    /// Where its epoch begins, if the engine has lost the last one that it gave. Clocks differ, and others do not hear an earlier life than
    /// the one that they wait for: so it is above all that it was told of, too.
    pub fn first_epoch(&self, clock: u64) -> u64 {
        clock.max(self.latest.0 + 1)
    }

    /// Those who were heard of late: they know nothing of this node yet.
    pub fn others(&self, now_us: u64) -> impl Iterator<Item = Peer> + '_ {
        let late = self.heard.iter();
        late.filter(move |(_, at_us)| now_us - **at_us <= LISTEN_US)
            .map(|(peer, _)| *peer)
    }

    /// When it has listened for long enough; `None`: it does not hear.
    pub fn due_us(&self) -> Option<u64> {
        self.since_us.map(|since_us| since_us + LISTEN_US)
    }

    /// What to do. `claims`: of each number, from 0, as the engine says now. `dice`: a random number.
    pub fn choose(&self, claims: &[Claim], now_us: u64, dice: u64) -> Choice {
        if self.due_us().is_none_or(|due_us| now_us < due_us) {
            return Choice::Listen;
        }
        let is_free = |number: &NodeId| {
            // Foreign keys end some time. A given number does not wait for that.
            let claim = claims.get(usize::from(number.0)).unwrap_or(&Claim::Free);
            let free = match claim {
                Claim::Free => true,
                Claim::Held(_) => false,
                Claim::Foreign => self.given.is_some(),
            };
            free && !self.others(now_us).any(|peer| peer.node == *number)
        };
        if let Some(given) = self.given {
            return match is_free(&given) {
                true => Choice::Take(given),
                false => Choice::Taken(given),
            };
        }
        let free: Vec<NodeId> = (0..NUMBERS).map(NodeId).filter(is_free).collect();
        match free.len() {
            0 => Choice::Full,
            len => Choice::Take(free[(dice % len as u64) as usize]),
        }
    }
}

fn lives_of(node: NodeId) -> std::ops::RangeInclusive<Peer> {
    let life = |epoch| Peer {
        node,
        epoch: Epoch(epoch),
    };
    life(0)..=life(u64::MAX)
}

/// What a holder does about its own number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing: it is the holder.
    Keep,
    /// To set its key again.
    Restore,
    /// To end. It stood still, or was cut off, for longer than a key stands without its holder; its ids are another's now.
    End,
}

/// `silent_us`: since it set its key last. One whose key has ended since gives way to whoever has the number. Of two lives whose keys
/// were lost the later one keeps it: both come to the same verdict.
pub fn judge(mine: Epoch, found: Claim, silent_us: u64) -> Verdict {
    match found {
        Claim::Held(epoch) if epoch == mine => Verdict::Keep,
        Claim::Held(epoch) if epoch > mine || silent_us > KEY_US => Verdict::End,
        Claim::Held(_) | Claim::Free | Claim::Foreign => Verdict::Restore,
    }
}

/// The lives that are heard: those whose keys were read. Anything else costs a node nothing but the look at its message.
#[derive(Debug, Default)]
pub struct Guests {
    /// The present life of each number, and the one before: its last words may still be on their way.
    lives: BTreeMap<NodeId, [Option<Epoch>; 2]>,
    /// Lives that were heard before this one had a number.
    expected: Vec<Peer>,
    /// Messages of others.
    refused: u64,
    /// Somebody spoke whose key was not read.
    unknown: bool,
}

impl Guests {
    /// Knows nobody's key yet. `expected`: those who were heard while this node had no number.
    pub fn expecting(expected: impl Iterator<Item = Peer>) -> Self {
        Self {
            expected: expected.collect(),
            ..Self::default()
        }
    }

    /// The engine's word on a number. A life whose key was lost stays: it sets it again.
    pub fn read(&mut self, node: NodeId, claim: Claim) {
        let Claim::Held(epoch) = claim else { return };
        let [present, past] = self.lives.entry(node).or_default();
        if *present != Some(epoch) {
            *past = present.replace(epoch);
        }
        // An earlier life does not come any more.
        self.expected.retain(|peer| peer.node != node);
    }

    /// Whether a message of this life is heard.
    pub fn admits(&mut self, peer: Peer) -> bool {
        let lives = self.lives.get(&peer.node);
        if lives.is_some_and(|lives| lives.contains(&Some(peer.epoch))) {
            return true;
        }
        self.refused += 1;
        // Such a number is nobody's.
        self.unknown |= peer.node.0 < NUMBERS;
        false
    }

    /// Whether the keys are to be read, because somebody spoke whose key was not. Told once.
    pub fn take_unknown(&mut self) -> bool {
        std::mem::take(&mut self.unknown)
    }

    /// Whether somebody who was there before this node has not set its key again.
    pub fn are_awaited(&self) -> bool {
        !self.expected.is_empty()
    }

    /// Those of them that are awaited still.
    pub fn awaited(&self) -> impl Iterator<Item = Peer> + '_ {
        self.expected.iter().copied()
    }

    /// Messages that were not heard.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}
