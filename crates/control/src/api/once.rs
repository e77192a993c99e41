//! `Idempotency-Key`: an order that is repeated under the same key is carried out once, and both callers get the same answer.

use super::digest;
use super::model::{self, Done};
use super::problem::{Kind, Problem};
use axum::http::{HeaderMap, HeaderValue};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How long an answer is remembered.
pub const REMEMBERED: Duration = Duration::from_secs(600);
/// Orders that are remembered. One more is refused: forgetting an old one would break a promise. One caller has half of them, so
/// that none shuts out the others.
pub const KEYS_MAX: usize = 100_000;
/// Bytes of their namespaces, keys and answers, of which one caller has half as well. The name of a namespace may fill a whole call.
pub const KEPT_BYTES_MAX: usize = 32 << 20;
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
pub(super) const KEY_BYTES_MAX: usize = 255;

pub(super) type Answer = Result<Done, Problem>;
/// `None` until the order is carried out.
type Slot = watch::Receiver<Option<Answer>>;

/// Two orders of one name are the same order, or a mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// The name of the API key.
    caller: String,
    key: Key,
}

/// An order that was carried out, or may be; without an answer where nobody knows it.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) name: Name,
    pub(super) digest: [u8; 32],
    pub(super) age: Duration,
    pub(super) answer: Option<Answer>,
}

/// An idempotency key is for one namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    namespace: String,
    text: String,
}

impl Name {
    pub(super) fn new(caller: &str, namespace: &str, key: &str) -> Self {
        Self {
            caller: caller.to_owned(),
            key: Key {
                namespace: namespace.to_owned(),
                text: key.to_owned(),
            },
        }
    }

    /// Memory that it takes for itself: callers are few.
    fn bytes(&self) -> usize {
        allocated(self.key.namespace.len()) + allocated(self.key.text.len())
    }

    /// For others than this node: keys may be secrets of programs.
    pub(super) fn digest(&self) -> [u8; 32] {
        digest::of_name([&self.caller, &self.key.namespace, &self.key.text])
    }

    /// The names of the API key and of the namespace, and the key.
    pub(super) fn parts(self) -> [String; 3] {
        let Self { caller, key } = self;
        [caller, key.namespace, key.text]
    }

    pub(super) fn reused(&self) -> Problem {
        let detail = format!(
            "the key {:?} was used for another request in the last 10 minutes: a new request needs a new key",
            self.key.text
        );
        Problem::new(Kind::KeyReused, detail)
    }
}

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
    /// By the name of the API key.
    callers: HashMap<String, Orders>,
    len: usize,
    bytes: usize,
    /// When it was looked through last.
    swept: Option<Instant>,
}

/// Of one caller.
#[derive(Debug, Default)]
struct Orders {
    by_key: HashMap<Key, Remembered>,
    bytes: usize,
}

#[derive(Debug)]
struct Remembered {
    /// Of the order: another one under this key is a mistake.
    digest: [u8; 32],
    since: Instant,
    slot: Slot,
    /// A shard may have it.
    begun: Arc<AtomicBool>,
    bytes: usize,
}

/// The verdict on an order.
#[derive(Debug)]
pub(super) enum Turn {
    /// It is new: the answer goes there, and it is noted when a shard may have the order.
    First(watch::Sender<Option<Answer>>, Arc<AtomicBool>),
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
        if let Some(known) = memory.get_mut(&name) {
            if known.digest != digest {
                return Err(name.reused());
            }
            return Ok(Turn::Repeated(known.slot.clone()));
        }
        if memory.is_full_for(&name.caller) {
            return Err(Problem::new(
                Kind::Busy,
                "the gateway remembers as many Idempotency-Keys of this caller, or as many bytes of them and of their answers, as it may: leave the header out, or come back later",
            ));
        }
        let (sender, slot) = watch::channel(None);
        let begun = Arc::new(AtomicBool::new(false));
        let remembered = Remembered {
            digest,
            since: now,
            slot,
            begun: Arc::clone(&begun),
            bytes: name.bytes(),
        };
        memory.insert(name, remembered);
        Ok(Turn::First(sender, begun))
    }

    /// Shards may have orders whose answers are not here.
    pub(super) fn is_writing(&self) -> bool {
        let memory = self.memory();
        let orders = memory.callers.values();
        let mut all = orders.flat_map(|orders| orders.by_key.values());
        all.any(|known| known.has_begun() && known.slot.borrow().is_none())
    }

    /// All that was carried out, or may be.
    pub(super) fn known(&self, now: Instant) -> Vec<Known> {
        let memory = self.memory();
        let orders = memory.callers.iter();
        let all = orders.flat_map(|(caller, orders)| {
            let own = orders.by_key.iter();
            own.map(move |(key, known)| (caller, key, known))
        });
        let kept = all.filter(|(_, _, known)| known.has_begun() && known.is_kept(now));
        let known = kept.map(|(caller, key, known)| Known {
            name: Name {
                caller: caller.clone(),
                key: key.clone(),
            },
            digest: known.digest,
            age: now.saturating_duration_since(known.since),
            answer: known.slot.borrow().clone(),
        });
        known.collect()
    }

    /// Remembers what another process did.
    pub(super) fn remember(&self, known: Known, now: Instant) {
        let remembered = Remembered {
            digest: known.digest,
            since: now.checked_sub(known.age).unwrap_or(now),
            bytes: known.name.bytes() + known.answer.as_ref().map_or(0, bytes),
            slot: watch::channel(known.answer).1,
            begun: Arc::new(AtomicBool::new(true)),
        };
        self.memory().insert(known.name, remembered);
    }

    /// The order came to an end. One that was not carried out here may be tried again.
    pub(super) fn end(&self, name: &Name, answer: &Answer, is_ours: bool) {
        let mut memory = self.memory();
        let carried_out = is_ours && is_carried_out(answer);
        let Name { caller, key } = name;
        let Some(orders) = memory.callers.get_mut(caller) else {
            return;
        };
        if !carried_out {
            if let Some(known) = orders.by_key.remove(key) {
                orders.bytes -= known.bytes;
                memory.bytes -= known.bytes;
                memory.len -= 1;
            }
        } else if let Some(known) = orders.by_key.get_mut(key) {
            known.begun.store(true, Ordering::Release);
            let bytes = bytes(answer);
            known.bytes += bytes;
            orders.bytes += bytes;
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

    fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }
}

