//! Where a record or a message stands.

/// The same place at the same time is the same command: topics and streams that are made anew begin with the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The topic, or the stream.
    pub topic: &'a str,
    /// The partition; 0 in a stream.
    pub partition: i32,
    /// Its offset there, or its number in the stream.
    pub offset: i64,
    /// When it was written, in ms since 1970.
    pub time_ms: i64,
}
