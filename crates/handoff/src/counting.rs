//! What the process before has counted: how much of the rates is used, and the counters of its metrics.

use crate::bounds::{
    BUCKETS_MAX, COUNT_MAX, COUNTER_NAME_BYTES_MAX, RATES_MAX, STATE_US_MAX, STATES_OF_PAGE,
    TABLE_PAGES_MAX,
};
use crate::unfit::{Unfit, need};
use prost::Message;
use std::collections::HashSet;

/// With what the shards of the next process begin.
#[derive(Clone, PartialEq, Message)]
pub struct Onset {
    /// Where their clock is, by which limiters count. Processes before it was told say 0: the clock begins anew.
    #[prost(uint64, tag = "1")]
    pub clock_ms: u64,
    /// By which users and addresses find their places in the table of limiters: two numbers.
    #[prost(fixed64, repeated, tag = "2")]
    pub seed: Vec<u64>,
}

/// What a session has used of rates, on the clock of [`Onset`].
#[derive(Clone, PartialEq, Message)]
pub struct Dues {
    /// Of the rate of a session's messages.
    #[prost(uint64, tag = "1")]
    pub state_us: u64,
    /// Messages rejected, less those accepted since.
    #[prost(uint32, tag = "2")]
    pub rejections: u32,
    /// Messages not yet booked with its user and address.
    #[prost(uint32, tag = "3")]
    pub unbooked: u32,
    /// Messages that may pass until the next is booked.
    #[prost(uint32, tag = "4")]
    pub granted: u32,
    /// Of rates of its handler.
    #[prost(message, repeated, tag = "5")]
    pub rates: Vec<Spent>,
}

/// The state of one limiter.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Spent {
    /// By which its owner knows it.
    #[prost(uint32, tag = "1")]
    pub number: u32,
    #[prost(uint64, tag = "2")]
    pub state_us: u64,
}

/// Some states of the table of limiters of users and addresses.
#[derive(Clone, PartialEq, Message)]
pub struct Limiters {
    /// What a process with the same rates, seed and way to find a place has as well; in another one the states say nothing.
    #[prost(fixed64, tag = "1")]
    pub terms: u64,
    /// The first place, divided by how many a page has.
    #[prost(uint32, tag = "2")]
    pub page: u32,
    #[prost(fixed64, repeated, tag = "3")]
    pub states_us: Vec<u64>,
}

/// What a node has of a limit that nodes share, of one user or address.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Share {
    /// Of the limit.
    #[prost(uint32, tag = "1")]
    pub kind: u32,
    /// The user or the address, as a number.
    #[prost(fixed64, tag = "2")]
    pub holder: u64,
    #[prost(uint32, tag = "3")]
    pub share: u32,
    /// Of the limiter, in terms of the share.
    #[prost(uint64, tag = "4")]
    pub state_us: u64,
}

/// What a node has of a limit that nodes share, of each user or address without a share of its own.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Rest {
    /// Of the limit.
    #[prost(uint32, tag = "1")]
    pub kind: u32,
    #[prost(uint32, tag = "2")]
    pub share: u32,
}

/// A counter of metrics, or a histogram, for one value of its label.
#[derive(Clone, PartialEq, Message)]
pub struct Counter {
    #[prost(string, tag = "1")]
    pub name: String,
    /// Empty, if it has none.
    #[prost(string, tag = "2")]
    pub label: String,
    /// Of a histogram the sum of all that was measured.
    #[prost(double, tag = "3")]
    pub value: f64,
    /// Of a histogram: the upper bounds of its buckets, without the last one.
    #[prost(double, repeated, tag = "4")]
    pub bounds: Vec<f64>,
    /// Of a histogram: what each bucket has, those below it not counted.
    #[prost(uint64, repeated, tag = "5")]
    pub counts: Vec<u64>,
}

impl Onset {
    /// Looks at it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), Unfit> {
        let clock = self.clock_ms;
        need(
            clock <= STATE_US_MAX / 1_000,
            format!("onset.clock_ms = {clock}"),
            "at most 2^60 µs",
        )?;
        let numbers = self.seed.len();
        need(
            matches!(numbers, 0 | 2),
            format!("onset.seed = {numbers} numbers"),
            "two numbers, or none",
        )
    }
}

impl Dues {
    pub(crate) fn check(&self) -> Result<(), Unfit> {
        let small = self.unbooked <= u32::from(u8::MAX) && self.granted <= u32::from(u8::MAX);
        need(
            small && self.rejections <= u32::from(u16::MAX),
            "dues",
            "counts as a session has them",
        )?;
        let mut numbers = HashSet::new();
        let once = self.rates.iter().all(|spent| numbers.insert(spent.number));
        need(
            once && self.rates.len() <= RATES_MAX,
            "dues.rates",
            "at most 65,536, each once",
        )?;
        let states = self.rates.iter().map(|spent| spent.state_us);
        let latest = states.fold(self.state_us, u64::max);
        need(
            latest <= STATE_US_MAX,
            format!("dues.state_us = {latest}"),
            "at most 2^60",
        )
    }
}

