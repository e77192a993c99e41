//! How near a node is to its limits, and which it has reached: those that have a figure beside them.

use super::{Inside, Setting};
use crate::metrics::{Exporter, Figures, load};
use hub::metrics::Cells;
use process::usage::Usage;
use serde::Serialize;
use std::sync::atomic::AtomicU64;
use utoipa::ToSchema;

/// A limit, and what is used of it.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
pub(super) struct NearLimit {
    /// The key of the configuration; `memory` and `descriptors` are the system's.
    key: String,
    /// `bytes`, or `count`.
    unit: &'static str,
    used: u64,
    limit: u64,
    /// Each shard has such a limit for itself; the fullest one is shown.
    of_shard: bool,
}

/// Something that was refused or cut, because a limit or a rule said so.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
pub(super) struct Refusal {
    /// `limit reached`, `message dropped`, `newcomer refused`, or `event refused by a backend`.
    what: &'static str,
    /// The limit or the reason.
    reason: String,
    /// Times since the node began.
    times: u64,
}

/// A setting, and where that is counted which it bounds.
struct Bound {
    key: &'static str,
    unit: &'static str,
    counted: Counted,
}

#[derive(Clone, Copy)]
enum Counted {
    /// By a metric, for the whole node.
    Node(&'static str),
    /// By a metric, for each shard: the limit is of each.
    Shards(&'static str),
    /// By a cell of each shard: the limit is of each.
    EachShard(fn(&Cells) -> &AtomicU64),
    /// By a cell of each shard: each has an equal part of the limit.
    PartOfShard(fn(&Cells) -> &AtomicU64),
}

use Counted::{EachShard, Node, PartOfShard, Shards};

const fn bytes(key: &'static str, counted: Counted) -> Bound {
    let unit = "bytes";
    Bound { key, unit, counted }
}

const fn count(key: &'static str, counted: Counted) -> Bound {
    let unit = "count";
    Bound { key, unit, counted }
}

const BOUNDS: &[Bound] = &[
    bytes("limits.waiting_bytes_max", Node("sockeye_waiting_bytes")),
    count(
        "limits.mailbox_messages_max",
        Shards("sockeye_shard_mailbox_messages"),
    ),
    count(
        "limits.acks_outstanding_max",
        EachShard(|cells| &cells.acks_outstanding),
    ),
    count(
        "limits.asks_outstanding_max",
        EachShard(|cells| &cells.asks_outstanding),
    ),
    count(
        "limits.takeover_contexts_max",
        EachShard(|cells| &cells.takeover_contexts),
    ),
    bytes(
        "limits.journal_bytes_max",
        PartOfShard(|cells| &cells.journal_bytes),
    ),
    count(
        "limits.parked_sockets_max",
        PartOfShard(|cells| &cells.parked),
    ),
    bytes("cluster.queue_bytes", Node("sockeye_cluster_queued_bytes")),
    count("cluster.relays_max", Node("sockeye_relay_connections")),
    bytes("large.folder_max", Node("sockeye_large_folder_bytes")),
    count("large.transfers_max", Node("sockeye_large_transfers")),
    bytes("history.waiting_max", Node("sockeye_history_waiting_bytes")),
    bytes("kafka.out.waiting_max", Node("sockeye_kafka_waiting_bytes")),
    bytes("nats.out.waiting_max", Node("sockeye_nats_waiting_bytes")),
];

/// The keys that have a figure beside them, where they are in use.
pub fn bounded_keys() -> impl Iterator<Item = &'static str> {
    BOUNDS.iter().map(|bound| bound.key)
}

impl Bound {
    /// `None`: it is not counted here.
    fn near(&self, limit: u64, exporter: &Exporter, figures: &Figures<'_>) -> Option<NearLimit> {
        let shards = exporter.shards();
        let fullest = |cell: fn(&Cells) -> &AtomicU64| {
            let counts = shards.iter().map(|cells| load(cell(cells)));
            counts.max()
        };
        let (used, limit) = match self.counted {
            Node(metric) | Shards(metric) => (figures.value(metric, &[])? as u64, limit),
            EachShard(cell) => (fullest(cell)?, limit),
            PartOfShard(cell) => (fullest(cell)?, limit.div_ceil(shards.len().max(1) as u64)),
        };
        Some(NearLimit {
            key: self.key.to_owned(),
            unit: self.unit,
            used,
            limit,
            of_shard: !matches!(self.counted, Node(_)),
        })
    }
}

/// Metrics whose label is the reason.
const REFUSALS: &[(&str, &str)] = &[
    ("limit reached", "sockeye_limit_hits_total"),
    ("message dropped", "sockeye_dropped_received_total"),
    ("newcomer refused", "sockeye_admission_refused_total"),
    (
        "event refused by a backend",
        "sockeye_backend_refused_total",
    ),
];

impl Inside {
    /// The nearest first. A limit of 0 is none. May wait for /proc.
    pub(super) fn near(&self, settings: &[Setting]) -> Vec<NearLimit> {
        let mut near = self.near_system();
        let figures = self.exporter.figures();
        near.extend(BOUNDS.iter().filter_map(|bound| {
            let setting = settings.iter().find(|setting| setting.key == bound.key)?;
            bound.near(setting.number?, &self.exporter, &figures)
        }));
        let backends = self.node.backends.get().into_iter().flatten();
        near.extend(backends.map(|(name, figures)| NearLimit {
            key: format!("backends.{name}.queue_max"),
            unit: "bytes",
            used: figures.untold_bytes(),
            limit: load(&figures.queue_bytes_max),
            of_shard: false,
        }));
        near.retain(|one| one.limit > 0);
        let share = |one: &NearLimit| one.used as f64 / one.limit as f64;
        near.sort_by(|a, b| share(b).total_cmp(&share(a)));
        near
    }

