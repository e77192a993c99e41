//! Rows about the bridge to Kafka.

use super::row::{Metric, counter, gauge};
use super::{Samples, View};
use crate::kafka::Figures;

/// All zero where there is no bridge.
fn figures(view: &View<'_>) -> Figures {
    let bridge = view.node.kafka.get();
    bridge.map_or_else(Figures::default, |bridge| bridge.figures())
}

fn one(view: &View<'_>, read: fn(Figures) -> u64) -> Samples {
    Samples::One(Some(read(figures(view)) as f64))
}

fn labelled<const N: usize>(rows: [(&str, u64); N]) -> Samples {
    let rows = rows.into_iter();
    Samples::Labelled(
        rows.map(|(name, count)| (name.to_owned(), count as f64))
            .collect(),
    )
}

fn out(view: &View<'_>) -> Samples {
    let figures = figures(view);
    labelled([
        ("produced", figures.produced),
        ("failed", figures.failed),
        ("refused", figures.refused),
    ])
}

fn commands(view: &View<'_>) -> Samples {
    let figures = figures(view);
    labelled([
        ("handed", figures.handed),
        ("repeated", figures.repeated),
        ("dead", figures.dead),
        ("lost", figures.lost),
    ])
}

pub(super) const KAFKA: &[Metric] = &[
    counter(
        "sockeye_kafka_events_total",
        "Events of clients for Kafka: `produced`, which Kafka has acknowledged; `failed`, which it has not in time (`kafka.out.time`) or not at all; \
         `refused`, because too many waited (`kafka.out.waiting_max`; half of `limits.asks_outstanding_max`) or the record was too large.",
        out,
    )
    .by("outcome"),
    gauge(
        "sockeye_kafka_waiting_bytes",
        "Bytes of records that wait for Kafka (`kafka.out.waiting_max`).",
        |v| one(v, |figures| figures.waiting_bytes),
    ),
    counter(
        "sockeye_kafka_retries_total",
        "Requests to brokers that were sent again.",
        |v| one(v, |figures| figures.retried),
    ),
    counter(
        "sockeye_kafka_commands_total",
        "Records of programs: `handed` over to clients; `repeated`, which were handed over before, and left out; `dead`, which are no commands and were \
         written to the topic of dead letters; `lost`, which are no commands and were not written there.",
        commands,
    )
    .by("outcome"),
    counter(
        "sockeye_kafka_partial_total",
        "Commands that clients of this node got and those of other nodes did not, because too much waited for them (`cluster.queue_bytes`).",
        |v| one(v, |figures| figures.partial),
    ),
    gauge(
        "sockeye_kafka_lag",
        "Records that wait in the partitions that this node reads, as of the last second.",
        |v| one(v, |figures| figures.lag),
    ),
];
