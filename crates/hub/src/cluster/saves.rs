//! Words to clients whose sockets are known to a store. Each waits until the record of the client's own socket is stored. Namespaces do not
//! wait for each other, because each has its own way to the store. A shard's words go that way in order, so one number says what is stored.

use crate::books::ledger::Account;
use crate::bounds::SAVE_WAIT_MS;
use crate::cluster::waitlist::{Waitlist, Waits};
use crate::tables::slot::{ConnKey, SessionKey, SocketKey};
use std::collections::BTreeMap;

/// What waits in one namespace.
#[derive(Debug)]
struct Course {
    /// All of this shard is stored up to this ticket.
    stored: u64,
    parked: Waitlist,
}

/// All that waits on a shard.
#[derive(Debug)]
pub(crate) struct Saves {
    given: u64,
    /// Each namespace has an account like this one.
    acks: Account,
    courses: BTreeMap<Box<str>, Course>,
    /// What found no room.
    surplus: Vec<Waits>,
}

impl Saves {
    pub(crate) fn new(acks: Account) -> Self {
        Self {
            given: 0,
            acks,
            courses: BTreeMap::new(),
            surplus: Vec::new(),
        }
    }

    /// The next word to the store has this ticket.
    pub(crate) fn ticket(&mut self) -> u64 {
        self.given += 1;
        self.given
    }

    /// Whether a word of this namespace is not stored yet.
    pub(crate) fn is_open(&self, namespace: &str, ticket: u64) -> bool {
        let course = self.courses.get(namespace);
        ticket > course.map_or(0, |course| course.stored)
    }

    /// Lets something wait for a ticket. What finds no room may not leave: its session ends with this turn.
    pub(crate) fn park(&mut self, namespace: &str, ticket: u64, what: Waits, now_ms: u64) {
        let surplus = match self.course(namespace) {
            Some(course) => course.parked.put(ticket, what, now_ms),
            None => Some(what),
        };
        // Its session ends, so nobody hears what it says.
        self.surplus.extend(surplus.map(Waits::emptied));
    }

    /// What found no room.
    pub(crate) fn take_surplus(&mut self) -> Vec<Waits> {
        std::mem::take(&mut self.surplus)
    }

    /// All of a namespace is stored up to a ticket; what may leave now.
    pub(crate) fn stored(&mut self, namespace: &str, ticket: u64) -> Vec<Waits> {
        let Some(course) = self.course(namespace) else {
            return Vec::new();
        };
        course.stored = course.stored.max(ticket);
        let stored = course.stored;
        // What waits does not stand in the order of tickets: the one of a socket may be older than those before it.
        course.parked.all(|ticket| ticket <= stored)
    }

    /// Nobody will store the word with this ticket; what may leave now.
    pub(crate) fn withdrawn(&mut self, ticket: u64) -> Vec<Waits> {
        let courses = self.courses.values_mut();
        courses
            .flat_map(|course| course.parked.all(|parked| parked == ticket))
            .collect()
    }

    /// What has waited for too long.
    pub(crate) fn overdue(&mut self, now_ms: u64) -> Vec<Waits> {
        let courses = self.courses.values_mut();
        courses
            .flat_map(|course| course.parked.due(now_ms))
            .collect()
    }

    /// A session goes on over a WebSocket: what waited with its polls waits there. How many times.
    pub(crate) fn carry_over(&mut self, from: SessionKey, to: ConnKey) -> u16 {
        let courses = self.courses.values_mut();
        let moved = courses.map(|course| course.parked.carry_over(from, to));
        moved.sum()
    }

    /// The sockets whose answers wait.
    pub(crate) fn answers(&self) -> impl Iterator<Item = SocketKey> + '_ {
        let courses = self.courses.values();
        courses.flat_map(|course| course.parked.answers())
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let courses = self.courses.values();
        courses.map(|course| course.parked.heap_bytes()).sum()
    }

    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        let courses = self.courses.values();
        courses
            .filter_map(|course| course.parked.next_due_ms())
            .min()
    }

    /// `Some` in all cases.
    fn course(&mut self, namespace: &str) -> Option<&mut Course> {
        if !self.courses.contains_key(namespace) {
            let course = Course {
                stored: 0,
                parked: Waitlist::new(SAVE_WAIT_MS, self.acks.another()),
            };
            self.courses.insert(namespace.into(), course);
        }
        self.courses.get_mut(namespace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::books::ledger::{Ledger, Stock};
    use crate::bounds::PARKED_ACKS_BYTES_MAX;
    use crate::cluster::waitlist::Carrier;
    use crate::tables::slot::{Key, SlotId};

    fn saves() -> Saves {
        Saves::new(Ledger::default().open(Stock::Acks, PARKED_ACKS_BYTES_MAX))
    }

    fn output(at: u32) -> Waits {
        Waits::Output(Carrier::Polls(Key::new(SlotId::at(at), 0)))
    }

    /// A namespace whose Redis was away held up, and then ended, those of all others.
    #[test]
    fn one_namespace_waited_for_another() {
        let mut saves = saves();
        let [a, b] = [(); 2].map(|()| saves.ticket());
        saves.park("/a", a, output(1), 0);
        saves.park("/b", b, output(2), 0);
        assert_eq!(saves.stored("/b", b).len(), 1);
        assert!(saves.is_open("/a", a) && !saves.is_open("/b", b));
        assert_eq!(saves.overdue(SAVE_WAIT_MS - 1).len(), 0);
        assert_eq!(saves.overdue(SAVE_WAIT_MS).len(), 1);
    }

    /// What waited for a socket that went at once ended its session, which had others.
    #[test]
    fn what_is_not_stored_any_more_is_not_waited_for() {
        let mut saves = saves();
        let [first, second] = [(); 2].map(|()| saves.ticket());
        saves.park("/", first, output(1), 0);
        saves.park("/", second, output(2), 0);
        assert_eq!(saves.withdrawn(second).len(), 1);
        assert_eq!(saves.withdrawn(second).len(), 0);
        assert!(saves.is_open("/", first));
        assert_eq!(saves.stored("/", first).len(), 1);
    }

    /// An ack left unstored when another socket had waited for too long.
    #[test]
    fn one_that_waited_for_too_long_took_the_tickets_of_others_along() {
        let mut saves = saves();
        let [early, late] = [(); 2].map(|()| saves.ticket());
        saves.park("/", late, output(1), 0);
        assert_eq!(saves.overdue(SAVE_WAIT_MS).len(), 1);
        assert!(saves.is_open("/", early) && saves.is_open("/", late));
        saves.park("/", early, output(2), SAVE_WAIT_MS);
        assert_eq!(saves.next_due_ms(), Some(2 * SAVE_WAIT_MS));
        assert_eq!(saves.stored("/", early).len(), 1);
        assert!(saves.is_open("/", late));
    }
}
