//! An event, before and after it is stored.

use crate::position::Position;

/// Cost of an event beside its texts, in bytes, as bounds count it.
const OVERHEAD_BYTES: usize = 64;

/// An event of one room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The namespace of the room.
    pub namespace: String,
    /// The room: any text.
    pub room: String,
    /// The event's name.
    pub name: String,
    /// Raw JSON elements, separated by commas.
    pub args: String,
    /// The user of the client that said it; `None`: a program did, or somebody without a name.
    pub user: Option<String>,
    /// When it was published, in ms since 1970.
    pub time_ms: u64,
}

impl Event {
    /// Its cost, as bounds count it.
    pub fn bytes(&self) -> usize {
        let user = self.user.as_ref().map_or(0, String::len);
        self.namespace.len()
            + self.room.len()
            + self.name.len()
            + self.args.len()
            + user
            + OVERHEAD_BYTES
    }
}

/// An event that is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its place.
    pub at: Position,
    /// The event.
    pub event: Event,
}

/// Events that are stored in one step. A batch that is tried again, because its answer was lost, has the same writer and number, and
/// is stored once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Random for each process.
    pub writer: u64,
    /// Counts up for each writer.
    pub number: u64,
    /// In the order in which they were said.
    pub events: Vec<Event>,
}
