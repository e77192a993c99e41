//! Rows about connections that are relayed between nodes.

use super::row::{Metric, counter, gauge};
use super::{Samples, View, load};
use nodes::relay::Gauges;
use std::sync::atomic::AtomicU64;

fn one(view: &View<'_>, cell: fn(&Gauges) -> &AtomicU64) -> Samples {
    Samples::One(Some(load(cell(&view.node.relay)) as f64))
}

pub(super) const RELAY: &[Metric] = &[
    gauge(
        "sockeye_relay_connections",
        "Connections of clients that are relayed to other nodes now (`cluster.relays_max`).",
        |v| one(v, |r| &r.open),
    ),
    counter(
        "sockeye_relay_total",
        "Connections relayed to the node that holds their session: one for each request of long-polling and for each WebSocket.",
        |v| one(v, |r| &r.relayed),
    ),
    counter(
        "sockeye_relay_failed_total",
        "Connections that could not be relayed: their clients were told that the session is unknown, and start anew.",
        |v| one(v, |r| &r.failed),
    ),
    counter(
        "sockeye_relay_refused_total",
        "Connections above `cluster.relays_max` or without a descriptor, whose clients were told the same. When another address has more of them, one of \
         those makes way, and is counted.",
        |v| one(v, |r| &r.refused),
    ),
    counter(
        "sockeye_relay_sent_bytes_total",
        "Bytes of clients that were passed on, but for the first of each connection.",
        |v| one(v, |r| &r.bytes_up),
    ),
    counter(
        "sockeye_relay_received_bytes_total",
        "Bytes for clients that were passed on.",
        |v| one(v, |r| &r.bytes_down),
    ),
    counter(
        "sockeye_relay_taken_total",
        "Connections taken over from other nodes.",
        |v| one(v, |r| &r.taken),
    ),
    counter(
        "sockeye_relay_strangers_total",
        "Connections to `cluster.relay_listen` that did not show the cluster's secret in time.",
        |v| one(v, |r| &r.strangers),
    ),
];
