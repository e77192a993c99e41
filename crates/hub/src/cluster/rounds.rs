//! Acks the server asked for: from one socket, or from all receivers of a broadcast on any shard.

use crate::books::metrics::Limit;
use crate::cluster::relay::{Address, Answer, Broadcast, Fetched, Relay, ReplyTo, Target};
use crate::core::Core;
use crate::rooms::fanout::Outgoing;
use crate::seam::effect::Told;
use crate::tables::slot::SocketKey;
use std::collections::{HashMap, HashSet};

/// What a broadcast with ack brought.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Collected {
    pub answers: Vec<Answer>,
    /// Sockets that got the event, as far as known.
    pub expected: u64,
    /// Everyone answered in time.
    pub complete: bool,
}

#[derive(Debug)]
enum Pending {
    /// One socket was asked.
    One { socket: SocketKey, token: u64 },
    /// A broadcast or fetch of ours that waits for the shards.
    Round {
        token: u64,
        silent_shards: u32,
        collected: Collected,
    },
    Fetch {
        token: u64,
        silent_shards: u32,
        sockets: Vec<Fetched>,
    },
}

/// Local receivers of a broadcast that still owe their answer.
#[derive(Debug)]
struct Receivers {
    waiting: HashSet<SocketKey>,
    reply: ReplyTo,
}

/// Ids count up in steps of the number of shards, so that no two shards give out the same one: a broadcast has one id for all
/// its receivers, wherever they are.
#[derive(Debug, Default)]
pub(crate) struct Acks {
    pending: HashMap<u64, Pending>,
    receivers: HashMap<u64, Receivers>,
    given: u64,
}

impl Acks {
    fn len(&self) -> usize {
        self.pending.len() + self.receivers.len()
    }

    fn is_live(&self, id: u64) -> bool {
        self.pending.contains_key(&id) || self.receivers.contains_key(&id)
    }
}

/// An answer that the handler gets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Acked {
    ToHandler { token: u64 },
    Settled,
}

impl Core {
    fn pend(&mut self, pending: Pending, timeout_ms: u64) -> Option<u64> {
        if !self.ack_admitted() {
            return None;
        }
        let id = self.acks.given * u64::from(self.ids.me.shards) + u64::from(self.ids.me.shard);
        self.acks.given += 1;
        self.acks.pending.insert(id, pending);
        self.watch_ack(id, timeout_ms);
        Some(id)
    }

    fn ack_admitted(&mut self) -> bool {
        let admitted = self.acks.len() < self.config.limits.acks_outstanding_max;
        if !admitted {
            self.counts.hit(Limit::AcksOutstanding);
        }
        admitted
    }

    fn watch_ack(&mut self, id: u64, timeout_ms: u64) {
        self.counts.acks_outstanding = self.acks.len() as u64;
        self.clock
            .timers
            .arm_ack(self.clock.now.mono_ms + timeout_ms, id);
        let acks = &self.acks;
        self.clock
            .timers
            .compact_acks(acks.len(), |id| acks.is_live(id));
    }

    fn settle(&mut self, id: u64) -> Option<Pending> {
        let pending = self.acks.pending.remove(&id);
        self.counts.acks_outstanding = self.acks.len() as u64;
        pending
    }

    /// Reserves the ack id for a question to one socket; `None` when too many are outstanding.
    pub(crate) fn ask_one(
        &mut self,
        socket: SocketKey,
        token: u64,
        timeout_ms: u64,
    ) -> Option<u64> {
        self.pend(Pending::One { socket, token }, timeout_ms)
    }

    /// A client's ack. Unknown, repeated and foreign ids are ignored.
    pub(crate) fn acked(
        &mut self,
        socket: SocketKey,
        id: u64,
        answer: impl FnOnce() -> Answer,
    ) -> Acked {
        if let Some(Pending::One {
            socket: asked,
            token,
        }) = self.acks.pending.get(&id)
            && *asked == socket
        {
            let token = *token;
            self.settle(id);
            return Acked::ToHandler { token };
        }
        if let Some(receivers) = self.acks.receivers.get_mut(&id)
            && receivers.waiting.remove(&socket)
        {
            let (reply, done) = (receivers.reply, receivers.waiting.is_empty());
            if done {
                self.acks.receivers.remove(&id);
            }
            self.deliver_answer(reply, answer());
        }
        Acked::Settled
    }

    fn deliver_answer(&mut self, reply: ReplyTo, answer: Answer) {
        if reply.shard == self.ids.me.shard {
            self.ack_answer(reply.request, answer);
        } else {
            self.send(
                reply.shard,
                Relay::Ack {
                    request: reply.request,
                    answer,
                },
            );
        }
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
        let round = Pending::Round {
            token,
            silent_shards: shards.len() + 1,
            collected: Collected::default(),
        };
        let Some(request) = self.pend(round, timeout_ms) else {
            self.outbound.told.push_back(Told::Collected {
                token,
                collected: Collected::default(),
            });
            return;
        };
        let reply = ReplyTo {
            shard: self.ids.me.shard,
            request,
            timeout_ms,
        };
        if !shards.is_empty() {
            let relay = Relay::Broadcast(Broadcast {
                to: Address::from(target),
                name: out.name.to_owned(),
                args: out.args.to_owned(),
                attachments: out.attachments.to_vec(),
                volatile: false,
                ack: Some(reply),
            });
            self.send_all(shards, relay);
        }
        let count = self.fan_out_asking(target, out, reply);
        self.ack_count(request, count);
    }

