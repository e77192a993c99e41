//! `GET /v1/nodes`: the nodes of the cluster. `POST /v1/nodes/{number}/drain`: one of them sends its clients away. `/v1/nodes/rebalance`:
//! those that have too many send some elsewhere.

use super::rebalance::{Run, Share, shares};
use super::reply::{accepted, reply};
use crate::api::http::{self, Called, Problems, Query};
use crate::api::problem::{Details, Kind, Problem};
use crate::inside::audit::Audit;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use hub::metrics::Cells;
use identity::keys::Operator;
use nodes::card::{Card, sessions, unix_seconds};
use nodes::roster::{Roster, Row, Way};
use nodes::{Member, Order};
use process::health::Readiness;
use process::moving::{Moving, Wish};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::MissedTickBehavior;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// How often it looks how far the work of a wish is, and, where there are other nodes, whether they are to be told something.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// A client that never pauses has so long before it is sent elsewhere.
const PATIENCE: Duration = Duration::from_secs(2);
/// Sessions of all nodes together that go elsewhere in a second, if nobody says how many.
const PER_SECOND: u64 = 500;
const PER_SECOND_MAX: u64 = 100_000;

/// The nodes as this one knows them.
#[derive(Clone, Debug)]
pub struct Nodes {
    me: u16,
    card: Card,
    shards: Arc<[Arc<Cells>]>,
    readiness: Readiness,
    /// Without it this node is alone.
    others: Option<(Arc<Roster>, UnboundedSender<Order>)>,
}

impl Nodes {
    /// A node without others.
    pub fn alone(me: u16, card: Card, shards: Arc<[Arc<Cells>]>, readiness: Readiness) -> Self {
        Self {
            me,
            card,
            shards,
            readiness,
            others: None,
        }
    }

    pub fn of(member: &Member, shards: Arc<[Arc<Cells>]>, readiness: Readiness) -> Self {
        let others = Some((Arc::clone(member.roster()), member.orders()));
        Self {
            others,
            ..Self::alone(member.number(), member.card().clone(), shards, readiness)
        }
    }

    /// All clients of this node are gone, and its shards have ended.
    pub(crate) fn is_drained(&self) -> bool {
        self.readiness.is_drained()
    }

    /// The node that answers.
    pub(crate) fn me(&self) -> Row {
        Row {
            number: self.me,
            card: Card {
                sessions: sessions(&self.shards, &self.readiness),
                state: self.readiness.word().to_owned(),
                leaving: self.moving().leaving(),
                upgrading: self.readiness.upgrades().are_under_way(),
                ..self.card.clone()
            },
            heard: true,
        }
    }

    /// How this one hears the others; `None`: it has no cluster, or has just begun.
    pub(crate) fn way(&self) -> Option<Way> {
        let (roster, _) = self.others.as_ref()?;
        roster.way()
    }

    /// All nodes of the cluster but the one that answers.
    pub(crate) fn others(&self) -> Vec<Row> {
        let others = self.others.as_ref().map(|(roster, _)| roster.rows());
        others.unwrap_or_default()
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows = self.others();
        rows.push(self.me());
        rows.sort_by_key(|row| row.number);
        rows
    }

    pub(crate) fn moving(&self) -> &Moving {
        self.readiness.moving()
    }

    /// Sessions that were sent away so far.
    fn sent_away(&self) -> u64 {
        let of_shard = |cells: &Arc<Cells>| {
            let counts = [&cells.dismissed, &cells.dismissed_busy];
            counts
                .map(|count| count.load(Ordering::Relaxed))
                .iter()
                .sum::<u64>()
        };
        self.shards.iter().map(of_shard).sum()
    }

    /// Passes a wish about a node's sessions on to that node.
    fn ask(&self, node: u16, wish: Wish) {
        match &self.others {
            Some((_, orders)) if node != self.me => {
                // It fails only when this node leaves its cluster.
                let _ = orders.send(Order::Rebalance(node, wish));
            }
            _ => self.moving().ask(wish),
        }
    }

