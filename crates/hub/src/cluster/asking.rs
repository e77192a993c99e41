//! Broadcasts with ack and fetches, from the asker's shard and on each shard that takes part.

use crate::books::limits::ROUND_BYTES_MAX;
use crate::cluster::abroad::Abroad;
use crate::cluster::letter::{
    Address, Answer, Broadcast, Fetched, Found, Letter, Order, Reply, Response, RoundId, Target,
    Tidings,
};
use crate::cluster::rounds::{Acked, News, Question};
use crate::cluster::wire::Ask;
use crate::dialect::speech::Emit;
use crate::parts::Parts;
use crate::rooms::outgoing::Outgoing;
use crate::seam::told::{Collected, Told};
use crate::tables::slot::SocketKey;

impl Parts {
    fn acks_admitted(&mut self, more: usize) -> bool {
        let max = self.books.config.limits.acks_outstanding_max;
        self.rounds.admits(more, max, &mut self.books.counts)
    }

    /// Sees to an id's deadline.
    fn watch_ack(&mut self, id: u64, timeout_ms: u64) {
        let due = self.clock.now.mono_ms.saturating_add(timeout_ms);
        self.clock.timers.arm_ack(due, id);
        let rounds = &self.rounds;
        self.clock
            .timers
            .compact_acks(rounds.len(), |id| rounds.is_live(id));
        self.books.counts.acks_outstanding = self.rounds.owed() as u64;
    }

    /// The ack id for a question to one socket; `None` when too many answers are waited for.
    pub(crate) fn ask_one(
        &mut self,
        socket: SocketKey,
        token: u64,
        timeout_ms: u64,
    ) -> Option<u64> {
        self.people.socket(socket)?;
        if !self.acks_admitted(1) {
            return None;
        }
        let id = self.rounds.ask(socket, token);
        self.watch_ack(id, timeout_ms);
        Some(id)
    }

    /// A client's ack: the token, if it answers a question that the handler asked this socket alone.
    pub(crate) fn acked(
        &mut self,
        socket: SocketKey,
        id: u64,
        answer: impl FnOnce() -> Answer,
    ) -> Option<u64> {
        let acked = self.rounds.acked(socket, id);
        self.books.counts.acks_outstanding = self.rounds.owed() as u64;
        match acked {
            Acked::ToHandler(token) => return Some(token),
            Acked::ToAsker(round) => self.respond(round, Response::Ack(answer())),
            Acked::Ignored => {}
        }
        None
    }

    /// A socket goes: those who wait for its answers are told.
    pub(crate) fn forget_acks(&mut self, socket: SocketKey) {
        for news in self.rounds.gone(socket) {
            match news {
                News::Handler(told) => self.outbound.told.push_back(told),
                News::Asker(round, response) => self.respond(round, response),
            }
        }
        self.books.counts.acks_outstanding = self.rounds.owed() as u64;
    }

    /// A deadline has come.
    pub(crate) fn ack_due(&mut self, id: u64) {
        let told = self.rounds.due(id);
        self.outbound.told.extend(told);
        self.books.counts.acks_outstanding = self.rounds.owed() as u64;
    }

    fn respond(&mut self, round: RoundId, response: Response) {
        let (me, asker) = (self.ids.me.place(), round.asker);
        if asker.node != me.node {
            return self.respond_away(round, &response);
        }
        let reply = Reply {
            number: round.number,
            node: me.node,
            parts: 0,
            response,
        };
        if asker == me {
            self.response(&reply);
        } else {
            self.send(asker.shard, Letter::Response(reply));
        }
    }

    /// Something about a round or fetch of ours.
    pub(crate) fn response(&mut self, reply: &Reply) {
        let told = self.rounds.respond(reply, &mut self.books.counts);
        self.outbound.told.extend(told);
    }

    /// The way to other nodes says something.
    pub(crate) fn on_tidings(&mut self, tidings: &Tidings) {
        if let Tidings::Confirmed { ticket } = tidings {
            return self.joins_confirmed(*ticket);
        }
        let told = self.rounds.on_tidings(tidings);
        self.outbound.told.extend(told);
    }

    /// Opens a round of so many shards, and of other nodes if there are any.
    fn round(
        &mut self,
        question: Question,
        token: u64,
        shards: u32,
        timeout_ms: u64,
    ) -> Option<RoundId> {
        if !self.acks_admitted(1) {
            return None;
        }
        let abroad = match self.has_away() {
            true => Abroad::asked(),
            false => Abroad::default(),
        };
        let number = self.rounds.open(question, token, shards, abroad);
        self.watch_ack(number, timeout_ms);
        Some(RoundId {
            asker: self.ids.me.place(),
            number,
            ack: self.rounds.next_id(),
            timeout_ms,
            parts: 0,
        })
    }

