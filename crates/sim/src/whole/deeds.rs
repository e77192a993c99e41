//! Events for workers: who said them, who handled them, and who was answered.

use std::collections::BTreeMap;

/// A run of a worker, as its node knows it: the number of the worker, and how often it began anew.
pub(crate) type Run = (u64, u64);

/// One time that an event was handled.
#[derive(Debug)]
struct Handled {
    number: u64,
    is_marked: bool,
    by: Run,
}

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
