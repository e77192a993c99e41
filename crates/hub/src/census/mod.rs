//! Looking at a hub between its turns: what it holds, where its memory is, whether its tables agree.

pub(crate) mod classes;
pub(crate) mod invariants;
pub(crate) mod look;
pub(crate) mod memory;
pub(crate) mod slow;
