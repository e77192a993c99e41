//! Rows about the directory for programs outside.

use super::row::{Metric, counter, gauge};
use super::{Samples, View, load};
use nodes::directory::Gauges;
use std::sync::atomic::AtomicU64;

fn one(view: &View<'_>, cell: fn(&Gauges) -> &AtomicU64) -> Samples {
    Samples::One(Some(load(cell(&view.node.directory)) as f64))
}

pub(super) const DIRECTORY: &[Metric] = &[
    gauge(
        "sockeye_directory_sockets",
        "Sockets of this node that are listed, or are to be.",
        |v| one(v, |g| &g.sockets),
    ),
    gauge(
        "sockeye_directory_waiting",
        "Sockets whose entries are yet to be written or deleted.",
        |v| one(v, |g| &g.waiting),
    ),
    counter(
        "sockeye_directory_commands_total",
        "Commands for the directory that Redis carried out.",
        |v| one(v, |g| &g.commands),
    ),
    counter(
        "sockeye_directory_failures_total",
        "Batches that Redis did not carry out whole; they are written again.",
        |v| one(v, |g| &g.failures),
    ),
    counter(
        "sockeye_directory_repairs_total",
        "Times that all entries of this node were written anew, because Redis had been away, lost its data, or was cleaned of them.",
        |v| one(v, |g| &g.repairs),
    ),
    counter(
        "sockeye_directory_strangers_total",
        "Commands that were refused because another program keeps a value of another type under the key.",
        |v| one(v, |g| &g.strangers),
    ),
    counter(
        "sockeye_directory_left_out_total",
        "Names of users and rooms that were left out because they are too long, or too many.",
        |v| one(v, |g| &g.left_out),
    ),
    counter(
        "sockeye_directory_swept_total",
        "Entries of nodes that are gone which this node deleted.",
        |v| one(v, |g| &g.swept),
    ),
];
