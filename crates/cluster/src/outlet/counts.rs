//! Counters of an outlet.

/// Why a frame was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The engine had nothing to do.
    Idle,
    /// Its first letter had waited for long enough, or the node leaves.
    Waited,
    /// It had as many bytes or letters as a frame may have.
    Full,
    /// The next letter was one for the other sequence.
    Order,
}

/// Counters of an outlet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Letters, counted once for each receiver or flood.
    pub letters: u64,
    /// Frames of letters, by the reason why they were closed, in the order of [`Closed`].
    pub frames: [u64; 4],
    /// Bytes of these frames.
    pub bytes: u64,
    /// Frames sent again because a peer missed them.
    pub repairs: u64,
    /// Questions of peers for letters that they missed.
    pub questions: u64,
    /// Questions that the ring could not answer any more.
    pub gone: u64,
}
