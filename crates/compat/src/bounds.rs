//! All bounds of this crate that no setting changes.

// ---- what arrives -----------------------------------------------------------------------------------------------------------

/// The largest message that is looked at.
pub const MESSAGE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Rooms in one list.
pub const ROOMS_MAX: usize = 65_536;
/// Sockets in one answer.
pub const SOCKETS_MAX: usize = 250_000;
/// Beyond these digits a name is a name, not a number of JavaScript.
pub(crate) const NUMBER_DIGITS_MAX: usize = 15;

// ---- questions --------------------------------------------------------------------------------------------------------------

/// Questions of ours that may be open at once; each costs about 100 bytes. As many of other servers: those above it are not carried out
/// and not answered. Their servers report a timeout, and do not believe that nobody is here.
pub const OPEN_MAX: usize = 65_536;
/// After the last answer, so long for servers that are counted and were never heard.
pub(crate) const PATIENCE_MS: u64 = 1_000;
/// Node waits for 5 s for lists of sockets. An answer without some is better than none.
pub(crate) const LIST_MS: u64 = 4_000;
/// Acks are waited for as long as the asker says, but not longer.
pub(crate) const ACKS_MS_MAX: u64 = 3_600_000;
/// An asker of servers does not say how long it waits; Node's default is 5 s.
pub(crate) const WORD_MS: u64 = 60_000;
/// Bytes that all lists together may take while they are gathered, in lists of the largest size.
pub const LISTS_MAX: usize = 8;

// ---- servers of a namespace -------------------------------------------------------------------------------------------------

/// After its last server a namespace is written to for this long.
pub(crate) const STAYS_MS: u64 = 60_000;
/// A server that was heard so lately is expected to answer.
pub(crate) const HEARD_MS: u64 = 10_000;
/// Servers that are remembered by name. More are there, too, but nobody waits for their answers in particular.
pub const SERVERS_MAX: usize = 4_096;
/// How often servers are counted while something is said, and while nothing is.
pub(crate) const COUNT_BUSY_MS: u64 = 20;
pub(crate) const COUNT_IDLE_MS: u64 = 1_000;
/// How long a tail is: servers are counted every second, and twice before they are believed.
pub(crate) const TAIL_MS: u64 = 1_500;
/// Bytes of the latest letters that a namespace remembers, in each dialect. Letters above it are not told to a server that appears.
pub const TAIL_BYTES_MAX: usize = 1024 * 1024;
