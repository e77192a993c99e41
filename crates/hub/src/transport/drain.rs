//! Sending clients away politely: everyone is told, then sessions are closed over a window, each in a pause of its client.

use crate::access::Access;
use crate::access::drain::{Drain, Leaving, Pace, Verdict, shuffle};
use crate::books::close::CloseReason;
use crate::bounds::CHORES_PER_TURN;
use crate::clients::conn::State;
use crate::clients::line::Line;
use crate::clients::people::People;
use crate::clients::session::Session;
use crate::dialect::notices;
use crate::dialect::speech::Emit;
use crate::dialect::speech::{Dialect, Framing};
use crate::life::{conns, ending, stream};
use crate::parts::Parts;
use crate::recovery::ways::Abroad;
use crate::seam::member::Member;
use crate::seam::stage::Stage;
use crate::tables::slot::{ConnKey, SessionKey, SocketId};
use std::collections::HashSet;
use wire::plain;

const MESSAGE: &str = "Server is shutting down";

/// Takes no more sessions, lets the handler tell the clients, and closes every session with 1001 at this pace. A drain that takes no
/// time takes the place of one that is under way, and tells only clients that do not know. `awaits_others`: newcomers are answered
/// until [`others_have_left`].
pub(crate) fn begin(stage: &mut Stage, pace: Pace, awaits_others: bool) {
    let parts = &mut stage.parts;
    let is_on = parts.access.drain.is_on();
    if is_on && (pace.takes_time() || parts.access.drain.is_done()) {
        return;
    }
    let mut sessions = sessions(&parts.people);
    shuffle(&mut sessions, parts.ids.random());
    // If the others left after an earlier order, nobody says so again.
    let before = parts.access.drain.leaving();
    let awaits_others = awaits_others && before.as_ref().is_none_or(|before| before.awaits());
    let untold = match before {
        None => sessions.len(),
        Some(before) => {
            let untold: HashSet<SessionKey> = before.untold().iter().copied().collect();
            // Sessions whose clients know come last in the list, and so leave first.
            sessions.sort_by_key(|session| !untold.contains(session));
            sessions.partition_point(|session| untold.contains(session))
        }
    };
    let leaving = Leaving::new(parts.clock.now.mono_ms, pace, sessions)
        .telling(untold)
        .awaiting_others(awaits_others);
    // The drain closes all sessions, those of a rebalance among them.
    parts.access.thinning = None;
    parts.access.drain = Drain::Closing(leaving);
    // The first order has told the handler already.
    if !is_on {
        stage.call(None, |handler, cx| handler.draining(cx));
    }
}

/// No shard of the process has a session that was not told to go.
pub(crate) fn others_have_left(access: &mut Access) {
    if let Some(leaving) = access.drain.leaving() {
        leaving.others_have_left();
    }
}

fn sessions(people: &People) -> Vec<SessionKey> {
    let sessions = &people.sessions;
    let open = sessions.iter().filter(|(_, slot)| !slot.flags.closing);
    open.map(|(index, _)| sessions.key(index)).collect()
}

/// Closes so many sessions at this pace, and goes on as before. Chance chooses them; those that lose nothing come first. Sessions that an
/// earlier order chose and that are not gone stay.
pub(crate) fn thin(parts: &mut Parts, count: usize, pace: Pace) {
    if parts.access.drain.is_on() {
        return;
    }
    let mut chosen = sessions(&parts.people);
    shuffle(&mut chosen, parts.ids.random());
    let people = &parts.people;
    let may_return = |session: &SessionKey| {
        let slot = people.sessions.live(*session);
        slot.is_some_and(|slot| people.is_recoverable(slot))
    };
    chosen.sort_by_cached_key(|session| !may_return(session));
    chosen.truncate(count);
    // `Leaving` takes the last session of its list first.
    chosen.reverse();
    let leaving = Leaving::at_leisure(parts.clock.now.mono_ms, pace, chosen);
    parts.access.thinning = (!leaving.is_over()).then_some(leaving);
}

