//! `GET /v1/nodes`: the nodes of the cluster. `POST /v1/nodes/{number}/drain`: one of them sends its clients away.

use super::disconnect::accepted;
use super::keys::Operator;
use super::reply::reply;
use crate::api::http::{self, Problems};
use crate::api::problem::{Details, Kind, Problem};
use crate::cluster::card::{Card, sessions, unix_seconds};
use crate::cluster::roster::{Roster, Row};
use crate::cluster::{Member, Order};
use crate::health::Readiness;
use crate::inside::audit::Audit;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use hub::metrics::Cells;
use serde::Serialize;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

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
                ..self.card.clone()
            },
            heard: true,
        }
    }

    /// The other nodes that this one knows.
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
