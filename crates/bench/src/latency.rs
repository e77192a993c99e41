//! Owns latencies, as they are recorded and as files, reports and other processes get them: exact
//! count, mean, least and greatest, and buckets so narrow (1/256 of their value) that every
//! percentile is right within 0.4 %.

use serde::{Deserialize, Serialize};

/// Buckets of one power of two.
const STEPS_PER_DOUBLING: u64 = 256;
const STEP_BITS: u32 = STEPS_PER_DOUBLING.ilog2();
const HOUR_NS: u64 = 3_600_000_000_000;
/// Up to one hour; what takes longer counts as an hour, but for mean and greatest.
const BUCKETS: usize = bucket_of(HOUR_NS) + 1;

/// Latencies being recorded, in nanoseconds. HOT PATH: recording is a handful of instructions.
#[derive(Clone, Debug)]
pub struct Latency {
    counts: Box<[u64]>,
    count: u64,
    sum_ns: f64,
    min_ns: u64,
    max_ns: u64,
}

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

/// Index of the bucket that holds `value`: its nine highest bits count.
const fn bucket_of(value: u64) -> usize {
    // Small values have a bucket each; the highest bit is always set.
    let shift = (value | STEPS_PER_DOUBLING).ilog2() - STEP_BITS;
    ((shift as u64 * STEPS_PER_DOUBLING) + (value >> shift)) as usize
}

/// The greatest value of a bucket.
fn top_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let shift = (bucket / STEPS_PER_DOUBLING).saturating_sub(1);
    (((bucket - shift * STEPS_PER_DOUBLING) + 1) << shift) - 1
}

impl Default for Latency {
    fn default() -> Self {
        Latency {
            counts: vec![0; BUCKETS].into_boxed_slice(),
            count: 0,
            sum_ns: 0.0,
            min_ns: u64::MAX,
            max_ns: 0,
        }
    }
}

impl Latency {
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.counts[bucket_of(ns.min(HOUR_NS))] += 1;
        self.count += 1;
        self.sum_ns += ns as f64;
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    pub fn merge(&mut self, other: &Distribution) {
        if other.is_empty() {
            return;
        }
        for &(value, count) in &other.buckets_ns {
            self.counts[bucket_of(value.min(HOUR_NS))] += count;
        }
        self.count += other.count;
        self.sum_ns += other.mean_ns * other.count as f64;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn distribution(&self) -> Distribution {
        if self.count == 0 {
            return Distribution::default();
        }
        let range = bucket_of(self.min_ns.min(HOUR_NS))..=bucket_of(self.max_ns.min(HOUR_NS));
        let buckets = range.map(|bucket| (top_of(bucket), self.counts[bucket]));
        Distribution {
            count: self.count,
            mean_ns: self.sum_ns / self.count as f64,
            min_ns: self.min_ns,
            max_ns: self.max_ns,
            buckets_ns: buckets.filter(|&(_, count)| count > 0).collect(),
        }
    }

    /// Hands over what was recorded and begins anew.
    pub fn take(&mut self) -> Distribution {
        let distribution = self.distribution();
        if self.count > 0 {
            self.counts.fill(0);
            (self.count, self.sum_ns, self.min_ns, self.max_ns) = (0, 0.0, u64::MAX, 0);
        }
        distribution
    }

    /// `None` when nothing was recorded.
    pub fn percentiles(&self) -> Option<Percentiles> {
        self.distribution().percentiles()
    }
}

impl Distribution {
    /// Of values and how often each occurred.
    pub fn of(pairs: &[(u64, u64)]) -> Distribution {
        let mut latency = Latency::default();
        for &(ns, count) in pairs.iter().filter(|&&(_, count)| count > 0) {
            latency.merge(&Distribution {
                count,
                mean_ns: ns as f64,
                min_ns: ns,
                max_ns: ns,
                buckets_ns: vec![(ns, count)],
            });
        }
        latency.distribution()
    }

    /// The same to the percentiles that reports show, in a few numbers.
    pub fn thinned(&self) -> Distribution {
        let mut thin = Distribution {
            buckets_ns: Vec::new(),
            ..self.clone()
        };
        let mut below = 0;
        for quantile in [0.5, 0.9, 0.95, 0.99, 0.999, 0.9999, 1.0] {
            let value = self.at(quantile);
            let within = self
                .buckets_ns
                .iter()
                .filter(|(top, _)| (*top).clamp(self.min_ns, self.max_ns) <= value);
            let up_to: u64 = within.map(|(_, count)| count).sum();
            if up_to > below {
                thin.buckets_ns.push((value, up_to - below));
                below = up_to;
            }
        }
        thin
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds another distribution, as when rounds or phases are looked at together.
    pub fn merge(&mut self, other: &Distribution) {
        let mut both = Latency::default();
        both.merge(self);
        both.merge(other);
        *self = both.distribution();
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
            p95_ms: self.at_ms(0.95),
            p99_ms: self.at_ms(0.99),
            p999_ms: self.at_ms(0.999),
            max_ms: self.max_ns as f64 / 1e6,
        })
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

