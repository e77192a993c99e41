//! Where a record stands.

/// The same place is the same command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition.
    pub partition: i32,
    /// Its offset there.
    pub offset: i64,
}
