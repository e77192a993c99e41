//! The items kept for workers and on their way to them: the sockets, the workers, and the books of both.

use crate::counts::Counts;
use crate::endpoint::Endpoint;
use crate::entry::Entry;
use crate::home::{Home, Phase};
use crate::homes::Homes;
use crate::ledger::Ledger;
use crate::message::Refusal;
use crate::name::Name;
use crate::outlet::Outlet;
use crate::proto::item::What;
use crate::settings::Settings;
use crate::workers::Workers;

#[derive(Debug)]
pub(crate) struct Queue {
    /// The time of the current call.
    pub(crate) now_ms: u64,
    pub(crate) settings: Settings,
    pub(crate) homes: Homes,
    pub(crate) workers: Workers,
    /// If the logic is an endpoint that is called.
    pub(crate) endpoint: Option<Endpoint>,
    pub(crate) ledger: Ledger,
    pub(crate) outlet: Outlet,
}

impl Queue {
    pub(crate) fn new(settings: Settings, endpoint: Option<Endpoint>) -> Self {
        Self {
            now_ms: 0,
            homes: Homes::default(),
            workers: Workers::new(settings.slow_after_ms),
            endpoint,
            ledger: Ledger::new(settings.queue_bytes_max),
            outlet: Outlet::default(),
            settings,
        }
    }

    pub(crate) fn counts(&mut self) -> &mut Counts {
        &mut self.outlet.counts
    }

    /// The logic is an endpoint.
    pub(crate) fn is_called(&self) -> bool {
        self.endpoint.is_some()
    }

    /// A client that waits for an answer is told at once that there will be none.
    pub(crate) fn is_cut_off(&self) -> bool {
        let endpoint = self.endpoint.as_ref();
        endpoint.is_some_and(|endpoint| endpoint.is_cut_off(self.now_ms))
    }

    // ---- in -----------------------------------------------------------------------------------------------------------------

    /// News of a socket, kept for as long as an endpoint may need it.
    pub(crate) fn entry(&self, name: Name, what: What) -> Entry {
        self.kept(Entry::new(Some(name), what, self.now_ms))
    }

    pub(crate) fn kept(&self, mut entry: Entry) -> Entry {
        if self.is_called() {
            // It may wait for long, and so may as many as there is room for.
            entry.bytes += Entry::KEPT_BYTES;
        }
        entry
    }

    /// Behind all that waits for the socket's worker.
    pub(crate) fn push(&mut self, name: Name, mut entry: Entry) {
        if let Some(later) = self.homes.later_mut(&name) {
            later.items.book(&mut entry);
            self.ledger.take(entry.bytes);
            return later.items.hold(entry);
        }
        let Some(home) = self.homes.get_mut(&name) else {
            return;
        };
        home.items.book(&mut entry);
        self.ledger.take(entry.bytes);
        let worker = home.worker.and_then(|id| Some((id, self.workers.get(id)?)));
        match worker {
            Some((_, worker)) if worker.parting.contains(&name) => home.items.hold(entry),
            Some((id, _)) => {
                self.workers.enqueue(id, [entry]);
            }
            None => {
                let due_ms = entry.came_ms + self.settings.park_timeout_ms;
                home.items.hold(entry);
                match &mut self.endpoint {
                    Some(endpoint) => endpoint.came(name, home),
                    None => self.homes.look_by(name, due_ms),
                }
            }
        }
    }

    /// News of a beginning or an end, for an endpoint: more than it may keep is lost, and counted.
    pub(crate) fn push_news(&mut self, name: Name, entry: Entry) {
        // Behind an event that was accepted, the end waits with it: it may not take the event with it.
        let is_sure = |home: &Home| home.worker.is_some() || home.items.hold_events();
        let fits = match self.endpoint {
            Some(_) => self.ledger.has_room(entry.bytes),
            None if self.homes.last(&name).is_some_and(is_sure) => true,
            None => self.ledger.has_spare_room(entry.bytes),
        };
        if fits {
            return self.push(name, entry);
        }
        if entry.is_gone() {
            return self.give_up_last_end(name);
        }
        self.counts().dead_letters += 1;
    }

    /// For a worker, about no socket.
    pub(crate) fn reply(&mut self, worker: u64, what: What) {
        let entry = Entry::new(None, what, self.now_ms);
        let bytes = entry.bytes;
        if self.workers.enqueue(worker, [entry]) {
            self.ledger.take(bytes);
        }
    }

