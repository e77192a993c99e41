//! Greetings that are under way to each node. Its door takes so many strangers, and all nodes are strangers until they have greeted: a
//! node that brings a crowd at once must not push its own connections out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Greetings at once to one node. A door has places for 256, and for 8 in a process without descriptors.
const AT_ONCE: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<BTreeMap<u16, Arc<Semaphore>>>);

impl Turns {
    /// Waits until this node may greet that one; the turn ends when this is dropped.
    pub(super) async fn wait(&self, node: u16) -> Option<OwnedSemaphorePermit> {
        let turns = {
            let mut nodes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let turns = nodes.entry(node);
            Arc::clone(turns.or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE))))
        };
        turns.acquire_owned().await.ok()
    }
}
