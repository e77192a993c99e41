//! Backends that are called: each request takes items to an endpoint, and its answer brings commands back.
//!
//! The endpoint stands where the worker of a socket stands. A socket has one call at a time, so its items arrive in order. A
//! call that fails is made again, later and later; that holds up its own sockets only. Many failures in a row open a circuit:
//! until it closes, one call at a time finds out whether the endpoint is well again.

use crate::entry::Entry;
use crate::home::Phase;
use crate::message::{Refusal, Why};
use crate::name::Name;
use crate::proto;
use crate::proto::command::What;
use crate::settings::Settings;
use crate::state::Backend;
use std::collections::{BTreeMap, BTreeSet};

/// In place of a worker's number.
pub(crate) const ENDPOINT: u64 = u64::MAX;
/// Failures in a row that open the circuit.
const FAILURES: u32 = 5;
/// Bytes of items in one call. A single item may be larger.
const CALL_BYTES: usize = 256 << 10;

/// How an endpoint is called. Times in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calling {
    /// Newcomers wait for its decision. If not, they are let in, and it is told.
    pub decides: bool,
    pub batch_max: usize,
    /// An item waits so long for others that go with it.
    pub batch_delay_ms: u64,
    /// Calls at the same time.
    pub calls_max: usize,
    /// The first pause before a call is made again; each further one is twice as long.
    pub retry_min_ms: u64,
    pub retry_max_ms: u64,
    /// News of beginnings and ends are tried for so long.
    pub keep_ms: u64,
}

impl Default for Calling {
    fn default() -> Self {
        Self {
            decides: true,
            batch_max: 100,
            batch_delay_ms: 50,
            calls_max: 32,
            retry_min_ms: 500,
            retry_max_ms: 30_000,
            keep_ms: 3_600_000,
        }
    }
}

/// One request to make. [`Backend::call_ended`] ends it.
#[derive(Clone, Debug)]
pub struct Call {
    pub number: u64,
    /// One, or some that nobody waits for.
    pub news: Vec<News>,
}

/// An item, with what an endpoint must be told of its socket each time.
#[derive(Clone, Debug)]
pub struct News {
    /// The id of the socket; of another node that is gone, a name that all nodes give it.
    pub about: String,
    pub item: proto::Item,
    pub namespace: String,
    pub user: String,
    /// Its answer decides about a client.
    pub decides: bool,
}

/// How a call went.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The endpoint took it and wants this.
    Taken(Vec<What>),
    /// It took it, and what it said is no answer.
    Unread,
    /// It will never take this: it is not asked again.
    Refused,
    /// It is asked again.
    Failed,
}

/// The place of a socket among those that wait for a call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turn {
    /// Its place in the row: alone or with others, and when.
    due: Option<(bool, u64)>,
    flying: bool,
    /// Calls that failed in a row.
    attempts: u32,
    not_before_ms: u64,
}

#[derive(Debug)]
pub(crate) struct Calls {
    pub(crate) calling: Calling,
    /// Sockets whose first item goes alone, and those whose first item goes with others.
    alone: BTreeSet<(u64, Name)>,
    together: BTreeSet<(u64, Name)>,
    flying: BTreeMap<u64, Vec<Entry>>,
    made: u64,
    /// Items that came since a batch left.
    fresh: usize,
    failures: u32,
    open_until_ms: u64,
}

impl Calls {
    fn new(calling: Calling) -> Self {
        Self {
            calling,
            alone: BTreeSet::new(),
            together: BTreeSet::new(),
            flying: BTreeMap::new(),
            made: 0,
            fresh: 0,
            failures: 0,
            open_until_ms: 0,
        }
    }

    fn row(&mut self, alone: bool) -> &mut BTreeSet<(u64, Name)> {
        match alone {
            true => &mut self.alone,
            false => &mut self.together,
        }
    }

    fn is_open(&self) -> bool {
        self.failures >= FAILURES
    }

