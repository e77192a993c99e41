//! A backend: its workers, its sockets, and what is between them.

use crate::awaited::Awaited;
use crate::calls::Calls;
use crate::entry::Entry;
use crate::event::Event;
use crate::home::{Bond, Home, Introduction, Phase};
use crate::links::{Link, Stray};
use crate::loss::Deadly;
use crate::message::{Down, Out, Refusal, To, Up, Why};
use crate::name::Name;
use crate::openings::{OpeningCounts, Openings};
use crate::past::Past;
use crate::proto;
use crate::proto::item::What;
use crate::queries::Query;
use crate::rounds::Round;
use crate::settings::Settings;
use crate::worker::Worker;
use foldhash::fast::FixedState;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub events: u64,
    pub redelivered: u64,
    /// Sockets that moved to another worker.
    pub moved: u64,
    /// Workers that were lost: they did not come back in time, or began anew; said nothing; handled nothing; had too many commands fail, or cannot be read.
    pub lost_away: u64,
    pub lost_silent: u64,
    pub lost_stalled: u64,
    pub lost_failing: u64,
    pub lost_expelled: u64,
    pub refused_absent: u64,
    pub refused_busy: u64,
    pub refused_unanswered: u64,
    /// Events and CONNECTs over which worker after worker ended.
    pub refused_deadly: u64,
    /// Events that an endpoint did not take, or answered wrongly.
    pub refused_failed: u64,
    /// Items that went out alone, because workers had ended while they had them.
    pub alone: u64,
    /// Items that counted as handled because their handlers took too long.
    pub overdue: u64,
    /// Answers and decisions that came when nobody waited any more.
    pub late: u64,
    pub openings: OpeningCounts,
    /// Calls of an endpoint, by how they went.
    pub calls_taken: u64,
    pub calls_unread: u64,
    pub calls_refused: u64,
    pub calls_failed: u64,
    /// News of beginnings and ends that an endpoint will never get.
    pub dead_letters: u64,
    /// Commands in the answers of an endpoint that were not carried out.
    pub commands_failed: u64,
}

/// Payload of a CONNECT, which is kept for as long as its socket lives.
const AUTH_BYTES_MAX: usize = 64 << 10;
/// Newcomers are let to a slow backend one in so long: one that is handled shows that it is well again.
const PROBE_MS: u64 = 1_000;
/// Ends of nodes that are kept for the next worker; the oldest are given up.
pub(crate) const NODES_GONE_MAX: usize = 64;
/// Without a tick for so long, the process was stopped, or its shards had too much to do.
const STILL_MS: u64 = 1_000;
/// Places for outputs that are kept while there are none, at most.
const OUT_KEPT: usize = 1_024;

/// How often those that wait for an endpoint are looked at.
const LOOK_MS: u64 = 250;

/// Ids of sockets are random, and the shards make them: a fast hash without a secret is enough.
#[derive(Debug, Default)]
pub struct Backend {
    pub(crate) settings: Settings,
    pub(crate) homes: HashMap<Name, Home, FixedState>,
    /// Sockets without a worker.
    pub(crate) homeless: BTreeSet<Name>,
    /// When each of these is looked at, at most once.
    pub(crate) looks: BTreeSet<(u64, Name)>,
    pub(crate) workers: BTreeMap<u64, Worker>,
    pub(crate) links: HashMap<Link, u64, FixedState>,
    pub(crate) workers_made: u64,
    pub(crate) past: Past,
    /// Queries under way, by our numbers.
    pub(crate) queries: BTreeMap<u64, Query>,
    pub(crate) queries_made: u64,
    /// Questions of servers to each other.
    pub(crate) rounds: BTreeMap<u64, Round>,
    pub(crate) openings: Openings,
    /// All that is kept for workers.
    bytes: usize,
    decisions_due: VecDeque<(u64, Name)>,
    pub(crate) awaited: Awaited,
    probed_ms: Option<u64>,
    looked_ms: u64,
    ticked_ms: u64,
    /// Ends of other nodes that came while no worker was there, and when the first one heard of each.
    pub(crate) nodes_gone: VecDeque<(proto::NodeGone, Option<u64>)>,
    pub(crate) out: Vec<Out>,
    /// Where messages to workers are written.
    pub(crate) frame: Vec<u8>,
    /// Links that have something to fetch by `poll`.
    pub(crate) ready: BTreeSet<Link>,
    /// Links of workers that have nothing left.
    pub(crate) farewells: Vec<Link>,
    /// Links to end, and why.
    pub(crate) ended: Vec<(Link, Stray)>,
    /// Events that ended workers, for the log.
    pub(crate) deadly: Vec<Deadly>,
    pub(crate) counts: Counts,
    /// If its logic is an endpoint that is called.
    pub(crate) calls: Option<Calls>,
}

