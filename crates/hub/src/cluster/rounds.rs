//! Answers that the server waits for: acks of one socket, acks of all receivers of a broadcast, lists of sockets of many shards.
//!
//! Each shard asks its own sockets and tells the asker what came of it. Ack ids are unique in the process, so all receivers of a
//! broadcast are asked under one id that none of them waits under already. A part in a round is
//! admitted once, before anything is delivered, by the number of its receivers. The answers that a round keeps are bounded in
//! bytes. Whatever a round could not deliver, keep or wait for is in its result, so that no partial result looks whole.

use crate::books::ledger::{Account, Booked};
use crate::books::metrics::{Counts, Limit};
use crate::bounds::NODES_MAX;
use crate::cluster::letter::{Fetched, Found, More, Page, Reply, Response, RoundId, Tidings};
use crate::cluster::lists::{List, Lists};
use crate::cluster::respondents::Respondents;
use crate::seam::told::{Collected, Told};
use crate::tables::id::Identity;
use crate::tables::slot::SocketKey;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::collections::BTreeSet;

#[derive(Debug)]
enum Wait {
    /// One socket was asked.
    One {
        socket: SocketKey,
        token: u64,
        due_ms: u64,
    },
    /// A broadcast or fetch of ours.
    Round(Round),
    /// Receivers here of a broadcast whose asker may be anywhere.
    Part {
        round: RoundId,
        receivers: Vec<SocketKey>,
        owing: usize,
    },
    /// Sockets of this shard, for an asker that may be anywhere.
    List(List),
}

/// A question to many.
#[derive(Debug)]
struct Round {
    token: u64,
    respondents: Respondents,
    answers: Answers,
    kept: Booked,
    /// Something found no room.
    is_full: bool,
}

/// What a question to many has brought.
#[derive(Debug)]
pub(crate) enum Answers {
    /// A broadcast brings acks.
    Acks {
        /// Sockets that got it.
        asked: u64,
        collected: Collected,
    },
    /// A fetch brings sockets.
    Sockets(Found),
}

/// What the end of a wait means for somebody.
#[derive(Debug)]
pub(crate) enum News {
    Handler(Told),
    Asker(RoundId, Response),
}

/// A client's ack.
#[derive(Debug)]
pub(crate) enum Acked {
    /// It answers `Context::ask` with this token.
    ToHandler(u64),
    /// It answers a broadcast.
    ToAsker(RoundId),
    /// Nobody asked, or nobody waits any more.
    Ignored,
}

/// Ack ids are below this: clients in Java and C++ read them as 32 bits with a sign.
const IDS: u64 = 1 << 31;

#[derive(Debug)]
pub(crate) struct Rounds {
    /// By ack id, which for rounds of ours is never sent. Ids are ours: no keyed hash.
    waits: HashMap<u64, Wait, FixedState>,
    /// Answers that sockets owe. In order of sockets, so that one that goes finds its own.
    owed: BTreeSet<(SocketKey, u64)>,
    /// Rounds of ours, and lists.
    open: usize,
    /// Which lists go on.
    pub(crate) lists: Lists,
    /// Answers and lists that these keep.
    account: Account,
    /// The next ack id. Each shard gives out every n-th.
    next: u64,
    stride: u64,
    node: u16,
}

impl Rounds {
    pub(crate) fn new(me: Identity, account: Account) -> Self {
        Self {
            waits: HashMap::default(),
            owed: BTreeSet::new(),
            open: 0,
            lists: Lists::new(account.another()),
            account,
            next: u64::from(me.shard),
            stride: u64::from(me.shards),
            node: me.node,
        }
    }

    /// The same, with ack ids that no other node gives out: a client that comes back from one may answer what it was asked there.
    pub(crate) fn across_nodes(self, me: Identity) -> Self {
        // Nodes may have other numbers of shards.
        let nodes = NODES_MAX as u64;
        Self {
            next: u64::from(me.node) + nodes * u64::from(me.shard),
            stride: nodes * u64::from(me.shards),
            ..self
        }
    }

