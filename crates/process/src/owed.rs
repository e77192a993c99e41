//! Answers that operators wait for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Connections that are owed an answer: they have just come, or have sent a request. A process that hands over stays for them.
#[derive(Debug, Default)]
pub struct Owed(AtomicUsize);

impl Owed {
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    pub fn one(self: &Arc<Self>) -> Owes {
        self.0.fetch_add(1, Ordering::AcqRel);
        Owes(Arc::clone(self))
    }
}

/// One of them, until this is dropped.
#[derive(Debug)]
pub struct Owes(Arc<Owed>);

impl Drop for Owes {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}
