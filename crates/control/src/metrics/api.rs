//! Metrics of the server API.

use super::row::{Metric, counter, histogram};
use super::{Buckets, Samples, View, load};
use crate::api::{BOUNDS, Books, Durations};

pub(super) const API: &[Metric] = &[
    counter(
        "sockeye_api_calls_total",
        "Calls of the server API by both doors, failed ones included.",
        |v| Samples::Labelled(books(v).map_or_else(|| Books::default().by_call(), Books::by_call)),
    )
    .by("call"),
    counter(
        "sockeye_api_problems_total",
        "Calls that failed, by the type of the problem. Requests by HTTP without a known key are in `sockeye_http_refused_total`.",
        |v| Samples::Labelled(books(v).map_or_else(|| Books::default().by_problem(), Books::by_problem)),
    )
    .by("problem"),
    histogram(
        "sockeye_api_call_duration_seconds",
        "Time from a call to its answer. An event with `ack` waits for the answers of its receivers.",
        |v| durations(books(v).map(|books| &books.durations)),
    ),
];

fn books<'a>(view: &View<'a>) -> Option<&'a Books> {
    view.node.api.get().map(|books| &**books)
}

pub(super) fn durations<'a>(all: impl IntoIterator<Item = &'a Durations>) -> Samples {
    let (mut counts, mut total_us) = (vec![0; BOUNDS.len() + 1], 0);
    for durations in all {
        let cells = counts.iter_mut().zip(&durations.counts);
        cells.for_each(|(count, cell)| *count += load(cell));
        total_us += load(&durations.total_us);
    }
    Samples::Histogram(Buckets {
        bounds: BOUNDS.to_vec(),
        counts,
        sum: total_us as f64 / 1e6,
    })
}
