//! The only place where threads meet: a queue into one shard with one wake-up per batch.
//!
//! The bound is kept by the senders: a hub whose messages find a mailbox above its limit stops reading from its clients until
//! that mailbox is short again, so nothing is dropped and nothing grows without end.

use crossbeam_queue::SegQueue;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Wake, Waker};

#[derive(Debug)]
struct Inner<T> {
    queue: SegQueue<T>,
    len: AtomicUsize,
    /// A wake-up is on its way or the owner is awake and will look.
    signalled: AtomicBool,
    waker: Waker,
}

/// Sending side; cheap to clone.
#[derive(Debug)]
pub struct Sender<T>(Arc<Inner<T>>);

/// The owner's side.
#[derive(Debug)]
pub struct Receiver<T>(Arc<Inner<T>>);

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// A mailbox whose owner is woken through `waker`.
pub fn mailbox<T>(waker: Waker) -> (Sender<T>, Receiver<T>) {
    let inner = Arc::new(Inner {
        queue: SegQueue::new(),
        len: AtomicUsize::new(0),
        signalled: AtomicBool::new(false),
        waker,
    });
    (Sender(Arc::clone(&inner)), Receiver(inner))
}

/// A waker from a function.
pub fn waker(wake: impl Fn() + Send + Sync + 'static) -> Waker {
    struct Call<F>(F);
    impl<F: Fn() + Send + Sync + 'static> Wake for Call<F> {
        fn wake(self: Arc<Self>) {
            (self.0)();
        }
        fn wake_by_ref(self: &Arc<Self>) {
            (self.0)();
        }
    }
    Waker::from(Arc::new(Call(wake)))
}

impl<T> Sender<T> {
    pub fn send(&self, message: T) {
        self.0.len.fetch_add(1, Ordering::Relaxed);
        self.0.queue.push(message);
        // Pairs with the swap in `begin`: either the owner sees the message, or we see that it must be woken.
        if !self.0.signalled.swap(true, Ordering::SeqCst) {
            self.0.waker.wake_by_ref();
        }
    }

    /// Messages waiting (approximate while others send).
    pub fn len(&self) -> usize {
        self.0.len.load(Ordering::Relaxed)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Receiver<T> {
    /// Call before a round of `pop`s: messages sent from now on wake the owner again.
    pub fn begin(&self) {
        self.0.signalled.swap(false, Ordering::SeqCst);
    }

    pub fn pop(&self) -> Option<T> {
        let message = self.take()?;
        self.handled();
        Some(message)
    }

    /// Takes a message that counts as waiting until it is `handled`: senders see what piles up behind the queue as well.
    pub fn take(&self) -> Option<T> {
        self.0.queue.pop()
    }

    /// A message that was taken needs no more attention.
    pub fn handled(&self) {
        self.0.len.fetch_sub(1, Ordering::Relaxed);
    }

    pub fn len(&self) -> usize {
        self.0.len.load(Ordering::Relaxed)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wakes_once_per_batch() {
        let wakes = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&wakes);
        let (sender, receiver) = mailbox(waker(move || {
            count.fetch_add(1, Ordering::SeqCst);
        }));
        for n in 0..5 {
            sender.send(n);
        }
        assert_eq!(wakes.load(Ordering::SeqCst), 1);
        receiver.begin();
        assert_eq!(
            std::iter::from_fn(|| receiver.pop()).collect::<Vec<_>>(),
            [0, 1, 2, 3, 4]
        );
        sender.send(9);
        assert_eq!(wakes.load(Ordering::SeqCst), 2);
        assert_eq!(receiver.len(), 1);
    }

    #[test]
    fn nothing_is_lost_between_threads() {
        let (thread, parked) = (std::thread::current(), Arc::new(AtomicBool::new(false)));
        let (sender, receiver) = mailbox(waker(move || thread.unpark()));
        let senders: Vec<_> = (0..4)
            .map(|_| {
                let sender = sender.clone();
                std::thread::spawn(move || (0..10_000).for_each(|n| sender.send(n)))
            })
            .collect();
        let mut sum = 0u64;
        let mut got = 0;
        while got < 40_000 {
            receiver.begin();
            let mut any = false;
            while let Some(n) = receiver.pop() {
                sum += n;
                got += 1;
                any = true;
            }
            if !any {
                parked.store(true, Ordering::SeqCst);
                std::thread::park();
            }
        }
        senders.into_iter().for_each(|s| s.join().expect("sender"));
        assert_eq!(sum, 4 * (0..10_000u64).sum::<u64>());
    }
}