impl Limiters {
    pub(crate) fn check(&self) -> Result<(), Unfit> {
        let (page, count) = (self.page, self.states_us.len());
        need(
            page < TABLE_PAGES_MAX,
            format!("limiters.page = {page}"),
            "below 64",
        )?;
        need(
            count == STATES_OF_PAGE,
            format!("limiters.states_us = {count}"),
            "4,096",
        )?;
        let latest = self.states_us.iter().max().copied().unwrap_or(0);
        need(
            latest <= STATE_US_MAX,
            format!("limiters.states_us = {latest}"),
            "at most 2^60",
        )
    }
}

impl Share {
    pub(crate) fn check(&self) -> Result<(), Unfit> {
        let Self { kind, state_us, .. } = self;
        need(
            *kind <= u32::from(u8::MAX),
            format!("shares.kind = {kind}"),
            "at most 255",
        )?;
        need(
            *state_us <= STATE_US_MAX,
            format!("shares.state_us = {state_us}"),
            "at most 2^60",
        )
    }
}

impl Counter {
    pub(crate) fn check(&self) -> Result<(), Unfit> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let named = (1..=COUNTER_NAME_BYTES_MAX).contains(&self.name.len());
        need(
            named && self.name.bytes().all(is_name),
            "counters.name",
            "1 to 256 letters",
        )?;
        // It is written between quotes.
        let is_plain = |c: char| !c.is_control() && !matches!(c, '"' | '\\');
        let fits = self.label.len() <= COUNTER_NAME_BYTES_MAX;
        need(
            fits && self.label.chars().all(is_plain),
            "counters.label",
            "at most 256 bytes, without quotes",
        )?;
        let value = self.value;
        need(
            value.is_finite() && value >= 0.0,
            format!("counters.value = {value}"),
            "0 or more",
        )?;
        let (bounds, counts) = (self.bounds.len(), self.counts.len());
        let is_whole = counts == bounds + 1 || (bounds, counts) == (0, 0);
        let mut sum: u64 = 0;
        self.counts
            .iter()
            .for_each(|n| sum = sum.saturating_add(*n));
        need(
            is_whole && bounds <= BUCKETS_MAX && sum <= COUNT_MAX,
            "counters.counts",
            "one more than bounds, at most 65",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_have_been_counted_is_named() {
        let counter = Counter {
            name: "sockeye_turns_total".into(),
            label: "a,b".into(),
            value: 3.5,
            bounds: vec![0.5],
            counts: vec![1, 2],
        };
        assert_eq!(counter.check(), Ok(()));
        let refused = |alter: fn(&mut Counter), field: &str| {
            let mut other = counter.clone();
            alter(&mut other);
            let unfit = other.check().expect_err("it is unfit");
            assert!(unfit.field.starts_with(field), "{unfit}");
        };
        refused(|one| one.name.clear(), "counters.name");
        refused(|one| one.name = "a b".into(), "counters.name");
        refused(|one| one.label = "a\"b".into(), "counters.label");
        refused(|one| one.label = "a\nb".into(), "counters.label");
        refused(|one| one.label = "x".repeat(257), "counters.label");
        refused(|one| one.value = f64::NAN, "counters.value");
        refused(|one| one.value = f64::INFINITY, "counters.value");
        refused(|one| one.value = -1.0, "counters.value");
        refused(|one| one.counts = vec![1], "counters.counts");
        refused(|one| one.counts = vec![u64::MAX, 1], "counters.counts");
    }

    #[test]
    fn a_page_of_states_is_whole_and_a_clock_is_one() {
        let page = |page, count, state_us| Limiters {
            terms: 1,
            page,
            states_us: vec![state_us; count],
        };
        assert_eq!(page(63, STATES_OF_PAGE, 9).check(), Ok(()));
        for (unfit, field) in [
            (page(64, STATES_OF_PAGE, 9), "limiters.page"),
            (page(0, STATES_OF_PAGE - 1, 9), "limiters.states_us"),
            (page(0, STATES_OF_PAGE, u64::MAX), "limiters.states_us"),
        ] {
            let unfit = unfit.check().expect_err("it is unfit");
            assert!(unfit.field.starts_with(field), "{unfit}");
        }
        let onset = |clock_ms, seed: &[u64]| Onset {
            clock_ms,
            seed: seed.to_vec(),
        };
        assert_eq!(onset(5, &[1, 2]).check(), Ok(()));
        assert_eq!(onset(0, &[]).check(), Ok(()));
        assert!(onset(u64::MAX, &[1, 2]).check().is_err());
        assert!(onset(5, &[1]).check().is_err());
    }
}
