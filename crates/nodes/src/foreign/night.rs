//! Letters that pass by while no other server is there. They are kept for a moment as they are: a server that comes is told what was
//! said since it began to listen. Nobody reads them before that.

use hub::foreign::namespace_of;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Between the subscription of a server and the moment in which this node knows of it.
const KEPT: Duration = Duration::from_millis(1_500);
/// Of one namespace.
const BYTES_MAX: usize = 1024 * 1024;
/// Cost of a letter beside its bytes.
const OVERHEAD_BYTES: usize = 64;
const NAMESPACES_MAX: usize = 1_000;

/// A letter of a shard.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) shard: u16,
    pub(super) bytes: Box<[u8]>,
    said: Instant,
}

/// The last letters of a namespace.
#[derive(Debug, Default)]
struct Last {
    letters: VecDeque<Kept>,
    bytes: usize,
    /// Something was said since the last tick.
    is_busy: bool,
}

impl Last {
    fn push(&mut self, kept: Kept) {
        self.bytes += weight(&kept);
        self.is_busy = true;
        self.letters.push_back(kept);
        while self.bytes > BYTES_MAX {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        if let Some(first) = self.letters.pop_front() {
            self.bytes -= weight(&first);
        }
    }

    fn trim(&mut self, now: Instant) {
        while self
            .letters
            .front()
            .is_some_and(|first| now.duration_since(first.said) > KEPT)
        {
            self.drop_first();
        }
    }
}

fn weight(kept: &Kept) -> usize {
    kept.bytes.len() + OVERHEAD_BYTES
}

#[derive(Debug, Default)]
struct State {
    /// Somebody is there: nothing is kept.
    is_over: bool,
    last: HashMap<Box<str>, Last>,
}

/// The time in which no other server is there.
#[derive(Debug, Default)]
pub(super) struct Night(Mutex<State>);

impl Night {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a letter. `false`: somebody is there who is to hear it.
    pub(super) fn keeps(&self, shard: u16, bytes: &[u8]) -> bool {
        let mut state = self.lock();
        if state.is_over {
            return false;
        }
        // Letters between our own nodes say no namespace.
        let Some(namespace) = namespace_of(bytes) else {
            return true;
        };
        let kept = Kept {
            shard,
            bytes: bytes.into(),
            said: Instant::now(),
        };
        if let Some(last) = state.last.get_mut(namespace) {
            last.push(kept);
        } else if state.last.len() < NAMESPACES_MAX {
            // One more is not shared with others either.
            state.last.entry(namespace.into()).or_default().push(kept);
        }
        true
    }

    /// Somebody may be there. What was said a moment ago, in the order of each namespace.
    pub(super) fn end(&self) -> Vec<Kept> {
        let mut state = self.lock();
        state.is_over = true;
        let now = Instant::now();
        let last = std::mem::take(&mut state.last).into_values();
        let kept = last.flat_map(|mut last| {
            last.trim(now);
            last.letters
        });
        kept.collect()
    }

    /// Nobody is there any more.
    pub(super) fn begin(&self) {
        self.lock().is_over = false;
    }

    /// Forgets what is too old. Namespaces in which something was said since the last call.
    pub(super) fn tick(&self) -> Vec<Box<str>> {
        let mut state = self.lock();
        let now = Instant::now();
        let mut busy = Vec::new();
        state.last.retain(|namespace, last| {
            last.trim(now);
            if std::mem::take(&mut last.is_busy) {
                busy.push(namespace.clone());
            }
            !last.letters.is_empty()
        });
        busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The beginning of a letter: an event, the length of its namespace, and that.
    fn letter(namespace: &str, more: usize) -> Vec<u8> {
        let head = [1, u8::try_from(namespace.len()).expect("short")];
        [&head[..], namespace.as_bytes(), &vec![7; more]].concat()
    }

    #[test]
    fn letters_are_kept_in_their_order_until_somebody_comes() {
        let night = Night::default();
        for more in 0..100 {
            assert!(night.keeps(1, &letter("/", more)));
        }
        assert_eq!(night.tick(), [Box::<str>::from("/")]);
        assert!(night.tick().is_empty(), "nothing was said meanwhile");
        let sizes: Vec<usize> = night.end().iter().map(|kept| kept.bytes.len()).collect();
        assert_eq!(sizes, (3..103).collect::<Vec<_>>());
        assert!(!night.keeps(1, &letter("/", 0)), "it is for them now");
        night.begin();
        assert!(night.keeps(1, &letter("/", 0)));
    }

    /// One that is busy took the room of the others' letters.
    #[test]
    fn each_namespace_has_room_of_its_own_and_no_more() {
        let night = Night::default();
        assert!(night.keeps(0, &letter("/quiet", 1)));
        for _ in 0..3_000 {
            night.keeps(0, &letter("/busy", 1_000));
        }
        for number in 0..2 * NAMESPACES_MAX {
            assert!(night.keeps(0, &letter(&format!("/{number}"), 1)));
        }
        assert_eq!(night.tick().len(), NAMESPACES_MAX);
        let kept = night.end();
        let quiet = |kept: &&Kept| kept.bytes.starts_with(b"\x01\x06/quiet");
        assert_eq!(kept.iter().filter(quiet).count(), 1);
        let bytes: usize = kept.iter().map(weight).sum();
        assert!(bytes <= BYTES_MAX + NAMESPACES_MAX * 128, "{bytes}");
    }

    #[test]
    fn what_has_no_namespace_is_for_nobody() {
        let night = Night::default();
        for bytes in [
            &[][..],
            &[8, 1],
            &[1, 200],
            &[1, 2, 0xff, 0xff],
            &[99, 1, 47],
        ] {
            assert!(night.keeps(0, bytes));
        }
        assert!(night.end().is_empty());
    }
}
