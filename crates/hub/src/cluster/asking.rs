//! Broadcasts with ack, from the asker's shard and on each shard that takes part; answers to rounds of any kind.

use crate::cluster::letter::{
    Answer, Broadcast, Letter, More, Next, Order, Reply, Response, RoundId, Target, Tidings,
};
use crate::cluster::rounds::{Acked, Answers, News};
use crate::cluster::send::{self, Reach};
use crate::cluster::waiting;
use crate::cluster::wire::Ask;
use crate::dialect::speech::Emit;
use crate::parts::Parts;
use crate::rooms::outgoing::Outgoing;
use crate::seam::event::ServerAck;
use crate::seam::told::{Collected, Told};
use crate::tables::shards::ShardSet;
use crate::tables::slot::SocketKey;

pub(crate) fn acks_admitted(parts: &mut Parts, more: usize) -> bool {
    let max = parts.books.config.limits.acks_outstanding_max;
    parts.rounds.admits(more, max, &mut parts.books.counts)
}

/// Sees to an id's deadline.
pub(crate) fn watch_ack(parts: &mut Parts, id: u64, timeout_ms: u64) {
    let due = parts.clock.now.mono_ms.saturating_add(timeout_ms);
    parts.clock.timers.arm_ack(due, id);
    let rounds = &parts.rounds;
    parts
        .clock
        .timers
        .compact_acks(rounds.len(), |id| rounds.is_live(id));
    parts.books.counts.acks_outstanding = parts.rounds.owed() as u64;
}

/// The ack id for a question to one socket; `None` when too many answers are waited for.
pub(crate) fn ask_one(
    parts: &mut Parts,
    socket: SocketKey,
    token: u64,
    timeout_ms: u64,
) -> Option<u64> {
    parts.people.sockets.here(socket)?;
    if !acks_admitted(parts, 1) {
        return None;
    }
    let due_ms = parts.clock.now.mono_ms.saturating_add(timeout_ms);
    let id = parts.rounds.ask(socket, token, due_ms);
    watch_ack(parts, id, timeout_ms);
    Some(id)
}

/// A socket that came from another process was asked there, and has this long to answer. `false`: its answer is not waited for.
pub(crate) fn go_on_with(
    parts: &mut Parts,
    id: u64,
    (socket, token): (SocketKey, u64),
    timeout_ms: u64,
) -> bool {
    let due_ms = parts.clock.now.mono_ms.saturating_add(timeout_ms);
    let waits = acks_admitted(parts, 1) && parts.rounds.go_on_with(id, (socket, token, due_ms));
    if waits {
        watch_ack(parts, id, timeout_ms);
    }
    waits
}

/// A socket that came from another process was asked there in a round of another node, which waits for its answer.
pub(crate) fn go_on_in(parts: &mut Parts, id: u64, round: RoundId, socket: SocketKey) {
    match parts.rounds.go_on_in(id, round, socket) {
        Some(true) => watch_ack(parts, id, round.timeout_ms),
        Some(false) => {}
        None => respond(parts, round, Response::Gone),
    }
}

/// A client's ack: the token, if it answers a question that the handler asked this socket alone.
pub(crate) fn acked(
    parts: &mut Parts,
    socket: SocketKey,
    id: u64,
    answer: impl FnOnce() -> Answer,
) -> Option<u64> {
    let acked = parts.rounds.acked(socket, id);
    parts.books.counts.acks_outstanding = parts.rounds.owed() as u64;
    match acked {
        Acked::ToHandler(token) => return Some(token),
        // Only a round needs a copy of the answer.
        Acked::ToAsker(round) => respond(parts, round, Response::Ack(answer())),
        Acked::Ignored => {}
    }
    None
}

/// A socket goes: the askers that wait for its answers are told.
pub(crate) fn forget_acks(parts: &mut Parts, socket: SocketKey) {
    for news in parts.rounds.gone(socket) {
        match news {
            News::Handler(told) => parts.outbound.tell(told),
            News::Asker(round, response) => respond(parts, round, response),
        }
    }
    parts.books.counts.acks_outstanding = parts.rounds.owed() as u64;
}