    fn may_call(&self, now_ms: u64) -> bool {
        let free = self.flying.len() < self.calling.calls_max;
        let probes = now_ms >= self.open_until_ms && self.flying.is_empty();
        free && (!self.is_open() || probes)
    }

    fn pause_ms(&self, attempts: u32, salt: u64) -> u64 {
        let longest = self.calling.retry_min_ms << attempts.min(20);
        let longest = longest.min(self.calling.retry_max_ms).max(2);
        // Sockets that failed together do not come back together.
        longest / 2 + salt % (longest / 2)
    }

    fn failed(&mut self, now_ms: u64) {
        self.failures = self.failures.saturating_add(1);
        if self.is_open() {
            let pause_ms = self.pause_ms(self.failures - FAILURES, self.made);
            self.open_until_ms = now_ms + pause_ms;
        }
    }
}

/// A number that is different for each socket and attempt.
fn salt(name: &Name, attempts: u32) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ u64::from(attempts);
    let bytes = name.as_str().bytes();
    let mixed = bytes.fold(start, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    mixed >> 16
}

impl Backend {
    /// A backend whose logic is an endpoint that is called.
    pub fn calling(settings: Settings, calling: Calling) -> Self {
        let mut backend = Self::new(settings);
        backend.calls = Some(Calls::new(calling));
        backend
    }

    /// `None`: workers attach. `Some(false)`: the endpoint failed too often, and is left alone for a while.
    pub fn endpoint_is_well(&self) -> Option<bool> {
        self.calls.as_ref().map(|calls| !calls.is_open())
    }

    /// Sockets whose items wait for a call.
    pub(crate) fn in_row(&self) -> usize {
        let calls = self.calls.as_ref();
        calls.map_or(0, |calls| calls.alone.len() + calls.together.len())
    }

    pub(crate) fn decides(&self) -> bool {
        self.calls
            .as_ref()
            .is_none_or(|calls| calls.calling.decides)
    }

    /// The circuit is open: a client that waits for an answer is told at once that there will be none.
    pub(crate) fn is_cut_off(&self, now_ms: u64) -> bool {
        let calls = self.calls.as_ref();
        calls.is_some_and(|calls| calls.is_open() && now_ms < calls.open_until_ms)
    }

    // ---- the row --------------------------------------------------------------------------------------------------------------

    /// Something was put behind what waits for this socket.
    pub(crate) fn came(&mut self, name: Name) {
        let Some(calls) = &mut self.calls else { return };
        let Some(last) = self.homes.get(&name).and_then(|home| home.held.back()) else {
            return;
        };
        let alone = last.stands_alone(calls.calling.decides);
        calls.fresh += usize::from(!alone);
        let wait_ms = u64::from(!alone) * calls.calling.batch_delay_ms;
        let due_ms = last.came_ms + wait_ms;
        self.line_up(name, due_ms);
    }

    /// Gives a socket its place, or an earlier one.
    fn line_up(&mut self, name: Name, due_ms: u64) {
        let (Some(calls), Some(home)) = (&mut self.calls, self.homes.get_mut(&name)) else {
            return;
        };
        let Some(first) = home.held.front() else {
            return;
        };
        if home.turn.flying {
            return;
        }
        let alone = first.stands_alone(calls.calling.decides);
        let due_ms = due_ms.max(home.turn.not_before_ms);
        let due_ms = match home.turn.due {
            Some((_, known_ms)) => due_ms.min(known_ms),
            None => due_ms,
        };
        if let Some((alone, known_ms)) = home.turn.due.replace((alone, due_ms)) {
            calls.row(alone).remove(&(known_ms, name));
        }
        calls.row(alone).insert((due_ms, name));
    }

    pub(crate) fn leave_row(&mut self, name: Name, turn: &Turn) {
        if let Some(calls) = &mut self.calls
            && let Some((alone, due_ms)) = turn.due
        {
            calls.row(alone).remove(&(due_ms, name));
        }
    }

