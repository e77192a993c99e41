//! Asking: the one way in which a hub learns what it cannot know itself, and in which a handler decides later. A question that
//! goes outside is an [`Ask`]; the answer comes through the mailbox. A client that depends on an answer waits without holding up
//! the turn. Questions are bounded in number, in bytes and in time: one that is answered late, or never, is answered `unavailable`.
use crate::access::claims::{Claims, Denied, Refused};
use crate::books::limits::TOKEN_BYTES_MAX;
use crate::books::metrics::Limit;
use crate::hub::Hub;
use crate::parts::Parts;
use crate::seam::context::Context;
use crate::seam::effect::{Effect, Told};
use crate::seam::gate::Join;
use crate::seam::handler::{ConnectRequest, Refusal};
use crate::seam::inside::Inside;
use crate::tables::slab::Slab;
use crate::tables::slot::{AskId, AskKey, SessionId, SessionKey, SocketKey};
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::time::Duration;

/// What is asked outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Is this token good, and whose is it? Answered by [`Reply::Verified`].
    Verify { token: Token },
    /// Something that only the handler understands. Answered by [`Reply::Answered`].
    Handler { question: Box<[u8]> },
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// About a token.
    Verified(Result<Claims, Refused>),
    /// About a handler's question; `None` = nobody could answer.
    Answered(Option<Box<[u8]>>),
}

/// A token within the text that it came in: a CONNECT payload that waits for the verdict is kept once, not twice.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    text: Arc<str>,
    at: Range<usize>,
}

impl Token {
    /// `shown` is a part of `text`, unless it had to be unescaped.
    pub(crate) fn within(text: &Arc<str>, shown: &str) -> Self {
        let start = shown.as_ptr().addr().wrapping_sub(text.as_ptr().addr());
        let at = start..start.wrapping_add(shown.len());
        match text.get(at.clone()) {
            Some(found) if found == shown => Self {
                text: Arc::clone(text),
                at,
            },
            _ => Self::from(Arc::from(shown)),
        }
    }
}

impl From<Arc<str>> for Token {
    fn from(text: Arc<str>) -> Self {
        let at = 0..text.len();
        Self { text, at }
    }
}

impl Deref for Token {
    type Target = str;

    fn deref(&self) -> &str {
        self.text.get(self.at.clone()).unwrap_or_default()
    }
}

/// A token is a secret: logs see its length.
impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Token({} bytes)", self.len())
    }
}

/// The right to decide about one client, once, by [`Context::decide`].
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Ticket(AskKey);

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

impl Parts {
    /// Opens a question that is answered within `timeout`. `None`: too many are open, or they keep too much.
    fn open_question(
        &mut self,
        session: Option<SessionId>,
        asked: Asked,
        bytes: usize,
        timeout: Duration,
    ) -> Option<AskKey> {
        if self.asks.open.len() >= self.books.config.limits.asks_outstanding_max {
            self.books.counts.hit(Limit::AsksOutstanding);
            return None;
        }
        if self.asks.bytes + bytes > self.books.config.limits.ask_bytes_max {
            self.books.counts.hit(Limit::AskBytes);
            return None;
        }
        self.asks.bytes += bytes;
        let key = self.asks.open.insert(Pending {
            session: session.map(|session| self.people.sessions.key(session)),
            asked,
            waiting: Waiting::Nobody,
            bytes,
            asked_ms: self.clock.now.mono_ms,
        });
        self.books.counts.asks_outstanding += 1;
        let due = self.after(timeout);
        let settled = |key| self.asks.open.live(key).is_none();
        self.clock.timers.asks.forget((), settled);
        self.clock.timers.asks.arm((), due, key);
        Some(key)
    }

    /// Lets somebody wait for an answer.
    pub(crate) fn wait_for(&mut self, key: AskKey, waiting: Waiting) {
        let Some(pending) = self.asks.open.live_mut(key) else {
            return;
        };
        if matches!(waiting, Waiting::Join(_))
            && let Some(session) = pending.session
            && let Some(slot) = self.people.sessions.live_mut(session)
        {
            slot.gates.open(key.id());
        }
        pending.waiting = waiting;
    }

    /// Takes a question off the table, unless that was done already, and opens its gate.
    pub(crate) fn close_question(&mut self, key: AskKey) -> Option<Pending> {
        self.asks.open.live(key)?;
        let pending = self.asks.open.remove(key.id())?;
        self.asks.bytes -= pending.bytes;
        self.books.counts.asks_outstanding -= 1;
        if let Some(session) = pending.session
            && let Some(slot) = self.people.sessions.live_mut(session)
        {
            slot.gates.close(key.id());
        }
        Some(pending)
    }

    /// The same for one that was answered, or whose time is up.
    fn settle_question(&mut self, key: AskKey) -> Option<Pending> {
        let pending = self.close_question(key)?;
        if pending.asked == Asked::Verifier {
            let took_ms = self.clock.now.mono_ms - pending.asked_ms;
            self.books.counts.asks_answered += 1;
            self.books.counts.ask_ms += took_ms;
            self.access.admission.answered(took_ms);
        }
        Some(pending)
    }

    /// Nobody waits for this answer any more.
    pub(crate) fn forget_question(&mut self, ask: AskId) {
        self.close_question(self.asks.open.key(ask));
    }

    /// Nobody waits for answers about a session that is gone.
    pub(crate) fn forget_questions(&mut self, session: SessionId) {
        let slot = self.people.sessions.get(session);
        let open = slot.map(|slot| slot.gates.clone()).unwrap_or_default();
        for ask in open.iter() {
            self.forget_question(ask);
        }
    }

