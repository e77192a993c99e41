//! Counts of the processes before this one: a process that takes over goes on from there, so that no counter jumps back.

use super::row::{Kind, Metric};
use super::{Buckets, Samples};
use std::collections::BTreeMap;

/// Counters with these beginnings are a process's own, or go over by themselves.
const OWN: [&str; 2] = ["process_", "sockeye_upgrade"];

/// A counter, or a histogram, for one value of its label.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counted {
    pub name: String,
    /// Empty, if it has none.
    pub label: String,
    /// Of a histogram the sum of all that was measured.
    pub value: f64,
    /// Of a histogram: the upper bounds of its buckets, without the last one.
    pub bounds: Vec<f64>,
    /// Of a histogram: what each bucket has, those below it not counted.
    pub counts: Vec<u64>,
}

/// Counts from before, by name and label.
#[derive(Debug, Default)]
pub struct Before(BTreeMap<String, BTreeMap<String, Counted>>);

impl Before {
    /// A name that no metric of this build has is never asked for.
    pub fn of(all: Vec<Counted>) -> Self {
        let mut own = Self::default();
        for one in all {
            let labels = own.0.entry(one.name.clone()).or_default();
            labels.insert(one.label.clone(), one);
        }
        own
    }

    /// The value of a metric, with its count from before.
    pub(super) fn and(&self, metric: &Metric, mut now: Samples) -> Samples {
        let Some(before) = self.0.get(metric.name).filter(|_| goes_on(metric)) else {
            return now;
        };
        // A later build may have given it more labels.
        let labels = |text: &str| text.split(',').filter(|name| !name.is_empty()).count();
        let fits = |label: &str| labels(label) == labels(metric.label);
        let labelled = before.iter().filter(|(label, _)| fits(label));
        match &mut now {
            Samples::One(Some(value)) => *value += before.get("").map_or(0.0, |one| one.value),
            Samples::One(None) => {}
            Samples::Labelled(values) => {
                for (label, one) in labelled {
                    match values.iter_mut().find(|(known, _)| known == label) {
                        Some((_, value)) => *value += one.value,
                        None => values.push((label.clone(), one.value)),
                    }
                }
            }
            Samples::Histogram(buckets) => before
                .get("")
                .into_iter()
                .for_each(|one| one.add_to(buckets)),
            Samples::Histograms(all) => {
                for (label, one) in labelled {
                    match all.iter_mut().find(|(known, _)| known == label) {
                        Some((_, buckets)) => one.add_to(buckets),
                        None => all.push((label.clone(), one.buckets())),
                    }
                }
            }
        }
        now
    }
}

impl Counted {
    /// A histogram with other bounds begins anew: nobody knows where its counts belong.
    fn add_to(&self, buckets: &mut Buckets) {
        if self.bounds != buckets.bounds || self.counts.len() != buckets.counts.len() {
            return;
        }
        buckets.sum += self.value;
        for (sum, count) in buckets.counts.iter_mut().zip(&self.counts) {
            *sum = sum.saturating_add(*count);
        }
    }

    fn buckets(&self) -> Buckets {
        Buckets {
            bounds: self.bounds.clone(),
            counts: self.counts.clone(),
            sum: self.value,
        }
    }

    pub(super) fn is_something(&self) -> bool {
        self.value > 0.0 || self.counts.iter().any(|count| *count > 0)
    }
}

/// A successor goes on counting it.
pub(super) fn goes_on(metric: &Metric) -> bool {
    metric.kind != Kind::Gauge && !OWN.iter().any(|own| metric.name.starts_with(own))
}
