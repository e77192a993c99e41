//! A command on its way to a server, and the one that waits for its answer. Whatever happens, the answer comes: an item that is
//! dropped says so.

use crate::engine::{Published, Trouble};
use redis::{Arg, Cmd, Value};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::oneshot;

/// Which server a command is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The owner of a slot.
    Slot(u16),
    /// The nth server.
    Server(usize),
}

#[derive(Debug)]
pub(super) struct Item {
    pub(super) command: Cmd,
    /// Commands that go out in the same write, after it; the answer is a list then.
    pub(super) after: Vec<Cmd>,
    pub(super) place: Place,
    /// Until then it is tried.
    pub(super) until: Instant,
    /// What the server said last, if it is tried again.
    pub(super) refusal: Option<Trouble>,
    bytes: usize,
    asker: Option<Asker>,
    _room: Option<Room>,
}

#[derive(Debug)]
enum Asker {
    Batch(Arc<Tally>, usize),
    One(oneshot::Sender<Result<Value, Trouble>>),
}

impl Item {
    /// A command of its own.
    pub(super) fn new(
        command: Cmd,
        place: Place,
        until: Instant,
    ) -> (Self, oneshot::Receiver<Result<Value, Trouble>>) {
        Self::together(command, Vec::new(), place, until)
    }

    /// Several commands that need one connection.
    pub(super) fn together(
        command: Cmd,
        after: Vec<Cmd>,
        place: Place,
        until: Instant,
    ) -> (Self, oneshot::Receiver<Result<Value, Trouble>>) {
        let (sender, receiver) = oneshot::channel();
        let item = Self {
            bytes: weight(&command) + after.iter().map(weight).sum::<usize>(),
            command,
            after,
            place,
            until,
            refusal: None,
            asker: Some(Asker::One(sender)),
            _room: None,
        };
        (item, receiver)
    }

    /// The message at `index` of a batch.
    pub(super) fn of_batch(
        command: Cmd,
        place: Place,
        until: Instant,
        (tally, index): (&Arc<Tally>, usize),
        room: Room,
    ) -> Self {
        Self {
            bytes: weight(&command),
            command,
            after: Vec::new(),
            place,
            until,
            refusal: None,
            asker: Some(Asker::Batch(Arc::clone(tally), index)),
            _room: Some(room),
        }
    }

    pub(super) fn is_message(&self) -> bool {
        matches!(self.asker, Some(Asker::Batch(..)))
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its commands again, as they went out.
    pub(super) fn take_back<'a>(&mut self, mut commands: impl Iterator<Item = &'a Cmd>) {
        self.command = commands.next().cloned().unwrap_or_default();
        self.after = commands.cloned().collect();
    }

    pub(super) fn end(mut self, answer: Result<Value, Trouble>) {
        self.answer(answer);
    }

    fn answer(&mut self, answer: Result<Value, Trouble>) {
        match self.asker.take() {
            Some(Asker::Batch(tally, index)) => tally.note(index, answer),
            // An error means that nobody waits any more.
            Some(Asker::One(sender)) => drop(sender.send(answer)),
            None => {}
        }
    }
}

/// Bytes of a command's words, and some for their frame.
fn weight(command: &Cmd) -> usize {
    let words = command.args_iter().map(|word| match word {
        Arg::Simple(word) => word.len() + 16,
        _ => 16,
    });
    words.sum()
}

impl Drop for Item {
    fn drop(&mut self) {
        self.answer(Err(ended()));
    }
}

pub(super) fn ended() -> Trouble {
    Trouble::new("the connections to Redis were closed by this process")
}

/// Counts the answers for a batch.
#[derive(Debug)]
pub(super) struct Tally(Mutex<Count>);

#[derive(Debug)]
struct Count {
    published: Published,
    left: usize,
    done: Option<oneshot::Sender<Published>>,
}

impl Tally {
    pub(super) fn new(messages: usize) -> (Arc<Self>, oneshot::Receiver<Published>) {
        let (sender, receiver) = oneshot::channel();
        let count = Count {
            published: Published {
                receivers: vec![None; messages],
                trouble: None,
            },
            left: messages,
            done: Some(sender),
        };
        (Arc::new(Self(Mutex::new(count))), receiver)
    }

    /// An empty batch has nothing to wait for.
    pub(super) fn is_handed_over(&self) {
        let mut count = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        count.close_if_done();
    }

    /// Ends the whole batch before any of it was handed over.
    pub(super) fn fail(&self, trouble: Trouble) {
        let mut count = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        count.published.trouble = Some(trouble);
        count.left = 0;
        count.close_if_done();
    }

    fn note(&self, index: usize, answer: Result<Value, Trouble>) {
        let mut count = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let trouble = match answer {
            Ok(Value::Int(receivers)) => {
                let receivers = u64::try_from(receivers).unwrap_or(0);
                count.published.receivers[index] = Some(receivers);
                None
            }
            // The name of an entry of a stream.
            Ok(Value::BulkString(_)) => {
                count.published.receivers[index] = Some(1);
                None
            }
            Ok(other) => Some(Trouble::new(format!(
                "Redis answered PUBLISH or XADD with {other:?}"
            ))),
            Err(trouble) => Some(trouble),
        };
        if count.published.trouble.is_none() {
            count.published.trouble = trouble;
        }
        count.left -= 1;
        count.close_if_done();
    }
}

impl Count {
    fn close_if_done(&mut self) {
        if self.left == 0
            && let Some(done) = self.done.take()
        {
            let _ = done.send(std::mem::take(&mut self.published));
        }
    }
}

/// Bytes of commands that wait, bounded.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    bytes: Arc<AtomicUsize>,
    bytes_max: usize,
}

/// A share of the queue; it is given back when the command has ended.
#[derive(Debug)]
pub(super) struct Room {
    bytes: Arc<AtomicUsize>,
    mine: usize,
}

impl Queue {
    pub(super) fn new(bytes_max: usize) -> Self {
        let bytes = Arc::default();
        Self { bytes, bytes_max }
    }

    /// Whether so many bytes have room. A batch larger than the queue has room when nothing waits.
    pub(super) fn fits(&self, bytes: usize) -> bool {
        let waiting = self.bytes.load(Ordering::Relaxed);
        waiting == 0 || waiting + bytes <= self.bytes_max
    }

    pub(super) fn take(&self, bytes: usize) -> Room {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Room {
            bytes: Arc::clone(&self.bytes),
            mine: bytes,
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.bytes.fetch_sub(self.mine, Ordering::Relaxed);
    }
}
