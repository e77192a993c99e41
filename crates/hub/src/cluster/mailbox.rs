//! The only place where threads meet: a queue into one shard, whose owner is woken only if it sleeps.
//!
//! The bound is kept by the senders: a hub whose messages find a mailbox above its limit stops reading from its clients until
//! that mailbox is short again, so nothing is dropped and nothing grows without end.

use crate::cluster::awake::Awake;
use crate::tables::loads::Load;
use crossbeam_queue::SegQueue;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Wake, Waker};

pub use crate::tables::loads::Loads;

/// What a message costs while it waits.
pub trait Weigh {
    /// Bytes that it keeps from others while it waits.
    fn bytes(&self) -> usize;
}

#[derive(Debug)]
struct Inner<T> {
    queue: SegQueue<T>,
    loads: Arc<Loads>,
    shard: u16,
    awake: Awake,
    waker: Waker,
}

impl<T> Inner<T> {
    fn load(&self) -> &Load {
        self.loads.of(self.shard)
    }
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

/// The mailbox of a shard, whose owner is woken through `waker`.
pub fn mailbox<T>(waker: Waker, loads: Arc<Loads>, shard: u16) -> (Sender<T>, Receiver<T>) {
    let inner = Arc::new(Inner {
        queue: SegQueue::new(),
        loads,
        shard,
        awake: Awake::new(),
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

impl<T: Weigh> Sender<T> {
    /// Puts a message into the mailbox, however full that is.
    pub fn send(&self, message: T) {
        self.put(message);
        self.wake();
    }

    /// Sends a message whose owner may sleep on until `wake`.
    pub fn put(&self, message: T) {
        let load = self.0.load();
        // A message is counted first: its owner may take it as soon as it is in, and counts it off.
        load.messages.fetch_add(1, Ordering::Relaxed);
        load.bytes.fetch_add(message.bytes(), Ordering::Relaxed);
        self.0.queue.push(message);
    }

    /// Wakes the owner if it sleeps.
    pub fn wake(&self) {
        if self.0.awake.must_be_woken() {
            self.0.waker.wake_by_ref();
        }
    }
}

impl<T: Weigh> Receiver<T> {
    /// Call before waiting: messages sent from now on wake the owner. `false`: some are here, so do not wait.
    pub fn begin_wait(&self) -> bool {
        self.0.awake.begin_wait(&self.0.load().messages)
    }

    /// To be called after waiting: the owner looks by itself.
    pub fn end_wait(&self) {
        self.0.awake.end_wait();
    }

    /// The next message.
    pub fn pop(&self) -> Option<T> {
        let message = self.0.queue.pop()?;
        let load = self.0.load();
        load.messages.fetch_sub(1, Ordering::Relaxed);
        load.bytes.fetch_sub(message.bytes(), Ordering::Relaxed);
        Some(message)
    }

    /// Messages that wait.
    pub fn len(&self) -> usize {
        self.0.loads.messages(self.0.shard)
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::books::limits::Limits;
    use std::sync::atomic::AtomicUsize;

    impl Weigh for u64 {
        fn bytes(&self) -> usize {
            *self as usize
        }
    }

    #[test]
    fn only_who_sleeps_is_woken() {
        let wakes = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&wakes);
        let (sender, receiver) = mailbox(
            waker(move || {
                count.fetch_add(1, Ordering::SeqCst);
            }),
            Arc::default(),
            0,
        );
        for n in 0..5u64 {
            sender.send(n);
        }
        assert_eq!(wakes.load(Ordering::SeqCst), 1);
        assert!(!receiver.begin_wait(), "five messages are here");
        receiver.end_wait();
        assert_eq!(
            std::iter::from_fn(|| receiver.pop()).collect::<Vec<_>>(),
            [0, 1, 2, 3, 4]
        );
        // A shard that worked was woken by every message that came in meanwhile, and turned once more for nothing.
        sender.send(9);
        assert_eq!(wakes.load(Ordering::SeqCst), 1);
        assert_eq!(receiver.len(), 1);
        assert_eq!(receiver.pop(), Some(9));
        assert!(receiver.begin_wait());
        sender.put(10);
        sender.put(11);
        assert_eq!(wakes.load(Ordering::SeqCst), 1);
        sender.wake();
        sender.wake();
        assert_eq!(wakes.load(Ordering::SeqCst), 2);
    }

    /// Megabytes in few messages are as long a queue as many small ones.
    #[test]
    fn few_large_messages_are_a_long_mailbox() {
        let (limits, loads) = (Limits::default(), Arc::new(Loads::default()));
        let (sender, receiver) = mailbox(waker(|| {}), Arc::clone(&loads), 3);
        sender.send(limits.mailbox_bytes_max as u64);
        assert!(!loads.is_long(3, &limits));
        sender.send(1);
        assert!(loads.is_long(3, &limits) && !loads.is_long(2, &limits));
        assert!(!loads.is_overfull(3, &limits));
        assert_eq!(receiver.pop(), Some(limits.mailbox_bytes_max as u64));
        assert!(!loads.is_long(3, &limits));
        assert_eq!((loads.messages(3), loads.bytes(3)), (1, 1));
    }

    #[test]
    fn nothing_is_lost_between_threads() {
        let thread = std::thread::current();
        let (sender, receiver) = mailbox(waker(move || thread.unpark()), Arc::default(), 0);
        let senders: Vec<_> = (0..4)
            .map(|_| {
                let sender = sender.clone();
                std::thread::spawn(move || (0..10_000u64).for_each(|n| sender.send(n)))
            })
            .collect();
        let (mut sum, mut got, mut sleeps) = (0u64, 0, 0);
        while got < 40_000 {
            while let Some(n) = receiver.pop() {
                sum += n;
                got += 1;
            }
            if got < 40_000 && receiver.begin_wait() {
                sleeps += 1;
                std::thread::park();
            }
            receiver.end_wait();
        }
        senders.into_iter().for_each(|s| s.join().expect("sender"));
        assert_eq!(sum, 4 * (0..10_000u64).sum::<u64>());
        println!("slept {sleeps} times");
    }
}
