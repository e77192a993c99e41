//! Owns the carrying out of steps: what a user does next, until it has to wait for something.
//!
//! Times follow the open-loop rule: a step is *due* when the schedule says, whether the generator
//! or the server is late or not, and latency counts from there.

use super::connection::Link;
use super::course::{Request, Round, State};
use super::credentials;
use super::identity::{Identity, room_key};
use super::parting::{forget_connection, leave, lose, send_out};
use super::plan::Plan;
use super::requests::begin_connect;
use super::sent::Flying;
use super::shared::Shared;
use super::speech::Say;
use super::user::User;
use crate::loss::Loss;
use crate::scenario::{Credentials, Emit, Loop, Pace, Payload, Protocol, Step, Template};
use outcome::NO_ANSWER;
use std::time::Duration;
use wire::websocket::frame::OpCode;

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

/// Carries out steps until the user waits.
pub fn advance(plan: &Plan, user: &mut User, shared: &mut Shared) {
    user.wait(State::Running, u64::MAX);
    for _ in 0..STEPS_PER_CALL {
        if shared.schedule.is_over() {
            return user.wait(State::Finished, u64::MAX);
        }
        let Some(step) = plan.step(user) else {
            user.arrive(&mut shared.tally);
            return user.wait(State::Finished, u64::MAX);
        };
        if carry_out(plan, user, shared, step) == Next::Wait {
            return;
        }
    }
    user.sleep_until(shared.now_ns, &mut shared.timers);
}

fn carry_out(plan: &Plan, user: &mut User, shared: &mut Shared, step: &Step) -> Next {
    let greeting = matches!(
        step,
        Step::Connect { .. } | Step::Auth(_) | Step::Join { .. } | Step::Reconnect { .. }
    );
    if !greeting {
        user.arrive(&mut shared.tally);
    }
    match step {
        Step::Connect { within, .. } | Step::Reconnect { within, .. } => {
            connect(plan, user, shared, *within)
        }
        Step::Auth(credentials) => {
            user.auth = Some(presented(plan, user, credentials).into());
            go_on(user)
        }
        Step::Join { room, within } => change_membership(plan, user, shared, room, *within, true),
        Step::Leave { room, within } => change_membership(plan, user, shared, room, *within, false),
        Step::Emit(emit) => send(plan, user, shared, emit),
        Step::Expect {
            event,
            count,
            within,
        } => expect(user, shared, (*event, *count), *within),
        Step::Think { min, max } => think(user, shared, *min, *max),
        Step::Loop(repeat) => go_round(user, shared, repeat),
        Step::EndLoop { start } => {
            user.course.step = *start;
            Next::Go
        }
        Step::Disconnect => disconnect(plan, user, shared),
        Step::Wait { phase } => wait_for_phase(user, shared, *phase),
    }
}

fn go_on(user: &mut User) -> Next {
    user.course.step += 1;
    Next::Go
}