/// Tells the handler how rounds ended. A whole list is made now, however small the part that ended it is: that costs the turn, too.
fn tell(parts: &mut Parts, told: impl IntoIterator<Item = Told>) {
    for told in told {
        if let Told::Found { found, .. } = &told {
            parts.line.budget.list(found.bytes());
        }
        parts.outbound.tell(told);
    }
}

/// A deadline has come.
pub(crate) fn ack_due(parts: &mut Parts, id: u64) {
    let told = parts.rounds.due(id);
    tell(parts, told);
    parts.books.counts.acks_outstanding = parts.rounds.owed() as u64;
}

pub(crate) fn respond(parts: &mut Parts, round: RoundId, response: Response) {
    let (me, asker) = (parts.ids.me.place(), round.asker);
    if asker.node != me.node {
        return send::respond_away(parts, round, &response);
    }
    let reply = Reply {
        number: round.number,
        node: me.node,
        parts: 0,
        response,
    };
    if asker == me {
        take_response(parts, &reply);
    } else {
        send::send_to(parts, asker.shard, Letter::Response(reply));
    }
}

/// Something about a round of ours.
pub(crate) fn take_response(parts: &mut Parts, reply: &Reply) {
    // Taking a list in costs the turn, too (ADR 73).
    if let Response::Sockets(_) | Response::Page(_) = &reply.response {
        parts.line.budget.list(reply.response.bytes());
    }
    let told = parts.rounds.respond(reply, &mut parts.books.counts);
    tell(parts, told);
    if let Response::Page(page) = &reply.response
        && let Some(next) = page.next
    {
        ask_more(parts, reply, next);
    }
}

/// Asks for the next page of a list when the one before it is taken in, so few are under way. `ends` says that it would find no room: the
/// list need not be kept.
fn ask_more(parts: &mut Parts, reply: &Reply, next: Next) {
    let asker = parts.ids.me.place();
    let more = More {
        asker,
        round: reply.number,
        list: next.list,
        ends: !parts.rounds.takes_more(reply.number),
    };
    if reply.node != asker.node {
        send::ask_more_away(parts, reply.node, next.shard, &more);
    } else if next.shard < parts.ids.me.shards {
        send::send_to(parts, next.shard, more);
    }
}

/// The way to other nodes says something.
pub(crate) fn on_tidings(parts: &mut Parts, tidings: &Tidings) {
    match tidings {
        Tidings::Confirmed { ticket } => return waiting::confirmed(parts, *ticket),
        // The node may have told meanwhile that it has no members of a room any more.
        Tidings::Missed { node, .. } if parts.rooms.tells_nodes() => {
            parts.rooms.node_down(*node, parts.clock.now.mono_ms);
            parts.rooms.tell_all_again();
        }
        Tidings::Down { node } => parts.rooms.node_down(*node, parts.clock.now.mono_ms),
        _ => {}
    }
    let told = parts.rounds.on_tidings(tidings);
    tell(parts, told);
}

/// Opens a round of so many shards, and of other nodes if there are any.
pub(crate) fn round(
    parts: &mut Parts,
    target: &Target<'_>,
    question: (Answers, u64),
    shards: u32,
    timeout_ms: u64,
) -> Option<RoundId> {
    let abroad = send::has_away(parts, target);
    if !acks_admitted(parts, 1) {
        return None;
    }
    let number = parts.rounds.open(question, shards, abroad);
    watch_ack(parts, number, timeout_ms);
    Some(RoundId {
        asker: parts.ids.me.place(),
        number,
        ack: parts.rounds.next_id(),
        timeout_ms,
        parts: 0,
        pages: false,
    })
}

