//! All bounds of this crate that no setting changes.

/// Events of one batch. The next one is taken when the store has this one, so it grows with the load by itself.
pub(crate) const BATCH_EVENTS_MAX: usize = 1_000;
/// Bytes of one batch. A single event may have more.
pub(crate) const BATCH_BYTES_MAX: usize = 1 << 20;

// ---- the store in files -----------------------------------------------------------------------------------------------------

/// Events that one call of `trim` looks at.
#[cfg(feature = "disk")]
pub(crate) const TRIM_MAX: usize = 50_000;
/// Bytes of namespace, room and user of an event together: keys of the tree are bounded.
#[cfg(feature = "disk")]
pub(crate) const NAMES_BYTES_MAX: usize = 32 << 10;

// ---- the store in Redis -----------------------------------------------------------------------------------------------------

/// Replicas have so long to say that they have it.
#[cfg(feature = "redis")]
pub(crate) const REPLICAS_MS: u64 = 1_000;

// ---- the store in PostgreSQL ------------------------------------------------------------------------------------------------

/// A statement that takes longer is given up by the server.
#[cfg(feature = "postgres")]
pub(crate) const STATEMENT_MS: u32 = 10_000;
/// The same for deletions, which may look at much.
#[cfg(feature = "postgres")]
pub(crate) const KEEPER_MS: u32 = 50_000;
/// Rooms that were written since the last look at their bounds. Those of more rooms are looked at when they are written again.
#[cfg(feature = "postgres")]
pub(crate) const TOUCHED_MAX: usize = 10_000;
