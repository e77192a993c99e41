//! Questions under way: of workers to shards, and of servers to each other.

use crate::bounds::{FOREIGN_MS, QUERIES_MAX, ROUNDS_MAX};
use crate::check::{are_elements, check_namespace};
use crate::entry::Entry;
use crate::message::{Down, To};
use crate::proto;
use crate::proto::command;
use crate::proto::item::What;
use crate::question::{Asker, Asks, Question};
use crate::queue::Queue;
use crate::worker::Worker;
use std::collections::{BTreeMap, BTreeSet};

/// By our numbers, which are never the same for two of them.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    open: BTreeMap<u64, Question>,
    made: u64,
}

impl Questions {
    /// So many were numbered so far.
    pub(crate) fn made(&self) -> u64 {
        self.made
    }

    pub(crate) fn are_none(&self) -> bool {
        self.open.is_empty()
    }

    /// New ones get numbers above this one.
    pub(crate) fn go_on_from(&mut self, made: u64) {
        self.made = made;
    }

    /// Those of workers that are open: our number, the worker and its own number, and the answer if nobody else answers.
    pub(crate) fn as_they_stand(&self) -> impl Iterator<Item = (u64, (u64, u64), What)> {
        self.open
            .iter()
            .filter_map(|(number, question)| match question.asker {
                // Shards answer at once: none is open when they are at rest.
                Asker::Worker(..) if question.is_count() => None,
                Asker::Worker(worker, query) => {
                    let answer = question.clone().into_item(query);
                    Some((*number, (worker, query), answer))
                }
                Asker::Server(_) => None,
            })
    }

    /// A client was asked by another process, and its answer is on the way here.
    pub(crate) fn go_on_with(&mut self, number: u64, (worker, query): (u64, u64)) {
        let asker = Asker::Worker(worker, query);
        let question = Question::to_shards(asker, Asks::Answers, 1);
        self.open.insert(number, question);
    }

    fn number(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    /// As many as this wait, of those that are meant.
    fn are(&self, most: usize, is_meant: impl Fn(&Question) -> bool) -> bool {
        let meant = || self.open.values().filter(|question| is_meant(question));
        self.open.len() >= most && meant().count() >= most
    }

    /// A worker waits for answers.
    pub(crate) fn are_of(&self, worker: u64) -> bool {
        self.open.values().any(|question| question.is_of(worker))
    }

    /// A lost worker answers nothing, and waits for nothing.
    pub(crate) fn leave(&mut self, queue: &mut Queue, worker: u64) {
        let is_its = |_: &u64, question: &mut Question| question.is_of(worker);
        for (_, mut question) in self.open.extract_if(.., is_its) {
            question.release(&mut queue.ledger);
        }
        let open = self.open.iter_mut();
        let owed =
            open.filter_map(|(number, question)| question.give_up(worker).then_some(*number));
        let owed: Vec<u64> = owed.collect();
        for number in owed {
            self.review(queue, number);
        }
    }

    /// Questions to servers that have waited long enough.
    pub(crate) fn end_old(&mut self, queue: &mut Queue) {
        let is_due = |_: &u64, question: &mut Question| question.is_due(queue.now_ms);
        let due: Vec<_> = self.open.extract_if(.., is_due).collect();
        for (_, question) in due {
            end(queue, question);
        }
    }

    /// Ends a question if all have answered.
    fn review(&mut self, queue: &mut Queue, number: u64) {
        let is_over = self.open.get(&number).is_some_and(Question::is_over);
        if is_over && let Some(question) = self.open.remove(&number) {
            end(queue, question);
        }
    }

    // ---- to shards ------------------------------------------------------------------------------------------------------------

    /// So many shards are asked. Returns our number for the query.
    pub(crate) fn ask(
        &mut self,
        worker: u64,
        query: u64,
        (asks, shards): (Asks, u16),
    ) -> Result<u64, &'static str> {
        if self.are(QUERIES_MAX, |of| of.is_of(worker) && !of.is_to_servers()) {
            return Err("65536 queries of this worker wait for their answers");
        }
        let number = self.number();
        let asker = Asker::Worker(worker, query);
        let question = Question::to_shards(asker, asks, shards);
        self.open.insert(number, question);
        Ok(number)
    }

    /// A shard, or other servers have answered.
    pub(crate) fn on_answers(&mut self, queue: &mut Queue, answers: proto::Answers) {
        let number = answers.query;
        if let Some(question) = self.open.get_mut(&number) {
            question.answered(&mut queue.ledger, answers);
            self.review(queue, number);
        }
    }

    pub(crate) fn on_found(&mut self, queue: &mut Queue, found: proto::Found) {
        let number = found.query;
        if let Some(question) = self.open.get_mut(&number) {
            question.found(&mut queue.ledger, found);
            self.review(queue, number);
        }
    }

