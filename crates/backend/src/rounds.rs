//! Messages of servers to each other: the workers of a backend, other nodes, and Socket.IO servers in the cluster.

use crate::commands::are_elements;
use crate::entry::Entry;
use crate::message::{Down, Out, To};
use crate::proto;
use crate::proto::command;
use crate::proto::item::What;
use crate::state::Backend;
use std::collections::BTreeSet;

const ROUNDS_MAX: usize = 65_536;
/// Another server waits so long for the workers here.
const FOREIGN_MS: u64 = 5_000;

/// The asker that waits for the answers of a round.
#[derive(Debug)]
enum Asker {
    /// A worker, under its own number.
    Worker(u64, u64),
    /// Another server, which takes the first answer, under its shard's number.
    Server(u64),
}

#[derive(Debug)]
pub(crate) struct Round {
    asker: Asker,
    /// Workers that owe an answer.
    waiting: BTreeSet<u64>,
    /// Other servers owe theirs.
    away: bool,
    answers: Vec<proto::Answer>,
    missing: u64,
    due_ms: u64,
}

impl Round {
    fn is_over(&self) -> bool {
        let enough = matches!(self.asker, Asker::Server(_)) && !self.answers.is_empty();
        enough || (self.waiting.is_empty() && !self.away)
    }
}