    /// Broadcast whose receivers must answer; the handler gets `collected` with the token.
    pub(crate) fn collect(
        &mut self,
        target: &Target<'_>,
        out: &mut Outgoing<'_>,
        timeout_ms: u64,
        token: u64,
    ) {
        let shards = self.shards_of(target);
        let Some(round) = self.round(Question::Collect, token, shards.len() + 1, timeout_ms) else {
            let collected = Collected::default();
            let told = Told::Collected { token, collected };
            return self.outbound.told.push_back(told);
        };
        if !shards.is_empty() {
            let broadcast = Broadcast {
                to: Address::from(target),
                name: out.name.to_owned(),
                args: out.args.to_owned(),
                attachments: out.attachments.to_vec(),
                volatile: false,
                at: None,
            };
            self.send_all(shards, Order::Broadcast(broadcast, Some(round)));
        }
        let event = Emit {
            name: out.name,
            args: out.args,
            attachments: out.attachments,
            volatile: false,
        };
        self.ask_away(target, Ask::Question(&event, round), round);
        self.take_part(target, out, round);
    }

    /// Other nodes are asked, or the round is told that they cannot be.
    fn ask_away(&mut self, target: &Target<'_>, ask: Ask<'_>, round: RoundId) {
        if !self.send_away(target, ask) {
            let round = round.number;
            self.on_tidings(&Tidings::Refused { round });
        }
    }

    /// Delivers a broadcast with ack to all local receivers or, if so many answers may not be waited for, to none; and tells
    /// the asker which.
    pub(crate) fn take_part(
        &mut self,
        target: &Target<'_>,
        out: &mut Outgoing<'_>,
        round: RoundId,
    ) {
        let receivers = self.rooms.select(&mut self.people, target);
        let meant = receivers.len();
        let mut count = 0;
        if self.acks_admitted(meant) {
            self.audience().prepare(target, out);
            let id = match round.asker.node == self.ids.me.node {
                true => round.ack,
                // Ids of another node are not unique here.
                false => self.rounds.next_id(),
            };
            out.ack = Some(id);
            let mut asked = Vec::with_capacity(meant);
            for socket in receivers {
                if self.speaker().deliver(socket, out) {
                    asked.push(self.people.socket_key(socket));
                }
            }
            count = asked.len();
            if count > 0 {
                self.rounds.take_part(id, round, asked);
                self.watch_ack(id, round.timeout_ms);
            }
        }
        let delivered = Response::Delivered {
            asked: count as u64,
            undelivered: (meant - count) as u64,
        };
        self.respond(round, delivered);
    }

    /// Asks every shard for the sockets a target means; the handler gets `found` with the token.
    pub(crate) fn fetch(&mut self, target: &Target<'_>, timeout_ms: u64, token: u64) {
        let shards = self.shards_of(target);
        let mut here = self.describe(target);
        let alone = shards.is_empty() && !self.has_away();
        let round = if alone {
            None
        } else {
            self.round(Question::Fetch, token, shards.len() + 1, timeout_ms)
        };
        let Some(round) = round else {
            here.complete &= alone;
            let told = Told::Found { token, found: here };
            return self.outbound.told.push_back(told);
        };
        if !shards.is_empty() {
            let of = Address::from(target);
            self.send_all(shards, Order::Fetch { of, round });
        }
        self.ask_away(target, Ask::Fetch(round), round);
        self.respond(round, Response::Sockets(here));
    }

    /// Another shard fetches.
    pub(crate) fn fetched(&mut self, target: &Target<'_>, round: RoundId) {
        let found = self.describe(target);
        self.respond(round, Response::Sockets(found));
    }

    /// Local sockets of a target.
    fn describe(&mut self, target: &Target<'_>) -> Found {
        let (mut sockets, mut bytes) = (Vec::new(), 0);
        for index in self.rooms.select(&mut self.people, target) {
            let Some(socket) = self.people.sockets.get(index) else {
                continue;
            };
            let extra = socket.extra.as_ref();
            let data = extra.and_then(|extra| extra.data.as_deref());
            let fetched = Fetched {
                id: socket.id.to_string(),
                rooms: self.rooms.names_of(&self.people, index),
                data: data.unwrap_or("{}").to_owned(),
            };
            bytes += fetched.bytes();
            if bytes > ROUND_BYTES_MAX {
                let complete = false;
                return Found { sockets, complete };
            }
            sockets.push(fetched);
        }
        let complete = true;
        Found { sockets, complete }
    }
}