    /// A namespace has as many servers as this: workers here, and what the shard knows of others.
    pub(crate) fn on_counted(&mut self, queue: &mut Queue, mut counted: proto::Counted) {
        // No answers were kept for it.
        let question = self.open.remove(&counted.query);
        let Some(Asker::Worker(worker, query)) = question.map(|question| question.asker) else {
            return;
        };
        let home = queue.workers.with(Worker::is_home).len();
        counted.servers = counted.servers.saturating_sub(1) + home as u64;
        counted.query = query;
        queue.reply(worker, What::Counted(counted));
    }

    // ---- to servers -----------------------------------------------------------------------------------------------------------

    /// A worker says something to all other servers.
    pub(crate) fn tell(
        &mut self,
        queue: &mut Queue,
        worker: u64,
        mut tell: Box<proto::Tell>,
    ) -> Result<(), &'static str> {
        if tell.event.is_empty() {
            return Err("tell.event is empty");
        }
        if !are_elements(&tell.args) {
            return Err("tell.args are no JSON elements separated by commas");
        }
        check_namespace(&queue.settings.scope, &tell.namespace)?;
        let asks = tell.query != 0;
        if asks && self.are(ROUNDS_MAX, Question::is_to_servers) {
            return Err("65536 questions to other servers wait for their answers");
        }
        let number = self.number();
        let told = proto::Told {
            told: if asks { number } else { 0 },
            namespace: tell.namespace.clone(),
            event: tell.event.clone(),
            args: tell.args.clone(),
            attachments: tell.attachments.clone(),
        };
        let (asked, missing) = say(queue, Some(worker), &told);
        if asks {
            let asker = Asker::Worker(worker, tell.query);
            let due_ms = queue.now_ms + u64::from(tell.timeout_ms);
            let question = Question::to_servers(asker, asked, missing, due_ms);
            self.open.insert(number, question);
            tell.query = number;
        }
        let down = Down::Do(command::What::Tell(tell));
        queue.outlet.send(To::One, down);
        Ok(())
    }

    /// Another server says something to the workers here.
    pub(crate) fn on_told(&mut self, queue: &mut Queue, mut told: proto::Told) {
        let token = std::mem::take(&mut told.told);
        let number = self.number();
        if token != 0 {
            told.told = number;
        }
        let (asked, missing) = say(queue, None, &told);
        if token == 0 {
            return;
        }
        let asker = Asker::Server(token);
        let due_ms = queue.now_ms + FOREIGN_MS;
        let question = Question::to_servers(asker, asked, missing, due_ms);
        self.open.insert(number, question);
        self.review(queue, number);
    }

    /// A worker answers another server.
    pub(crate) fn take_reply(
        &mut self,
        queue: &mut Queue,
        worker: u64,
        reply: proto::Reply,
    ) -> Result<(), &'static str> {
        let number = reply.told;
        if !are_elements(&reply.args) {
            return Err("reply.args are no JSON elements separated by commas");
        }
        let question = self.open.get_mut(&number);
        if question.is_some_and(|question| question.replied(&mut queue.ledger, worker, reply)) {
            self.review(queue, number);
        } else {
            queue.counts().late += 1;
        }
        Ok(())
    }

    /// The reply of a worker cannot be used, and nobody waits for another one of it.
    pub(crate) fn fail(&mut self, queue: &mut Queue, worker: u64, number: u64) {
        let question = self.open.get_mut(&number);
        if question.is_some_and(|question| question.give_up(worker)) {
            self.review(queue, number);
        }
    }
}

fn end(queue: &mut Queue, mut question: Question) {
    question.release(&mut queue.ledger);
    match question.asker {
        Asker::Worker(worker, query) => queue.reply(worker, question.into_item(query)),
        Asker::Server(told) => {
            let answer = question.into_first();
            // The shard that was told has the number.
            queue.outlet.send(To::All, Down::Reply { told, answer });
        }
    }
}

/// To each worker whose first node this is. Returns those that got it, and how many had no room for it.
fn say(queue: &mut Queue, but: Option<u64>, told: &proto::Told) -> (BTreeSet<u64>, u64) {
    let bytes = Entry::new(None, What::Told(told.clone()), queue.now_ms).bytes;
    let (mut got, mut missing) = (BTreeSet::new(), 0);
    for id in queue.workers.with(Worker::is_home) {
        if Some(id) == but {
            continue;
        }
        if !queue.ledger.has_room(bytes) {
            queue.counts().refused_busy += 1;
            missing += 1;
            continue;
        }
        queue.reply(id, What::Told(told.clone()));
        got.insert(id);
    }
    (got, missing)
}