    fn take_turn(&mut self, name: Name) {
        let Some(home) = self.homes.get_mut(&name) else {
            return;
        };
        let turn = home.turn;
        home.turn.due = None;
        self.leave_row(name, &turn);
    }

    // ---- calls ----------------------------------------------------------------------------------------------------------------

    /// The next request that is due.
    pub fn next_call(&mut self, now_ms: u64) -> Option<Call> {
        if !self.calls.as_ref()?.may_call(now_ms) {
            return None;
        }
        let alone = |backend: &mut Self| Some(vec![backend.next_alone(now_ms)?]);
        let entries = match self.batch_is_first() {
            true => self.next_batch(now_ms).or_else(|| alone(self)),
            false => alone(self).or_else(|| self.next_batch(now_ms)),
        }?;
        let calls = self.calls.as_mut()?;
        calls.made += 1;
        let number = calls.made;
        let decides = calls.calling.decides;
        let news = entries.iter().map(|entry| self.tell_of(entry, decides));
        let news: Vec<News> = news.collect();
        let again = news.iter().filter(|news| news.item.redelivered);
        self.counts.redelivered += again.count() as u64;
        self.calls.as_mut()?.flying.insert(number, entries);
        Some(Call { number, news })
    }

    fn tell_of(&self, entry: &Entry, decides: bool) -> News {
        let home = entry.about.and_then(|name| self.homes.get(&name));
        let connect = home.map(|home| home.introduction.open());
        let connect = connect.unwrap_or_default();
        let about = entry.about.map(|name| name.as_str().to_owned());
        News {
            about: about.unwrap_or_default(),
            item: entry.item(),
            namespace: connect.namespace,
            user: connect.user,
            decides: decides && entry.introduces(),
        }
    }

    fn batch_is_first(&self) -> bool {
        let calls = self.calls.as_ref();
        calls.is_some_and(
            |calls| match (calls.together.first(), calls.alone.first()) {
                (Some(together), Some(alone)) => together < alone,
                _ => false,
            },
        )
    }

    fn next_alone(&mut self, now_ms: u64) -> Option<Entry> {
        loop {
            let calls = self.calls.as_ref()?;
            let decides = calls.calling.decides;
            let (_, name) = *calls
                .alone
                .first()
                .filter(|(due_ms, _)| *due_ms <= now_ms)?;
            self.take_turn(name);
            let entry = self.next_wanted(name, |entry| entry.stands_alone(decides));
            if let Some(entry) = entry {
                self.set_off(name);
                return Some(entry);
            }
            // A single item is not wanted any more.
            self.line_up(name, now_ms);
        }
    }

    fn next_batch(&mut self, now_ms: u64) -> Option<Vec<Entry>> {
        let calls = self.calls.as_mut()?;
        let (max, decides) = (calls.calling.batch_max, calls.calling.decides);
        let full = calls.fresh >= max;
        let until_ms = now_ms + u64::from(full) * calls.calling.batch_delay_ms;
        let (mut entries, mut bytes) = (Vec::new(), 0);
        while entries.len() < max && bytes < CALL_BYTES {
            let calls = self.calls.as_mut()?;
            let Some((_, name)) = calls.together.first().filter(|due| due.0 <= until_ms) else {
                break;
            };
            let name = *name;
            self.take_turn(name);
            let before = entries.len();
            while entries.len() < max
                && bytes < CALL_BYTES
                && let Some(entry) = self.next_wanted(name, |entry| !entry.stands_alone(decides))
            {
                bytes += entry.bytes;
                entries.push(entry);
            }
            match entries.len() > before {
                true => self.set_off(name),
                false => self.line_up(name, now_ms),
            }
        }
        let calls = self.calls.as_mut()?;
        calls.fresh = calls.fresh.saturating_sub(entries.len().max(1));
        (!entries.is_empty()).then_some(entries)
    }

