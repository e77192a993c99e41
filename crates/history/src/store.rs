//! What a store can do.

use crate::ask::{Ask, Forget, Page, Trimmed};
use crate::event::Batch;
use crate::fault::Fault;
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

    /// Writes through what is not, and closes. Later calls fail.
    fn close(&self) -> Answer<'_, ()>;
}
