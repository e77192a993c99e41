//! Rows about channels that programs outside share with clients.

use super::row::{Metric, counter};
use super::{Samples, load};

pub(super) const CHANNELS: &[Metric] = &[
    counter(
        "sockeye_feed_published_total",
        "Events for channels of `[cluster.feed]`: taken by Redis, not taken by it, `dropped` because too many waited, `unfit` because they are too large, have \
         attachments, or could not be known again.",
        |v| {
            let cells = &v.node.channels;
            let rows = [
                ("taken", load(&cells.published)),
                ("failed", load(&cells.failed)),
                ("dropped", load(&cells.dropped)),
                ("unfit", load(&cells.unfit) + load(&cells.uncopied)),
            ];
            Samples::Labelled(rows.map(|(name, count)| (name.to_owned(), count as f64)).into())
        },
    )
    .by("result"),
    counter(
        "sockeye_feed_received_total",
        "Messages on these channels: told to clients, `own` because a node of this cluster published them, and skipped for the reason.",
        |v| {
            let cells = &v.node.channels;
            let rows = [
                ("told", &cells.taken),
                ("own", &cells.own),
                ("malformed", &cells.malformed),
                ("large", &cells.large),
                ("unchosen", &cells.unchosen),
                ("rate", &cells.rate),
                ("missed", &cells.missed),
            ];
            Samples::Labelled(rows.map(|(name, cell)| (name.to_owned(), load(cell) as f64)).into())
        },
    )
    .by("result"),
];