    fn near_system(&self) -> Vec<NearLimit> {
        let usage = Usage::read();
        let bounds = self.exporter.bounds().unwrap_or_default();
        let connections = self.exporter.figures().value("sockeye_connections", &[]);
        let of = |key: &str, unit, used: Option<u64>, limit: Option<u64>| {
            Some(NearLimit {
                key: key.to_owned(),
                unit,
                used: used?,
                limit: limit?,
                of_shard: false,
            })
        };
        let connections = connections.map(|count| count as u64);
        [
            of(
                "limits.conns_max",
                "count",
                connections,
                Some(bounds.connections),
            ),
            of("memory", "bytes", usage.resident_bytes, bounds.memory_bytes),
            of("descriptors", "count", usage.open_fds, usage.max_fds),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Those that were, by kind and in the order of the metrics.
    pub(super) fn refusals(&self) -> Vec<Refusal> {
        let figures = self.exporter.figures();
        let of = |(what, metric): &(&'static str, &str)| {
            let what = *what;
            let counts = figures.labelled(metric).into_iter();
            let counted = counts.filter(|(_, times)| *times > 0.0);
            let refusal = move |(reason, times): (String, f64)| Refusal {
                what,
                reason,
                times: times as u64,
            };
            counted.map(refusal).collect::<Vec<_>>()
        };
        REFUSALS.iter().flat_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    #[test]
    fn every_metric_beside_a_limit_is_exported() {
        let exporter = Exporter::new([].into(), Arc::default());
        let bounds = BOUNDS.iter().filter_map(|bound| match bound.counted {
            Node(metric) | Shards(metric) => Some(metric),
            EachShard(_) | PartOfShard(_) => None,
        });
        for metric in bounds.chain(REFUSALS.iter().map(|(_, metric)| *metric)) {
            assert!(exporter.has(metric), "{metric}");
        }
    }

    #[test]
    fn a_full_shard_among_empty_ones_is_seen() {
        let shards: Vec<_> = (0..8).map(|_| Arc::new(Cells::default())).collect();
        let full = &shards[5];
        for cell in [&full.acks_outstanding, &full.parked] {
            cell.store(100, Ordering::Relaxed);
        }
        let exporter = Exporter::new(shards.into(), Arc::default());
        let near = |key: &str, limit| {
            let bound = BOUNDS.iter().find(|bound| bound.key == key);
            let near = bound?.near(limit, &exporter, &exporter.figures())?;
            Some((near.used, near.limit, near.of_shard))
        };
        let acks = near("limits.acks_outstanding_max", 100);
        assert_eq!(acks, Some((100, 100, true)));
        let parked = near("limits.parked_sockets_max", 801);
        assert_eq!(parked, Some((100, 101, true)));
        let waiting = near("limits.waiting_bytes_max", 7);
        assert_eq!(waiting, Some((0, 7, false)));
    }
}
