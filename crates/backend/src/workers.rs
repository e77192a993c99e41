//! The workers of a backend, their links, and which of them gets a socket or a request for a session.

use crate::bounds::{PROBE_MS, WORKERS_MAX};
use crate::entry::Entry;
use crate::link::{Link, Stray};
use crate::name::Name;
use crate::past::Past;
use crate::proto;
use crate::settings::Settings;
use crate::taken::Taken;
use crate::worker::Worker;
use foldhash::fast::FixedState;
use std::collections::{BTreeMap, BTreeSet, HashMap};

#[derive(Debug, Default)]
pub(crate) struct Workers {
    all: BTreeMap<u64, Worker>,
    links: HashMap<Link, u64, FixedState>,
    made: u64,
    past: Past,
    /// `Settings.slow_after_ms`.
    slow_after_ms: u64,
    /// When a newcomer was last let to them although all are slow.
    probed_ms: Option<u64>,
    /// Links that have something to fetch by `poll`.
    ready: BTreeSet<Link>,
    /// Links of workers that have nothing left.
    farewells: Vec<Link>,
    /// Links to end, and why.
    ended: Vec<(Link, Stray)>,
}

impl Workers {
    pub(crate) fn new(slow_after_ms: u64) -> Self {
        Self {
            slow_after_ms,
            ..Self::default()
        }
    }

    pub(crate) fn made(&self) -> u64 {
        self.made
    }

    pub(crate) fn past(&self) -> &Past {
        &self.past
    }

    /// Workers of another process, which are to come by links of their own.
    pub(crate) fn restore(&mut self, all: BTreeMap<u64, Worker>, past: Past, made: u64) {
        (self.all, self.past, self.made) = (all, past, made);
    }

