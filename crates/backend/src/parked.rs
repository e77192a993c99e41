//! Sockets without a worker: what of them waits for too long.

use crate::bounds::END_KEPT_MS;
use crate::entry::Entry;
use crate::home::Phase;
use crate::message::{Down, Why};
use crate::name::Name;
use crate::queue::Queue;

/// Those that are due by now.
pub(crate) fn look_at_all(queue: &mut Queue) {
    while let Some(name) = queue.homes.next_look(queue.now_ms) {
        look(queue, name);
        look_again(queue, name);
    }
}

/// When something of it is due next.
fn look_again(queue: &mut Queue, name: Name) {
    let patience_ms = queue.settings.park_timeout_ms;
    let Some(home) = queue.homes.get(&name) else {
        return;
    };
    let first = |is_meant: fn(&Entry) -> bool, kept_ms: u64| {
        let entry = home.items.held().iter().find(|entry| is_meant(entry));
        entry.map(|entry| entry.came_ms + kept_ms)
    };
    let closes = queue.settings.close_when_absent && !home.closing;
    let due = [
        first(Entry::is_event, patience_ms),
        first(Entry::is_gone, END_KEPT_MS),
        closes.then_some(home.since_ms + patience_ms),
    ];
    if let Some(due_ms) = due.into_iter().flatten().min() {
        queue.homes.look_by(name, due_ms.max(queue.now_ms + 1));
    }
}

/// Events wait for a while only, and ends for longer.
fn look(queue: &mut Queue, name: Name) {
    let patience_ms = queue.settings.park_timeout_ms;
    let Some(home) = queue.homes.get_mut(&name) else {
        return;
    };
    let tired = queue.now_ms >= home.since_ms + patience_ms;
    let gone = home.phase == Phase::Gone;
    if gone {
        let end = home.items.held().iter().find(|entry| entry.is_gone());
        let came_ms = end.map_or(home.since_ms, |end| end.came_ms);
        if queue.now_ms >= came_ms + END_KEPT_MS {
            return queue.give_up_end(name);
        }
    }
    let late = |entry: &Entry| entry.is_event() && entry.came_ms + patience_ms <= queue.now_ms;
    // Events are in the order in which they came: the first one tells whether any is late.
    let first = home.items.held().iter().find(|entry| entry.is_event());
    let taken = match first.is_some_and(late) {
        true => home.items.take_held(late),
        false => Vec::new(),
    };
    let closes = tired
        && queue.settings.close_when_absent
        && home.phase == Phase::In
        && !std::mem::replace(&mut home.closing, true);
    let mut lost = false;
    for entry in taken {
        queue.ledger.release(entry.bytes);
        // A client that is gone is told nothing, but its event counts.
        let waits = gone || entry.ack().is_none_or(|ack| home.items.end_wait(ack));
        if waits {
            lost = true;
            let ack = entry.ack().unwrap_or(0);
            queue.outlet.refuse(name, ack, Why::Absent);
        }
    }
    if lost {
        queue.bound_end(name);
    }
    if closes {
        queue.outlet.tell(name, Down::Close { socket: name });
    }
}
