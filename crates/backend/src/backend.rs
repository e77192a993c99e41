//! A backend: the order of its steps. What a step does stands in the file that is named after it.

use crate::calls::{self, Call, Calls, Outcome};
use crate::check::Fault;
use crate::counts::Counts;
use crate::deadlines::Deadlines;
use crate::endpoint::{Calling, Endpoint};
use crate::frame::Frame;
use crate::link::{Denied, Link, Stray};
use crate::links;
use crate::loss;
use crate::message::{Out, Up};
use crate::name::Name;
use crate::nodes::NodesGone;
use crate::openings::Openings;
use crate::outlet::Deadly;
use crate::parked;
use crate::parting;
use crate::parts::Parts;
use crate::proto;
use crate::questions::Questions;
use crate::queue::Queue;
use crate::scope::Scope;
use crate::settings::Settings;
use crate::worker::Worker;
use crate::{arriving, handing, news, settle};
use bytes::Bytes;
use std::collections::{BTreeSet, HashSet};

#[derive(Debug)]
pub struct Backend {
    parts: Parts,
    deadlines: Deadlines,
    calls: Calls,
    /// The outlet for messages to workers.
    frame: Vec<u8>,
}

impl Backend {
    /// A backend whose workers attach.
    pub fn new(settings: Settings) -> Self {
        Self::with(settings, None)
    }

    /// A backend whose logic is an endpoint that is called.
    pub fn calling(settings: Settings, calling: Calling) -> Self {
        Self::with(settings, Some(Endpoint::new(calling)))
    }

    fn with(settings: Settings, endpoint: Option<Endpoint>) -> Self {
        Self {
            parts: Parts {
                queue: Queue::new(settings, endpoint),
                questions: Questions::default(),
                openings: Openings::default(),
                nodes_gone: NodesGone::default(),
            },
            deadlines: Deadlines::default(),
            calls: Calls::default(),
            frame: Vec::new(),
        }
    }

    // ---- looking at it --------------------------------------------------------------------------------------------------------

    pub fn counts(&self) -> Counts {
        Counts {
            openings: self.parts.openings.counts(),
            ..self.parts.queue.outlet.counts
        }
    }

    /// Workers that are attached. An endpoint that is well counts as one.
    pub fn workers(&self) -> usize {
        match self.endpoint_is_well() {
            Some(well) => usize::from(well),
            None => self.parts.queue.workers.attached(),
        }
    }

    pub fn sockets(&self) -> usize {
        self.parts.queue.homes.len()
    }

    /// Sockets without a worker.
    pub fn parked(&self) -> usize {
        let queue = &self.parts.queue;
        match &queue.endpoint {
            None => queue.homes.homeless().len(),
            Some(endpoint) if endpoint.is_well() => 0,
            Some(endpoint) => endpoint.waiting(),
        }
    }

    /// Bytes kept for workers.
    pub fn bytes(&self) -> usize {
        self.parts.queue.ledger.bytes()
    }

    /// Nothing is under way and nobody waits: what is due takes seconds.
    pub fn is_quiet(&self) -> bool {
        let Parts {
            queue, questions, ..
        } = &self.parts;
        let mut workers = queue.workers.iter();
        queue.ledger.bytes() == 0
            && queue.homes.homeless().is_empty()
            && questions.are_none()
            && self.deadlines.are_none()
            && workers.all(|(_, worker)| worker.is_quiet())
    }

    /// `None`: workers attach. `Some(false)`: the endpoint failed too often, and is left alone for a while.
    pub fn endpoint_is_well(&self) -> Option<bool> {
        self.parts.queue.endpoint.as_ref().map(Endpoint::is_well)
    }

    /// The namespaces that are its own.
    pub fn scope(&self) -> &Scope {
        &self.parts.queue.settings.scope
    }

    /// A request waits, and no worker that is there wants to decide.
    pub fn lacks_deciders(&self) -> bool {
        let mut workers = self.parts.queue.workers.iter();
        let decided = workers.any(|(_, worker)| worker.decides_openings());
        self.parts.openings.lack_worker() && !decided
    }

