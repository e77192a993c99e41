//! What a backend knows of the process that it is in.

use super::lodger::Lodger;
use backend::proto::Manners;
use hub::Keeping;
use rules::Word;
use std::sync::Arc;

/// Facts of the gateway that each worker is told.
#[derive(Clone, Debug)]
pub struct Served {
    /// Number of the node.
    pub node: u16,
    pub manners: Manners,
}

/// The way to the handlers of the shards.
pub trait ToShards: Send + Sync + 'static {
    fn shards(&self) -> u16;
    /// In order with all that goes by the same shard: another than the word's own passes it on.
    fn send(&self, by: u16, word: Word);
    /// What is kept of the events of which namespaces.
    fn keeping(&self) -> Arc<Keeping>;
    /// Which shard has the socket with this id.
    fn shard_of(&self, socket: &str) -> Option<u16>;
    /// Some shard has more to do than it should: workers can wait.
    fn are_behind(&self) -> bool;
    /// The shard serves the link's connection from now on.
    fn lodge(&self, shard: u16, lodger: Lodger) {
        let _ = shard;
        lodger.leave();
    }
    /// The links that the shard serves are to look for what is new.
    fn call_lodgers(&self, shard: u16) {
        let _ = shard;
    }
}
