//! The last failures of a backend or a bridge: names and sizes for those who look on, bodies for a reason.

use super::{Called, Caller, Inside, Problem, Problems, Query, Scope, admit};
use crate::api::problem::{Details, Kind};
use ::bridge::{Failure, Said};
use axum::extract::{RawQuery, State};
use axum::response::IntoResponse;
use axum::{Extension, Json};
use identity::keys::Operator;
use rules::bridge::Bus;
use serde::Serialize;
use utoipa::ToSchema;

const REASON_CHARS_MAX: usize = 200;

/// How much of failures a caller may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Depth {
    Sizes,
    Words,
    Bodies,
}

/// Something that failed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FailureHere {
    /// Unix time, milliseconds.
    at_ms: u64,
    /// `call failed` (it comes again), `call refused` (it does not), `worker sent away` or `poison event`; of bridges `not acknowledged`,
    /// `no command`, `message lost` or `trouble`.
    what: &'static str,
    /// As in the log; `null` for keys without the scope `operate`: it may quote an endpoint's answer.
    detail: Option<String>,
    /// The request, and the answer if there was one.
    said: Vec<SaidHere>,
}

/// Something that was said.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SaidHere {
    /// `request`, `answer`, `event`, `record` or `message`.
    part: &'static str,
    /// Events of a request, status and type of an answer, the place of a record; `null` for keys without the scope `operate`.
    names: Option<String>,
    /// Bytes of the whole body.
    bytes: usize,
    /// The beginning of the body, 4 KiB at most, where it was asked for; `null`: it was not, or it is not kept any more. How clients prove who
    /// they are is left out.
    body: Option<String>,
}

impl FailureHere {
    pub(super) fn of(failure: Failure, depth: Depth) -> Self {
        Self {
            at_ms: failure.at_ms,
            what: failure.what,
            detail: Some(failure.detail).filter(|_| depth >= Depth::Words),
            said: failure
                .said
                .into_iter()
                .map(|said| SaidHere::of(said, depth))
                .collect(),
        }
    }
}

impl SaidHere {
    fn of(said: Said, depth: Depth) -> Self {
        let body = said.body.filter(|_| depth >= Depth::Bodies);
        Self {
            part: said.part,
            names: Some(said.names).filter(|_| depth >= Depth::Words),
            bytes: said.bytes,
            body: body.map(|body| String::from_utf8_lossy(&body).into_owned()),
        }
    }
}

/// The last failures.
#[derive(Debug, Serialize, ToSchema)]
struct LastFailures {
    /// The newest first: twenty at most.
    failures: Vec<FailureHere>,
}

/// Show what was said in the last failures
///
/// Of one backend, or of a bridge, at the node that is asked: requests and answers, or records, as `/v1/node/backends` has them, with the
/// beginnings of their bodies. That needs the scope `trace:payload` and a reason for the audit. Bodies are kept for fifteen minutes.
#[utoipa::path(get, path = "/v1/node/failures",
    params(
        ("backend" = Option<String>, Query, description = "The backend."),
        ("bridge" = Option<String>, Query, description = "Or the bridge: `kafka` or `nats`."),
        ("reason" = String, Query, description = "Why, for the audit."),
    ),
    responses(
        (status = 200, description = "The failures.", body = LastFailures),
        (status = 404, description = "There is no such backend or bridge.", body = Details, content_type = "application/problem+json"),
        Problems))]
pub(super) async fn node_failures(
    State(inside): State<Inside>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Called {
    admit(&caller, Scope::Read)?;
    admit(&caller, Scope::Payload)?;
    let Some(Extension(Operator(caller))) = caller else {
        return Err(Problem::no_keys());
    };
    let query = Query::read(query.as_deref(), &["backend", "bridge", "reason"])?;
    let reason = query.get("reason").unwrap_or_default().trim();
    if !(1..=REASON_CHARS_MAX).contains(&reason.chars().count()) {
        let detail = format!(
            "bodies are shown for a reason only: give it in 1 to {REASON_CHARS_MAX} letters; the audit keeps it"
        );
        return Err(Problem::field("reason", detail));
    }
    let (of, failures) = match (query.get("backend"), query.get("bridge")) {
        (Some(name), None) => (
            format!("backend {name}"),
            inside.failures_of_backend(name).await?,
        ),
        (None, Some(name)) => (format!("bridge {name}"), inside.failures_of_bridge(name)?),
        _ => {
            let detail = "give one of backend and bridge: whose failures are meant";
            return Err(Problem::new(Kind::InvalidRequest, detail));
        }
    };
    let words = format!("{of} with payload, because: {reason}");
    tracing::info!(operator = caller.name(), of = words, "failures are shown");
    let audit = &inside.node.audit;
    audit.end(audit.begin(&caller, ("failures", None), &words), Ok(()));
    let failures = failures.into_iter();
    let shown = failures.map(|failure| FailureHere::of(failure, Depth::Bodies));
    let failures = shown.collect();
    Ok(Json(LastFailures { failures }).into_response())
}

impl Inside {
    async fn failures_of_backend(&self, name: &str) -> Result<Vec<Failure>, Problem> {
        let looks = match self.node.workers.windows.get() {
            Some(windows) => windows.look(&[]).await,
            None => Vec::new(),
        };
        let found = looks.into_iter().find(|(known, _)| *known == name);
        let Some((_, seen)) = found else {
            return Err(Problem::new(Kind::NotFound, format!("no backend {name:?}")));
        };
        let late = || {
            let detail = format!("the backend {name:?} did not answer in time: try again");
            Problem::new(Kind::Busy, detail)
        };
        Ok(seen.ok_or_else(late)?.failures)
    }

    fn failures_of_bridge(&self, name: &str) -> Result<Vec<Failure>, Problem> {
        let bus = match name {
            "kafka" => Some(Bus::Kafka),
            "nats" => Some(Bus::Nats),
            _ => None,
        };
        let bridge = bus.and_then(|bus| self.node.bridges.get(bus));
        let none = || Problem::new(Kind::NotFound, format!("no bridge {name:?}"));
        Ok(bridge.ok_or_else(none)?.failures())
    }
}
