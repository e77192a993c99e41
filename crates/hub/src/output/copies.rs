//! Copies of events on their way to one reader outside, bounded in bytes. Shards never wait for the reader.

use crate::bounds::COPIES_BYTES_MAX;
use crossbeam_queue::SegQueue;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;

/// The cost of a copy.
pub(crate) trait Weigh {
    /// Its bytes while it waits.
    fn bytes(&self) -> usize;
}

/// The copies that wait.
#[derive(Debug)]
pub(crate) struct Copies<T> {
    queue: SegQueue<T>,
    bytes_max: usize,
    waiting: AtomicUsize,
    dropped: AtomicU64,
    reader: OnceLock<Waker>,
}

impl<T> Default for Copies<T> {
    fn default() -> Self {
        Self::bounded(COPIES_BYTES_MAX)
    }
}

impl<T> Copies<T> {
    /// So many bytes may wait.
    pub(crate) fn bounded(bytes_max: usize) -> Self {
        Self {
            queue: SegQueue::new(),
            bytes_max,
            waiting: AtomicUsize::new(0),
            dropped: AtomicU64::new(0),
            reader: OnceLock::new(),
        }
    }
}

impl<T: Weigh> Copies<T> {
    /// Wakes the one reader for each copy from now on.
    pub(crate) fn wake_for_each(&self, reader: Waker) {
        // There is one reader, and so one waker.
        let _ = self.reader.set(reader);
    }

    /// Copies that were dropped because too many waited.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Bytes that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// The next copy; those of one shard are in order.
    pub(crate) fn next(&self) -> Option<T> {
        let copy = self.queue.pop()?;
        self.waiting.fetch_sub(copy.bytes(), Ordering::Relaxed);
        Some(copy)
    }

    /// `Err`: too many wait, and it is dropped. One that is larger than the bound passes when nothing waits.
    pub(crate) fn push(&self, copy: T) -> Result<(), T> {
        let bytes = copy.bytes();
        // The bytes are added before the test: shards that push at one time must not all find the same room.
        let waiting = self.waiting.fetch_add(bytes, Ordering::Relaxed);
        if waiting + bytes > self.bytes_max && waiting > 0 {
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return Err(copy);
        }
        self.queue.push(copy);
        if let Some(reader) = self.reader.get() {
            reader.wake_by_ref();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Weigh for Vec<u8> {
        fn bytes(&self) -> usize {
            self.len()
        }
    }

    #[test]
    fn a_reader_that_stands_still_costs_bounded_memory() {
        let copies = Copies::default();
        for _ in 0..20 {
            // One that does not fit is counted.
            let _ = copies.push(vec![0; 1 << 20]);
        }
        assert_eq!(copies.waiting.load(Ordering::Relaxed), COPIES_BYTES_MAX);
        let kept = std::iter::from_fn(|| copies.next()).count() as u64;
        assert_eq!((kept, copies.dropped()), (8, 12));
        assert_eq!(copies.waiting.load(Ordering::Relaxed), 0);
    }
}
