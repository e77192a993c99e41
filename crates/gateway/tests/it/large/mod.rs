//! Large events and uploads on the real binary: what members get, what the store and the addresses do, and what strangers try.

mod downloads;
mod events;
mod s3;
mod siege;
mod upgrades;
mod uploads;

use crate::harness::token::{SECRET, token_with};
use crate::harness::{Gateway, PATIENCE, RawConn, Response, eventually};
use ::client::full::SocketIo;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Larger than the threshold of these tests.
const LARGE: usize = 20_000;

/// A key of the server API, and its entry.
static KEY: LazyLock<(String, String)> =
    LazyLock::new(|| identity::keys::generate("ops", &[]).expect("a key"));

/// `/`, `/b`: everything is allowed and large events are stored; `/refuse`, `/through`: they are refused and sent on.
fn config(folder: &Path, large: &str, more: &str) -> String {
    let spaces = [
        ("/", "store"),
        ("/b", "store"),
        ("/refuse", "refuse"),
        ("/through", "through"),
    ];
    let spaces = spaces.map(|(name, large)| {
        format!(
            "[namespaces.{name:?}]\nlarge = {large:?}\nclient_joins = true\ndefault.action = \"rooms\"\n"
        )
    });
    format!(
        "profile = \"socket.io\"\n[server]\nshards = 3\n[admin]\napi_keys = [{:?}]\n[auth]\nsecret = \"{SECRET}\"\nleeway = \"0s\"\n\
         [large]\nthreshold = \"8KiB\"\nfolder = {folder:?}\n{large}\n{}\n{more}\n",
        KEY.1,
        spaces.concat()
    )
}

/// A gateway and the folder of its store.
struct Rig {
    node: Gateway,
    folder: tempfile::TempDir,
}

fn rig(large: &str) -> Rig {
    let folder = tempfile::tempdir().expect("a folder");
    let node = Gateway::start(&config(folder.path(), large, ""));
    Rig { node, folder }
}

impl Rig {
    fn addr(&self) -> SocketAddr {
        self.node.addr
    }

    /// Bodies in the store; those on their way have `#` in their names.
    fn bodies(&self) -> Vec<PathBuf> {
        files(self.folder.path())
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let folders = std::fs::read_dir(folder).expect("the folder");
    let folders = folders.filter_map(Result::ok).map(|entry| entry.path());
    let inner = folders.filter_map(|path| std::fs::read_dir(path).ok());
    inner
        .flatten()
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .collect()
}

fn join(addr: SocketAddr, namespace: &str, room: &str) -> SocketIo {
    let mut client = SocketIo::websocket(addr, namespace, json!({}));
    assert_eq!(client.ask("join", &[json!(room)]), [json!([room])]);
    client
}

fn text(bytes: usize) -> String {
    "x".repeat(bytes)
}

/// GET of an address as members get it.
fn get(addr: SocketAddr, url: &str, headers: &str) -> Response {
    let request = format!("GET {url} HTTP/1.1\r\nHost: {addr}\r\n{headers}\r\n");
    RawConn::exchange(addr, request)
}

fn url(reference: &Value) -> String {
    reference["url"].as_str().expect("an address").to_owned()
}

/// The arguments of an event that is stored.
fn fetch(addr: SocketAddr, reference: &Value) -> Value {
    let response = get(addr, &url(reference), "");
    assert_eq!(response.status, 200, "{response:?}");
    assert_eq!(response.header("content-type"), Some("application/json"));
    serde_json::from_str(&response.body).expect("JSON")
}

/// The next event, which must be a reference to a stored one of this name.
fn reference(client: &mut SocketIo, event: &str) -> Value {
    let said = client.next();
    assert_eq!(said.name, "large_message", "{said:?}");
    let reference = said.args[0].clone();
    assert_eq!(
        (&reference["type"], &reference["event"]),
        (&json!("large_message"), &json!(event))
    );
    reference
}

/// The head of an upload.
fn upload_head(query: &str, token: &str, headers: &str) -> String {
    format!(
        "POST /upload?{query} HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {token}\r\n{headers}\r\n"
    )
}

/// An upload of these bytes, and the answer.
fn upload(addr: SocketAddr, query: &str, token: &str, body: &[u8]) -> (u16, Value) {
    let length = format!(
        "Content-Type: image/png\r\nContent-Length: {}\r\n",
        body.len()
    );
    let mut request = upload_head(query, token, &length).into_bytes();
    request.extend_from_slice(body);
    let response = RawConn::exchange(addr, request);
    let body = serde_json::from_str(&response.body).unwrap_or_default();
    (response.status, body)
}

/// A client of this user in a room.
fn member(addr: SocketAddr, user: &str, room: &str) -> (SocketIo, String) {
    let token = token_with(&["--uid", user]);
    let mut client = SocketIo::websocket(addr, "/", json!({ "token": token }));
    assert_eq!(client.ask("join", &[json!(room)]), [json!([room])]);
    (client, token)
}

/// Nothing is under way, and nothing is in the store.
fn settles_empty(rig: &Rig) {
    let settled = eventually(PATIENCE, || {
        rig.node.metric("sockeye_large_transfers") == 0.0 && rig.bodies().is_empty()
    });
    assert!(settled, "{:?}", rig.bodies());
}
