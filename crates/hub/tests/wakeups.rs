//! A shard that sleeps while a message waits for it would sleep until its next timer. Here the orders in which a shard and
//! its senders can meet are played, with each value that the memory model lets them read.
//!
//! What is played is ours: when a message is counted, when the flag is taken, when the owner looks. The queue is a library's and
//! appears as the number of its messages; the waker is the kernel's and appears as a permit that is kept until it is used.

use loom::model::Builder;
use loom::sync::Notify;
use loom::sync::atomic::{AtomicUsize as Count, Ordering};
use loom::thread;
use std::sync::Arc;

mod atomics {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
}

#[path = "../src/cluster/awake.rs"]
mod awake;

use awake::Awake;

struct Mailbox {
    awake: Awake,
    messages: Count,
    waker: Notify,
    wakes: Count,
}

impl Mailbox {
    fn new() -> Self {
        Self {
            awake: Awake::new(),
            messages: Count::new(0),
            waker: Notify::new(),
            wakes: Count::new(0),
        }
    }

    /// As `Sender::put`.
    fn put(&self) {
        self.messages.fetch_add(1, Ordering::Relaxed);
    }

    /// As `Sender::wake`.
    fn wake(&self) {
        if self.awake.must_be_woken() {
            self.wakes.fetch_add(1, Ordering::Relaxed);
            self.waker.notify();
        }
    }

    /// As `Receiver::pop`, until nothing is there.
    fn pop_all(&self) -> usize {
        self.messages.swap(0, Ordering::Relaxed)
    }
}

/// How often threads are interrupted in an order that is played, at most. Without a bound two senders take minutes.
const PREEMPTIONS: usize = 3;

/// How an owner asks whether it may sleep.
type BeginWait = fn(&Mailbox) -> bool;

/// Senders leave so many messages each and wake the owner once; the owner returns when it has all.
fn play(senders: &'static [usize], begin_wait: BeginWait) {
    let mut model = Builder::new();
    model.preemption_bound = Some(PREEMPTIONS);
    model.check(move || {
        let mailbox = Arc::new(Mailbox::new());
        for messages in senders {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || {
                (0..*messages).for_each(|_| mailbox.put());
                mailbox.wake();
            });
        }
        let (mut left, mut waits) = (senders.iter().sum::<usize>(), 0);
        loop {
            left -= mailbox.pop_all();
            if left == 0 {
                break;
            }
            waits += 1;
            if begin_wait(&mailbox) {
                mailbox.waker.wait();
            }
            mailbox.awake.end_wait();
        }
        let wakes = mailbox.wakes.load(Ordering::Relaxed);
        assert!(wakes <= waits + 1, "{wakes} wake-ups for {waits} waits");
    });
}

fn as_shards_do(mailbox: &Mailbox) -> bool {
    mailbox.awake.begin_wait(&mailbox.messages)
}

#[test]
fn no_shard_sleeps_while_a_message_waits() {
    play(&[1], as_shards_do);
    play(&[2], as_shards_do);
    play(&[1, 1], as_shards_do);
}

/// The check can fail: the message comes between the look and the flag, and nobody wakes the owner.
#[test]
#[should_panic(expected = "deadlock")]
fn an_owner_that_looks_before_it_says_that_it_sleeps_is_found() {
    play(&[1], |mailbox| {
        mailbox.awake.end_wait();
        let empty = mailbox.messages.load(Ordering::Relaxed) == 0;
        mailbox.awake.begin_wait(&mailbox.messages);
        empty
    });
}

/// The check can fail: the flag still says that the owner is awake, so the sender leaves it asleep.
#[test]
#[should_panic(expected = "deadlock")]
fn an_owner_that_sleeps_without_a_word_is_found() {
    play(&[1, 1], |mailbox| {
        mailbox.awake.end_wait();
        mailbox.messages.load(Ordering::Relaxed) == 0
    });
}
