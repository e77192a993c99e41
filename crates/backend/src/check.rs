//! Checks of what workers want: the parts of a command that go to clients and to other servers.

use crate::proto;
use crate::proto::command::What;
use crate::scope::Scope;
use std::borrow::Cow;
use types::Target;
use wire::json;
use wire::socketio::{self, Misfit};

/// A fault of a command, in words for the worker's author.
pub type Fault = Cow<'static, str>;

/// Checks what a command is for, and the parts of it that go into packets to clients: a fault there would end their sessions.
///
/// # Errors
/// The fault, in words for the worker's author.
pub fn check(what: &What) -> Result<(), Fault> {
    check_with(what, Target::check)
}

/// The same of a worker, whose rooms may have any name.
///
/// # Errors
/// The fault, in words for the worker's author.
pub(crate) fn check_of_worker(what: &What) -> Result<(), Fault> {
    check_with(what, Target::check_of_worker)
}

fn check_with(what: &What, of: fn(&Target) -> Result<(), types::Fault>) -> Result<(), Fault> {
    if let Some(target) = target(what) {
        let target = target.ok_or("the command has no target")?;
        of(target).map_err(|fault| fault.to_string())?;
    }
    match what {
        What::Emit(emit) => check_emit(emit)?,
        What::Ask(ask) => check_emit(ask.emit.as_ref().ok_or("ask.emit is missing")?)?,
        What::Disconnect(end)
            if end.drop && !end.of.as_ref().is_some_and(Target::is_one_socket) =>
        {
            return Err("disconnect.drop is for one socket: give its id, and no exception".into());
        }
        What::Ack(ack) => check_ack(&ack.args, ack.attachments.len())?,
        _ => {}
    }
    Ok(())
}

/// The sockets that a command is for; `None`: it is of a kind that has no target, or `Ask` without an event.
pub(crate) fn target(what: &What) -> Option<Option<&Target>> {
    match what {
        What::Emit(emit) => Some(emit.to.as_ref()),
        What::Ask(ask) => ask.emit.as_ref().map(|emit| emit.to.as_ref()),
        What::Join(sockets) | What::Leave(sockets) => Some(sockets.of.as_ref()),
        What::Disconnect(end) => Some(end.of.as_ref()),
        What::Fetch(fetch) => Some(fetch.of.as_ref()),
        _ => None,
    }
}

pub(crate) fn check_ack(args: &[u8], attachments: usize) -> Result<(), &'static str> {
    let args = json::read_elements(args);
    let args = args.ok_or("ack.args are no JSON elements separated by commas")?;
    check_attachments(args, attachments)
}

/// The event of a command, without its target.
///
/// # Errors
/// The fault, in words for the worker's author.
pub fn check_emit(emit: &proto::Emit) -> Result<(), &'static str> {
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
