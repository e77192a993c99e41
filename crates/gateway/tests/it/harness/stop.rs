//! Threads beside a test end with it, also when it fails: a scope of threads waits for all of them.

use std::sync::atomic::{AtomicBool, Ordering};

/// Says that it is over when it is dropped. It stands first in the scope.
#[derive(Debug)]
pub struct Stop<'a>(pub &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
