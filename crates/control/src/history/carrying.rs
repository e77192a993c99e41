//! From the hubs' tap into the queue of the store, one event for each of its rooms.

use super::History;
use ::history::{Event, Fault, Position, Stored, Waiter};
use hub::Recorded;
use hub::mailbox::waker;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};

/// The store has so long for an import.
const IMPORT_TIME: Duration = Duration::from_secs(10);

/// Takes events until the process ends.
pub(super) fn start(history: &Arc<History>) {
    let bell = Arc::new(Notify::new());
    let rung = Arc::clone(&bell);
    history.tap.wake_for_each(waker(move || rung.notify_one()));
    let history = Arc::clone(history);
    tokio::spawn(async move {
        loop {
            drain(&history);
            bell.notified().await;
        }
    });
}

/// Takes all events that wait now.
pub(super) fn drain(history: &History) {
    let _one = history
        .emptying
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    while let Some(recorded) = history.tap.next() {
        take(history, recorded);
    }
}

fn take(history: &History, recorded: Recorded) {
    let Recorded {
        namespace,
        rooms,
        event: name,
        args,
        user,
        time_ms,
        receipt,
    } = recorded;
    let mut stored = Vec::new();
    for room in rooms {
        if !history.keeps(&namespace, &room) {
            continue;
        }
        let event = Event {
            namespace: namespace.clone(),
            room,
            name: name.clone(),
            args: args.clone(),
            user: user.clone(),
            time_ms,
        };
        let waiter = receipt.map(|_| {
            let (sender, receiver) = oneshot::channel();
            stored.push(receiver);
            sender
        });
        history.offer(event, waiter);
    }
    if let Some(number) = receipt {
        history.tell_when_stored(number, stored);
    }
}

type Waits = Vec<oneshot::Receiver<Result<Position, Fault>>>;

async fn all(rooms: Waits) -> Stored {
    for room in rooms {
        // A queue that is dropped stores nothing more.
        room.await.unwrap_or_else(|_| Err(Fault::closed()))?;
    }
    Ok(())
}

impl History {
    /// Into the queue, unless its namespace has as much as it may.
    fn offer(&self, event: Event, waiter: Option<Waiter>) {
        let Some(fault) = self.quotas.refusal(&event.namespace) else {
            return self.intake.push(event, waiter);
        };
        self.books.left_out();
        if let Some(waiter) = waiter {
            // It may have left.
            let _ = waiter.send(Err(fault));
        }
    }

    /// Stores events that nobody says now; how many there are. A part of them may be stored when it fails.
    pub(crate) async fn import(&self, events: Vec<Event>) -> Result<u64, Fault> {
        let mut waits = Waits::new();
        for event in events {
            let (sender, stored) = oneshot::channel();
            waits.push(stored);
            self.offer(event, Some(sender));
        }
        let mut count = 0;
        let storing = async {
            for stored in waits {
                stored.await.unwrap_or_else(|_| Err(Fault::closed()))?;
                count += 1;
            }
            Ok::<(), Fault>(())
        };
        let stored = tokio::time::timeout(IMPORT_TIME, storing).await;
        stored.unwrap_or_else(|_| Err(Fault::slow(IMPORT_TIME)))?;
        Ok(count)
    }

    fn tell_when_stored(&self, number: u64, rooms: Waits) {
        let receipts = Arc::clone(&self.receipts);
        self.runtime.spawn(async move {
            let stored = all(rooms).await;
            receipts.answer(number, stored);
        });
    }
}
