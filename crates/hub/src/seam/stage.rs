//! The parts of a hub and the handler that is called with them. Only what holds a `Stage` can call the handler.

use crate::books::close::CloseReason;
use crate::cluster::letter::Broadcast;
use crate::life::ending;
use crate::parts::Parts;
use crate::seam::context::Context;
use crate::seam::effect::Notice;
use crate::seam::event::{ServerAck, ServerEvent};
use crate::seam::handler::Handler;
use crate::seam::inside::Inside;
use crate::seam::told::Told;
use crate::tables::slot::SessionId;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// What the steps of a message work on.
pub(crate) struct Stage {
    pub(crate) parts: Parts,
    handler: Box<dyn Handler>,
    /// Whether the handler sees requests and may add to their answers.
    pub(crate) reads_requests: bool,
}

impl Stage {
    pub(crate) fn new(mut parts: Parts, handler: Box<dyn Handler>) -> Self {
        parts.rooms.elsewhere.want(handler.counts_nodes());
        parts.outbound.watch_rooms(handler.watches_rooms());
        Self {
            parts,
            reads_requests: handler.reads_requests(),
            handler,
        }
    }

    /// The handler, to be asked and not to be told anything.
    pub(crate) fn handler(&self) -> &dyn Handler {
        &*self.handler
    }

    /// Calls the handler; if it panics, the session it was called for ends and the rest go on.
    #[inline]
    pub(crate) fn call<R>(
        &mut self,
        session: impl Into<Option<SessionId>>,
        f: impl FnOnce(&mut dyn Handler, &mut Context<'_>) -> R,
    ) -> Option<R> {
        // What happened before is told before.
        if self.parts.outbound.has_news() {
            self.tell();
        }
        self.call_now(session, f)
    }

    #[inline]
    pub(crate) fn call_now<R>(
        &mut self,
        session: impl Into<Option<SessionId>>,
        f: impl FnOnce(&mut dyn Handler, &mut Context<'_>) -> R,
    ) -> Option<R> {
        let (parts, handler) = (&mut self.parts, &mut *self.handler);
        match catch_unwind(AssertUnwindSafe(|| f(handler, &mut Context { parts }))) {
            Ok(result) => Some(result),
            // The hub's own code panicked: its tables may be torn.
            Err(panic) if Inside::broke() => resume_unwind(panic),
            Err(_) => {
                self.handler_failed(session.into());
                None
            }
        }
    }

    #[cold]
    fn handler_failed(&mut self, session: Option<SessionId>) {
        self.parts.books.counts.handler_panics += 1;
        if let Some(session) = session
            && let Some(slot) = self.parts.people.sessions.get(session)
        {
            let peer = slot.client.peer();
            self.parts.outbound.log(Notice::HandlerPanic { peer });
            ending::close_session(&mut self.parts, session, CloseReason::InternalError);
        }
    }

    pub(crate) fn tell(&mut self) {
        while let Some(told) = self.parts.outbound.next_news() {
            match told {
                Told::Disconnected {
                    socket,
                    reason,
                    may_return,
                } => {
                    self.call_now(None, |handler, cx| {
                        handler.disconnecting(cx, socket, reason)
                    });
                    let Parts {
                        rooms,
                        people,
                        clock,
                        ..
                    } = &mut self.parts;
                    // `disconnecting` still sees rooms and user, `disconnected` does not (Socket.IO).
                    let lost_ms = may_return.then_some(clock.now.mono_ms);
                    ending::part_socket(rooms, people, socket.id(), lost_ms);
                    self.call_now(None, |handler, cx| handler.disconnected(cx, socket, reason));
                    self.parts.people.free_socket(socket.id());
                }
                Told::GaveUp { socket, reason } => {
                    self.call_now(None, |handler, cx| handler.gave_up(cx, socket, reason));
                }
                Told::Moved {
                    socket,
                    room,
                    joined,
                    by,
                } => {
                    self.call_now(None, |handler, cx| {
                        handler.moved(cx, socket, &room, joined, by);
                    });
                }
                Told::Upgraded { socket, transport } => {
                    self.call_now(None, |handler, cx| handler.upgraded(cx, socket, transport));
                }
                Told::Answered { token, answer } => {
                    self.call_now(None, |handler, cx| {
                        handler.answered(cx, token, answer.as_deref());
                    });
                }
                Told::AckTimedOut { socket, token } => {
                    self.call_now(None, |handler, cx| handler.ack_timed_out(cx, socket, token));
                }
                Told::Collected { token, collected } => {
                    self.call_now(None, |handler, cx| handler.collected(cx, token, collected));
                }
                Told::Server { what, ack } => self.tell_of_server(&what, ack),
                Told::Found { token, found, .. } => {
                    self.call_now(None, |handler, cx| handler.found(cx, token, found));
                }
            }
        }
    }

    fn tell_of_server(&mut self, what: &Broadcast, ack: Option<ServerAck>) {
        let event = what.event();
        what.to.with(|to| {
            let event = ServerEvent {
                namespace: to.namespace,
                name: event.name,
                args: event.args,
                attachments: event.attachments,
                ack,
            };
            self.call_now(None, |handler, cx| handler.server_event(cx, event));
        });
    }
}
