//! `POST /disconnect`: an operator puts out a user, a socket or a room.

use super::guard::Operator;
use super::reply;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::response::Response;
use axum::routing::post;
use axum::{Extension, Router};
use hub::{Letter, Target};
use serde_json::{Value, json};
use std::fmt;
use std::sync::Arc;

pub const BODY_BYTES_MAX: usize = 16 * 1024;

/// Hands an order to a shard, which tells all others.
#[derive(Clone)]
pub struct ToShards(Arc<dyn Fn(Letter) + Send + Sync>);

impl ToShards {
    pub fn new(send: impl Fn(Letter) + Send + Sync + 'static) -> Self {
        Self(Arc::new(send))
    }

    pub(super) fn send(&self, letter: Letter) {
        (self.0)(letter);
    }
}

impl fmt::Debug for ToShards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ToShards")
    }
}

pub(crate) fn routes<S: Clone + Send + Sync + 'static>(shards: ToShards) -> Router<S> {
    Router::new()
        .route("/disconnect", post(disconnect))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(shards)
}

/// Who is meant.
#[derive(Debug, PartialEq, Eq)]
struct Order {
    namespace: String,
    /// Rooms, of which a socket's id is one.
    rooms: Vec<String>,
    users: Vec<String>,
    /// The connection as well, not this namespace only.
    close: bool,
}

async fn disconnect(
    State(shards): State<ToShards>,
    operator: Option<Extension<Operator>>,
    body: Bytes,
) -> Response {
    let Some(Extension(Operator(operator))) = operator else {
        return forbidden();
    };
    let order = match read(&body) {
        Ok(order) => order,
        Err(why) => return invalid(&why),
    };
    tracing::info!(operator, namespace = order.namespace, rooms = ?order.rooms, users = ?order.users, close = order.close, "disconnect ordered");
    shards.send(letter(&order));
    accepted()
}

pub(super) fn accepted() -> Response {
    reply(202, json!({ "accepted": true }).to_string())
}

/// What changes something is for those with a key, also where looking needs none.
pub(super) fn forbidden() -> Response {
    refusal(403, "FORBIDDEN", "an API key is needed: set admin.api_keys")
}

pub(super) fn invalid(why: &str) -> Response {
    refusal(400, "INVALID_REQUEST", why)
}

pub(super) fn refusal(status: u16, error: &str, why: &str) -> Response {
    reply(
        status,
        json!({ "error": error, "message": why }).to_string(),
    )
}

fn letter(order: &Order) -> Letter {
    let rooms: Vec<&str> = order.rooms.iter().map(String::as_str).collect();
    let users: Vec<&str> = order.users.iter().map(String::as_str).collect();
    let target = Target {
        namespace: &order.namespace,
        rooms: &rooms,
        users: &users,
        except: &[],
    };
    Letter::disconnect(&target, order.close)
}

fn read(body: &[u8]) -> Result<Order, String> {
    let json: Value =
        serde_json::from_slice(body).map_err(|error| format!("it is no JSON: {error}"))?;
    let Value::Object(members) = json else {
        return Err("an object is needed, such as {\"uid\":\"ada\"}".to_owned());
    };
    let mut order = Order {
        namespace: "/".to_owned(),
        rooms: Vec::new(),
        users: Vec::new(),
        close: false,
    };
    for (name, value) in members {
        match (name.as_str(), value) {
            ("uid", Value::String(uid)) if !uid.is_empty() => order.users.push(uid),
            ("socket" | "room", Value::String(room)) if !room.is_empty() => order.rooms.push(room),
            ("namespace", Value::String(namespace)) if namespace.starts_with('/') => {
                order.namespace = namespace;
            }
            ("close", Value::Bool(close)) => order.close = close,
            ("uid" | "socket" | "room" | "namespace" | "close", value) => {
                return Err(format!("cannot use {value} as {name:?}"));
            }
            (name, _) => {
                return Err(format!(
                    "unknown member {name:?}; known: uid, socket, room, namespace, close"
                ));
            }
        }
    }
    // Without any it would mean everyone: that is what stopping the process is for.
    match order.rooms.len() + order.users.len() {
        1 => Ok(order),
        _ => Err("one of uid, socket and room is needed".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_names_one_target() {
        let order = read(br#"{"uid":"ada","close":true,"namespace":"/x"}"#).expect("order");
        let wanted = Order {
            namespace: "/x".to_owned(),
            rooms: Vec::new(),
            users: vec!["ada".to_owned()],
            close: true,
        };
        assert_eq!(order, wanted);
        for room in ["room", "socket"] {
            let order = read(format!("{{\"{room}\":\"r\"}}").as_bytes()).expect("order");
            assert_eq!((order.rooms, order.close), (vec!["r".to_owned()], false));
        }
        for wrong in [
            "",
            "[]",
            "{}",
            r#"{"close":true}"#,
            r#"{"uid":""}"#,
            r#"{"uid":7}"#,
            r#"{"uid":"a","room":"b"}"#,
            r#"{"uid":"a","namespace":"x"}"#,
            r#"{"uid":"a","all":true}"#,
            r#"{"uid":"a","close":"yes"}"#,
        ] {
            assert!(read(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
