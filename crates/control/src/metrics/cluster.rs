//! Rows about other nodes.

use super::row::{Metric, counter, gauge};
use super::{Buckets, Samples, View, load};
use nodes::gauges::Gauges;
use nodes::lag::LAG_BOUNDS_MS;
use std::sync::atomic::{AtomicU64, Ordering};

fn one(view: &View<'_>, cell: fn(&Gauges) -> &AtomicU64) -> Samples {
    Samples::One(Some(load(cell(&view.node.cluster)) as f64))
}

/// How long publishing takes.
pub(super) fn lag(view: &View<'_>) -> Samples {
    let lag = &view.node.cluster.lag;
    Samples::Histogram(Buckets {
        bounds: LAG_BOUNDS_MS.to_vec(),
        counts: lag.counts().collect(),
        sum: lag.sum_ms(),
    })
}

pub(super) const CLUSTER: &[Metric] = &[
    gauge(
        "sockeye_cluster_up",
        "1 while the engine answers, this node's channels are heard, and the other nodes were heard once; 0 also without `[cluster]`.",
        |v| {
            let up = v.node.cluster.up.load(Ordering::Relaxed);
            Samples::One(Some(f64::from(u8::from(up))))
        },
    ),
    gauge(
        "sockeye_cluster_peers",
        "Other nodes of the cluster that are up.",
        |v| one(v, |c| &c.peers),
    ),
    counter(
        "sockeye_cluster_away_total",
        "Letters that shards wrote to other nodes, whether anybody there wanted them or not.",
        |v| v.sum(|c| &c.sent_away),
    ),
    counter(
        "sockeye_cluster_letters_total",
        "Letters sent to other nodes, each counted once for every node it went to, or once if it went to all.",
        |v| one(v, |c| &c.letters),
    ),
    counter(
        "sockeye_cluster_frames_total",
        "Frames that held them, by the reason why each was closed: `idle` = Redis had nothing to do, `waited` = its first letter had waited \
         for 0.5 ms, `full`, `order` = the next letter was one to all nodes and these were not, or the reverse.",
        |v| {
            let reasons = ["idle", "waited", "full", "order"].map(str::to_owned);
            let frames = v.node.cluster.frames.iter().map(|cell| load(cell) as f64);
            Samples::Labelled(reasons.into_iter().zip(frames).collect())
        },
    )
    .by("reason"),
    counter(
        "sockeye_cluster_bytes_total",
        "Bytes of these frames.",
        |v| one(v, |c| &c.bytes),
    ),
    counter(
        "sockeye_cluster_received_total",
        "Letters of other nodes that were handed to shards.",
        |v| one(v, |c| &c.received),
    ),
    counter(
        "sockeye_cluster_gaps_total",
        "Holes in what other nodes sent; most are repaired, the rest is in `sockeye_cluster_lost_total`.",
        |v| one(v, |c| &c.gaps),
    ),
    counter(
        "sockeye_cluster_questions_total",
        "Questions for missing frames: `asked` by this node, and `heard` from others.",
        |v| {
            let cells = &v.node.cluster;
            let ways = [("asked", &cells.questions_asked), ("heard", &cells.questions_heard)];
            Samples::Labelled(ways.map(|(way, cell)| (way.to_owned(), load(cell) as f64)).into())
        },
    )
    .by("way"),
    counter(
        "sockeye_cluster_interest_misses_total",
        "Times that this node lost track of the rooms and users of another one, or heard nothing of it for 0.7 s. It sends that node everything until it is told them again.",
        |v| one(v, |c| &c.interest_misses),
    ),
    counter(
        "sockeye_cluster_repairs_total",
        "Frames sent again because a node missed them.",
        |v| one(v, |c| &c.repairs),
    ),
    counter(
        "sockeye_cluster_gone_total",
        "Frames that a node missed and that the ring had dropped already (`cluster.ring_bytes`).",
        |v| one(v, |c| &c.gone),
    ),
    counter(
        "sockeye_cluster_lost_total",
        "Letters of other nodes that were lost for good.",
        |v| one(v, |c| &c.lost),
    ),
    counter(
        "sockeye_cluster_resyncs_total",
        "Times that a node had forgotten this one, so that nobody knows how many letters were lost.",
        |v| one(v, |c| &c.resyncs),
    ),
    gauge(
        "sockeye_cluster_ring_seconds",
        "Traffic that is kept for nodes that miss some: the longest outage that costs no message.",
        |v| Samples::One(Some(load(&v.node.cluster.ring_us) as f64 / 1e6)),
    ),
    gauge(
        "sockeye_cluster_queued_bytes",
        "Bytes that wait for the engine.",
        |v| one(v, |c| &c.queued_bytes),
    ),
    counter(
        "sockeye_cluster_refused_total",
        "Letters that were refused because too much waited for the engine (`cluster.queue_bytes`).",
        |v| v.sum(|c| &c.away_refused),
    ),
    counter(
        "sockeye_cluster_repeats_total",
        "Commands of Kafka or NATS that a shard left out, since it had them from a node that was killed before it had acknowledged them.",
        |v| v.sum(|c| &c.repeats),
    ),
    counter(
        "sockeye_cluster_failed_batches_total",
        "Batches that the engine did not take; they are published again.",
        |v| one(v, |c| &c.failed),
    ),
    counter(
        "sockeye_cluster_strangers_total",
        "Messages that were not heard, because no node has a lease for the number that they name. A few come when a node starts.",
        |v| Samples::One(Some(load(&v.node.cluster.strangers) as f64)),
    ),
    counter(
        "sockeye_cluster_unreadable_total",
        "Messages of other nodes that were skipped: of another secret, damaged, or of a version or kind that is not known here.",
        |v| {
            let cells = &v.node.cluster;
            let cells = [&cells.unreadable, &cells.versions, &cells.malformed];
            Samples::One(Some(cells.map(load).iter().sum::<u64>() as f64))
        },
    ),
    gauge(
        "sockeye_budget_up",
        "1 while limits of the whole cluster are divided anew among the nodes; 0 while this node goes on with its last share of each, and without such limits.",
        |v| {
            let up = v.node.cluster.budget_up.load(Ordering::Relaxed);
            Samples::One(Some(f64::from(u8::from(up))))
        },
    ),
    gauge(
        "sockeye_budget_keys",
        "Addresses and users near a limit of the whole cluster, on this node or another: each has a share of its own.",
        |v| one(v, |c| &c.budget_keys),
    ),
    counter(
        "sockeye_budget_exchanges_total",
        "Exchanges of these shares with Redis, a command each, and those that had no answer.",
        |v| {
            let cells = &v.node.cluster;
            let ways = [("answered", &cells.budget_exchanges), ("failed", &cells.budget_failures)];
            Samples::Labelled(ways.map(|(way, cell)| (way.to_owned(), load(cell) as f64)).into())
        },
    )
    .by("outcome"),
    counter(
        "sockeye_budget_unnamed_total",
        "Times that an address or user came near such a limit while as many as there may be had shares of their own: an equal part of the limit holds for it on each node.",
        |v| one(v, |c| &c.budget_unnamed),
    ),
    counter(
        "sockeye_cluster_joins_unconfirmed_total",
        "Answers to CONNECT and acks of joins that left before all nodes knew of the new member (`cluster.join_wait`), and what did not wait because too much does already.",
        |v| v.sum(|c| &c.joins_unconfirmed),
    ),
];
