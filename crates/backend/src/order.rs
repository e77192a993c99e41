//! A worker's command as it is read, in its place among the others.

use crate::message::Ack;
use crate::proto;

/// Number of the field `FromWorker.commands`.
pub(crate) const COMMANDS: u32 = 4;

#[derive(Debug, PartialEq)]
pub(crate) enum Order {
    /// Answers are the many.
    Ack(Ack),
    Other(proto::Command),
    /// A command whose lists have too many members: nothing is made of it.
    Crowded,
}
