//! The way from programs to the shards.

use crate::Errand;

/// The way to the handlers of the shards.
pub trait ToShards: Send + Sync {
    /// To one of them, the same for all errands, so that they take effect in order.
    fn send(&self, errand: Errand);
}
