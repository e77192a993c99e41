//! Owns all users of one worker and the turn they live by: one epoll, one read buffer, no task and
//! no thread of their own. `net` carries bytes, `play` carries out steps; this file decides when.

use super::connection::Role;
use super::course::State;
use super::membership::{Account, Clockwork};
use super::net;
use super::parting::send_out;
use super::plan::{Place, Plan};
use super::play::{advance, overdue};
use super::publications::Publications;
use super::shared::Shared;
use super::stopping::{Missing, connecting, late_rounds};
use super::tally::Tally;
use super::timers::Metronome;
use super::user::User;
use super::wakeup::{self, Timer};
use crate::clock::now_ns;
use crate::scenario::Scenario;
use anyhow::Result;
use mio::event::Event;
use mio::{Events, Poll, Token};
use std::collections::HashSet;
use std::time::Duration;

/// Token of the worker's waker; users have `index × 4 + role`.
pub const WAKE: Token = Token(usize::MAX);
const TIMER: Token = Token(usize::MAX - 1);
const EVENTS_PER_TURN: usize = 1024;
/// Longest that users overdue for an answer go unnoticed.
const SWEEP_NS: u64 = 100_000_000;
/// Due users handled before sockets are looked at again: who falls behind must still hear.
const DUE_PER_TURN: usize = 4096;
/// Why a connect failed that was still under way when the wait for stragglers was over.
const NEVER_ANSWERED: &str = "never answered";

#[derive(Debug)]
pub struct Stage {
    plan: Plan,
    poll: Poll,
    timer: Timer,
    users: Vec<User>,
    shared: Shared,
    sweep_ns: u64,
}

impl Stage {
    pub fn new(poll: Poll, scenario: Scenario, place: Place) -> Result<Self> {
        Ok(Stage {
            plan: Plan::new(scenario, place, poll.registry().try_clone()?)?,
            timer: Timer::new(poll.registry(), TIMER)?,
            poll,
            users: Vec::new(),
            shared: Shared::default(),
            sweep_ns: 0,
        })
    }

    pub fn new_events() -> Events {
        Events::with_capacity(EVENTS_PER_TURN)
    }

    pub fn tally(&mut self) -> &mut Tally {
        &mut self.shared.tally
    }

    pub fn publications(&self) -> &Publications {
        &self.shared.publications
    }

    /// Number of this worker.
    pub fn worker(&self) -> usize {
        self.plan.place().worker.into()
    }

    /// Raises the number of users (of all workers) as fast as connects allow.
    pub fn raise(&mut self, users: u32) {
        self.shared.schedule.raise(users);
    }

    /// Announces a phase; it begins by itself at its time.
    pub fn announce(&mut self, phase: usize, begins_ns: u64) {
        let phases = &self.plan.scenario().phases;
        let duration = phases.get(phase).map_or(Duration::ZERO, |p| p.duration);
        self.shared.schedule.announce(phase, begins_ns, duration);
    }

    /// Nothing new is sent from now on; what is under way may still arrive. Rounds that were due and
    /// that their users had not come to are told, for no latency has them.
    pub fn stop(&mut self) {
        let shared = &mut self.shared;
        shared.turns.begin(None, &mut shared.tally);
        let until_ns = shared.schedule.stop().min(shared.now_ns);
        let late = |user: &User| late_rounds(&user.course, self.plan.flow(user), until_ns);
        let late: u64 = self.users.iter().map(late).sum();
        let is_behind = |due_ns| due_ns <= shared.now_ns;
        let reason = match shared.timers.next_due_ns().is_some_and(is_behind) {
            true => "the generator was too slow",
            false => "a user was busy with earlier steps",
        };
        shared.tally.unbegun(reason, late);
    }

    /// First half of a turn: wait, read, react.
    pub fn hear(&mut self, events: &mut Events, timeout: Duration) -> Result<()> {
        let due_ns = self.next_due_ns();
        wakeup::wait(&mut self.timer, &mut self.poll, events, due_ns, timeout)?;
        let woken_ns = now_ns();
        for event in events.iter() {
            match event.token() {
                WAKE => {}
                TIMER => self.timer.drain(),
                token => {
                    self.on_ready(token, event);
                    let lag_ns = self.shared.now_ns.saturating_sub(woken_ns);
                    self.shared.tally.latencies.read_lag.record(lag_ns);
                }
            }
        }
        Ok(())
    }

    fn on_ready(&mut self, token: Token, event: &Event) {
        let role = match token.0 & 3 {
            0 => Role::WebSocket,
            1 => Role::Get,
            _ => Role::Post,
        };
        if let Some(user) = self.users.get_mut(token.0 >> 2) {
            net::on_ready(&self.plan, user, &mut self.shared, role, event);
        }
    }

    /// Second half: do what is due by now.
    pub fn act(&mut self, now_ns: u64) {
        self.shared.now_ns = now_ns;
        self.begin_phase();
        self.run_timers();
        self.run_turns();
        self.admit();
        self.sweep();
    }

    fn next_due_ns(&self) -> Option<u64> {
        let shared = &self.shared;
        let candidates = [
            shared.turns.next_due_ns(shared.now_ns),
            shared.timers.next_due_ns(),
            shared.schedule.next_begins_ns(),
            self.next_arrival_ns(),
        ];
        candidates.into_iter().flatten().min()
    }

