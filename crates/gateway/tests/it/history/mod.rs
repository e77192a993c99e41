//! What rooms said, stored and read on the real binary: by programs, by members, after a restart, over nodes, and without a store that
//! answers.

mod lasting;
mod nodes;
mod quotas;
mod reading;

use crate::harness::{Gateway, PATIENCE, eventually};
use ::client::full::{SocketIo, request};
use serde_json::{Value, json};
use std::sync::LazyLock;

const SECRET: &str = "a-secret-of-more-than-thirty-two-bytes";

/// A key of the server API that allows everything, and its entry.
static KEY: LazyLock<(String, String)> =
    LazyLock::new(|| identity::keys::generate("ops", &[]).expect("a key"));

/// `/`: members say `say` in the rooms that they name. All rooms but `off-…` are stored.
pub fn config(history: &str, room: &str, more: &str) -> String {
    format!(
        "profile = \"socket.io\"\n[server]\nshards = 2\n[admin]\napi_rate = \"100000/s\"\napi_keys = [{:?}]\n\
         [history]\n{history}\n\
         [namespaces.\"/\"]\nclient_joins = true\n\
         [namespaces.\"/\".history]\nstored = true\nrooms = [\"on-*\"]\nreaders = \"members\"\n{room}\n\
         [namespaces.\"/\".events.say]\naction = \"rooms\"\nroom_field = \"room\"\necho = true\nhistory = true\n\
         [namespaces.\"/\".events.hint]\naction = \"rooms\"\nroom_field = \"room\"\necho = true\n{more}\n",
        KEY.1
    )
}

fn call(node: &Gateway, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    let headers = format!("Authorization: Bearer {}\r\n", KEY.0);
    let response = request(node.admin, method, path, &headers, &body);
    let body = serde_json::from_str(&response.body).unwrap_or_default();
    (response.status, body)
}

/// Whether the store is there.
pub fn answers(node: &Gateway, room: &str) -> bool {
    let path = format!("/v1/history?room={room}&limit=1");
    call(node, "GET", &path, &Value::Null).0 == 200
}

/// A page of `GET /v1/history`.
fn page(node: &Gateway, query: &str) -> Value {
    let (status, body) = call(node, "GET", &format!("/v1/history?{query}"), &Value::Null);
    assert_eq!(status, 200, "{query}: {body}");
    body
}

/// The numbers that the events of a page bear.
fn numbers(page: &Value) -> Vec<u64> {
    let events = page["events"].as_array().expect("events");
    let number = |event: &Value| event["args"][0]["n"].as_u64().expect("a number");
    events.iter().map(number).collect()
}

/// All that is stored of a room, oldest first.
pub fn all(node: &Gateway, room: &str) -> Vec<u64> {
    let (mut read, mut after) = (Vec::new(), "0".to_owned());
    loop {
        let page = page(node, &format!("room={room}&limit=100&after={after}"));
        read.extend(numbers(&page));
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => return read,
        }
    }
}

/// Waits until it is so.
pub fn soon(what: &str, is_so: impl FnMut() -> bool) {
    assert!(eventually(PATIENCE, is_so), "waited in vain: {what}");
}

pub fn join(node: &Gateway, room: &str) -> SocketIo {
    let mut client = SocketIo::websocket(node.addr, "/", json!({}));
    assert_eq!(client.ask("join", &[json!(room)]), [json!([room])]);
    client
}

/// One event of a client, with the receipt of the gateway.
pub fn say(client: &mut SocketIo, room: &str, n: u64) {
    client.emit("say", &[json!({"room": room, "n": n})]);
    let heard = client.next_named("say");
    assert_eq!(heard.args[0]["n"], n);
}

/// One event of a program, stored before the answer.
fn publish(node: &Gateway, room: &str, n: u64) -> (u16, Value) {
    let event =
        json!({"event": "say", "rooms": [room], "args": [{"room": room, "n": n}], "stored": true});
    call(node, "POST", "/v1/emit", &event)
}

fn is_stored() -> (u16, Value) {
    (
        202,
        json!({"accepted": true, "everywhere": true, "stored": true}),
    )
}
