//! `/debug/` on the operators' listener: what is too large or too rare for metrics.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Router, extract::FromRef};
use hub::{LiveTrace, Question, Sight};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Shards that do not answer by then hang, which is worth knowing too.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Bytes by part of one shard.
#[derive(Clone, Debug)]
pub struct ShardParts {
    pub shard: u16,
    pub connections: usize,
    pub parts: Vec<(&'static str, usize)>,
}

/// The source of figures of memory. May wait.
pub trait Inspect: Send + Sync + std::fmt::Debug {
    /// Of the shards that answer in time.
    fn shards(&self, within: Duration) -> Vec<ShardParts>;
    /// How many shards there are.
    fn shard_count(&self) -> usize;
    /// Bytes of the control plane's parts.
    fn parts(&self) -> Vec<(&'static str, usize)>;
    /// The answers of the shards that answer in time.
    fn look(&self, question: &Question, within: Duration) -> Vec<Sight>;
    /// Shards tell this trace what passes, until it is over.
    fn trace(&self, trace: &Arc<LiveTrace>);
    /// What the allocator says of itself.
    fn allocator(&self) -> Vec<(&'static str, u64)>;
}

#[derive(Clone, Debug)]
pub struct Debugging {
    inspect: Arc<dyn Inspect>,
    /// One count at a time, however many ask.
    turn: Arc<Semaphore>,
}

impl Debugging {
    pub fn new(inspect: Arc<dyn Inspect>) -> Self {
        Debugging {
            inspect,
            turn: Arc::new(Semaphore::new(1)),
        }
    }

    pub(crate) fn source(&self) -> Arc<dyn Inspect> {
        Arc::clone(&self.inspect)
    }
}

pub(crate) fn routes<S>() -> Router<S>
where
    S: Clone + Send + Sync + 'static,
    Debugging: FromRef<S>,
{
    Router::new()
        .route("/debug/", get(index))
        .route("/debug/memory", get(memory))
}

async fn index() -> Html<&'static str> {
    Html(INDEX)
}

const INDEX: &str = "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Sockeye, debug</title>\n\
<style>body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:44rem;padding:0 1rem}dt{margin-top:1rem}</style>\n\
<h1>Sockeye</h1>\n<dl>\n\
<dt><a href=\"/debug/memory\">/debug/memory</a><dd>Bytes by part, for each shard and in total, as JSON. Counting takes the \
shards a few thousand slots a turn and holds up nobody.\n\
<dt><a href=\"/console/\">/console/</a><dd>The console: this node, its rooms and sessions, for people.\n\
<dt><a href=\"/metrics\">/metrics</a><dd>Everything that is counted, for Prometheus.\n\
<dt><a href=\"/health\">/health</a><dd>Whether the process lives.\n\
<dt><a href=\"/ready\">/ready</a><dd>Whether new clients should be sent here.\n</dl>\n";

async fn memory(State(debugging): State<Debugging>) -> Response {
    let Ok(turn) = debugging.turn.acquire_owned().await else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let counted = tokio::task::spawn_blocking(move || {
        let memory = count(&*debugging.inspect);
        drop(turn);
        memory
    });
    match counted.await {
        Ok(memory) => {
            let json = [(header::CONTENT_TYPE, "application/json")];
            (json, format!("{memory:#}\n")).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn count(inspect: &dyn Inspect) -> Value {
    let started = Instant::now();
    let shards = inspect.shards(ANSWER_TIMEOUT);
    let took_ms = started.elapsed().as_secs_f64() * 1e3;
    let mut total = Map::new();
    let add = |total: &mut Map<String, Value>, part: &str, bytes: usize| {
        let sum = total.get(part).and_then(Value::as_u64).unwrap_or_default();
        total.insert(part.to_owned(), (sum + bytes as u64).into());
    };
    for (part, bytes) in shards.iter().flat_map(|shard| &shard.parts) {
        add(&mut total, part, *bytes);
    }
    for (part, bytes) in inspect.parts() {
        add(&mut total, part, bytes);
    }
    let counted: u64 = total.values().filter_map(Value::as_u64).sum();
    let by_shard: Vec<Value> = shards.iter().map(shard_json).collect();
    let connections: usize = shards.iter().map(|shard| shard.connections).sum();
    let silent = inspect.shard_count().saturating_sub(shards.len());
    let allocator: Map<String, Value> = inspect
        .allocator()
        .into_iter()
        .map(|(name, bytes)| (name.to_owned(), bytes.into()))
        .collect();
    json!({
        "connections": connections,
        "resident_bytes": process::usage::Usage::read().resident_bytes,
        "counted_bytes": counted,
        "allocator": allocator,
        "total": total,
        "shards": by_shard,
        "shards_without_answer": silent,
        "counting_took_ms": took_ms,
    })
}

fn shard_json(shard: &ShardParts) -> Value {
    let parts: Map<String, Value> = shard
        .parts
        .iter()
        .map(|(part, bytes)| ((*part).to_owned(), (*bytes).into()))
        .collect();
    json!({ "shard": shard.shard, "connections": shard.connections, "parts": parts })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Two shards, one of which does not answer.
    #[derive(Debug)]
    pub(crate) struct Half;

    impl Inspect for Half {
        fn shards(&self, _: Duration) -> Vec<ShardParts> {
            vec![ShardParts {
                shard: 1,
                connections: 3,
                parts: vec![("rooms", 10), ("log", 1)],
            }]
        }
        fn shard_count(&self) -> usize {
            2
        }
        fn parts(&self) -> Vec<(&'static str, usize)> {
            vec![("log", 5)]
        }
        fn look(&self, _: &Question, _: Duration) -> Vec<Sight> {
            Vec::new()
        }
        fn trace(&self, _: &Arc<LiveTrace>) {}
        fn allocator(&self) -> Vec<(&'static str, u64)> {
            vec![("committed", 100)]
        }
    }

    #[test]
    fn parts_are_added_up_and_who_is_silent_is_told() {
        let memory = count(&Half);
        assert_eq!(memory["total"], json!({ "rooms": 10, "log": 6 }));
        assert_eq!(memory["counted_bytes"], 16);
        assert_eq!(memory["connections"], 3);
        assert_eq!(memory["shards_without_answer"], 1);
        assert_eq!(memory["shards"][0]["parts"]["rooms"], 10);
        assert_eq!(memory["allocator"]["committed"], 100);
        assert!(memory["resident_bytes"].as_u64() > Some(0));
    }
}
