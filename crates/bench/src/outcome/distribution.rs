//! Owns recorded latencies as a result file holds them: exact count, mean, least and greatest, and
//! buckets narrow enough (1/256 of their value) that every percentile is right within 0.4 %.

use crate::latency::Latency;
use serde::{Deserialize, Serialize};

/// Buckets of one power of two.
const STEPS_PER_DOUBLING: u64 = 256;

/// All latencies of one kind, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    pub count: u64,
    pub mean_ns: f64,
    pub min_ns: u64,
    pub max_ns: u64,
    /// (highest value, count) of each bucket that is not empty, ascending.
    pub buckets_ns: Vec<(u64, u64)>,
}

/// What a second, a row or a line shows; milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    pub count: u64,
    pub mean_ms: f64,
    pub p50_ms: f64,
    pub p90_ms: f64,
    pub p99_ms: f64,
    pub p999_ms: f64,
    pub max_ms: f64,
}

impl Distribution {
    /// Condenses (value, count) pairs, as `Latency::buckets` yields them, in ascending order.
    pub fn from_buckets(pairs: &[(u64, u64)]) -> Distribution {
        let mut buckets_ns: Vec<(u64, u64)> = Vec::new();
        let (mut count, mut sum_ns) = (0, 0.0);
        for &(value, n) in pairs.iter().filter(|&&(_, n)| n > 0) {
            count += n;
            sum_ns += value as f64 * n as f64;
            let top = bucket_top(value);
            match buckets_ns.last_mut() {
                Some(last) if last.0 == top => last.1 += n,
                _ => buckets_ns.push((top, n)),
            }
        }
        let filled = || {
            pairs
                .iter()
                .filter(|&&(_, n)| n > 0)
                .map(|&(value, _)| value)
        };
        Distribution {
            count,
            mean_ns: if count > 0 {
                sum_ns / count as f64
            } else {
                0.0
            },
            min_ns: filled().min().unwrap_or(0),
            max_ns: filled().max().unwrap_or(0),
            buckets_ns,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds another distribution, as when rounds or phases are looked at together.
    pub fn merge(&mut self, other: &Distribution) {
        if other.is_empty() {
            return;
        }
        let total = self.count + other.count;
        let sum_ns = self.mean_ns * self.count as f64 + other.mean_ns * other.count as f64;
        self.min_ns = match self.count {
            0 => other.min_ns,
            _ => self.min_ns.min(other.min_ns),
        };
        self.max_ns = self.max_ns.max(other.max_ns);
        self.mean_ns = sum_ns / total as f64;
        self.count = total;
        self.buckets_ns.extend_from_slice(&other.buckets_ns);
        self.buckets_ns.sort_unstable();
        self.buckets_ns.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                kept.1 += later.1;
            }
            same
        });
    }

    /// Latency in nanoseconds that the share `quantile` (0 to 1) does not exceed.
    pub fn at(&self, quantile: f64) -> u64 {
        // Scaled down before rounding up, or 0.99 × 100 would ask for the hundredth value.
        let exact = quantile.clamp(0.0, 1.0) * self.count as f64;
        let rank = ((exact - exact * 1e-12).ceil() as u64).max(1);
        let mut seen = 0;
        for &(top, count) in &self.buckets_ns {
            seen += count;
            if seen >= rank {
                return top.clamp(self.min_ns, self.max_ns);
            }
        }
        self.max_ns
    }

    pub fn at_ms(&self, quantile: f64) -> f64 {
        self.at(quantile) as f64 / 1e6
    }

    /// `None` when nothing was recorded.
    pub fn percentiles(&self) -> Option<Percentiles> {
        (!self.is_empty()).then(|| Percentiles {
            count: self.count,
            mean_ms: self.mean_ns / 1e6,
            p50_ms: self.at_ms(0.5),
            p90_ms: self.at_ms(0.9),
            p99_ms: self.at_ms(0.99),
            p999_ms: self.at_ms(0.999),
            max_ms: self.max_ns as f64 / 1e6,
        })
    }
}

impl From<&Latency> for Distribution {
    fn from(latency: &Latency) -> Self {
        Distribution::from_buckets(&latency.buckets())
    }
}

/// The greatest value of the bucket that holds `value`: its nine highest bits count.
fn bucket_top(value: u64) -> u64 {
    let value = value.max(1);
    let width = (1u64 << value.ilog2()) / STEPS_PER_DOUBLING;
    match width {
        0 | 1 => value,
        width => value | (width - 1),
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

    #[test]
    fn percentiles_are_within_half_a_percent_of_the_sorted_truth() {
        let truth = truth();
        let pairs: Vec<(u64, u64)> = truth.iter().map(|&value| (value, 1)).collect();
        let seen = Distribution::from_buckets(&pairs);
        for quantile in [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0] {
            let rank = ((quantile * truth.len() as f64).ceil() as usize).max(1) - 1;
            let (exact, got) = (truth[rank] as f64, seen.at(quantile) as f64);
            assert!(
                (got - exact).abs() <= exact * 0.005,
                "{quantile}: {got} for {exact}"
            );
        }
        assert_eq!(
            (seen.min_ns, seen.max_ns),
            (truth[0], *truth.last().unwrap())
        );
        let doublings = seen.max_ns.ilog2() - seen.min_ns.ilog2() + 1;
        assert!(seen.buckets_ns.len() <= doublings as usize * STEPS_PER_DOUBLING as usize);
    }

    #[test]
    fn two_halves_merged_equal_the_whole() {
        let pairs: Vec<(u64, u64)> = truth().iter().map(|&value| (value, 1)).collect();
        let whole = Distribution::from_buckets(&pairs);
        let (low, high) = pairs.split_at(77_777);
        let mut merged = Distribution::from_buckets(high);
        merged.merge(&Distribution::from_buckets(low));
        merged.merge(&Distribution::default());
        assert_eq!(merged.buckets_ns, whole.buckets_ns);
        assert_eq!(
            (merged.count, merged.min_ns, merged.max_ns),
            (whole.count, whole.min_ns, whole.max_ns)
        );
        assert!((merged.mean_ns - whole.mean_ns).abs() < 1.0);
    }

    #[test]
    fn few_values_are_found_exactly() {
        let three = Distribution::from_buckets(&[(1_000_000, 1), (2_000_000, 1), (9_000_000, 1)]);
        assert_eq!(three.at(1.0), 9_000_000);
        assert!(three.at(0.5).abs_diff(2_000_000) < 8_000);
        assert_eq!(Distribution::default().percentiles(), None);
        assert_eq!(Distribution::default().at(0.99), 0);
    }
}
