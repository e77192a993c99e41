//! Rows about clients that come back, and about the streams of recovery level `cluster`.

use super::row::{Metric, counter, gauge};
use super::{Samples, View};
use hub::metrics::Returned;
use nodes::chronicle::Acks;
use nodes::chronicle::health::Health;

/// Nothing where there are none.
fn each(view: &View<'_>, read: impl Fn(&Acks, &str, &Health) -> f64) -> Samples {
    let mut rows = Vec::new();
    if let Some(acks) = view.node.chronicle.get() {
        for (name, health) in acks.health() {
            rows.push((name.to_owned(), read(acks, name, health)));
        }
    }
    Samples::Labelled(rows)
}

pub(super) const RECOVERY: &[Metric] = &[
    counter(
        "sockeye_returns_total",
        "Clients that came back and showed which socket they had (`recovery`), by outcome: `recovered`, or the reason why theirs is a new one ([recovery.md](recovery.md#why-not)).",
        |v| v.by_name(Returned::NAMES.into_iter().enumerate(), |c| &c.returned),
    )
    .by("outcome"),
    counter(
        "sockeye_replayed_events_total",
        "Events that clients missed and got when they came back.",
        |v| v.sum(|c| &c.replayed),
    ),
    counter(
        "sockeye_replay_reads_total",
        "Entries of journals that were read for these events.",
        |v| v.sum(|c| &c.replay_reads),
    ),
    counter(
        "sockeye_gaps_told_total",
        "Times that a socket which can come back was told that something is missing although it stayed (`sockeye:gap`).",
        |v| v.sum(|c| &c.gaps_told),
    ),
    gauge(
        "sockeye_parked_sockets",
        "Sockets without a connection that are kept for their clients.",
        |v| v.sum(|c| &c.parked),
    ),
    gauge("sockeye_parked_bytes", "Bytes of these sockets.", |v| {
        v.sum(|c| &c.parked_bytes)
    }),
    counter(
        "sockeye_parked_crowded_total",
        "Such sockets that made way for others (`limits.parked_sockets_max`, `limits.journal_bytes_max`).",
        |v| v.sum(|c| &c.parked_crowded),
    ),
    gauge(
        "sockeye_journal_bytes",
        "Bytes of events that are kept for clients that may come back.",
        |v| v.sum(|c| &c.journal_bytes),
    ),
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
