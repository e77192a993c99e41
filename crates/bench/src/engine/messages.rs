//! HOT PATH: no allocation for a message. Owns what a message from the server leads to: events are counted, questions answered, and
//! connects go on.

use super::connection::{Link, Role};
use super::identity::Identity;
use super::plan::Plan;
use super::play::{answered, came_back, connected, noticed};
use super::received::Arrival;
use super::requests::ask_websocket;
use super::shared::Shared;
use super::speech::{self, Heard, Say};
use super::user::User;
use crate::loss::Loss;
use crate::scenario::Transport;
use wire::websocket::frame::OpCode;

/// One message of a WebSocket, or one packet of a poll.
pub fn on_message(
    plan: &Plan,
    user: &mut User,
    shared: &mut Shared,
    message: &[u8],
    role: Role,
) -> Result<(), Loss> {
    match speech::hear(plan.endpoint(user).protocol, message) {
        Heard::Event { name, id } => on_event(plan, user, shared, message, name, id),
        Heard::Ack(id) => answered(plan, user, shared, id),
        Heard::Answer => match user.oldest_question() {
            Some(id) => answered(plan, user, shared, id),
            None => shared.tally.totals.acks_duplicated += 1,
        },
        Heard::Ping => {
            shared.tally.totals.heartbeats += 1;
            shared.scratch.say(plan.endpoint(user), user, Say::Pong);
        }
        Heard::Pong if role == Role::WebSocket => probed(plan, user, shared, message)?,
        Heard::Open { sid } => greeted(plan, user, shared, sid),
        Heard::Connected => namespace_joined(plan, user, shared)?,
        Heard::Refused(reason) => {
            return Err(Loss::Refused(String::from_utf8_lossy(reason).into_owned()));
        }
        Heard::Bye => return Err(Loss::Farewell),
        Heard::Complaint(what) => {
            let what = String::from_utf8_lossy(what);
            shared.tally.error(format!("server: {what}"));
        }
        Heard::Pong | Heard::Nothing => {}
    }
    Ok(())
}

/// Engine.IO is open: ask for the namespace.
fn greeted(plan: &Plan, user: &mut User, shared: &mut Shared, sid: &[u8]) {
    if let Some(http) = &mut user.connection.http {
        http.sid = String::from_utf8_lossy(sid).into_owned();
    }
    ask_in(plan, user, shared);
}

/// Says hello, with credentials if there are any.
pub fn ask_in(plan: &Plan, user: &mut User, shared: &mut Shared) {
    user.connection.link = Link::Hello;
    let auth = user.auth.take();
    let auth_text = auth.as_deref();
    let hello = Say::Hello { auth: auth_text };
    shared.scratch.say(plan.endpoint(user), user, hello);
    user.auth = auth;
}

fn namespace_joined(plan: &Plan, user: &mut User, shared: &mut Shared) -> Result<(), Loss> {
    if user.connection.link != Link::Hello {
        return Ok(());
    }
    let transport = plan.endpoint(user).transport;
    let sid = user.connection.http.as_ref().map(|http| http.sid.clone());
    match (transport, sid) {
        (Transport::Upgrade, Some(sid)) => {
            user.connection.link = Link::Probing;
            ask_websocket(plan, user, &mut shared.tally, &sid)
        }
        _ => {
            connected(plan, user, shared);
            Ok(())
        }
    }
}

/// An event, counted if it carries an identity.
pub fn on_event(
    plan: &Plan,
    user: &mut User,
    shared: &mut Shared,
    message: &[u8],
    name: &[u8],
    id: Option<&[u8]>,
) {
    let mut at = shared.scratch.identity_at;
    if let Some(identity) = Identity::find(message, &mut at) {
        shared.scratch.identity_at = at;
        delivered(plan, user, shared, &identity);
    } else {
        shared.tally.totals.heard += 1;
    }
    if let Some(id) = id {
        let answer = Say::Ack { id };
        shared.scratch.say(plan.endpoint(user), user, answer);
    }
    noticed(plan, user, shared, name);
}

pub fn delivered(plan: &Plan, user: &mut User, shared: &mut Shared, identity: &Identity) {
    if identity.run != plan.place().run {
        shared.tally.totals.foreign += 1;
        return;
    }
    shared.tally.totals.heard += 1;
    // Room 0 marks what was sent to no room: an answer, which nobody counts on.
    if identity.room == 0 {
        return;
    }
    let known = user.rooms.iter_mut().find(|m| m.room == identity.room);
    let Some(membership) = known else {
        shared.tally.totals.stray += 1;
        shared.tally.totals.outside += 1;
        return;
    };
    let (sequence, publisher) = (identity.sequence, identity.publisher);
    let is_own = publisher == user.number;
    if is_own && membership.is_own(sequence) {
        shared.tally.totals.stray += 1;
        return;
    }
    match membership.observe(identity.worker, sequence, publisher, identity.back) {
        Arrival::Duplicate => shared.tally.totals.duplicated += 1,
        arrival => {
            shared.tally.totals.echoes_received += u64::from(is_own);
            shared.tally.totals.reordered += u64::from(arrival == Arrival::Reordered);
            shared.tally.delivered(identity.due_ns, shared.now_ns);
            if is_own {
                came_back(plan, user, shared);
            }
        }
    }
}

/// The server answered the probe: polling pauses (Engine.IO 4, "Upgrade").
fn probed(plan: &Plan, user: &mut User, shared: &mut Shared, message: &[u8]) -> Result<(), Loss> {
    let (Link::Probing, Some(http)) = (user.connection.link, &mut user.connection.http) else {
        return Ok(());
    };
    if message != b"3probe" {
        return Err(Loss::Unexpected("not the answer to a probe"));
    }
    http.paused = true;
    finish_upgrade(plan, user, shared);
    Ok(())
}

/// Once neither GET nor POST is under way, the session moves.
pub fn finish_upgrade(plan: &Plan, user: &mut User, shared: &mut Shared) {
    let (Link::Probing, Some(http)) = (user.connection.link, &user.connection.http) else {
        return;
    };
    if !http.paused || http.polling || http.posting || !http.queue.is_empty() {
        return;
    }
    user.connection.http = None;
    shared.scratch.frame(OpCode::Text, b"5");
    connected(plan, user, shared);
}
