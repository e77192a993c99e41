//! Owns latency recording: one HDR histogram (three significant digits, 1 ns to 1 h) that can be
//! merged across workers and condensed into the percentiles a report shows.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

const HOUR_NS: u64 = 3_600_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// Latencies in nanoseconds.
#[derive(Clone, Debug)]
pub struct Latency {
    histogram: Histogram<u64>,
}

/// The non-empty buckets, for the way between processes: (value, count).
pub type Buckets = Vec<(u64, u64)>;

/// What a report shows; milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub count: u64,
    pub mean_ms: f64,
    pub p50_ms: f64,
    pub p90_ms: f64,
    pub p99_ms: f64,
    pub p999_ms: f64,
    pub max_ms: f64,
}

impl Default for Latency {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, HOUR_NS, SIGNIFICANT_DIGITS)
            .expect("constant bounds are valid");
        Latency { histogram }
    }
}

impl Latency {
    pub fn record(&mut self, ns: u64) {
        self.histogram.saturating_record(ns.max(1));
    }

    pub fn reset(&mut self) {
        self.histogram.reset();
    }

    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    pub fn buckets(&self) -> Buckets {
        self.histogram
            .iter_recorded()
            .map(|step| (step.value_iterated_to(), step.count_at_value()))
            .collect()
    }

    pub fn merge(&mut self, buckets: &Buckets) {
        for &(value, count) in buckets {
            self.histogram.saturating_record_n(value.max(1), count);
        }
    }

    /// Latency at `quantile` (0 to 1), in nanoseconds.
    pub fn at(&self, quantile: f64) -> u64 {
        self.histogram.value_at_quantile(quantile)
    }

    pub fn summary(&self) -> Summary {
        let ms = |quantile| self.at(quantile) as f64 / 1e6;
        Summary {
            count: self.histogram.len(),
            mean_ms: self.histogram.mean() / 1e6,
            p50_ms: ms(0.50),
            p90_ms: ms(0.90),
            p99_ms: ms(0.99),
            p999_ms: ms(0.999),
            max_ms: self.histogram.max() as f64 / 1e6,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A skewed set with a known order: cubes, so that the tail is far from the middle.
    fn recorded_truth() -> Vec<u64> {
        (1..=100_000u64)
            .map(|i| 1_000 + i * i / 7 * i / 1_000)
            .collect()
    }

    #[test]
    fn percentiles_are_within_one_percent_of_the_sorted_truth() {
        let truth = recorded_truth();
        let mut latency = Latency::default();
        for (index, _) in truth.iter().enumerate() {
            // Recorded in a scrambled order: 7919 is prime to 100,000.
            latency.record(truth[index * 7_919 % truth.len()]);
        }
        for quantile in [0.01, 0.5, 0.9, 0.99, 0.999, 0.9999] {
            let rank = (quantile * truth.len() as f64).ceil() as usize - 1;
            let (exact, seen) = (truth[rank] as f64, latency.at(quantile) as f64);
            assert!(
                (seen - exact).abs() <= exact * 0.01,
                "{quantile}: {seen} for {exact}"
            );
        }
    }

    #[test]
    fn merged_workers_equal_one_recorder() {
        let (mut whole, mut left, mut right) = <(Latency, Latency, Latency)>::default();
        for (index, &value) in recorded_truth().iter().enumerate() {
            whole.record(value);
            if index % 3 == 0 {
                left.record(value)
            } else {
                right.record(value)
            }
        }
        let mut merged = Latency::default();
        merged.merge(&left.buckets());
        merged.merge(&right.buckets());
        assert_eq!(merged.count(), whole.count());
        for quantile in [0.5, 0.99, 0.999] {
            assert_eq!(merged.at(quantile), whole.at(quantile));
        }
    }
}
