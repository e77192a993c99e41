//! Asking: the one way in which a hub learns what it cannot know itself. It emits an [`Ask`]; the control plane answers through
//! the mailbox; whoever asked waits meanwhile without holding up the turn. Bounded in number and in time: an answer that comes
//! late, or never, is `Denied::Unavailable`.
use crate::access::claims::{Claims, Denied, Refused};
use crate::books::metrics::Limit;
use crate::core::Core;
use crate::hub::Hub;
use crate::seam::effect::Effect;
use crate::tables::slot::{AskKey, SessionId, SessionKey, SocketKey};

/// What the control plane is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Is this token good, and whose is it?
    Verify { token: String },
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Verified(Result<Claims, Refused>),
}

/// A question without an answer yet.
#[derive(Debug)]
pub(crate) struct Pending {
    /// Whom it is about.
    pub(crate) session: SessionKey,
    pub(crate) purpose: Purpose,
    asked_ms: u64,
}

/// What the answer is for.
#[derive(Debug)]
pub(crate) enum Purpose {
    /// To join a namespace. `auth` is the raw CONNECT payload.
    Join { namespace: Box<str>, auth: Box<str> },
    /// To begin a plain session.
    Plain,
    /// To stay beyond the expiry of the token so far. `ack`: id of the client's ack.
    Refresh { socket: SocketKey, ack: Option<u64> },
}

impl Core {
    /// Asks whether a token is good. `false`: too many questions are open.
    pub(crate) fn ask_about(&mut self, session: SessionId, token: &str, purpose: Purpose) -> bool {
        if self.asks.len() >= self.config.limits.asks_outstanding_max {
            self.counts.hit(Limit::AsksOutstanding);
            return false;
        }
        let joins = matches!(purpose, Purpose::Join { .. });
        if let Some(slot) = self.tables.sessions.get_mut(session) {
            slot.joining += u32::from(joins);
        }
        let session = self.tables.sessions.key(session);
        let key = self.asks.insert(Pending {
            session,
            purpose,
            asked_ms: self.clock.now.mono_ms,
        });
        self.counts.asks_outstanding += 1;
        let due = self.after(self.config.auth.timeout);
        let settled = |key| self.asks.live(key).is_none();
        self.clock.timers.asks.forget((), settled);
        self.clock.timers.asks.arm((), due, key);
        let token = token.to_owned();
        self.outbound.effects.push(Effect::Ask {
            key,
            ask: Ask::Verify { token },
        });
        true
    }

    /// Takes a question off the table, unless that was done already.
    fn settle_ask(&mut self, key: AskKey) -> Option<Pending> {
        self.asks.live(key)?;
        let pending = self.asks.remove(key.id())?;
        self.counts.asks_outstanding -= 1;
        self.counts.asks_answered += 1;
        let took_ms = self.clock.now.mono_ms - pending.asked_ms;
        self.counts.ask_ms += took_ms;
        self.access.admission.answered(took_ms);
        if matches!(pending.purpose, Purpose::Join { .. })
            && let Some(slot) = self.tables.sessions.live_mut(pending.session)
        {
            slot.joining -= 1;
        }
        Some(pending)
    }
}

impl Hub {
    /// The answer to an `Effect::Ask`.
    pub(crate) fn answered(&mut self, key: AskKey, reply: Reply) {
        if let Some(pending) = self.core.settle_ask(key) {
            let Reply::Verified(verdict) = reply;
            self.on_verdict(pending, verdict);
        }
        self.settle();
    }

    /// Nobody answered in time.
    pub(crate) fn ask_due(&mut self, key: AskKey) {
        if let Some(pending) = self.core.settle_ask(key) {
            self.core.counts.hit(Limit::AskTimeout);
            self.on_verdict(pending, Err(Denied::Unavailable.into()));
        }
    }
}
