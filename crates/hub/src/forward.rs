//! Short ways that callers still take.
#![allow(dead_code, reason = "callers are moving off these one by one")]

use crate::books::close::CloseReason;
use crate::cluster::letter::Target;
use crate::dialect::speech::{Dialect, Framing, Variant, Word};
use crate::output::backlog::{Fate, Losses};
use crate::output::compression::Deflate;
use crate::parts::Parts;
use crate::rooms::membership::{JoinError, is_room_name};
use crate::rooms::outgoing::Outgoing;
use crate::rooms::room::RoomKind;
use crate::tables::slot::{ConnId, NamespaceId, RoomId, SessionId, SocketId, SocketKey};
use crate::tables::socket::Socket;
use crate::tables::timer::{ConnTimer, SessionTimer};
use std::borrow::Cow;
use std::time::Duration;
use wire::base64url::Id20;
use wire::http::{Encoding, Head};
use wire::websocket::deflate::InflateError;
use wire::websocket::extension::Agreed;

impl Parts {
    pub(crate) fn queue_overflows(&self, session: SessionId) -> bool {
        self.people.queue_overflows(session)
    }

    pub(crate) fn find_session(&self, sid: &Id20) -> Option<SessionId> {
        self.people.find_session(sid)
    }

    pub(crate) fn is_open(&self, session: SessionId) -> bool {
        self.people.is_open(session)
    }

    pub(crate) fn socket(&self, key: SocketKey) -> Option<&Socket> {
        self.people.socket(key)
    }

    pub(crate) fn socket_key(&self, index: SocketId) -> SocketKey {
        self.people.socket_key(index)
    }

    pub(crate) fn socket_in(&self, session: SessionId, namespace: &str) -> Option<SocketId> {
        self.people.socket_in(session, namespace)
    }

    pub(crate) fn find_namespace(&self, name: &str) -> Option<NamespaceId> {
        self.people.find_namespace(name)
    }

    pub(crate) fn namespace(&mut self, name: &str) -> NamespaceId {
        self.people.namespace(name)
    }

    pub(crate) fn user_of(&self, socket: SocketId) -> Option<&str> {
        self.people.user_of(socket)
    }

    pub(crate) fn outbox_bytes_max(&self) -> (usize, bool) {
        self.line.outbox_bytes_max(&self.books.config.limits)
    }

    pub(crate) fn count_losses(&mut self, dropped: &Losses) {
        self.books.counts.lose(dropped);
    }

    pub(crate) fn turn_is_full(&self) -> bool {
        self.line.is_full(&self.books.config.limits)
    }

    pub(crate) fn release_held(&mut self) {
        self.intake.release(&self.books.config.limits);
    }

    pub(crate) fn after(&self, delay: Duration) -> u64 {
        self.clock.after(delay)
    }

    pub(crate) fn arm_session(&mut self, kind: SessionTimer, delay: Duration, session: SessionId) {
        self.clock.arm_session(&self.people, kind, delay, session);
    }

    pub(crate) fn arm_conn(&mut self, kind: ConnTimer, delay: Duration, conn: ConnId) {
        self.line.arm(&mut self.clock, kind, delay, conn);
    }

    pub(crate) fn reply(
        &mut self,
        conn: impl Into<Option<ConnId>>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        self.line.reply(conn, write);
    }

    pub(crate) fn finish_conn(&mut self, conn: ConnId) {
        self.line
            .finish(&mut self.clock, &self.books.config.limits, conn);
    }

    pub(crate) fn count_close(&mut self, reason: CloseReason) {
        self.books.counts.close(reason);
    }

    pub(crate) fn room(&mut self, namespace: NamespaceId, kind: RoomKind, name: &str) -> RoomId {
        self.rooms
            .find_or_make(&mut self.people, namespace, kind, name)
    }

    pub(crate) fn agree_on_deflate(&mut self, conn: ConnId, head: &Head<'_>) -> Option<Agreed> {
        self.line.agree_on_deflate(&mut self.books, conn, head)
    }

