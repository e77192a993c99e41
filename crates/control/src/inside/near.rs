//! How near a node is to its limits, and which it has reached: those that have a figure beside them.

use super::{Inside, Setting};
use crate::metrics::load;
use crate::process::Usage;
use serde::Serialize;
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

/// A setting that bounds what a metric counts.
struct Bound {
    key: &'static str,
    metric: &'static str,
    unit: &'static str,
    /// The limit is of each shard; the metric is the sum of all.
    of_shard: bool,
}

const fn bytes(key: &'static str, metric: &'static str) -> Bound {
    Bound {
        key,
        metric,
        unit: "bytes",
        of_shard: false,
    }
}

const fn count(key: &'static str, metric: &'static str) -> Bound {
    Bound {
        unit: "count",
        ..bytes(key, metric)
    }
}

const fn of_shards(key: &'static str, metric: &'static str) -> Bound {
    Bound {
        of_shard: true,
        ..count(key, metric)
    }
}

const BOUNDS: &[Bound] = &[
    bytes("limits.waiting_bytes_max", "sockeye_waiting_bytes"),
    count(
        "limits.mailbox_messages_max",
        "sockeye_shard_mailbox_messages",
    ),
    of_shards("limits.acks_outstanding_max", "sockeye_acks_outstanding"),
    of_shards("limits.asks_outstanding_max", "sockeye_asks_outstanding"),
    of_shards("limits.takeover_contexts_max", "sockeye_takeover_contexts"),
    bytes("limits.journal_bytes_max", "sockeye_journal_bytes"),
    count("limits.parked_sockets_max", "sockeye_parked_sockets"),
    bytes("cluster.queue_bytes", "sockeye_cluster_queued_bytes"),
    count("cluster.relays_max", "sockeye_relay_connections"),
    bytes("large.folder_max", "sockeye_large_folder_bytes"),
    count("large.transfers_max", "sockeye_large_transfers"),
    bytes("history.waiting_max", "sockeye_history_waiting_bytes"),
    bytes("kafka.out.waiting_max", "sockeye_kafka_waiting_bytes"),
    bytes("nats.out.waiting_max", "sockeye_nats_waiting_bytes"),
];

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
        let shards = self.exporter.shards().len() as u64;
        let figures = self.exporter.figures();
        near.extend(BOUNDS.iter().filter_map(|bound| {
            let setting = settings.iter().find(|setting| setting.key == bound.key)?;
            let times = if bound.of_shard { shards } else { 1 };
            Some(NearLimit {
                key: bound.key.to_owned(),
                unit: bound.unit,
                used: figures.value(bound.metric, &[])? as u64,
                limit: setting.number?.saturating_mul(times),
            })
        }));
        let backends = self.node.backends.get().into_iter().flatten();
        near.extend(backends.map(|(name, figures)| NearLimit {
            key: format!("backends.{name}.queue_max"),
            unit: "bytes",
            used: figures.untold_bytes(),
            limit: load(&figures.queue_bytes_max),
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
    use crate::metrics::Exporter;
    use std::sync::Arc;

    #[test]
    fn every_metric_beside_a_limit_is_exported() {
        let exporter = Exporter::new([].into(), Arc::default());
        let bounds = BOUNDS.iter().map(|bound| bound.metric);
        for metric in bounds.chain(REFUSALS.iter().map(|(_, metric)| *metric)) {
            assert!(exporter.has(metric), "{metric}");
        }
    }
}
