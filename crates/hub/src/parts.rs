//! The parts of a hub, side by side. Nothing here calls a handler.

use crate::access::{Access, rates};
use crate::books::Books;
use crate::books::config::Config;
use crate::books::metrics::{Counts, Limit};
use crate::cluster::away::Away;
use crate::cluster::rounds::Rounds;
use crate::cluster::shared::Process;
use crate::dialect::speaker::Speaker;
use crate::dialect::speech::Variant;
use crate::output::line::Line;
use crate::output::piece::Pool;
use crate::rooms::fanout::Audience;
use crate::rooms::room::Rooms;
use crate::seam::effect::{Effect, Outbound};
use crate::seam::question::Questions;
use crate::tables::clock::Clock;
use crate::tables::id::{Entropy, Identity, Ids};
use crate::tables::intake::Intake;
use crate::tables::interest::Interest;
use crate::tables::people::People;
use crate::tables::polls::Polls;
use crate::tables::session::Session;
use crate::tables::slot::{ConnId, SessionId, SocketId, SocketKey};
use crate::tables::socket::Socket;
use std::net::IpAddr;
use std::sync::Arc;

pub(crate) struct Parts {
    pub(crate) books: Books,
    pub(crate) ids: Ids,
    pub(crate) clock: Clock,
    pub(crate) people: People,
    pub(crate) rooms: Rooms,
    pub(crate) line: Line,
    pub(crate) polls: Polls,
    pub(crate) intake: Intake,
    pub(crate) rounds: Rounds,
    /// The way to other nodes, if there are any.
    pub(crate) away: Option<Box<Away>>,
    pub(crate) asks: Questions,
    pub(crate) access: Access,
    pub(crate) outbound: Outbound,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts")
            .field("me", &self.ids.me)
            .field("conns", &self.line.conns.len())
            .field("sessions", &self.people.sessions.len())
            .field("sockets", &self.people.sockets.len())
            .field("rooms", &self.rooms.len())
            .finish_non_exhaustive()
    }
}

impl Parts {
    pub(crate) fn new(
        config: Arc<Config>,
        me: Identity,
        entropy: Entropy,
        process: &Process,
    ) -> Self {
        let away = process.uplink.as_ref();
        let away = away.map(|uplink| Box::new(Away::new(me, uplink)));
        let mut people = People::default();
        people.interest = Interest::new(away.is_some());
        Self {
            ids: Ids::new(me, entropy),
            clock: Clock::default(),
            people,
            rooms: Rooms::new(me, &process.directory),
            line: Line::new(Pool::new(Arc::clone(&process.waiting))),
            polls: Polls::default(),
            intake: Intake::new(&process.loads),
            rounds: Rounds::new(me),
            away,
            asks: Questions::default(),
            access: Access::new(&config, process),
            outbound: Outbound::default(),
            books: Books {
                config,
                counts: Counts::default(),
            },
        }
    }

    /// Another connection's input is worked on from here.
    pub(crate) fn begin_input(&mut self) {
        self.line.budget.begin_conn();
        self.intake.begin();
    }

    /// A session of this connection had messages rejected of late.
    pub(crate) fn floods(&self, conn: ConnId) -> bool {
        let slot = self.line.conns.get(conn);
        let session = slot.and_then(|slot| self.people.sessions.get(slot.session));
        session.is_some_and(|slot| slot.rejections > 0)
    }

    /// What makes the connection being worked on wait for the next turn.
    pub(crate) fn why_yield(&self, inflated: usize) -> Option<Limit> {
        let limits = &self.books.config.limits;
        if self.line.budget.conn_floods(limits) {
            return Some(Limit::RejectionsPerTurn);
        }
        if self.intake.waits_for_mailbox() {
            return Some(Limit::Mailbox);
        }
        let full = self.line.is_full(limits) || inflated > limits.read_bytes_per_turn;
        full.then_some(Limit::DeliveriesPerTurn)
    }