    /// Delivers a broadcast with ack to the local receivers; returns how many.
    pub(crate) fn fan_out_asking(
        &mut self,
        target: &Target<'_>,
        out: &mut Outgoing<'_>,
        reply: ReplyTo,
    ) -> u64 {
        if !self.ack_admitted() {
            return 0;
        }
        out.ack = Some(reply.request);
        let mut got = Vec::new();
        let count = self.fan_out(target, out, Some(&mut got)) as u64;
        if !got.is_empty() {
            let receivers = Receivers {
                waiting: got
                    .into_iter()
                    .map(|index| self.socket_key(index))
                    .collect(),
                reply,
            };
            self.acks.receivers.insert(reply.request, receivers);
            self.watch_ack(reply.request, reply.timeout_ms);
        }
        count
    }

    pub(crate) fn ack_count(&mut self, request: u64, count: u64) {
        if let Some(Pending::Round {
            silent_shards,
            collected,
            ..
        }) = self.acks.pending.get_mut(&request)
        {
            *silent_shards = silent_shards.saturating_sub(1);
            collected.expected += count;
        }
        self.finish_round(request);
    }

    pub(crate) fn ack_answer(&mut self, request: u64, answer: Answer) {
        if let Some(Pending::Round { collected, .. }) = self.acks.pending.get_mut(&request) {
            collected.answers.push(answer);
        }
        self.finish_round(request);
    }

    fn finish_round(&mut self, request: u64) {
        let Some(Pending::Round {
            silent_shards: 0,
            collected,
            ..
        }) = self.acks.pending.get(&request)
        else {
            return;
        };
        if (collected.answers.len() as u64) < collected.expected {
            return;
        }
        if let Some(Pending::Round {
            token,
            mut collected,
            ..
        }) = self.settle(request)
        {
            collected.complete = true;
            self.outbound
                .told
                .push_back(Told::Collected { token, collected });
        }
    }

    /// Asks every shard for the sockets a target means.
    pub(crate) fn fetch(&mut self, target: &Target<'_>, timeout_ms: u64, token: u64) {
        let shards = self.shards_of(target);
        let here = self.describe(target);
        let fetch = Pending::Fetch {
            token,
            silent_shards: shards.len(),
            sockets: here,
        };
        if shards.is_empty() {
            if let Pending::Fetch { sockets, .. } = fetch {
                self.outbound
                    .told
                    .push_back(Told::Fetched { token, sockets });
            }
            return;
        }
        match self.pend(fetch, timeout_ms) {
            Some(request) => {
                let reply = ReplyTo {
                    shard: self.ids.me.shard,
                    request,
                    timeout_ms,
                };
                self.send_all(
                    shards,
                    Relay::Fetch {
                        of: Address::from(target),
                        reply,
                    },
                );
            }
            None => self.outbound.told.push_back(Told::Fetched {
                token,
                sockets: Vec::new(),
            }),
        }
    }

    pub(crate) fn fetched(&mut self, request: u64, found: &[Fetched]) {
        let Some(Pending::Fetch {
            silent_shards,
            sockets,
            ..
        }) = self.acks.pending.get_mut(&request)
        else {
            return;
        };
        sockets.extend_from_slice(found);
        *silent_shards = silent_shards.saturating_sub(1);
        if *silent_shards == 0
            && let Some(Pending::Fetch { token, sockets, .. }) = self.settle(request)
        {
            self.outbound
                .told
                .push_back(Told::Fetched { token, sockets });
        }
    }

    /// Local sockets of a target as `fetch` reports them.
    pub(crate) fn describe(&mut self, target: &Target<'_>) -> Vec<Fetched> {
        let selected = self.select(target);
        let sockets = selected.into_iter().filter_map(|index| {
            let socket = self.tables.sockets.get(index)?;
            let data = socket
                .extra
                .as_ref()
                .and_then(|extra| extra.data.as_deref());
            Some(Fetched {
                id: socket.id.to_string(),
                rooms: self.rooms_of(index),
                data: data.unwrap_or("{}").to_owned(),
            })
        });
        sockets.collect()
    }

    /// A question's time is over.
    pub(crate) fn ack_due(&mut self, id: u64) {
        self.acks.receivers.remove(&id);
        match self.settle(id) {
            Some(Pending::One { socket, token }) => {
                self.outbound
                    .told
                    .push_back(Told::AckTimedOut { socket, token });
            }
            Some(Pending::Round {
                token, collected, ..
            }) => {
                self.outbound
                    .told
                    .push_back(Told::Collected { token, collected });
            }
            Some(Pending::Fetch { token, sockets, .. }) => {
                self.outbound
                    .told
                    .push_back(Told::Fetched { token, sockets });
            }
            None => {}
        }
    }
}
