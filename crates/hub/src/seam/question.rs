//! Asking: the one way in which a hub learns what it cannot know itself, and in which a handler decides later. A question that
//! goes outside is an [`Ask`]; the answer comes through the mailbox. A client that depends on an answer waits without holding up
//! the turn. Questions are bounded in number, in bytes and in time: one that is answered late, or never, is answered `unavailable`.

use crate::books::claims::{Claims, Denied};
use crate::books::limits::TOKEN_BYTES_MAX;
use crate::books::metrics::Limit;
use crate::parts::Parts;
use crate::seam::ask::{Ask, Token};
use crate::seam::effect::Effect;
use crate::seam::join::Join;
use crate::tables::slab::Slab;
use crate::tables::slot::{AskId, AskKey, SessionId, SessionKey, SocketKey};
use std::time::Duration;

/// Who answers a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The control plane, about a token.
    Verifier,
    /// The handler, which holds the ticket.
    Handler,
    /// Somebody outside, whom the handler asks under this token of its own.
    Outside { token: u64 },
}

/// What waits for the answer.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// A client that wants to join a namespace, and what it sent there meanwhile.
    Join(Box<Join>),
    /// A plain session that wants to begin.
    Begin(Option<Box<Claims>>),
    /// A socket that wants to stay beyond the end of its token. `ack`: id of the client's ack.
    Refresh { socket: SocketKey, ack: Option<u64> },
    /// No client.
    Nobody,
}

/// A question without an answer yet.
#[derive(Debug)]
pub(crate) struct Pending {
    /// The client it is about.
    pub(crate) session: Option<SessionKey>,
    pub(crate) asked: Asked,
    pub(crate) waiting: Waiting,
    bytes: usize,
    asked_ms: u64,
}

/// The open questions of a hub.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    open: Slab<AskId, Pending>,
    /// What they keep of others, bytes.
    bytes: usize,
    /// The ticket taken in the call of `Handler::connecting` that runs.
    ticket: Option<AskKey>,
}

impl Questions {
    pub(crate) fn is_empty(&self) -> bool {
        self.open.len() == 0
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.open.heap_bytes() + self.bytes
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

    /// For the census: the number of questions, and the bytes that they say they keep beside those that are booked.
    pub(crate) fn audit(&self) -> (usize, usize, usize) {
        let kept = self.open.iter().map(|(_, pending)| pending.bytes).sum();
        (self.open.len(), kept, self.bytes)
    }

    /// What waits behind an open question grows by so much; `false` = there is no room for it.
    pub(crate) fn keep(&mut self, ask: AskId, bytes: usize, bytes_max: usize) -> bool {
        let Some(pending) = self.open.get_mut(ask) else {
            return false;
        };
        if self.bytes + bytes > bytes_max {
            return false;
        }
        self.bytes += bytes;
        pending.bytes += bytes;
        true
    }

    pub(crate) fn join_mut(&mut self, ask: AskId) -> Option<&mut Join> {
        match &mut self.open.get_mut(ask)?.waiting {
            Waiting::Join(join) => Some(join),
            _ => None,
        }
    }
}

/// Opens a question that is answered within `timeout`. `None`: too many are open, or they keep too much.
pub(crate) fn open_question(
    parts: &mut Parts,
    session: Option<SessionId>,
    asked: Asked,
    bytes: usize,
    timeout: Duration,
) -> Option<AskKey> {
    if parts.asks.open.len() >= parts.books.config.limits.asks_outstanding_max {
        parts.books.counts.hit(Limit::AsksOutstanding);
        return None;
    }
    if parts.asks.bytes + bytes > parts.books.config.limits.ask_bytes_max {
        parts.books.counts.hit(Limit::AskBytes);
        return None;
    }
    parts.asks.bytes += bytes;
    let key = parts.asks.open.insert(Pending {
        session: session.map(|session| parts.people.sessions.key(session)),
        asked,
        waiting: Waiting::Nobody,
        bytes,
        asked_ms: parts.clock.now.mono_ms,
    });
    parts.books.counts.asks_outstanding += 1;
    let due = parts.clock.after(timeout);
    let settled = |key| parts.asks.open.live(key).is_none();
    parts.clock.timers.asks.forget((), settled);
    parts.clock.timers.asks.arm((), due, key);
    Some(key)
}

/// Lets somebody wait for an answer.
pub(crate) fn wait_for(parts: &mut Parts, key: AskKey, waiting: Waiting) {
    let Some(pending) = parts.asks.open.live_mut(key) else {
        return;
    };
    if matches!(waiting, Waiting::Join(_))
        && let Some(session) = pending.session
        && let Some(slot) = parts.people.sessions.live_mut(session)
    {
        slot.gates.open(key.id());
    }
    pending.waiting = waiting;
}

/// Takes a question off the table, unless that was done already, and opens its gate.
pub(crate) fn close_question(parts: &mut Parts, key: AskKey) -> Option<Pending> {
    parts.asks.open.live(key)?;
    let pending = parts.asks.open.remove(key.id())?;
    parts.asks.bytes -= pending.bytes;
    parts.books.counts.asks_outstanding -= 1;
    if let Some(session) = pending.session
        && let Some(slot) = parts.people.sessions.live_mut(session)
    {
        slot.gates.close(key.id());
    }
    Some(pending)
}

/// The same for one that was answered, or whose time is up.
pub(crate) fn settle_question(parts: &mut Parts, key: AskKey) -> Option<Pending> {
    let pending = close_question(parts, key)?;
    if pending.asked == Asked::Verifier {
        let took_ms = parts.clock.now.mono_ms - pending.asked_ms;
        parts.books.counts.asks_answered += 1;
        parts.books.counts.ask_ms += took_ms;
        parts.access.admission.answered(took_ms);
    }
    Some(pending)
}

/// Nobody waits for this answer any more.
pub(crate) fn forget_question(parts: &mut Parts, ask: AskId) {
    close_question(parts, parts.asks.open.key(ask));
}

/// Nobody waits for answers about a session that is gone.
pub(crate) fn forget_questions(parts: &mut Parts, session: SessionId) {
    let slot = parts.people.sessions.get(session);
    let open = slot.map(|slot| slot.gates.clone()).unwrap_or_default();
    for ask in open.iter() {
        forget_question(parts, ask);
    }
}

/// Asks whether a token is good, unless it is too long for one or nobody can be asked now.
pub(crate) fn ask_about(
    parts: &mut Parts,
    session: SessionId,
    token: Token,
    waiting: Waiting,
) -> Result<(), Denied> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(Denied::Invalid);
    }
    // The text that a token stands in is kept with it.
    let bytes = token.kept_bytes();
    let timeout = parts.books.config.auth.timeout;
    let key = open_question(parts, Some(session), Asked::Verifier, bytes, timeout)
        .ok_or(Denied::Unavailable)?;
    wait_for(parts, key, waiting);
    let ask = Ask::Verify { token };
    parts.outbound.effects.push(Effect::Ask { key, ask });
    Ok(())
}

/// The ticket that the handler took in the call of `connecting` that just ended.
pub(crate) fn take_ticket(parts: &mut Parts) -> Option<AskKey> {
    parts.asks.ticket.take()
}