impl Memory {
    fn get_mut(&mut self, name: &Name) -> Option<&mut Remembered> {
        let orders = self.callers.get_mut(&name.caller)?;
        orders.by_key.get_mut(&name.key)
    }

    fn insert(&mut self, name: Name, order: Remembered) {
        let Name { caller, key } = name;
        let orders = self.callers.entry(caller).or_default();
        self.bytes += order.bytes;
        orders.bytes += order.bytes;
        self.len += usize::from(orders.by_key.insert(key, order).is_none());
    }

    fn is_full_for(&self, caller: &str) -> bool {
        let own = self.callers.get(caller);
        let own = own.map_or((0, 0), |orders| (orders.by_key.len(), orders.bytes));
        self.len.max(2 * own.0) >= KEYS_MAX || self.bytes.max(2 * own.1) >= KEPT_BYTES_MAX
    }

    /// Entries that are over go: about once a second, and when one is in the way.
    fn forget(&mut self, wanted: &Name, now: Instant) {
        let recent = |swept: Instant| now.saturating_duration_since(swept) < SWEEP_INTERVAL;
        let is_over = self
            .get_mut(wanted)
            .is_some_and(|known| !known.is_kept(now));
        if self.swept.is_some_and(recent) && !is_over {
            return;
        }
        self.swept = Some(now);
        self.callers.retain(|_, orders| {
            orders.by_key.retain(|_, known| known.is_kept(now));
            orders.bytes = orders.by_key.values().map(|known| known.bytes).sum();
            !orders.by_key.is_empty()
        });
        self.len = self
            .callers
            .values()
            .map(|orders| orders.by_key.len())
            .sum();
        self.bytes = self.callers.values().map(|orders| orders.bytes).sum();
    }
}

/// Whether it was, or may have been.
pub(super) fn is_carried_out(answer: &Answer) -> bool {
    match answer {
        Ok(_) => true,
        Err(problem) => problem.kind() == Kind::NoAnswer,
    }
}

fn bytes(answer: &Answer) -> usize {
    let Ok(Done::Collected(collected)) = answer else {
        return 0;
    };
    let answers = collected.answers.iter().map(|answer| {
        let attached = answer.attachments.iter();
        let attached = attached.map(|text| size_of::<String>() + allocated(text.len()));
        allocated(answer.args.get().len()) + attached.sum::<usize>()
    });
    collected.answers.capacity() * size_of::<model::Answer>() + answers.sum::<usize>()
}

/// Memory that a text takes: an answer has two bytes more often than two thousand.
fn allocated(len: usize) -> usize {
    len.next_multiple_of(16)
}

#[cfg(test)]
mod tests {
    use super::super::model::Accepted;
    use super::*;

    fn name(key: &str) -> Name {
        Name::new("ci", "/", key)
    }

    const DONE: Answer = Ok(Done::Accepted(Accepted {
        accepted: true,
        everywhere: true,
        stored: false,
    }));

