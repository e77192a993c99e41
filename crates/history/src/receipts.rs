//! Programs that wait until their event is stored.

use crate::Fault;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// Whether an event is stored in all its rooms.
pub type Stored = Result<(), Fault>;

/// Those who wait, by the number that travels with their event.
#[derive(Debug, Default)]
pub struct Receipts {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    made: u64,
    waiting: HashMap<u64, oneshot::Sender<Stored>>,
}

/// Somebody waits. Dropped, nobody does any more.
#[derive(Debug)]
pub struct Receipt<'a> {
    receipts: &'a Receipts,
    number: u64,
    answer: Option<oneshot::Receiver<Stored>>,
}

impl Receipt<'_> {
    /// Travels with the event.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Waits until the event is stored.
    pub async fn stored(mut self, within: Duration) -> Stored {
        let Some(answer) = self.answer.take() else {
            return Err(Fault::closed());
        };
        match tokio::time::timeout(within, answer).await {
            Ok(Ok(stored)) => stored,
            Ok(Err(_)) => Err(Fault::closed()),
            Err(_) => Err(Fault::slow(within)),
        }
    }
}

impl Receipts {
    /// Somebody waits for an event that is to be published under this number.
    pub fn open(&self) -> Receipt<'_> {
        let (sender, stored) = oneshot::channel();
        let number = self.with(|open| {
            open.made += 1;
            open.waiting.insert(open.made, sender);
            open.made
        });
        Receipt {
            receipts: self,
            number,
            answer: Some(stored),
        }
    }

    /// Tells the one who waits under this number, if it still does.
    pub fn answer(&self, number: u64, stored: Stored) {
        if let Some(waiting) = self.with(|open| open.waiting.remove(&number)) {
            // It may have left.
            let _ = waiting.send(stored);
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Open) -> T) -> T {
        act(&mut self.open.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Receipt<'_> {
    fn drop(&mut self) {
        self.receipts.with(|open| open.waiting.remove(&self.number));
    }
}
