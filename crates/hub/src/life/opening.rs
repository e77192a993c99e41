//! Beginnings: the socket of a session in a namespace, and what its client is told.

use crate::books::claims::Claims;
use crate::books::close::CloseReason;
use crate::books::metrics::Limit;
use crate::clients::route::Route;
use crate::clients::socket::{Extra, Flags, Place, Socket};
use crate::clients::speaker::Way;
use crate::dialect::speech::Word;
use crate::life::ending;
use crate::parts::Parts;
use crate::recovery::pid::Pid;
use crate::rooms::room::RoomKind;
use crate::seam::effect::Notice;
use crate::seam::event::Refusal;
use crate::tables::slot::{SessionId, SocketKey};
use smallvec::SmallVec;
use wire::base64url::Id20;
use wire::json;
use wire::socketio::PacketType;

/// Makes the socket of a session in a namespace. `id`: the handler was told that this will be its id.
pub(crate) fn add_socket(
    parts: &mut Parts,
    session: SessionId,
    id: Option<Id20>,
    namespace: &str,
    auth: &str,
    claims: Option<&Claims>,
) -> Option<SocketKey> {
    let namespace = parts.people.namespaces.find_or_make(namespace);
    let room = parts
        .rooms
        .find_or_make(&mut parts.people, namespace, RoomKind::All, "");
    let id = id.unwrap_or_else(|| parts.new_socket_id());
    // Handlers see `{}` where nothing is kept (`Member::info`): that payload needs no room.
    let keep = parts.books.config.keep_handshake && auth != "{}";
    let extra = keep.then(|| {
        Box::new(Extra {
            auth: Some(auth.into()),
            ..Extra::default()
        })
    });
    let socket = parts.people.insert_socket(session, |slot| {
        slot.flags.joined = true;
        parts.outbound.log(Notice::Connected {
            socket: id,
            peer: slot.client.peer(),
            transport: slot.transport(),
            protocol: slot.language.protocol().name(),
            uid: claims.map(|claims| claims.uid.as_str().into()),
        });
        Socket {
            id,
            route: Route::new(slot.conn, slot.variant(), parts.line.deflate_of(slot.conn)),
            flags: Flags::default(),
            session,
            namespace,
            mark: 0,
            rooms: SmallVec::new(),
            place: Place::NOBODY,
            owed: 0,
            expires_s: 0,
            extra,
        }
    })?;
    let sockets = &mut parts.people.sockets;
    parts.rooms.add_member(sockets, socket.id(), room);
    let people = &mut parts.people;
    people.note_member(socket.id(), RoomKind::All.subject(), "");
    parts.books.counts.connects += 1;
    Some(socket)
}

/// The CONNECT reply with the socket's id and, if its client can come back, the name by which it does.
pub(crate) fn greet(parts: &mut Parts, socket: SocketKey, namespace: &str) {
    if parts.traces.is_on() {
        parts.traces.connect(&parts.people, socket.id());
    }
    let Some(slot) = parts.people.sockets.here(socket) else {
        return;
    };
    let way = (slot.session, slot.route.conn(), slot.route.variant());
    let id = slot.id.encode();
    let extra = slot.extra.as_ref();
    let lifeline = extra.and_then(|extra| extra.lifeline.as_ref());
    if slot.route.variant().dialect.is_plain() {
        let lifeline = lifeline.map(|lifeline| (lifeline.pid.text(), lifeline.recovered));
        return greet_plain(parts, way, namespace, lifeline);
    }
    if let Some(pid) = lifeline.map(|lifeline| lifeline.pid.text()) {
        let (id, pid) = (String::from_utf8_lossy(&id), String::from_utf8_lossy(&pid));
        let data = format!("{{\"sid\":\"{id}\",\"pid\":\"{pid}\"}}");
        let word = Word::control(PacketType::Connect, namespace, &data);
        return parts.speaker().say_by(way, &word);
    }
    // A client that cannot come back gets its answer without an allocation.
    let mut data = *b"{\"sid\":\"....................\"}";
    data[8..28].copy_from_slice(&id);
    let data = std::str::from_utf8(&data).unwrap_or_default();
    let word = Word::control(PacketType::Connect, namespace, data);
    parts.speaker().say_by(way, &word);
}

/// The same to a client of the plain protocol that asked for it: whether it has its socket again, and the name by which it comes back.
fn greet_plain(
    parts: &mut Parts,
    way: Way,
    namespace: &str,
    lifeline: Option<([u8; Pid::LEN], bool)>,
) {
    let data = match &lifeline {
        Some((pid, recovered)) => {
            let pid = String::from_utf8_lossy(pid);
            format!("{{\"pid\":\"{pid}\",\"recovered\":{recovered}}}")
        }
        None => "{\"pid\":null,\"recovered\":false}".to_owned(),
    };
    let word = Word {
        name: "resume",
        ..Word::control(PacketType::Event, namespace, &data)
    };
    parts.speaker().say_by(way, &word);
}

pub(crate) fn refuse_namespace(
    parts: &mut Parts,
    session: SessionId,
    namespace: &str,
    refusal: &Refusal,
) {
    let refusals_max = parts.books.config.limits.namespace_refusals_max;
    let Some(slot) = parts.people.sessions.get_mut(session) else {
        return;
    };
    let refusals = &mut slot.rare.get_or_insert_default().refusals;
    *refusals = refusals.saturating_add(1);
    if *refusals > refusals_max {
        parts.books.counts.hit(Limit::NamespaceRefusals);
        return ending::close_session(parts, session, CloseReason::LimitExceeded);
    }
    send_refusal(parts, session, namespace, refusal);
}

/// The CONNECT_ERROR reply.
pub(crate) fn send_refusal(
    parts: &mut Parts,
    session: SessionId,
    namespace: &str,
    refusal: &Refusal,
) {
    if parts.traces.is_on() {
        let Parts { traces, people, .. } = &mut *parts;
        traces.refused_connect(people, session, namespace, &refusal.message);
    }
    let mut data = b"{\"message\":".to_vec();
    json::quote(&mut data, &refusal.message);
    if let Some(more) = &refusal.data {
        data.extend_from_slice(b",\"data\":");
        data.extend_from_slice(more.as_bytes());
    }
    data.push(b'}');
    let data = String::from_utf8_lossy(&data);
    let word = Word::control(PacketType::ConnectError, namespace, &data);
    parts.speaker().say(session, &word);
}
