//! Rows about large events and uploads.

use super::row::{Metric, counter, gauge};
use super::{Samples, View};
use crate::bodies::{Books, load};
use std::sync::atomic::AtomicU64;

/// Zeros where nothing is kept.
fn of_books<T>(view: &View<'_>, read: impl Fn(&Books) -> T) -> T {
    let books = view.node.bodies.get();
    books.map_or_else(|| read(&Books::default()), |bodies| read(bodies.books()))
}

fn one(view: &View<'_>, cell: fn(&Books) -> &AtomicU64) -> Samples {
    Samples::One(Some(of_books(view, |books| load(cell(books)) as f64)))
}

fn labelled<const N: usize>(
    view: &View<'_>,
    read: fn(&Books) -> [(&'static str, u64); N],
) -> Samples {
    let rows = of_books(view, read).into_iter();
    Samples::Labelled(
        rows.map(|(name, count)| (name.to_owned(), count as f64))
            .collect(),
    )
}

pub(super) const BODIES: &[Metric] = &[
    counter(
        "sockeye_large_events_total",
        "Events above `large.threshold` for the store: `stored`, or `failed`, and then their publishers were told.",
        |v| labelled(v, Books::events),
    )
    .by("outcome"),
    counter(
        "sockeye_large_uploads_total",
        "Uploads: announced (`done`), `refused` (4xx), `failed` (5xx), and those of them that their clients broke off (`cut`).",
        |v| labelled(v, |books| books.uploads.by_name()),
    )
    .by("outcome"),
    counter(
        "sockeye_large_downloads_total",
        "Downloads that began (`done`), were `refused` (4xx) or `failed` (5xx), and transfers that ended too early or stood still (`cut`).",
        |v| labelled(v, |books| books.downloads.by_name()),
    )
    .by("outcome"),
    counter("sockeye_large_received_bytes_total", "Bytes of uploads.", |v| one(v, |b| &b.received_bytes)),
    counter("sockeye_large_sent_bytes_total", "Bytes of downloads.", |v| one(v, |b| &b.sent_bytes)),
    gauge("sockeye_large_transfers", "Transfers that are under way (`large.transfers_max`).", |v| one(v, |b| &b.open)),
    counter(
        "sockeye_large_removed_total",
        "Bodies that were removed: older than `large.keep`, or deleted by a program.",
        |v| one(v, |b| &b.removed),
    ),
    gauge(
        "sockeye_large_folder_bytes",
        "Bytes in `large.folder`, looked at once a minute (`large.folder_max`).",
        |v| one(v, |b| &b.folder_bytes),
    ),
];