    /// Answers that sockets owe.
    pub(crate) fn owed(&self) -> usize {
        self.owed.len()
    }

    /// Whether so many more may be waited for.
    pub(crate) fn admits(&self, more: usize, max: usize, counts: &mut Counts) -> bool {
        let ids = usize::try_from(IDS / self.stride).unwrap_or(usize::MAX);
        // At most half of the shard's ids are in use, so that `next_id` finds a free one.
        let admitted = self.owed.len() + self.open + more <= max.min(ids / 2);
        if !admitted {
            counts.hit(Limit::AcksOutstanding);
        }
        admitted
    }

    pub(crate) fn is_live(&self, id: u64) -> bool {
        self.waits.contains_key(&id)
    }

    pub(crate) fn len(&self) -> usize {
        self.waits.len()
    }

    /// The ack id that comes next.
    pub(crate) fn upcoming(&self) -> u64 {
        self.next
    }

    /// Goes on after the ids that another process has given out: a late ack of its time answers no question of this one.
    pub(crate) fn go_on_from(&mut self, next: u64) {
        let own = self.next;
        let behind = next.max(own) - own;
        self.next = own.saturating_add(behind.div_ceil(self.stride) * self.stride);
        self.begin_again();
    }

    /// After the last id the first of this shard comes again.
    fn begin_again(&mut self) {
        if self.next >= IDS {
            self.next %= self.stride;
        }
    }

    /// An ack id that no shard of the process has given out, or of all nodes, where sockets go from one to another.
    pub(crate) fn next_id(&mut self) -> u64 {
        loop {
            let id = self.next;
            self.next += self.stride;
            self.begin_again();
            // There are twice as many ids as are admitted, so one of the next is free.
            if !self.waits.contains_key(&id) {
                return id;
            }
        }
    }

    fn wait(&mut self, wait: Wait) -> u64 {
        let id = self.next_id();
        self.waits.insert(id, wait);
        id
    }

    /// One socket is asked; the id of its ack.
    pub(crate) fn ask(&mut self, socket: SocketKey, token: u64, due_ms: u64) -> u64 {
        let id = self.wait(Wait::One {
            socket,
            token,
            due_ms,
        });
        self.owed.insert((socket, id));
        id
    }

    /// The questions to this socket alone that it has not answered: the id, the token and the deadline of each.
    pub(crate) fn asked(&self, socket: SocketKey) -> impl Iterator<Item = (u64, u64, u64)> {
        let own = self.owed.range((socket, 0)..=(socket, u64::MAX));
        own.filter_map(|(_, id)| match self.waits.get(id)? {
            Wait::One { token, due_ms, .. } => Some((*id, *token, *due_ms)),
            _ => None,
        })
    }

    /// Rounds of other nodes in which this socket has not answered, with the ids by which it was asked. Askers of this node are gone when
    /// another process goes on with it.
    pub(crate) fn parts_of(&self, socket: SocketKey) -> impl Iterator<Item = (u64, RoundId)> {
        let own = self.owed.range((socket, 0)..=(socket, u64::MAX));
        own.filter_map(|(_, id)| match self.waits.get(id)? {
            Wait::Part { round, .. } if round.asker.node != self.node => Some((*id, *round)),
            _ => None,
        })
    }

    /// A socket of another process was asked there in a round of another node. `None`: somebody is asked for something else under this id
    /// here; else whether the round is new.
    pub(crate) fn go_on_in(&mut self, id: u64, round: RoundId, socket: SocketKey) -> Option<bool> {
        // An asker of this node ended with the process before.
        if id >= IDS || round.asker.node == self.node {
            return None;
        }
        let part = self.waits.entry(id).or_insert_with(|| Wait::Part {
            round,
            receivers: Vec::new(),
            owing: 0,
        });
        let Wait::Part {
            round: known,
            receivers,
            owing,
        } = part
        else {
            return None;
        };
        if (known.asker, known.number) != (round.asker, round.number) {
            return None;
        }
        receivers.push(socket);
        *owing += 1;
        self.owed.insert((socket, id));
        Some(*owing == 1)
    }

