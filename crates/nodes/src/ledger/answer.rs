//! What a place that all nodes know answers about an order.

use std::time::Duration;

/// After the place lost all, nodes have so long to say what they carried out. Nobody begins anything meanwhile.
pub(super) const YOUNG: Duration = Duration::from_secs(5);

/// The answer to a claim.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answered {
    Mine,
    /// It begins anew, and hears of what was carried out first.
    Young,
    Held(String),
    /// It has another generation than the one that was named: it lost all, or begins.
    Another(String),
}
