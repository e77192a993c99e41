//! Words to clients that wait until other nodes know of them: the answer to a CONNECT with all that follows it, and the acks of joins.

use crate::books::faults::{self, Fault};
use crate::cluster::send::note_interest;
use crate::cluster::waitlist::{Carrier, Waits};
use crate::life::deeds;
use crate::parts::Parts;
use crate::seam::event::AckTo;
use crate::tables::slot::{ConnId, SessionId, SocketKey};

/// A socket is in its namespace, with its user and its first rooms, and its client was told nothing yet. The client hears of it once other
/// nodes know. All that is said to the client follows the welcome, in order.
pub(crate) fn hold_welcome(parts: &mut Parts, session: SessionId, socket: SocketKey) {
    // What the socket has just joined gets its tickets here.
    note_interest(parts);
    if let Some((namespace, ticket)) = deeds::ticket_of(parts, socket)
        && let Some(carrier) = hold(parts, session)
        && let Some(away) = &mut parts.away
    {
        let now_ms = parts.clock.now.mono_ms;
        let output = Waits::Output(carrier);
        away.saves.park(&namespace, ticket, output, now_ms);
    }
    // The output may wait for both, the store and other nodes: it leaves when both have let it go.
    let away = parts.away.as_mut();
    let ticket = away.and_then(|away| away.joins.ticket_of(socket));
    let Some(ticket) = ticket.filter(|_| !faults::is_back(Fault::WelcomeEarly)) else {
        return;
    };
    let Some(carrier) = hold(parts, session) else {
        return;
    };
    let now_ms = parts.clock.now.mono_ms;
    if let Some(away) = &mut parts.away {
        let surplus = away.joins.park(ticket, Waits::Output(carrier), now_ms);
        release(parts, surplus);
    }
}

/// Holds back all that is said to a client, until it is released as often as it was held.
fn hold(parts: &mut Parts, session: SessionId) -> Option<Carrier> {
    let sessions = &mut parts.people.sessions;
    let key = sessions.key(session);
    let slot = sessions.get_mut(session)?;
    Some(match (&mut slot.polling, slot.conn) {
        (Some(polling), _) => {
            polling.lag.hold(1);
            Carrier::Polls(key)
        }
        (None, Some(conn)) => {
            parts.line.hold(conn, 1);
            Carrier::Conn(parts.line.conns.key(conn))
        }
        (None, None) => return None,
    })
}

/// A session goes on over a WebSocket: what its polls did not get yet waits there.
pub(crate) fn carry_over(parts: &mut Parts, session: SessionId, conn: ConnId) {
    let (from, to) = (
        parts.people.sessions.key(session),
        parts.line.conns.key(conn),
    );
    if let Some(away) = &mut parts.away {
        let times = away.joins.carry_over(from, to);
        parts.line.hold(conn, times);
        let times = away.saves.carry_over(from, to);
        parts.line.hold(conn, times);
    }
}

/// Answers an event, once other nodes know what its client joined before.
pub(crate) fn ack(parts: &mut Parts, to: AckTo, args: &str, attachments: &[Vec<u8>]) {
    // What the handler let the socket join before the ack gets its tickets here.
    note_interest(parts);
    deeds::before_ack(parts, to.socket);
    if let Some((namespace, ticket)) = deeds::ticket_of(parts, to.socket)
        && let Some(away) = &mut parts.away
    {
        let ack = Waits::Ack {
            to,
            args: args.into(),
            attachments: attachments.to_vec(),
        };
        let now_ms = parts.clock.now.mono_ms;
        return away.saves.park(&namespace, ticket, ack, now_ms);
    }
    ack_saved(parts, to, args, attachments);
}

/// Acks an event when all that its client did is stored. Other nodes may not know it yet.
fn ack_saved(parts: &mut Parts, to: AckTo, args: &str, attachments: &[Vec<u8>]) {
    if let Some(away) = &mut parts.away
        && let Some(ticket) = away.joins.ticket_of(to.socket)
    {
        let ack = Waits::Ack {
            to,
            args: args.into(),
            attachments: attachments.to_vec(),
        };
        let surplus = away.joins.park(ticket, ack, parts.clock.now.mono_ms);
        return release(parts, surplus);
    }
    parts.speaker().say_ack(to.socket, to.id, args, attachments);
}

/// What waited for the store, which has it now.
pub(crate) fn release_saved(parts: &mut Parts, ready: impl IntoIterator<Item = Waits>) {
    for waits in ready {
        match waits {
            Waits::Ack {
                to,
                args,
                attachments,
            } => ack_saved(parts, to, &args, &attachments),
            output => release(parts, [output]),
        }
    }
}

/// Other nodes know all that was joined up to a ticket.
pub(crate) fn confirmed(parts: &mut Parts, ticket: u64) {
    if let Some(away) = &mut parts.away {
        let ready = away.joins.confirmed(ticket);
        release(parts, ready);
    }
}

/// What other nodes have not confirmed in time leaves, too.
pub(crate) fn release_late(parts: &mut Parts) {
    if let Some(away) = &mut parts.away {
        let late = away.joins.due(parts.clock.now.mono_ms);
        parts.books.counts.joins_unconfirmed += late.len() as u64;
        release(parts, late);
    }
}

pub(crate) fn next_due_ms(parts: &Parts) -> Option<u64> {
    let away = parts.away.as_ref();
    let joins = away.and_then(|away| away.joins.next_due_ms());
    joins.into_iter().chain(deeds::next_due_ms(parts)).min()
}

fn release(parts: &mut Parts, ready: impl IntoIterator<Item = Waits>) {
    if let Some(away) = &mut parts.away {
        parts.books.counts.joins_unconfirmed += away.joins.take_surplus();
    }
    for waits in ready {
        match waits {
            Waits::Ack {
                to,
                args,
                attachments,
            } => {
                let mut speaker = parts.speaker();
                speaker.say_ack(to.socket, to.id, &args, &attachments);
            }
            Waits::Output(Carrier::Conn(conn)) => parts.line.release(conn),
            Waits::Output(Carrier::Polls(session)) => {
                if let Some(slot) = parts.people.sessions.live_mut(session)
                    && let Some(polling) = &mut slot.polling
                {
                    polling.lag.release();
                    parts.line.polls.note_ready(session.id(), &mut slot.flags);
                }
            }
        }
    }
}