    /// Carries out what is wished of this node's sessions, as long as the runtime runs. `thin` closes so many within a time, each in a
    /// pause of its client, and none of those any more that it was told before.
    pub async fn serve_wishes(self, thin: impl Fn(u64, Duration, Duration) + Send) {
        let mut run: Option<Run> = None;
        let mut upgrading = false;
        let mut ticks = tokio::time::interval(LOOK_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // Alone and with nothing under way, there is nothing to look at.
            let rests = run.is_none() && self.others.is_none();
            tokio::select! {
                _ = ticks.tick(), if !rests => {}
                () = self.moving().asked() => {}
            }
            let upgrades = self.readiness.upgrades().are_under_way();
            if std::mem::replace(&mut upgrading, upgrades) != upgrades {
                self.tell_others();
            }
            let gone = self.sent_away();
            match (self.moving().take_wish(), &run) {
                (Some(Wish::Rebalance { .. }), Some(_)) => {
                    tracing::warn!(
                        "another rebalance is under way: this one is not carried out here"
                    );
                }
                (Some(Wish::Rebalance { count, per_second }), None)
                    if self.readiness.is_ready() =>
                {
                    let began = Run::new(
                        (count, per_second),
                        Instant::now(),
                        self.me().card.sessions,
                        gone,
                    );
                    thin(count, began.window(), PATIENCE);
                    tracing::info!(
                        count,
                        per_second,
                        "rebalance: sessions are sent to other nodes"
                    );
                    run = Some(began);
                    self.moving().set_leaving(count);
                    self.tell_others();
                }
                (Some(Wish::Stop), Some(stopped)) => {
                    thin(0, Duration::ZERO, Duration::ZERO);
                    tracing::info!(left = stopped.left(gone), "rebalance: stopped");
                    run = None;
                    self.moving().set_leaving(0);
                    self.tell_others();
                }
                _ => {}
            }
            let Some(running) = &run else {
                continue;
            };
            self.moving().set_leaving(running.left(gone).max(1));
            let drains = !self.readiness.is_ready();
            if drains || running.is_over(gone, self.me().card.sessions, PATIENCE) {
                if !drains {
                    thin(0, Duration::ZERO, Duration::ZERO);
                }
                tracing::info!(left = running.left(gone), "rebalance: done");
                run = None;
                self.moving().set_leaving(0);
                self.tell_others();
            }
        }
    }

    /// Others read the present state of this node.
    fn tell_others(&self) {
        if let Some((_, orders)) = &self.others {
            let _ = orders.send(Order::Renew);
        }
    }

    /// `false`: there is no such node.
    fn drain(&self, node: u16) -> bool {
        if node == self.me {
            self.readiness.ask_to_drain();
            return true;
        }
        let Some((roster, orders)) = &self.others else {
            return false;
        };
        let is_there = roster
            .rows()
            .iter()
            .any(|row| row.number == node && row.heard);
        is_there && orders.send(Order::Drain(node)).is_ok()
    }
}

pub(crate) fn routes<S: Clone + Send + Sync + 'static>(
    nodes: Nodes,
    audit: Arc<Audit>,
) -> Router<S> {
    let router: Router<Nodes> = described().into();
    router
        .method_not_allowed_fallback(http::wrong_method)
        .layer(Extension(audit))
        .with_state(nodes)
}

/// The paths, and their part of the document of the server API.
pub(crate) fn described() -> OpenApiRouter<Nodes> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(drain))
        .routes(routes!(rebalance, stop_rebalance))
}

/// The nodes that this one knows, itself included.
#[derive(Serialize, ToSchema)]
struct NodeList {
    nodes: Vec<NodeLine>,
}

/// The node has been told.
#[derive(ToSchema)]
#[expect(dead_code, reason = "the member is the document's")]
struct Draining {
    /// Always `true`.
    accepted: bool,
}

#[derive(Serialize, ToSchema)]
struct NodeLine {
    number: u16,
    /// Of its machine or pod.
    name: String,
    /// Another one after each start.
    life: u64,
    version: String,
    /// Address for connections that other nodes relay; `null`: it takes none.
    relay: Option<String>,
    /// Seconds since 1970.
    started: u64,
    age_seconds: u64,
    /// At most 5 s old.
    sessions: u64,
    /// `silent`: it has a number, and its heartbeats do not come.
    state: String,
    /// Sessions that are still to go to other nodes: a rebalance is under way.
    leaving: u64,
    /// Another process is started for this node, or takes over: `sockeye upgrade`.
    upgrading: bool,
}

impl NodeLine {
    fn of(row: &Row, now_s: u64) -> Self {
        let card = &row.card;
        let state = if row.heard { &card.state } else { "silent" };
        Self {
            number: row.number,
            name: card.name.clone(),
            life: card.life,
            version: card.version.clone(),
            relay: card.relay.map(|address| address.to_string()),
            started: card.started_s,
            age_seconds: now_s.saturating_sub(card.started_s),
            sessions: card.sessions,
            state: state.to_owned(),
            leaving: card.leaving,
            upgrading: card.upgrading,
        }
    }
}

/// The nodes of the cluster
#[utoipa::path(get, path = "/v1/nodes",
    responses((status = 200, description = "The nodes as this one knows them.", body = NodeList), Problems))]
async fn list(State(nodes): State<Nodes>) -> Response {
    let now_s = unix_seconds();
    let rows = nodes.rows();
    let nodes = rows.iter().map(|row| NodeLine::of(row, now_s)).collect();
    let list = serde_json::to_string(&NodeList { nodes });
    reply(200, list.unwrap_or_default())
}

/// Send the clients of a node away
#[utoipa::path(post, path = "/v1/nodes/{number}/drain",
    params(("number" = u16, Path, description = "A number of `/v1/nodes`.")),
    responses(
        (status = 202, description = "It is told to.", body = Draining),
        (status = 404, description = "There is no such node.", body = Details, content_type = "application/problem+json"),
        Problems))]
