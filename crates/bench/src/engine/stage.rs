//! Owns all users of one worker and the turn they live by: one epoll, one read buffer, no task and
//! no thread of their own. `net` carries bytes, `play` carries out steps; this file decides when.

use super::membership::{Account, Clockwork};
use super::publications::Publications;
use super::scratch::Scratch;
use super::tally::Tally;
use super::timers::{Entry, Metronome, Share, Timers};
use super::user::{State, User};
use super::wakeup::{self, Timer};
use crate::clock::now_ns;
use crate::scenario::Scenario;
use crate::tls::Trust;
use anyhow::Result;
use mio::{Events, Poll, Token};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Token of the worker's waker; users have `index × 4 + role`.
pub const WAKE: Token = Token(usize::MAX);
const TIMER: Token = Token(usize::MAX - 1);
const EVENTS_PER_TURN: usize = 1024;
/// Longest that users overdue for an answer go unnoticed.
const SWEEP_NS: u64 = 100_000_000;
/// Due users handled before sockets are looked at again: who falls behind must still hear.
const DUE_PER_TURN: usize = 4096;

/// Which part of all users this worker has: those whose number modulo `workers` is `worker`.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Place {
    /// Number of the run, 12 bits, so that another run's messages are known as such.
    pub run: u16,
    pub worker: u16,
    pub workers: u16,
    pub servers: Vec<Server>,
    /// Certificates in PEM to trust, instead of those of the machine.
    pub authorities: Option<String>,
    /// Users of this worker that connect at the same time, where the scenario sets no rate.
    pub in_flight: u32,
}

/// One address that users are spread over.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Server {
    pub addr: SocketAddr,
    /// As the Host header has it.
    pub host: String,
    /// The name that its certificate must have, where it speaks TLS.
    pub tls: Option<String>,
}

/// A phase under way.
#[derive(Clone, Copy, Debug)]
struct Current {
    phase: usize,
    begins_ns: u64,
    ends_ns: u64,
}

#[derive(Debug)]
pub struct Stage {
    pub(super) scenario: Rc<Scenario>,
    pub(super) place: Place,
    /// Whom to trust, where a server speaks TLS.
    pub(super) trust: Option<Trust>,
    pub(super) poll: Poll,
    timer: Timer,
    pub(super) users: Vec<User>,
    /// Users of the whole scenario, for templates.
    pub(super) users_total: u32,
    pub(super) timers: Timers,
    pub(super) tally: Tally,
    pub(super) publications: Publications,
    pub(super) scratch: Scratch,
    pub(super) now_ns: u64,
    /// Users (of all workers) to be there as soon as possible.
    wanted: u32,
    pub(super) opening: u32,
    current: Option<Current>,
    next: Option<Current>,
    pace: Option<Metronome>,
    /// Users waiting for a turn in a shared loop, with their epochs.
    pub(super) parked: VecDeque<(u32, u32)>,
    /// Turns that came up while nobody waited.
    owed: VecDeque<u64>,
    /// The turn that the user at hand was woken for: when it was due.
    pub(super) turn_in_hand: Option<u64>,
    /// Turns are owed although users wait for them: this generator is too slow.
    is_behind: bool,
    pub(super) outstanding: u64,
    pub(super) stopped: bool,
    sweep_ns: u64,
}

impl Stage {
    pub fn new(poll: Poll, scenario: Scenario, place: Place) -> Result<Self> {
        let timer = Timer::new(poll.registry(), TIMER)?;
        let speaks_tls = place.servers.iter().any(|server| server.tls.is_some());
        let trust = speaks_tls.then(|| Trust::new(place.authorities.as_deref()));
        Ok(Stage {
            users_total: scenario.users(),
            scenario: Rc::new(scenario),
            place,
            trust: trust.transpose()?,
            poll,
            timer,
            users: Vec::new(),
            timers: Timers::default(),
            tally: Tally::default(),
            publications: Publications::default(),
            scratch: Scratch::default(),
            now_ns: now_ns(),
            wanted: 0,
            opening: 0,
            current: None,
            next: None,
            pace: None,
            parked: VecDeque::new(),
            owed: VecDeque::new(),
            turn_in_hand: None,
            is_behind: false,
            outstanding: 0,
            stopped: false,
            sweep_ns: 0,
        })
    }

    pub fn new_events() -> Events {
        Events::with_capacity(EVENTS_PER_TURN)
    }

    /// Raises the number of users (of all workers) as fast as connects allow.
    pub fn raise(&mut self, users: u32) {
        self.wanted = self.wanted.max(users);
    }

