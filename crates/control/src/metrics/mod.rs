//! The exporter: reads the cells that shards publish in each turn and what else is known of this process. Nothing here is
//! called by a shard, and nothing waits for one.
//!
//! [`table`] is the one list of all metrics; [`text`] writes them for Prometheus, [`page`] for people.

mod api;
mod backends;
mod before;
mod bodies;
mod bridges;
mod carrier;
mod channels;
mod cluster;
mod counted;
pub mod detection;
mod directory;
mod foreign;
mod history;
mod live;
pub mod node;
#[cfg(test)]
mod page;
mod rate;
mod recovery;
mod relay;
mod row;
mod table;
mod text;
mod tokens;
mod upgrade;

pub use before::{Before, Counted};
pub use counted::counted;
pub use text::Format;

use hub::metrics::Cells;
use node::Node;
use process::usage::Usage;
use rate::{RateMeter, Stalls};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The cells of all shards.
pub type Shards = Arc<[Arc<Cells>]>;

#[derive(Debug)]
pub struct Exporter {
    shards: Shards,
    node: Arc<Node>,
    rate: RateMeter,
    stalls: Stalls,
}

impl Exporter {
    pub fn new(shards: Shards, node: Arc<Node>) -> Self {
        Exporter {
            stalls: Stalls::new(shards.len()),
            shards,
            node,
            rate: RateMeter::default(),
        }
    }

    /// The metrics whose names begin so, as text; all, if it is empty.
    pub fn text(&self, prefix: &str, format: Format) -> String {
        // With many connections a look at the process' files takes milliseconds.
        let of_process = "process_".starts_with(prefix) || prefix.starts_with("process_");
        let usage = match of_process {
            true => Usage::read(),
            false => Usage::default(),
        };
        text::encode(&self.view(usage), prefix, format)
    }

    fn view(&self, usage: Usage) -> View<'_> {
        View {
            shards: &self.shards,
            node: &self.node,
            usage,
            accept_rate: self.rate.per_second(),
            stalled: self.stalls.seconds(),
        }
    }

    /// The figures at this moment, for those who ask for single ones.
    pub(crate) fn figures(&self) -> Figures<'_> {
        Figures(self.view(Usage::light()))
    }

    #[cfg(test)]
    pub(crate) fn has(&self, name: &str) -> bool {
        find(name).is_some()
    }

    /// The other nodes were met, and cannot be reached now.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.node.readiness.is_cut_off()
    }

    pub(crate) fn bounds(&self) -> Option<node::Bounds> {
        self.node.bounds.get().copied()
    }

    pub(crate) fn shards(&self) -> &Shards {
        &self.shards
    }

    /// To be called about once a second: what rates are made of.
    pub fn sample(&self, now: Instant) {
        let accepted = self.shards.iter().map(|cells| load(&cells.accepted)).sum();
        self.rate.sample(now, accepted);
        self.stalls.sample(now, &self.shards);
    }
}

/// Figures at one moment.
#[derive(Debug)]
pub(crate) struct Figures<'a>(View<'a>);

impl Figures<'_> {
    /// The values of a metric by its label.
    pub(crate) fn labelled(&self, name: &str) -> Vec<(String, f64)> {
        match find(name).map(|metric| self.0.read(metric)) {
            Some(Samples::Labelled(values)) => values,
            _ => Vec::new(),
        }
    }

    /// A metric's value: a gauge's largest, a counter's sum over the values of its label that count; none named: all.
    pub(crate) fn value(&self, name: &str, labels: &[&str]) -> Option<f64> {
        let metric = find(name)?;
        let values = match self.0.read(metric) {
            Samples::One(value) => return value,
            Samples::Labelled(values) => values,
            Samples::Histogram(_) | Samples::Histograms(_) => return None,
        };
        let counts = |label: &str| labels.is_empty() || labels.contains(&label);
        let values = values.iter().filter(|(label, _)| counts(label));
        let values = values.map(|(_, value)| *value);
        match metric.kind {
            row::Kind::Counter => Some(values.sum()),
            _ => values.reduce(f64::max),
        }
    }
}

fn find(name: &str) -> Option<&'static row::Metric> {
    let mut metrics = table::GROUPS.iter().flat_map(|group| group.metrics);
    metrics.find(|metric| metric.name == name)
}

/// All that the table reads from, at one moment.
#[derive(Debug)]
struct View<'a> {
    shards: &'a [Arc<Cells>],
    node: &'a Node,
    usage: Usage,
    accept_rate: f64,
    /// How long each shard has been in its present turn, seconds.
    stalled: Vec<f64>,
}

/// What a metric is at the moment of a scrape.
#[derive(Debug, PartialEq)]
enum Samples {
    /// One value, or none if it is not known here.
    One(Option<f64>),
    /// A value for each value of the metric's label. Of several labels, the values are separated by commas, as the labels are.
    Labelled(Vec<(String, f64)>),
    Histogram(Buckets),
    /// The same for each value of its label.
    Histograms(Vec<(String, Buckets)>),
}

/// A histogram whose counts are not cumulative; the last is for what passes all bounds.
#[derive(Debug, PartialEq)]
struct Buckets {
    bounds: Vec<f64>,
    counts: Vec<u64>,
    sum: f64,
}

pub(crate) fn load(cell: &AtomicU64) -> u64 {
    cell.load(Ordering::Relaxed)
}

impl View<'_> {
    /// What a metric is, with what processes before this one have counted.
    fn read(&self, metric: &row::Metric) -> Samples {
        let now = (metric.read)(self);
        match self.node.before.get() {
            Some(before) => before.and(metric, now),
            None => now,
        }
    }

    /// The sum over all shards.
    fn sum(&self, cell: fn(&Cells) -> &AtomicU64) -> Samples {
        Samples::One(Some(self.total(cell)))
    }

    fn total(&self, cell: fn(&Cells) -> &AtomicU64) -> f64 {
        let counts = self.shards.iter().map(|cells| load(cell(cells)));
        counts.sum::<u64>() as f64
    }

    /// A value for each shard.
    fn per_shard(&self, value: impl Fn(&Cells) -> f64) -> Samples {
        let values = self.shards.iter().enumerate();
        Samples::Labelled(
            values
                .map(|(shard, cells)| (shard.to_string(), value(cells)))
                .collect(),
        )
    }

    /// Counters by name, summed over all shards.
    fn by_name<'n>(
        &self,
        names: impl IntoIterator<Item = (usize, &'n str)>,
        cells: fn(&Cells) -> &[AtomicU64],
    ) -> Samples {
        Samples::Labelled(self.labelled(names, cells))
    }

    fn labelled<'n>(
        &self,
        names: impl IntoIterator<Item = (usize, &'n str)>,
        cells: fn(&Cells) -> &[AtomicU64],
    ) -> Vec<(String, f64)> {
        let total = |index: usize| {
            let counts = self
                .shards
                .iter()
                .filter_map(|shard| cells(shard).get(index));
            counts.map(load).sum::<u64>() as f64
        };
        let names = names.into_iter();
        names
            .map(|(index, name)| (name.to_owned(), total(index)))
            .collect()
    }

    /// A histogram, summed over all shards.
    fn histogram(&self, bounds: Vec<f64>, cells: fn(&Cells) -> &[AtomicU64], sum: f64) -> Samples {
        let count = |index: usize| {
            let counts = self
                .shards
                .iter()
                .filter_map(|shard| cells(shard).get(index));
            counts.map(load).sum()
        };
        Samples::Histogram(Buckets {
            counts: (0..=bounds.len()).map(count).collect(),
            bounds,
            sum,
        })
    }
}

#[cfg(test)]
mod tests;
