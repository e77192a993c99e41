//! `POST /v1/emit`: a program without a connection of its own publishes an event.

use super::disconnect::{ToShards, accepted, forbidden, invalid};
use super::guard::Operator;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::response::Response;
use axum::routing::post;
use axum::{Extension, Router};
use hub::{Emit, Letter, Target};
use serde_json::Value;

/// One event.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;

pub(crate) fn routes<S: Clone + Send + Sync + 'static>(shards: ToShards) -> Router<S> {
    Router::new()
        .route("/v1/emit", post(emit))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(shards)
}

/// What is asked for.
#[derive(Debug, Default, PartialEq)]
struct Wanted {
    namespace: String,
    rooms: Vec<String>,
    users: Vec<String>,
    except: Vec<String>,
    event: String,
    args: Vec<Value>,
    volatile: bool,
}

async fn emit(
    State(shards): State<ToShards>,
    operator: Option<Extension<Operator>>,
    body: Bytes,
) -> Response {
    if operator.is_none() {
        return forbidden();
    }
    match read(&body) {
        Ok(wanted) => {
            shards.send(letter(&wanted));
            accepted()
        }
        Err(why) => invalid(&why),
    }
}

fn letter(wanted: &Wanted) -> Letter {
    let [rooms, users, except] = [&wanted.rooms, &wanted.users, &wanted.except]
        .map(|names| names.iter().map(String::as_str).collect::<Vec<_>>());
    let args: Vec<String> = wanted.args.iter().map(Value::to_string).collect();
    let to = Target {
        namespace: &wanted.namespace,
        rooms: &rooms,
        users: &users,
        except: &except,
    };
    let event = Emit {
        name: &wanted.event,
        args: &args.join(","),
        volatile: wanted.volatile,
        ..Emit::default()
    };
    Letter::emit(&to, &event)
}

fn read(body: &[u8]) -> Result<Wanted, String> {
    let json: Value =
        serde_json::from_slice(body).map_err(|error| format!("it is no JSON: {error}"))?;
    let Value::Object(members) = json else {
        return Err(
            "an object is needed, such as {\"event\":\"news\",\"args\":[1],\"rooms\":[\"a\"]}"
                .to_owned(),
        );
    };
    let mut wanted = Wanted {
        namespace: "/".to_owned(),
        ..Wanted::default()
    };
    for (name, value) in members {
        match (name.as_str(), value) {
            ("event", Value::String(event)) if !event.is_empty() => wanted.event = event,
            ("args", Value::Array(args)) => wanted.args = args,
            ("volatile", Value::Bool(volatile)) => wanted.volatile = volatile,
            ("namespace", Value::String(namespace)) if namespace.starts_with('/') => {
                wanted.namespace = namespace;
            }
            ("rooms", value) => wanted.rooms = names("rooms", &value)?,
            ("users", value) => wanted.users = names("users", &value)?,
            ("except", value) => wanted.except = names("except", &value)?,
            ("event" | "args" | "volatile" | "namespace", value) => {
                return Err(format!("cannot use {value} as {name:?}"));
            }
            (name, _) => {
                return Err(format!(
                    "unknown member {name:?}; known: event, args, rooms, users, except, namespace, volatile"
                ));
            }
        }
    }
    if wanted.event.is_empty() {
        return Err("event is needed: the name of what is sent".to_owned());
    }
    if hub::is_reserved(&wanted.event) {
        return Err(format!(
            "{:?} is reserved: only the libraries send it",
            wanted.event
        ));
    }
    Ok(wanted)
}

/// A list of names that are not empty.
fn names(member: &str, value: &Value) -> Result<Vec<String>, String> {
    let name = |value: &Value| Some(value.as_str().filter(|name| !name.is_empty())?.to_owned());
    let names = value
        .as_array()
        .and_then(|list| list.iter().map(name).collect());
    names.ok_or_else(|| format!("cannot use {value} as {member:?}: a list of names is needed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_names_itself_and_its_receivers() {
        let text = br#"{"event":"news","args":[1,{"a":2}],"rooms":["a"],"users":["ann"],"except":["x"],"namespace":"/n","volatile":true}"#;
        let wanted = read(text).expect("an event");
        assert_eq!((&*wanted.event, &*wanted.namespace), ("news", "/n"));
        assert_eq!((wanted.args.len(), wanted.volatile), (2, true));
        assert_eq!(
            [wanted.rooms, wanted.users, wanted.except].concat(),
            ["a", "ann", "x"]
        );
        for wrong in [
            "",
            "[]",
            "{}",
            r#"{"event":""}"#,
            r#"{"event":"connect"}"#,
            r#"{"event":"a","rooms":"b"}"#,
            r#"{"event":"a","rooms":[""]}"#,
            r#"{"event":"a","args":1}"#,
            r#"{"event":"a","all":true}"#,
        ] {
            assert!(read(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
