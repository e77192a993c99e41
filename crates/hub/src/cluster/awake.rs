//! Whether the owner of a mailbox must be woken. `tests/wakeups.rs` compiles this file with atomics that play the orders in
//! which threads can meet, so it names none of the standard library.

use super::atomics::{AtomicBool, AtomicUsize, Ordering};

/// The owner is awake and will look before it sleeps, or a wake-up is on its way.
#[derive(Debug)]
pub(crate) struct Awake(AtomicBool);

impl Awake {
    /// Its owner has not looked yet.
    pub(crate) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// A message was counted and put in. `true`: the caller must wake the owner.
    pub(crate) fn must_be_woken(&self) -> bool {
        // Pairs with the swap in `begin_wait`: either the owner sees the message, or we see that it must be woken.
        !self.0.swap(true, Ordering::SeqCst)
    }

    /// The owner is about to sleep: messages from now on wake it. `false`: some are counted already, so it must not sleep.
    pub(crate) fn begin_wait(&self, messages: &AtomicUsize) -> bool {
        self.0.swap(false, Ordering::SeqCst);
        messages.load(Ordering::Relaxed) == 0
    }

    /// The owner looks by itself.
    pub(crate) fn end_wait(&self) {
        self.0.swap(true, Ordering::SeqCst);
    }
}