impl Backend {
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Workers that are attached. An endpoint that is well counts as one.
    pub fn workers(&self) -> usize {
        if let Some(well) = self.endpoint_is_well() {
            return usize::from(well);
        }
        let attached = self.workers.values().filter(|worker| worker.link.is_some());
        attached.count()
    }

    pub fn sockets(&self) -> usize {
        self.homes.len()
    }

    /// Sockets without a worker.
    pub fn parked(&self) -> usize {
        match self.endpoint_is_well() {
            None => self.homeless.len(),
            Some(true) => 0,
            Some(false) => self.in_row(),
        }
    }

    /// What is kept for workers.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A worker that asks and does not read gets its answers without what is in them.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes > self.settings.queue_bytes_max
    }

    /// What shards are to do, in order.
    pub fn take_out(&mut self) -> Vec<Out> {
        // The next ones are often as many.
        let places = self.out.len().min(OUT_KEPT);
        std::mem::replace(&mut self.out, Vec::with_capacity(places))
    }

    /// Links for which `poll` may have something.
    pub fn take_ready(&mut self) -> BTreeSet<Link> {
        std::mem::take(&mut self.ready)
    }

    /// Links to end now, and why.
    pub fn take_ended(&mut self) -> Vec<(Link, Stray)> {
        std::mem::take(&mut self.ended)
    }

    pub(crate) fn tell(&mut self, socket: Name, down: Down) {
        let to = To::Socket(socket);
        self.out.push(Out { to, down });
    }

    // ---- from shards ------------------------------------------------------------------------------------------------------

    pub fn up(&mut self, now_ms: u64, up: Up) {
        match up {
            Up::Connect(connect) => self.on_connect(now_ms, connect),
            Up::Event(event) => self.on_event(now_ms, event),
            Up::Opening(opening) => self.on_opening(now_ms, opening),
            Up::Moved {
                socket,
                room,
                joined,
                by,
            } => self.on_moved(now_ms, socket, room, joined, by),
            Up::Upgraded { socket } => self.on_upgraded(now_ms, socket),
            Up::Gone(gone) => self.on_gone(now_ms, gone),
            Up::Described {
                socket,
                rooms,
                data,
            } => self.on_described(now_ms, socket, rooms, data),
            Up::NodeGone(gone) => self.on_node_gone(now_ms, gone),
            Up::Counted(counted) => self.on_counted(now_ms, counted),
            Up::Told(told) => self.on_told(now_ms, *told),
            Up::Answers(mut answers) => {
                if self.is_full() {
                    answers.missing += answers.answers.len() as u64;
                    answers.answers = Vec::new();
                }
                if self.answered_away(now_ms, &mut answers) {
                    return;
                }
                let number = answers.query;
                if let Some(query) = self.queries.get_mut(&number)
                    && query.answered(answers)
                    && let Some(query) = self.queries.remove(&number)
                {
                    self.reply(now_ms, query.worker, What::Answers(query.into_answers()));
                }
            }
            Up::Found(mut found) => {
                if self.is_full() {
                    (found.sockets, found.incomplete) = (Vec::new(), true);
                }
                let number = found.query;
                if let Some(query) = self.queries.get_mut(&number)
                    && query.found(found)
                    && let Some(query) = self.queries.remove(&number)
                {
                    self.reply(now_ms, query.worker, What::Found(query.into_found()));
                }
            }
        }
    }

    fn on_connect(&mut self, now_ms: u64, connect: Box<proto::Connect>) {
        let Some(name) = Name::parse(&connect.socket) else {
            return;
        };
        // It is kept for as long as the socket lives: another worker may need it.
        let bytes_max = self.settings.socket_bytes_max.min(AUTH_BYTES_MAX);
        if connect.auth.len() > bytes_max {
            let decision = Err(Refusal::too_large(bytes_max));
            let socket = name;
            return self.tell(name, Down::Decide { socket, decision });
        }
        let (opening, introduction) = (connect.opening, Introduction::of(&connect));
        let entry = self.entry(name, What::Connect(connect), now_ms);
        if !self.decides() {
            return self.let_in(name, introduction, entry);
        }
        let full = self.bytes + entry.bytes > self.settings.queue_bytes_max;
        if full || self.is_cut_off(now_ms) || !self.admits_newcomers(now_ms) {
            self.counts.refused_busy += 1;
            let decision = Err(Refusal::unavailable());
            return self.tell(
                name,
                Down::Decide {
                    socket: name,
                    decision,
                },
            );
        }
        let opener = self.opener(opening);
        let mut home = Home::new(introduction, now_ms);
        home.opener = opener;
        self.homes.insert(name, home);
        if self.calls.is_none() {
            self.homeless.insert(name);
        }
        self.decisions_due
            .push_back((now_ms + self.settings.connect_timeout_ms, name));
        self.push(name, entry);
        self.settle(now_ms, name);
    }

    /// The endpoint only hears of newcomers. One that is not well keeps nobody out.
    fn let_in(&mut self, name: Name, introduction: Introduction, entry: Entry) {
        let mut home = Home::new(introduction, entry.came_ms);
        home.admit();
        self.homes.insert(name, home);
        let socket = name;
        let decision = Ok(());
        self.tell(name, Down::Decide { socket, decision });
        self.push_news(name, entry);
    }

    /// News of a socket.
    pub(crate) fn entry(&self, name: Name, what: What, now_ms: u64) -> Entry {
        self.kept(Entry::new(Some(name), what, now_ms))
    }

    fn kept(&self, mut entry: Entry) -> Entry {
        if self.calls.is_some() {
            // It may wait for long, and so may as many as there is room for.
            entry.bytes += Entry::KEPT_BYTES;
        }
        entry
    }

    /// News of a beginning or an end, for an endpoint: more than it may keep is lost, and counted.
    pub(crate) fn push_news(&mut self, name: Name, entry: Entry) {
        let home = self.homes.get(&name);
        // Behind an event that was accepted, the end waits with it: it may not take the event with it.
        let sure = home.is_some_and(|home| home.worker.is_some() || home.holds_events());
        let most = match self.calls {
            Some(_) => self.settings.queue_bytes_max,
            None if sure => usize::MAX,
            None => self.ends_bytes_max(),
        };
        if self.bytes + entry.bytes <= most {
            return self.push(name, entry);
        }
        if entry.is_gone() {
            return self.give_up_end(name);
        }
        self.counts.dead_letters += 1;
    }

    /// While every worker is slow, one newcomer a second goes through: it may find them well again.
    fn admits_newcomers(&mut self, now_ms: u64) -> bool {
        let slow_after_ms = self.settings.slow_after_ms;
        let mut takers = self
            .workers
            .values()
            .filter(|worker| worker.takes_sockets());
        let any = takers.clone().next().is_some();
        if !any || takers.any(|worker| !worker.is_slow(now_ms, slow_after_ms)) {
            return true;
        }
        let probes = self.probed_ms.is_none_or(|last| now_ms >= last + PROBE_MS);
        if probes {
            self.probed_ms = Some(now_ms);
        }
        probes
    }

    fn on_event(&mut self, now_ms: u64, event: Event) {
        let (name, ack) = (event.socket, event.ack);
        let entry = self.kept(Entry::event(event, now_ms));
        if ack != 0 && self.is_cut_off(now_ms) {
            return self.refuse(name, ack, Why::Absent);
        }
        let Some(home) = self.homes.get_mut(&name) else {
            return self.refuse(name, ack, Why::Absent);
        };
        // A single event may be larger than what many small ones may take.
        let fits = home.bytes == 0 || home.bytes + entry.bytes <= self.settings.socket_bytes_max;
        if !fits || self.bytes + entry.bytes > self.settings.queue_bytes_max {
            return self.refuse(name, ack, Why::Busy);
        }
        self.counts.events += 1;
        if ack != 0 {
            home.open.insert(ack);
            self.await_answer(now_ms, name, ack);
        }
        self.push(name, entry);
    }

    fn on_gone(&mut self, now_ms: u64, gone: proto::Gone) {
        let Some(name) = Name::parse(&gone.socket) else {
            return;
        };
        let Some(home) = self.homes.get_mut(&name) else {
            return;
        };
        if home.phase == Phase::Gone {
            return;
        }
        home.open.clear();
        let owed: usize = home.owed.drain(..).map(|entry| entry.bytes).sum();
        home.bytes = home.bytes.saturating_sub(owed);
        let known = home.phase == Phase::In || home.worker.is_some();
        home.phase = Phase::Gone;
        home.describing = false;
        self.bytes -= owed;
        if !known || home.bond == Bond::Over {
            // No worker has heard of it, or one has heard of its end already.
            return self.forget(name);
        }
        // It stays for this entry only, which may wait for an hour.
        let stays = match self.calls {
            Some(_) => {
                home.strip();
                Home::BYTES
            }
            None if home.worker.is_none() => home.kept_bytes(),
            None => 0,
        };
        self.keep_to_the_end(name);
        let mut entry = self.entry(name, What::Gone(gone), now_ms);
        entry.bytes += stays;
        self.push_news(name, entry);
        self.settle(now_ms, name);
    }

    pub(crate) fn refuse(&mut self, socket: Name, ack: u64, why: Why) {
        let counts = &mut self.counts;
        *match why {
            Why::Absent => &mut counts.refused_absent,
            Why::Busy => &mut counts.refused_busy,
            Why::Unanswered => &mut counts.refused_unanswered,
            Why::Deadly => &mut counts.refused_deadly,
            Why::Failed => &mut counts.refused_failed,
        } += 1;
        self.tell(socket, Down::Refuse { socket, ack, why });
    }

    // ---- what is kept -------------------------------------------------------------------------------------------------------

    /// Behind all that waits for the socket's worker.
    pub(crate) fn push(&mut self, name: Name, mut entry: Entry) {
        let Some(home) = self.homes.get_mut(&name) else {
            return;
        };
        home.sequence += 1;
        entry.sequence = home.sequence;
        home.bytes += entry.bytes;
        self.bytes += entry.bytes;
        let worker = home.worker.and_then(|id| self.workers.get_mut(&id));
        match worker {
            Some(worker) if worker.parting.contains(&name) => home.held.push_back(entry),
            Some(worker) => {
                worker.enqueue(entry);
                self.ready.extend(worker.link);
            }
            None => {
                let due_ms = entry.came_ms + self.settings.park_timeout_ms;
                home.held.push_back(entry);
                self.came(name);
                if self.calls.is_none() {
                    self.look_by(name, due_ms);
                }
            }
        }
    }

    /// For a worker, about no socket.
    pub(crate) fn reply(&mut self, now_ms: u64, worker: u64, what: What) {
        let Some(worker) = self.workers.get_mut(&worker) else {
            return;
        };
        let entry = Entry::new(None, what, now_ms);
        self.bytes += entry.bytes;
        worker.enqueue(entry);
        self.ready.extend(worker.link);
    }

    pub(crate) fn release(&mut self, entry: &Entry) {
        self.bytes -= entry.bytes;
        let home = entry.about.and_then(|name| self.homes.get_mut(&name));
        if let Some(home) = home {
            home.bytes = home.bytes.saturating_sub(entry.bytes);
        }
    }

    /// Ends that wait for a worker to come take no room that events need.
    pub(crate) fn ends_bytes_max(&self) -> usize {
        self.settings.queue_bytes_max / 2
    }

    pub(crate) fn take_bytes(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    pub(crate) fn release_bytes(&mut self, bytes: usize) {
        self.bytes -= bytes;
    }

    /// Nothing is known of the socket any more. Messages on their way to a worker are taken off the books there.
    pub(crate) fn forget(&mut self, name: Name) {
        let Some(home) = self.homes.remove(&name) else {
            return;
        };
        let kept = home.held.iter().chain(&home.owed);
        let kept: usize = kept.map(|entry| entry.bytes).sum();
        self.bytes -= kept;
        self.homeless.remove(&name);
        self.looks.remove(&(home.look_ms, name));
        self.leave_row(name, &home.turn);
        if let Some(worker) = home.worker.and_then(|id| self.workers.get_mut(&id)) {
            worker.sockets.remove(&name);
            worker.parting.remove(&name);
        }
    }

    // ---- homes --------------------------------------------------------------------------------------------------------------

    /// Sockets without a worker get one, if there is one.
    pub(crate) fn settle_all(&mut self, now_ms: u64) {
        if self.choose(now_ms).is_some() {
            let all: Vec<Name> = self.homeless.iter().copied().collect();
            all.into_iter().for_each(|name| self.settle(now_ms, name));
        }
    }

    /// The same for one. A socket that had a worker is described by its shard first.
    pub(crate) fn settle(&mut self, now_ms: u64, name: Name) {
        let Some(home) = self.homes.get_mut(&name) else {
            return;
        };
        if home.worker.is_some() {
            return;
        }
        match home.phase {
            Phase::Deciding => self.move_in(now_ms, name, None),
            Phase::Gone => {
                let rooms = home.last_rooms();
                self.move_in(now_ms, name, Some((rooms, "{}".to_owned())));
            }
            Phase::In if home.describing => {}
            Phase::In => {
                if self.choose(now_ms).is_some() {
                    self.describe(name);
                }
            }
        }
    }

    fn describe(&mut self, name: Name) {
        if let Some(home) = self.homes.get_mut(&name) {
            home.describing = true;
            self.tell(name, Down::Describe { socket: name });
        }
    }

    fn on_described(&mut self, now_ms: u64, name: Name, rooms: Vec<String>, data: String) {
        let Some(home) = self.homes.get_mut(&name) else {
            return;
        };
        if std::mem::take(&mut home.describing) && home.phase == Phase::In {
            self.move_in(now_ms, name, Some((rooms, data)));
        }
    }

    /// Gives a socket to a worker, if there is one, with all that waits for it.
    fn move_in(&mut self, now_ms: u64, name: Name, known: Option<(Vec<String>, String)>) {
        let opener = self.homes.get(&name).and_then(|home| home.opener);
        let opener = opener.filter(|id| self.workers.get(id).is_some_and(Worker::takes_sockets));
        let Some(id) = opener.or_else(|| self.choose(now_ms)) else {
            return;
        };
        if known.is_some() {
            self.drop_moves(name);
        }
        let (Some(home), Some(worker)) = (self.homes.get_mut(&name), self.workers.get_mut(&id))
        else {
            return;
        };
        if let Some((rooms, data)) = known {
            let resume = proto::Resume {
                connect: Some(home.introduction.open()),
                rooms,
                data,
            };
            let entry = Entry::new(Some(name), What::Resume(Box::new(resume)), now_ms);
            home.bytes += entry.bytes;
            self.bytes += entry.bytes;
            home.held.push_front(entry);
            self.counts.moved += 1;
        }
        home.worker = Some(id);
        home.since_ms = now_ms;
        worker.sockets.insert(name);
        let held = std::mem::take(&mut home.held);
        held.into_iter().for_each(|entry| worker.enqueue(entry));
        self.ready.extend(worker.link);
        self.homeless.remove(&name);
        self.looks
            .remove(&(std::mem::take(&mut home.look_ms), name));
    }

    // ---- time ---------------------------------------------------------------------------------------------------------------

    /// What is due by now.
    pub fn tick(&mut self, now_ms: u64) {
        self.forgive(now_ms);
        self.forget_old_openings(now_ms);
        self.end_rounds(now_ms);
        self.bury_lost(now_ms);
        while let Some((_, name)) = self.decisions_due.pop_front_if(|due| due.0 <= now_ms) {
            self.decision_due(now_ms, name);
        }
        self.end_waits(now_ms);
        self.look_at_parked(now_ms);
        if now_ms >= self.looked_ms + LOOK_MS {
            self.looked_ms = now_ms;
            self.look_at_row(now_ms);
        }
        self.let_go(now_ms);
        self.confirm_late(now_ms);
    }

    /// While the gateway itself stood still, it heard of nobody: no worker is lost for that.
    fn forgive(&mut self, now_ms: u64) {
        let last_ms = std::mem::replace(&mut self.ticked_ms, now_ms);
        let still_ms = now_ms.saturating_sub(last_ms);
        if last_ms > 0 && still_ms > STILL_MS {
            for worker in self.workers.values_mut() {
                worker.forgive(now_ms, still_ms);
            }
        }
    }

    fn bury_lost(&mut self, now_ms: u64) {
        let settings = &self.settings;
        let waiting = self.workers.values().filter(|worker| worker.holds_back());
        self.ready.extend(waiting.filter_map(|worker| worker.link));
        let lost = |worker: &mut Worker| {
            worker.look(now_ms);
            let unheard = |patience_ms| now_ms >= worker.heard_ms + patience_ms;
            match worker.link {
                None => unheard(settings.rehome_after_ms).then_some(Stray::Unknown),
                Some(_) if unheard(settings.silent_after_ms) => Some(Stray::Silent),
                Some(_) => {
                    let stalled = worker.is_stalled(now_ms, settings.stalled_after_ms);
                    stalled.then_some(Stray::Stalled)
                }
            }
        };
        let workers = self.workers.iter_mut();
        let lost: Vec<_> = workers
            .filter_map(|(id, worker)| Some((*id, lost(worker)?)))
            .collect();
        for (id, why) in lost {
            self.lose(now_ms, id, why);
        }
    }

    /// Nobody has let it in.
    fn decision_due(&mut self, now_ms: u64, name: Name) {
        let Some(home) = self.homes.get(&name) else {
            return;
        };
        if home.phase != Phase::Deciding {
            return;
        }
        let gone = proto::Gone {
            socket: name.as_str().to_owned(),
            reason: "connect timeout".to_owned(),
            rooms: Vec::new(),
        };
        self.counts.refused_absent += 1;
        let decision = Err(Refusal::unavailable());
        self.tell(
            name,
            Down::Decide {
                socket: name,
                decision,
            },
        );
        self.on_gone(now_ms, gone);
    }
}
