//! Settings of a backend.

use crate::scope::Scope;

/// Times in milliseconds, sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A client that is not let in by then is refused.
    pub connect_timeout_ms: u64,
    /// A worker whose link broke may come back for so long.
    pub rehome_after_ms: u64,
    /// A worker that says nothing for so long is lost.
    pub silent_after_ms: u64,
    /// A client gets the answer to its event by then, or a refusal.
    pub answer_timeout_ms: u64,
    /// A worker that handles nothing of what it has for so long gets no more sockets.
    pub slow_after_ms: u64,
    /// A worker that handles nothing for so long, while more waits for it, is lost.
    pub stalled_after_ms: u64,
    /// Events of a socket wait so long for a worker.
    pub park_timeout_ms: u64,
    /// Sockets without a worker for that long are closed.
    pub close_when_absent: bool,
    /// Most that one worker may have got and not handled.
    pub window_bytes: usize,
    /// Most that may wait for the workers in all, and of one socket.
    pub queue_bytes_max: usize,
    pub socket_bytes_max: usize,
    /// Longest name of a room (`limits.room_name_bytes_max`).
    pub room_name_bytes_max: usize,
    /// Shards of this node: what is for all is answered by each.
    pub shards: u16,
    /// Namespaces of this backend.
    pub scope: Scope,
    /// Each request for a session needs the consent of a worker. Without it, workers are asked about none.
    pub openings: bool,
    /// A shard waits so long for the verdict about one.
    pub opening_timeout_ms: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connect_timeout_ms: 10_000,
            rehome_after_ms: 500,
            silent_after_ms: 10_000,
            answer_timeout_ms: 30_000,
            slow_after_ms: 5_000,
            stalled_after_ms: 30_000,
            park_timeout_ms: 60_000,
            close_when_absent: false,
            window_bytes: 1 << 20,
            queue_bytes_max: 64 << 20,
            socket_bytes_max: 1 << 20,
            room_name_bytes_max: 256,
            shards: 1,
            scope: Scope::All,
            openings: false,
            opening_timeout_ms: 10_000,
        }
    }
}
