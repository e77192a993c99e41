//! Bytes of a connection: requests or frames, worked on as far as the turn has room, and kept where they are incomplete.

use crate::books::close::CloseReason;
use crate::books::metrics::Limit;
use crate::bounds::RESERVE_TIMEOUT;
use crate::clients::conn::State;
use crate::life::{conns, ending};
use crate::parts::Parts;
use crate::seam::stage::Stage;
use crate::tables::slot::ConnId;
use crate::tables::timer::ConnTimer;
use crate::transport::{http, pace, posts, stash, websocket};
use std::net::IpAddr;
use wire::growth;

/// A connection that another shard read and gave away, or another node relays.
#[derive(Debug)]
pub struct Moved<'a> {
    /// The client's address.
    pub peer: IpAddr,
    /// The bound that it is beyond.
    pub beyond: Option<Limit>,
    /// Another node passes it on.
    pub relayed: bool,
    /// It stands for a stream of WebTransport.
    pub carried: bool,
    /// It is a newcomer: its address has not been counted yet.
    pub new: bool,
    /// It speaks TLS.
    pub secure: bool,
    /// The bytes that were read of it.
    pub read: &'a mut [u8],
    /// The end of the stream came after that.
    pub ended: bool,
}

/// A connection was accepted; returns its slot, which names it until `Effect::Close`, `Move` or `Handover`.
pub(crate) fn open(parts: &mut Parts, peer: IpAddr) -> ConnId {
    parts.books.counts.accepted += 1;
    let conn = parts
        .line
        .open(&mut parts.clock, &parts.books.config.limits, peer);
    conns::enter_address(parts, conn, peer);
    conn
}

/// A connection was accepted beyond the process's bound, from the reserve. Sessions that exist come before newcomers, and
/// health checks are answered on a full node; nobody else gets in. Its request must come soon, for the reserve is small.
pub(crate) fn open_beyond(parts: &mut Parts, peer: IpAddr) -> ConnId {
    let conn = open(parts, peer);
    take_from_reserve(parts, conn);
    conn
}

/// The connection has a place of the reserve: its request must come soon, and until then a newcomer may take the place.
fn take_from_reserve(parts: &mut Parts, conn: ConnId) {
    if let Some(slot) = parts.line.conns.get_mut(conn) {
        slot.origin.be_beyond(Some(Limit::Conns));
        let (conns, key) = (&parts.line.conns, parts.line.conns.key(conn));
        let reserve = &mut parts.access.reserve;
        reserve.enter(key, |conn| conns.live(conn).is_some());
        let timeout = parts.books.config.limits.handshake_timeout;
        let due = parts.clock.after(timeout.min(RESERVE_TIMEOUT));
        // A lane is sorted, and this time is shorter than that of other connections.
        let timers = &mut parts.clock.timers.conns;
        timers.arm_odd(ConnTimer::Handshake, due, key);
    }
}

/// Another shard accepted the connection, perhaps beyond a bound, and moved it here. That shard has judged its address, so here it is
/// only counted. A newcomer, which another node relays or a carrier brings, is judged here.
pub(crate) fn open_moved(parts: &mut Parts, moved: &Moved<'_>) -> ConnId {
    let conn = parts
        .line
        .open(&mut parts.clock, &parts.books.config.limits, moved.peer);
    let Some(slot) = parts.line.conns.get_mut(conn) else {
        return conn;
    };
    slot.origin
        .be_brought(moved.relayed, moved.carried, moved.secure);
    if moved.new {
        conns::enter_address(parts, conn, moved.peer);
        if moved.beyond.is_some() {
            take_from_reserve(parts, conn);
        }
    } else {
        parts.access.count(&parts.books.config, slot, moved.peer);
        slot.origin.be_beyond(moved.beyond);
    }
    conn
}

