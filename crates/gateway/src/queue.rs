//! A bounded way to one thread, as large as what waits in it: a bounded channel of the standard library has all its places from
//! the start, which are megabytes of a process that has nothing to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// Where things are left; cheap to clone.
#[derive(Debug)]
pub struct Queue<T> {
    to: Sender<T>,
    waiting: Arc<AtomicUsize>,
    most: usize,
}

/// Where they are taken out.
#[derive(Debug)]
pub struct Waiting<T> {
    from: Receiver<T>,
    count: Arc<AtomicUsize>,
}

/// A queue for so many at most.
pub fn queue<T>(most: usize) -> (Queue<T>, Waiting<T>) {
    let (to, from) = mpsc::channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&waiting);
    (Queue { to, waiting, most }, Waiting { from, count })
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self {
            to: self.to.clone(),
            waiting: Arc::clone(&self.waiting),
            most: self.most,
        }
    }
}

impl<T> Queue<T> {
    /// Leaves something, without waiting. `false`: there is no room, or nobody takes it any more.
    pub fn offer(&self, thing: T) -> bool {
        let has_room = self.waiting.fetch_add(1, Ordering::Relaxed) < self.most;
        let is_left = has_room && self.to.send(thing).is_ok();
        if !is_left {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        is_left
    }
}

impl<T> Waiting<T> {
    /// The next one, as soon as there is one. `None`: none will come.
    pub fn next(&self) -> Option<T> {
        let next = self.from.recv().ok()?;
        self.count.fetch_sub(1, Ordering::Relaxed);
        Some(next)
    }

    /// The same, but `Timeout` after so long.
    pub fn next_within(&self, time: Duration) -> Result<T, RecvTimeoutError> {
        let next = self.from.recv_timeout(time)?;
        self.count.fetch_sub(1, Ordering::Relaxed);
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_takes_nothing_until_one_is_taken_out() {
        let (queue, waiting) = queue(3);
        assert_eq!((0..5).filter(|n| queue.offer(*n)).count(), 3);
        assert_eq!(waiting.next(), Some(0));
        assert!(queue.offer(5) && !queue.offer(6));
        let rest: Vec<_> = (0..3).filter_map(|_| waiting.next()).collect();
        assert_eq!(rest, [1, 2, 5]);
        let none = waiting.next_within(Duration::ZERO);
        assert_eq!(none, Err(RecvTimeoutError::Timeout));
        assert!(queue.offer(7));
        drop(waiting);
        assert!(!queue.offer(8));
    }

    /// Many leave at once: what is refused does not keep a place.
    #[test]
    fn as_many_are_taken_out_as_were_left() {
        const EACH: usize = 10_000;
        let (queue, waiting) = queue(64);
        let leave = |queue: Queue<usize>| (0..EACH).filter(|n| queue.offer(*n)).count();
        let threads: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn({
                    let queue = queue.clone();
                    move || leave(queue)
                })
            })
            .collect();
        drop(queue);
        let taken = std::iter::from_fn(|| waiting.next()).count();
        let left = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"));
        assert_eq!(taken, left.sum::<usize>());
        assert_eq!(waiting.count.load(Ordering::Relaxed), 0);
    }
}
