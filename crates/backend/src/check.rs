//! Checks of what workers want: the parts of a command that go to clients and to other servers.

use crate::name::Name;
use crate::proto;
use crate::proto::command::What;
use crate::scope::Scope;
use wire::json;
use wire::socketio::{self, Misfit};

/// Checks the parts of a command that go into packets to clients: a fault there would end their sessions.
///
/// # Errors
/// The fault, in words for the worker's author.
pub fn check(what: &What) -> Result<(), &'static str> {
    match what {
        What::Emit(emit) => check_emit(emit),
        What::Ask(ask) => check_emit(ask.emit.as_ref().ok_or("ask.emit is missing")?),
        What::Disconnect(end) if end.drop && !names_one(end.of.as_ref()) => {
            Err("disconnect.drop is for one socket: give its id as the only room, and no exception")
        }
        What::Ack(ack) => check_ack(&ack.args, ack.attachments.len()),
        _ => Ok(()),
    }
}

pub(crate) fn check_ack(args: &[u8], attachments: usize) -> Result<(), &'static str> {
    let args = json::read_elements(args);
    let args = args.ok_or("ack.args are no JSON elements separated by commas")?;
    check_attachments(args, attachments)
}

fn names_one(target: Option<&proto::Target>) -> bool {
    target.is_some_and(|target| match target.rooms.as_slice() {
        [only] => target.except.is_empty() && Name::parse(only).is_some(),
        _ => false,
    })
}

fn check_emit(emit: &proto::Emit) -> Result<(), &'static str> {
    if emit.event.is_empty() {
        return Err("emit.event is empty");
    }
    if socketio::is_reserved(&emit.event) {
        return Err(
            "emit.event is a name that only the libraries emit, such as `connect` or `disconnect`",
        );
    }
    let args = json::read_elements(&emit.args);
    let args = args.ok_or("emit.args are no JSON elements separated by commas")?;
    check_attachments(args, emit.attachments.len())
}

/// `args`: elements.
fn check_attachments(args: &str, attachments: usize) -> Result<(), &'static str> {
    match socketio::match_attachments(args, attachments) {
        Ok(()) => Ok(()),
        Err(Misfit::Many) => Err("there are more than 10 attachments"),
        Err(Misfit::Placeholder) => {
            Err("a placeholder in args has more members than `_placeholder` and a number `num`")
        }
        Err(Misfit::Unmatched) => Err(
            "each attachment must stand in args once, as {\"_placeholder\":true,\"num\":N} with N from 0",
        ),
    }
}

pub(crate) fn is_json(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok() && json::validate(text).is_ok()
}

pub(crate) fn are_elements(args: &[u8]) -> bool {
    json::read_elements(args).is_some()
}

pub(crate) fn check_namespace(scope: &Scope, namespace: &str) -> Result<(), &'static str> {
    if !namespace.starts_with('/') {
        return Err("the namespace does not begin with a slash");
    }
    match scope.has(namespace) {
        true => Ok(()),
        false => Err("the namespace is not of this backend: set `backend` in its table"),
    }
}
