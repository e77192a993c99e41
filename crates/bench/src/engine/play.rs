//! Owns the carrying out of steps: what a user does next, until it has to wait for something.
//!
//! Times follow the open-loop rule: a step is *due* when the schedule says, whether the generator
//! or the server is late or not, and latency counts from there.

use super::credentials;
use super::identity::{Identity, room_key};
use super::speech::Say;
use super::stage::Stage;
use super::timers::Entry;
use super::user::{Flying, Link, Request, Round, State};
use crate::loss::Loss;
use crate::scenario::{
    Backoff, Credentials, Emit, Flow, Loop, OnLoss, Pace, Scenario, Step, Template,
};
use outcome::NO_ANSWER;
use std::rc::Rc;
use std::time::Duration;

/// Steps that one call may carry out; a user that has more to do lets others go first.
const STEPS_PER_CALL: usize = 200;

/// Bytes that may wait for a server that does not read, for each user; what comes then is not sent.
const UNSENT_MAX: usize = 1024 * 1024;

/// How long a user that leaves waits for the server's end of the connection.
const LEAVE_NS: u64 = 5_000_000_000;

/// Whether a user goes on with its next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Go,
    Wait,
}

impl Flow {
    /// It has a loop whose pace is the phase's.
    pub fn is_paced(&self) -> bool {
        let paced = |step: &Step| {
            matches!(
                step,
                Step::Loop(Loop {
                    pace: Pace::Phase,
                    ..
                })
            )
        };
        self.steps.iter().any(paced)
    }
}

impl Stage {
    /// Carries out steps until the user waits.
    pub(super) fn advance(&mut self, index: usize) {
        let scenario = Rc::clone(&self.scenario);
        self.users[index].wait(State::Running, u64::MAX);
        for _ in 0..STEPS_PER_CALL {
            if self.stopped {
                return self.users[index].wait(State::Finished, u64::MAX);
            }
            let user = &self.users[index];
            let Some(step) = scenario.flows[user.flow].steps.get(user.step) else {
                self.arrive(index);
                return self.users[index].wait(State::Finished, u64::MAX);
            };
            if self.carry_out(index, &scenario, step) == Next::Wait {
                return;
            }
        }
        self.sleep_until(index, self.now_ns);
    }

    fn carry_out(&mut self, index: usize, scenario: &Scenario, step: &Step) -> Next {
        let greeting = matches!(
            step,
            Step::Connect { .. } | Step::Auth(_) | Step::Join { .. } | Step::Reconnect { .. }
        );
        if !greeting {
            self.arrive(index);
        }
        match step {
            Step::Connect { within, .. } | Step::Reconnect { within, .. } => {
                self.connect(index, *within)
            }
            Step::Auth(credentials) => {
                let text = self.credentials(index, credentials);
                self.users[index].auth = Some(text.into());
                self.go_on(index)
            }
            Step::Join { room, within } => self.change_membership(index, room, *within, true),
            Step::Leave { room, within } => self.change_membership(index, room, *within, false),
            Step::Emit(emit) => self.emit(index, emit),
            Step::Expect {
                event,
                count,
                within,
            } => self.expect(index, *event, *count, *within),
            Step::Think { min, max } => self.think(index, *min, *max),
            Step::Loop(repeat) => self.repeat(index, repeat),
            Step::EndLoop { start } => {
                self.users[index].step = *start;
                Next::Go
            }
            Step::Disconnect => self.disconnect(index),
            Step::Wait { phase } => self.wait_for_phase(index, scenario, *phase),
        }
    }

    fn go_on(&mut self, index: usize) -> Next {
        self.users[index].step += 1;
        Next::Go
    }

    /// The user takes part from now on (or never will): its connect is no longer under way.
    pub(super) fn arrive(&mut self, index: usize) {
        let user = &mut self.users[index];
        if !user.arrived {
            user.arrived = true;
            self.opening -= 1;
            self.tally.arrived += 1;
        }
    }

    fn text(&mut self, index: usize, template: &Template) -> String {
        let user = &mut self.users[index];
        let scope = user.scope(self.users_total);
        template.text(&scope, &mut user.dice)
    }