    /// A socket of another process was asked there under this id. `false`: somebody is asked under it here.
    pub(crate) fn go_on_with(
        &mut self,
        id: u64,
        (socket, token, due_ms): (SocketKey, u64, u64),
    ) -> bool {
        if id >= IDS || self.waits.contains_key(&id) {
            return false;
        }
        let wait = Wait::One {
            socket,
            token,
            due_ms,
        };
        self.waits.insert(id, wait);
        self.owed.insert((socket, id));
        true
    }

    /// Opens a round that asks so many shards, and perhaps other nodes.
    pub(crate) fn open(
        &mut self,
        (answers, token): (Answers, u64),
        shards: u32,
        abroad: bool,
    ) -> u64 {
        self.open += 1;
        let kept = self.account.entry();
        self.wait(Wait::Round(Round {
            token,
            respondents: Respondents::new(self.node, shards, abroad),
            answers,
            kept,
            is_full: false,
        }))
    }

    // ---- lists ----------------------------------------------------------------------------------------------------------------

    /// Opens a list of these sockets. `None`: there is no room for it.
    pub(crate) fn open_list(&mut self, round: RoundId, rest: Vec<SocketKey>) -> Option<u64> {
        let list = self.lists.list(round, rest)?;
        self.open += 1;
        Some(self.wait(Wait::List(list)))
    }

    pub(crate) fn list(&mut self, id: u64) -> Option<&mut List> {
        match self.waits.get_mut(&id)? {
            Wait::List(list) => Some(list),
            Wait::One { .. } | Wait::Part { .. } | Wait::Round(_) => None,
        }
    }

    /// Nothing of this list is described yet, and it begins when its turn comes.
    pub(crate) fn begin_later(&mut self, id: u64) {
        if let Some(list) = self.list(id) {
            list.is_waiting = true;
            self.lists.goes_on(id, false);
        }
    }

    /// A list is over, or nobody wants it any more.
    pub(crate) fn end_list(&mut self, id: u64) {
        if self.list(id).is_some() {
            self.waits.remove(&id);
            self.open -= 1;
        }
    }

    /// The asker of a list wants its next page, or no more of it. One that asks twice gets one page.
    pub(crate) fn more(&mut self, more: &More) {
        let Some(list) = self.list(more.list) else {
            return;
        };
        let is_its = (list.round.asker, list.round.number) == (more.asker, more.round);
        if is_its && more.ends {
            self.end_list(more.list);
        } else if is_its && !std::mem::replace(&mut list.is_waiting, true) {
            self.lists.is_asked(more.list);
        }
    }

    /// These sockets here got a broadcast under this ack id.
    pub(crate) fn take_part(&mut self, id: u64, round: RoundId, receivers: Vec<SocketKey>) {
        self.owed
            .extend(receivers.iter().map(|socket| (*socket, id)));
        let owing = receivers.len();
        let part = Wait::Part {
            round,
            receivers,
            owing,
        };
        self.waits.insert(id, part);
    }

    /// A client's ack. Unknown, repeated and foreign ids are ignored.
    pub(crate) fn acked(&mut self, socket: SocketKey, id: u64) -> Acked {
        if !self.owed.remove(&(socket, id)) {
            return Acked::Ignored;
        }
        match self.one_less(id) {
            Some(News::Asker(round, _)) => Acked::ToAsker(round),
            // `one_less` tells of an end without an answer; here the answer has come.
            Some(News::Handler(Told::AckTimedOut { token, .. })) => Acked::ToHandler(token),
            _ => Acked::Ignored,
        }
    }

    /// Answers that this socket owes.
    pub(crate) fn owed_by(&self, socket: SocketKey) -> usize {
        self.owed.range((socket, 0)..=(socket, u64::MAX)).count()
    }

    /// A socket goes: nobody waits for its answers any more. Returns what that means, in the order of the questions.
    pub(crate) fn gone(&mut self, socket: SocketKey) -> Vec<News> {
        // Each socket that goes comes by here: where nobody is asked, that costs one test.
        if self.owed.is_empty() {
            return Vec::new();
        }
        let own = self.owed.range((socket, 0)..=(socket, u64::MAX));
        let ids: Vec<u64> = own.map(|(_, id)| *id).collect();
        ids.into_iter()
            .filter_map(|id| {
                self.owed.remove(&(socket, id));
                self.one_less(id)
            })
            .collect()
    }

