//! `POST /disconnect`: an operator puts out a user, a socket or a room. `/v1/disconnect` is what programs use.

use super::reply::reply;
use crate::api::{Api, Order, Whom};
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Extension, Router};
use identity::keys::Operator;
use rules::Wanted;
use serde_json::{Value, json};
use std::sync::Arc;

pub const BODY_BYTES_MAX: usize = 16 * 1024;

pub(crate) fn routes<S: Clone + Send + Sync + 'static>(api: &Arc<Api>) -> Router<S> {
    Router::new()
        .route("/disconnect", post(disconnect))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(Arc::clone(api))
}

async fn disconnect(
    State(api): State<Arc<Api>>,
    operator: Option<Extension<Operator>>,
    body: Bytes,
) -> Response {
    let Some(Extension(Operator(operator))) = operator else {
        return forbidden();
    };
    let order = match read(&body) {
        Ok(order) => order,
        Err(why) => return refusal(400, "INVALID_REQUEST", &why),
    };
    match api.order(&operator, None, order).await {
        Ok(_) => accepted(),
        Err(problem) => problem.into_response(),
    }
}

pub(super) fn accepted() -> Response {
    reply(202, json!({ "accepted": true }).to_string())
}

/// Calls that change something need a key, also where looking needs none.
fn forbidden() -> Response {
    refusal(403, "FORBIDDEN", "an API key is needed: set admin.api_keys")
}

fn refusal(status: u16, error: &str, why: &str) -> Response {
    reply(
        status,
        json!({ "error": error, "message": why }).to_string(),
    )
}

fn read(body: &[u8]) -> Result<Order, String> {
    let json: Value =
        serde_json::from_slice(body).map_err(|error| format!("it is no JSON: {error}"))?;
    let Value::Object(members) = json else {
        return Err("an object is needed, such as {\"uid\":\"ada\"}".to_owned());
    };
    let mut whom = Whom::anyone("/".to_owned(), false);
    let mut close = false;
    let mut named = 0;
    for (name, value) in members {
        match (name.as_str(), value) {
            ("uid", Value::String(uid)) if !uid.is_empty() => {
                named += 1;
                whom.users = Some(vec![uid]);
            }
            ("socket" | "room", Value::String(room)) if !room.is_empty() => {
                named += 1;
                whom.rooms = Some(vec![room]);
            }
            ("namespace", Value::String(namespace)) if namespace.starts_with('/') => {
                whom.namespace = namespace;
            }
            ("close", Value::Bool(word)) => close = word,
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
    match named {
        1 => Ok(Order {
            whom,
            all: Some(false),
            stored: false,
            wanted: Wanted::Disconnect { close },
        }),
        _ => Err("one of uid, socket and room is needed".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_names_one_target() {
        let order = read(br#"{"uid":"ada","close":true,"namespace":"/x"}"#).expect("order");
        assert_eq!(order.wanted, Wanted::Disconnect { close: true });
        assert_eq!(order.whom.namespace, "/x");
        assert_eq!(
            (order.whom.users, order.whom.rooms),
            (Some(vec!["ada".to_owned()]), None)
        );
        for room in ["room", "socket"] {
            let order = read(format!("{{\"{room}\":\"r\"}}").as_bytes()).expect("order");
            assert_eq!(order.wanted, Wanted::Disconnect { close: false });
            assert_eq!(order.whom.rooms, Some(vec!["r".to_owned()]));
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
