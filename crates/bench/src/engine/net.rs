//! HOT PATH: no allocation for a message. Owns the way of bytes: sockets towards the server,
//! frames to messages, messages to counts, and what is said back in one write.

use super::connection::{Link, Role};
use super::deflate;
use super::messages::{ask_in, delivered, on_message};
use super::parting::{lose, send_out};
use super::plan::Plan;
use super::play::{connected, noticed};
use super::polling::take_answers;
use super::scratch::READ_BYTES;
use super::shared::Shared;
use super::socket::KEY;
use super::user::User;
use crate::clock::now_ns;
use crate::loss::Loss;
use crate::scenario::Protocol;
use crate::stream::Filled;
use mio::event::Event;
use wire::websocket::frame::{Header, OpCode, parse_header};

/// One of the user's sockets can be read or written.
pub fn on_ready(plan: &Plan, user: &mut User, shared: &mut Shared, role: Role, event: &Event) {
    let Some(stream) = user.connection.stream(role).filter(|s| s.is_open()) else {
        return;
    };
    // A connect that failed shows in the first write.
    let mut result = match event.is_writable() {
        true => stream.flush(),
        false => Ok(()),
    };
    if result.is_ok() && (event.is_readable() || event.is_read_closed()) {
        let mut buf = std::mem::take(&mut shared.scratch.read);
        result = read(plan, user, shared, role, event.is_read_closed(), &mut buf);
        shared.scratch.read = buf;
    }
    match result {
        Ok(()) => send_out(plan, user, shared),
        Err(loss) => on_loss(plan, user, shared, role, &loss),
    }
}

fn on_loss(plan: &Plan, user: &mut User, shared: &mut Shared, role: Role, loss: &Loss) {
    shared.scratch.out.clear();
    // A connection without a request may be closed at any time (RFC 9112 §9.5); the next request opens another.
    let http = user.connection.http.as_deref_mut();
    match (role, http) {
        (Role::Post, Some(http)) if !http.posting => return http.post.close(),
        (Role::Get, Some(http)) if http.paused && !http.polling => return http.get.close(),
        _ => {}
    }
    lose(plan, user, shared, loss);
    send_out(plan, user, shared);
}

/// `ends`: the server will send no more.
fn read(
    plan: &Plan,
    user: &mut User,
    shared: &mut Shared,
    role: Role,
    ends: bool,
    buf: &mut [u8],
) -> Result<(), Loss> {
    let Some(stream) = user.connection.stream(role) else {
        return Ok(());
    };
    let mut kept = stream.take_unread(buf);
    loop {
        // A message may lead to a step that closes or replaces the socket it came on.
        let Some(stream) = user.connection.stream(role).filter(|s| s.is_open()) else {
            return Ok(());
        };
        let filled = stream.fill(buf, kept, ends)?;
        let (Filled::Drained(end) | Filled::More(end)) = filled;
        shared.tally.totals.bytes_received += (end - kept) as u64;
        shared.now_ns = now_ns();
        let used = match role {
            Role::WebSocket => take_frames(plan, user, shared, &buf[..end])?,
            Role::Get | Role::Post => take_answers(plan, user, shared, role, &buf[..end])?,
        };
        if matches!(filled, Filled::Drained(_)) {
            if let Some(stream) = user.connection.stream(role).filter(|s| s.is_open()) {
                stream.keep_unread(&buf[used..end]);
            }
            return Ok(());
        }
        buf.copy_within(used..end, 0);
        kept = end - used;
    }
}

/// Handles every whole frame; returns the bytes used up.
fn take_frames(
    plan: &Plan,
    user: &mut User,
    shared: &mut Shared,
    bytes: &[u8],
) -> Result<usize, Loss> {
    let mut at = 0;
    if user.connection.awaits_switch() {
        let Some(len) = check_switch(bytes, plan.endpoint(user).compression)? else {
            return Ok(0);
        };
        at = len;
        switched(plan, user, shared);
    }
    let protocol = plan.endpoint(user).protocol;
    loop {
        at = take_repeats(plan, user, shared, protocol, bytes, at);
        let Some(header) = parse_header(&bytes[at..]).map_err(Loss::BadFrame)? else {
            break;
        };
        let length = usize::try_from(header.payload_len).unwrap_or(usize::MAX);
        let Some(payload) = bytes[at + header.len..].get(..length) else {
            break;
        };
        let frame = &bytes[at..at + header.len + length];
        at += frame.len();
        match header.opcode {
            OpCode::Text | OpCode::Binary
                if header.fin && !user.connection.ws.is_in_fragments() =>
            {
                match header.rsv1 {
                    true => on_compressed(plan, user, shared, payload)?,
                    false => {
                        on_frame(plan, user, shared, payload)?;
                        shared.scratch.repeats.learn(protocol, frame, header.len);
                    }
                }
            }
            OpCode::Text | OpCode::Binary | OpCode::Continuation => {
                on_fragment(plan, user, shared, &header, payload)?;
            }
            OpCode::Ping => {
                shared.tally.totals.heartbeats += 1;
                shared.scratch.frame(OpCode::Pong, payload);
            }
            OpCode::Close => {
                let code = payload.first_chunk().map(|code| u16::from_be_bytes(*code));
                return Err(Loss::CloseFrame(code));
            }
            OpCode::Pong => {}
        }
        if !user.connection.ws.is_open() {
            return Ok(bytes.len());
        }
    }
    Ok(at)
}

