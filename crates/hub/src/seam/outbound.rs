//! What waits to leave the hub's tables: effects for the shard, news for the handler, and what it decided. Questions are open here from
//! when they leave until their answer is carried out.

use crate::books::ledger::{Account, Booked};
use crate::cluster::letter::Found;
use crate::recovery::messages::NotRecovered;
use crate::seam::ask::Ask;
use crate::seam::effect::{Effect, Notice};
use crate::seam::event::Refusal;
use crate::seam::join::Held;
use crate::seam::questions::Questions;
use crate::seam::told::Told;
use crate::tables::slot::{AskKey, SessionKey};
use std::collections::VecDeque;
use std::sync::Arc;
use wire::base64url::Id20;

/// The socket that a client comes back to and its namespace, or why it is given none.
pub(crate) type FoundSocket = Result<(Id20, Arc<str>), NotRecovered>;

/// What waits to leave the hub: effects for the shard, news for the handler.
#[derive(Debug)]
pub(crate) struct Outbound {
    pub(crate) asks: Questions,
    /// Decisions of the handler that are not carried out yet.
    decided: VecDeque<(AskKey, Result<(), Refusal>)>,
    effects: Vec<Effect>,
    /// News for the handler. Lists among them are booked.
    told: VecDeque<Told>,
    /// The handler wants to know when sockets are moved into rooms and out of them.
    watches_rooms: bool,
    lists: Account,
    /// Packets that waited before a gate, in order; the decision is there.
    released: VecDeque<(SessionKey, Held)>,
    /// Sockets that clients come back to, as far as they were found.
    found: VecDeque<(AskKey, FoundSocket)>,
}

/// What the handler decided or held back, in the order in which it is carried out.
#[derive(Debug)]
pub(crate) enum Next {
    /// A packet that waited before a gate.
    Released(SessionKey, Held),
    Decided(AskKey, Result<(), Refusal>),
    /// The socket that a client came back to, and its namespace.
    Found(AskKey, FoundSocket),
}

impl Outbound {
    pub(crate) fn new(asks: Questions, lists: Account) -> Self {
        Self {
            asks,
            decided: VecDeque::new(),
            effects: Vec::new(),
            told: VecDeque::new(),
            watches_rooms: false,
            lists,
            released: VecDeque::new(),
            found: VecDeque::new(),
        }
    }

    /// The shard is to do something.
    pub(crate) fn push(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Operators are to know something.
    pub(crate) fn log(&mut self, notice: Notice) {
        self.effects.push(Effect::Log(notice));
    }

    /// The handler is to know something.
    pub(crate) fn tell(&mut self, mut told: Told) {
        if let Told::Found { found, kept, .. } = &mut told
            && kept.is_none()
        {
            // A list that needed no round is in no book yet.
            *kept = self.book(found);
        }
        self.told.push_back(told);
    }

    pub(crate) fn tell_all(&mut self, told: impl IntoIterator<Item = Told>) {
        told.into_iter().for_each(|told| self.tell(told));
    }

    /// Whether the handler wants to know of sockets that are moved.
    pub(crate) fn watch_rooms(&mut self, watches: bool) {
        self.watches_rooms = watches;
    }

    /// A socket is moved: the handler is to know it if it wants to.
    pub(crate) fn tell_if_watching(&mut self, moved: impl FnOnce() -> Told) {
        if self.watches_rooms {
            self.tell(moved());
        }
    }

    /// A handler that asks for many lists in one call gets them after it: those beyond the bound come without sockets, and say so.
    fn book(&self, found: &mut Found) -> Option<Booked> {
        let booked = self.lists.take(found.bytes());
        if booked.is_none() {
            *found = Found::default();
        }
        booked
    }

    /// Somebody outside is to answer this question, which is open.
    pub(crate) fn ask(&mut self, key: AskKey, ask: Ask) {
        debug_assert!(self.asks.is_open(key), "nobody could take its answer");
        self.effects.push(Effect::Ask { key, ask });
    }

    /// The handler decided; `false`: nobody waits for that any more.
    pub(crate) fn decide(&mut self, key: AskKey, decision: Result<(), Refusal>) -> bool {
        let is_open = self.asks.is_open(key);
        if is_open {
            self.decided.push_back((key, decision));
        }
        is_open
    }

    /// The socket of a client that comes back was looked for.
    pub(crate) fn found(&mut self, key: AskKey, found: FoundSocket) {
        self.found.push_back((key, found));
    }

    /// Packets that waited for a decision go on.
    pub(crate) fn release(&mut self, session: SessionKey, held: impl Iterator<Item = Held>) {
        self.released.extend(held.map(|packet| (session, packet)));
    }

    pub(crate) fn has_effects(&self) -> bool {
        !self.effects.is_empty()
    }

    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Gives an emptied list back, so that it need not be allocated again.
    pub(crate) fn recycle(&mut self, effects: Vec<Effect>) {
        if self.effects.is_empty() {
            self.effects = effects;
        }
    }

    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        !self.told.is_empty()
    }

    pub(crate) fn next_news(&mut self) -> Option<Told> {
        self.told.pop_front()
    }

    /// Packets that waited come before later decisions.
    pub(crate) fn next(&mut self) -> Option<Next> {
        let released = self.released.pop_front();
        let released = released.map(|(session, held)| Next::Released(session, held));
        released.or_else(|| {
            if let Some((key, found)) = self.found.pop_front() {
                return Some(Next::Found(key, found));
            }
            let (key, decision) = self.decided.pop_front()?;
            Some(Next::Decided(key, decision))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::books::ledger::{Ledger, Stock};
    use crate::bounds::ROUND_BYTES_MAX;
    use crate::cluster::letter::Fetched;

    fn list() -> Told {
        let socket = Fetched {
            id: "id".to_owned(),
            rooms: Vec::new(),
            data: "x".repeat(1 << 20),
        };
        let found = Found {
            sockets: vec![socket],
            complete: true,
        };
        Told::Found {
            token: 0,
            found,
            kept: None,
        }
    }

    /// A worker's message with 200 requests for a list of 3 MB took 505 MB, when all of it came in one call.
    #[test]
    fn lists_that_were_asked_for_in_one_call_were_kept_without_bound() {
        let ledger = Ledger::default();
        let lists = ledger.open(Stock::Lists, ROUND_BYTES_MAX);
        let asks = Questions::new(ledger.open(Stock::Questions, 0));
        let mut outbound = Outbound::new(asks, lists);
        outbound.tell_all((0..100).map(|_| list()));
        let (mut bytes, mut whole, mut all) = (0, 0, 0);
        while let Some(Told::Found { found, .. }) = outbound.next_news() {
            bytes += found.bytes();
            whole += usize::from(found.complete);
            all += 1;
            assert_eq!(found.complete, !found.sockets.is_empty());
        }
        assert!(bytes <= ROUND_BYTES_MAX && whole == 15, "{bytes} {whole}");
        assert_eq!((all, outbound.lists.bytes()), (100, 0), "each is answered");
        outbound.tell(list());
        assert!(matches!(outbound.next_news(), Some(Told::Found { found, .. }) if found.complete));
    }
}
