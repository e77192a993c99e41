//! `Idempotency-Key`: an order that is repeated under the same key is carried out once, and both callers get the same answer.

use super::model::Done;
use super::problem::{Kind, Problem};
use axum::http::{HeaderMap, HeaderValue};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How long an answer is remembered.
pub const REMEMBERED: Duration = Duration::from_secs(600);
/// Orders that are remembered. One more is refused: forgetting an old one would break a promise.
pub const KEYS_MAX: usize = 10_000;
/// Bytes of the answers that are remembered.
pub const BYTES_MAX: usize = 16 << 20;
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
pub(super) const KEY_BYTES_MAX: usize = 255;

pub(super) type Answer = Result<Done, Problem>;
/// `None` until the order is carried out.
type Slot = watch::Receiver<Option<Answer>>;

/// The name of the API key, and the idempotency key.
type Name = (String, String);

/// The key of a request.
pub(super) fn key_of(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let key = headers.get("idempotency-key").map(HeaderValue::to_str);
    let detail = "it is no visible ASCII";
    key.transpose()
        .map_err(|_| Problem::field("Idempotency-Key", detail))
}

#[derive(Debug, Default)]
pub(super) struct Once {
    orders: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    orders: HashMap<Name, Remembered>,
    bytes: usize,
    /// When it was looked through last.
    swept: Option<Instant>,
}

#[derive(Debug)]
struct Remembered {
    /// Of the order: another one under this key is a mistake.
    digest: [u8; 32],
    since: Instant,
    slot: Slot,
    bytes: usize,
}

/// The verdict on an order.
#[derive(Debug)]
pub(super) enum Turn {
    /// It is new: the answer goes there.
    First(watch::Sender<Option<Answer>>),
    /// It was carried out or is under way.
    Repeated(Slot),
}

impl Once {
    pub(super) fn begin(
        &self,
        name: Name,
        digest: [u8; 32],
        now: Instant,
    ) -> Result<Turn, Problem> {
        let mut memory = self.memory();
        memory.forget(&name, now);
        if let Some(known) = memory.orders.get(&name) {
            if known.digest != digest {
                return Err(Problem::new(
                    Kind::KeyReused,
                    format!(
                        "the key {:?} was used for another request in the last 10 minutes: a new request needs a new key",
                        name.1
                    ),
                ));
            }
            return Ok(Turn::Repeated(known.slot.clone()));
        }
        if memory.orders.len() >= KEYS_MAX || memory.bytes >= BYTES_MAX {
            return Err(Problem::new(
                Kind::Busy,
                "the gateway remembers as many Idempotency-Keys as it may: leave the header out, or come back later",
            ));
        }
        let (sender, slot) = watch::channel(None);
        let remembered = Remembered {
            digest,
            since: now,
            slot,
            bytes: 0,
        };
        memory.orders.insert(name, remembered);
        Ok(Turn::First(sender))
    }

    /// The order came to an end. One that was not carried out may be tried again.
    pub(super) fn end(&self, name: &Name, answer: &Answer) {
        let mut memory = self.memory();
        let carried_out = match answer {
            Ok(_) => true,
            Err(problem) => problem.kind() == Kind::NoAnswer,
        };
        if !carried_out {
            memory.orders.remove(name);
        } else if let Some(known) = memory.orders.get_mut(name) {
            known.bytes = bytes(answer);
            let bytes = known.bytes;
            memory.bytes += bytes;
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Remembered {
    fn is_kept(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) < REMEMBERED
    }
}

impl Memory {
    /// Entries that are over go: about once a second, and whenever one is in the way.
    fn forget(&mut self, wanted: &Name, now: Instant) {
        let recent = |swept: Instant| now.saturating_duration_since(swept) < SWEEP_INTERVAL;
        let is_full = self.orders.len() >= KEYS_MAX;
        let is_over = self
            .orders
            .get(wanted)
            .is_some_and(|known| !known.is_kept(now));
        if self.swept.is_some_and(recent) && !is_full && !is_over {
            return;
        }
        self.swept = Some(now);
        let mut freed = 0;
        self.orders.retain(|_, known| {
            let keeps = known.is_kept(now);
            freed += if keeps { 0 } else { known.bytes };
            keeps
        });
        self.bytes -= freed;
    }
}

fn bytes(answer: &Answer) -> usize {
    let Ok(Done::Collected(collected)) = answer else {
        return 0;
    };
    let answers = collected.answers.iter().map(|answer| {
        let attached: usize = answer.attachments.iter().map(String::len).sum();
        answer.args.get().len() + attached
    });
    answers.sum()
}

#[cfg(test)]
mod tests {
    use super::super::model::Accepted;
    use super::*;

    fn name(key: &str) -> Name {
        ("ci".to_owned(), key.to_owned())
    }

    const DONE: Answer = Ok(Done::Accepted(Accepted {
        accepted: true,
        everywhere: true,
    }));

    #[test]
    fn an_order_is_carried_out_once_for_ten_minutes() {
        let (once, now) = (Once::default(), Instant::now());
        let begin = |key, digest, at| once.begin(name(key), [digest; 32], at);
        assert!(matches!(begin("a", 1, now), Ok(Turn::First(_))));
        // While it is under way, too.
        assert!(matches!(begin("a", 1, now), Ok(Turn::Repeated(_))));
        once.end(&name("a"), &DONE);
        let late = now + REMEMBERED - Duration::from_millis(1);
        assert!(matches!(begin("a", 1, late), Ok(Turn::Repeated(_))));
        let other = begin("a", 2, late).expect_err("another order");
        assert_eq!(other.kind(), Kind::KeyReused);
        assert!(matches!(
            begin("a", 2, now + REMEMBERED),
            Ok(Turn::First(_))
        ));
    }

    #[test]
    fn an_order_that_was_not_carried_out_may_be_tried_again() {
        let (once, now) = (Once::default(), Instant::now());
        for (kind, repeated) in [
            (Kind::Busy, false),
            (Kind::InvalidRequest, false),
            (Kind::NoAnswer, true),
        ] {
            let key = name(kind.status().to_string().as_str());
            once.begin(key.clone(), [1; 32], now).expect("new");
            once.end(&key, &Err(Problem::new(kind, "x")));
            let again = once.begin(key, [1; 32], now).expect("known or new");
            assert_eq!(matches!(again, Turn::Repeated(_)), repeated, "{kind:?}");
        }
    }

    #[test]
    fn one_key_too_many_is_refused_and_none_is_forgotten_early() {
        let (once, now) = (Once::default(), Instant::now());
        for n in 0..KEYS_MAX {
            once.begin(name(&n.to_string()), [1; 32], now)
                .expect("there is room");
        }
        let one_more = once
            .begin(name("one more"), [1; 32], now)
            .expect_err("full");
        assert_eq!(one_more.kind(), Kind::Busy);
        assert!(matches!(
            once.begin(name("0"), [1; 32], now),
            Ok(Turn::Repeated(_))
        ));
        let later = now + REMEMBERED;
        assert!(matches!(
            once.begin(name("one more"), [1; 32], later),
            Ok(Turn::First(_))
        ));
    }
}
