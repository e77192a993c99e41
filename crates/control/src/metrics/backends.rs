//! Metrics of backends.

use super::row::{Metric, counter, gauge, histogram};
use super::{Samples, View, load};
use std::sync::atomic::AtomicU64;
use workers::Figures;

pub(super) const BACKENDS: &[Metric] = &[
    gauge(
        "sockeye_backend_workers",
        "Workers that are attached, and endpoints that are well.",
        |v| sum(v, |f| &f.workers),
    ),
    gauge(
        "sockeye_backend_links_of_shards",
        "Links of workers that shards serve. Others are served by the thread of all workers, which costs more: links by gRPC or TLS, those of a gateway \
         that stores large events, and one that sent a message above 2 MiB, until its worker attaches again.",
        |v| sum(v, |f| &f.links_of_shards),
    ),
    gauge(
        "sockeye_backend_without_worker",
        "Backends without a worker, and those whose endpoint is not well.",
        |v| {
            let absent = all(v).filter(|figures| load(&figures.workers) == 0);
            Samples::One(Some(absent.count() as f64))
        },
    ),
    gauge(
        "sockeye_backend_sockets",
        "Sockets that backends have, those that wait for the decision included.",
        |v| sum(v, |f| &f.sockets),
    ),
    gauge(
        "sockeye_backend_parked_sockets",
        "Sockets of these that have no worker now.",
        |v| sum(v, |f| &f.parked),
    ),
    gauge(
        "sockeye_backend_kept_bytes",
        "Bytes that are kept until workers have handled them.",
        |v| sum(v, |f| &f.bytes),
    ),
    gauge(
        "sockeye_backend_queue_ratio",
        "How full the fullest backend is: what waits for its workers, of `queue_max`. At 1 events are refused.",
        |v| Samples::One(Some(all(v).map(Figures::fullness).fold(0.0, f64::max))),
    ),
    counter(
        "sockeye_backend_events_total",
        "Events of clients taken in for workers.",
        |v| sum(v, |f| &f.events),
    ),
    counter(
        "sockeye_backend_redelivered_total",
        "Events sent once more, because their worker was lost before it had handled them.",
        |v| sum(v, |f| &f.redelivered),
    ),
    counter(
        "sockeye_backend_moved_total",
        "Sockets given to another worker.",
        |v| sum(v, |f| &f.moved),
    ),
    counter(
        "sockeye_backend_workers_lost_total",
        "Workers that were given up: `away` (the link did not come back in time, or the process began anew), `silent`, `stalled` (it spoke, \
         and handled nothing while more waited), `failing` (it does not hear that its commands fail, or its messages cannot be read), `expelled` (its key was \
         taken out of the configuration).",
        |v| {
            let reasons: [(&str, Read); 5] = [
                ("away", |f| &f.lost_away),
                ("silent", |f| &f.lost_silent),
                ("stalled", |f| &f.lost_stalled),
                ("failing", |f| &f.lost_failing),
                ("expelled", |f| &f.lost_expelled),
            ];
            labelled(v, &reasons)
        },
    )
    .by("reason"),
    counter(
        "sockeye_backend_refused_total",
        "Events and CONNECTs refused: no worker came in time, too much waited, no answer came in time, an endpoint did not take it, or the answer cannot be used. `busy_shard` counts requests for sessions, too.",
        |v| {
            let reasons: [(&str, Read); 6] = [
                ("absent", |f| &f.refused_absent),
                ("busy", |f| &f.refused_busy),
                ("busy_shard", |f| &f.refused_early),
                ("unanswered", |f| &f.refused_unanswered),
                ("deadly", |f| &f.refused_deadly),
                ("failed", |f| &f.refused_failed),
            ];
            labelled(v, &reasons)
        },
    )
    .by("reason"),
    counter(
        "sockeye_backend_alone_total",
        "Events and CONNECTs that went to a worker with nothing beside them, because two workers had ended while they had them.",
        |v| sum(v, |f| &f.alone),
    ),
    counter(
        "sockeye_backend_overdue_total",
        "Events that workers counted as handled because their handlers took too long (`handlerTimeout`).",
        |v| sum(v, |f| &f.overdue),
    ),
    gauge(
        "sockeye_backend_openings_waiting",
        "Requests for sessions that wait for a worker's verdict.",
        |v| sum(v, |f| &f.openings.waiting),
    ),
    counter(
        "sockeye_backend_openings_total",
        "Requests for sessions that workers were to decide about: `admitted`, `refused`, `unanswered` in time or with what cannot be used, `busy` (too much waited), `deadly` (worker after worker ended over it).",
        |v| {
            let outcomes: [(&str, Read); 5] = [
                ("admitted", |f| &f.openings.admitted),
                ("refused", |f| &f.openings.refused),
                ("unanswered", |f| &f.openings.unanswered),
                ("busy", |f| &f.openings.busy),
                ("deadly", |f| &f.openings.deadly),
            ];
            labelled(v, &outcomes)
        },
    )
    .by("outcome"),
    counter(
        "sockeye_backend_calls_total",
        "Calls of endpoints: `taken`, `unread` (taken, with content that is no answer), `failed` (they come again), or `refused` (they do not).",
        |v| {
            let outcomes: [(&str, Read); 4] = [
                ("failed", |f| &f.calls_failed),
                ("refused", |f| &f.calls_refused),
                ("taken", |f| &f.calls_taken),
                ("unread", |f| &f.calls_unread),
            ];
            labelled(v, &outcomes)
        },
    )
    .by("outcome"),
    histogram(
        "sockeye_backend_call_duration_seconds",
        "Time of calls of endpoints, until the answer is read or the call has failed.",
        |v| {
            Samples::Histogram(super::api::buckets(all(v).map(|figures| &figures.call_durations)))
        },
    ),
    counter(
        "sockeye_backend_dead_letters_total",
        "News of beginnings and ends that an endpoint never got (it refused them, or was not well for too long), and ends of sockets that no worker came for within an hour or for which there was no room.",
        |v| sum(v, |f| &f.dead_letters),
    ),
    counter(
        "sockeye_backend_commands_failed_total",
        "Commands in the answers of endpoints that were not carried out.",
        |v| sum(v, |f| &f.commands_failed),
    ),
    counter(
        "sockeye_backend_late_total",
        "Answers and decisions of workers that nobody waited for any more.",
        |v| sum(v, |f| &f.late),
    ),
];

type Read = fn(&Figures) -> &AtomicU64;

fn all<'a>(view: &View<'a>) -> impl Iterator<Item = &'a Figures> {
    let backends = view.node.backends.get().into_iter();
    backends.flat_map(|backends| backends.values().map(AsRef::as_ref))
}

fn total(view: &View<'_>, read: Read) -> f64 {
    let all = all(view).map(|figures| load(read(figures)) as f64);
    // A sum of nothing is -0.
    all.fold(0.0, |sum, one| sum + one)
}

fn labelled(view: &View<'_>, rows: &[(&str, Read)]) -> Samples {
    let counts = rows.iter();
    let counts = counts.map(|(name, read)| ((*name).to_owned(), total(view, *read)));
    Samples::Labelled(counts.collect())
}

fn sum(view: &View<'_>, read: Read) -> Samples {
    Samples::One(Some(total(view, read)))
}
