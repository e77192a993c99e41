//! Keys and secrets that change while the gateway runs: newcomers and their doors, those who lose theirs, and all others.

use super::receiver::{Receiver, Reply};
use super::worker::{Worker, introduced, open, runtime};
use crate::harness::{Gateway, PATIENCE, SocketIo, eventually};
use client::full::request;
use serde_json::json;
use std::net::SocketAddr;
use tonic::Code;

/// A key, and its entry.
type Key = (String, String);

fn key(name: &str) -> Key {
    identity::keys::generate(name, &[]).expect("a key")
}

/// `backend`: keys of the table.
fn config(operators: &[&Key], backend: &str) -> String {
    let operators: Vec<&str> = operators.iter().map(|key| key.1.as_str()).collect();
    format!(
        "profile = \"socket.io\"\n[server]\nshards = 2\n[admin]\napi_keys = {operators:?}\n\
         [workers]\nlisten = \"127.0.0.1:0\"\n[namespaces.\"/\"]\nbackend = \"kitchen\"\n[backends.kitchen]\n{backend}\n"
    )
}

fn workers_keys(keys: &[&Key]) -> String {
    let entries: Vec<&str> = keys.iter().map(|key| key.1.as_str()).collect();
    format!("rehome_after = \"60s\"\napi_keys = {entries:?}")
}

fn workers(gateway: &Gateway) -> SocketAddr {
    let log = gateway.log();
    let line = log.iter().find(|line| line.contains("\"listening\""));
    let line: serde_json::Value = serde_json::from_str(line.expect("a line")).expect("JSON");
    let workers = line["workers"].as_str().expect("an address");
    workers.parse().expect("an address")
}

/// How a worker with this key would fare.
fn attached(gateway: &Gateway, key: &Key) -> Result<(), Code> {
    let first = introduced("kitchen", "newcomer");
    let opened = runtime().block_on(open(workers(gateway), &key.0, first));
    opened.map(drop).map_err(|status| status.code())
}

/// The status of a call of an operator with this key.
fn asked(gateway: &Gateway, key: &Key) -> u16 {
    let header = format!("Authorization: Bearer {}\r\n", key.0);
    request(gateway.admin, "GET", "/v1/rooms", &header, "").status
}

#[test]
fn keys_that_an_operator_changed_needed_a_restart() {
    let [leaves, stays, comes] = ["leaves", "stays", "comes"].map(key);
    let [old, new] = ["old", "new"].map(key);
    let before = config(&[&old], &workers_keys(&[&leaves, &stays]));
    let gateway = Gateway::start(&before);
    let frozen = Worker::attach(workers(&gateway), &leaves.0, "a");
    let mut clients = vec![SocketIo::connect(gateway.addr)];
    assert_eq!(clients[0].expect("hello"), [json!(clients[0].sid)]);
    let worker = Worker::attach(workers(&gateway), &stays.0, "b");
    while worker.memory().connects.is_empty() {
        let mut client = SocketIo::connect(gateway.addr);
        client.expect("hello");
        clients.push(client);
    }
    // One of those that are expelled has an event that it has not handled.
    frozen.freeze();
    let expelled = Worker::attach(workers(&gateway), &leaves.0, "c");
    clients[0].emit(&json!(["count", 7]));
    let sent = || gateway.metric("sockeye_backend_events_total") >= 1.0;
    assert!(eventually(PATIENCE, sent));
    assert_eq!((asked(&gateway, &old), asked(&gateway, &new)), (200, 401));
    assert_eq!(attached(&gateway, &comes), Err(Code::Unauthenticated));

    let after = config(&[&new], &workers_keys(&[&stays, &comes]));
    let (applied, later) = gateway.reloaded(&after);
    assert_eq!(
        (applied.as_str(), later.as_str()),
        ("admin.api_keys,backends.kitchen.api_keys", "")
    );
    assert_eq!((asked(&gateway, &old), asked(&gateway, &new)), (401, 200));
    assert!(eventually(PATIENCE, || expelled.memory().fault.is_some()));
    let fault = expelled.memory().fault.clone().expect("a fault");
    assert_eq!(fault.code(), Code::Unauthenticated);
    assert!(
        fault.message().contains("backends.NAME.api_keys"),
        "{fault}"
    );
    let lost = r#"sockeye_backend_workers_lost_total{reason="expelled"}"#;
    assert_eq!(gateway.reaches(lost, 2.0), 2.0);
    assert_eq!(attached(&gateway, &leaves), Err(Code::Unauthenticated));
    // Its event is not lost, and the other worker has noticed nothing. The third may have had it for the moment until it was expelled, too.
    let handled = || {
        [&worker, &expelled].map(|one| one.memory().handled.first().map(|event| event.redelivered))
    };
    assert!(eventually(PATIENCE, || handled().contains(&Some(true))));
    assert!(!handled().contains(&Some(false)));
    for (at, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.ask(9, &json!(["echo", at])), json!([at]));
    }
    assert!(worker.memory().fault.is_none());
    assert_eq!(attached(&gateway, &comes), Ok(()));
}