    /// Announces a phase; it begins by itself at its time.
    pub fn announce(&mut self, phase: usize, begins_ns: u64) {
        let duration = self
            .scenario
            .phases
            .get(phase)
            .map_or(Duration::ZERO, |p| p.duration);
        let ends_ns = begins_ns + duration.as_nanos() as u64;
        self.next = Some(Current {
            phase,
            begins_ns,
            ends_ns,
        });
    }

    /// Nothing new is sent from now on; what is under way may still arrive.
    pub fn stop(&mut self) {
        self.stopped = true;
        self.forget_owed();
        let ends_ns = self.current.map_or(0, |current| current.ends_ns);
        self.forget_late_rounds(ends_ns.min(self.now_ns));
        self.pace = None;
        self.wanted = 0;
        self.next = None;
    }

    /// Turns that nobody was free to take are no longer waited for, but they are told.
    fn forget_owed(&mut self) {
        let owed = std::mem::take(&mut self.owed).len() as u64;
        let reason = match (self.is_behind, self.tally.connections) {
            (true, _) => "the generator was too slow",
            (false, 0) => "no user was connected",
            (false, _) => "every user was busy with earlier steps",
        };
        self.tally.unbegun(reason, owed);
    }

    /// The phase under way, if it has begun.
    pub(super) fn phase_begun(&self, phase: usize) -> Option<u64> {
        let current = self.current.filter(|current| current.phase >= phase)?;
        Some(current.begins_ns)
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
                    self.tally
                        .latencies
                        .read_lag
                        .record(self.now_ns.saturating_sub(woken_ns));
                }
            }
        }
        Ok(())
    }

    /// Second half: do what is due by now.
    pub fn act(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        self.begin_phase();
        self.run_timers();
        self.run_pace();
        self.admit();
        self.sweep();
    }

    fn next_due_ns(&self) -> Option<u64> {
        let is_behind = !self.owed.is_empty() && !self.parked.is_empty();
        let candidates = [
            is_behind.then_some(self.now_ns),
            self.timers.next_due_ns(),
            self.pace.as_ref().and_then(Metronome::next_due_ns),
            self.next.map(|next| next.begins_ns),
            self.next_arrival_ns(),
        ];
        candidates.into_iter().flatten().min()
    }

    fn begin_phase(&mut self) {
        let Some(next) = self.next.take_if(|next| next.begins_ns <= self.now_ns) else {
            return;
        };
        self.current = Some(next);
        let share = self.paced_share();
        self.forget_owed();
        if share.all == 0 && self.place.worker == 0 {
            self.forgo(next.phase);
        }
        let rate = self.scenario.phases[next.phase].rate;
        self.pace = rate
            .filter(|rate| *rate > 0.0)
            .map(|rate| Metronome::new(rate, share, next.begins_ns, next.ends_ns));
        for index in 0..self.users.len() {
            if matches!(self.users[index].state, State::Phase(phase) if phase <= next.phase) {
                self.users[index].due_ns = next.begins_ns;
                self.advance(index);
                self.send_out(index);
            }
        }
    }

    /// A phase with a rate and no user of any worker to keep it: none of its rounds begins.
    fn forgo(&mut self, phase: usize) {
        let phase = &self.scenario.phases[phase];
        let flows = &self.scenario.flows;
        let users = self
            .scenario
            .users_by(self.current.map_or(0, |current| current.phase));
        let is_kept = (0..users).any(|user| flows[self.scenario.flow_of(user)].is_paced());
        let rounds = phase.rate.unwrap_or(0.0) * phase.duration.as_secs_f64();
        if !is_kept {
            let reason = "no user has a loop with this pace";
            self.tally.unbegun(reason, rounds as u64);
        }
    }

    /// Places of this worker's users among all users with a shared loop.
    fn paced_share(&self) -> Share {
        let scenario = &self.scenario;
        let is_paced: Vec<bool> = scenario
            .flows
            .iter()
            .map(crate::scenario::Flow::is_paced)
            .collect();
        let mut share = Share::default();
        let phase = self.current.map_or(0, |current| current.phase);
        for user in 0..scenario.users_by(phase) {
            if is_paced[scenario.flow_of(user)] {
                if user % u32::from(self.place.workers) == u32::from(self.place.worker) {
                    share.places.push(share.all);
                }
                share.all += 1;
            }
        }
        share
    }

    fn run_timers(&mut self) {
        for _ in 0..DUE_PER_TURN {
            let Some(Entry {
                due_ns,
                user,
                epoch,
            }) = self.timers.pop_due(self.now_ns)
            else {
                return;
            };
            let index = user as usize;
            if self.users[index].epoch != epoch || self.users[index].state != State::Sleeping {
                continue;
            }
            self.tally.latencies.turn_lag.record(self.now_ns - due_ns);
            self.advance(index);
            self.send_out(index);
        }
    }

    /// Gives the turns that are due to users who wait for one.
    fn run_pace(&mut self) {
        while let Some(due_ns) = self.pace.as_mut().and_then(|pace| pace.take(self.now_ns)) {
            self.tally.latencies.turn_lag.record(self.now_ns - due_ns);
            self.owed.push_back(due_ns);
        }
        let was_behind = std::mem::take(&mut self.is_behind);
        for _ in 0..DUE_PER_TURN {
            let next = self.parked.pop_front_if(|_| !self.owed.is_empty());
            let Some((user, epoch)) = next else { return };
            let index = user as usize;
            if self.users[index].epoch != epoch || self.users[index].state != State::Parked {
                continue;
            }
            // One turn each: a user that is free again goes to the end of the queue.
            self.turn_in_hand = self.owed.pop_front();
            if let Some(due_ns) = self.turn_in_hand.filter(|_| was_behind) {
                self.tally
                    .latencies
                    .turn_lag
                    .record(self.now_ns.saturating_sub(due_ns));
            }
            self.advance(index);
            self.send_out(index);
        }
        self.is_behind = !self.owed.is_empty() && !self.parked.is_empty();
    }

    /// Lets in the users that should be there by now.
    fn admit(&mut self) {
        if self.stopped {
            return;
        }
        while self
            .next_arrival_ns()
            .is_some_and(|due_ns| due_ns <= self.now_ns)
        {
            let due_ns = self.next_arrival_ns().unwrap_or(self.now_ns);
            self.tally.latencies.turn_lag.record(self.now_ns - due_ns);
            self.enter(due_ns);
        }
        while self.next_number() < self.wanted && self.opening < self.place.in_flight {
            self.enter(self.now_ns);
        }
    }

    fn enter(&mut self, due_ns: u64) {
        let number = self.next_number();
        let flow = self.scenario.flow_of(number);
        self.users.push(User::new(number, flow, due_ns));
        self.opening += 1;
        let index = self.users.len() - 1;
        self.assign_server(index);
        self.advance(index);
        self.send_out(index);
    }

    fn next_number(&self) -> u32 {
        let workers = u32::from(self.place.workers);
        self.users.len() as u32 * workers + u32::from(self.place.worker)
    }

    /// When this worker's next user arrives, in a phase with an arrival rate.
    fn next_arrival_ns(&self) -> Option<u64> {
        let current = self.current.filter(|_| !self.stopped)?;
        let rate = self.scenario.phases[current.phase].arrivals?;
        let number = self.next_number();
        let before = match current.phase {
            0 => 0,
            phase => self.scenario.users_by(phase - 1),
        };
        if number >= self.scenario.users_by(current.phase) {
            return None;
        }
        let place = f64::from(number.saturating_sub(before));
        let due_ns = current.begins_ns + (place / rate * 1e9) as u64;
        (due_ns < current.ends_ns).then_some(due_ns)
    }

    /// Ends what has waited too long.
    fn sweep(&mut self) {
        if self.now_ns < self.sweep_ns {
            return;
        }
        self.sweep_ns = self.now_ns + SWEEP_NS;
        for index in 0..self.users.len() {
            if self.users[index].deadline_ns <= self.now_ns {
                self.overdue(index);
                self.send_out(index);
            }
        }
    }

    /// Compares what this worker's users received with what all workers sent.
    pub fn settle(&self, others: &[Publications], clockwork: &Clockwork) -> Account {
        let mut account = Account::default();
        let own_worker = usize::from(self.place.worker);
        for user in &self.users {
            for membership in &user.rooms {
                let mut sent: Vec<_> = others
                    .iter()
                    .map(|log| log.times(membership.room))
                    .collect();
                if let Some(own) = sent.get_mut(own_worker) {
                    *own = self.publications.times(membership.room);
                }
                membership.settle(&sent, own_worker, clockwork, &mut account);
            }
        }
        account
    }

    /// Whether any user of this worker ever was in `room`.
    pub fn rooms(&self) -> std::collections::HashSet<u64> {
        let rooms = self.users.iter().flat_map(|user| &user.rooms);
        rooms.map(|membership| membership.room).collect()
    }
}
