//! All bounds of this crate that no setting changes.

use hub::config::Rate;
use std::time::Duration;

// ---- requests for sessions --------------------------------------------------------------------------------------------------

/// Requests of a shard that wait for the verdicts of backends, and as many that were let in and do not open their session. The hub answers
/// those that nobody decided about; what is kept of them here goes with time.
pub const OPENINGS_MAX: usize = 16_384;
/// Bytes of the header lines that backends want in the answers to these requests. One for whose lines there is no room is not let in.
pub const VERDICTS_BYTES_MAX: usize = 16 << 20;
const _: () = assert!(backend::VERDICT_BYTES_MAX * 64 <= VERDICTS_BYTES_MAX);
/// A request that was let in opens its session within a few turns. So long after it, one that did not makes way for others.
pub(crate) const LET_IN_MS: u64 = 2_000;
/// Sessions of a shard that were let in and whose clients have not joined: all requests may become one. One whose request is forgotten is
/// looked at again when it joins.
pub const NEWCOMERS_MAX: usize = OPENINGS_MAX;

// ---- history ----------------------------------------------------------------------------------------------------------------

/// Clients of a shard that wait for a page of a store. The store has some 10 s for each.
pub const READERS_MAX: usize = 256;
/// History is up to 64 KiB for one short `join`: in a namespace a session gets it for this many joins a second, and for the rest
/// joins only. Coming back makes it no more.
pub(crate) const REPLAYS: Rate = Rate::new(20, Duration::from_secs(1));

// ---- presence ---------------------------------------------------------------------------------------------------------------

/// A list of members is long, and its question short: a session asks so often in a namespace.
pub(crate) const QUESTIONS: Rate = Rate::new(20, Duration::from_secs(1));

// ---- large events -----------------------------------------------------------------------------------------------------------

/// Bytes that may wait for large events of one socket: the events behind one that a store keeps.
pub const LARGE_SOCKET_BYTES_MAX: usize = 256 * 1024;
/// The same of all sockets of a shard.
pub const LARGE_SHARD_BYTES_MAX: usize = 64 * LARGE_SOCKET_BYTES_MAX;

// ---- the chat profile -------------------------------------------------------------------------------------------------------

/// Length of a message in UTF-16 code units, which is what `length` says in a browser.
pub const CONTENT_UNITS_MAX: usize = 1_000;
/// Characters of a display name.
pub const NAME_CHARS_MAX: usize = 64;
