//! The gate before a namespace that a client wants to join while nobody has decided yet: what it sends there waits in order, its
//! other namespaces do not, and no other client does. A DISCONNECT passes: the client gave up.

use crate::books::close::{CloseReason, DisconnectReason};
use crate::books::metrics::{Dropped, Limit};
use crate::clients::session::Session;
use crate::life::ending;
use crate::parts::Parts;
use crate::seam::join::Held;
use crate::seam::question;
use crate::seam::questions::{Asked, Questions, Waiting};
use crate::tables::slot::{AskId, SessionId};
use wire::socketio::{Packet, PacketType};

/// The question that a client waits for to join a namespace.
pub(crate) fn gate(asks: &Questions, slot: &Session, namespace: &str) -> Option<AskId> {
    slot.joining.gates.iter().find(|ask| {
        let pending = asks.get(*ask);
        let waiting = pending.map(|pending| &pending.waiting);
        matches!(waiting, Some(Waiting::Join(join)) if *join.namespace == *namespace)
    })
}

/// A packet before a gate. A client that fills its gate is closed: clients wait for the answer to their CONNECT, and something that this
/// one sent would be lost.
pub(crate) fn hold(
    parts: &mut Parts,
    session: SessionId,
    ask: AskId,
    packet: &Packet<'_>,
    attachments: &[Vec<u8>],
) {
    if packet.kind == PacketType::Disconnect {
        return give_up(parts, session, ask, packet.namespace);
    }
    keep(parts, session, ask, Held::new(packet, attachments));
}

/// The first question about the session that its handler is to decide.
pub(crate) fn decided_by_handler(asks: &Questions, slot: &Session) -> Option<AskId> {
    slot.joining.gates.iter().find(|ask| {
        let pending = asks.get(*ask);
        pending.is_some_and(|pending| pending.asked == Asked::Handler)
    })
}

pub(crate) fn keep(parts: &mut Parts, session: SessionId, ask: AskId, held: Held) {
    let bytes = held.bytes();
    let gate_max = parts.books.config.limits.gate_bytes_max;
    let join = parts.outbound.asks.join_mut(ask);
    let fits = join.is_some_and(|join| join.held_bytes() + bytes <= gate_max);
    // Each gate has a bound, and all questions of the shard together have one.
    if !fits || !parts.outbound.asks.keep(ask, bytes) {
        parts.books.counts.hit(Limit::GateBytes);
        return ending::close_session(parts, session, CloseReason::LimitExceeded);
    }
    if let Some(join) = parts.outbound.asks.join_mut(ask) {
        join.hold(held);
    }
}

/// The client does not want in any more.
fn give_up(parts: &mut Parts, session: SessionId, ask: AskId, namespace: &str) {
    let Some(slot) = parts.people.sessions.get_mut(session) else {
        return;
    };
    // Packets for the namespace may still be on their way.
    slot.rare.get_or_insert_default().part(namespace);
    if let Some(join) = parts.outbound.asks.join_mut(ask) {
        let held = join.take_held();
        held.iter()
            .for_each(|_| parts.books.counts.drop_message(Dropped::Invalid));
    }
    question::forget_question(parts, ask, DisconnectReason::ClientNamespaceDisconnect);
}