    /// A worker wants to decide, and the configuration does not let this backend.
    pub fn wishes_in_vain(&self) -> bool {
        let queue = &self.parts.queue;
        let wishes = |worker: &Worker| worker.profile.openings == Some(true);
        !queue.settings.openings && queue.workers.iter().any(|(_, worker)| wishes(worker))
    }

    /// Its parts, for a look at this time.
    pub(crate) fn parts_at(&mut self, now_ms: u64) -> &mut Parts {
        self.parts.at(now_ms)
    }

    // ---- what comes out -------------------------------------------------------------------------------------------------------

    /// Takes the outputs for shards, in their order.
    pub fn take_out(&mut self) -> Vec<Out> {
        self.parts.queue.outlet.take()
    }

    /// Links for which `poll` may have something.
    pub fn take_ready(&mut self) -> BTreeSet<Link> {
        self.parts.queue.workers.take_ready()
    }

    /// Links to end now, and why.
    pub fn take_ended(&mut self) -> Vec<(Link, Stray)> {
        self.parts.queue.workers.take_ended()
    }

    /// Links whose workers have nothing left: each is told `goodbye` and ends.
    pub fn take_farewells(&mut self) -> Vec<Link> {
        self.parts.queue.workers.take_farewells()
    }

    /// Events that ended workers since the last call, for the log: 64 at most.
    pub fn take_deadly(&mut self) -> Vec<Deadly> {
        self.parts.queue.outlet.take_deadly()
    }

    // ---- from one process to the next -------------------------------------------------------------------------------------------

    /// A record of its state for the process that comes next. Nothing changes.
    pub fn record(&mut self, now_ms: u64) -> Vec<u8> {
        handing::record(self.parts.at(now_ms), &self.deadlines).write()
    }

    /// Takes in what the process before knew, before anything else comes. `asked`: numbers of questions that clients are to answer still.
    ///
    /// # Errors
    /// The record contradicts itself, and this backend is of no use any more.
    pub fn arrive(
        &mut self,
        now_ms: u64,
        record: &[u8],
        asked: &HashSet<u64>,
    ) -> Result<(), String> {
        let record = handoff::backend::Backend::read(record);
        let record = record.ok_or_else(|| "it is no record".to_owned())?;
        let arrived = arriving::arrive(self.parts.at(now_ms), &mut self.deadlines, &record, asked);
        arrived.map_err(|unfit| unfit.to_string())
    }

    /// The sockets of which no end is known.
    pub fn living(&self) -> impl Iterator<Item = Name> {
        arriving::living(&self.parts.queue)
    }

    // ---- from shards ----------------------------------------------------------------------------------------------------------

    pub fn up(&mut self, now_ms: u64, up: Up) {
        let Parts {
            queue,
            questions,
            openings,
            nodes_gone,
        } = self.parts.at(now_ms);
        let deadlines = &mut self.deadlines;
        match up {
            Up::Connect { number, connect } => {
                news::on_connect(queue, openings, deadlines, (number, connect));
            }
            Up::Event(event) => news::on_event(queue, deadlines, event),
            Up::Opening(opening) => openings.on_opening(queue, opening),
            Up::Moved {
                socket,
                room,
                joined,
                by,
            } => news::on_moved(queue, socket, room, joined, by),
            Up::Upgraded { socket, transport } => news::on_upgraded(queue, socket, transport),
            Up::Gone(gone) => news::on_gone(queue, gone),
            Up::Described {
                socket,
                rooms,
                data,
            } => settle::on_described(queue, socket, rooms, data),
            Up::NodeGone(gone) => nodes_gone.on_gone(queue, gone),
            Up::Counted(counted) => questions.on_counted(queue, counted),
            Up::Told(told) => questions.on_told(queue, *told),
            Up::Answers(answers) => questions.on_answers(queue, answers),
            Up::Found(found) => questions.on_found(queue, found),
        }
    }

    // ---- workers --------------------------------------------------------------------------------------------------------------

