//! Links to workers: attaching, what goes down them, what comes up.

use crate::done::Done;
use crate::entry::Entry;
use crate::frame::{Frame, Order};
use crate::proto;
use crate::state::Backend;
use crate::worker::Worker;
use bytes::Bytes;
use prost::Message;

/// A connection of a worker. Its driver numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Link(pub u64);

/// Number of the field `ToWorker.items`.
const ITEMS: u32 = 3;
/// Bytes of items in one message.
const BATCH_BYTES: usize = 64 << 10;
const INSTANCE_BYTES_MAX: usize = 64;
/// Commands of one worker that failed, and that it has not handled as items.
const FAILURES_MAX: usize = 16_384;
/// The same once more waits for all workers than may: many workers could fill the memory otherwise.
const FAILURES_WHEN_FULL: usize = 64;
/// Workers of one backend on one node.
const WORKERS_MAX: usize = 1_024;

/// Why a worker is not attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// `Hello.instance` is empty or too long.
    Instance,
    /// `Hello.received` is no item that it can have got last.
    Received,
    /// There are too many workers.
    Crowd,
}

impl Denied {
    /// For the worker's log.
    pub fn message(self) -> &'static str {
        match self {
            Self::Instance => "cannot attach: hello.instance must have 1 to 64 bytes",
            Self::Received => {
                "cannot attach: hello.received is not the number of the last item that this instance got; send 0 to begin anew"
            }
            Self::Crowd => "cannot attach: this backend has 1024 workers already",
        }
    }
}

/// Why a link ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stray {
    /// It is not attached any more.
    Unknown,
    /// It handled what it has not got.
    Handled,
    /// Commands are missing.
    Gap,
    /// Commands have no number.
    Number,
    /// Too many of its commands failed, and it has not handled the news of it.
    Failures,
    /// A message is none, or has more bytes than one may have.
    Garbled,
    /// Its worker's key is one no more.
    Expelled,
    /// Its worker attached by another one.
    Replaced,
    /// Its worker said nothing for too long.
    Silent,
    /// Its worker handled nothing for too long, although more waited for it.
    Stalled,
}

impl Stray {
    pub fn message(self) -> &'static str {
        match self {
            Self::Unknown => "cannot go on: this link was given up; attach again",
            Self::Handled => {
                "cannot go on: `handled`, `begun` or `beside` is above the number of the last item sent, or the rows of `beside` are not in order"
            }
            Self::Gap => {
                "cannot go on: commands are missing; attach again and repeat those behind welcome.commands"
            }
            Self::Number => {
                "cannot go on: `first` must be the number of the first command in the message; numbers begin at 1"
            }
            Self::Failures => {
                "cannot go on: 16384 commands failed (64, while `queue_max` is used up), and `handled` does not cover these `Failed` items; attach again and begin anew"
            }
            Self::Garbled => "cannot go on: a message cannot be read; begin anew",
            Self::Expelled => {
                "cannot go on: the key of this worker was taken out of the gateway's configuration (backends.NAME.api_keys)"
            }
            Self::Replaced => "cannot go on: this worker attached again, by another link",
            Self::Silent => {
                "cannot go on: this worker said nothing for `silent_after`; send a message once a second"
            }
            Self::Stalled => {
                "cannot go on: this worker handled nothing for `stalled_after`, while more waited for it; its sockets have moved"
            }
        }
    }
}

impl Backend {
    /// A worker came by this link.
    pub fn attach(
        &mut self,
        now_ms: u64,
        link: Link,
        hello: &proto::Hello,
    ) -> Result<proto::Welcome, Denied> {
        if !(1..=INSTANCE_BYTES_MAX).contains(&hello.instance.len()) {
            return Err(Denied::Instance);
        }
        let goes_on = hello.resumes || hello.received > 0;
        let known = self.workers.iter();
        let mut known = known.filter(|(_, worker)| worker.instance == hello.instance);
        let known = known.next().map(|(id, _)| *id);
        let id = match known {
            Some(id) => id,
            None if self.workers.len() >= WORKERS_MAX => return Err(Denied::Crowd),
            None => self.hire(now_ms, hello),
        };
        let Some(worker) = self.workers.get_mut(&id) else {
            return Err(Denied::Instance);
        };
        // Its numbers may be those of the life before: there is nothing that it could resume by them.
        let begins = !goes_on || worker.in_doubt;
        if known.is_some() && (begins || !worker.rewind(hello.received)) {
            if !begins {
                return Err(Denied::Received);
            }
            // The process begins anew under its old name. Its sockets and events of before are lost to it.
            self.lose(now_ms, id, Stray::Replaced);
            return self.attach(now_ms, link, hello);
        }
        if let Some(old) = worker.link.replace(link) {
            self.links.remove(&old);
            self.ready.remove(&old);
            self.ended.push((old, Stray::Replaced));
        }
        worker.heard_ms = now_ms;
        worker.away = hello.away;
        worker.announces = hello.announces;
        worker.commands_told = worker.commands;
        if known.is_none() {
            // A process that begins has nothing to do with the words of the run before it.
            worker.taken = self.past.take(&hello.instance).filter(|_| goes_on);
            worker.in_doubt = goes_on;
        }
        let welcome = proto::Welcome {
            resumed: known.is_some(),
            commands: worker.commands,
            kept_ms: self.settings.rehome_after_ms,
            silent_ms: self.settings.silent_after_ms,
            taken: worker.taken.filter(|_| known.is_none()),
            ..proto::Welcome::default()
        };
        self.links.insert(link, id);
        self.ready.insert(link);
        if known.is_none() {
            self.tell_nodes_gone(now_ms, id);
        }
        self.settle_all(now_ms);
        // It may be back after a cut: then it does not say anew what it wants.
        self.review_openings(now_ms);
        Ok(welcome)
    }