    /// Asks whether a token is good, unless it is too long for one or nobody can be asked now.
    pub(crate) fn ask_about(
        &mut self,
        session: SessionId,
        token: Token,
        waiting: Waiting,
    ) -> Result<(), Denied> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(Denied::Invalid);
        }
        // The text that a token stands in is kept with it.
        let bytes = token.text.len();
        let timeout = self.books.config.auth.timeout;
        let key = self
            .open_question(Some(session), Asked::Verifier, bytes, timeout)
            .ok_or(Denied::Unavailable)?;
        self.wait_for(key, waiting);
        let ask = Ask::Verify { token };
        self.outbound.effects.push(Effect::Ask { key, ask });
        Ok(())
    }

    /// The ticket that the handler took in the call of `connecting` that just ended.
    pub(crate) fn take_ticket(&mut self) -> Option<AskKey> {
        self.asks.ticket.take()
    }
}

impl Context<'_> {
    /// Takes a ticket for a client that is to be decided about later: return [`Decision::Later`](crate::Decision::Later), and
    /// call [`decide`](Self::decide) within the time. Meanwhile what the client sends to that namespace waits; its other
    /// namespaces do not, and no other client does. When the time is up the client is refused. `None`: too many decisions are
    /// open, so refuse it with [`Refusal::unavailable`].
    pub fn postpone(&mut self, request: &ConnectRequest<'_>, timeout: Duration) -> Option<Ticket> {
        let _inside = Inside::enter();
        debug_assert!(self.parts.asks.ticket.is_none(), "one ticket for a request");
        let bytes = request.namespace.len() + request.auth.len();
        let session = Some(request.session);
        let key = self
            .parts
            .open_question(session, Asked::Handler, bytes, timeout)?;
        self.parts.asks.ticket = Some(key);
        Some(Ticket(key))
    }

    /// Lets a client in, or refuses it. It happens when the call of the handler that runs has ended. `false`: the client gave
    /// up, or its time was up.
    pub fn decide(&mut self, ticket: Ticket, decision: Result<(), Refusal>) -> bool {
        let _inside = Inside::enter();
        let Ticket(key) = ticket;
        if self.parts.asks.open.live(key).is_none() {
            return false;
        }
        let decided = &mut self.parts.outbound.decided;
        decided.push_back((key, decision));
        true
    }

    /// Asks outside the shard: the process that runs the hub answers, and `Handler::answered` follows with the answer, or with
    /// `None` when the time is up. `token` is the handler's own. `false`: too many questions are open.
    pub fn ask_outside(&mut self, question: Box<[u8]>, timeout: Duration, token: u64) -> bool {
        let _inside = Inside::enter();
        let asked = Asked::Outside { token };
        let bytes = question.len();
        let Some(key) = self.parts.open_question(None, asked, bytes, timeout) else {
            return false;
        };
        let ask = Ask::Handler { question };
        self.parts.outbound.effects.push(Effect::Ask { key, ask });
        true
    }
}

impl Hub {
    /// The answer to an `Effect::Ask`.
    pub(crate) fn answered(&mut self, key: AskKey, reply: Reply) {
        if let Some(pending) = self.parts.settle_question(key) {
            self.on_answer(pending, reply);
        }
        self.settle();
    }

    /// Nobody answered in time.
    pub(crate) fn ask_due(&mut self, key: AskKey) {
        let Some(pending) = self.parts.settle_question(key) else {
            return;
        };
        self.parts.books.counts.hit(Limit::AskTimeout);
        if pending.asked == Asked::Handler {
            self.on_decision(pending, Err(Refusal::unavailable()));
        } else {
            self.on_answer(pending, Reply::Answered(None));
        }
    }

    fn on_answer(&mut self, pending: Pending, reply: Reply) {
        match (pending.asked, reply) {
            (Asked::Verifier, Reply::Verified(verdict)) => self.on_verdict(pending, verdict),
            (Asked::Verifier, Reply::Answered(_)) => {
                self.on_verdict(pending, Err(Denied::Unavailable.into()));
            }
            (Asked::Outside { token }, reply) => {
                let answer = match reply {
                    Reply::Answered(answer) => answer,
                    Reply::Verified(_) => None,
                };
                self.parts
                    .outbound
                    .told
                    .push_back(Told::Answered { token, answer });
            }
            // A ticket is not answered from outside.
            (Asked::Handler, _) => self.on_decision(pending, Err(Refusal::unavailable())),
        }
    }

    /// Carries out what the handler decided.
    pub(crate) fn decided(&mut self, key: AskKey, decision: Result<(), Refusal>) {
        if let Some(pending) = self.parts.settle_question(key) {
            self.on_decision(pending, decision);
        }
    }

    fn on_decision(&mut self, pending: Pending, decision: Result<(), Refusal>) {
        let Some(session) = pending.session.map(SessionKey::id) else {
            return;
        };
        let live = pending
            .session
            .and_then(|key| self.parts.people.sessions.live(key));
        if live.is_none() || !self.parts.is_open(session) {
            return;
        }
        match pending.waiting {
            Waiting::Join(join) => self.on_joining_decided(session, *join, decision),
            Waiting::Begin(claims) => self.on_beginning_decided(session, claims, decision),
            Waiting::Refresh { .. } | Waiting::Nobody => {}
        }
    }
}
