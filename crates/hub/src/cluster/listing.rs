//! Lists of sockets, on the asker's shard and on each shard that has some. A long list is made a page at a time, and other shards and nodes
//! get a page when they ask for it. So what is said to clients waits for a few pages, however many sockets are listed (ADR 85).

use crate::bounds::{CHORES_PER_TURN, PAGE_BYTES, PAGE_SOCKETS};
use crate::cluster::asking::{self, respond};
use crate::cluster::foreign::ELSEWHERE;
use crate::cluster::letter::{
    Address, Fetched, Found, More, Next, Order, Page, Response, RoundId, Target,
};
use crate::cluster::rounds::Answers;
use crate::cluster::rounds::Rounds;
use crate::cluster::send;
use crate::cluster::wire::Ask;
use crate::parts::Parts;
use crate::seam::told::Told;
use crate::tables::id::Ids;
use crate::tables::id::Place;
use crate::tables::shards::ShardSet;
use crate::tables::slot::SocketKey;

/// How an asker takes a long list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    /// Page by page, each when it asks for it.
    Asked,
    /// Page by page, as they are made.
    Pages,
    /// In one piece.
    Whole,
}

fn takes(ids: &Ids, round: RoundId) -> Takes {
    let is_ours = round.asker == ids.me.place();
    match is_ours || round.asker.node == ELSEWHERE {
        true => Takes::Pages,
        false if round.pages => Takes::Asked,
        false => Takes::Whole,
    }
}

/// Asks these shards and this one for the sockets a target means; the handler gets `found` with the token.
pub(crate) fn fetch(
    parts: &mut Parts,
    target: &Target<'_>,
    shards: ShardSet,
    timeout_ms: u64,
    token: u64,
) {
    let (mut here, rest) = first_page(parts, target);
    let alone = shards.is_empty() && !send::has_away(parts, target);
    let is_whole = alone && rest.is_empty();
    let question = (Answers::sockets(), token);
    // A list that is one page of one shard needs no round.
    let round = match is_whole {
        true => None,
        false => asking::round(parts, target, question, shards.len() + 1, timeout_ms),
    };
    let Some(mut round) = round else {
        here.complete = is_whole;
        return parts.outbound.tell(Told::Found {
            token,
            found: here,
            kept: None,
        });
    };
    round.pages = true;
    if !shards.is_empty() {
        let of = Address::from(target);
        send::send_all(parts, shards, Order::Fetch { of, round });
    }
    if !alone {
        asking::ask_away(parts, target, Ask::Fetch(round), round);
    }
    answer(parts, round, here, rest);
}

/// Another shard fetches.
pub(crate) fn fetched(parts: &mut Parts, target: &Target<'_>, round: RoundId) {
    let (here, rest) = first_page(parts, target);
    answer(parts, round, here, rest);
}

/// The first page of the local sockets of a target, and the keys of the others. The turn pays for the page, whoever gets it. A turn that
/// has made its share of first pages leaves all of the list for later: one word of a worker may ask for many lists.
fn first_page(parts: &mut Parts, target: &Target<'_>) -> (Found, Vec<SocketKey>) {
    let sockets = parts.rooms.select(&mut parts.people, target);
    let keys = sockets
        .into_iter()
        .map(|index| parts.people.sockets.key(index));
    let mut rest: Vec<SocketKey> = keys.collect();
    let mut here = Found {
        complete: true,
        ..Found::default()
    };
    if parts.line.budget.begins_lists() {
        let (sockets, bytes) = describe(parts, &mut rest);
        parts.line.budget.list(bytes);
        here.sockets = sockets;
    }
    (here, rest)
}

/// Takes a page of sockets off a list and describes them; their bytes.
fn describe(parts: &Parts, rest: &mut Vec<SocketKey>) -> (Vec<Fetched>, usize) {
    let most = rest.len().min(PAGE_SOCKETS);
    let (mut sockets, mut bytes) = (Vec::with_capacity(most), 0);
    for _ in 0..most {
        if bytes >= PAGE_BYTES {
            break;
        }
        let Some(key) = rest.pop() else {
            break;
        };
        // The socket may have left since the question came.
        let Some(socket) = parts.people.sockets.live(key) else {
            continue;
        };
        let extra = socket.extra.as_ref();
        let data = extra.and_then(|extra| extra.data.as_deref());
        let fetched = Fetched {
            id: socket.id.to_string(),
            rooms: parts.rooms.names_of(&parts.people, key.id()),
            data: data.unwrap_or("{}").to_owned(),
        };
        bytes += fetched.bytes();
        sockets.push(fetched);
    }
    (sockets, bytes)
}

