//! Owns latencies, as they are recorded and as files, reports and other processes get them: an HDR histogram, in which every
//! percentile is right within 0.1 %, with the exact mean.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Significant digits of each value.
const DIGITS: u8 = 3;
/// What takes longer counts as an hour, but for the mean.
const HOUR_NS: u64 = 3_600_000_000_000;
/// What reports show.
const SHOWN: [f64; 7] = [0.5, 0.9, 0.95, 0.99, 0.999, 0.9999, 1.0];

/// All latencies of one kind, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Stored", into = "Stored")]
pub struct Distribution {
    values: Histogram<u64>,
    sum_ns: f64,
}

/// The same in a file.
#[derive(Default, Serialize, Deserialize)]
struct Stored {
    count: u64,
    mean_ns: f64,
    min_ns: u64,
    max_ns: u64,
    /// (highest value, count) of each bucket that is not empty, ascending.
    buckets_ns: Vec<(u64, u64)>,
}

/// What a second, a row or a line shows; milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Percentiles {
    pub count: u64,
    pub mean_ms: f64,
    pub p50_ms: f64,
    pub p90_ms: f64,
    pub p95_ms: f64,
    pub p99_ms: f64,
    pub p999_ms: f64,
    pub max_ms: f64,
}

impl Default for Distribution {
    fn default() -> Self {
        Distribution {
            values: Histogram::new_with_max(HOUR_NS, DIGITS).expect("an hour is a valid bound"),
            sum_ns: 0.0,
        }
    }
}

impl Distribution {
    /// Of values and how often each occurred.
    pub fn of(pairs: &[(u64, u64)]) -> Distribution {
        let mut latency = Distribution::default();
        for &(ns, count) in pairs {
            latency.values.saturating_record_n(ns, count);
            latency.sum_ns += ns as f64 * count as f64;
        }
        latency
    }

    /// HOT PATH: recording is a handful of instructions.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.values.saturating_record(ns);
        self.sum_ns += ns as f64;
    }

    /// Adds another distribution: another worker's, another round's.
    pub fn merge(&mut self, other: &Distribution) {
        for bucket in other.values.iter_recorded() {
            let (value, count) = (bucket.value_iterated_to(), bucket.count_at_value());
            self.values.saturating_record_n(value, count);
        }
        self.sum_ns += other.sum_ns;
    }

    pub fn count(&self) -> u64 {
        self.values.len()
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub fn mean_ns(&self) -> f64 {
        self.sum_ns / self.count().max(1) as f64
    }

    pub fn max_ms(&self) -> f64 {
        self.values.max() as f64 / 1e6
    }

    /// Latency in nanoseconds that the share `quantile` (0 to 1) does not exceed.
    pub fn at(&self, quantile: f64) -> u64 {
        self.values.value_at_quantile(quantile)
    }

    pub fn at_ms(&self, quantile: f64) -> f64 {
        self.at(quantile) as f64 / 1e6
    }

    /// The same to the percentiles that reports show, in a few numbers.
    pub fn thinned(&self) -> Distribution {
        let mut below = 0;
        let pairs = SHOWN.map(|quantile| {
            let value = self.at(quantile);
            let up_to = self.values.count_between(0, value);
            (value, up_to - std::mem::replace(&mut below, up_to))
        });
        Distribution {
            sum_ns: self.sum_ns,
            ..Distribution::of(&pairs)
        }
    }

    /// `None` when nothing was recorded.
    pub fn percentiles(&self) -> Option<Percentiles> {
        (!self.is_empty()).then(|| Percentiles {
            count: self.count(),
            mean_ms: self.mean_ns() / 1e6,
            p50_ms: self.at_ms(0.5),
            p90_ms: self.at_ms(0.9),
            p95_ms: self.at_ms(0.95),
            p99_ms: self.at_ms(0.99),
            p999_ms: self.at_ms(0.999),
            max_ms: self.max_ms(),
        })
    }
}

impl From<Stored> for Distribution {
    fn from(stored: Stored) -> Self {
        Distribution {
            sum_ns: stored.mean_ns * stored.count as f64,
            ..Distribution::of(&stored.buckets_ns)
        }
    }
}

impl From<Distribution> for Stored {
    fn from(latency: Distribution) -> Self {
        let buckets = latency.values.iter_recorded();
        Stored {
            count: latency.count(),
            mean_ns: latency.mean_ns(),
            min_ns: latency.values.min(),
            max_ns: latency.values.max(),
            buckets_ns: buckets
                .map(|b| (b.value_iterated_to(), b.count_at_value()))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Skewed, with a tail far from the middle; ascending.
    fn truth() -> Vec<u64> {
        (1..=200_000u64)
            .map(|i| 40_000 + i * i / 9 * i / 5_000)
            .collect()
    }

    fn recorded(values: &[u64]) -> Distribution {
        let mut latency = Distribution::default();
        values.iter().for_each(|ns| latency.record(*ns));
        latency
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_truth() {
        let truth = truth();
        let seen = recorded(&truth);
        for quantile in [0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0] {
            let rank = ((quantile * truth.len() as f64).ceil() as usize).max(1) - 1;
            let (exact, got) = (truth[rank] as f64, seen.at(quantile) as f64);
            assert!(
                (got - exact).abs() <= exact * 0.001,
                "{quantile}: {got} for {exact}"
            );
        }
        let mean = truth.iter().map(|&ns| ns as f64).sum::<f64>() / truth.len() as f64;
        assert!((seen.mean_ns() - mean).abs() < 1.0);
    }

    #[test]
    fn workers_merged_and_read_again_equal_one_recorder() {
        let truth = truth();
        let (low, high) = truth.split_at(77_777);
        let mut merged = recorded(high);
        merged.merge(&recorded(low));
        merged.merge(&Distribution::default());
        let text = serde_json::to_string(&merged).unwrap();
        let again: Distribution = serde_json::from_str(&text).unwrap();
        let whole = recorded(&truth);
        for seen in [merged, again] {
            assert_eq!(seen.values, whole.values);
            assert!((seen.mean_ns() - whole.mean_ns()).abs() < 1.0);
        }
    }

    #[test]
    fn a_thinned_distribution_has_the_same_percentiles() {
        for values in [truth(), vec![7; 3], vec![1, 1_000_000], vec![]] {
            let whole = recorded(&values);
            let thin = whole.thinned();
            assert!(thin.values.iter_recorded().count() <= SHOWN.len());
            assert_eq!(thin.percentiles(), whole.percentiles());
        }
    }

    #[test]
    fn a_damaged_time_counts_as_an_hour() {
        let day = recorded(&[u64::MAX, 0]);
        assert_eq!((day.count(), day.at(0.0)), (2, 0));
        assert!(day.at(1.0).abs_diff(HOUR_NS) < HOUR_NS / 1_000);
    }
}
