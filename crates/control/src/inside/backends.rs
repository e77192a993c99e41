//! Backends and the bridges to buses, one by one, as they are now.

use super::failures::{Depth, FailureHere};
use super::{Called, Caller, Inside, Problems, Scope, admit};
use crate::bridge::Bridge;
use crate::metrics::load;
use ::backend::{PaceFigures, SeenWorker};
use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use rules::bridge::Bus;
use serde::Serialize;
use utoipa::ToSchema;
use workers::{Figures, Seen};

/// The backends of this node.
#[derive(Debug, Serialize, ToSchema)]
struct Backends {
    /// By name.
    backends: Vec<BackendHere>,
    /// The bridge to Kafka; `null` if there is none.
    kafka: Option<BridgeHere>,
    /// The bridge to NATS; `null` if there is none.
    nats: Option<BridgeHere>,
    /// `false`: a backend did not answer in time. It has its counters, and neither workers nor failures.
    complete: bool,
}

/// One backend. Counters are of all the time since the node began.
#[derive(Debug, Serialize, ToSchema)]
struct BackendHere {
    name: String,
    /// `workers` attach, or a `webhook` is called; `null`: it did not answer in time.
    kind: Option<&'static str>,
    /// It has a worker, or its endpoint is well.
    well: bool,
    /// Sockets that it has, those that wait for the decision included.
    sockets: u64,
    /// Those that have no worker now.
    parked: u64,
    /// What is kept until it is handled, bytes.
    kept_bytes: u64,
    /// How much of `queue_max` waits, 0 to 1. At 1 events are refused.
    queue_ratio: f64,
    /// Events taken in.
    events: u64,
    /// Handled in the last ten to twenty seconds, each second: items of workers, or calls of the endpoint.
    handled_per_second: f64,
    /// Ninety-nine of a hundred were handled within so many milliseconds, of the slowest worker; `null`: nothing was handled lately.
    p99_ms: Option<u64>,
    /// It took longer than the highest bound, which `p99_ms` is.
    p99_over: bool,
    /// Sent once more, because a worker was lost.
    redelivered: u64,
    /// Calls that failed, and were or will be made again.
    retried: u64,
    /// Calls that the endpoint did not take, and that are not made again.
    calls_refused: u64,
    /// Events and CONNECTs over which worker after worker ended: they were refused.
    poison: u64,
    /// Sent alone, because two workers had ended while they had them.
    alone: u64,
    /// Refused for other reasons: no worker in time, too much waited, no answer in time, or the endpoint failed.
    refused: u64,
    /// Workers that were given up.
    workers_lost: u64,
    /// News of beginnings and ends that nobody will get.
    dead_letters: u64,
    /// Its workers, in the order in which they came.
    workers: Vec<WorkerHere>,
    /// The last failures, the newest first: twenty at most.
    failures: Vec<FailureHere>,
}

/// A worker.
#[derive(Debug, Serialize, ToSchema)]
struct WorkerHere {
    /// Its own name for itself.
    instance: String,
    /// `attached`, `slow`, `leaving` or `away`.
    state: &'static str,
    /// Sockets that it has.
    sockets: usize,
    /// Items that it was sent and has not handled.
    under_way: usize,
    /// How much of its window they fill, 0 to 1. One large item may be above 1.
    window_ratio: f64,
    /// Items that wait for its window.
    waiting: usize,
    /// The shard that serves its link; `null`: the task of all backends does, or it is away.
    shard: Option<u16>,
    /// Items that it has handled since it came.
    handled: u64,
    /// In the last ten to twenty seconds.
    handled_per_second: f64,
    /// From the moment an item came until it was handled, milliseconds; `null`: nothing was handled lately.
    p99_ms: Option<u64>,
    /// It took longer than the highest bound, which `p99_ms` is.
    p99_over: bool,
}

/// A bridge to a bus. Counters are of all the time since the node began.
#[derive(Debug, Serialize, ToSchema)]
struct BridgeHere {
    /// Events that the bus has acknowledged.
    produced: u64,
    /// Events that it has not, in time or at all.
    failed: u64,
    /// Events that were not taken: too many waited, or they were too large.
    refused: u64,
    /// Requests to servers that were sent again.
    retried: u64,
    /// Bytes that wait for it.
    waiting_bytes: u64,
    /// Commands that were handed over to clients.
    handed: u64,
    /// Commands that clients of other nodes did not get.
    partial: u64,
    /// Records that had been handed over before.
    repeated: u64,
    /// Records that are no commands, written as dead letters.
    dead: u64,
    /// Records that are no commands, and were not written there.
    lost: u64,
    /// Records that wait for this node.
    lag: u64,
    /// The last failures, the newest first: twenty at most.
    failures: Vec<FailureHere>,
}

