//! The ways by which messages go out.

/// Who has a message when it counts as produced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The connection: whoever listens gets it, unless the connection ends before.
    Core,
    /// A stream, once, in order for each key.
    JetStream,
}
