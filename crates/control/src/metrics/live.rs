//! Rows about live traces.

use super::row::{Metric, counter, gauge};
use super::{Samples, load};

pub(super) const LIVE: &[Metric] = &[
    gauge(
        "sockeye_traces_live",
        "Live traces that run at this node, whichever node's operator began them ([tracing.md](tracing.md#live-trace)).",
        |v| Samples::One(Some(load(&v.node.live.running) as f64)),
    ),
    counter(
        "sockeye_trace_lines_total",
        "Lines of live traces of this node: `told`, or `dropped`, because there were more than a trace may have in a second or its reader is slow. Readers are told.",
        |v| {
            let live = &v.node.live;
            let counts = [("dropped", &live.dropped), ("told", &live.told)];
            let counts = counts.map(|(name, cell)| (name.to_owned(), load(cell) as f64));
            Samples::Labelled(counts.into())
        },
    )
    .by("outcome"),
];