impl BackendHere {
    fn new(name: &str, figures: &Figures) -> Self {
        let refused = [
            &figures.refused_absent,
            &figures.refused_busy,
            &figures.refused_early,
            &figures.refused_unanswered,
            &figures.refused_failed,
        ];
        let lost = [
            &figures.lost_away,
            &figures.lost_silent,
            &figures.lost_stalled,
            &figures.lost_failing,
            &figures.lost_expelled,
        ];
        Self {
            name: name.to_owned(),
            kind: None,
            well: load(&figures.workers) > 0,
            sockets: load(&figures.sockets),
            parked: load(&figures.parked),
            kept_bytes: load(&figures.bytes),
            queue_ratio: figures.fullness(),
            events: load(&figures.events),
            handled_per_second: 0.0,
            p99_ms: None,
            p99_over: false,
            redelivered: load(&figures.redelivered),
            retried: load(&figures.calls_failed),
            calls_refused: load(&figures.calls_refused),
            poison: load(&figures.refused_deadly),
            alone: load(&figures.alone),
            refused: refused.into_iter().map(load).sum(),
            workers_lost: lost.into_iter().map(load).sum(),
            dead_letters: load(&figures.dead_letters),
            workers: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// `depth`: how much of failures the caller may read.
    fn with(self, seen: Seen, depth: Depth) -> Self {
        let paces: Vec<PaceFigures> = match seen.calls {
            Some(calls) => vec![calls],
            None => seen.workers.iter().map(|(worker, _)| worker.pace).collect(),
        };
        let slowest = paces.iter().max_by_key(|pace| (pace.p99_over, pace.p99_ms));
        let failures = seen.failures.into_iter();
        Self {
            kind: Some(match seen.is_well {
                Some(_) => "webhook",
                None => "workers",
            }),
            handled_per_second: paces.iter().map(|pace| pace.per_second).sum(),
            p99_ms: slowest.and_then(|pace| pace.p99_ms),
            p99_over: slowest.is_some_and(|pace| pace.p99_over),
            workers: seen.workers.into_iter().map(WorkerHere::from).collect(),
            failures: failures
                .map(|failure| FailureHere::of(failure, depth))
                .collect(),
            ..self
        }
    }
}

impl From<(SeenWorker, Option<u16>)> for WorkerHere {
    fn from((seen, shard): (SeenWorker, Option<u16>)) -> Self {
        Self {
            instance: seen.instance,
            state: seen.state,
            sockets: seen.sockets,
            under_way: seen.under_way,
            window_ratio: seen.window_ratio,
            waiting: seen.waiting,
            shard,
            handled: seen.pace.total,
            handled_per_second: seen.pace.per_second,
            p99_ms: seen.pace.p99_ms,
            p99_over: seen.pace.p99_over,
        }
    }
}

impl BridgeHere {
    fn of(bridge: &dyn Bridge, depth: Depth) -> Self {
        let (figures, failures) = (bridge.figures(), bridge.failures().into_iter());
        Self {
            produced: figures.produced,
            failed: figures.failed,
            refused: figures.refused,
            retried: figures.retried,
            waiting_bytes: figures.waiting_bytes,
            handed: figures.handed,
            partial: figures.partial,
            repeated: figures.repeated,
            dead: figures.dead,
            lost: figures.lost,
            lag: figures.lag,
            failures: failures
                .map(|failure| FailureHere::of(failure, depth))
                .collect(),
        }
    }
}

/// List the backends of the node
///
/// Workers and webhooks one by one, and the bridges to Kafka and NATS, with their rates and last failures. Of the node that is asked;
/// `/v1/node/failures` has what was said in these.
#[utoipa::path(get, path = "/v1/node/backends",
    responses((status = 200, description = "The backends.", body = Backends), Problems))]
pub(super) async fn node_backends(State(inside): State<Inside>, caller: Caller) -> Called {
    admit(&caller, Scope::Read)?;
    let depth = match admit(&caller, Scope::Operate) {
        Ok(()) => Depth::Words,
        Err(_) => Depth::Sizes,
    };
    let looks = match inside.node.workers.windows.get() {
        Some(windows) => windows.look(&[]).await,
        None => Vec::new(),
    };
    let figures = inside.node.backends.get();
    let bridge = |bus| {
        let found = inside.node.bridges.get(bus);
        found.map(|bridge| BridgeHere::of(&**bridge, depth))
    };
    let mut answer = Backends {
        backends: Vec::new(),
        kafka: bridge(Bus::Kafka),
        nats: bridge(Bus::Nats),
        complete: looks.iter().all(|(_, seen)| seen.is_some()),
    };
    for (name, seen) in looks {
        let Some(figures) = figures.and_then(|figures| figures.get(name)) else {
            continue;
        };
        let here = BackendHere::new(name, figures);
        answer.backends.push(match seen {
            Some(seen) => here.with(seen, depth),
            None => here,
        });
    }
    Ok(Json(answer).into_response())
}
