//! The server API: programs without connections of their own, the real binary, and what clients see.

mod cluster;
mod first_service;
pub mod grpc;
mod keys;
mod lists;
mod once;
mod openapi;
mod orders;
mod page;
mod siege;

use crate::harness::{Gateway, Response};
use ::client::full::{SocketIo, request};
use serde_json::{Value, json};
use std::sync::LazyLock;

/// A key that allows everything, and its entry.
static KEY: LazyLock<(String, String)> = LazyLock::new(|| key("ops", &[]));

fn key(name: &str, allowed: &[&str]) -> (String, String) {
    let allowed: Vec<String> = allowed.iter().map(|word| (*word).to_owned()).collect();
    identity::keys::generate(name, &allowed).expect("a key")
}

fn config(more: &str) -> String {
    format!(
        "profile = \"socket.io\"\n[server]\nshards = 4\n[admin]\napi_keys = [{:?}]\n{more}\n",
        KEY.1
    )
}

fn gateway() -> Gateway {
    Gateway::start(&config(""))
}

/// Clients enough that several shards have some, all in a room.
fn members(node: &Gateway, room: &str, count: usize) -> Vec<SocketIo> {
    (0..count)
        .map(|_| {
            let mut client = SocketIo::websocket(node.addr, "/", json!({}));
            assert_eq!(client.ask("join", &[json!(room)]), [json!([room])]);
            client
        })
        .collect()
}

fn ids(clients: &[SocketIo]) -> Vec<String> {
    let mut ids: Vec<String> = clients.iter().map(|client| client.id.clone()).collect();
    ids.sort_unstable();
    ids
}

/// One call with more header lines (each ended); the answer and its body.
fn call_with(
    node: &Gateway,
    key: &str,
    headers: &str,
    method: &str,
    path: &str,
    body: &str,
) -> (Response, Value) {
    let headers = format!("Authorization: Bearer {key}\r\n{headers}");
    let response = request(node.admin, method, path, &headers, body);
    let body = serde_json::from_str(&response.body).unwrap_or_default();
    (response, body)
}

fn call(node: &Gateway, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let (response, body) = call_with(node, &KEY.0, "", method, path, &body);
    (response.status, body)
}

fn post(node: &Gateway, path: &str, body: &Value) -> (u16, Value) {
    call(node, "POST", path, body)
}

fn get(node: &Gateway, path: &str) -> Value {
    let (status, body) = call(node, "GET", path, &Value::Null);
    assert_eq!(status, 200, "{path}: {body}");
    body
}

fn accepted() -> (u16, Value) {
    (202, json!({"accepted": true, "everywhere": true}))
}
