//! Calls and rates of callers, on their way from one process to the next: a call that is repeated there is the same call, and no caller has a
//! new window.

use super::Api;
use super::across;
use super::once::{Known, Name};
use super::problem::{Kind, Problem};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A longer answer stays with the process that has it.
pub const ANSWER_BYTES_MAX: usize = 8 << 20;
/// What shards have done is written down within this time.
const WRITING: Duration = Duration::from_millis(20);
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Past {
    pub calls: Vec<Called>,
    pub callers: Vec<Used>,
}

/// A call under an Idempotency-Key that was carried out, or may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    /// The name of the API key.
    pub caller: String,
    pub namespace: String,
    pub key: String,
    /// Of the order.
    pub digest: [u8; 32],
    pub age: Duration,
    /// In the words that nodes have for each other.
    pub answer: String,
}

/// What a caller has used of its window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    pub caller: String,
    pub calls: u32,
    pub left: Duration,
}

impl From<Known> for Called {
    fn from(known: Known) -> Self {
        let open = || {
            Err(Problem::new(
                Kind::NoAnswer,
                "another process took over while the call was under way: it may be carried out",
            ))
        };
        let answer = known.answer.unwrap_or_else(open);
        let [caller, namespace, key] = known.name.parts();
        Self {
            caller,
            namespace,
            key,
            digest: known.digest,
            age: known.age,
            answer: across::text_of(&answer, ANSWER_BYTES_MAX),
        }
    }
}

impl From<&Called> for Known {
    fn from(called: &Called) -> Self {
        Self {
            name: Name::new(&called.caller, &called.namespace, &called.key),
            digest: called.digest,
            age: called.age,
            answer: Some(across::answer_of(&called.answer)),
        }
    }
}

impl Api {
    /// What is known of callers. Shards stand still, and what comes now waits before them. Where all nodes know of calls, they go on to do so.
    pub fn past(&self) -> Past {
        let calls = match self.ledger {
            Some(_) => Vec::new(),
            None => self.calls(),
        };
        let used = self.rates.used(Instant::now()).into_iter();
        let used = used.map(|(caller, calls, left)| Used {
            caller,
            calls,
            left,
        });
        Past {
            calls,
            callers: used.collect(),
        }
    }

    fn calls(&self) -> Vec<Called> {
        let began = Instant::now();
        while self.once.is_writing() && began.elapsed() < WRITING {
            sleep(LOOK_INTERVAL);
        }
        let known = self.once.known(Instant::now()).into_iter();
        known.map(Into::into).collect()
    }

    /// Goes on with what another process knew of callers.
    pub(super) fn go_on_from(&self, past: Past) {
        let now = Instant::now();
        for called in &past.calls {
            self.once.remember(called.into(), now);
        }
        for used in past.callers {
            self.rates.go_on(used.caller, (used.calls, used.left), now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::once::{Once, Turn};
    use super::*;
    use std::sync::atomic::Ordering;

    /// One that waits before the shards is refused there, and may be repeated; one that a shard may have is not.
    #[test]
    fn an_order_goes_to_the_next_process_as_soon_as_a_shard_may_have_it() {
        let (once, now) = (Once::default(), Instant::now());
        let name = || Name::new("ci", "/", "a");
        let Ok(Turn::First(_answer, begun)) = once.begin(name(), [1; 32], now) else {
            panic!("it is new");
        };
        assert!(!once.is_writing() && once.known(now).is_empty());
        begun.store(true, Ordering::Release);
        assert!(once.is_writing());
        let later = now + Duration::from_secs(500);
        let known = once.known(later).pop().expect("one");
        let called = Called::from(known);
        assert_eq!(called.age, Duration::from_secs(500));
        let next = Once::default();
        next.remember((&called).into(), later);
        let Ok(Turn::Repeated(slot)) = next.begin(name(), [1; 32], later) else {
            panic!("it is known");
        };
        let answer = slot.borrow().clone().expect("an answer");
        assert_eq!(answer.expect_err("unknown").kind(), Kind::NoAnswer);
        let other = next.begin(name(), [2; 32], later).expect_err("another");
        assert_eq!(other.kind(), Kind::KeyReused);
        let over = later + Duration::from_secs(101);
        assert!(matches!(
            next.begin(name(), [2; 32], over),
            Ok(Turn::First(..))
        ));
    }
}