    /// One answer less is owed for this id. Says what the round loses if that answer will never come.
    fn one_less(&mut self, id: u64) -> Option<News> {
        match self.waits.get_mut(&id)? {
            Wait::One { socket, token, .. } => {
                let (socket, token) = (*socket, *token);
                self.waits.remove(&id);
                Some(News::Handler(Told::AckTimedOut { socket, token }))
            }
            Wait::Part { round, owing, .. } => {
                let round = *round;
                *owing -= 1;
                if *owing == 0 {
                    self.waits.remove(&id);
                }
                Some(News::Asker(round, Response::Gone))
            }
            Wait::Round(_) | Wait::List(_) => None,
        }
    }

    /// A shard, here or on another node, answers a round of ours. Returns the result if it was the last answer.
    pub(crate) fn respond(&mut self, reply: &Reply, counts: &mut Counts) -> Option<Told> {
        let round = self.round(reply.number)?;
        if !round.respondents.heard(reply) {
            return None;
        }
        if !round.answers.take(&reply.response, &mut round.kept) {
            counts.hit(Limit::AcksOutstanding);
            round.is_full = true;
        }
        // The rest of that shard's list would find no room, and the shard is not asked for it.
        if let Response::Page(Page { next: Some(_), .. }) = &reply.response
            && round.is_full
        {
            round.respondents.given_up(reply.node);
        }
        self.end_if_over(reply.number)
    }

    /// Whether a round of ours takes more of the lists that it is told in part.
    pub(crate) fn takes_more(&mut self, id: u64) -> bool {
        self.round(id).is_some_and(|round| !round.is_full)
    }

    fn round(&mut self, id: u64) -> Option<&mut Round> {
        match self.waits.get_mut(&id)? {
            Wait::Round(round) => Some(round),
            Wait::One { .. } | Wait::Part { .. } | Wait::List(_) => None,
        }
    }

    fn end_if_over(&mut self, id: u64) -> Option<Told> {
        let is_over = self.round(id)?.is_over();
        is_over.then(|| self.end(id)).flatten()
    }

    /// News of other nodes; the results of what ends by them.
    pub(crate) fn on_tidings(&mut self, tidings: &Tidings) -> Vec<Told> {
        let round = match tidings {
            Tidings::Down { node } => return self.node_down(*node),
            Tidings::Posted { round, .. } | Tidings::Refused { round } => *round,
            Tidings::Confirmed { .. } | Tidings::Missed { .. } => return Vec::new(),
        };
        let respondents = self.round(round).map(|round| &mut round.respondents);
        match (respondents, tidings) {
            (Some(respondents), Tidings::Posted { nodes, .. }) => respondents.posted(nodes),
            (Some(respondents), _) => respondents.refused(),
            (None, _) => {}
        }
        self.end_if_over(round).into_iter().collect()
    }

    fn node_down(&mut self, node: u16) -> Vec<Told> {
        let lists = self.waits.extract_if(
            |_, wait| matches!(wait, Wait::List(list) if list.round.asker.node == node),
        );
        self.open -= lists.count();
        let mut concerned = Vec::new();
        for (id, wait) in &mut self.waits {
            let Wait::Round(round) = wait else {
                continue;
            };
            let Some(owing) = round.respondents.lost(node) else {
                continue;
            };
            if let Answers::Acks { collected, .. } = &mut round.answers {
                collected.gone = collected.gone.saturating_add(owing);
            }
            concerned.push(*id);
        }
        let ended = concerned.into_iter().map(|id| self.end_if_over(id));
        ended.collect::<Vec<_>>().into_iter().flatten().collect()
    }

