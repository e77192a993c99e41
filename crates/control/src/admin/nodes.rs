//! `GET /v1/nodes`: the nodes of the cluster. `POST /v1/nodes/{number}/drain`: one of them sends its clients away.

use super::disconnect::accepted;
use super::guard::Operator;
use super::reply;
use crate::api::http;
use crate::api::problem::{Kind, Problem};
use crate::cluster::card::{Card, sessions, unix_seconds};
use crate::cluster::roster::{Roster, Row};
use crate::cluster::{Member, Order};
use crate::health::Readiness;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use hub::metrics::Cells;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;

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

    fn rows(&self) -> Vec<Row> {
        let own = Row {
            number: self.me,
            card: Card {
                sessions: sessions(&self.shards, &self.readiness),
                state: self.readiness.word().to_owned(),
                ..self.card.clone()
            },
            heard: true,
        };
        let others = self.others.as_ref().map(|(roster, _)| roster.rows());
        let mut rows: Vec<Row> = others.into_iter().flatten().chain([own]).collect();
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

pub(crate) fn routes<S: Clone + Send + Sync + 'static>(nodes: Nodes) -> Router<S> {
    Router::new()
        .route("/v1/nodes", get(list))
        .route("/v1/nodes/{number}/drain", post(drain))
        .method_not_allowed_fallback(http::wrong_method)
        .with_state(nodes)
}

async fn list(State(nodes): State<Nodes>) -> Response {
    let now_s = unix_seconds();
    let rows: Vec<Value> = nodes.rows().iter().map(|row| line(row, now_s)).collect();
    reply(200, json!({ "nodes": rows }).to_string())
}

fn line(row: &Row, now_s: u64) -> Value {
    let mut line = row.card.json();
    line["number"] = row.number.into();
    line["age_seconds"] = now_s.saturating_sub(row.card.started_s).into();
    if !row.heard {
        // It has a number, and its heartbeats do not come.
        line["state"] = "silent".into();
    }
    line
}

async fn drain(
    State(nodes): State<Nodes>,
    operator: Option<Extension<Operator>>,
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
    match nodes.drain(number) {
        true => accepted(),
        false => {
            let detail = format!("there is no node {number}: GET /v1/nodes lists them");
            Problem::new(Kind::NotFound, detail).into_response()
        }
    }
}