/// One frame of a message that came in several.
#[cold]
fn on_fragment(
    plan: &Plan,
    user: &mut User,
    shared: &mut Shared,
    header: &Header,
    payload: &[u8],
) -> Result<(), Loss> {
    let ws = &mut user.connection.ws;
    match ws.take_fragment(header, payload, READ_BYTES)? {
        Some(whole) if whole.is_compressed => on_compressed(plan, user, shared, &whole.message),
        Some(whole) => on_frame(plan, user, shared, &whole.message),
        None => Ok(()),
    }
}

fn on_compressed(
    plan: &Plan,
    user: &mut User,
    shared: &mut Shared,
    payload: &[u8],
) -> Result<(), Loss> {
    if !plan.endpoint(user).compression {
        return Err(Loss::Unexpected(
            "a compressed message that nobody agreed to",
        ));
    }
    let text = shared.scratch.deflate.inflate(payload, READ_BYTES)?;
    let result = on_frame(plan, user, shared, &text);
    shared.scratch.deflate.keep(text);
    result
}

/// Counts events whose bytes another user had before; returns where the next frame begins.
fn take_repeats(
    plan: &Plan,
    user: &mut User,
    shared: &mut Shared,
    protocol: Protocol,
    bytes: &[u8],
    mut at: usize,
) -> usize {
    while let Some(known) = shared.scratch.repeats.find(protocol, &bytes[at..]) {
        let (identity, name) = (known.identity, known.name());
        let frame = &bytes[at..at + known.frame_bytes];
        at += frame.len();
        delivered(plan, user, shared, &identity);
        noticed(plan, user, shared, &frame[name]);
        if !user.connection.ws.is_open() {
            return bytes.len();
        }
    }
    at
}

/// The WebSocket is open.
fn switched(plan: &Plan, user: &mut User, shared: &mut Shared) {
    let is_socket_io = plan.speaks(user, Protocol::SocketIo);
    if let (Link::Probing, Some(http)) = (user.connection.link, &mut user.connection.http) {
        http.switched = true;
        shared.scratch.frame(OpCode::Text, b"2probe");
    } else if is_socket_io {
        user.connection.link = Link::Greeting;
    } else if plan.speaks(user, Protocol::Centrifugo) {
        ask_in(plan, user, shared);
    } else {
        connected(plan, user, shared);
    }
}

/// A whole frame. Centrifugo puts several messages into one, a line each.
fn on_frame(plan: &Plan, user: &mut User, shared: &mut Shared, payload: &[u8]) -> Result<(), Loss> {
    if !plan.speaks(user, Protocol::Centrifugo) {
        return on_message(plan, user, shared, payload, Role::WebSocket);
    }
    for line in payload.split(|&byte| byte == b'\n') {
        if !line.is_empty() {
            on_message(plan, user, shared, line, Role::WebSocket)?;
        }
    }
    Ok(())
}

/// Length of the answer's head, once it is whole and switches protocols.
fn check_switch(bytes: &[u8], compression: bool) -> Result<Option<usize>, Loss> {
    let Some(head) = super::http::parse_head(bytes)? else {
        return Ok(None);
    };
    let text = &bytes[..head.len];
    let accept = wire::websocket::handshake::accept_value(KEY);
    let is_right = text.windows(accept.len()).any(|window| window == accept);
    if head.status != 101 || !is_right {
        let status = text.split(|&byte| byte == b'\r').next().unwrap_or(text);
        let status = String::from_utf8_lossy(status).into_owned();
        return Err(Loss::RefusedUpgrade(status));
    }
    if compression && !deflate::is_agreed(&String::from_utf8_lossy(text)) {
        return Err(Loss::Unexpected("the server declined permessage-deflate"));
    }
    Ok(Some(head.len))
}