    /// The time of an id is over.
    pub(crate) fn due(&mut self, id: u64) -> Option<Told> {
        if let Some(Wait::One { socket, .. }) = self.waits.get(&id) {
            let owed = (*socket, id);
            self.owed.remove(&owed);
            return match self.one_less(id) {
                Some(News::Handler(told)) => Some(told),
                _ => None,
            };
        }
        if let Some(Wait::Part { receivers, .. }) = self.waits.get(&id) {
            // The asker has a deadline of its own.
            for socket in receivers {
                self.owed.remove(&(*socket, id));
            }
            self.waits.remove(&id);
            return None;
        }
        self.end_list(id);
        self.end(id)
    }

    /// Ends a round: its result, whatever is still missing.
    fn end(&mut self, id: u64) -> Option<Told> {
        self.round(id)?;
        let Some(Wait::Round(round)) = self.waits.remove(&id) else {
            return None;
        };
        self.open -= 1;
        Some(round.told())
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        // A receiver is in the list of its round and in the tree of owed answers, whose nodes are half full at worst.
        let receiver = size_of::<SocketKey>() + 2 * size_of::<(SocketKey, u64)>();
        let tables = self.waits.allocation_size() + self.lists.heap_bytes();
        tables + self.owed.len() * receiver + self.account.bytes()
    }
}

impl Round {
    fn is_over(&self) -> bool {
        !self.respondents.is_silent()
            && match &self.answers {
                Answers::Acks { asked, collected } => {
                    collected.acked.saturating_add(collected.gone) >= *asked
                }
                Answers::Sockets(_) => true,
            }
    }

    fn told(self) -> Told {
        let (token, is_whole) = (self.token, self.respondents.is_whole());
        match self.answers {
            Answers::Acks {
                asked,
                mut collected,
            } => {
                let missing = asked.saturating_sub(collected.acked.saturating_add(collected.gone));
                collected.timed_out = missing;
                collected.complete = is_whole
                    && collected.answers.len() as u64 == asked
                    && collected.undelivered == 0;
                Told::Collected { token, collected }
            }
            Answers::Sockets(mut found) => {
                found.complete &= is_whole;
                let kept = Some(self.kept);
                Told::Found { token, found, kept }
            }
        }
    }
}

impl Answers {
    pub(crate) fn acks() -> Self {
        Self::Acks {
            asked: 0,
            collected: Collected::default(),
        }
    }

    pub(crate) fn sockets() -> Self {
        Self::Sockets(Found {
            complete: true,
            ..Found::default()
        })
    }

    /// Takes in what a shard says. `false`: some of it found no room.
    fn take(&mut self, response: &Response, kept: &mut Booked) -> bool {
        match (self, response) {
            (Self::Acks { asked, collected }, response) => collected.take(response, asked, kept),
            (Self::Sockets(found), Response::Sockets(there)) => {
                found.complete &= there.complete;
                found.take(&there.sockets, kept)
            }
            (Self::Sockets(found), Response::Page(page)) => found.take(&page.sockets, kept),
            (Self::Sockets(_), _) => true,
        }
    }
}

impl Collected {
    fn take(&mut self, response: &Response, asked: &mut u64, kept: &mut Booked) -> bool {
        match response {
            Response::Delivered {
                asked: there,
                undelivered,
            } => {
                // Other servers may say absurd numbers: the sum must not overflow.
                *asked = asked.saturating_add(*there);
                self.undelivered = self.undelivered.saturating_add(*undelivered);
            }
            Response::Gone => self.gone = self.gone.saturating_add(1),
            Response::Ack(answer) => {
                // An answer that finds no room is counted all the same.
                self.acked += 1;
                if !kept.grow(answer.bytes()) {
                    return false;
                }
                self.answers.push(answer.clone());
            }
            Response::Sockets(_) | Response::Page(_) => {}
        }
        true
    }
}

impl Found {
    fn take(&mut self, sockets: &[Fetched], kept: &mut Booked) -> bool {
        for socket in sockets {
            if !kept.grow(socket.bytes()) {
                self.complete = false;
                return false;
            }
            self.sockets.push(socket.clone());
        }
        true
    }
}

#[cfg(test)]
#[path = "rounds_tests.rs"]
mod tests;
