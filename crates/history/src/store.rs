//! What a store can do.

use crate::ask::{Ask, Forget, Page, Shed, Trimmed, Usage};
use crate::event::Batch;
use crate::fault::{Fault, Kind};
use crate::position::Position;
use std::fmt::Debug;
use std::pin::Pin;

/// What a store is asked for, on its way.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send + 'a>>;

/// A store of what rooms said. The bounds of rooms are those of its [`crate::Plan`]; events of rooms that are not in it are refused.
pub trait Store: Debug + Send + Sync {
    /// Stores a batch in one step, or nothing of it, and says where its events stand. They are as durable then as the store makes them.
    /// A batch that is stored already is not stored again, and its places are the same.
    fn append<'a>(&'a self, batch: &'a Batch) -> Answer<'a, Vec<Position>>;

    /// A page of a room. A room that nothing is known of is empty.
    fn page(&self, ask: Ask) -> Answer<'_, Page>;

    /// Deletes; how many events there were. Places are not given again.
    fn forget(&self, what: Forget) -> Answer<'_, u64>;

    /// Removes what is too old or too much. Called now and then; does a bounded part of it.
    fn trim(&self, now_ms: u64) -> Answer<'_, Trimmed>;

    /// What a namespace has. It looks at all its rooms.
    fn usage<'a>(&'a self, _namespace: &'a str) -> Answer<'a, Usage> {
        Box::pin(async { Err(no_quotas()) })
    }

    /// Has the oldest of a namespace make way, a bounded part of it in one call; how many events were removed.
    fn shed<'a>(&'a self, _namespace: &'a str, _what: Shed) -> Answer<'a, u64> {
        Box::pin(async { Err(no_quotas()) })
    }

    /// Writes through what is not, and closes. Later calls fail.
    fn close(&self) -> Answer<'_, ()>;
}

/// Of a store that does not know what a namespace has.
fn no_quotas() -> Fault {
    Fault::new(
        Kind::Refused,
        "this store does not count what a namespace has, so it can hold no quota",
    )
}
