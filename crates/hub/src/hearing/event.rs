//! Words of a socket's client, whatever its protocol: an event, or the answer to one.

use crate::cluster::asking;
use crate::cluster::letter::Answer;
use crate::hearing::{expiry, traced};
use crate::parts::Parts;
use crate::seam::event::{Caller, Event};
use crate::seam::stage::Stage;
use wire::json;

/// HOT PATH: while nobody follows anything, that is one test.
#[inline]
pub(crate) fn on_event(stage: &mut Stage, from: Caller, event: Event<'_>) {
    if stage.parts.traces.is_on() {
        return traced::on_event(stage, from, event, handle);
    }
    handle(stage, from, event);
}

#[inline(always)]
fn handle(stage: &mut Stage, from: Caller, event: Event<'_>) {
    // A refresh is answered as well, so the answer is owed before the two ways part.
    if event.ack.is_some() {
        stage.parts.people.sockets.owe_answer(from.socket);
    }
    if !expiry::on_refresh(&mut stage.parts, from, &event) {
        stage.call(from.session, |handler, cx| {
            handler.event(cx, from.socket, event);
        });
    }
}

pub(crate) fn on_ack(
    stage: &mut Stage,
    from: Caller,
    id: u64,
    args: &str,
    attachments: &[Vec<u8>],
) {
    if stage.parts.traces.is_on() {
        let Parts { traces, people, .. } = &mut stage.parts;
        traces.ack(people, from.socket, id, args, attachments);
    }
    settle(stage, from, id, args, attachments);
}

/// An answer is not taken: whoever asked hears so in its place, and waits no longer. Its client was told before.
#[cold]
pub(crate) fn refuse_ack(stage: &mut Stage, from: Caller, id: u64, why: &str) {
    let mut args = b"{\"error\":".to_vec();
    json::quote(
        &mut args,
        &format!("The client's answer was refused: {why}"),
    );
    args.push(b'}');
    settle(stage, from, id, &String::from_utf8_lossy(&args), &[]);
}

fn settle(stage: &mut Stage, from: Caller, id: u64, args: &str, attachments: &[Vec<u8>]) {
    let answer = || Answer {
        args: args.to_owned(),
        attachments: attachments.to_vec(),
    };
    if let Some(token) = asking::acked(&mut stage.parts, from.socket, id, answer) {
        stage.call(from.session, |handler, cx| {
            handler.acked(cx, from.socket, token, args, attachments);
        });
    }
}