impl Backend {
    pub(crate) fn tell_others(
        &mut self,
        now_ms: u64,
        worker: u64,
        mut tell: Box<proto::Tell>,
    ) -> Result<(), &'static str> {
        if tell.event.is_empty() {
            return Err("tell.event is empty");
        }
        if !are_elements(&tell.args) {
            return Err("tell.args are no JSON elements separated by commas");
        }
        self.check_namespace(&tell.namespace)?;
        if tell.query != 0 && self.rounds.len() >= ROUNDS_MAX {
            return Err("65536 questions to other servers wait for their answers");
        }
        let asks = tell.query != 0;
        let number = self.number_query();
        let told = proto::Told {
            told: if asks { number } else { 0 },
            namespace: tell.namespace.clone(),
            event: tell.event.clone(),
            args: tell.args.clone(),
            attachments: tell.attachments.clone(),
        };
        let (waiting, missing) = self.say(now_ms, Some(worker), &told);
        if asks {
            let round = Round {
                asker: Asker::Worker(worker, tell.query),
                waiting,
                away: true,
                answers: Vec::new(),
                missing,
                due_ms: now_ms + u64::from(tell.timeout_ms),
            };
            self.rounds.insert(number, round);
            tell.query = number;
        }
        let down = Down::Do(command::What::Tell(tell));
        self.out.push(Out { to: To::One, down });
        Ok(())
    }

    /// Another server says something to the workers here.
    pub(crate) fn on_told(&mut self, now_ms: u64, mut told: proto::Told) {
        let token = std::mem::take(&mut told.told);
        let number = self.number_query();
        if token != 0 {
            told.told = number;
        }
        let (waiting, missing) = self.say(now_ms, None, &told);
        if token == 0 {
            return;
        }
        let round = Round {
            asker: Asker::Server(token),
            waiting,
            away: false,
            answers: Vec::new(),
            missing,
            due_ms: now_ms + FOREIGN_MS,
        };
        self.rounds.insert(number, round);
        self.end_round(now_ms, number);
    }

    /// To each worker whose first node this is. Returns those that got it, and how many had no room for it.
    fn say(&mut self, now_ms: u64, but: Option<u64>, told: &proto::Told) -> (BTreeSet<u64>, u64) {
        let others = self.workers.iter();
        let others = others.filter(|(id, worker)| Some(**id) != but && worker.is_home());
        let others: Vec<u64> = others.map(|(id, _)| *id).collect();
        let bytes = Entry::new(None, What::Told(told.clone()), now_ms).bytes;
        let (mut got, mut missing) = (BTreeSet::new(), 0);
        for id in others {
            if self.bytes() + bytes > self.settings.queue_bytes_max {
                self.counts.refused_busy += 1;
                missing += 1;
                continue;
            }
            self.reply(now_ms, id, What::Told(told.clone()));
            got.insert(id);
        }
        (got, missing)
    }

    pub(crate) fn take_reply(
        &mut self,
        now_ms: u64,
        worker: u64,
        reply: proto::Reply,
    ) -> Result<(), &'static str> {
        if !are_elements(&reply.args) {
            return Err("reply.args are no JSON elements separated by commas");
        }
        let round = self.rounds.get_mut(&reply.told);
        let owes = |round: &&mut Round| round.waiting.contains(&worker);
        let Some(round) = round.filter(owes) else {
            self.counts.late += 1;
            return Ok(());
        };
        round.waiting.remove(&worker);
        round.answers.push(proto::Answer {
            args: reply.args,
            attachments: reply.attachments,
        });
        self.end_round(now_ms, reply.told);
        Ok(())
    }

    /// Answers of other servers. `false`: the answers are not of a round.
    pub(crate) fn answered_away(&mut self, now_ms: u64, answers: &mut proto::Answers) -> bool {
        let Some(round) = self.rounds.get_mut(&answers.query) else {
            return false;
        };
        round.away = false;
        round.answers.append(&mut answers.answers);
        round.missing += answers.missing;
        self.end_round(now_ms, answers.query);
        true
    }

    fn end_round(&mut self, now_ms: u64, number: u64) {
        if !self.rounds.get(&number).is_some_and(Round::is_over) {
            return;
        }
        let Some(round) = self.rounds.remove(&number) else {
            return;
        };
        let missing = round.missing + round.waiting.len() as u64 + u64::from(round.away);
        match round.asker {
            Asker::Worker(worker, query) => {
                let answers = proto::Answers {
                    query,
                    answers: round.answers,
                    missing,
                };
                self.reply(now_ms, worker, What::Answers(answers));
            }
            Asker::Server(told) => {
                let answer = round.answers.into_iter().next();
                let down = Down::Reply { told, answer };
                // The shard that was told has the number.
                self.out.push(Out { to: To::All, down });
            }
        }
    }

    /// Rounds that have waited long enough.
    pub(crate) fn end_rounds(&mut self, now_ms: u64) {
        let due = self.rounds.iter();
        let due = due.filter(|(_, round)| round.due_ms <= now_ms);
        let due: Vec<u64> = due.map(|(number, _)| *number).collect();
        for number in due {
            if let Some(round) = self.rounds.get_mut(&number) {
                round.missing += round.waiting.len() as u64 + u64::from(round.away);
                round.waiting.clear();
                round.away = false;
            }
            self.end_round(now_ms, number);
        }
    }

    /// It waits for answers of other servers.
    pub(crate) fn asks_servers(&self, worker: u64) -> bool {
        let mut askers = self.rounds.values().map(|round| &round.asker);
        askers.any(|asker| matches!(asker, Asker::Worker(id, _) if *id == worker))
    }

    /// A lost worker answers nothing, and waits for nothing.
    pub(crate) fn leave_rounds(&mut self, now_ms: u64, worker: u64) {
        self.rounds
            .retain(|_, round| !matches!(round.asker, Asker::Worker(asker, _) if asker == worker));
        let mut touched = Vec::new();
        for (number, round) in &mut self.rounds {
            if round.waiting.remove(&worker) {
                round.missing += 1;
                touched.push(*number);
            }
        }
        for number in touched {
            self.end_round(now_ms, number);
        }
    }

    /// A namespace has as many servers as this: workers here, and what the shard knows of others.
    pub(crate) fn on_counted(&mut self, now_ms: u64, mut counted: proto::Counted) {
        let Some(query) = self.queries.remove(&counted.query) else {
            return;
        };
        let home = self.workers.values().filter(|worker| worker.is_home());
        counted.servers = counted.servers.saturating_sub(1) + home.count() as u64;
        counted.query = query.number;
        self.reply(now_ms, query.worker, What::Counted(counted));
    }
}