    fn hire(&mut self, now_ms: u64, hello: &proto::Hello) -> u64 {
        let id = self.workers_made;
        self.workers_made += 1;
        let worker = Worker::new(hello.instance.clone(), hello.weight, now_ms);
        self.workers.insert(id, worker);
        id
    }

    /// The link is gone. Its worker may come back by another one.
    pub fn detached(&mut self, now_ms: u64, link: Link) {
        let Some(id) = self.links.remove(&link) else {
            return;
        };
        self.ready.remove(&link);
        if let Some(worker) = self.workers.get_mut(&id) {
            worker.link = None;
            worker.heard_ms = now_ms;
        }
    }

    /// The worker said what cannot be read. It would say the same again by its next link: it is lost.
    pub fn garbled(&mut self, now_ms: u64, link: Link) {
        if let Some(id) = self.links.get(&link) {
            self.lose(now_ms, *id, Stray::Garbled);
        }
    }

    /// The worker may not speak to this backend any more: it does not come back.
    pub fn expel(&mut self, now_ms: u64, link: Link) {
        if let Some(id) = self.links.get(&link) {
            self.lose(now_ms, *id, Stray::Expelled);
        }
    }

    /// The link may have room again.
    pub fn look_at(&mut self, link: Link) {
        if self.links.contains_key(&link) {
            self.ready.insert(link);
        }
    }

    /// Its worker may let go of all commands that are taken in: they are large.
    pub fn confirm(&mut self, link: Link) {
        let id = self.links.get(&link);
        if let Some(worker) = id.and_then(|id| self.workers.get_mut(id)) {
            worker.told_ms = 0;
            self.ready.insert(link);
        }
    }

    /// Workers that have not been told for a while how many of their commands are taken in.
    pub(crate) fn confirm_late(&mut self, now_ms: u64) {
        let late = self.workers.values();
        let late = late.filter(|worker| worker.untold() > 0 && worker.is_confirmed_at(now_ms));
        self.ready.extend(late.filter_map(|worker| worker.link));
    }

    /// Its worker was sent items that it has not begun, as far as it has said so.
    pub fn is_busy(&self, link: Link) -> bool {
        let id = self.links.get(&link);
        let worker = id.and_then(|id| self.workers.get(id));
        worker.is_some_and(Worker::has_unbegun)
    }

    /// The next message for a link: an encoded `ToWorker`.
    pub fn poll(&mut self, now_ms: u64, link: Link) -> Option<Bytes> {
        let id = *self.links.get(&link)?;
        let mut frame = std::mem::take(&mut self.frame);
        let message = self.write(now_ms, id, &mut frame);
        frame.clear();
        self.frame = frame;
        message
    }

    fn write(&mut self, now_ms: u64, id: u64, frame: &mut Vec<u8>) -> Option<Bytes> {
        let first = self.workers.get(&id)?.next();
        while frame.len() < BATCH_BYTES && self.write_item(now_ms, id, frame) {}
        let worker = self.workers.get_mut(&id)?;
        let mut head = proto::ToWorker {
            first,
            ..proto::ToWorker::default()
        };
        head.sure = std::mem::take(&mut worker.asks);
        let is_sent = !frame.is_empty() || head.sure != 0;
        if worker.untold() > 0 && (is_sent || worker.is_confirmed_at(now_ms)) {
            worker.commands_told = worker.commands;
            worker.told_ms = now_ms;
            head.commands = worker.commands;
        }
        if frame.is_empty() && head.commands == 0 && head.sure == 0 {
            return None;
        }
        // Encoded parts of a message, one behind the other, are the message.
        head.encode_raw(frame);
        Some(Bytes::copy_from_slice(frame))
    }

