//! Rows about the streams of recovery level `cluster`.

use super::row::{Metric, gauge};
use super::{Samples, View};
use crate::chronicle::Acks;
use crate::chronicle::health::Health;

/// Nothing where there are none.
fn each(view: &View<'_>, read: impl Fn(&Acks, &str, &Health) -> f64) -> Samples {
    let acks = view.node.chronicle.get();
    let all = acks.into_iter().flat_map(|acks| {
        let all = acks.health().map(|(name, health)| (acks, name, health));
        all.map(|(acks, name, health)| (name.to_owned(), read(acks, name, health)))
            .collect::<Vec<_>>()
    });
    Samples::Labelled(all.collect())
}

pub(super) const STREAMS: &[Metric] = &[
    gauge(
        "sockeye_stream_away_seconds",
        "For so long the stream of a namespace (recovery level `cluster`) has taken nothing or said nothing; 0 while it does both.",
        |v| each(v, |_, _, health| health.away_seconds()),
    )
    .by("namespace"),
    gauge(
        "sockeye_stream_unwritten",
        "Events and records of sockets that are to be stored there and are not yet (`cluster.queue_bytes`).",
        |v| each(v, |acks, name, _| acks.chronicle().unwritten_of(name) as f64),
    )
    .by("namespace"),
    gauge(
        "sockeye_stream_waiting_seconds",
        "For so long the oldest of them waits.",
        |v| each(v, |_, _, health| health.waiting_seconds()),
    )
    .by("namespace"),
    gauge(
        "sockeye_stream_behind_seconds",
        "How much later the last that stands in the stream came than the last that this node has read; its clients hear it so much later.",
        |v| each(v, |_, _, health| health.behind_seconds()),
    )
    .by("namespace"),
];