    #[test]
    fn an_order_is_carried_out_once_for_ten_minutes() {
        let (once, now) = (Once::default(), Instant::now());
        let begin = |key, digest, at| once.begin(name(key), [digest; 32], at);
        assert!(matches!(begin("a", 1, now), Ok(Turn::First(..))));
        // While it is under way, too.
        assert!(matches!(begin("a", 1, now), Ok(Turn::Repeated(_))));
        once.end(&name("a"), &DONE, true);
        let late = now + REMEMBERED - Duration::from_millis(1);
        assert!(matches!(begin("a", 1, late), Ok(Turn::Repeated(_))));
        let other = begin("a", 2, late).expect_err("another order");
        assert_eq!(other.kind(), Kind::KeyReused);
        assert!(matches!(
            begin("a", 2, now + REMEMBERED),
            Ok(Turn::First(..))
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
            once.end(&key, &Err(Problem::new(kind, "x")), true);
            let again = once.begin(key, [1; 32], now).expect("known or new");
            assert_eq!(matches!(again, Turn::Repeated(_)), repeated, "{kind:?}");
        }
    }

    /// 300,000 answers of two bytes were 17 MiB, and 0.6 of them were counted.
    #[test]
    fn answers_were_counted_without_what_they_take_beside_their_text() {
        let short = || model::Answer {
            args: serde_json::value::RawValue::from_string("[]".to_owned()).expect("JSON"),
            attachments: Vec::new(),
        };
        let collected = model::Collected {
            acked: 1_000,
            timed_out: 0,
            gone: 0,
            undelivered: 0,
            complete: true,
            answers: (0..1_000).map(|_| short()).collect(),
        };
        let counted = bytes(&Ok(Done::Collected(collected)));
        assert_eq!(counted, 1_000 * (size_of::<model::Answer>() + 16));
    }

    /// 100,000 names of 1 MiB each were 100 GB, and none of them was counted.
    #[test]
    fn a_key_was_remembered_with_the_long_name_of_its_namespace_for_nothing() {
        const LONG: usize = 1 << 20;
        let (once, now) = (Once::default(), Instant::now());
        let namespace = "n".repeat(LONG);
        let named = |caller, key: usize| Name::new(caller, &namespace, &key.to_string());
        let begin = |caller, key| once.begin(named(caller, key), [1; 32], now);
        let full = |told: Result<Turn, Problem>| told.err().map(|problem| problem.kind());
        // One that was not carried out leaves its room to others.
        for key in 0..2 * KEPT_BYTES_MAX / LONG {
            assert!(matches!(begin("shop", key), Ok(Turn::First(..))), "{key}");
            let refused = Err(Problem::new(Kind::Busy, "x"));
            once.end(&named("shop", key), &refused, true);
        }
        for key in 0..KEPT_BYTES_MAX / 2 / LONG {
            assert!(matches!(begin("shop", key), Ok(Turn::First(..))), "{key}");
            once.end(&named("shop", key), &DONE, true);
        }
        assert_eq!(full(begin("shop", LONG)), Some(Kind::Busy));
        assert!(matches!(begin("shop", 0), Ok(Turn::Repeated(_))));
        assert!(matches!(begin("bank", 0), Ok(Turn::First(..))));
        // Calls that another process knew are counted as well.
        let next = Once::default();
        once.end(&named("bank", 0), &DONE, true);
        for known in once.known(now) {
            next.remember(known, now);
        }
        let again = |caller, key| next.begin(named(caller, key), [1; 32], now);
        assert_eq!(full(again("shop", LONG)), Some(Kind::Busy));
        assert!(matches!(again("bank", 1), Ok(Turn::First(..))));
    }

    /// One of them might use up all that there was, and the others were refused for ten minutes.
    #[test]
    fn a_caller_with_many_keys_shut_out_the_others() {
        let (once, now) = (Once::default(), Instant::now());
        let begin = |caller: &str, key: usize, at| {
            let name = Name::new(caller, "/", &key.to_string());
            once.begin(name, [1; 32], at)
        };
        for n in 0..KEYS_MAX / 2 {
            begin("shop", n, now).expect("there is room");
        }
        let full = |told: Result<Turn, Problem>| told.err().map(|problem| problem.kind());
        assert_eq!(full(begin("shop", KEYS_MAX, now)), Some(Kind::Busy));
        assert!(
            matches!(begin("shop", 0, now), Ok(Turn::Repeated(_))),
            "none is forgotten early"
        );
        assert!(matches!(begin("bank", 0, now), Ok(Turn::First(..))));
        // The answers are bounded in the same way.
        let answer = super::super::model::Answer {
            args: serde_json::value::RawValue::from_string(format!(
                "[\"{}\"]",
                "x".repeat(KEPT_BYTES_MAX / 2)
            ))
            .expect("JSON"),
            attachments: Vec::new(),
        };
        let collected = super::super::model::Collected {
            acked: 1,
            timed_out: 0,
            gone: 0,
            undelivered: 0,
            complete: true,
            answers: vec![answer],
        };
        once.end(
            &Name::new("bank", "/", "0"),
            &Ok(Done::Collected(collected)),
            true,
        );
        assert_eq!(full(begin("bank", 1, now)), Some(Kind::Busy));
        assert!(matches!(begin("post", 0, now), Ok(Turn::First(..))));
        for caller in ["shop", "bank"] {
            assert!(matches!(
                begin(caller, KEYS_MAX, now + REMEMBERED),
                Ok(Turn::First(..))
            ));
        }
    }
}
