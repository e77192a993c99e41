//! Checks of a request before shards hear of it. A fault is told with the member that has it.

use super::problem::Problem;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rules::{Message, Wanted};
use serde_json::value::RawValue;
use std::collections::BTreeSet;
use std::time::Duration;
use types::{Target, check_names};
use wire::socketio::Misfit;
use wire::{json, socketio};

const ACK_TIMEOUT_MAX: Duration = Duration::from_secs(60);

type Checked<T> = Result<T, Problem>;

/// Which sockets are meant.
pub(super) fn target(of: &Target) -> Checked<()> {
    if !of.without.is_empty() {
        let detail = "only workers leave out nodes, which they tell by links of their own";
        return Err(Problem::field("without", detail));
    }
    Ok(of.check()?)
}

impl From<types::Fault> for Problem {
    fn from(fault: types::Fault) -> Self {
        Self::field(fault.field(), fault.detail())
    }
}

/// An order for clients that nobody can ever be is a mistake.
pub(super) fn namespace(namespace: &str, all: Option<&BTreeSet<String>>) -> Checked<()> {
    if all.is_none_or(|all| all.contains(namespace)) {
        return Ok(());
    }
    let detail = format!(
        "no client can be in {namespace:?}: the configuration has no [namespaces.{namespace:?}]"
    );
    Err(Problem::field("namespace", detail))
}

/// Names of rooms that sockets are to be in.
pub(super) fn rooms(field: &str, rooms: &[String], bytes_max: usize) -> Checked<()> {
    if rooms.is_empty() {
        return Err(Problem::field(field, "a room is needed"));
    }
    check_names(field, rooms)?;
    match rooms.iter().position(|room| room.len() > bytes_max) {
        Some(at) => Err(Problem::field(
            format!("{field}[{at}]"),
            format!(
                "the name has {} bytes, and {bytes_max} are allowed (limits.room_name_bytes_max)",
                rooms[at].len()
            ),
        )),
        None => Ok(()),
    }
}

/// An event, which waits for the answers of its receivers if it has a timeout.
pub(super) fn event(message: Message, timeout_ms: Option<u64>) -> Checked<Wanted> {
    if message.event.is_empty() {
        return Err(Problem::field("event", "the event needs a name"));
    }
    if socketio::is_reserved(&message.event) {
        return Err(Problem::field(
            "event",
            format!(
                "{:?} is reserved: only the libraries send it",
                message.event
            ),
        ));
    }
    placeholders(&message.args, message.attachments.len())?;
    let Some(timeout_ms) = timeout_ms else {
        return Ok(Wanted::Emit(message));
    };
    let timeout = Duration::from_millis(timeout_ms);
    if timeout.is_zero() || timeout > ACK_TIMEOUT_MAX {
        return Err(Problem::field(
            "ack.timeout_ms",
            format!(
                "{timeout_ms} is not between 1 and {}",
                ACK_TIMEOUT_MAX.as_millis()
            ),
        ));
    }
    if message.volatile {
        return Err(Problem::field(
            "volatile",
            "what may be dropped cannot be waited for: leave out volatile or ack",
        ));
    }
    Ok(Wanted::Ask(message, timeout))
}

/// Bytes of attachments.
pub(super) fn decoded(attachments: &[String]) -> Checked<Vec<Vec<u8>>> {
    let attachments = attachments.iter().enumerate().map(|(at, text)| {
        STANDARD.decode(text).map_err(|error| {
            Problem::field(
                format!("attachments[{at}]"),
                format!("it is no base64: {error}"),
            )
        })
    });
    attachments.collect()
}

/// The elements as they stand behind an event's name, as their writer wrote them.
pub(super) fn arguments(args: &[Box<RawValue>]) -> Checked<String> {
    for (at, arg) in args.iter().enumerate() {
        if json::validate(arg.get().as_bytes()).is_err() {
            return Err(Problem::field(
                format!("args[{at}]"),
                format!("it is nested deeper than {} levels", json::DEPTH_MAX),
            ));
        }
    }
    let args: Vec<&str> = args.iter().map(|arg| arg.get()).collect();
    Ok(args.join(","))
}

fn placeholders(args: &str, attachments: usize) -> Checked<()> {
    let (field, detail) = match socketio::match_attachments(args, attachments) {
        Ok(()) => return Ok(()),
        Err(Misfit::Many) => (
            "attachments",
            format!(
                "there are {attachments}, and {} are allowed",
                socketio::ATTACHMENTS_MAX
            ),
        ),
        Err(Misfit::Placeholder) => (
            "args",
            "a placeholder has more members than `_placeholder` and a number `num`".to_owned(),
        ),
        Err(Misfit::Unmatched) => (
            "attachments",
            format!(
                "there are {attachments}: each must stand in args once, as {{\"_placeholder\":true,\"num\":N}} with N from 0"
            ),
        ),
    };
    Err(Problem::field(field, detail))
}