    pub(crate) fn deflate_of(&self, conn: Option<ConnId>) -> Deflate {
        self.line.deflate_of(conn)
    }

    pub(crate) fn inflate(
        &mut self,
        conn: ConnId,
        payload: &[u8],
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), InflateError> {
        self.line
            .inflate(&mut self.books, conn, payload, bytes_max, out)
    }

    pub(crate) fn encode_body<'a>(
        &mut self,
        encoding: Option<Encoding>,
        body: &'a [u8],
        extra: &mut Vec<u8>,
    ) -> Cow<'a, [u8]> {
        self.line
            .codecs
            .encode_body(&mut self.books, encoding, body, extra)
    }

    pub(crate) fn reply_message(
        &mut self,
        conn: impl Into<Option<ConnId>>,
        exempt: bool,
        fate: Fate,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        self.line
            .reply_message(&mut self.books, conn, exempt, fate, write);
    }

    pub(crate) fn say(&mut self, session: SessionId, word: &Word<'_>) {
        self.speaker().say(session, word);
    }

    pub(crate) fn say_ack(&mut self, to: SocketKey, id: u64, args: &str, attachments: &[Vec<u8>]) {
        self.speaker().say_ack(to, id, args, attachments);
    }

    pub(crate) fn say_error(&mut self, session: SessionId, error: &wire::plain::Error<'_>) -> bool {
        self.speaker().say_error(session, error)
    }

    pub(crate) fn queue_packets(
        &mut self,
        session: SessionId,
        text: &[u8],
        packets: usize,
        exempt: bool,
    ) {
        self.speaker().queue_packets(session, text, packets, exempt);
    }

    pub(crate) fn send_packet(&mut self, session: SessionId, text: &[u8]) {
        self.speaker().send_packet(session, text);
    }

    pub(crate) fn deliver(&mut self, index: SocketId, out: &mut Outgoing<'_>) -> bool {
        self.speaker().deliver(index, out)
    }

    pub(crate) fn fan_out(&mut self, target: &Target<'_>, out: &mut Outgoing<'_>) {
        self.audience().fan_out(target, out);
    }

    pub(crate) fn prepare(&mut self, target: &Target<'_>, out: &mut Outgoing<'_>) {
        self.audience().prepare(target, out);
    }

    pub(crate) fn select(&mut self, target: &Target<'_>) -> Vec<SocketId> {
        self.rooms.select(&mut self.people, target)
    }

    pub(crate) fn join(
        &mut self,
        index: SocketId,
        _kind: RoomKind,
        name: &str,
    ) -> Result<(), JoinError> {
        self.rooms
            .join(&mut self.people, &mut self.books, index, name)
    }

    pub(crate) fn leave(&mut self, index: SocketId, name: &str) {
        self.rooms.leave(&mut self.people, index, name);
    }

    pub(crate) fn leave_all_rooms(&mut self, index: SocketId) {
        self.rooms.leave_all(&mut self.people, index);
    }

    pub(crate) fn rooms_of(&self, index: SocketId) -> Vec<String> {
        self.rooms.names_of(&self.people, index)
    }

    pub(crate) fn is_room_name(&self, name: &str) -> bool {
        is_room_name(&self.books.config.limits, name)
    }

    pub(crate) fn find_socket(&self, id: &Id20) -> Option<SocketId> {
        self.people.find_socket(id)
    }

    pub(crate) fn leave_user(&mut self, socket: SocketId) {
        self.people.leave_user(socket);
    }

    pub(crate) fn next_of_user(&self, socket: SocketId) -> Option<SocketId> {
        self.people.next_of_user(socket)
    }

    pub(crate) fn forget_deflate(&mut self, conn: ConnId) {
        self.line.forget_deflate(&mut self.books, conn);
    }

    pub(crate) fn route(&self, session: SessionId) -> (Option<ConnId>, Variant) {
        let Some(slot) = self.people.sessions.get(session) else {
            let (dialect, framing) = (Dialect::SocketIo, Framing::Polling);
            return (None, Variant { dialect, framing });
        };
        (slot.conn, Variant::of(slot))
    }
}