/// Bytes arrived. The buffer is scratch: frames are unmasked in it.
pub(crate) fn bytes(stage: &mut Stage, conn: ConnId, buf: &mut [u8]) {
    stage.parts.books.counts.bytes_in += buf.len() as u64;
    let Some(slot) = stage.parts.line.conns.get_mut(conn) else {
        return;
    };
    if matches!(slot.state, State::Finishing | State::Linger) {
        let parts = &mut stage.parts;
        return parts.line.ignore(&mut parts.books.counts, conn, buf.len());
    }
    if let Some(mut input) = slot.unread.take() {
        growth::extend(&mut input, buf, usize::MAX);
        process_owned(stage, conn, input);
    } else {
        let used = process(stage, conn, buf);
        if used < buf.len() {
            stash::stash(&mut stage.parts, conn, &buf[used..]);
        }
    }
    hold_publisher(&mut stage.parts, conn);
}

/// Works on what an earlier turn left unread because it was full.
pub(crate) fn resume(stage: &mut Stage) {
    stage
        .parts
        .line
        .intake
        .release(&stage.parts.books.config.limits);
    let mut waiting = stage.parts.line.intake.take_stalled().into_iter();
    let mut passed_over = Vec::new();
    while !stage.parts.line.is_full(&stage.parts.books.config.limits)
        && let Some(conn) = waiting.next()
    {
        let flooded = stage
            .parts
            .line
            .budget
            .is_flooded(&stage.parts.books.config.limits);
        // However many connections flood, the others have their turn.
        if flooded && pace::floods(&stage.parts.line, &stage.parts.people, conn) {
            passed_over.push(conn);
            continue;
        }
        let Some(slot) = stage.parts.line.conns.get_mut(conn) else {
            continue;
        };
        slot.unread.resume();
        if let Some(input) = slot.unread.take() {
            process_owned(stage, conn, input);
            hold_publisher(&mut stage.parts, conn);
        }
        // An end of stream that came meanwhile has waited for this input.
        end_if_read(&mut stage.parts, conn);
    }
    passed_over.extend(waiting);
    stage.parts.line.intake.put_back(passed_over);
}

/// The peer closed its sending side. Bytes that it sent before and that wait here are worked on first.
pub(crate) fn eof(parts: &mut Parts, conn: ConnId) {
    if let Some(slot) = parts.line.conns.get_mut(conn) {
        slot.unread.end();
        end_if_read(parts, conn);
    }
}

#[expect(
    clippy::box_collection,
    reason = "it comes from and goes back to the connection's slot"
)]
fn process_owned(stage: &mut Stage, conn: ConnId, mut input: Box<Vec<u8>>) {
    let used = process(stage, conn, &mut input);
    if used == input.len() {
        return;
    }
    if (input.len() - used) * 4 < input.capacity() {
        // A small rest may wait for long: it is copied, and the large buffer freed.
        return stash::stash(&mut stage.parts, conn, &input[used..]);
    }
    input.drain(..used);
    stash::keep(&mut stage.parts, conn, input);
}

/// The connection broke.
pub(crate) fn broken(parts: &mut Parts, conn: ConnId) {
    ending::lost(parts, conn, CloseReason::TransportError);
}

/// Takes complete requests or frames off the front of `data`; returns how many bytes that were.
fn process(stage: &mut Stage, conn: ConnId, data: &mut [u8]) -> usize {
    let mut at = 0;
    pace::begin(&mut stage.parts.line);
    while at < data.len() {
        let used = match next_input(&mut stage.parts, conn) {
            Input::Ignored => return data.len(),
            Input::Waits => break,
            Input::Undecided => return at + on_waiting(&mut stage.parts, conn, data.len() - at),
            Input::Frames => return at + websocket::on_frames(stage, conn, &mut data[at..]),
            Input::Request(state) => on_request(stage, conn, state, &data[at..]),
        };
        if used == 0 {
            break;
        }
        at += used;
        if at == data.len() {
            watch_body(&mut stage.parts, conn);
        }
    }
    at
}

