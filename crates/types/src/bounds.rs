//! All bounds of this crate.

/// Names in one list of a target, or of a request beside it.
pub const NAMES_MAX: usize = 1_000;
