//! What callers did, on its way from one process to the next: a call that is repeated there is the same call, and nobody has a new window.

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