/// As the protocol presents it: the auth object of Socket.IO, a bearer token elsewhere.
fn presented(plan: &Plan, user: &mut User, credentials: &Credentials) -> String {
    match credentials {
        Credentials::Text(template) => plan.text(user, template),
        Credentials::Token { user: name, secret } => {
            let token = credentials::token(&plan.text(user, name), secret);
            match plan.speaks(user, Protocol::SocketIo) {
                true => format!(r#"{{"token":"{token}"}}"#),
                false => token,
            }
        }
    }
}

fn connect(plan: &Plan, user: &mut User, shared: &mut Shared, within: Duration) -> Next {
    shared.tally.totals.connects_attempted += 1;
    let deadline_ns = shared.deadline(within);
    user.wait(State::Connecting, deadline_ns);
    if let Err(loss) = begin_connect(plan, user, &mut shared.tally) {
        lose(plan, user, shared, &loss);
    }
    Next::Wait
}

/// The protocol is ready: the connect step is done.
pub fn connected(plan: &Plan, user: &mut User, shared: &mut Shared) {
    user.connection.link = Link::Open;
    user.connection.ws.delay_acks();
    user.connection.attempts = 0;
    shared.tally.connections += 1;
    shared.tally.totals.connects_succeeded += 1;
    let latency = match std::mem::replace(&mut user.connection.has_been, true) {
        false => &mut shared.tally.latencies.connect,
        true => &mut shared.tally.latencies.again,
    };
    latency.record(shared.now_ns.saturating_sub(user.course.due_ns));
    if let Some(Step::Connect { room, .. } | Step::Reconnect { room, .. }) = plan.step(user)
        && let Some(room) = room
    {
        let key = room_key(&plan.text(user, room));
        let at = user.membership(key);
        // The server may have let it in at any time since the socket was opened.
        user.rooms[at].join_asked(user.course.due_ns.min(shared.now_ns));
        user.rooms[at].joined(shared.now_ns);
    }
    if user.course.state == State::Connecting {
        user.course.due_ns = shared.now_ns;
        user.course.step += 1;
        advance(plan, user, shared);
    }
}

fn change_membership(
    plan: &Plan,
    user: &mut User,
    shared: &mut Shared,
    room: &Template,
    within: Duration,
    join: bool,
) -> Next {
    let room = plan.text(user, room);
    let room = &room;
    let at = user.membership(room_key(room));
    let id = user.sent.take_id();
    let (of, question) = match join {
        true => (Request::Join(at), Say::Join { id, room }),
        false => (Request::Leave(at), Say::Leave { id, room }),
    };
    if !join {
        user.rooms[at].leave_asked(shared.now_ns);
    } else if !user.rooms[at].is_member() {
        user.rooms[at].join_asked(shared.now_ns);
    }
    user.wait(State::Answer { id, of }, shared.deadline(within));
    shared.tally.totals.acks_expected += 1;
    shared.tally.totals.joins_expected += 1;
    shared.scratch.say(plan.endpoint(user), user, question);
    Next::Wait
}

fn send(plan: &Plan, user: &mut User, shared: &mut Shared, emit: &Emit) -> Next {
    let full = |window| user.sent.full_until_ns(window);
    if let Some(deadline_ns) = emit.window.and_then(full) {
        user.wait(State::Full, deadline_ns);
        return Next::Wait;
    }
    if user.connection.ws.unsent_bytes() > UNSENT_MAX {
        let why = "emit: not sent, the server does not read what was sent before";
        shared.tally.error(why.into());
        return go_on(user);
    }
    let room = emit.to.as_ref().map(|to| plan.text(user, to));
    let identity = identify(plan, user, shared, room.as_deref(), emit.echo);
    let scope = plan.scope(user);
    let mut body = std::mem::take(&mut shared.scratch.body);
    body.clear();
    let Payload { body: text, size } = &emit.payload;
    text.render(&mut body, &scope, &mut user.dice, *size, |out| {
        identity.write(out);
    });
    user.sent.count_event();
    let id = emit.ack.then(|| user.sent.take_id());
    shared.tally.totals.sent += 1;
    let message = Say::Emit {
        id,
        event: &emit.event,
        room: room.as_deref(),
        body: &body,
    };
    shared.scratch.say(plan.endpoint(user), user, message);
    shared.scratch.body = body;
    shared.tally.totals.acks_expected += u64::from(id.is_some());
    let deadline_ns = shared.deadline(emit.within);
    match (emit.window, id) {
        (Some(_), id) => user.sent.fly(Flying {
            id,
            due_ns: user.course.due_ns,
            deadline_ns,
        }),
        (None, Some(id)) => {
            let of = Request::Event;
            user.wait(State::Answer { id, of }, deadline_ns);
            return Next::Wait;
        }
        (None, None) => {}
    }
    go_on(user)
}

/// Identity of the next message; one to a room is noted, for it has to arrive.
fn identify(
    plan: &Plan,
    user: &mut User,
    shared: &mut Shared,
    room: Option<&str>,
    echo: bool,
) -> Identity {
    let mut identity = Identity {
        run: plan.place().run,
        worker: plan.place().worker,
        publisher: user.number,
        due_ns: user.course.due_ns,
        ..Identity::default()
    };
    let Some(room) = room else { return identity };
    identity.room = room_key(room);
    identity.sequence = shared.publications.note(identity.room, shared.now_ns);
    identity.back = user.sent.back(identity.room, identity.sequence);
    let known = user.rooms.iter_mut().find(|m| m.room == identity.room);
    match known {
        Some(room) if !echo => room.sent_own(identity.worker, identity.sequence),
        Some(room) if room.is_member() => shared.tally.totals.echoes_expected += 1,
        _ => {}
    }
    identity
}

/// The answer number `id` has come.
pub fn answered(plan: &Plan, user: &mut User, shared: &mut Shared, id: u32) {
    if let Some(flying) = user.sent.land(Some(id)) {
        shared.tally.answered(flying.due_ns, shared.now_ns);
        return go_on_if_full(plan, user, shared);
    }
    let of = match user.course.state {
        State::Answer { id: wanted, of } if wanted == id => of,
        _ => {
            let late = u64::from(user.sent.comes_late(id));
            shared.tally.totals.acked_late += late;
            shared.tally.totals.acks_duplicated += 1 - late;
            return;
        }
    };
    match of {
        Request::Event => {}
        Request::Join(at) => user.rooms[at].joined(shared.now_ns),
        Request::Leave(at) => user.rooms[at].left(shared.now_ns),
    }
    let due_ns = user.course.due_ns;
    // A user that comes and goes may be the only one to see a server stand still.
    if of != Request::Event {
        shared.tally.totals.joined += 1;
        shared.tally.flights.record(due_ns, shared.now_ns);
    }
    shared.tally.answered(due_ns, shared.now_ns);
    next_step(plan, user, shared);
}

/// The step's wait is over.
fn next_step(plan: &Plan, user: &mut User, shared: &mut Shared) {
    user.course.not_before(shared.now_ns);
    user.course.step += 1;
    advance(plan, user, shared);
}

/// An own message is back at its sender.
pub fn came_back(plan: &Plan, user: &mut User, shared: &mut Shared) {
    if user.sent.land(None).is_some() {
        go_on_if_full(plan, user, shared);
    }
}

/// There is room for another unanswered event.
fn go_on_if_full(plan: &Plan, user: &mut User, shared: &mut Shared) {
    if user.course.state == State::Full {
        user.course.not_before(shared.now_ns);
        advance(plan, user, shared);
    }
}

fn expect(user: &mut User, shared: &Shared, expected: (usize, u32), within: Duration) -> Next {
    let (event, count) = expected;
    if user.course.inbox[event] < count {
        user.wait(State::Expecting { event, count }, shared.deadline(within));
        return Next::Wait;
    }
    user.course.inbox[event] -= count;
    user.course.not_before(shared.now_ns);
    go_on(user)
}

/// An event of this name arrived.
pub fn noticed(plan: &Plan, user: &mut User, shared: &mut Shared, name: &[u8]) {
    let expected = &plan.flow(user).expected_events;
    let Some(at) = expected.iter().position(|own| own.as_bytes() == name) else {
        return;
    };
    user.course.inbox[at] += 1;
    if let State::Expecting { event, count } = user.course.state
        && event == at
        && user.course.inbox[at] >= count
    {
        advance(plan, user, shared);
    }
}

fn think(user: &mut User, shared: &mut Shared, min: Duration, max: Duration) -> Next {
    let span = (max - min).as_nanos() as f64;
    let pause_ns = min.as_nanos() as u64 + (span * user.dice.f64()) as u64;
    user.course.due_ns += pause_ns;
    begin(user, shared)
}

/// The next step begins when it is due.
fn begin(user: &mut User, shared: &mut Shared) -> Next {
    user.course.step += 1;
    if user.course.due_ns <= shared.now_ns {
        return Next::Go;
    }
    user.sleep_until(user.course.due_ns, &mut shared.timers);
    Next::Wait
}

fn go_round(user: &mut User, shared: &mut Shared, repeat: &Loop) -> Next {
    enter_loop(user, shared.now_ns, repeat);
    let Some(round) = user.course.loops.last_mut() else {
        return Next::Wait;
    };
    let next_ns = match repeat.pace {
        Pace::Every(_) => round.next_due_ns,
        Pace::Free | Pace::Phase => shared.now_ns,
    };
    if repeat.times.is_some_and(|times| round.done >= times) || next_ns >= round.end_ns {
        user.course.loops.pop();
        user.course.step = repeat.end;
        return Next::Go;
    }
    let due_ns = match repeat.pace {
        Pace::Free => user.course.due_ns,
        Pace::Every(period) => {
            round.next_due_ns += period.as_nanos() as u64;
            next_ns
        }
        Pace::Phase => match shared.turns.take(user) {
            Some(due_ns) => due_ns,
            None => return Next::Wait,
        },
    };
    if let Some(round) = user.course.loops.last_mut() {
        round.done += 1;
    }
    user.course.due_ns = due_ns;
    begin(user, shared)
}

/// Opens the loop unless the user is in it already.
fn enter_loop(user: &mut User, now_ns: u64, repeat: &Loop) {
    let innermost = user.course.loops.last();
    if innermost.is_some_and(|round| round.step == user.course.step) {
        return;
    }
    // Users are spread evenly over the period: the golden ratio leaves no two close together.
    let spread = (f64::from(user.number) * 0.618_033_988_749_895).fract();
    let offset_ns = match repeat.pace {
        Pace::Every(period) => (period.as_nanos() as f64 * spread) as u64,
        Pace::Free | Pace::Phase => 0,
    };
    let begins_ns = user.course.due_ns.max(now_ns);
    let end_ns = |lasts: Duration| begins_ns + lasts.as_nanos() as u64;
    let end_ns = repeat.lasts.map_or(u64::MAX, end_ns);
    user.course.loops.push(Round {
        step: user.course.step,
        done: 0,
        next_due_ns: begins_ns + offset_ns,
        end_ns,
    });
}

/// Leaves as a page does that is closed: what was said before arrives, then the transport ends. No protocol says goodbye:
/// Socket.IO on Node forgets events that a DISCONNECT packet follows at once.
fn disconnect(plan: &Plan, user: &mut User, shared: &mut Shared) -> Next {
    if user.connection.link != Link::Open {
        forget_connection(user, shared, false);
        return go_on(user);
    }
    user.wait(State::Leaving, shared.now_ns + LEAVE_NS);
    if user.connection.ws.is_open() {
        // The closing handshake (RFC 6455 §7.1.2).
        shared.scratch.frame(OpCode::Close, &1000u16.to_be_bytes());
    }
    send_out(plan, user, shared);
    Next::Wait
}

fn wait_for_phase(user: &mut User, shared: &mut Shared, phase: usize) -> Next {
    if let Some(begun_ns) = shared.schedule.begun_ns(phase) {
        user.course.not_before(begun_ns);
        return go_on(user);
    }
    user.wait(State::Phase(phase), u64::MAX);
    Next::Wait
}

/// Something did not come in time.
pub fn overdue(plan: &Plan, user: &mut User, shared: &mut Shared) {
    match user.course.state {
        State::Connecting => return lose(plan, user, shared, &Loss::Timeout),
        State::Leaving => return leave(user, shared),
        State::Full => return give_up_oldest(plan, user, shared),
        State::Expecting { event, .. } => {
            let name = &plan.flow(user).expected_events[event];
            shared.tally.error(format!("expect: no {name:?} in time"));
        }
        State::Answer { id, of } => {
            let what = match of {
                Request::Event => "emit",
                Request::Join(_) => "join",
                Request::Leave(_) => "leave",
            };
            user.sent.give_up(id);
            shared.tally.error(format!("{what}: {NO_ANSWER}"));
        }
        _ => {}
    }
    // The user goes on: a lost answer is an error, not the end of a person.
    next_step(plan, user, shared);
}

/// The oldest unanswered event of a full window makes room. One that should have come back is in the account.
fn give_up_oldest(plan: &Plan, user: &mut User, shared: &mut Shared) {
    if user.sent.give_up_oldest() {
        shared.tally.error(format!("emit: {NO_ANSWER}"));
    }
    go_on_if_full(plan, user, shared);
}
