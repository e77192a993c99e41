//! Who sends too much, and who comes too often: the rates that hold for all messages, and the bounds per address.

use crate::access::addresses::holder;
use crate::access::gcra::{Exceeded, Gcra, Sender};
use crate::books::close::CloseReason;
use crate::books::limits::{CROWD_SLACK, IGNORED_BYTES_MAX};
use crate::books::metrics::{Dropped, Limit, Scope};
use crate::hub::Hub;
use crate::parts::Parts;
use crate::seam::context::{About, Context, Rejection};
use crate::seam::handler::{AckTo, Refusal};
use crate::tables::slot::{ConnId, SessionId, SocketId, SocketKey};
use std::net::IpAddr;
use wire::http::Head;
use wire::websocket::{close, handshake};

impl Hub {
    /// Books a message of a session. Over a rate it is to be dropped, and its sender told, also in the answer it waits for:
    /// `false`. HOT PATH.
    #[inline]
    pub(crate) fn within_rates(
        &mut self,
        session: SessionId,
        socket: Option<SocketKey>,
        asked: Option<u64>,
    ) -> bool {
        if !self.parts.access.meters.any {
            return true;
        }
        match self.book_message(session, socket) {
            Ok(()) => true,
            Err(refused) => self.over_rate(session, socket, asked, refused),
        }
    }

    /// Books a CONNECT. Over a rate its sender is told so in the answer it waits for, and forgiven what it sends to that namespace
    /// without having waited: `false`.
    pub(crate) fn connect_within_rates(&mut self, session: SessionId, namespace: &str) -> bool {
        if !self.parts.access.meters.any {
            return true;
        }
        let Err(refused) = self.book_message(session, None) else {
            return true;
        };
        let meters = &self.parts.access.meters;
        let meter = meters.of(refused.0).filter(|_| !meters.dry_run);
        if let Some(message) = meter.map(|meter| meter.message.to_string()) {
            if let Some(slot) = self.parts.people.sessions.get_mut(session) {
                slot.rare.get_or_insert_default().part(namespace);
            }
            let refusal = Refusal {
                message,
                data: None,
            };
            self.send_refusal(session, namespace, &refusal);
        }
        self.over_rate(session, None, None, refused)
    }

    /// The first of the rates that has nothing left for this message, which then costs none of them anything.
    #[inline]
    fn book_message(
        &mut self,
        session: SessionId,
        socket: Option<SocketKey>,
    ) -> Result<(), (Scope, Exceeded)> {
        let parts = &mut self.parts;
        let now_us = parts.now_us();
        parts.intake.set_forgiven(false);
        let Some(slot) = parts.people.sessions.get_mut(session) else {
            return Ok(());
        };
        let before_us = slot.rate;
        if let Some(meter) = &parts.access.meters.session {
            let booked = meter.gcra.check(&mut slot.rate, now_us);
            booked.map_err(|exceeded| (Scope::Session, exceeded))?;
        }
        if slot.granted == 0 && parts.access.meters.are_shared() {
            let booked = parts.book(session, socket);
            let Some(slot) = parts.people.sessions.get_mut(session) else {
                return Ok(());
            };
            if booked.is_err() {
                slot.rate = before_us;
                return booked;
            }
            parts.intake.set_forgiven(slot.forgive());
            return Ok(());
        }
        slot.unbooked += u8::from(slot.granted > 0);
        slot.granted = slot.granted.saturating_sub(1);
        parts.intake.set_forgiven(slot.forgive());
        Ok(())
    }

    /// `true` in a dry run: the message passes all the same.
    #[cold]
    fn over_rate(
        &mut self,
        session: SessionId,
        socket: Option<SocketKey>,
        asked: Option<u64>,
        (scope, exceeded): (Scope, Exceeded),
    ) -> bool {
        let meter = self.parts.access.meters.of(scope).cloned();
        let (Some(meter), Some(socket)) = (meter, socket) else {
            self.parts.books.counts.rated[scope as usize] += 1;
            if !self.parts.access.meters.dry_run {
                self.parts.books.counts.hit(Limit::Rate);
                self.parts.books.counts.drop_message(Dropped::Rate);
                self.parts.count_rejection(session);
            }
            return self.parts.access.meters.dry_run;
        };
        Context {
            parts: &mut self.parts,
        }
        .over_rate(
            socket,
            &mut asked.map(|id| AckTo { socket, id }),
            scope,
            &meter.message,
            exceeded,
        )
    }

    // ---- after the end -------------------------------------------------------------------------------------------------------