    fn recorded(values: impl IntoIterator<Item = u64>) -> Latency {
        let mut latency = Latency::default();
        values.into_iter().for_each(|ns| latency.record(ns));
        latency
    }

    #[test]
    fn percentiles_are_within_half_a_percent_of_the_sorted_truth() {
        let truth = truth();
        // Recorded in a scrambled order: 7919 is prime to 200,000.
        let scrambled = (0..truth.len()).map(|index| truth[index * 7_919 % truth.len()]);
        let seen = recorded(scrambled).distribution();
        for quantile in [0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0] {
            let rank = ((quantile * truth.len() as f64).ceil() as usize).max(1) - 1;
            let (exact, got) = (truth[rank] as f64, seen.at(quantile) as f64);
            assert!(
                (got - exact).abs() <= exact * 0.005,
                "{quantile}: {got} for {exact}"
            );
        }
        let mean = truth.iter().map(|&ns| ns as f64).sum::<f64>() / truth.len() as f64;
        assert!((seen.mean_ns - mean).abs() < 1.0);
        assert_eq!(
            (seen.min_ns, seen.max_ns),
            (truth[0], *truth.last().unwrap())
        );
        let doublings = seen.max_ns.ilog2() - seen.min_ns.ilog2() + 1;
        assert!(seen.buckets_ns.len() <= doublings as usize * STEPS_PER_DOUBLING as usize);
    }

    #[test]
    fn workers_and_phases_merged_equal_one_recorder() {
        let truth = truth();
        let whole = recorded(truth.iter().copied()).distribution();
        let (low, high) = truth.split_at(77_777);
        let [low, high] = [low, high].map(|half| recorded(half.iter().copied()).take());
        let mut by_recorder = Latency::default();
        by_recorder.merge(&low);
        by_recorder.merge(&high);
        let mut by_file = high;
        by_file.merge(&low);
        by_file.merge(&Distribution::default());
        for merged in [by_recorder.distribution(), by_file] {
            assert_eq!(merged.buckets_ns, whole.buckets_ns);
            assert_eq!(
                (merged.count, merged.min_ns, merged.max_ns),
                (whole.count, whole.min_ns, whole.max_ns)
            );
            assert!((merged.mean_ns - whole.mean_ns).abs() < 1.0);
        }
    }

    #[test]
    fn what_is_taken_is_not_there_any_more() {
        let mut latency = recorded([5, 1_000_000]);
        assert_eq!(latency.take().count, 2);
        assert_eq!(latency.take(), Distribution::default());
        latency.record(77);
        assert_eq!(latency.distribution().buckets_ns, [(77, 1)]);
    }

    #[test]
    fn every_value_lies_in_its_own_bucket() {
        let around = (0..45).flat_map(|bit| [1u64 << bit, (1 << bit) + 1, (2 << bit) - 1]);
        for value in around.chain([0, 255, 256, 257, 511, 512, 513, HOUR_NS]) {
            let bucket = bucket_of(value);
            assert!(value <= top_of(bucket), "{value}");
            assert!(bucket == 0 || value > top_of(bucket - 1), "{value}");
        }
    }

    #[test]
    fn a_thinned_distribution_has_the_same_percentiles() {
        for values in [truth(), vec![7; 3], vec![1, 1_000_000]] {
            let whole = recorded(values).distribution();
            let thin = whole.thinned();
            assert!(thin.buckets_ns.len() <= 7);
            assert_eq!(thin.percentiles(), whole.percentiles());
        }
        assert!(Distribution::default().thinned().is_empty());
    }

    #[test]
    fn few_values_are_found_exactly() {
        let three = Distribution::of(&[(1_000_000, 1), (2_000_000, 1), (9_000_000, 1)]);
        assert_eq!(three.at(1.0), 9_000_000);
        assert!(three.at(0.5).abs_diff(2_000_000) < 8_000);
        let day = recorded([24 * HOUR_NS]).distribution();
        assert_eq!((day.at(0.5), day.max_ns), (24 * HOUR_NS, 24 * HOUR_NS));
        assert_eq!(Distribution::default().percentiles(), None);
        assert_eq!(Distribution::default().at(0.99), 0);
    }
}
