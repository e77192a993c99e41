//! Decisions that a handler takes later, and questions that it asks outside.

use crate::clients::conn::State;
use crate::parts::Parts;
use crate::seam::ask::Ask;
use crate::seam::context::Context;
use crate::seam::event::{ConnectRequest, Refusal};
use crate::seam::inside::Inside;
use crate::seam::member::Member;
use crate::seam::opening::{Opening, OpeningKey};
use crate::seam::question;
use crate::seam::questions::Asked;
use crate::tables::slot::{AskKey, SessionId};
use std::time::Duration;

/// The right to decide about one client, once, by [`Context::decide`].
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Ticket(AskKey);

impl Context<'_> {
    /// Takes a ticket for a client that is to be decided about later: return [`Decision::Later`](crate::Decision::Later), and
    /// call [`decide`](Self::decide) within the time. Meanwhile what the client sends to that namespace waits; its other
    /// namespaces do not, and no other client does. When the time is up the client is refused. `None`: too many decisions are
    /// open, so refuse it with [`Refusal::unavailable`].
    pub fn postpone(&mut self, request: &ConnectRequest<'_>, timeout: Duration) -> Option<Ticket> {
        let _inside = Inside::enter();
        debug_assert!(
            !self.parts.outbound.asks.has_ticket(),
            "one ticket for a request"
        );
        let bytes = request.namespace.len() + request.auth.len();
        let session = Some(request.session);
        let key = question::open_question(self.parts, session, Asked::Handler, bytes, timeout)?;
        self.parts.outbound.asks.hold_ticket(key);
        Some(Ticket(key))
    }

    /// Lets a client in, or refuses it. It happens when the call of the handler that runs has ended. `false`: the client gave
    /// up, or its time was up.
    pub fn decide(&mut self, ticket: Ticket, decision: Result<(), Refusal>) -> bool {
        let _inside = Inside::enter();
        let Ticket(key) = ticket;
        self.parts.outbound.decide(key, decision)
    }

    /// Asks outside the shard: the process that runs the hub answers, and `Handler::answered` follows with the answer, or with
    /// `None` when the time is up. `token` is the handler's own. `false`: too many questions are open.
    pub fn ask_outside(&mut self, question: Box<[u8]>, timeout: Duration, token: u64) -> bool {
        let _inside = Inside::enter();
        ask_outside(self.parts, None, question, timeout, token)
    }

    /// Decides about a request that is held; `false` = nobody waits for it any more.
    pub fn decide_opening(&mut self, key: OpeningKey, decision: Opening) -> bool {
        let _inside = Inside::enter();
        let conn = key.conn().id();
        let slot = self.parts.line.conns.live_mut(key.conn());
        let Some(slot) = slot.filter(|slot| slot.state == State::Held) else {
            return false;
        };
        if decision == Opening::Later {
            return true;
        }
        // The request still stands in the input: it is read again, and finds the decision.
        slot.state = State::Head;
        self.parts.line.intake.go_on(conn, slot);
        self.parts.access.held.decide(conn, decision);
        true
    }
}

impl Member<'_> {
    /// The same as [`Context::ask_outside`], for this client: while it waits, it goes to no other process.
    pub fn ask_outside(&mut self, question: Box<[u8]>, timeout: Duration, token: u64) -> bool {
        let _inside = Inside::enter();
        let session = self.live().map(|slot| slot.session);
        session
            .is_some_and(|session| ask_outside(self.parts, Some(session), question, timeout, token))
    }
}

fn ask_outside(
    parts: &mut Parts,
    session: Option<SessionId>,
    question: Box<[u8]>,
    timeout: Duration,
    token: u64,
) -> bool {
    let asked = Asked::Outside { token };
    let bytes = question.len();
    let Some(key) = question::open_question(parts, session, asked, bytes, timeout) else {
        return false;
    };
    parts.outbound.ask(key, Ask::Handler { question });
    true
}