    // ---- out ----------------------------------------------------------------------------------------------------------------

    pub(crate) fn release(&mut self, entry: &Entry) {
        self.ledger.release(entry.bytes);
        if let Some(home) = self.homes.of_mut(entry) {
            home.items.release(entry.bytes);
        }
    }

    /// A worker has handled it.
    pub(crate) fn handled(&mut self, entry: Entry) {
        if let Some(home) = self.homes.of_mut(&entry)
            && home.waits_for(&entry)
        {
            return home.items.owe(entry);
        }
        self.finish(&entry);
    }

    /// Nobody waits for anything of it any more.
    pub(crate) fn finish(&mut self, entry: &Entry) {
        self.release(entry);
        let home = self.homes.of(entry);
        if entry.is_gone()
            && home.is_some_and(|home| home.phase == Phase::Gone)
            && let Some(name) = entry.about
        {
            self.forget(name);
        }
    }

    /// Nothing is known of the socket any more. Messages on their way to a worker are taken off the books there.
    pub(crate) fn forget(&mut self, name: Name) {
        let Some(home) = self.homes.remove(&name) else {
            return;
        };
        self.ledger.release(home.items.bytes_here());
        if let Some(endpoint) = &mut self.endpoint {
            endpoint.leave(name, &home.turn);
        }
        if let Some(id) = home.worker {
            self.workers.part(id, &name);
        }
    }

    /// The same for its last life, of which no worker has heard if it is not the first.
    pub(crate) fn forget_last(&mut self, name: Name) {
        match self.homes.remove_later(&name) {
            Some(home) => self.ledger.release(home.items.bytes_here()),
            None => self.forget(name),
        }
    }

    /// Whether somebody still waits for what is in it. It is about a socket.
    pub(crate) fn is_wanted(&self, entry: &Entry) -> bool {
        let Some(home) = self.homes.of(entry) else {
            return false;
        };
        let gone = home.phase == Phase::Gone;
        // A client that is gone waits for no decision.
        let undecided = entry.introduces() && !home.admitted;
        if self.is_called() && undecided && gone {
            return false;
        }
        // Its client was told already that it will not be answered.
        let refused = entry.ack().is_some_and(|ack| !home.items.awaits(ack));
        !refused || gone
    }

    // ---- clients ------------------------------------------------------------------------------------------------------------

    /// A newcomer is let in or not.
    pub(crate) fn decide(&mut self, socket: Name, decision: Result<(), Refusal>) {
        let Some(home) = self.homes.get_mut(&socket) else {
            return;
        };
        let Some(number) = home.deciding() else {
            return;
        };
        match decision {
            Ok(()) => self.ledger.release(home.admit()),
            Err(_) => self.forget(socket),
        }
        self.outlet.decide(socket, number, decision);
    }

    /// A client's event has its answer, or will have none. `false`: the client does not wait for one.
    pub(crate) fn settle_ack(&mut self, socket: Name, ack: u64) -> bool {
        let home = self.homes.last_mut(&socket);
        let freed = home.and_then(|home| home.items.settle(ack));
        self.ledger.release(freed.unwrap_or(0));
        freed.is_some()
    }

    // ---- ends of sockets ----------------------------------------------------------------------------------------------------

    /// An end that nobody was there to take has no more room than one that came while no worker was there. One with events waits
    /// with them.
    pub(crate) fn bound_end(&mut self, name: Name) {
        let home = self.homes.get_mut(&name);
        let waits = |home: &&mut Home| home.phase == Phase::Gone && home.worker.is_none();
        let Some(home) = home.filter(waits) else {
            return;
        };
        let beside = home.kept_bytes();
        self.ledger.take(home.items.weigh_end(beside));
        if !home.items.hold_events() && !self.ledger.has_spare_room(0) {
            self.give_up_end(name);
        }
    }

    /// Nobody will hear of this end, nor of the events before it.
    pub(crate) fn give_up_end(&mut self, name: Name) {
        self.outlet.counts.lost_end(self.homes.get(&name));
        self.forget(name);
    }

    /// The same for the end of its last life.
    fn give_up_last_end(&mut self, name: Name) {
        self.outlet.counts.lost_end(self.homes.last(&name));
        self.forget_last(name);
    }
}
