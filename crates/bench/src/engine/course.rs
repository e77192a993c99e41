//! Owns where a user is in its flow and what it waits for. Pure: times are arguments.

use crate::scenario::EXPECTED_EVENTS_MAX;

/// What a user waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Nothing: its steps are being carried out.
    #[default]
    Running,
    /// A point in time.
    Sleeping,
    /// The protocol to be ready.
    Connecting,
    /// The answer to what it sent.
    Answer { id: u32, of: Request },
    /// Fewer unanswered events.
    Full,
    /// Messages of an expected event.
    Expecting { event: usize, count: u32 },
    /// A turn in a loop that all users share.
    Parked,
    /// The beginning of a phase.
    Phase(usize),
    /// The flow is at its end; the connection stays.
    Finished,
    /// The server to end the connection, as it was asked to.
    Leaving,
    /// Not connected and not coming back.
    Gone,
}

/// What an answer is awaited for; memberships by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    Event,
    Join(usize),
    Leave(usize),
}

/// One loop that a user is in.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// Index of the loop's step.
    pub step: usize,
    pub done: u32,
    /// When the next round is due, for loops with a period.
    pub next_due_ns: u64,
    /// No round begins later.
    pub end_ns: u64,
}

#[derive(Debug, Default)]
pub struct Course {
    pub step: usize,
    pub state: State,
    /// Makes older timers void.
    pub epoch: u32,
    /// When waiting turns into an error.
    pub deadline_ns: u64,
    /// When the present step should have begun.
    pub due_ns: u64,
    /// Unconsumed messages of each expected event.
    pub inbox: [u32; EXPECTED_EVENTS_MAX],
    pub loops: Vec<Round>,
}

impl Course {
    pub fn new(due_ns: u64) -> Self {
        Course {
            deadline_ns: u64::MAX,
            due_ns,
            ..Course::default()
        }
    }

    /// Waits for something else from now on.
    pub fn wait(&mut self, state: State, deadline_ns: u64) {
        self.state = state;
        self.deadline_ns = deadline_ns;
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// The present step cannot have begun earlier.
    pub fn not_before(&mut self, ns: u64) {
        self.due_ns = self.due_ns.max(ns);
    }

    /// Rounds before the present one of the innermost loop.
    pub fn iteration(&self) -> u32 {
        let round = self.loops.last();
        round.map_or(0, |round| round.done.saturating_sub(1))
    }

    pub fn restart(&mut self, due_ns: u64) {
        self.step = 0;
        self.loops.clear();
        self.inbox = Default::default();
        self.due_ns = due_ns;
    }
}
