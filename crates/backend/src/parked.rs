//! Sockets without a worker.

use crate::entry::Entry;
use crate::home::{Home, Phase};
use crate::message::{Down, Why};
use crate::name::Name;
use crate::state::Backend;

/// The end of a socket waits so long for a worker that is told of it.
const END_KEPT_MS: u64 = 3_600_000;

impl Backend {
    /// Looks at a socket without a worker then, or before.
    pub(crate) fn look_by(&mut self, name: Name, due_ms: u64) {
        let Some(home) = self.homes.get_mut(&name) else {
            return;
        };
        if home.look_ms != 0 && home.look_ms <= due_ms {
            return;
        }
        self.looks.remove(&(home.look_ms, name));
        home.look_ms = due_ms.max(1);
        self.looks.insert((home.look_ms, name));
    }

    pub(crate) fn look_at_parked(&mut self, now_ms: u64) {
        while let Some((due_ms, name)) = self.looks.first().copied() {
            if due_ms > now_ms {
                return;
            }
            self.looks.pop_first();
            if let Some(home) = self.homes.get_mut(&name) {
                home.look_ms = 0;
            }
            self.look(now_ms, name);
            self.look_again(now_ms, name);
        }
    }

    /// When something of it is due next.
    fn look_again(&mut self, now_ms: u64, name: Name) {
        let patience_ms = self.settings.park_timeout_ms;
        let Some(home) = self.homes.get(&name) else {
            return;
        };
        let first = |is_meant: fn(&Entry) -> bool, kept_ms: u64| {
            let entry = home.held.iter().find(|entry| is_meant(entry));
            entry.map(|entry| entry.came_ms + kept_ms)
        };
        let closes = self.settings.close_when_absent && !home.closing;
        let due = [
            first(Entry::is_event, patience_ms),
            first(Entry::is_gone, END_KEPT_MS),
            closes.then_some(home.since_ms + patience_ms),
        ];
        if let Some(due_ms) = due.into_iter().flatten().min() {
            self.look_by(name, due_ms.max(now_ms + 1));
        }
    }

    /// A socket without a worker: events wait for a while only.
    fn look(&mut self, now_ms: u64, name: Name) {
        let patience_ms = self.settings.park_timeout_ms;
        let Some(home) = self.homes.get_mut(&name) else {
            return;
        };
        let tired = now_ms >= home.since_ms + patience_ms;
        if home.phase == Phase::Gone {
            let end = home.held.iter().find(|entry| entry.is_gone());
            let came_ms = end.map_or(home.since_ms, |end| end.came_ms);
            if now_ms >= came_ms + END_KEPT_MS {
                return self.give_up_end(name);
            }
        }
        let late = |entry: &Entry| entry.is_event() && entry.came_ms + patience_ms <= now_ms;
        // Events are in the order in which they came: the first one tells whether any is late.
        let first = home.held.iter().find(|entry| entry.is_event());
        let taken = match first.is_some_and(late) {
            true => home.take_held(late),
            false => Vec::new(),
        };
        let (mut refused, mut freed) = (Vec::new(), 0);
        for entry in taken {
            freed += entry.bytes;
            // A client that is gone is told nothing, but its event counts.
            let waits =
                home.phase == Phase::Gone || entry.ack().is_none_or(|ack| home.open.remove(ack));
            if waits {
                refused.push(entry.ack().unwrap_or(0));
            }
        }
        let closes = tired
            && self.settings.close_when_absent
            && home.phase == Phase::In
            && !std::mem::replace(&mut home.closing, true);
        self.release_bytes(freed);
        let lost = !refused.is_empty();
        for ack in refused {
            self.refuse(name, ack, Why::Absent);
        }
        if lost {
            self.bound_end(name);
        }
        if closes {
            self.tell(name, Down::Close { socket: name });
        }
    }

    /// An end that nobody was there to take has no more room than one that came while no worker was there. One with events waits
    /// with them.
    pub(crate) fn bound_end(&mut self, name: Name) {
        let most = self.ends_bytes_max();
        let home = self.homes.get_mut(&name);
        let waits = |home: &&mut Home| home.phase == Phase::Gone && home.worker.is_none();
        let Some(home) = home.filter(waits) else {
            return;
        };
        let beside = home.kept_bytes();
        let end = home.held.iter_mut().find(|entry| entry.is_gone());
        let more = end.map_or(0, |end| end.weigh(beside));
        home.bytes += more;
        let alone = !home.holds_events();
        self.take_bytes(more);
        if alone && self.bytes() > most {
            self.give_up_end(name);
        }
    }

    /// Nobody will hear of this end, nor of the events before it.
    pub(crate) fn give_up_end(&mut self, name: Name) {
        self.counts.dead_letters += 1;
        if let Some(home) = self.homes.get(&name) {
            let events = home.held.iter().filter(|entry| entry.is_event());
            self.counts.refused_absent += events.count() as u64;
        }
        self.forget(name);
    }
}
