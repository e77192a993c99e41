//! Large events of workers: a store keeps them before the command goes on. Meanwhile that worker's stream is not read, so its
//! commands keep their order, and no other worker waits.

use backend::{Frame, proto};
use prost::bytes::Bytes;
use rules::large::event_bytes;
use rules::{Large, Message};
use std::pin::Pin;

const TOO_LARGE: &str =
    "the event is too large for its namespace (large = \"refuse\", large.threshold)";
const UNSTORED: &str = "the event is large, and could not be stored: it was not sent";

/// Where large events are kept. Implemented outside.
pub trait Larder: Send + Sync {
    /// Events of all sizes pass, in every namespace.
    fn is_needless(&self) -> bool;
    /// How large events of a namespace are treated.
    fn treatment(&self, namespace: &str) -> Large;
    /// What is to be sent in the event's place; `None`: the store did not take it.
    fn keep<'a>(&'a self, namespace: &'a str, message: &'a Message) -> Kept<'a>;
}

/// The reference to an event, once it is kept.
pub type Kept<'a> = Pin<Box<dyn Future<Output = Option<Message>> + Send + 'a>>;

/// Events become references. One that cannot be stored fails, and with it those behind it in the same message: a worker that waits for
/// one store after the other would be taken for dead.
pub(super) async fn make_small(larder: &dyn Larder, frame: &mut Frame) {
    if larder.is_needless() {
        return;
    }
    let mut is_away = false;
    for mut sending in frame.sendings() {
        let Some(emit) = sending.emit() else { continue };
        let Some(to) = emit.to.as_ref() else { continue };
        let Ok(args) = std::str::from_utf8(&emit.args) else {
            continue;
        };
        let large = larder.treatment(&to.namespace);
        let bytes = event_bytes(&emit.event, args, &emit.attachments);
        let is_refused = large.refuses(bytes).is_some();
        if !is_refused && !large.stores(bytes) {
            continue;
        }
        if backend::check_emit(emit).is_err() {
            // Its faults are told where all commands are looked at.
            continue;
        }
        if is_refused {
            sending.refuse(TOO_LARGE);
        } else if is_away || !store(larder, emit).await {
            is_away = true;
            sending.refuse(UNSTORED);
        }
    }
}

/// `false`: the store did not take it.
async fn store(larder: &dyn Larder, emit: &mut proto::Emit) -> bool {
    let Some(to) = emit.to.as_ref() else {
        return false;
    };
    let message = Message {
        event: emit.event.clone(),
        args: String::from_utf8_lossy(&emit.args).into_owned(),
        attachments: emit
            .attachments
            .iter()
            .map(|bytes| bytes.to_vec())
            .collect(),
        volatile: emit.volatile,
        receipt: None,
        spot: None,
    };
    let Some(reference) = larder.keep(&to.namespace, &message).await else {
        return false;
    };
    emit.event = reference.event;
    emit.args = Bytes::from(reference.args);
    emit.attachments = Vec::new();
    true
}
