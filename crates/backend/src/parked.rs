//! Sockets without a worker.

use crate::entry::Entry;
use crate::home::Phase;
use crate::message::{Down, Why};
use crate::name::Name;
use crate::state::Backend;

/// The end of a socket waits so long for a worker that is told of it.
const END_KEPT_MS: u64 = 3_600_000;

impl Backend {
    /// A socket without a worker: events wait for a while only.
    pub(crate) fn look(&mut self, now_ms: u64, name: Name) {
        let patience_ms = self.settings.park_timeout_ms;
        let Some(home) = self.homes.get_mut(&name) else {
            return;
        };
        let tired = now_ms >= home.since_ms + patience_ms;
        if home.phase == Phase::Gone {
            let end = home.held.iter().find(|entry| entry.is_gone());
            let came_ms = end.map_or(home.since_ms, |end| end.came_ms);
            if now_ms >= came_ms + END_KEPT_MS {
                self.counts.dead_letters += 1;
                return self.forget(name);
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
            let waits = entry.ack().is_none_or(|ack| home.open.remove(ack));
            if waits {
                refused.push(entry.ack().unwrap_or(0));
            }
        }
        let closes = tired
            && self.settings.close_when_absent
            && home.phase == Phase::In
            && !std::mem::replace(&mut home.closing, true);
        self.release_bytes(freed);
        for ack in refused {
            self.refuse(name, ack, Why::Absent);
        }
        if closes {
            self.tell(name, Down::Close { socket: name });
        }
    }
}