    /// The answer to a poll arrived, or nobody will ever know.
    pub(crate) fn forget_answer(&mut self, conn: ConnId) {
        if let Some(slot) = self.line.conns.get_mut(conn)
            && std::mem::take(&mut slot.flags.answering)
        {
            self.polls.confirm(conn);
        }
    }

    /// The client goes on as one that has the packets which were written there: how that connection ends is no matter any more.
    pub(crate) fn answer_arrived(&mut self, session: SessionId, conn: ConnId) {
        // The connection may be another's by now, and answer another session.
        let key = self.people.sessions.key(session);
        let same = self.polls.sent_on(conn).map(|sent| sent.session) == Some(key);
        let written = self
            .line
            .conns
            .get(conn)
            .is_some_and(|slot| slot.outbox.is_empty());
        if same && written {
            self.forget_answer(conn);
        }
    }

    /// Drops a connection now.
    pub(crate) fn drop_conn(&mut self, conn: ConnId) {
        self.forget_answer(conn);
        self.access.held.forget(conn);
        if let Some(slot) = self.line.remove(&mut self.clock, conn) {
            if slot.flags.counted {
                self.access.addresses.leave(slot.peer);
            }
            self.forget_proxy(conn);
            self.books.counts.websockets -= u64::from(slot.flags.websocket);
            if slot.flags.inflates {
                self.line.forget_deflate(&mut self.books, conn);
            }
            self.outbound.effects.push(Effect::Close { conn });
        }
    }

    /// Takes a connection out of the hub without closing it (it goes elsewhere with its socket).
    pub(crate) fn release_conn(&mut self, conn: ConnId) {
        self.forget_answer(conn);
        self.forget_proxy(conn);
        if let Some(slot) = self.line.remove(&mut self.clock, conn)
            && slot.flags.counted
        {
            self.access.addresses.leave(slot.peer);
        }
    }

    /// No further request will come on a connection. Returns who made it, if that is not its peer.
    pub(crate) fn forget_proxy(&mut self, conn: ConnId) -> Option<IpAddr> {
        if self.access.via.is_empty() {
            return None;
        }
        self.access.via.remove(&conn)
    }

    pub(crate) fn random<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        (self.ids.entropy)(&mut bytes);
        bytes
    }

    pub(crate) fn insert_session(&mut self, session: Session) -> SessionId {
        self.books.counts.sessions += 1;
        self.access.admission.session_came();
        self.people.insert_session(session)
    }

    pub(crate) fn insert_socket(&mut self, socket: Socket) -> SocketKey {
        self.books.counts.sockets += 1;
        self.people.insert_socket(socket)
    }

    pub(crate) fn set_user(&mut self, socket: SocketId, name: &str) {
        if let Some(session) = self.people.sockets.get(socket).map(|slot| slot.session) {
            rates::book_rest(self, session, Some(socket));
        }
        self.people.set_user(socket, name);
    }

    /// Adjusts what fan-out needs to know when a session's transport changes.
    pub(crate) fn route_sockets(
        &mut self,
        session: SessionId,
        conn: Option<ConnId>,
        variant: Variant,
    ) {
        let deflate = self.line.deflate_of(conn);
        let Some(session) = self.people.sessions.get(session) else {
            return;
        };
        for index in session.sockets.clone() {
            if let Some(socket) = self.people.sockets.get_mut(index) {
                socket.conn = conn;
                socket.variant = variant;
                socket.deflate = deflate;
            }
        }
    }

    // ---- lenses -------------------------------------------------------------------------------------------------------

    #[inline]
    pub(crate) fn speaker(&mut self) -> Speaker<'_> {
        Speaker {
            books: &mut self.books,
            line: &mut self.line,
            people: &mut self.people,
            polls: &mut self.polls,
        }
    }

    #[inline]
    pub(crate) fn audience(&mut self) -> Audience<'_> {
        Audience {
            rooms: &mut self.rooms,
            speaker: Speaker {
                books: &mut self.books,
                line: &mut self.line,
                people: &mut self.people,
                polls: &mut self.polls,
            },
        }
    }
}
