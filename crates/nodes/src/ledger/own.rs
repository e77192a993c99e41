//! The orders that this node began with: what it says of each, and whether Redis has heard it.

use super::entry::Entry;
use super::token::Token;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Orders that are remembered here; those that were carried out are bounded by whoever carries them out. A claim without an answer
/// that finds no room is not withdrawn: other nodes take it for lost.
const ORDERS_MAX: usize = 110_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    Ended,
    /// It was not carried out: Redis is to forget it.
    Withdrawn,
}

#[derive(Debug)]
struct Said {
    state: State,
    digest: String,
    token: Token,
    /// What Redis is to have.
    entry: String,
    beats: u64,
    since: Instant,
    said: Option<Instant>,
    is_written: bool,
}

/// Something that Redis is to hear.
#[derive(Clone, Debug)]
pub(super) struct Due {
    name: String,
    prefix: String,
    entry: Option<String>,
    token: Token,
}

impl Due {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Of the entries that may be written over.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// `None`: it is to be deleted.
    pub(super) fn entry(&self) -> Option<&str> {
        self.entry.as_deref()
    }

    /// Whether Redis has what this node said, though it may have said more since.
    pub(super) fn is_told_as(&self, held: &str) -> bool {
        Entry::read(held).is_some_and(|held| self.token.is(held.token()))
    }
}

/// All of them.
#[derive(Debug)]
pub(super) struct Own {
    life: String,
    /// Which Redis it was that heard them.
    generation: String,
    orders: HashMap<String, Said>,
}

impl Own {
    pub(super) fn new(life: u64) -> Self {
        Self {
            life: format!("{life:x}."),
            generation: String::new(),
            orders: HashMap::new(),
        }
    }

    pub(super) fn generation(&self) -> &str {
        &self.generation
    }

    pub(super) fn len(&self) -> usize {
        self.orders.len()
    }

    /// Another Redis, which has heard nothing.
    pub(super) fn adopt(&mut self, generation: &str) {
        generation.clone_into(&mut self.generation);
        self.orders
            .values_mut()
            .for_each(|said| (said.is_written, said.said) = (false, None));
    }

    /// Whether an entry is of an earlier call of this process, which did not come to carry it out.
    pub(super) fn has_left(&self, name: &str, token: &str) -> bool {
        let is_running = |said: &Said| said.state == State::Running;
        token.starts_with(&self.life) && !self.orders.get(name).is_some_and(is_running)
    }

    pub(super) fn begin(&mut self, name: &str, digest: &str, token: &Token, now: Instant) {
        let entry = Entry::running(digest, token, 0);
        let said = Said::new(State::Running, digest, token, entry, now);
        let said = Said {
            is_written: true,
            said: Some(now),
            ..said
        };
        self.orders.insert(name.to_owned(), said);
    }

    /// A claim that was not answered.
    pub(super) fn withdraw(&mut self, name: &str, digest: &str, token: &Token, now: Instant) {
        if self.orders.len() >= ORDERS_MAX {
            return;
        }
        let said = Said::new(State::Withdrawn, digest, token, String::new(), now);
        self.orders.entry(name.to_owned()).or_insert(said);
    }

    pub(super) fn done(&mut self, name: &str, answer: &str) -> Option<Due> {
        let said = self.orders.get_mut(name)?;
        said.state = State::Ended;
        said.entry = Entry::ended(&said.digest, &said.token, answer);
        Some(said.due(name))
    }

    pub(super) fn abandon(&mut self, name: &str) -> Option<Due> {
        let said = self.orders.get_mut(name)?;
        said.state = State::Withdrawn;
        Some(said.due(name))
    }

    pub(super) fn lose(&mut self, name: &str) {
        if let Some(said) = self.orders.get_mut(name) {
            let entry = Entry::running(&said.digest, &said.token, said.beats);
            let lost = Entry::read(&entry).map(|entry| entry.lost());
            said.entry = lost.unwrap_or_default();
            (said.state, said.is_written) = (State::Ended, false);
        }
    }

    /// Lets go of what is over; `true`: nothing is left.
    pub(super) fn forget(&mut self, now: Instant, remembered: Duration) -> bool {
        self.orders.retain(|_, said| {
            let is_over = now.saturating_duration_since(said.since) >= remembered;
            let is_struck = said.state == State::Withdrawn && said.is_written;
            !is_over && !is_struck
        });
        self.orders.is_empty()
    }

