//! The way of errands to the shards.

use hub::Process;
use rules::ToShards;
use rules::{Errand, Outcome};
use shard::{Shards, ToHandlers};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Brings errands to the shards.
pub struct Errands(ToHandlers, Process);

impl Errands {
    pub fn of(shards: &Shards) -> Box<Self> {
        Box::new(Self(shards.to_handlers(), shards.process().clone()))
    }
}

impl ToShards for Errands {
    /// To the home of the namespace, if it has one: the events of calls have then the order of their answers.
    fn send(&self, errand: Errand) {
        let (bytes, namespace) = (errand.bytes(), &errand.of.namespace);
        let keeping = self.1.keeping.get();
        let home = keeping.and_then(|keeping| keeping.home_of(namespace, self.0.shards()));
        let home = home.unwrap_or(0);
        let mut gate = gate();
        match &mut *gate {
            // The gate stays locked: what passed it is in a mailbox before `hold` returns.
            Gate::Open => pass(&self.0, home, errand, bytes),
            Gate::Held(held) if held.len() < HELD_MAX => {
                held.push((self.0.clone(), home, errand, bytes));
            }
            Gate::Held(_) | Gate::Closed => {
                drop(gate);
                (errand.answer)(Outcome::Moved);
            }
        }
    }
}

fn pass(shards: &ToHandlers, home: u16, errand: Errand, bytes: usize) {
    errand.begins();
    shards.send(home, Box::new(errand), bytes);
}

/// An errand on its way to a shard, and what it costs.
type Held = (ToHandlers, u16, Errand, usize);

/// Errands that wait while the process hands over. It takes a moment; more than these are refused.
const HELD_MAX: usize = 1_000;

/// The one gate of the process, before its shards.
static GATE: Mutex<Gate> = Mutex::new(Gate::Open);

enum Gate {
    Open,
    /// What is sent waits: it would reach shards that hand over what it is about.
    Held(Vec<Held>),
    /// Another process has the clients.
    Closed,
}

fn gate() -> MutexGuard<'static, Gate> {
    GATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is sent from now on waits.
pub fn hold() {
    let mut gate = gate();
    if matches!(*gate, Gate::Open) {
        *gate = Gate::Held(Vec::new());
    }
}

/// What waited goes on its way, in its order.
pub fn reopen() {
    let mut gate = gate();
    if let Gate::Held(held) = std::mem::replace(&mut *gate, Gate::Open) {
        for (shards, home, errand, bytes) in held {
            pass(&shards, home, errand, bytes);
        }
    }
}

/// Nothing reaches a shard any more: whoever waits is told to ask again, and finds the successor.
pub fn close() {
    if let Gate::Held(held) = std::mem::replace(&mut *gate(), Gate::Closed) {
        for (_, _, errand, _) in held {
            (errand.answer)(Outcome::Moved);
        }
    }
}