/// Keys of workers were to go because the backend was to be called: they went at once, the endpoint came with the restart, and
/// between them nobody could attach.
#[test]
fn a_backend_lost_its_workers_before_it_had_its_endpoint() {
    let worker = key("worker");
    let with_keys = config(&[], &workers_keys(&[&worker]));
    let gateway = Gateway::start(&with_keys);
    let link = Worker::attach(workers(&gateway), &worker.0, "a");
    let later = gateway.reloaded(&config(
        &[],
        "url = \"https://shop.example/\"\nsecret = \"new\"",
    ));
    let waiting =
        ["api_keys", "rehome_after", "secret", "url"].map(|key| format!("backends.kitchen.{key}"));
    assert_eq!(later, (String::new(), waiting.join(",")));
    let without =
        "profile = \"socket.io\"\n[server]\nshards = 2\n[workers]\nlisten = \"127.0.0.1:0\"\n";
    let (applied, later) = gateway.reloaded(without);
    assert_eq!(applied, "");
    assert!(later.contains("backends.kitchen.api_keys"), "{later}");
    assert_eq!(attached(&gateway, &worker), Ok(()));
    assert!(link.memory().fault.is_none());
    let mut client = SocketIo::connect(gateway.addr);
    client.expect("hello");
}

#[test]
fn a_secret_that_an_operator_changed_needed_a_restart() {
    let receiver = Receiver::open(|_| Reply::empty());
    let with = |secrets: &str| {
        let addr = receiver.addr;
        let backend = format!("url = \"http://{addr}/\"\nprivate_addresses = true\n{secrets}");
        config(&[], &backend)
    };
    let gateway = Gateway::start(&with("secret = \"old\""));
    let sums = |event: &str| {
        let mut client = SocketIo::connect(gateway.addr);
        assert_eq!(client.ask(1, &json!([event])), json!([]));
        let told = receiver.told().into_iter();
        let mut told = told.filter(|told| told.events()[0]["event"] == event);
        let signature = told.next_back().expect("a request");
        let signature = signature.header("sockeye-signature").unwrap_or_default();
        signature.matches("v1=").count()
    };
    assert_eq!(sums("first"), 1);
    let (applied, later) = gateway.reloaded(&with("secret = \"new\"\nsecret_old = \"old\""));
    assert_eq!(
        applied,
        "backends.kitchen.secret,backends.kitchen.secret_old"
    );
    assert_eq!(later, "");
    assert_eq!(sums("second"), 2);
    gateway.reloaded(&with("secret = \"new\""));
    assert_eq!(sums("third"), 1);
    gateway.reloaded(&with(""));
    assert_eq!(sums("fourth"), 0);
}