    /// What Redis is to hear now, and has not: some of it.
    pub(super) fn take(
        &mut self,
        now: Instant,
        beat: Duration,
        count_max: usize,
        bytes_max: usize,
    ) -> Vec<Due> {
        let (mut due, mut bytes) = (Vec::new(), 0);
        for (name, said) in &mut self.orders {
            if due.len() == count_max || bytes >= bytes_max {
                break;
            }
            if said.is_due(now, beat) {
                if said.state == State::Running {
                    said.beats += 1;
                    said.entry = Entry::running(&said.digest, &said.token, said.beats);
                    said.said = Some(now);
                }
                bytes += said.entry.len();
                due.push(said.due(name));
            }
        }
        due
    }

    /// Redis may not have heard these.
    pub(super) fn failed(&mut self, due: &[Due]) {
        for due in due {
            let said = self.orders.get_mut(&due.name);
            if let Some(said) = said.filter(|said| said.token == due.token) {
                (said.is_written, said.said) = (false, None);
            }
        }
    }
}

impl Said {
    fn new(state: State, digest: &str, token: &Token, entry: String, now: Instant) -> Self {
        Self {
            state,
            digest: digest.to_owned(),
            token: token.clone(),
            entry,
            beats: 0,
            since: now,
            said: None,
            is_written: false,
        }
    }

    fn is_due(&self, now: Instant, beat: Duration) -> bool {
        let is_recent = |said: Instant| now.saturating_duration_since(said) < beat;
        match self.state {
            State::Running => !self.said.is_some_and(is_recent),
            State::Ended | State::Withdrawn => !self.is_written,
        }
    }

    /// As if Redis had heard it; [`Own::failed`] says otherwise.
    fn due(&mut self, name: &str) -> Due {
        self.is_written = true;
        Due {
            name: name.to_owned(),
            prefix: Entry::run(&self.digest, &self.token),
            entry: (self.state != State::Withdrawn).then(|| self.entry.clone()),
            token: self.token.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEAT: Duration = Duration::from_secs(2);
    const KEPT: Duration = Duration::from_secs(600);

    fn take(own: &mut Own, now: Instant) -> Vec<(String, Option<String>)> {
        let due = own.take(now, BEAT, 10, 1_000);
        due.into_iter().map(|due| (due.name, due.entry)).collect()
    }

    fn said(entry: &str) -> Vec<(String, Option<String>)> {
        vec![("a".to_owned(), Some(entry.to_owned()))]
    }

    #[test]
    fn an_order_beats_until_it_ends_and_is_said_again_to_a_redis_that_lost_it() {
        let (mut own, now) = (Own::new(1), Instant::now());
        own.adopt("g1");
        own.begin("a", "d", &Token::new(1, 0), now);
        assert_eq!(take(&mut own, now), []);
        assert_eq!(take(&mut own, now + BEAT), said("run d 1.0 1"));
        assert_eq!(take(&mut own, now + BEAT), []);
        let due = own.done("a", "{}").expect("an order");
        assert_eq!(take(&mut own, now + BEAT), []);
        own.failed(&[due]);
        assert_eq!(take(&mut own, now + BEAT), said("end d 1.0 {}"));
        own.adopt("g2");
        assert_eq!(take(&mut own, now + BEAT), said("end d 1.0 {}"));
        assert!(!own.forget(now + KEPT - BEAT, KEPT));
        assert!(own.forget(now + KEPT, KEPT));
    }

    #[test]
    fn a_claim_without_an_answer_is_struck_and_stands_in_nobodys_way() {
        let (mut own, now) = (Own::new(1), Instant::now());
        own.withdraw("a", "d", &Token::new(1, 0), now);
        assert!(own.has_left("a", "1.0") && !own.has_left("a", "2.0"));
        assert_eq!(take(&mut own, now), vec![("a".to_owned(), None)]);
        assert!(own.forget(now, KEPT));
        // The next call begins: the strike of the one before must not take it away.
        own.begin("a", "d", &Token::new(1, 1), now);
        own.withdraw("a", "d", &Token::new(1, 2), now);
        assert!(!own.has_left("a", "1.1"));
    }

    #[test]
    fn an_order_that_nobody_carries_on_is_said_to_be_lost() {
        let (mut own, now) = (Own::new(1), Instant::now());
        own.begin("a", "d", &Token::new(1, 0), now);
        own.lose("a");
        assert_eq!(take(&mut own, now), said("lost d 1.0 "));
    }
}