/// Answers a fetch by what is described, or by a list that begins with it.
fn answer(parts: &mut Parts, round: RoundId, mut here: Found, rest: Vec<SocketKey>) {
    if rest.is_empty() {
        return respond(parts, round, Response::Sockets(here));
    }
    let opened = asking::acks_admitted(parts, 1).then(|| parts.rounds.open_list(round, rest));
    let Some(number) = opened.flatten() else {
        here.complete = false;
        return respond(parts, round, Response::Sockets(here));
    };
    asking::watch_ack(parts, number, round.timeout_ms);
    if here.sockets.is_empty() {
        return parts.rounds.begin_later(number);
    }
    if let Some(list) = parts.rounds.list(number) {
        let bytes = here.bytes();
        let rest = list.take_rest();
        list.add(here.sockets, bytes, rest);
    }
    say(parts, number, false);
}

/// The asker of a list says what it wants of it.
pub(crate) fn more(rounds: &mut Rounds, more: &More) {
    rounds.more(more);
}

/// Makes what is left of the turn's share of lists.
pub(crate) fn step(parts: &mut Parts) {
    let mut sockets = 0;
    while sockets < CHORES_PER_TURN && !parts.line.budget.is_listed() {
        let Some(number) = parts.rounds.lists.next(parts.clock.now.mono_ms) else {
            break;
        };
        let Some(mut rest) = begin(parts, number) else {
            continue;
        };
        let before = rest.len();
        let (made, made_bytes) = describe(parts, &mut rest);
        // A list whose page finds no room on its way costs a look, too.
        sockets += (before - rest.len()).max(1);
        parts.line.budget.list(made_bytes);
        if let Some(list) = parts.rounds.list(number) {
            list.add(made, made_bytes, rest);
        }
        say(parts, number, true);
    }
}

/// A list goes on: the sockets that are to be described now; `None`: nobody waits for it any more.
fn begin(parts: &mut Parts, number: u64) -> Option<Vec<SocketKey>> {
    let round = parts.rounds.list(number)?.round;
    let is_ours = round.asker == parts.ids.me.place();
    if is_ours && !parts.rounds.takes_more(round.number) {
        parts.rounds.end_list(number);
        // The round has no room for the rest: this end of the list says that it is not complete.
        respond(parts, round, Response::Sockets(Found::default()));
        return None;
    }
    let takes = takes(&parts.ids, round);
    let list = parts.rounds.list(number)?;
    list.is_waiting = false;
    // A page that found no room on its way is still there.
    let rest = match takes != Takes::Whole && list.has_page() {
        true => Vec::new(),
        false => list.take_rest(),
    };
    Some(rest)
}

/// So many bytes of a page may leave for an asker now: what clients publish comes first.
fn room_to(parts: &Parts, asker: Place) -> usize {
    let me = parts.ids.me.place();
    let limits = &parts.books.config.limits;
    if asker == me {
        usize::MAX
    } else if asker.node != me.node {
        parts.away.as_ref().map_or(0, |away| away.room_for_lists())
    } else if parts.line.intake.loads.is_long(asker.shard, limits) {
        0
    } else {
        usize::MAX
    }
}

/// Says what is described of a list, if its asker takes that, and sees to the rest. `again`: the list was under way.
fn say(parts: &mut Parts, number: u64, again: bool) {
    let now_ms = parts.clock.now.mono_ms;
    let Some(round) = parts.rounds.list(number).map(|list| list.round) else {
        return;
    };
    let (takes, me) = (takes(&parts.ids, round), parts.ids.me.place());
    let room = room_to(parts, round.asker);
    let Some(list) = parts.rounds.list(number) else {
        return;
    };
    let is_last = list.is_described();
    // A node of an earlier version takes the first answer for all of the list (ADR 85).
    if takes == Takes::Whole && !is_last {
        list.is_waiting = true;
        return parts.rounds.lists.goes_on(number, again);
    }
    if takes != Takes::Whole && list.made_bytes() > room {
        list.is_waiting = true;
        return parts.rounds.lists.hold(number, now_ms);
    }
    let found = list.take();
    if is_last {
        parts.rounds.end_list(number);
        return respond(parts, round, Response::Sockets(found));
    }
    let next = (takes == Takes::Asked).then_some(Next {
        shard: me.shard,
        list: number,
    });
    let sockets = found.sockets;
    respond(parts, round, Response::Page(Page { sockets, next }));
    if takes == Takes::Pages
        && let Some(list) = parts.rounds.list(number)
    {
        list.is_waiting = true;
        parts.rounds.lists.goes_on(number, again);
    }
}