    pub(crate) fn get(&self, id: u64) -> Option<&Worker> {
        self.all.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut Worker> {
        self.all.get_mut(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Worker)> {
        self.all.iter().map(|(id, worker)| (*id, worker))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut Worker)> {
        self.all.iter_mut().map(|(id, worker)| (*id, worker))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Those for which something holds.
    pub(crate) fn with(&self, holds: impl Fn(&Worker) -> bool) -> Vec<u64> {
        let found = self.iter().filter(|(_, worker)| holds(worker));
        found.map(|(id, _)| id).collect()
    }

    pub(crate) fn attached(&self) -> usize {
        let attached = self.all.values().filter(|worker| worker.link.is_some());
        attached.count()
    }

    // ---- links ----------------------------------------------------------------------------------------------------------------

    pub(crate) fn of_link(&self, link: Link) -> Option<u64> {
        self.links.get(&link).copied()
    }

    pub(crate) fn named(&self, instance: &str) -> Option<u64> {
        let mut known = self.iter();
        let known = known.find(|(_, worker)| worker.profile.instance == instance);
        known.map(|(id, _)| id)
    }

    /// One more, which begins or goes on where its last life was given up; `None`: there are too many.
    pub(crate) fn hire(&mut self, now_ms: u64, hello: &proto::Hello, goes_on: bool) -> Option<u64> {
        if self.all.len() >= WORKERS_MAX {
            return None;
        }
        let id = self.made;
        self.made += 1;
        let mut worker = Worker::new(hello, now_ms);
        worker.taken = Taken::of(goes_on, self.past.take(&hello.instance), now_ms);
        self.all.insert(id, worker);
        Some(id)
    }

    /// It speaks by this link, and by no other.
    pub(crate) fn connect(&mut self, id: u64, link: Link) {
        let worker = self.all.get_mut(&id);
        if let Some(old) = worker.and_then(|worker| worker.link.replace(link)) {
            self.unlink(old);
            self.ended.push((old, Stray::Replaced));
        }
        self.links.insert(link, id);
        self.ready.insert(link);
    }

    pub(crate) fn detach(&mut self, now_ms: u64, link: Link) {
        let Some(id) = self.unlink(link) else { return };
        if let Some(worker) = self.all.get_mut(&id) {
            worker.link = None;
            worker.heard(now_ms);
        }
    }

    fn unlink(&mut self, link: Link) -> Option<u64> {
        self.ready.remove(&link);
        self.links.remove(&link)
    }

    /// The link may have something to fetch, or room again.
    pub(crate) fn wake(&mut self, link: Link) {
        if self.links.contains_key(&link) {
            self.ready.insert(link);
        }
    }

    /// Its worker may let go of all commands that are taken in: they are large.
    pub(crate) fn confirm(&mut self, link: Link) {
        let id = self.of_link(link);
        if let Some(worker) = id.and_then(|id| self.all.get_mut(&id)) {
            worker.taken.confirm();
            self.ready.insert(link);
        }
    }

    /// Those that have not been told for a while how many of their commands are taken in.
    pub(crate) fn wake_late(&mut self, now_ms: u64) {
        let late = self.all.values();
        let late = late.filter(|worker| worker.taken.is_late(now_ms));
        self.ready.extend(late.filter_map(|worker| worker.link));
    }

    /// Items of these wait for others, or for time to pass.
    pub(crate) fn wake_waiting(&mut self) {
        let waiting = self.all.values();
        let waiting = waiting.filter(|worker| worker.backlog.holds_back());
        self.ready.extend(waiting.filter_map(|worker| worker.link));
    }

    pub(crate) fn take_ready(&mut self) -> BTreeSet<Link> {
        std::mem::take(&mut self.ready)
    }

    pub(crate) fn take_farewells(&mut self) -> Vec<Link> {
        std::mem::take(&mut self.farewells)
    }

    pub(crate) fn take_ended(&mut self) -> Vec<(Link, Stray)> {
        std::mem::take(&mut self.ended)
    }

    // ---- items and sockets ----------------------------------------------------------------------------------------------------

    /// `false`: there is no such worker.
    pub(crate) fn enqueue(&mut self, id: u64, entries: impl IntoIterator<Item = Entry>) -> bool {
        let Some(worker) = self.all.get_mut(&id) else {
            return false;
        };
        entries.into_iter().for_each(|entry| worker.enqueue(entry));
        self.ready.extend(worker.link);
        true
    }

    /// It has this socket no more.
    pub(crate) fn part(&mut self, id: u64, name: &Name) {
        if let Some(worker) = self.all.get_mut(&id) {
            worker.sockets.remove(name);
            worker.parting.remove(name);
        }
    }

    // ---- ends -----------------------------------------------------------------------------------------------------------------

    pub(crate) fn remove(&mut self, id: u64) -> Option<Worker> {
        let worker = self.all.remove(&id)?;
        if let Some(link) = worker.link {
            self.unlink(link);
        }
        Some(worker)
    }

    /// It is lost: how much of its words was taken in is kept, and it is told why.
    pub(crate) fn dismiss(&mut self, id: u64, why: Stray) {
        let Some(worker) = self.all.get(&id) else {
            return;
        };
        if let Some(commands) = worker.taken.legacy() {
            let instance = worker.profile.instance.clone();
            self.past.note(instance, commands);
        }
        self.ended.extend(worker.link.map(|link| (link, why)));
    }

    /// It has nothing left.
    pub(crate) fn say_farewell(&mut self, id: u64) {
        let link = self.all.get(&id).and_then(|worker| worker.link);
        self.farewells.extend(link);
    }

    /// Those that are lost by now, and why.
    pub(crate) fn lost(&mut self, now_ms: u64, settings: &Settings) -> Vec<(u64, Stray)> {
        let lost = |worker: &mut Worker| {
            worker.look(now_ms);
            match worker.link {
                None => {
                    let away = worker.unheard(now_ms, settings.rehome_after_ms);
                    away.then_some(Stray::Unknown)
                }
                Some(_) if worker.unheard(now_ms, settings.silent_after_ms) => Some(Stray::Silent),
                Some(_) => {
                    let stalled = worker.is_stalled(now_ms, settings.stalled_after_ms);
                    stalled.then_some(Stray::Stalled)
                }
            }
        };
        let workers = self.all.iter_mut();
        workers
            .filter_map(|(id, worker)| Some((*id, lost(worker)?)))
            .collect()
    }

    /// The gateway stood still: what it heard of nobody counts for nobody.
    pub(crate) fn forgive(&mut self, now_ms: u64, still_ms: u64) {
        for worker in self.all.values_mut() {
            worker.forgive(now_ms, still_ms);
        }
    }

    // ---- choosing -------------------------------------------------------------------------------------------------------------

    /// The worker for one more socket.
    pub(crate) fn choose(&self, now_ms: u64) -> Option<u64> {
        self.choose_among(now_ms, Worker::takes_sockets)
    }

    pub(crate) fn choose_among(&self, now_ms: u64, takes: impl Fn(&Worker) -> bool) -> Option<u64> {
        let slow = |worker: &Worker| worker.is_slow(now_ms, self.slow_after_ms);
        let takers = self.iter().filter(|(_, worker)| takes(worker));
        let best = takers.reduce(|best, other| match (slow(best.1), slow(other.1)) {
            (true, false) => other,
            (false, true) => best,
            _ if other.1.is_freer_than(best.1) => other,
            _ => best,
        });
        best.map(|(id, _)| id)
    }

    /// While every worker is slow, one newcomer a second goes through: it may find them well again.
    pub(crate) fn admit_newcomers(&mut self, now_ms: u64) -> bool {
        let takers = self.all.values();
        let mut takers = takers.filter(|worker| worker.takes_sockets()).peekable();
        let any = takers.peek().is_some();
        if !any || takers.any(|worker| !worker.is_slow(now_ms, self.slow_after_ms)) {
            return true;
        }
        let probes = self.probed_ms.is_none_or(|last| now_ms >= last + PROBE_MS);
        if probes {
            self.probed_ms = Some(now_ms);
        }
        probes
    }
}