/// What the next bytes of a connection are, and whether they may be worked on now.
#[inline]
fn next_input(parts: &mut Parts, conn: ConnId) -> Input {
    let Some(slot) = parts.line.conns.get(conn) else {
        return Input::Ignored;
    };
    let state = slot.state;
    match state {
        State::Finishing | State::Linger => return Input::Ignored,
        // A client of an event stream only hears.
        State::Stream if !slot.unread.is_asking() => return Input::Ignored,
        _ if slot.unread.is_stalled() => return Input::Waits,
        _ if slot.unread.is_asking() => return Input::Undecided,
        _ => {}
    }
    if let Some(limit) = pace::why_yield(parts, 0) {
        stash::stall(parts, conn, limit);
        return Input::Waits;
    }
    match state {
        State::WebSocket | State::Probe => Input::Frames,
        _ => Input::Request(state),
    }
}

/// One head or body of HTTP; returns its bytes, 0 if it is not whole or has to wait.
fn on_request(stage: &mut Stage, conn: ConnId, state: State, data: &[u8]) -> usize {
    let used = match state {
        State::Body { len } => posts::on_body(stage, conn, len as usize, data),
        // A chunk does not complete the body, so its deadline goes on.
        State::ChunkedBody => return posts::on_chunks(stage, conn, data),
        State::Poll | State::Held => on_pipelined(&mut stage.parts, conn, data.len()),
        _ => {
            let slot = stage.parts.line.conns.get(conn);
            // A client that asks again has the answer, unless it asked before that was written.
            if slot.is_some_and(|slot| slot.outbox.is_empty()) {
                stage.parts.line.forget_answer(conn);
            }
            http::on_head(stage, conn, data)
        }
    };
    if used > 0 {
        stash::input_complete(&mut stage.parts.line, conn);
    }
    used
}

/// The input just worked on sent a message to a shard whose mailbox is long: its connection is read again when that is short.
fn hold_publisher(parts: &mut Parts, conn: ConnId) {
    if parts.line.intake.waits_for_mailbox() {
        stash::stall(parts, conn, Limit::Mailbox);
        // The next input is not held for what this one sent.
        parts.line.intake.begin();
    }
}

/// Frames of a client that is being asked about wait, within the size of a message.
fn on_waiting(parts: &mut Parts, conn: ConnId, len: usize) -> usize {
    if len > parts.books.config.plain_max_payload {
        parts.books.counts.hit(Limit::Payload);
        ending::lost(parts, conn, CloseReason::MessageTooBig);
        return len;
    }
    0
}

/// Nothing comes any more, and nothing waits for its turn or for a verdict: the end of the stream takes effect.
fn end_if_read(parts: &mut Parts, conn: ConnId) {
    let Some(slot) = parts.line.conns.get(conn) else {
        return;
    };
    if !slot.unread.is_over() {
        return;
    }
    match slot.state {
        // Answer what was asked before the end, then close.
        State::Head if slot.unread.is_empty() && !slot.outbox.is_empty() => {
            conns::finish(parts, conn);
        }
        // The flush drops the connection when its last answer has left.
        State::Finishing if !slot.outbox.is_empty() => {}
        _ => ending::lost(parts, conn, CloseReason::TransportClose),
    }
}

/// Bytes after a request whose poll is still waiting: they wait too, within the size of a head.
fn on_pipelined(parts: &mut Parts, conn: ConnId, len: usize) -> usize {
    if len > wire::http::HEAD_BYTES_MAX {
        ending::lost(parts, conn, CloseReason::ProtocolError);
        return len;
    }
    0
}

/// A body of which nothing has come yet has its deadline, too. Where no bytes are stashed, nothing else would watch it.
fn watch_body(parts: &mut Parts, conn: ConnId) {
    let slot = parts.line.conns.get(conn);
    if slot.is_some_and(|slot| matches!(slot.state, State::Body { .. } | State::ChunkedBody)) {
        stash::watch_input(parts, conn);
    }
}

/// What the next bytes of a connection are.
#[derive(Clone, Copy, Debug)]
enum Input {
    /// Nobody's any more.
    Ignored,
    /// Something for another turn.
    Waits,
    /// Frames of a client that is being asked about.
    Undecided,
    Frames,
    Request(State),
}