    /// The next item to send: first those that the link lost, then those that wait, as far as the window goes.
    fn write_item(&mut self, now_ms: u64, id: u64, frame: &mut Vec<u8>) -> bool {
        let window_bytes = self.settings.window_bytes;
        loop {
            let Some(worker) = self.workers.get_mut(&id) else {
                return false;
            };
            if let Some(entry) = worker.again() {
                entry.write(ITEMS, frame);
                return true;
            }
            if !worker.has_window(window_bytes) {
                return false;
            }
            if let Some(sole) = worker.sole() {
                let home = sole.about.and_then(|name| self.homes.get(&name));
                let owes = home.is_some_and(|home| home.owes(sole.sequence));
                if !worker.has_sole(sole, owes, now_ms) {
                    worker.end_sole();
                }
            }
            let Some(mut entry) = worker.pop_waiting(now_ms) else {
                return false;
            };
            entry.alone = entry.goes_alone() && worker.is_careful(now_ms);
            if !self.is_wanted(&entry) {
                self.release(&entry);
                continue;
            }
            self.counts.redelivered += u64::from(entry.redelivered && entry.is_event());
            self.counts.alone += u64::from(entry.alone);
            entry.write(ITEMS, frame);
            if let Some(worker) = self.workers.get_mut(&id) {
                worker.send(entry, now_ms);
            }
            return true;
        }
    }

    /// Whether somebody still waits for what is in it.
    pub(crate) fn is_wanted(&self, entry: &Entry) -> bool {
        let Some(name) = entry.about else {
            return self.is_awaited(entry);
        };
        let Some(home) = self.homes.get(&name) else {
            return false;
        };
        // A client that is gone waits for no decision.
        let undecided = entry.introduces() && !home.admitted;
        if self.calls.is_some() && undecided && home.phase == crate::home::Phase::Gone {
            return false;
        }
        // Its client was told already that it will not be answered.
        let refused = entry.ack().is_some_and(|ack| !home.open.contains(ack));
        !refused || home.phase == crate::home::Phase::Gone
    }

    /// A worker said something.
    pub fn received(
        &mut self,
        now_ms: u64,
        link: Link,
        frame: impl Into<Frame>,
    ) -> Result<(), Stray> {
        let Frame { said, orders } = frame.into();
        let id = *self.links.get(&link).ok_or(Stray::Unknown)?;
        let worker = self.workers.get_mut(&id).ok_or(Stray::Unknown)?;
        worker.heard_ms = now_ms;
        worker.in_doubt = false;
        let done = Done::of(&said, worker.last()).ok_or(Stray::Handled)?;
        if said.asks != 0 {
            worker.asks = said.asks;
        }
        let overdue = worker.overdue.max(said.overdue);
        let more = overdue - std::mem::replace(&mut worker.overdue, overdue);
        self.counts.overdue = self.counts.overdue.saturating_add(more);
        self.note_wish(now_ms, id, said.openings);
        self.handled(now_ms, id, done);
        self.take_commands(now_ms, id, said.first, orders)?;
        if let Some(worker) = self.workers.get_mut(&id) {
            let leaves = said.leaving && !worker.leaving;
            if leaves {
                worker.leave();
            }
            self.ready.insert(link);
            if leaves {
                self.review_openings(now_ms);
            }
        }
        self.let_go(now_ms);
        Ok(())
    }

    fn take_commands(
        &mut self,
        now_ms: u64,
        id: u64,
        first: u64,
        orders: Vec<Order>,
    ) -> Result<(), Stray> {
        let worker = self.workers.get(&id).ok_or(Stray::Unknown)?;
        if orders.is_empty() {
            return Ok(());
        }
        if first == 0 {
            return Err(Stray::Number);
        }
        // Those that it has are not taken twice. A gap at the start is the only one that there can be.
        let known = (worker.commands + 1).checked_sub(first).ok_or(Stray::Gap)?;
        let known = usize::try_from(known).unwrap_or(usize::MAX);
        for order in orders.into_iter().skip(known) {
            let full = self.is_full();
            let worker = self.workers.get_mut(&id).ok_or(Stray::Unknown)?;
            let failures = worker.failures;
            if failures >= FAILURES_MAX || full && failures >= FAILURES_WHEN_FULL {
                self.lose(now_ms, id, Stray::Failures);
                return Err(Stray::Failures);
            }
            worker.commands += 1;
            let number = worker.commands;
            self.command(now_ms, id, number, order);
        }
        Ok(())
    }

    fn handled(&mut self, now_ms: u64, id: u64, mut done: Done<'_>) {
        while let Some(worker) = self.workers.get_mut(&id) {
            let Some(entry) = worker.pop_handled(&mut done, now_ms) else {
                return;
            };
            worker.failures -= usize::from(entry.is_failed());
            self.ready.extend(worker.link);
            self.done(entry);
        }
    }

    fn done(&mut self, entry: Entry) {
        let home = entry.about.and_then(|name| self.homes.get_mut(&name));
        if let Some(home) = home
            && home.waits_for(&entry)
        {
            return home.owe(entry);
        }
        self.release(&entry);
        if entry.is_gone()
            && let Some(name) = entry.about
        {
            self.forget(name);
        }
    }
}
