//! The sessions that go over to a process that takes over, and how; the sessions that stay, and why.

use crate::clients::conn::{Conn, State};
use crate::clients::line::Line;
use crate::clients::session::{Polling, Session};
use crate::tables::slot::ConnId;
use handoff::bounds::RECORD_BYTES_MAX;
use handoff::takes;

/// Why a session is not handed over. Its client is told to come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stays {
    /// It polls, and a request of it is half there in chunks, or an answer to it half out.
    Polling,
    /// It is an event stream, and the next process is of an earlier build, which takes none.
    EventStream,
    /// It is on its way up from long-polling, and the next process is of an earlier build.
    Upgrading,
    /// The keys of its TLS connection cannot be taken along.
    Tls,
    /// Its stream of QUIC lives in this process.
    WebTransport,
    /// Its messages refer to earlier ones.
    CompressionWindow,
    /// Somebody is being asked about it.
    Question,
    /// A message is half there, in fragments.
    Fragments,
    /// Other nodes do not know yet of a room that it joined.
    Joining,
    /// It is about to end, or waits for the history of a room.
    Passing,
    /// More waits to be read or written than a record may have.
    TooLarge,
}

impl Stays {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Polling,
        Self::EventStream,
        Self::Upgrading,
        Self::Tls,
        Self::WebTransport,
        Self::CompressionWindow,
        Self::Question,
        Self::Fragments,
        Self::Joining,
        Self::Passing,
        Self::TooLarge,
    ];

    /// Its name in an operator's words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Polling => "long-polling in the middle of a request",
            Self::EventStream => "event streams, which the successor does not take",
            Self::Upgrading => {
                "on their way up from long-polling, which the successor does not take"
            }
            Self::Tls => "TLS",
            Self::WebTransport => "WebTransport",
            Self::CompressionWindow => "compression with a window of their own",
            Self::Question => "waiting for a decision or a page of history",
            Self::Fragments => "in the middle of a fragmented message",
            Self::Joining => "in a room of which other nodes do not know yet",
            Self::Passing => "opening, closing or waiting for a history",
            Self::TooLarge => "with more output waiting than a record may have",
        }
    }
}

/// How a session goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crossing {
    /// Every build takes it.
    Plainly,
    /// As an event stream.
    Streaming,
    /// On its way up from long-polling, with both of its ways.
    Upgrading,
    /// It polls, and the rest of a POST is still to come.
    Posting,
    /// It polls on: the WebSocket by which it was about to go up is closed.
    WithoutProbe,
}

/// Whether a connection can be taken along as it is.
pub(crate) fn carrier_fit(slot: &Conn, is_secure: bool) -> Result<(), Stays> {
    if is_secure {
        return Err(Stays::Tls);
    }
    if slot.origin.is_carried() {
        return Err(Stays::WebTransport);
    }
    if slot.handshake.keeps_window() {
        return Err(Stays::CompressionWindow);
    }
    match slot.assembler.is_mid_message() {
        true => Err(Stays::Fragments),
        false => Ok(()),
    }
}

/// Bytes of a connection that wait to be read or written.
pub(crate) fn waiting_bytes(slot: &Conn) -> usize {
    slot.outbox.waiting_bytes() + slot.unread.bytes().len()
}

/// The WebSocket by which a session that polls is on its way up. Before its probe was answered it may be closed alone, and its client goes
/// on polling. After that the client polls no more, and would be silent for ever.
pub(crate) fn probe_fit(
    line: &Line,
    session: &Session,
    polling: &Polling,
    takes: u64,
    is_secure: impl Fn(ConnId) -> bool,
) -> Result<(Option<ConnId>, Crossing), Stays> {
    let Some(conn) = polling.probe.map(|probe| probe.conn) else {
        return Ok((None, Crossing::Plainly));
    };
    let slot = line.conns.get(conn).ok_or(Stays::Passing)?;
    let fit = match carrier_fit(slot, is_secure(conn)) {
        // A build of before would count its descriptors wrongly (ADR 81).
        Ok(()) if takes & takes::PROBES == 0 => Err(Stays::Upgrading),
        Ok(()) if slot.state != State::Probe || slot.unread.has_ended() => Err(Stays::Passing),
        Ok(()) if waiting_bytes(slot) > RECORD_BYTES_MAX / 4 => Err(Stays::TooLarge),
        fit => fit,
    };
    match fit {
        Ok(()) => Ok((Some(conn), Crossing::Upgrading)),
        Err(_) if !session.flags.upgrading => Ok((None, Crossing::WithoutProbe)),
        Err(why) => Err(why),
    }
}

/// The POST that goes with a session. A body in chunks cannot go: its decoder is in the middle.
pub(crate) fn post_fit(
    line: &Line,
    polling: &Polling,
    takes: u64,
    is_secure: impl Fn(ConnId) -> bool,
) -> Result<Option<ConnId>, Stays> {
    let Some(conn) = polling.post.conn else {
        return Ok(None);
    };
    let slot = line.conns.get(conn).ok_or(Stays::Polling)?;
    let State::Body { len } = slot.state else {
        return Err(Stays::Polling);
    };
    if takes & takes::POSTS == 0 || slot.unread.has_ended() || slot.origin.is_carried() {
        return Err(Stays::Polling);
    }
    if is_secure(conn) {
        return Err(Stays::Tls);
    }
    let waiting = waiting_bytes(slot) > RECORD_BYTES_MAX / 4;
    match waiting || len as usize > RECORD_BYTES_MAX {
        true => Err(Stays::TooLarge),
        false => Ok(Some(conn)),
    }
}
