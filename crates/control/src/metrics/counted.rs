//! All counters as they are now, for a process that takes over.

use super::before::{Counted, goes_on};
use super::node::Node;
use super::row::Metric;
use super::table::GROUPS;
use super::{Buckets, Samples, Shards, View};
use process::usage::Usage;

impl Counted {
    fn one(name: &str, label: &str, value: f64) -> Self {
        Self {
            name: name.to_owned(),
            label: label.to_owned(),
            value,
            ..Self::default()
        }
    }

    fn of_buckets(name: &str, label: &str, buckets: Buckets) -> Self {
        Self {
            bounds: buckets.bounds,
            counts: buckets.counts,
            ..Self::one(name, label, buckets.sum)
        }
    }
}

fn metrics() -> impl Iterator<Item = &'static Metric> {
    let all = GROUPS.iter().flat_map(|group| group.metrics);
    all.filter(|metric| goes_on(metric))
}

/// All that this process and those before it have counted.
pub fn counted(shards: &Shards, node: &Node) -> Vec<Counted> {
    let view = View {
        shards,
        node,
        usage: Usage::default(),
        accept_rate: 0.0,
        stalled: Vec::new(),
    };
    let mut all = Vec::new();
    for metric in metrics() {
        let name = metric.name;
        match view.read(metric) {
            Samples::One(value) => all.extend(value.map(|value| Counted::one(name, "", value))),
            Samples::Labelled(values) => {
                let values = values.iter();
                all.extend(values.map(|(label, value)| Counted::one(name, label, *value)));
            }
            Samples::Histogram(buckets) => all.push(Counted::of_buckets(name, "", buckets)),
            Samples::Histograms(of) => {
                let of = of.into_iter();
                all.extend(of.map(|(label, buckets)| Counted::of_buckets(name, &label, buckets)));
            }
        }
    }
    all.retain(Counted::is_something);
    all
}

#[cfg(test)]
mod tests {
    use super::super::before::Before;
    use super::*;
    use hub::metrics::Cells;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    fn shards(count: u64) -> Shards {
        let cells = Cells::default();
        cells.messages_in.store(count, Ordering::Relaxed);
        cells.conns.store(count, Ordering::Relaxed);
        cells.busy_us.store(count * 1_000_000, Ordering::Relaxed);
        cells.turn_times[1].store(count, Ordering::Relaxed);
        cells.limits[0].store(count, Ordering::Relaxed);
        Arc::new([Arc::new(cells)])
    }

    fn value(all: &[Counted], name: &str, label: &str) -> f64 {
        let one = all
            .iter()
            .find(|one| one.name == name && one.label == label);
        one.map_or(0.0, |one| one.value)
    }

    #[test]
    fn a_process_goes_on_where_the_one_before_it_ended() {
        let first = counted(&shards(5), &Node::default());
        assert_eq!(value(&first, "websocket_messages_total", ""), 5.0);
        assert_eq!(value(&first, "sockeye_connections", ""), 0.0, "a gauge");
        let next = Node::default();
        next.before.set(Before::of(first)).expect("once");
        let second = counted(&shards(2), &next);
        assert_eq!(value(&second, "websocket_messages_total", ""), 7.0);
        assert_eq!(value(&second, "sockeye_shard_busy_seconds_total", "0"), 7.0);
        assert_eq!(
            value(&second, "sockeye_limit_hits_total", "head_bytes"),
            7.0
        );
        let turns = "sockeye_turn_duration_seconds";
        let turns = second
            .iter()
            .find(|one| one.name == turns)
            .expect("a histogram");
        assert_eq!((turns.counts[1], turns.value), (7, 7.0));
    }

    #[test]
    fn what_this_build_does_not_count_is_skipped() {
        let strange = |name: &str, label: &str| Counted::one(name, label, 1.0);
        let before = Before::of(vec![
            strange("sockeye_unheard_of_total", ""),
            strange("sockeye_limit_hits_total", ""),
            strange("websocket_messages_total", "a"),
            strange("sockeye_connections", ""),
            strange("process_cpu_seconds_total", ""),
            Counted {
                bounds: vec![1.0],
                counts: vec![1, 1],
                ..strange("sockeye_turn_duration_seconds", "")
            },
            strange("sockeye_limit_hits_total", "of another build"),
        ]);
        let node = Node::default();
        node.before.set(before).expect("once");
        let now = counted(&shards(3), &node);
        let turns = now
            .iter()
            .find(|one| one.name == "sockeye_turn_duration_seconds");
        assert_eq!(turns.map(|turns| turns.counts[1]), Some(3));
        assert_eq!(value(&now, "websocket_messages_total", ""), 3.0);
        // A label that is gone keeps its count.
        assert_eq!(
            value(&now, "sockeye_limit_hits_total", "of another build"),
            1.0
        );
        assert_eq!(
            now.iter()
                .filter(|one| one.name.contains("unheard"))
                .count(),
            0
        );
    }
}
