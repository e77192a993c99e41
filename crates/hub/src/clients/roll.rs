//! The roll: which sockets are here, for a directory that programs outside read. A hub notes which ones changed, and tells how each is
//! now, once in a while: what changed ten times in between is told once. Without a directory nothing is noted.

use crate::bounds::{CHORES_PER_TURN, ROLL_GONE_MAX, ROLL_TELL_MS, ROLL_WORDS_MAX};
use crate::tables::slot::SocketKey;
use crossbeam_queue::SegQueue;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use wire::base64url::Id20;

/// The state of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its id.
    pub socket: Id20,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its user.
    pub user: Option<Box<str>>,
    /// Its rooms, without the one of its own id.
    pub rooms: Vec<Arc<str>>,
    /// When it connected, Unix milliseconds.
    pub connected_ms: u64,
}

/// A word about the sockets of this process.
#[derive(Debug, PartialEq, Eq)]
pub enum RollWord {
    /// A socket is there, or is otherwise than before.
    Here(Box<Listed>),
    /// A socket ended.
    Gone(Id20),
    /// A shard begins anew: its sockets of which it says nothing from now on are not there.
    Anew(u16),
}

/// The words of all hubs of a process.
#[derive(Debug, Default)]
pub struct RollCall {
    words: SegQueue<RollWord>,
    waiting: AtomicUsize,
}

impl RollCall {
    /// The next word; those of one shard are in order.
    pub fn next(&self) -> Option<RollWord> {
        let word = self.words.pop()?;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        Some(word)
    }

    fn has_room(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) < ROLL_WORDS_MAX
    }

    fn tell(&self, word: RollWord) {
        // The word is counted before a reader can take it, so that the count never wraps.
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.words.push(word);
    }
}

/// The words of one hub.
#[derive(Debug, Default)]
pub(crate) struct Roll {
    call: Option<Arc<RollCall>>,
    /// Sockets that changed; each has a flag, and is here once.
    changed: Vec<SocketKey>,
    gone: Vec<Id20>,
    /// Sockets that ended were forgotten: the whole roll is called anew.
    anew: bool,
    due_ms: u64,
}

impl Roll {
    pub(crate) fn new(call: Option<&Arc<RollCall>>) -> Self {
        Self {
            call: call.cloned(),
            ..Self::default()
        }
    }

    #[inline]
    pub(crate) fn is_called(&self) -> bool {
        self.call.is_some()
    }

    /// A socket changed that was not told of. Its flag says so from now on.
    pub(crate) fn changed(&mut self, socket: SocketKey) {
        self.changed.push(socket);
    }

    pub(crate) fn gone(&mut self, id: Id20) {
        if self.gone.len() < ROLL_GONE_MAX {
            self.gone.push(id);
        } else {
            self.anew = true;
        }
    }

    /// When there is something to tell.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        let any = self.anew || !self.changed.is_empty() || !self.gone.is_empty();
        any.then_some(self.due_ms)
    }

    /// Begins to tell, if it is time: where to, and what. `None`: not now.
    pub(crate) fn begin(&mut self, now_ms: u64) -> Option<Telling> {
        let call = self.call.clone()?;
        if self.due_ms().is_none_or(|due_ms| now_ms < due_ms) {
            return None;
        }
        self.due_ms = now_ms + ROLL_TELL_MS;
        // The reader is slow: what changes again meanwhile is told once.
        if !call.has_room() {
            return None;
        }
        let anew = std::mem::take(&mut self.anew);
        // The whole roll follows, and says what these say.
        if anew {
            self.gone.clear();
            self.changed.clear();
        }
        let rest = self.changed.len().saturating_sub(CHORES_PER_TURN);
        if rest > 0 {
            self.due_ms = now_ms + 1;
        }
        Some(Telling {
            call,
            anew,
            // Any of them will do: each is told as it is now (ADR 35).
            changed: self.changed.split_off(rest),
            gone: std::mem::take(&mut self.gone),
        })
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.changed.capacity() * size_of::<SocketKey>() + self.gone.capacity() * size_of::<Id20>()
    }
}

/// Sockets told in one turn.
#[derive(Debug)]
pub(crate) struct Telling {
    call: Arc<RollCall>,
    /// The shard calls its whole roll: all sockets are to be noted as changed.
    pub(crate) anew: bool,
    pub(crate) changed: Vec<SocketKey>,
    pub(crate) gone: Vec<Id20>,
}

impl Telling {
    pub(crate) fn word(&self, word: RollWord) {
        self.call.tell(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::slot::{Key, SlotId, SocketId};

    fn id(n: u32) -> Id20 {
        let mut bytes = [0; 15];
        bytes[..4].copy_from_slice(&n.to_be_bytes());
        Id20(bytes)
    }

    #[test]
    fn without_a_directory_nothing_is_told() {
        let mut roll = Roll::default();
        assert!(!roll.is_called());
        assert!(roll.begin(u64::MAX).is_none());
    }

    /// The reader stands still: what waits is bounded, and what was forgotten is told by a new call.
    #[test]
    fn a_reader_that_stands_still_costs_bounded_memory() {
        let call = Arc::new(RollCall::default());
        let mut roll = Roll::new(Some(&call));
        let mut now_ms = 0;
        for n in 0..400_000 {
            roll.gone(id(n));
            if n % 1_000 == 0 {
                now_ms += ROLL_TELL_MS;
                if let Some(telling) = roll.begin(now_ms) {
                    let gone = telling.gone.iter();
                    gone.for_each(|id| telling.word(RollWord::Gone(*id)));
                }
            }
        }
        let waiting = call.waiting.load(Ordering::Relaxed);
        assert!(waiting <= ROLL_WORDS_MAX + 1_000, "{waiting}");
        assert!(roll.heap_bytes() <= 2 * ROLL_GONE_MAX * size_of::<Id20>());
        roll.changed(Key::new(SocketId::at(1), 0));
        while call.next().is_some() {}
        let telling = roll.begin(now_ms + ROLL_TELL_MS).expect("there is room");
        assert!(telling.anew && telling.gone.is_empty() && telling.changed.is_empty());
        assert_eq!(roll.due_ms(), None);
    }

    #[test]
    fn a_large_change_is_told_in_several_turns() {
        let call = Arc::new(RollCall::default());
        let mut roll = Roll::new(Some(&call));
        for n in 0..3_000 {
            roll.changed(Key::new(SocketId::at(n), 0));
        }
        let mut told = Vec::new();
        for _ in 0..3 {
            let due_ms = roll.due_ms().expect("something to tell");
            told.extend(roll.begin(due_ms).expect("it is due").changed);
        }
        told.sort();
        told.dedup();
        assert_eq!((told.len(), roll.due_ms()), (3_000, None));
    }
}
