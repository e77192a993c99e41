//! An endpoint in place of workers: the sockets that wait for a call of it, and whether it is well.

use crate::bounds::CIRCUIT_FAILURES;
use crate::entry::Entry;
use crate::home::{Home, Turn};
use crate::name::Name;
use std::collections::BTreeSet;

/// In place of a worker's number.
pub(crate) const ENDPOINT: u64 = u64::MAX;

/// The way an endpoint is called. Times in milliseconds.
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

#[derive(Debug)]
pub(crate) struct Endpoint {
    calling: Calling,
    /// Sockets whose first item goes alone, and those whose first item goes with others.
    alone: BTreeSet<(u64, Name)>,
    together: BTreeSet<(u64, Name)>,
    /// Items that came since a batch left.
    fresh: usize,
    failures: u32,
    open_until_ms: u64,
}

impl Endpoint {
    pub(crate) fn new(calling: Calling) -> Self {
        Self {
            calling,
            alone: BTreeSet::new(),
            together: BTreeSet::new(),
            fresh: 0,
            failures: 0,
            open_until_ms: 0,
        }
    }

    pub(crate) fn calling(&self) -> &Calling {
        &self.calling
    }

    // ---- for the next process -------------------------------------------------------------------------------------------------

    /// Failures in a row, and for how long it is left alone.
    pub(crate) fn health(&self, now_ms: u64) -> (u32, u64) {
        (self.failures, self.open_until_ms.saturating_sub(now_ms))
    }

    pub(crate) fn go_on_with(&mut self, (failures, rests_ms): (u32, u64), now_ms: u64) {
        self.failures = failures;
        self.open_until_ms = now_ms + rests_ms.min(self.calling.retry_max_ms);
    }

    /// A socket whose calls failed so often comes back into the row, after that pause.
    pub(crate) fn goes_on(&mut self, name: Name, home: &mut Home, attempts: u32, due_ms: u64) {
        home.turn.attempts = attempts;
        home.turn.not_before_ms = due_ms;
        self.line_up(name, home, due_ms);
    }

    // ---- the circuit ----------------------------------------------------------------------------------------------------------

    pub(crate) fn is_well(&self) -> bool {
        self.failures < CIRCUIT_FAILURES
    }

    /// The circuit is open: a client that waits for an answer is told at once that there will be none.
    pub(crate) fn is_cut_off(&self, now_ms: u64) -> bool {
        !self.is_well() && now_ms < self.open_until_ms
    }

    /// One more call may be made, beside so many.
    pub(crate) fn may_call(&self, now_ms: u64, flying: usize) -> bool {
        let free = flying < self.calling.calls_max;
        let probes = now_ms >= self.open_until_ms && flying == 0;
        free && (self.is_well() || probes)
    }

    pub(crate) fn succeeded(&mut self) {
        self.failures = 0;
    }

    pub(crate) fn failed(&mut self, now_ms: u64, salt: u64) {
        self.failures = self.failures.saturating_add(1);
        if !self.is_well() {
            let pause_ms = self.pause_ms(self.failures - CIRCUIT_FAILURES, salt);
            self.open_until_ms = now_ms + pause_ms;
        }
    }

    fn pause_ms(&self, attempts: u32, salt: u64) -> u64 {
        let longest = self.calling.retry_min_ms << attempts.min(20);
        let longest = longest.min(self.calling.retry_max_ms).max(2);
        // Sockets that failed together do not come back together.
        longest / 2 + salt % (longest / 2)
    }

    // ---- the row --------------------------------------------------------------------------------------------------------------

    pub(crate) fn waiting(&self) -> usize {
        self.alone.len() + self.together.len()
    }

    pub(crate) fn names(&self) -> Vec<Name> {
        let row = self.alone.iter().chain(&self.together);
        row.map(|(_, name)| *name).collect()
    }

    fn row(&mut self, alone: bool) -> &mut BTreeSet<(u64, Name)> {
        match alone {
            true => &mut self.alone,
            false => &mut self.together,
        }
    }

    /// Something was put behind what waits for this socket.
    pub(crate) fn came(&mut self, name: Name, home: &mut Home) {
        let Some(last) = home.items.held().back() else {
            return;
        };
        let alone = last.stands_alone(self.calling.decides);
        self.fresh += usize::from(!alone);
        let wait_ms = u64::from(!alone) * self.calling.batch_delay_ms;
        let due_ms = last.came_ms + wait_ms;
        self.line_up(name, home, due_ms);
    }

    /// Gives a socket its place, or an earlier one.
    pub(crate) fn line_up(&mut self, name: Name, home: &mut Home, due_ms: u64) {
        let Some(first) = home.items.held().front() else {
            return;
        };
        if home.turn.flying {
            return;
        }
        let alone = first.stands_alone(self.calling.decides);
        let due_ms = due_ms.max(home.turn.not_before_ms);
        let due_ms = match home.turn.due {
            Some((_, known_ms)) => due_ms.min(known_ms),
            None => due_ms,
        };
        let before = home.turn;
        home.turn.due = Some((alone, due_ms));
        self.leave(name, &before);
        self.row(alone).insert((due_ms, name));
    }

    pub(crate) fn leave(&mut self, name: Name, turn: &Turn) {
        if let Some((alone, due_ms)) = turn.due {
            self.row(alone).remove(&(due_ms, name));
        }
    }

    /// It does not wait any longer, for a call or for ever.
    pub(crate) fn take_turn(&mut self, name: Name, home: &mut Home) {
        let turn = home.turn;
        home.turn.due = None;
        self.leave(name, &turn);
    }

    /// Its call failed: it waits for a while.
    pub(crate) fn send_back(&mut self, name: Name, home: &mut Home, now_ms: u64) {
        let attempts = home.turn.attempts;
        let pause_ms = self.pause_ms(attempts, salt(&name, attempts));
        home.turn = Turn {
            due: None,
            flying: false,
            attempts: attempts.saturating_add(1),
            not_before_ms: now_ms + pause_ms,
        };
        self.line_up(name, home, now_ms);
    }

    /// Its client is back, and its next life waits for what the endpoint has to hear of this one: calls are made as if none had failed.
    pub(crate) fn hurry(&mut self, name: Name, home: &mut Home, now_ms: u64) {
        (home.turn.attempts, home.turn.not_before_ms) = (0, 0);
        self.line_up(name, home, now_ms);
    }

    /// Those that go with others are due before those that go alone.
    pub(crate) fn batch_is_first(&self) -> bool {
        match (self.together.first(), self.alone.first()) {
            (Some(together), Some(alone)) => together < alone,
            _ => false,
        }
    }

    pub(crate) fn next_alone(&self, now_ms: u64) -> Option<Name> {
        let (due_ms, name) = *self.alone.first()?;
        (due_ms <= now_ms).then_some(name)
    }

    pub(crate) fn next_together(&self, until_ms: u64) -> Option<Name> {
        let (due_ms, name) = *self.together.first()?;
        (due_ms <= until_ms).then_some(name)
    }

    /// Items that came by then may leave: a full batch waits for no more.
    pub(crate) fn batch_until_ms(&self, now_ms: u64) -> u64 {
        let full = self.fresh >= self.calling.batch_max;
        now_ms + u64::from(full) * self.calling.batch_delay_ms
    }

    pub(crate) fn batch_left(&mut self, items: usize) {
        self.fresh = self.fresh.saturating_sub(items.max(1));
    }

    /// A client waits for what the endpoint makes of it: it has a call of its own.
    pub(crate) fn goes_alone(&self, entry: &Entry) -> bool {
        entry.stands_alone(self.calling.decides)
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
