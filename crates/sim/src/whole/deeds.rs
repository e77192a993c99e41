//! Events for workers: who said them, who handled them, and who was answered. A client that came back is another one here.

use backend::proto::Found;
use std::collections::{BTreeMap, BTreeSet};

/// A run of a worker, as its node knows it: the number of the worker, and how often it began anew.
pub(crate) type Run = (u64, u64);

/// One time that an event was handled.
#[derive(Debug)]
struct Handled {
    number: u64,
    is_marked: bool,
    by: Run,
}

/// Clients that are surely with the workers: on which life, with which id.
type There = BTreeMap<usize, (usize, String)>;

#[derive(Debug, Default)]
pub(crate) struct Deeds {
    /// How many events each client said.
    said: BTreeMap<usize, u64>,
    handled: BTreeMap<usize, Vec<Handled>>,
    /// Answers that clients wait for, by their ack ids: the number of the event.
    open: BTreeMap<(usize, u64), u64>,
    pub(crate) answered: usize,
    pub(crate) refused: usize,
    pub(crate) again: usize,
    /// Lists of sockets that workers got.
    pub(crate) lists: usize,
    /// The life whose workers act.
    pub(crate) life: usize,
    /// Those that know it.
    there: There,
    /// Lists that were asked for, by life, run and number: those of them that were there all the time.
    asked: BTreeMap<(usize, (Run, u64)), There>,
    /// Whom a list lacks that is said to be whole: the life of its asker, that of the client, and the client.
    pub(crate) unlisted: Vec<(usize, usize, usize)>,
}

impl Deeds {
    /// A client says something that it wants an answer to; its number.
    pub(crate) fn say(&mut self, who: usize, ack: u64) -> u64 {
        let said = self.said.entry(who).or_default();
        *said += 1;
        self.open.insert((who, ack), *said);
        *said
    }

    pub(crate) fn handle(&mut self, who: usize, number: u64, is_marked: bool, by: Run) {
        self.again += usize::from(is_marked);
        let handled = Handled {
            number,
            is_marked,
            by,
        };
        self.handled.entry(who).or_default().push(handled);
    }

    /// A client is answered with the number of its event, or refused.
    pub(crate) fn answer(
        &mut self,
        who: usize,
        ack: u64,
        number: Option<u64>,
    ) -> Result<(), String> {
        let Some(asked) = self.open.remove(&(who, ack)) else {
            return Err(format!("client {who} got an answer twice, or to nothing"));
        };
        match number {
            Some(number) if number != asked => {
                return Err(format!(
                    "client {who} got the answer to {number} for {asked}"
                ));
            }
            Some(_) => self.answered += 1,
            None => self.refused += 1,
        }
        let handled = self.handled.get(&who);
        let is_handled = handled.is_some_and(|all| all.iter().any(|one| one.number == asked));
        match number.is_some() && !is_handled {
            true => Err(format!(
                "client {who} got an answer to {asked}, which nobody handled"
            )),
            false => Ok(()),
        }
    }

    /// A client has gone: it waits for nothing.
    pub(crate) fn forget(&mut self, who: usize) {
        self.open.retain(|(name, _), _| *name != who);
        self.may_leave(who);
    }

    /// A client is with the workers.
    pub(crate) fn comes(&mut self, who: usize, life: usize, id: String) {
        self.there.insert(who, (life, id));
    }

    /// It need not be in a list any more.
    pub(crate) fn may_leave(&mut self, who: usize) {
        self.there.remove(&who);
        for there in self.asked.values_mut() {
            there.remove(&who);
        }
    }

    /// A hub has ended a socket: it need not be in a list any more.
    pub(crate) fn has_ended(&mut self, ended: &str) {
        self.there.retain(|_, (_, id)| id != ended);
        for there in self.asked.values_mut() {
            there.retain(|_, (_, id)| id != ended);
        }
    }

    /// A worker asks who is there, on its node or everywhere.
    pub(crate) fn ask(&mut self, list: (Run, u64), local: bool) {
        let meant = self.there.iter();
        let meant = meant.filter(|(_, (life, _))| !local || *life == self.life);
        let meant = meant.map(|(who, there)| (*who, there.clone()));
        self.asked.insert((self.life, list), meant.collect());
    }

    pub(crate) fn find(&mut self, list: (Run, u64), found: &Found) {
        self.lists += 1;
        let there = self.asked.remove(&(self.life, list)).unwrap_or_default();
        let sockets = found.sockets.iter();
        let ids: BTreeSet<&str> = sockets.map(|found| found.socket.as_str()).collect();
        assert_eq!(ids.len(), found.sockets.len(), "a list has a socket twice");
        if !found.incomplete {
            let there = there.into_iter();
            let lacks = there.filter(|(_, (_, id))| !ids.contains(&**id));
            let lacks = lacks.map(|(who, (of, _))| (self.life, of, who));
            self.unlisted.extend(lacks);
        }
    }

    /// Events were handled in order by each run, without a mark once, and all who wait were answered.
    pub(crate) fn check(&self) -> Result<(), String> {
        if !self.open.is_empty() {
            return Err(format!(
                "nobody answered (client, ack): event {:?}",
                self.open
            ));
        }
        for (who, all) in &self.handled {
            let mut last_of = BTreeMap::new();
            let mut unmarked = 0;
            for handled in all {
                let last = last_of.insert(handled.by, handled.number).unwrap_or(0);
                if last >= handled.number {
                    return Err(format!(
                        "one run had events of client {who} in another order: {all:?}"
                    ));
                }
                if !handled.is_marked
                    && std::mem::replace(&mut unmarked, handled.number) >= handled.number
                {
                    return Err(format!(
                        "an event of client {who} came twice without a mark: {all:?}"
                    ));
                }
            }
        }
        Ok(())
    }
}
