//! Metrics of the server API.

use super::row::{Metric, counter, histogram};
use super::{Buckets, Samples, View, load};
use crate::api::Books;
use process::durations::{BOUNDS, Durations};

pub(super) const API: &[Metric] = &[
    counter(
        "sockeye_api_calls_total",
        "Calls of the server API: `done`, `refused` (4xx: the caller is to change something), or `failed` (5xx). Requests by HTTP without a \
         known key are in `sockeye_http_refused_total`.",
        |v| Samples::Labelled(of_books(v, Books::by_outcome)),
    )
    .by("call,door,outcome"),
    counter(
        "sockeye_api_problems_total",
        "Calls that were refused or failed, by the type of the problem.",
        |v| Samples::Labelled(of_books(v, Books::by_problem)),
    )
    .by("problem"),
    counter(
        "sockeye_api_keys_total",
        "Calls with an Idempotency-Key in a cluster: `carried_out` by this node; `repeated`: answered as another node answered; `waited` \
         for another node first; `lost`: nobody knows whether a node that ended carried them out; `refused`, because Redis or NATS could \
         not be asked; `doubled`: carried out by two nodes. `repaired`: times that it had lost all keys and was told them again.",
        |v| Samples::Labelled(v.node.ledger.rows()),
    )
    .by("outcome"),
    histogram(
        "sockeye_api_call_duration_seconds",
        "Time from a call to its answer. An event with `ack` waits for the answers of its receivers.",
        |v| {
            Samples::Histograms(of_books(v, |books| {
                let calls = books.durations().map(|(call, spent)| (call.to_owned(), buckets([spent])));
                calls.collect()
            }))
        },
    )
    .by("call"),
];

/// Zeros until somebody can call.
fn of_books<T>(view: &View<'_>, read: impl Fn(&Books) -> T) -> T {
    let api = view.node.api.get();
    api.map_or_else(|| read(&Books::default()), |api| read(&api.books()))
}

/// Of all these durations.
pub(super) fn buckets<'a>(all: impl IntoIterator<Item = &'a Durations>) -> Buckets {
    let (mut counts, mut total_us) = (vec![0; BOUNDS.len() + 1], 0);
    for durations in all {
        let cells = counts.iter_mut().zip(&durations.counts);
        cells.for_each(|(count, cell)| *count += load(cell));
        total_us += load(&durations.total_us);
    }
    Buckets {
        bounds: BOUNDS.to_vec(),
        counts,
        sum: total_us as f64 / 1e6,
    }
}