    fn begin_phase(&mut self) {
        let (plan, shared) = (&self.plan, &mut self.shared);
        let Some(begun) = shared.schedule.begin(shared.now_ns) else {
            return;
        };
        let phase = &plan.scenario().phases[begun.phase];
        let share = plan.paced_share(begun.phase);
        if share.all == 0 && self.plan.place().worker == 0 {
            let rounds = phase.rate.unwrap_or(0.0) * phase.duration.as_secs_f64();
            let reason = "no user has a loop with this pace";
            shared.tally.unbegun(reason, rounds as u64);
        }
        let rate = phase.rate.filter(|rate| *rate > 0.0);
        let pace = rate.map(|rate| Metronome::new(rate, share, begun.begins_ns, begun.ends_ns));
        shared.turns.begin(pace, &mut shared.tally);
        for user in &mut self.users {
            if matches!(user.course.state, State::Phase(phase) if phase <= begun.phase) {
                user.course.due_ns = begun.begins_ns;
                advance(plan, user, shared);
                send_out(plan, user, shared);
            }
        }
    }

    fn run_timers(&mut self) {
        for _ in 0..DUE_PER_TURN {
            let now_ns = self.shared.now_ns;
            let Some(entry) = self.shared.timers.pop_due(now_ns) else {
                return;
            };
            let user = &mut self.users[self.plan.index(entry.user)];
            if user.course.epoch != entry.epoch || user.course.state != State::Sleeping {
                continue;
            }
            let lag_ns = now_ns - entry.due_ns;
            self.shared.tally.latencies.turn_lag.record(lag_ns);
            advance(&self.plan, user, &mut self.shared);
            send_out(&self.plan, user, &mut self.shared);
        }
    }

    /// Gives the turns that are due to users who wait for one.
    fn run_turns(&mut self) {
        let (plan, shared) = (&self.plan, &mut self.shared);
        let was_behind = shared.turns.fall_due(shared.now_ns, &mut shared.tally);
        for _ in 0..DUE_PER_TURN {
            let Some((number, epoch)) = shared.turns.next_user() else {
                return;
            };
            let user = &mut self.users[plan.index(number)];
            if user.course.epoch != epoch || user.course.state != State::Parked {
                continue;
            }
            let due_ns = shared.turns.hand_out();
            if let Some(due_ns) = due_ns.filter(|_| was_behind) {
                let lag_ns = shared.now_ns.saturating_sub(due_ns);
                shared.tally.latencies.turn_lag.record(lag_ns);
            }
            advance(plan, user, shared);
            send_out(plan, user, shared);
        }
        shared.turns.look_behind();
    }

    /// Lets in the users that should be there by now.
    fn admit(&mut self) {
        if self.shared.schedule.is_over() {
            return;
        }
        let now_ns = self.shared.now_ns;
        while let Some(due_ns) = self.next_arrival_ns().filter(|due_ns| *due_ns <= now_ns) {
            let lag_ns = self.shared.now_ns - due_ns;
            self.shared.tally.latencies.turn_lag.record(lag_ns);
            self.enter(due_ns);
        }
        while self.shared.schedule.is_wanted(self.next_number()) && self.may_enter() {
            self.enter(now_ns);
        }
    }

    /// Few enough users are on their way through their connect and first joins.
    fn may_enter(&self) -> bool {
        let under_way = self.users.len() as u64 - self.shared.tally.arrived;
        under_way < u64::from(self.plan.place().in_flight)
    }

    fn enter(&mut self, due_ns: u64) {
        let mut user = self.plan.user(self.next_number(), due_ns);
        advance(&self.plan, &mut user, &mut self.shared);
        send_out(&self.plan, &mut user, &mut self.shared);
        self.users.push(user);
    }

    fn next_number(&self) -> u32 {
        self.plan.number(self.users.len())
    }

    /// When this worker's next user arrives, in a phase with an arrival rate.
    fn next_arrival_ns(&self) -> Option<u64> {
        let schedule = &self.shared.schedule;
        schedule.arrival_ns(self.plan.scenario(), self.next_number())
    }

    /// Ends what has waited too long.
    fn sweep(&mut self) {
        let (plan, shared) = (&self.plan, &mut self.shared);
        if shared.now_ns < self.sweep_ns {
            return;
        }
        self.sweep_ns = shared.now_ns + SWEEP_NS;
        for user in &mut self.users {
            if user.course.deadline_ns <= shared.now_ns {
                overdue(plan, user, shared);
                send_out(plan, user, shared);
            }
        }
    }

    /// Compares what this worker's users received with what all workers sent.
    pub fn settle(&self, others: &[Publications], clockwork: &Clockwork) -> Account {
        let mut account = Account::default();
        let own_worker = self.worker();
        for membership in self.users.iter().flat_map(|user| &user.rooms) {
            let others = others.iter();
            let mut sent: Vec<_> = others.map(|log| log.times(membership.room)).collect();
            if let Some(own) = sent.get_mut(own_worker) {
                *own = self.publications().times(membership.room);
            }
            membership.settle(&sent, own_worker, clockwork, &mut account);
        }
        account
    }

    pub fn missing(&self, account: &Account) -> Missing {
        Missing::of(&self.users, account)
    }

    /// Connects that nobody waits for any longer have failed.
    pub fn fail_connects(&mut self) {
        let count = connecting(&self.users);
        if count > 0 {
            let failures = &mut self.shared.tally.totals.connect_failures;
            *failures.entry(NEVER_ANSWERED.into()).or_default() += count;
        }
    }

    /// Whether any user of this worker ever was in `room`.
    pub fn rooms(&self) -> HashSet<u64> {
        let rooms = self.users.iter().flat_map(|user| &user.rooms);
        rooms.map(|membership| membership.room).collect()
    }
}
