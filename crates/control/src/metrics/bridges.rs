//! Rows about the bridges to Kafka and NATS.

use super::row::{Metric, counter, gauge};
use super::{Samples, View};
use crate::bridge::Figures;
use rules::bridge::Bus;

/// All zero where there is no bridge.
fn figures(view: &View<'_>, bus: Bus) -> Figures {
    let bridge = view.node.bridges.get(bus);
    bridge.map_or_else(Figures::default, |bridge| bridge.figures())
}

fn one(view: &View<'_>, bus: Bus, read: fn(Figures) -> u64) -> Samples {
    Samples::One(Some(read(figures(view, bus)) as f64))
}

fn labelled<const N: usize>(rows: [(&str, u64); N]) -> Samples {
    let rows = rows.into_iter();
    Samples::Labelled(
        rows.map(|(name, count)| (name.to_owned(), count as f64))
            .collect(),
    )
}

fn out(view: &View<'_>, bus: Bus) -> Samples {
    let figures = figures(view, bus);
    labelled([
        ("produced", figures.produced),
        ("failed", figures.failed),
        ("refused", figures.refused),
    ])
}

fn commands(view: &View<'_>, bus: Bus) -> Samples {
    let figures = figures(view, bus);
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
        |v| out(v, Bus::Kafka),
    )
    .by("outcome"),
    gauge(
        "sockeye_kafka_waiting_bytes",
        "Bytes of records that wait for Kafka (`kafka.out.waiting_max`).",
        |v| one(v, Bus::Kafka, |figures| figures.waiting_bytes),
    ),
    counter(
        "sockeye_kafka_retries_total",
        "Requests to brokers that were sent again.",
        |v| one(v, Bus::Kafka, |figures| figures.retried),
    ),
    counter(
        "sockeye_kafka_commands_total",
        "Records of programs: `handed` over to clients; `repeated`, which were handed over before, and left out; `dead`, which are no commands and were \
         written to the topic of dead letters; `lost`, which are no commands and were not written there.",
        |v| commands(v, Bus::Kafka),
    )
    .by("outcome"),
    counter(
        "sockeye_kafka_partial_total",
        "Commands that clients of this node got and those of other nodes did not, because too much waited for them (`cluster.queue_bytes`).",
        |v| one(v, Bus::Kafka, |figures| figures.partial),
    ),
    gauge(
        "sockeye_kafka_lag",
        "Records that wait in the partitions that this node reads, as of the last second.",
        |v| one(v, Bus::Kafka, |figures| figures.lag),
    ),
];

pub(super) const NATS: &[Metric] = &[
    counter(
        "sockeye_nats_events_total",
        "Events of clients for NATS: `produced`, which the stream has acknowledged, or the connection has taken (`nats.out.mode`); `failed`, which was not \
         done in time (`nats.out.time`) or not at all; `refused`, because too many waited (`nats.out.waiting_max`; half of `limits.asks_outstanding_max`), the \
         message was too large, or a header cannot have its value.",
        |v| out(v, Bus::Nats),
    )
    .by("outcome"),
    gauge(
        "sockeye_nats_waiting_bytes",
        "Bytes of messages that wait for NATS (`nats.out.waiting_max`).",
        |v| one(v, Bus::Nats, |figures| figures.waiting_bytes),
    ),
    counter(
        "sockeye_nats_retries_total",
        "Messages that were sent again, since no stream had acknowledged them.",
        |v| one(v, Bus::Nats, |figures| figures.retried),
    ),
    counter(
        "sockeye_nats_commands_total",
        "Messages of programs: `handed` over to clients; `repeated`, which were handed over before, and left out; `dead`, which are no commands and were \
         written as dead letters; `lost`, which are no commands and were not written there, or came faster than they were read (core NATS), or were given \
         up by the server since nobody could read them.",
        |v| commands(v, Bus::Nats),
    )
    .by("outcome"),
    counter(
        "sockeye_nats_partial_total",
        "Commands that clients of this node got and those of other nodes did not, because too much waited for them (`cluster.queue_bytes`).",
        |v| one(v, Bus::Nats, |figures| figures.partial),
    ),
    gauge(
        "sockeye_nats_lag",
        "Messages that wait in the streams that this node reads, as of the last message.",
        |v| one(v, Bus::Nats, |figures| figures.lag),
    ),
];
