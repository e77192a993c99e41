//! What can happen in a history.

use super::wires::Mail;
use cluster::outlet::Publish;
use hub::Parcel;
use std::sync::Arc;

/// Microseconds.
pub(crate) const MS: u64 = 1_000;
pub(crate) const SECOND: u64 = 1_000 * MS;

/// Something that is to happen.
pub(crate) enum Due {
    /// A message of the engine comes to a life.
    Frame {
        life: usize,
        frame: Arc<[u8]>,
    },
    /// The engine says what became of a batch.
    Answer {
        life: usize,
        batch: Vec<Publish>,
        is_taken: bool,
    },
    /// A hub has something for other nodes.
    Parcel {
        life: usize,
        parcel: Parcel,
    },
    /// From a hub, or from another part of the process.
    Mail {
        life: usize,
        from: usize,
        hub: usize,
        mail: Mail,
    },
    Turn {
        life: usize,
        hub: usize,
    },
    Move {
        life: usize,
        hub: usize,
        link: usize,
        read: Vec<u8>,
    },
    /// Another node brings a connection.
    Relayed {
        life: usize,
        hub: usize,
        link: usize,
        read: Vec<u8>,
    },
    Open {
        link: usize,
    },
    Input {
        link: usize,
        bytes: Vec<u8>,
    },
    Writable {
        link: usize,
    },
    Broken {
        link: usize,
    },
    End {
        link: usize,
    },
    /// What waited outside until no mailbox is long.
    Feed {
        life: usize,
    },
    /// Input that waited until no mailbox is overfull.
    Read {
        life: usize,
    },
    /// A hub that stood still goes on.
    Wake {
        life: usize,
        hub: usize,
    },
    Station {
        life: usize,
    },
    /// Workers and their node look for what is new.
    Office {
        life: usize,
    },
    Tick {
        life: usize,
    },
    /// A message of the servers' channels comes to a node, or to the server of Node.
    Heard {
        life: usize,
        channel: String,
        body: Vec<u8>,
    },
    Server {
        channel: String,
        body: Vec<u8>,
    },
    Bridge {
        life: usize,
    },
    Thaw {
        life: usize,
    },
    Restart {
        number: u16,
    },
    /// A client that was cut off comes back.
    Back {
        name: usize,
    },
}
