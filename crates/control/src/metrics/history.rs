//! Rows about the store of history.

use super::row::{Metric, counter, gauge};
use super::{Samples, View};
use crate::history::History;

fn one(view: &View<'_>, read: fn(&History) -> u64) -> Samples {
    let history = view.node.history.get();
    // Zero where nothing is stored.
    Samples::One(Some(history.map_or(0, |history| read(history)) as f64))
}

fn labelled<const N: usize>(
    view: &View<'_>,
    names: [&'static str; N],
    read: fn(&History) -> [u64; N],
) -> Samples {
    let history = view.node.history.get();
    let counts = history.map_or([0; N], |history| read(history));
    let rows = names.into_iter().zip(counts);
    Samples::Labelled(
        rows.map(|(name, count)| (name.to_owned(), count as f64))
            .collect(),
    )
}

pub(super) const HISTORY: &[Metric] = &[
    counter(
        "sockeye_history_events_total",
        "Events for the store of history, one for each room: `stored`; `dropped`, because too many waited for the store \
         (`history.waiting_max`); `refused` by the store for good; `unfit`, because they have binary attachments; `over_quota`: their namespace keeps as much as it may.",
        |v| labelled(v, ["stored", "dropped", "refused", "unfit", "over_quota"], History::events),
    )
    .by("outcome"),
    gauge(
        "sockeye_history_waiting_bytes",
        "Bytes of events that wait for the store of history (`history.waiting_max`).",
        |v| one(v, History::waiting_bytes),
    ),
    counter(
        "sockeye_history_failures_total",
        "Times that the store of history could not take a batch, which was tried again.",
        |v| one(v, History::failures),
    ),
    gauge(
        "sockeye_history_away_seconds",
        "For so long the store of history has taken nothing that it was given; 0 while it takes all.",
        |v| one(v, History::away_seconds),
    ),
    counter(
        "sockeye_history_reads_total",
        "Pages and deletions: `done`, `refused` because too many were under way, or `failed`.",
        |v| labelled(v, ["done", "refused", "failed"], |history| history.books().reads()),
    )
    .by("outcome"),
    gauge(
        "sockeye_history_quota_used_ratio",
        "How much of its quota the fullest namespace uses, of bytes or rooms, whichever is more; 1 = all.",
        |v| Samples::One(Some(v.node.history.get().map_or(0.0, |history| history.quotas_used()))),
    ),
    counter(
        "sockeye_history_removed_total",
        "Events that were removed from the store because they were too old or too many, or for a quota.",
        |v| one(v, |history| history.books().removed()),
    ),
];