    /// Bytes behind the end. What was on its way when the peer was told is no offence. Who goes on is a flood: it is not read any
    /// more, which costs nothing, and not cut before its time, for then it would be back at once.
    pub(crate) fn ignore(&mut self, conn: ConnId, len: usize) {
        let Some(slot) = self.parts.line.conns.get_mut(conn) else {
            return;
        };
        let before = slot.ignored;
        slot.ignored = before.saturating_add(len as u32);
        if before <= IGNORED_BYTES_MAX && slot.ignored > IGNORED_BYTES_MAX {
            self.parts.books.counts.hit(Limit::Ignored);
        }
    }

    /// Nothing that this connection still sends matters: leave it in the kernel.
    pub fn is_ignored(&self, conn: ConnId) -> bool {
        let slot = self.parts.line.conns.get(conn);
        slot.is_some_and(|slot| slot.ignored > IGNORED_BYTES_MAX)
    }

    // ---- addresses --------------------------------------------------------------------------------------------------------

    /// Counts a newcomer with the address it comes from, which may have too many.
    pub(crate) fn enter_address(&mut self, conn: ConnId, peer: IpAddr) {
        let max = self.parts.books.config.limits.conns_per_address_max;
        let count = self.parts.count_address(conn, peer);
        if let Some(slot) = self.parts.line.conns.get_mut(conn) {
            slot.flags.beyond = match slot.flags.beyond {
                None if count > max => Some(Limit::ConnsPerAddress),
                Some(Limit::ConnsPerAddress) if count <= max => None,
                beyond => beyond,
            };
        }
        if count > max.saturating_mul(2).saturating_add(CROWD_SLACK) {
            self.parts.books.counts.hit(Limit::ConnsPerAddress);
            self.parts.count_close(CloseReason::TooManyConnections);
            self.parts.drop_conn(conn);
        }
    }

    /// Turns a newcomer away that came beyond a bound.
    pub(crate) fn refuse_beyond(&mut self, conn: ConnId, head: &Head<'_>, bound: Limit) {
        if bound == Limit::ConnsPerAddress {
            return self.refuse_crowded(conn, head);
        }
        self.parts.books.counts.hit(bound);
        self.refuse_unavailable(conn, b"Server is full");
    }

    /// Turns a connection away whose address has too many: WebSockets by 1008, as their clients see why only then.
    fn refuse_crowded(&mut self, conn: ConnId, head: &Head<'_>) {
        let reason = CloseReason::TooManyConnections;
        self.parts.books.counts.hit(Limit::ConnsPerAddress);
        self.parts.books.counts.shed += 1;
        self.parts.count_close(reason);
        if let Some(slot) = self.parts.line.conns.get_mut(conn) {
            slot.flags.keep_alive = false;
        }
        if handshake::wants_upgrade(head)
            && let Ok(accept) = handshake::accept(head)
        {
            let (subprotocol, extra) =
                (handshake::first_subprotocol(head), self.cors_headers(head));
            self.accept_websocket(conn, head, &accept, subprotocol, extra);
            self.parts.reply(conn, |out| {
                close::write(out, reason.close_code(), reason.text());
            });
            return self.parts.finish_conn(conn);
        }
        self.respond_retry(conn, 429, 1, reason.text().as_bytes());
    }

    /// A new session from the connection's address; `false` = there were too many of late, and it was told so.
    pub(crate) fn admit_connect(&mut self, conn: ConnId) -> bool {
        let now_us = self.parts.now_us();
        let Some(slot) = self.parts.line.conns.get(conn) else {
            return false;
        };
        let meters = &self.parts.access.meters;
        let Err(exceeded) = meters.connect(holder(slot.peer), now_us) else {
            return true;
        };
        self.parts.books.counts.rated[Scope::Connects as usize] += 1;
        if self.parts.access.meters.dry_run {
            return true;
        }
        self.parts.books.counts.hit(Limit::Rate);
        self.parts.books.counts.shed += 1;
        self.respond_retry(
            conn,
            429,
            exceeded.retry_after_s(),
            b"Too many connections, try again later",
        );
        false
    }
}

impl Parts {
    /// Counts a connection with an address; how many that makes, or 0 if nobody counts them.
    pub(crate) fn count_address(&mut self, conn: ConnId, peer: IpAddr) -> u32 {
        let max = self.books.config.limits.conns_per_address_max;
        let Some(slot) = self.line.conns.get_mut(conn) else {
            return 0;
        };
        if slot.flags.counted {
            self.access.addresses.leave(slot.peer);
        }
        slot.peer = peer;
        // A proxy is many clients: each of its connections counts for one of them as soon as that one is known.
        slot.flags.counted = max > 0 && !self.books.config.proxies.trusts(peer);
        match slot.flags.counted {
            true => self.access.addresses.enter(peer),
            false => 0,
        }
    }