/// Tells the turn's share of the clients when to come back: after the last of them has left.
fn notify(parts: &mut Parts, leaving: &mut Leaving) {
    let mut told = 0;
    let abroad = goes_abroad(parts);
    while told < CHORES_PER_TURN
        && let Some(session) = leaving.next_untold()
    {
        let slot = parts.people.sessions.live(session);
        // Another node takes such a socket from this one: the client must come back while this one runs.
        let is_taken = abroad && slot.is_some_and(|slot| parts.people.is_recoverable(slot));
        let sockets = slot.map(|slot| slot.sockets.clone());
        for index in sockets.into_iter().flatten() {
            let (now_ms, dice) = (parts.clock.now.mono_ms, parts.ids.random());
            let retry_after_ms = match is_taken {
                true => leaving.taken_delay_ms(now_ms, dice),
                false => leaving.delay_ms(now_ms, dice),
            };
            say_shutdown(parts, index, retry_after_ms);
            told += 1;
        }
    }
}

/// Tells the client of a socket, in its protocol's words, that the server shuts down.
fn say_shutdown(parts: &mut Parts, index: SocketId, retry_after_ms: u64) {
    let Some(socket) = parts.people.sockets.get(index) else {
        return;
    };
    let (variant, conn) = (socket.route.variant(), socket.route.conn());
    let members = format!("\"message\":\"{MESSAGE}\",\"retry_after_ms\":{retry_after_ms}");
    match variant.dialect {
        Dialect::PlainJson => {
            let notice = format!("{{\"type\":\"{}\",{members}}}", notices::SHUTDOWN);
            parts.line.reply(conn, |out| {
                // An `EventSource` comes back by itself after this time (WHATWG HTML §9.2).
                if variant.framing == Framing::EventStream {
                    stream::write_retry(out, retry_after_ms);
                }
                variant.wrap(out, notice.as_bytes(), &[]);
            });
        }
        Dialect::PlainMsgpack => {
            let notice = plain::shutdown_msgpack(notices::SHUTDOWN, MESSAGE, retry_after_ms);
            parts
                .line
                .reply(conn, |out| variant.wrap(out, &notice, &[]));
        }
        _ => {
            let key = parts.people.sockets.key(index);
            let args = format!("{{{members}}}");
            Member::new(parts, key).emit(&Emit::new(notices::SHUTDOWN, &args));
        }
    }
}

/// In how many milliseconds a client may come back.
pub(crate) fn delay_ms(parts: &mut Parts) -> u64 {
    let dice = parts.ids.random();
    let now_ms = parts.clock.now.mono_ms;
    parts.access.drain.delay_ms(now_ms, dice)
}

/// Closes the sessions whose time has come, as soon as they pause. `behind`: input of some connections is still unread, so nobody's
/// silence is a pause.
pub(crate) fn step(parts: &mut Parts, behind: bool) {
    if let Some(mut leaving) = parts.access.thinning.take() {
        go_on(parts, &mut leaving, CloseReason::Rebalanced, behind);
        parts.access.thinning = (!leaving.is_over()).then_some(leaving);
    }
    match std::mem::take(&mut parts.access.drain) {
        Drain::Closing(mut leaving) => {
            notify(parts, &mut leaving);
            go_on(parts, &mut leaving, CloseReason::ShuttingDown, behind);
            if is_deserted(parts) {
                leaving.nobody_is_left();
            }
            if !leaving.is_over() {
                parts.access.drain = Drain::Closing(leaving);
                return;
            }
            parts.access.drain = Drain::Done;
            parts.access.takers_until_ms = parts.clock.now.mono_ms + leaving.takers_ms();
            // Not earlier: until now clients that polled needed their connections to learn of their end.
            parts.line.answers_are_last = true;
            parts.access.idle = idle_conns(&parts.line);
        }
        other => parts.access.drain = other,
    }
    close_idle_conns(parts);
}

