//! What a shard keeps for somebody: bytes that wait for an answer, a reader or another node. Each class is booked here, with a bound and a
//! figure of its own. An entry is held beside what is kept, and gives its room back when it goes, by whichever way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

named! {
    /// The purpose that something is kept for.
    pub enum Stock {
        /// Tokens that are being verified, what waits for decisions, large events on their way.
        Questions = "questions",
        /// Acks and lists of sockets of questions to many.
        Rounds = "rounds",
        /// Lists of sockets that the handler gets in this turn.
        Lists = "lists",
        /// Acks of clients that wait until other nodes know what they joined, or a store has it.
        Acks = "acks",
        /// Events of rooms with history.
        History = "history",
    }
}

/// Bytes of all accounts, by class.
type Sums = [AtomicUsize; Stock::NAMES.len()];

/// The books of one shard.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Arc<Sums>);

impl Ledger {
    /// An account with a bound of its own.
    pub(crate) fn open(&self, class: Stock, bytes_max: usize) -> Account {
        Account(Arc::new(Sheet {
            class,
            bytes: AtomicUsize::new(0),
            bytes_max,
            sums: Arc::clone(&self.0),
        }))
    }

    /// Bytes that are kept, by class.
    pub(crate) fn sums(&self) -> [u64; Stock::NAMES.len()] {
        std::array::from_fn(|class| self.0[class].load(Ordering::Relaxed) as u64)
    }

    /// Bytes of one class.
    pub(crate) fn sum(&self, class: Stock) -> usize {
        self.0[class as usize].load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct Sheet {
    class: Stock,
    bytes: AtomicUsize,
    bytes_max: usize,
    sums: Arc<Sums>,
}

/// A bound, and what is kept below it. Clones are the same account.
#[derive(Clone, Debug)]
pub(crate) struct Account(Arc<Sheet>);

impl Account {
    /// Another account of this class, with as much room.
    pub(crate) fn another(&self) -> Self {
        let Sheet {
            class, bytes_max, ..
        } = *self.0;
        Ledger(Arc::clone(&self.0.sums)).open(class, bytes_max)
    }

    /// Books something that has no bytes yet.
    pub(crate) fn entry(&self) -> Booked {
        Booked {
            account: self.clone(),
            bytes: 0,
        }
    }

    /// Books so many bytes; `None`: there is no room for them.
    pub(crate) fn take(&self, bytes: usize) -> Option<Booked> {
        let mut booked = self.entry();
        booked.grow(bytes).then_some(booked)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// More is kept than may be.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.bytes() > self.0.bytes_max
    }

    /// Bytes that may still be booked.
    pub(crate) fn room(&self) -> usize {
        self.0.bytes_max.saturating_sub(self.bytes())
    }
}

/// An entry in the books. So many bytes are kept as long as it is.
#[derive(Debug)]
pub(crate) struct Booked {
    account: Account,
    bytes: usize,
}

impl Booked {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Books more; `false`: there is no room for it.
    #[must_use]
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.account.room();
        if fits {
            self.set(self.bytes + bytes);
        }
        fits
    }

    /// Books what it has now, whether there is room or not.
    pub(crate) fn set(&mut self, bytes: usize) {
        let Sheet {
            class,
            bytes: own,
            sums,
            ..
        } = &*self.account.0;
        let before = std::mem::replace(&mut self.bytes, bytes);
        // One thread writes, and others only look at the figures: a load and a store are enough.
        for sum in [own, &sums[*class as usize]] {
            let rest = sum.load(Ordering::Relaxed) - before;
            sum.store(rest + bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for Booked {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_gives_its_room_back() {
        let ledger = Ledger::default();
        let account = ledger.open(Stock::Acks, 100);
        let mut first = account.take(60).expect("room");
        assert!(account.take(41).is_none() && !first.grow(41));
        let second = account.take(40).expect("room");
        assert_eq!((account.bytes(), account.room()), (100, 0));
        drop(first);
        assert_eq!((account.bytes(), second.bytes()), (40, 40));
        let mut third = account.entry();
        third.set(70);
        assert_eq!((account.bytes(), account.room()), (110, 0));
        drop((second, third));
        assert_eq!(account.bytes(), 0);
    }

    #[test]
    fn accounts_of_a_class_have_bounds_of_their_own_and_one_sum() {
        let ledger = Ledger::default();
        let account = ledger.open(Stock::Acks, 100);
        let other = account.another();
        let booked = [account.take(100), other.take(90)];
        assert!(booked.iter().all(Option::is_some));
        assert_eq!((account.room(), other.room()), (0, 10));
        assert_eq!(ledger.sum(Stock::Acks), 190);
        assert_eq!(ledger.sums().iter().sum::<u64>(), 190);
        drop(booked);
        assert_eq!(ledger.sum(Stock::Acks), 0);
    }
}
