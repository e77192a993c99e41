//! All bounds of this crate that no setting changes.

use std::time::Duration;

// ---- commands ---------------------------------------------------------------------------------------------------------------

/// Bytes of a header of a command. Ids and names are shorter.
pub(crate) const HEADER_BYTES_MAX: usize = 1_024;
/// Offsets of a partition whose records were handed over: the last ones are remembered.
pub(crate) const OFFSETS_MAX: usize = 4_096;
/// Partitions of all topics. One that is not among them gets the memory of all others.
pub(crate) const PARTITIONS_MAX: usize = 1_024;

// ---- what operators are shown -----------------------------------------------------------------------------------------------

/// Lines of the log in a second about commands that are none. All such records are counted, and dead letters have the reasons.
pub(crate) const LINES_MAX: u32 = 10;
/// Failures of one thing that are kept.
pub(crate) const FAILURES_MAX: usize = 20;
/// Failures of one kind that are noted in a second. More of them push out what they began with, and cost too much while a server is away.
pub(crate) const NOTED_MAX: u32 = 10;
/// Characters of a reason and of names.
pub(crate) const TEXT_CHARS_MAX: usize = 300;
/// Bytes of one body that was said when something failed; a longer one is cut.
pub(crate) const BODY_BYTES_MAX: usize = 4 << 10;
/// Bytes of all bodies together.
pub(crate) const BODIES_BYTES_MAX: usize = 16 * BODY_BYTES_MAX;
/// A body is kept for so long.
pub(crate) const BODIES_KEPT: Duration = Duration::from_secs(15 * 60);