async fn drain(
    State(nodes): State<Nodes>,
    operator: Option<Extension<Operator>>,
    Extension(audit): Extension<Arc<Audit>>,
    number: Result<Path<u16>, PathRejection>,
) -> Response {
    let Some(Extension(Operator(operator))) = operator else {
        return Problem::no_keys().into_response();
    };
    let Ok(Path(number)) = number else {
        let detail = "the number of a node is needed: GET /v1/nodes lists them";
        return Problem::field("number", detail).into_response();
    };
    tracing::info!(operator = operator.name(), node = number, "drain ordered");
    let done = match nodes.drain(number) {
        true => Ok(()),
        false => Err(format!(
            "there is no node {number}: GET /v1/nodes lists them"
        )),
    };
    let of = format!("node {number}");
    let noted = audit.begin(&operator, ("drain", None), &of);
    audit.end(noted, done.clone());
    match done {
        Ok(()) => accepted(),
        Err(detail) => Problem::new(Kind::NotFound, detail).into_response(),
    }
}

/// What is done so that the nodes have equally many sessions.
#[derive(Serialize, ToSchema)]
struct Rebalance {
    /// The nodes are told; `false`: this was only the plan.
    accepted: bool,
    nodes: Vec<Share>,
}

/// Even out the sessions of the nodes
///
/// Nodes that take clients and have more than 5 % above the mean close what they have too many, so that those clients come back by way of
/// the balancer: clients first that can come back to what they missed, otherwise of chance, each in a pause. A balancer that sends every
/// client to the same node again makes this of no use.
#[utoipa::path(post, path = "/v1/nodes/rebalance",
    params(
        ("rate" = Option<u64>, Query, minimum = 1, maximum = 100_000, description = "So many sessions of all nodes in a second; 500 if it is left out."),
        ("dry_run" = Option<bool>, Query, description = "Only the plan; `false` if it is left out."),
    ),
    responses(
        (status = 200, description = "The plan.", body = Rebalance),
        (status = 202, description = "The nodes are told to.", body = Rebalance),
        (status = 409, description = "Another rebalance is under way.", body = Details, content_type = "application/problem+json"),
        Problems))]
async fn rebalance(
    State(nodes): State<Nodes>,
    operator: Option<Extension<Operator>>,
    Extension(audit): Extension<Arc<Audit>>,
    RawQuery(query): RawQuery,
) -> Called {
    let Some(Extension(Operator(operator))) = operator else {
        return Err(Problem::no_keys());
    };
    let query = Query::read(query.as_deref(), &["rate", "dry_run"])?;
    let per_second = query.parsed("rate", "a whole number")?;
    let per_second = per_second.unwrap_or(PER_SECOND);
    if !(1..=PER_SECOND_MAX).contains(&per_second) {
        let detail = format!("{per_second} is not between 1 and {PER_SECOND_MAX}");
        return Err(Problem::field("rate", detail));
    }
    let is_dry = query.parsed("dry_run", "true or false")?.unwrap_or(false);
    let rows = nodes.rows();
    let plan = Rebalance {
        accepted: !is_dry,
        nodes: shares(&rows, per_second),
    };
    if is_dry {
        return Ok(reply(200, serde_json::to_string(&plan).unwrap_or_default()));
    }
    if let Some(busy) = rows.iter().find(|row| row.heard && row.card.leaving > 0) {
        let detail = format!(
            "node {} still sends {} sessions elsewhere: wait, or stop it by DELETE /v1/nodes/rebalance",
            busy.number, busy.card.leaving
        );
        return Err(Problem::new(Kind::Conflict, detail));
    }
    tracing::info!(operator = operator.name(), per_second, "rebalance ordered");
    let noted = audit.begin(&operator, ("rebalance", None), "all nodes");
    for (node, wish) in plan.nodes.iter().filter_map(Share::wish) {
        nodes.ask(node, wish);
    }
    audit.end(noted, Ok(()));
    Ok(reply(202, serde_json::to_string(&plan).unwrap_or_default()))
}

/// Stop evening out
///
/// Sessions that have not gone yet stay where they are.
#[utoipa::path(delete, path = "/v1/nodes/rebalance",
    responses((status = 202, description = "The nodes are told to.", body = Draining), Problems))]
async fn stop_rebalance(
    State(nodes): State<Nodes>,
    operator: Option<Extension<Operator>>,
    Extension(audit): Extension<Arc<Audit>>,
) -> Called {
    let Some(Extension(Operator(operator))) = operator else {
        return Err(Problem::no_keys());
    };
    tracing::info!(operator = operator.name(), "end of the rebalance ordered");
    let noted = audit.begin(&operator, ("stop rebalance", None), "all nodes");
    for row in nodes.rows().iter().filter(|row| row.heard) {
        nodes.ask(row.number, Wish::Stop);
    }
    audit.end(noted, Ok(()));
    Ok(accepted())
}