    /// The socket's first item, if it is one of these. Items that nobody waits for any more are dropped.
    fn next_wanted(&mut self, name: Name, is_meant: impl Fn(&Entry) -> bool) -> Option<Entry> {
        loop {
            let home = self.homes.get_mut(&name)?;
            let entry = home.held.pop_front()?;
            if !self.is_wanted(&entry) {
                self.release(&entry);
                continue;
            }
            if is_meant(&entry) {
                return Some(entry);
            }
            self.homes.get_mut(&name)?.held.push_front(entry);
            return None;
        }
    }

    fn set_off(&mut self, name: Name) {
        if let Some(home) = self.homes.get_mut(&name) {
            home.turn.flying = true;
            home.worker = Some(ENDPOINT);
        }
    }

    /// A call came back.
    ///
    /// # Errors
    /// The answer lets a client in, beside a command that cannot be carried out: so it is refused.
    pub fn call_ended(
        &mut self,
        now_ms: u64,
        number: u64,
        outcome: Outcome,
    ) -> Result<(), &'static str> {
        let Some(calls) = &mut self.calls else {
            return Ok(());
        };
        let Some(entries) = calls.flying.remove(&number) else {
            return Ok(());
        };
        let fault = match &outcome {
            Outcome::Taken(commands) if self.awaits_decision(&entries) => commands
                .iter()
                .find_map(|what| self.check_target(what).err()),
            _ => None,
        };
        match fault {
            Some(why) => {
                self.end_call(now_ms, entries, Outcome::Refused);
                Err(why)
            }
            None => {
                self.end_call(now_ms, entries, outcome);
                Ok(())
            }
        }
    }

    fn awaits_decision(&self, entries: &[Entry]) -> bool {
        entries.iter().any(|entry| {
            let home = entry.about.and_then(|name| self.homes.get(&name));
            entry.introduces() && home.is_some_and(|home| home.phase == Phase::Deciding)
        })
    }

    fn end_call(&mut self, now_ms: u64, entries: Vec<Entry>, outcome: Outcome) {
        let Some(calls) = &mut self.calls else { return };
        match outcome {
            Outcome::Failed => {
                calls.failed(now_ms);
                self.counts.calls_failed += 1;
                self.take_back_call(now_ms, entries);
            }
            Outcome::Refused => {
                calls.failures = 0;
                self.counts.calls_refused += 1;
                self.finish(now_ms, entries, false);
            }
            Outcome::Unread => {
                calls.failures = 0;
                self.counts.calls_unread += 1;
                self.finish(now_ms, entries, true);
            }
            Outcome::Taken(commands) => {
                calls.failures = 0;
                self.counts.calls_taken += 1;
                // Commands about a newcomer need one that is in.
                if !commands
                    .iter()
                    .any(|what| matches!(what, What::Decision(_)))
                {
                    self.admit_all(&entries);
                }
                for what in commands {
                    let done = self.carry_out(now_ms, ENDPOINT, what);
                    self.counts.commands_failed += u64::from(done.is_err());
                }
                self.finish(now_ms, entries, true);
            }
        }
    }

    fn admit_all(&mut self, entries: &[Entry]) {
        for entry in entries.iter().filter(|entry| entry.introduces()) {
            let home = entry.about.and_then(|name| self.homes.get(&name));
            if let (Some(name), Some(Phase::Deciding)) = (entry.about, home.map(|home| home.phase))
            {
                self.settle_decision(name, Ok(()));
            }
        }
    }

    /// All items of a failed call come again, in their order.
    fn take_back_call(&mut self, now_ms: u64, entries: Vec<Entry>) {
        let mut names = BTreeSet::new();
        for mut entry in entries.into_iter().rev() {
            entry.redelivered = true;
            let home = entry.about.and_then(|name| self.homes.get_mut(&name));
            match home {
                Some(home) => {
                    names.extend(entry.about);
                    home.held.push_front(entry);
                }
                None => self.release(&entry),
            }
        }
        for name in names {
            let (Some(calls), Some(home)) = (&self.calls, self.homes.get_mut(&name)) else {
                continue;
            };
            let attempts = home.turn.attempts;
            let pause_ms = calls.pause_ms(attempts, salt(&name, attempts));
            home.turn = Turn {
                due: None,
                flying: false,
                attempts: attempts.saturating_add(1),
                not_before_ms: now_ms + pause_ms,
            };
            self.line_up(name, now_ms);
        }
    }

    /// The endpoint has them, or will never have them. Nobody waits any longer.
    fn finish(&mut self, now_ms: u64, entries: Vec<Entry>, taken: bool) {
        let names: BTreeSet<Name> = entries.iter().filter_map(|entry| entry.about).collect();
        for entry in entries {
            if !taken {
                self.counts.dead_letters += u64::from(!entry.is_event());
            }
            if let Some(name) = entry.about {
                self.answer_in_its_place(name, &entry, taken);
            }
            self.release(&entry);
            if entry.is_gone()
                && let Some(name) = entry.about
            {
                self.forget(name);
            }
        }
        for name in names {
            if let Some(home) = self.homes.get_mut(&name) {
                home.turn = Turn::default();
                self.line_up(name, now_ms);
            }
        }
    }

    /// The answer has no word for the client that waits: its event is acked with nothing. There is no answer: it is refused.
    fn answer_in_its_place(&mut self, name: Name, entry: &Entry, taken: bool) {
        let Some(home) = self.homes.get(&name) else {
            return;
        };
        if entry.introduces() && home.phase == Phase::Deciding {
            return self.settle_decision(name, Err(Refusal::unavailable()));
        }
        let Some(ack) = entry.ack().filter(|ack| home.open.contains(*ack)) else {
            return;
        };
        if taken {
            let nothing = proto::Ack {
                socket: name.as_str().to_owned(),
                ack,
                ..proto::Ack::default()
            };
            // It is one of its own.
            let _ = self.carry_out(0, ENDPOINT, What::Ack(nothing));
        } else if let Some(home) = self.homes.get_mut(&name) {
            home.settle(ack);
            self.refuse(name, ack, Why::Failed);
        }
    }

    // ---- time -----------------------------------------------------------------------------------------------------------------

    /// Looks at all that wait: some waited for too long.
    pub(crate) fn look_at_row(&mut self, now_ms: u64) {
        let Some(calls) = &self.calls else { return };
        let row = calls.alone.iter().chain(&calls.together);
        let names: Vec<Name> = row.map(|(_, name)| *name).collect();
        for name in names {
            self.give_up_late(now_ms, name);
        }
    }

    fn give_up_late(&mut self, now_ms: u64, name: Name) {
        let patience_ms = self.settings.park_timeout_ms;
        let keep_ms = self.calls.as_ref().map_or(0, |calls| calls.calling.keep_ms);
        let Some(home) = self.homes.get_mut(&name) else {
            return;
        };
        let is_late = |entry: &Entry| {
            let for_ms = if entry.is_event() {
                patience_ms
            } else {
                keep_ms
            };
            entry.came_ms + for_ms <= now_ms
        };
        let late = home.take_held(is_late);
        if late.is_empty() {
            return;
        }
        for entry in late {
            self.give_up(name, &entry);
        }
        let Some(home) = self.homes.get(&name) else {
            return;
        };
        if home.held.is_empty() {
            let gone = home.phase == Phase::Gone;
            self.take_turn(name);
            if gone {
                self.forget(name);
            }
        } else {
            self.line_up(name, now_ms);
        }
    }

    fn give_up(&mut self, name: Name, entry: &Entry) {
        self.release_bytes(entry.bytes);
        if !entry.is_event() {
            self.counts.dead_letters += 1;
            return;
        }
        let Some(home) = self.homes.get_mut(&name) else {
            return;
        };
        let waits = entry.ack().is_none_or(|ack| home.open.remove(ack));
        if waits && home.phase == Phase::In {
            self.refuse(name, entry.ack().unwrap_or(0), Why::Absent);
        }
    }
}
