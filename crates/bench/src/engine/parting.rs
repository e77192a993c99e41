//! Owns what goes out to a user's server at the end of its turn, and the end of its connection: asked for, or lost.

use super::connection::Link;
use super::course::State;
use super::plan::Plan;
use super::requests::post_queued;
use super::shared::Shared;
use super::user::User;
use crate::loss::Loss;
use crate::scenario::{Backoff, OnLoss, Step};

/// Sends what was said to this user, in one write.
pub fn send_out(plan: &Plan, user: &mut User, shared: &mut Shared) {
    let mut result = Ok(());
    if !shared.scratch.out.is_empty() {
        shared.tally.totals.bytes_sent += shared.scratch.out.len() as u64;
        result = user.connection.ws.send(&shared.scratch.out);
        shared.scratch.out.clear();
    }
    if let Err(loss) = result.and_then(|()| post_queued(plan, user, &mut shared.tally)) {
        lose(plan, user, shared, &loss);
        shared.scratch.out.clear();
    }
    if user.course.state == State::Leaving && user.connection.is_posted() {
        leave(user, shared);
    }
}

/// The connection is gone although the scenario wanted it.
pub fn lose(plan: &Plan, user: &mut User, shared: &mut Shared, loss: &Loss) {
    if user.course.state == State::Leaving {
        return leave(user, shared);
    }
    let was_open = user.connection.link == Link::Open;
    let reason = loss.to_string();
    let reasons = match was_open {
        true => &mut shared.tally.totals.drops,
        false => &mut shared.tally.totals.connect_failures,
    };
    *reasons.entry(reason).or_default() += 1;
    forget_connection(user, shared, true);
    let again = match plan.step(user) {
        Some(Step::Reconnect { backoff, .. }) if !was_open => Some((*backoff, false)),
        _ => match plan.flow(user).on_loss {
            OnLoss::Restart(backoff) => Some((backoff, true)),
            OnLoss::Stop => None,
        },
    };
    match again.filter(|_| !shared.schedule.is_over()) {
        Some((backoff, restart)) => try_again(user, shared, backoff, restart),
        None => give_up(user, shared),
    }
}

fn try_again(user: &mut User, shared: &mut Shared, backoff: Backoff, restart: bool) {
    if user.connection.attempts >= backoff.attempts {
        return give_up(user, shared);
    }
    let delay = backoff.delay(user.connection.attempts, &mut user.dice);
    user.connection.attempts += 1;
    let again_ns = shared.now_ns + delay.as_nanos() as u64;
    if restart {
        user.course.restart(again_ns);
    }
    user.sleep_until(again_ns, &mut shared.timers);
}

fn give_up(user: &mut User, shared: &mut Shared) {
    shared.tally.absent += u64::from(!user.arrived);
    user.arrive(&mut shared.tally);
    user.wait(State::Gone, u64::MAX);
}

/// Closes the connection and ends its memberships.
pub fn forget_connection(user: &mut User, shared: &mut Shared, lost: bool) {
    if user.connection.link == Link::Open {
        shared.tally.connections -= 1;
    }
    user.rooms
        .iter_mut()
        .for_each(|room| room.cut(shared.now_ns, lost));
    user.connection.close();
    user.sent.cut();
    shared.scratch.out.clear();
}

/// Goes on without the connection that it leaves.
pub fn leave(user: &mut User, shared: &mut Shared) {
    forget_connection(user, shared, false);
    user.course.step += 1;
    user.sleep_until(shared.now_ns, &mut shared.timers);
}
