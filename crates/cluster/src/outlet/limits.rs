//! Bounds of an outlet that a configuration may change.

/// Bounds of an outlet.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// A frame of this many bytes of letters is closed. A larger letter has a frame of its own.
    pub frame_bytes: usize,
    /// A frame of this many letters is closed.
    pub frame_letters: u16,
    /// Microseconds a letter waits at most for company, and the time from one batch to the next under load.
    pub linger_us: u64,
    /// Bytes of sent frames kept for repair, over all receivers.
    pub ring_bytes: usize,
    /// Bytes of frames that wait for the engine. A letter larger than that has room when nothing else waits.
    pub queue_bytes: usize,
    /// Bytes of repairs in one batch, so that repairs do not hold up new letters.
    pub repair_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame_bytes: 16 * 1024,
            frame_letters: 64,
            linger_us: 500,
            ring_bytes: 64 * 1024 * 1024,
            queue_bytes: 32 * 1024 * 1024,
            repair_bytes: 64 * 1024,
        }
    }
}
