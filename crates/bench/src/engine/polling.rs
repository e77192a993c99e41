//! Owns what comes over HTTP: the answers to Engine.IO's polls and posts, and event streams.

use super::connection::{Link, Role, SEPARATOR};
use super::http::{self, EventStream};
use super::messages::{finish_upgrade, on_event, on_message};
use super::plan::Plan;
use super::play::connected;
use super::requests::{poll, post_queued};
use super::shared::Shared;
use super::user::User;
use crate::loss::Loss;

/// Handles every whole answer on a GET or POST connection; returns the bytes used up.
pub fn take_answers(
    plan: &Plan,
    user: &mut User,
    shared: &mut Shared,
    role: Role,
    bytes: &[u8],
) -> Result<usize, Loss> {
    if user.connection.is_stream() {
        return take_events(plan, user, shared, bytes);
    }
    let mut at = 0;
    while let Some((head, body)) = http::parse_answer(&bytes[at..])? {
        let (answer, end) = (&bytes[at..], body.end);
        let body = &answer[body];
        at += end;
        if head.status != 200 {
            let text = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
            return Err(Loss::Refused(format!("HTTP {} {text}", head.status)));
        }
        if head.closes
            && let Some(stream) = user.connection.stream(role)
        {
            stream.close();
        }
        match role {
            Role::Post => posted(plan, user, shared)?,
            _ => polled(plan, user, shared, body)?,
        }
        if user.connection.http.is_none() {
            return Ok(bytes.len());
        }
    }
    Ok(at)
}

fn posted(plan: &Plan, user: &mut User, shared: &mut Shared) -> Result<(), Loss> {
    if let Some(http) = &mut user.connection.http {
        http.posting = false;
    }
    finish_upgrade(plan, user, shared);
    post_queued(plan, user, &mut shared.tally)
}

/// The answer of a GET: packets, then the next GET.
fn polled(plan: &Plan, user: &mut User, shared: &mut Shared, body: &[u8]) -> Result<(), Loss> {
    if let Some(http) = &mut user.connection.http {
        http.polling = false;
    }
    for packet in body.split(|&byte| byte == SEPARATOR) {
        on_message(plan, user, shared, packet, Role::Get)?;
    }
    finish_upgrade(plan, user, shared);
    post_queued(plan, user, &mut shared.tally)?;
    poll(plan, user, &mut shared.tally)
}

fn take_events(
    plan: &Plan,
    user: &mut User,
    shared: &mut Shared,
    bytes: &[u8],
) -> Result<usize, Loss> {
    let mut at = 0;
    if user.connection.link == Link::StreamHead {
        let Some(head) = http::parse_head(bytes)? else {
            return Ok(0);
        };
        if head.status != 200 {
            return Err(Loss::Refused(format!("HTTP {}", head.status)));
        }
        at = head.len;
        if let Some(http) = &mut user.connection.http {
            http.events = Some(EventStream::new(head.body));
        }
        connected(plan, user, shared);
    }
    let http = user.connection.http.as_mut();
    let Some(mut events) = http.and_then(|http| http.events.take()) else {
        return Ok(bytes.len());
    };
    let used = events.take(&bytes[at..], |name, data| {
        on_event(plan, user, shared, data, name, None)
    });
    if let Some(http) = &mut user.connection.http {
        http.events = Some(events);
    }
    Ok(at + used?)
}
