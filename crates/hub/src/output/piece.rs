//! Bytes that wait: one counted piece of memory, however many connections wait for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that wait in all outboxes and polling queues of the process.
#[derive(Debug, Default)]
pub struct Waiting(AtomicU64);

impl Waiting {
    /// Bytes of all pieces, each counted once.
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The pieces of one hub.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    bytes: AtomicU64,
    process: Arc<Waiting>,
}

impl Pool {
    pub(crate) fn new(process: Arc<Waiting>) -> Arc<Self> {
        Arc::new(Self {
            process,
            ..Self::default()
        })
    }

    /// Bytes of this hub's pieces.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the pieces of all hubs of the process.
    pub(crate) fn process_bytes(&self) -> u64 {
        self.process.bytes()
    }
}

/// A copy of some output. Clones share it; the last one frees it.
#[derive(Clone, Debug)]
pub(crate) struct Piece(Arc<Counted>);

#[derive(Debug)]
struct Counted {
    bytes: Box<[u8]>,
    pool: Arc<Pool>,
}

impl Counted {
    /// What the piece takes from the allocator: its bytes, and two words of the reference count.
    fn heap_bytes(&self) -> u64 {
        (self.bytes.len() + size_of::<Self>() + 2 * size_of::<usize>()) as u64
    }
}

impl Piece {
    pub(crate) fn new(bytes: &[u8], pool: &Arc<Pool>) -> Self {
        let counted = Counted {
            bytes: bytes.into(),
            pool: Arc::clone(pool),
        };
        pool.bytes
            .fetch_add(counted.heap_bytes(), Ordering::Relaxed);
        pool.process
            .0
            .fetch_add(counted.heap_bytes(), Ordering::Relaxed);
        Self(Arc::new(counted))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0.bytes
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let bytes = self.heap_bytes();
        self.pool.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.pool.process.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_counted_once_and_until_its_last_owner_is_gone() {
        let process = Arc::new(Waiting::default());
        let pools = [0, 1].map(|_| Pool::new(Arc::clone(&process)));
        let first = Piece::new(&[7; 1000], &pools[0]);
        let many = vec![first.clone(); 100];
        let counted = pools[0].bytes();
        assert!((1000..1100).contains(&counted), "{counted}");
        let second = Piece::new(&[7; 1000], &pools[1]);
        assert_eq!(process.bytes(), 2 * counted);
        drop(first);
        assert_eq!(pools[0].bytes(), counted);
        drop((many, second));
        assert_eq!((process.bytes(), pools[0].bytes()), (0, 0));
    }
}