    /// As the protocol presents it: the auth object of Socket.IO, a bearer token elsewhere.
    fn credentials(&mut self, index: usize, credentials: &Credentials) -> String {
        match credentials {
            Credentials::Text(template) => self.text(index, template),
            Credentials::Token { user, secret } => {
                let token = credentials::token(&self.text(index, user), secret);
                match self.is_socket_io(index) {
                    true => format!(r#"{{"token":"{token}"}}"#),
                    false => token,
                }
            }
        }
    }

    pub(super) fn sleep_until(&mut self, index: usize, due_ns: u64) {
        let user = &mut self.users[index];
        user.wait(State::Sleeping, u64::MAX);
        let epoch = user.epoch;
        self.timers.push(Entry {
            due_ns,
            user: index as u32,
            epoch,
        });
    }

    fn deadline(&self, within: Duration) -> u64 {
        self.now_ns + within.as_nanos() as u64
    }

    fn connect(&mut self, index: usize, within: Duration) -> Next {
        self.tally.totals.connects_attempted += 1;
        let deadline_ns = self.deadline(within);
        self.users[index].wait(State::Connecting, deadline_ns);
        match self.begin_connect(index) {
            Ok(()) => {}
            Err(loss) => self.lose(index, &loss),
        }
        Next::Wait
    }

    /// The protocol is ready: the connect step is done.
    pub(super) fn connected(&mut self, index: usize) {
        let scenario = Rc::clone(&self.scenario);
        let user = &mut self.users[index];
        user.link = Link::Open;
        user.ws.delay_acks();
        user.attempts = 0;
        self.tally.connections += 1;
        self.tally.totals.connects_succeeded += 1;
        let latency = match std::mem::replace(&mut user.has_been, true) {
            false => &mut self.tally.latencies.connect,
            true => &mut self.tally.latencies.again,
        };
        latency.record(self.now_ns.saturating_sub(user.due_ns));
        let step = scenario.flows[user.flow].steps.get(user.step);
        if let Some(
            Step::Connect {
                room: Some(room), ..
            }
            | Step::Reconnect {
                room: Some(room), ..
            },
        ) = step
        {
            let key = room_key(&self.text(index, room));
            let user = &mut self.users[index];
            let at = user.membership(key);
            // The server may have let it in at any time since the socket was opened.
            user.rooms[at].join_asked(user.due_ns.min(self.now_ns));
            user.rooms[at].joined(self.now_ns);
        }
        let user = &mut self.users[index];
        if user.state == State::Connecting {
            user.due_ns = self.now_ns;
            user.step += 1;
            self.advance(index);
        }
    }

    fn change_membership(
        &mut self,
        index: usize,
        room: &Template,
        within: Duration,
        join: bool,
    ) -> Next {
        let room = self.text(index, room);
        let deadline_ns = self.deadline(within);
        let now_ns = self.now_ns;
        let user = &mut self.users[index];
        let at = user.membership(room_key(&room));
        let id = user.take_id();
        let of = if join {
            Request::Join(at)
        } else {
            Request::Leave(at)
        };
        if join && !user.rooms[at].is_member() {
            user.rooms[at].join_asked(now_ns);
        } else if !join {
            user.rooms[at].leave_asked(now_ns);
        }
        user.wait(State::Answer { id, of }, deadline_ns);
        self.tally.totals.acks_expected += 1;
        self.tally.totals.joins_expected += 1;
        self.outstanding += 1;
        let room = &room;
        self.say(
            index,
            if join {
                Say::Join { id, room }
            } else {
                Say::Leave { id, room }
            },
        );
        Next::Wait
    }

    fn emit(&mut self, index: usize, emit: &Emit) -> Next {
        let flying = &self.users[index].flying;
        if let (Some(window), Some(oldest)) = (emit.window, flying.front())
            && flying.len() >= window as usize
        {
            let deadline_ns = oldest.deadline_ns;
            self.users[index].wait(State::Full, deadline_ns);
            return Next::Wait;
        }
        if self.users[index].ws.unsent_bytes() > UNSENT_MAX {
            let why = "emit: not sent, the server does not read what was sent before";
            self.tally.error(why.into());
            return self.go_on(index);
        }
        let room = emit.to.as_ref().map(|to| self.text(index, to));
        let identity = self.identify(index, room.as_deref(), emit.echo);
        let user = &mut self.users[index];
        let scope = user.scope(self.users_total);
        let mut body = std::mem::take(&mut self.scratch.body);
        body.clear();
        emit.payload.body.render(
            &mut body,
            &scope,
            &mut user.dice,
            emit.payload.size,
            |out| {
                identity.write(out);
            },
        );
        user.seq += 1;
        let id = emit.ack.then(|| user.take_id());
        self.tally.totals.sent += 1;
        let room = room.as_deref();
        self.say(
            index,
            Say::Emit {
                id,
                event: &emit.event,
                room,
                body: &body,
            },
        );
        self.scratch.body = body;
        let deadline_ns = self.deadline(emit.within);
        if id.is_some() {
            self.tally.totals.acks_expected += 1;
            self.outstanding += 1;
        }
        if emit.window.is_some() {
            let user = &mut self.users[index];
            let due_ns = user.due_ns;
            user.flying.push_back(Flying {
                id,
                due_ns,
                deadline_ns,
            });
            return self.go_on(index);
        }
        let Some(id) = id else {
            return self.go_on(index);
        };
        self.users[index].wait(
            State::Answer {
                id,
                of: Request::Event,
            },
            deadline_ns,
        );
        Next::Wait
    }

    /// Identity of the next message; one to a room is noted, for it has to arrive.
    fn identify(&mut self, index: usize, room: Option<&str>, echo: bool) -> Identity {
        let user = &mut self.users[index];
        let mut identity = Identity {
            run: self.place.run,
            worker: self.place.worker,
            publisher: user.number,
            due_ns: user.due_ns,
            ..Identity::default()
        };
        let Some(room) = room else { return identity };
        identity.room = room_key(room);
        identity.sequence = self.publications.note(identity.room, self.now_ns);
        identity.back = user.back(identity.room, identity.sequence);
        let known = user.rooms.iter_mut().find(|m| m.room == identity.room);
        match known {
            Some(membership) if !echo => {
                membership.sent_own(identity.worker, identity.sequence);
            }
            Some(membership) if membership.is_member() => self.tally.totals.echoes_expected += 1,
            _ => {}
        }
        identity
    }

    /// The answer number `id` has come.
    pub(super) fn answered(&mut self, index: usize, id: u32) {
        let user = &mut self.users[index];
        let flying = user.flying.iter().position(|flying| flying.id == Some(id));
        if let Some(flying) = flying.and_then(|at| user.flying.remove(at)) {
            let latency_ns = self.now_ns.saturating_sub(flying.due_ns);
            self.tally.latencies.ack.record(latency_ns);
            self.tally.totals.acked += 1;
            self.outstanding -= 1;
            return self.go_on_if_full(index);
        }
        let (of, is_awaited) = match user.state {
            State::Answer { id: wanted, of } => (of, wanted == id),
            _ => (Request::Event, false),
        };
        if !is_awaited {
            let counts = &mut self.tally.totals;
            match user.given_up.iter().position(|given_up| *given_up == id) {
                // It comes after all.
                Some(at) => {
                    user.given_up.remove(at);
                    counts.acked_late += 1;
                }
                None => counts.acks_duplicated += 1,
            }
            return;
        }
        match of {
            Request::Event => {}
            Request::Join(at) => user.rooms[at].joined(self.now_ns),
            Request::Leave(at) => user.rooms[at].left(self.now_ns),
        }
        // A user that comes and goes may be the only one to see a server stand still.
        if of != Request::Event {
            self.tally.totals.joined += 1;
            self.tally.flights.record(user.due_ns, self.now_ns);
        }
        self.tally
            .latencies
            .ack
            .record(self.now_ns.saturating_sub(user.due_ns));
        self.tally.totals.acked += 1;
        self.outstanding -= 1;
        user.due_ns = user.due_ns.max(self.now_ns);
        user.step += 1;
        self.advance(index);
    }

    /// An own message is back at its sender.
    pub(super) fn came_back(&mut self, index: usize) {
        let user = &mut self.users[index];
        let flying = user.flying.iter().position(|flying| flying.id.is_none());
        if let Some(at) = flying {
            user.flying.remove(at);
            self.go_on_if_full(index);
        }
    }

    /// There is room for another unanswered event.
    fn go_on_if_full(&mut self, index: usize) {
        let user = &mut self.users[index];
        if user.state == State::Full {
            user.due_ns = user.due_ns.max(self.now_ns);
            self.advance(index);
        }
    }

    fn expect(&mut self, index: usize, event: usize, count: u32, within: Duration) -> Next {
        let deadline_ns = self.deadline(within);
        let user = &mut self.users[index];
        if user.inbox[event] < count {
            user.wait(State::Expecting { event, count }, deadline_ns);
            return Next::Wait;
        }
        user.inbox[event] -= count;
        user.due_ns = user.due_ns.max(self.now_ns);
        self.go_on(index)
    }

    /// An event of this name arrived.
    pub(super) fn noticed(&mut self, index: usize, name: &[u8]) {
        let user = &mut self.users[index];
        let expected = &self.scenario.flows[user.flow].expected_events;
        let Some(at) = expected.iter().position(|own| own.as_bytes() == name) else {
            return;
        };
        user.inbox[at] += 1;
        if matches!(user.state, State::Expecting { event, count } if event == at && user.inbox[at] >= count)
        {
            self.advance(index);
        }
    }

    fn think(&mut self, index: usize, min: Duration, max: Duration) -> Next {
        let user = &mut self.users[index];
        let span = (max - min).as_nanos() as f64;
        let pause_ns = min.as_nanos() as u64 + (span * user.dice.f64()) as u64;
        user.due_ns += pause_ns;
        user.step += 1;
        let due_ns = user.due_ns;
        if due_ns <= self.now_ns {
            return Next::Go;
        }
        self.sleep_until(index, due_ns);
        Next::Wait
    }

    fn repeat(&mut self, index: usize, repeat: &Loop) -> Next {
        self.enter_loop(index, repeat);
        let now_ns = self.now_ns;
        let user = &mut self.users[index];
        let Some(round) = user.loops.last_mut() else {
            return Next::Wait;
        };
        let next_ns = match repeat.pace {
            Pace::Every(_) => round.next_due_ns,
            Pace::Free | Pace::Phase => now_ns,
        };
        if repeat.times.is_some_and(|times| round.done >= times) || next_ns >= round.end_ns {
            user.loops.pop();
            user.step = repeat.end;
            return Next::Go;
        }
        let due_ns = match repeat.pace {
            Pace::Free => user.due_ns,
            Pace::Every(period) => {
                round.next_due_ns += period.as_nanos() as u64;
                next_ns
            }
            Pace::Phase => match self.turn_in_hand.take() {
                Some(due_ns) => due_ns,
                None => return self.park(index),
            },
        };
        let user = &mut self.users[index];
        if let Some(round) = user.loops.last_mut() {
            round.done += 1;
        }
        user.due_ns = due_ns;
        user.step += 1;
        if due_ns <= now_ns {
            return Next::Go;
        }
        self.sleep_until(index, due_ns);
        Next::Wait
    }

    /// Opens the loop unless the user is in it already.
    fn enter_loop(&mut self, index: usize, repeat: &Loop) {
        let user = &mut self.users[index];
        if user
            .loops
            .last()
            .is_some_and(|round| round.step == user.step)
        {
            return;
        }
        // Users are spread evenly over the period: the golden ratio leaves no two close together.
        let spread = (f64::from(user.number) * 0.618_033_988_749_895).fract();
        let offset_ns = match repeat.pace {
            Pace::Every(period) => (period.as_nanos() as f64 * spread) as u64,
            Pace::Free | Pace::Phase => 0,
        };
        let begins_ns = user.due_ns.max(self.now_ns);
        user.loops.push(Round {
            step: user.step,
            done: 0,
            next_due_ns: begins_ns + offset_ns,
            end_ns: repeat
                .lasts
                .map_or(u64::MAX, |lasts| begins_ns + lasts.as_nanos() as u64),
        });
    }

    fn park(&mut self, index: usize) -> Next {
        let user = &mut self.users[index];
        user.wait(State::Parked, u64::MAX);
        self.parked.push_back((index as u32, user.epoch));
        Next::Wait
    }

    /// Leaves as a page does that is closed: what was said before arrives, then the transport ends. No protocol says goodbye:
    /// Socket.IO on Node forgets events that a DISCONNECT packet follows at once.
    fn disconnect(&mut self, index: usize) -> Next {
        if self.users[index].link != Link::Open {
            self.forget_connection(index, false);
            return self.go_on(index);
        }
        let user = &mut self.users[index];
        user.wait(State::Leaving, self.now_ns + LEAVE_NS);
        if user.ws.is_open() {
            self.frame_close();
        }
        self.send_out(index);
        Next::Wait
    }

    /// Goes on without the connection that it leaves.
    pub(super) fn leave(&mut self, index: usize) {
        self.forget_connection(index, false);
        self.users[index].step += 1;
        self.sleep_until(index, self.now_ns);
    }

    fn wait_for_phase(&mut self, index: usize, scenario: &Scenario, phase: usize) -> Next {
        debug_assert!(phase < scenario.phases.len());
        if let Some(begun_ns) = self.phase_begun(phase) {
            let user = &mut self.users[index];
            user.due_ns = user.due_ns.max(begun_ns);
            return self.go_on(index);
        }
        self.users[index].wait(State::Phase(phase), u64::MAX);
        Next::Wait
    }

    /// Something did not come in time.
    pub(super) fn overdue(&mut self, index: usize) {
        let user = &self.users[index];
        match user.state {
            State::Connecting => return self.lose(index, &Loss::Timeout),
            State::Leaving => return self.leave(index),
            State::Full => return self.give_up_oldest(index),
            State::Expecting { event, .. } => {
                let name = &self.scenario.flows[user.flow].expected_events[event];
                self.tally.error(format!("expect: no {name:?} in time"));
            }
            State::Answer { id, of } => {
                let what = match of {
                    Request::Event => "emit",
                    Request::Join(_) => "join",
                    Request::Leave(_) => "leave",
                };
                self.outstanding -= 1;
                self.users[index].given_up.push(id);
                self.tally.error(format!("{what}: {NO_ANSWER}"));
            }
            _ => {}
        }
        // The user goes on: a lost answer is an error, not the end of a person.
        let user = &mut self.users[index];
        user.due_ns = user.due_ns.max(self.now_ns);
        user.step += 1;
        self.advance(index);
    }

    /// The oldest unanswered event of a full window makes room. One that should have come back is in the account.
    fn give_up_oldest(&mut self, index: usize) {
        let user = &mut self.users[index];
        if let Some(id) = user.flying.pop_front().and_then(|oldest| oldest.id) {
            self.outstanding -= 1;
            user.given_up.push(id);
            self.tally.error(format!("emit: {NO_ANSWER}"));
        }
        self.go_on_if_full(index);
    }

    /// The connection is gone although the scenario wanted it.
    pub(super) fn lose(&mut self, index: usize, loss: &Loss) {
        if self.users[index].state == State::Leaving {
            return self.leave(index);
        }
        let was_open = self.users[index].link == Link::Open;
        let reason = loss.to_string();
        let reasons = match was_open {
            true => &mut self.tally.totals.drops,
            false => &mut self.tally.totals.connect_failures,
        };
        *reasons.entry(reason).or_default() += 1;
        self.forget_connection(index, true);
        let flow = &self.scenario.flows[self.users[index].flow];
        let again = match flow.steps.get(self.users[index].step) {
            Some(Step::Reconnect { backoff, .. }) if !was_open => Some((*backoff, false)),
            _ => match flow.on_loss {
                OnLoss::Restart(backoff) => Some((backoff, true)),
                OnLoss::Stop => None,
            },
        };
        match again.filter(|_| !self.stopped) {
            Some((backoff, restart)) => self.try_again(index, backoff, restart),
            None => self.give_up(index),
        }
    }

    fn try_again(&mut self, index: usize, backoff: Backoff, restart: bool) {
        let user = &mut self.users[index];
        if user.attempts >= backoff.attempts {
            return self.give_up(index);
        }
        let delay = backoff.delay(user.attempts, &mut user.dice);
        user.attempts += 1;
        if restart {
            user.step = 0;
            user.loops.clear();
            user.inbox = Default::default();
        }
        let again_ns = self.now_ns + delay.as_nanos() as u64;
        if restart {
            self.users[index].due_ns = again_ns;
        }
        self.sleep_until(index, again_ns);
    }

    fn give_up(&mut self, index: usize) {
        self.tally.absent += u64::from(!self.users[index].arrived);
        self.arrive(index);
        self.users[index].wait(State::Gone, u64::MAX);
    }

    /// Closes the connection and ends its memberships.
    fn forget_connection(&mut self, index: usize, lost: bool) {
        let user = &mut self.users[index];
        if user.link == Link::Open {
            self.tally.connections -= 1;
        }
        if matches!(user.state, State::Answer { .. }) {
            self.outstanding -= 1;
        }
        let asked = user.flying.drain(..).filter(|flying| flying.id.is_some());
        self.outstanding -= asked.count() as u64;
        user.rooms
            .iter_mut()
            .for_each(|room| room.cut(self.now_ns, lost));
        user.close();
        self.scratch.out.clear();
    }
}