/// Whether the hub has no session, and no socket that is away and that another node could take.
fn is_deserted(parts: &Parts) -> bool {
    parts.people.sessions.len() == 0 && parked(parts) == 0
}

/// Sockets that are away.
fn parked(parts: &Parts) -> usize {
    let recovery = parts.recovery.as_ref();
    recovery.map_or(0, |recovery| recovery.parked.len())
}

/// When the hub stops to wait for clients that were sent away: another node can take their sockets as long as this one runs. `None`: it
/// does not wait.
pub(crate) fn awaits_takers(parts: &Parts) -> Option<u64> {
    let until_ms = parts.access.takers_until_ms;
    let waits = parts.clock.now.mono_ms < until_ms && parked(parts) > 0;
    (waits && goes_abroad(parts)).then_some(until_ms)
}

/// Other nodes can take sockets from this one.
fn goes_abroad(parts: &Parts) -> bool {
    let goes = parts.books.config.recovery.goes_abroad();
    let abroad = parts.away.as_ref().filter(|_| goes);
    let abroad = abroad.map(|away| away.abroad());
    matches!(abroad, Some(Abroad::Nodes(_)))
}

fn go_on(parts: &mut Parts, leaving: &mut Leaving, reason: CloseReason, behind: bool) {
    let now_ms = parts.clock.now.mono_ms;
    for due in leaving.take_due(now_ms) {
        let slot = parts.people.sessions.live(due.session);
        // The session may have ended by itself.
        let Some(slot) = slot.filter(|slot| !slot.flags.closing) else {
            continue;
        };
        let is_busy = behind || is_busy(parts, slot);
        match leaving.judge(due, now_ms, is_busy) {
            Verdict::Stays => continue,
            Verdict::Goes => parts.books.counts.dismissed += 1,
            Verdict::GoesBusy => parts.books.counts.dismissed_busy += 1,
        }
        ending::close_session(parts, due.session.id(), reason);
    }
}

/// Whether something that the client said is not whole or not answered, or something that it was told has not left.
fn is_busy(parts: &Parts, session: &Session) -> bool {
    let conn = parts.line.conns.get(session.conn);
    let on_its_way = conn.is_some_and(|conn| {
        let unread = !conn.unread.is_empty() || conn.assembler.is_mid_message();
        let waits = conn.unread.is_stalled() || conn.unread.is_asking();
        unread || waits || conn.outbox.is_blocked()
    });
    // A client that polls learns of its end by the poll that waits.
    let polls = session.polling.as_ref().is_some_and(|polling| {
        let asks = polling.get.is_none() || polling.post.conn.is_some();
        asks || polling.probe.is_some() || !polling.queue.is_empty()
    });
    let waits = session.binary.is_some() || session.joining.gates.len() > 0;
    on_its_way || polls || waits || owes_answers(&parts.people, session)
}

fn owes_answers(people: &People, session: &Session) -> bool {
    let mut sockets = session.sockets.iter();
    sockets.any(|index| {
        let socket = people.sockets.get(*index);
        socket.is_some_and(|socket| socket.owed > 0)
    })
}

/// Connections without a session: kept-alive HTTP and half-made requests.
fn idle_conns(line: &Line) -> Vec<ConnKey> {
    let conns = &line.conns;
    let idle = conns.iter().filter(|(_, slot)| slot.state == State::Head);
    idle.map(|(index, _)| conns.key(index)).collect()
}

/// Closes the turn's share of them.
fn close_idle_conns(parts: &mut Parts) {
    for _ in 0..CHORES_PER_TURN {
        let Some(conn) = parts.access.idle.pop() else {
            return;
        };
        let slot = parts.line.conns.live(conn);
        // The connection may be serving a request by now.
        if slot.is_some_and(|slot| slot.state == State::Head) {
            conns::finish(parts, conn.id());
        }
    }
}