    /// Books an event with a limiter of the socket's session.
    pub(crate) fn spend(
        &mut self,
        socket: SocketKey,
        number: u32,
        gcra: Gcra,
    ) -> Result<(), Exceeded> {
        let now_us = self.now_us();
        let session = self.socket(socket).map(|slot| slot.session);
        let slot = session.and_then(|session| self.people.sessions.get_mut(session));
        slot.map_or(Ok(()), |slot| {
            let rare = slot.rare.get_or_insert_default();
            gcra.check(rare.rate(number), now_us)
        })
    }

    /// The time as limiters count it.
    pub(crate) fn now_us(&self) -> u64 {
        self.clock.now.mono_ms * 1000 + 1
    }

    /// Books a message of a session with its user and address, or says which of them has nothing left.
    fn book(
        &mut self,
        session: SessionId,
        socket: Option<SocketKey>,
    ) -> Result<(), (Scope, Exceeded)> {
        let now_us = self.now_us();
        let Some(slot) = self.people.sessions.get_mut(session) else {
            return Ok(());
        };
        let owed = std::mem::take(&mut slot.unbooked);
        let address = holder(slot.peer);
        let user = self.user_to_charge(session, socket.map(|socket| socket.id()));
        let sender = Sender { user, address };
        let granted = self.access.meters.book(sender, now_us, owed)?;
        if let Some(slot) = self.people.sessions.get_mut(session) {
            slot.granted = granted;
        }
        Ok(())
    }

    /// Books what a session still owes, before it ends or one of its sockets is nobody's or another's. From then on it is
    /// granted nothing.
    pub(crate) fn book_rest(&mut self, session: SessionId, socket: Option<SocketId>) {
        let Some(slot) = self.people.sessions.get_mut(session) else {
            return;
        };
        slot.granted = 0;
        let owed = std::mem::take(&mut slot.unbooked);
        if owed == 0 {
            return;
        }
        let address = holder(slot.peer);
        let user = self.user_to_charge(session, socket);
        self.access
            .meters
            .owe(Sender { user, address }, self.now_us(), owed);
    }

    /// The socket's user, else the one whom the session's other sockets belong to: it answers for the whole session.
    fn user_to_charge(&self, session: SessionId, socket: Option<SocketId>) -> Option<&str> {
        self.access.meters.user.as_ref()?;
        let own = socket.and_then(|socket| self.user_of(socket));
        own.or_else(|| {
            let sockets = &self.people.sessions.get(session)?.sockets;
            sockets.iter().find_map(|socket| self.user_of(*socket))
        })
    }

    /// Books a rejected message; a session that goes on and on is closed.
    fn count_rejection(&mut self, session: SessionId) {
        let max = self.books.config.limits.flood_rejections_max;
        self.line.budget.reject();
        let Some(slot) = self.people.sessions.get_mut(session) else {
            return;
        };
        // A message within the session's rate and over its event's rate makes up for nothing.
        let more = 1 + u16::from(self.intake.take_forgiven());
        slot.rejections = slot.rejections.saturating_add(more);
        if slot.rejections <= max {
            return;
        }
        let conn = slot.conn;
        self.books.counts.hit(Limit::Flood);
        self.close_session(session, CloseReason::Flood);
        // What still comes is no accident.
        if let Some(slot) = self.line.conns.get_mut(conn) {
            slot.ignored = IGNORED_BYTES_MAX;
        }
    }
}

impl Context<'_> {
    /// An event was within its own rate: that makes up for one that was not, unless the message did already.
    pub(crate) fn within_rate(&mut self, socket: SocketKey) {
        if !self.parts.access.meters.any
            && let Some(session) = self.parts.socket(socket).map(|slot| slot.session)
            && let Some(slot) = self.parts.people.sessions.get_mut(session)
        {
            slot.forgive();
        }
    }

    /// A socket's event is over a rate: it is told, unless in a dry run (`true`).
    pub(crate) fn over_rate(
        &mut self,
        socket: SocketKey,
        ack: &mut Option<AckTo>,
        scope: Scope,
        message: &str,
        exceeded: Exceeded,
    ) -> bool {
        self.parts.books.counts.rated[scope as usize] += 1;
        if self.parts.access.meters.dry_run {
            return true;
        }
        let rejection = Rejection::RateLimited {
            message,
            retry_after_s: exceeded.retry_after_s(),
        };
        let about = About {
            id: ack.as_ref().map(|ack| ack.id),
            field: None,
        };
        self.reject_message(socket, rejection, about);
        if let Some(ack) = ack.take() {
            self.ack_error(ack, message);
        }
        if let Some(session) = self.parts.socket(socket).map(|slot| slot.session) {
            self.parts.count_rejection(session);
        }
        false
    }
}
