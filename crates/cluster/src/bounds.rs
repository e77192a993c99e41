//! All bounds of this crate that no setting changes.

// ---- what is sent -----------------------------------------------------------------------------------------------------------

/// Repairs of so many bytes may be under way to one peer: a server that stands still is not sent all that its peers miss.
pub(crate) const REPAIRS_BYTES_MAX: usize = 1024 * 1024;
/// Peers that were given up and are remembered.
pub(crate) const RESTING_MAX: usize = 16;

// ---- what is heard ----------------------------------------------------------------------------------------------------------

/// The speed of letters that are late doubles each second, so often at most: nothing waits for long.
pub(crate) const DOUBLINGS_MAX: u64 = 12;
/// Earlier lives of a number that are remembered.
pub(crate) const PAST_LIVES_MAX: usize = 64;
/// Heartbeats whose time is remembered.
pub(crate) const MADE_MAX: usize = 64;
/// Round trips that are remembered: as many as there are heartbeats meanwhile, and some more.
pub(crate) const TRIPS_MAX: usize = 32;

// ---- keys -------------------------------------------------------------------------------------------------------------------

/// Changes of keys in one letter.
pub(crate) const CHANGES_MAX: usize = 1_000;
/// Keys of joins under way that are remembered. Nodes that are asked for more count as interested in everything meanwhile.
pub(crate) const EXPECTED_MAX: usize = 65_536;

// ---- budgets ----------------------------------------------------------------------------------------------------------------

/// Kinds of budgets that a sheet has room for.
pub const KINDS: usize = 8;
/// Keys that a node names of its own accord. Of further ones it uses its rest share only.
pub const NAMED_MAX: usize = 8_192;
/// Keys on a sheet, those included that others named first.
pub const ENTRIES_MAX: usize = 2 * NAMED_MAX;
// Shares of all of them go to the next process.
const _: () = assert!(ENTRIES_MAX <= handoff::bounds::SHARES_MAX);
/// Kind, holder, and three numbers of at most five bytes.
const ENTRY_BYTES_MAX: usize = 1 + 8 + 3 * 5;
/// No sheet is longer.
pub const SHEET_BYTES_MAX: usize = 64 + KINDS * 10 + ENTRIES_MAX * ENTRY_BYTES_MAX;