/// Broadcast whose receivers must answer; the handler gets `collected` with the token.
pub(crate) fn collect(
    parts: &mut Parts,
    target: &Target<'_>,
    shards: ShardSet,
    out: &mut Outgoing<'_>,
    timeout_ms: u64,
    token: u64,
) {
    let Some(round) = round(
        parts,
        target,
        (Answers::acks(), token),
        // This shard answers as well.
        shards.len() + 1,
        timeout_ms,
    ) else {
        let collected = Collected::default();
        let told = Told::Collected { token, collected };
        return parts.outbound.tell(told);
    };
    // A socket that a volatile question does not reach counts as undelivered, whichever shard has it.
    if !shards.is_empty() {
        let broadcast = Broadcast::new(target, &out.event);
        send::send_all(parts, shards, Order::Broadcast(broadcast, Some(round)));
    }
    ask_away(parts, target, Ask::Question(&out.event, round), round);
    take_part(parts, target, out, round);
}

/// Other nodes are asked, or the round is told that they cannot be.
pub(crate) fn ask_away(parts: &mut Parts, target: &Target<'_>, ask: Ask<'_>, round: RoundId) {
    if send::send_away(parts, target, ask) == Reach::ThisNode {
        let round = round.number;
        on_tidings(parts, &Tidings::Refused { round });
    }
}

/// Delivers a broadcast with ack to all local receivers or, if so many answers may not be waited for, to none; and tells
/// the asker which.
pub(crate) fn take_part(
    parts: &mut Parts,
    target: &Target<'_>,
    out: &mut Outgoing<'_>,
    round: RoundId,
) {
    let receivers = parts.rooms.select(&mut parts.people, target);
    let meant = receivers.len();
    let mut count = 0;
    if acks_admitted(parts, meant) {
        let mut audience = parts.audience();
        audience.prepare(target, out);
        audience.note_rooms(target);
        let id = match round.asker.node == parts.ids.me.node {
            true => round.ack,
            // Ids of another node are not unique here.
            false => parts.rounds.next_id(),
        };
        out.ack = Some(id);
        let mut asked = Vec::with_capacity(meant);
        for socket in receivers {
            if parts.speaker().deliver(socket, out) {
                asked.push(parts.people.sockets.key(socket));
            }
        }
        count = asked.len();
        if count > 0 {
            parts.rounds.take_part(id, round, asked);
            watch_ack(parts, id, round.timeout_ms);
        }
    }
    let delivered = Response::Delivered {
        asked: count as u64,
        undelivered: (meant - count) as u64,
    };
    respond(parts, round, delivered);
}

/// Asks the handlers of all other servers of a namespace; the handler gets `collected` with the token.
pub(crate) fn ask_servers(
    parts: &mut Parts,
    target: &Target<'_>,
    event: &Emit<'_>,
    timeout_ms: u64,
    token: u64,
) {
    let alone = !send::has_away(parts, target);
    let round = match alone {
        true => None,
        false => round(parts, target, (Answers::acks(), token), 0, timeout_ms),
    };
    let Some(round) = round else {
        let collected = Collected {
            complete: alone,
            ..Collected::default()
        };
        let told = Told::Collected { token, collected };
        return parts.outbound.tell(told);
    };
    ask_away(parts, target, Ask::Server(event, Some(round)), round);
}

/// Another server has something for this one's handler.
pub(crate) fn server_asked(parts: &mut Parts, what: &Broadcast, round: Option<RoundId>) {
    if let Some(round) = round {
        // The handler is one receiver: it counts now, and answers when it likes.
        let (asked, undelivered) = (1, 0);
        respond(parts, round, Response::Delivered { asked, undelivered });
    }
    parts.outbound.tell(Told::Server {
        what: Box::new(what.clone()),
        ack: round.map(|round| ServerAck { round }),
    });
}

/// The handler answers another server.
pub(crate) fn answer_server(parts: &mut Parts, ack: ServerAck, answer: Answer) {
    respond(parts, ack.round, Response::Ack(answer));
}
