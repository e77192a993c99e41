//! The beginning and the end of a turn: its time, what is due, what is announced, its account.

use crate::access::tokens;
use crate::bounds::{ANNOUNCE_MS, CHORES_PER_TURN};
use crate::cluster::{asking, listing, waiting};
use crate::hearing::{decisions, expiry};
use crate::life::{chronicling, returning, roll, shedding};
use crate::parts::Parts;
use crate::rooms::membership::NewCount;
use crate::seam::publish;
use crate::seam::stage::Stage;
use crate::tables::clock::Now;
use crate::tables::timer::Owners;
use crate::transport::{drain, flush, timers};

/// What a turn took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// From readiness to the end of the flush, microseconds.
    pub us: u64,
    /// Messages that wait in the shard's mailbox.
    pub mailbox: usize,
}

/// Sets the time of the turn.
pub(crate) fn begin(parts: &mut Parts, now: Now) {
    let before = std::mem::replace(&mut parts.clock.now, now);
    // Tokens end by the wall clock: after a leap a heartbeat may come too late for a warning.
    if now.leaps_from(before) {
        tokens::look_at_all_tokens(&parts.books.config, &mut parts.clock, &mut parts.people);
    }
    if parts.traces.is_on() {
        parts.traces.begin_turn(now);
    }
    parts.books.begin_turn();
    // The new budget forgets the deliveries of the last turn, so they are booked first.
    flush::count_deliveries(&mut parts.books, &mut parts.line);
    parts.line.budget.begin_turn();
}

/// Carries out what is due: its share, so that nobody's input waits for the timers of thousands. `behind`: input of some connections is
/// still unread, so their silence proves nothing, and deadlines that would end them are put off.
pub(crate) fn tick(stage: &mut Stage, behind: bool) {
    let now = stage.parts.clock.now.mono_ms;
    // Connections that wait for a mailbox are not read either.
    let behind = behind || stage.parts.line.intake.held_back() > 0;
    stage.parts.clock.fall_behind(behind);
    for owners in Owners::ALL {
        for _ in 0..CHORES_PER_TURN {
            let Some(due) = stage.parts.clock.timers.pop_due(owners, now) else {
                break;
            };
            timers::on_timer(stage, due);
        }
    }
    expiry::expire_tokens(&mut stage.parts);
    for _ in 0..CHORES_PER_TURN {
        // Rounds that are late at the same time end as many lists.
        if stage.parts.line.budget.is_listed() {
            break;
        }
        let Some(id) = stage.parts.clock.timers.pop_ack_due(now) else {
            break;
        };
        asking::ack_due(&mut stage.parts, id);
    }
    listing::step(&mut stage.parts);
    chronicling::end_late(&mut stage.parts);
    waiting::release_late(&mut stage.parts);
    returning::tick(&mut stage.parts);
    // Announcing frees what is empty; handlers are told of the last socket while its namespace is still known.
    decisions::settle(stage);
    stage.parts.rooms.people_leave(now);
    announce(stage);
    roll::tell(&mut stage.parts);
    drain::step(&mut stage.parts, behind);
    shedding::shed_slowest(&mut stage.parts);
    decisions::settle(stage);
}

/// Tells handlers and other shards how many sockets rooms have now.
fn announce(stage: &mut Stage) {
    let now_ms = stage.parts.clock.now.mono_ms;
    if now_ms < stage.parts.clock.announce_due_ms || !stage.parts.rooms.changes.any() {
        return;
    }
    let (counts, is_done) = publish::announce_changes(&mut stage.parts);
    // What found no room in this turn is announced in the next one.
    let pause_ms = if is_done { ANNOUNCE_MS } else { 0 };
    stage.parts.clock.announce_due_ms = now_ms + pause_ms;
    for count in counts {
        let NewCount {
            namespace,
            room,
            members,
            presence,
            tell,
            ..
        } = count;
        if !tell {
            continue;
        }
        stage.call(None, |handler, cx| {
            handler.room_count_changed(cx, &namespace, &room, members);
        });
        if let Some(presence) = presence {
            stage.call(None, |handler, cx| {
                handler.presence_changed(cx, &namespace, &room, &presence);
            });
        }
    }
}

/// When the hub has something to do next, on the clock of `Now::mono_ms`.
pub(crate) fn next_due(parts: &Parts) -> Option<u64> {
    let Now { mono_ms, wall_ms } = parts.clock.now;
    let announce = parts
        .rooms
        .changes
        .any()
        .then_some(parts.clock.announce_due_ms);
    let expiry = parts.clock.expiries.next_due_s();
    let expiry = expiry.map(|due_s| mono_ms + (due_s * 1000).saturating_sub(wall_ms));
    let drain = parts.access.next_look(mono_ms);
    let join = waiting::next_due_ms(parts);
    let due = parts.clock.timers.next_due();
    let roll = parts.people.roll.due_ms();
    let returns = parts.recovery.as_ref();
    let returns = returns.and_then(|recovery| recovery.next_deadline_ms());
    let people = parts.rooms.rolls.next_due_ms();
    let takers = drain::awaits_takers(parts);
    let lists = parts.rounds.lists.next_due_ms(mono_ms);
    [
        due, announce, drain, expiry, join, roll, returns, people, takers, lists,
    ]
    .into_iter()
    .flatten()
    .min()
}

/// Books the turn and publishes the counters.
pub(crate) fn end(parts: &mut Parts, spent: Spent) {
    parts.access.admission.turn_took(spent.us);
    parts.books.counts.mailbox = spent.mailbox as u64;
    parts.books.turn_took(spent.us);
    flush::publish(parts);
    parts.books.end_turn();
}
