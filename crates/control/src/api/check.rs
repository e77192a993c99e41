//! Checks of a request before shards hear of it. A fault is told with the member that has it.

use super::model::Whom;
use super::problem::{Kind, Problem};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rules::{Chosen, Message, Wanted};
use serde_json::value::RawValue;
use std::collections::BTreeSet;
use std::time::Duration;
use wire::base64url::Id20;
use wire::socketio::Misfit;
use wire::{json, socketio};

/// Names in one list.
pub const NAMES_MAX: usize = 1_000;
const ACK_TIMEOUT_MAX: Duration = Duration::from_secs(60);

type Checked<T> = Result<T, Problem>;

impl Whom {
    /// The sockets that are meant. `all`: the whole namespace may be meant.
    pub(super) fn chosen(self, all: Option<bool>) -> Checked<Chosen> {
        if !self.namespace.starts_with('/') {
            return Err(Problem::field(
                "namespace",
                format!("{:?} does not begin with a slash", self.namespace),
            ));
        }
        let lists = [
            ("rooms", &self.rooms),
            ("users", &self.users),
            ("sockets", &self.sockets),
        ];
        for (field, list) in lists {
            if list.as_ref().is_some_and(Vec::is_empty) {
                let detail = "the list is empty, so nobody is meant; leave the member out if it does not matter";
                return Err(Problem::field(field, detail));
            }
            names(field, list.as_deref().unwrap_or_default())?;
        }
        names("except", &self.except)?;
        for (at, id) in self.sockets.iter().flatten().enumerate() {
            if Id20::decode(id.as_bytes()).is_none() {
                return Err(Problem::field(
                    format!("sockets[{at}]"),
                    format!("{id:?} is no socket's id"),
                ));
            }
        }
        let anyone = lists.iter().all(|(_, list)| list.is_none());
        match all {
            Some(false) if anyone => Err(Problem::new(
                Kind::InvalidRequest,
                "nobody is meant: name rooms, users or sockets, or set \"all\": true for the whole namespace",
            )),
            Some(true) if !anyone => Err(Problem::field(
                "all",
                "rooms, users or sockets are named as well: leave one of both out",
            )),
            _ => Ok(self.unchecked()),
        }
    }

    fn unchecked(self) -> Chosen {
        // A socket's id is the name of a room that holds it alone.
        let rooms = [self.rooms, self.sockets].into_iter().flatten().flatten();
        Chosen {
            namespace: self.namespace,
            rooms: rooms.collect(),
            users: self.users.unwrap_or_default(),
            except: self.except,
            local: self.local,
        }
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

pub(super) fn names(field: &str, names: &[String]) -> Checked<()> {
    if names.len() > NAMES_MAX {
        return Err(Problem::field(
            field,
            format!("it has {} names, and {NAMES_MAX} are allowed", names.len()),
        ));
    }
    match names.iter().position(String::is_empty) {
        Some(at) => Err(Problem::field(format!("{field}[{at}]"), "a name is empty")),
        None => Ok(()),
    }
}

/// Names of rooms that sockets are to be in.
pub(super) fn rooms(field: &str, rooms: &[String], bytes_max: usize) -> Checked<()> {
    if rooms.is_empty() {
        return Err(Problem::field(field, "a room is needed"));
    }
    names(field, rooms)?;
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