    /// A worker came by this link.
    pub fn attach(
        &mut self,
        now_ms: u64,
        link: Link,
        hello: &proto::Hello,
    ) -> Result<proto::Welcome, Denied> {
        links::attach(self.parts.at(now_ms), link, hello)
    }

    /// Its worker is there: it is about to say something large.
    pub fn heard(&mut self, now_ms: u64, link: Link) {
        let workers = &mut self.parts.queue.workers;
        if let Some(worker) = workers.of_link(link).and_then(|id| workers.get_mut(id)) {
            worker.heard(now_ms);
        }
    }

    /// The link is gone. Its worker may come back by another one.
    pub fn detached(&mut self, now_ms: u64, link: Link) {
        self.parts.queue.workers.detach(now_ms, link);
    }

    /// The worker said what cannot be read. It would say the same again by its next link: it is lost.
    pub fn garbled(&mut self, now_ms: u64, link: Link) {
        self.end(now_ms, link, Stray::Garbled);
    }

    /// The worker may not speak to this backend any more: it does not come back.
    pub fn expel(&mut self, now_ms: u64, link: Link) {
        self.end(now_ms, link, Stray::Expelled);
    }

    fn end(&mut self, now_ms: u64, link: Link, why: Stray) {
        if let Some(id) = self.parts.queue.workers.of_link(link) {
            loss::lose(self.parts.at(now_ms), id, why);
        }
    }

    /// The link may have room again.
    pub fn look_at(&mut self, link: Link) {
        self.parts.queue.workers.wake(link);
    }

    /// Its worker may let go of all commands that are taken in: they are large.
    pub fn confirm(&mut self, link: Link) {
        self.parts.queue.workers.confirm(link);
    }

    /// Its worker was sent items that it has not begun, as far as it has said so.
    pub fn is_busy(&self, link: Link) -> bool {
        let workers = &self.parts.queue.workers;
        let worker = workers.of_link(link).and_then(|id| workers.get(id));
        worker.is_some_and(|worker| worker.flight.has_unbegun())
    }

    /// The next message for a link: an encoded `ToWorker`.
    pub fn poll(&mut self, now_ms: u64, link: Link) -> Option<Bytes> {
        let Parts {
            queue, openings, ..
        } = self.parts.at(now_ms);
        let written = links::write(queue, openings, link, &mut self.frame);
        let message = written.then(|| Bytes::copy_from_slice(&self.frame));
        self.frame.clear();
        message
    }

    /// A worker said something.
    pub fn received(
        &mut self,
        now_ms: u64,
        link: Link,
        frame: impl Into<Frame>,
    ) -> Result<(), Stray> {
        links::received(self.parts.at(now_ms), link, frame.into())
    }

    // ---- calls of an endpoint -------------------------------------------------------------------------------------------------

    /// The next request that is due.
    pub fn next_call(&mut self, now_ms: u64) -> Option<Call> {
        self.calls.next(&mut self.parts.at(now_ms).queue)
    }

    /// A call came back.
    ///
    /// # Errors
    /// The answer lets a client in, beside a command that cannot be carried out: so it is refused.
    pub fn call_ended(&mut self, now_ms: u64, number: u64, outcome: Outcome) -> Result<(), Fault> {
        self.calls.end(self.parts.at(now_ms), number, outcome)
    }

    // ---- time -----------------------------------------------------------------------------------------------------------------

    /// Does everything that is due at `now_ms`.
    pub fn tick(&mut self, now_ms: u64) {
        let parts = self.parts.at(now_ms);
        if let Some(still_ms) = self.deadlines.tick(now_ms) {
            parts.queue.workers.forgive(now_ms, still_ms);
        }
        parts.openings.forget_old(&mut parts.queue);
        parts.questions.end_old(&mut parts.queue);
        loss::lose_silent(parts);
        let queue = &mut parts.queue;
        while let Some(due) = self.deadlines.next_decision(queue) {
            news::decision_due(queue, due);
        }
        self.deadlines.end_waits(queue);
        parked::look_at_all(queue);
        if self.deadlines.looks(now_ms) {
            calls::look_at_row(queue);
        }
        parting::let_go(parts);
        parts.queue.workers.wake_late(now_ms);
    }
}
