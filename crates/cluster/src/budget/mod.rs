//! Limits that all nodes keep together: of each budget every node has a share, and the shares are never more than the budget.
//!
//! A budget belongs to a [`Key`]: so many connections of one address, so many messages a minute of one user. Most keys are far
//! from their limit. Nobody names them, and each node may use its *rest share* of them: the budget divided by the number of nodes. A
//! key that has used half of a node's rest share is *named* on that node's [`Sheet`]. Nodes show each other their sheets on a board, and
//! divide the budgets of named keys by who uses and wants how much ([`mod@split`]).
//!
//! # Why shares never add up to more
//!
//! The board shows a sheet and hands out all the others in one step, so of two nodes one always sees what the other one showed. A
//! node that wants more shows the larger share first, and uses no more of it than what it then sees leaves. A node that gives something
//! back stops using it first, and shows that afterwards. Nothing on the board is counted up or down: a sheet says all of what
//! its node has, so a lost one costs nothing, and there is no count that could drift.
//!
//! What a node shows ends with its life: the board forgets it after [`SHEET_US`]. The others keep its shares as long as they hear it
//! otherwise, so nobody frees what it has by deleting its sheet; and for [`GRACE_US`] in which they can read the board, because a board
//! that lost everything looks the same until everybody has shown a sheet again. For the same reason nobody takes more while a node
//! that is heard has shown no sheet for less than that.

mod ledger;
mod sheet;
mod split;

pub use crate::bounds::{ENTRIES_MAX, KINDS, NAMED_MAX, SHEET_BYTES_MAX};
pub use ledger::{Change, Ledger, Source};
pub use sheet::{Entry, Sheet};
pub use split::{Claim, split};

/// The board forgets a sheet so long after it was shown.
pub const SHEET_US: u64 = 6_000_000;
/// A node that has no sheet, and is not heard, keeps its shares for so long.
pub const GRACE_US: u64 = 3_000_000;

/// The owner of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The kind of the limit: below [`KINDS`].
    pub kind: u8,
    /// The holder of the limit, by a number that is the same on all nodes.
    pub holder: u64,
}

/// The budget of one kind of limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// The budget of each key; 0: nodes do not share this kind.
    pub budget: u32,
    /// The used part comes back with time, as with a rate. Otherwise it comes back when its holder lets it go, as with connections.
    pub flows: bool,
}

/// A node's use of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// In use now.
    pub used: u32,
    /// Refused since this was asked last.
    pub refused: u32,
}
