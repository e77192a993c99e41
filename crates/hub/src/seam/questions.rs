//! The open questions of a hub, bounded in number and in bytes, and what waits for their answers.

use crate::books::claims::Claims;
use crate::books::ledger::{Account, Booked};
use crate::books::limits::Limits;
use crate::books::metrics::Limit;
use crate::seam::join::Join;
use crate::tables::slab::Slab;
use crate::tables::slot::{AskId, AskKey, SessionKey, SocketKey};
use wire::base64url::Id20;

/// The one that answers a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The control plane, about a token.
    Verifier,
    /// The handler, which holds the ticket.
    Handler,
    /// The other shards or the store, about the socket of a client that comes back. The number is that of its claim.
    Shards { number: u64 },
    /// Somebody outside, whom the handler asks under this token of its own.
    Outside { token: u64 },
}

/// What waits for the answer.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// A client that wants to join a namespace, and what it sent there meanwhile.
    Join(Box<Join>),
    /// A plain session that wants to begin. The second is the id of its socket, once the handler knows it.
    Begin(Option<Box<Claims>>, Option<Id20>),
    /// A socket that wants to stay beyond the end of its token. `ack`: id of the client's ack.
    Refresh { socket: SocketKey, ack: Option<u64> },
    /// No client.
    Nobody,
}

impl Waiting {
    /// Whether a client waits that is not in yet. Its session has a gate for it, so that the question ends with the session.
    pub(crate) fn is_of_newcomer(&self) -> bool {
        matches!(self, Self::Join(_) | Self::Begin(..))
    }

    /// The socket that waits to be let in, if it has an id.
    pub(crate) fn socket(&self) -> Option<Id20> {
        match self {
            Self::Join(join) => join.socket,
            Self::Begin(_, socket) => *socket,
            Self::Refresh { .. } | Self::Nobody => None,
        }
    }
}

/// A question without an answer yet.
#[derive(Debug)]
pub(crate) struct Pending {
    /// The session of the client that it is about.
    pub(crate) session: Option<SessionKey>,
    pub(crate) asked: Asked,
    pub(crate) waiting: Waiting,
    kept: Booked,
    asked_ms: u64,
}

impl Pending {
    pub(crate) fn waited_ms(&self, now_ms: u64) -> u64 {
        now_ms - self.asked_ms
    }
}

/// The open questions of a hub.
#[derive(Debug)]
pub(crate) struct Questions {
    open: Slab<AskId, Pending>,
    /// The bytes that they keep of others.
    account: Account,
    /// The ticket taken in the call of `Handler::connecting` that runs.
    ticket: Option<AskKey>,
}

impl Questions {
    pub(crate) fn new(account: Account) -> Self {
        Self {
            open: Slab::default(),
            account,
            ticket: None,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.len() == 0
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.open.heap_bytes() + self.account.bytes()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (AskId, &Pending)> {
        self.open.iter()
    }

    pub(crate) fn get(&self, ask: AskId) -> Option<&Pending> {
        self.open.get(ask)
    }

    pub(crate) fn is_open(&self, key: AskKey) -> bool {
        self.open.live(key).is_some()
    }

    pub(crate) fn has_ticket(&self) -> bool {
        self.ticket.is_some()
    }

    pub(crate) fn hold_ticket(&mut self, key: AskKey) {
        self.ticket = Some(key);
    }

    /// Puts a question on the table that keeps so many bytes; nobody waits for its answer yet. The bound that speaks against it, if there
    /// is one.
    pub(crate) fn open(
        &mut self,
        session: Option<SessionKey>,
        asked: Asked,
        (bytes, asked_ms): (usize, u64),
        limits: &Limits,
    ) -> Result<AskKey, Limit> {
        if self.open.len() >= limits.asks_outstanding_max {
            return Err(Limit::AsksOutstanding);
        }
        Ok(self.open.insert(Pending {
            session,
            asked,
            waiting: Waiting::Nobody,
            kept: self.account.take(bytes).ok_or(Limit::AskBytes)?,
            asked_ms,
        }))
    }

    pub(crate) fn live_mut(&mut self, key: AskKey) -> Option<&mut Pending> {
        self.open.live_mut(key)
    }

    /// Takes a question off the table, unless that was done already.
    pub(crate) fn close(&mut self, key: AskKey) -> Option<Pending> {
        self.open.live(key)?;
        self.open.remove(key.id())
    }

    pub(crate) fn key(&self, ask: AskId) -> AskKey {
        self.open.key(ask)
    }

    /// The ticket that the handler took in the call of `connecting` that just ended.
    pub(crate) fn take_ticket(&mut self) -> Option<AskKey> {
        self.ticket.take()
    }

    /// The number of questions, the bytes that they say they keep, and those that are booked, for the census.
    pub(crate) fn audit(&self) -> (usize, usize, usize) {
        let kept = self.open.iter().map(|(_, pending)| pending.kept.bytes());
        (self.open.len(), kept.sum(), self.account.bytes())
    }

    /// What an open question keeps grows by so much; `false` = there is no room for it.
    pub(crate) fn keep(&mut self, ask: AskId, bytes: usize) -> bool {
        let pending = self.open.get_mut(ask);
        pending.is_some_and(|pending| pending.kept.grow(bytes))
    }

    pub(crate) fn join_mut(&mut self, ask: AskId) -> Option<&mut Join> {
        match &mut self.open.get_mut(ask)?.waiting {
            Waiting::Join(join) => Some(join),
            _ => None,
        }
    }
}
