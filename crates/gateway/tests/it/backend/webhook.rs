//! A backend that is called: the real binary, an HTTP server that is not the gateway's, and what both and clients see while it
//! answers, refuses, fails and is away.

use super::receiver::{Receiver, Reply, Told};
use crate::harness::{Gateway, PATIENCE, SocketIo, eventually};
use crate::tls::pki::Pki;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use servers::{Redis, free_addr};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// A gateway whose main namespace is served by an endpoint. `more`: keys of the backend.
fn gateway(addr: SocketAddr, more: &str) -> Gateway {
    let config = format!(
        "[server]\nshards = 4\n[namespaces.\"/\"]\nbackend = \"shop\"\n\
         [namespaces.\"/\".events.local]\naction = \"reply\"\n\
         [backends.shop]\nurl = \"http://{addr}/hook?a=1\"\nprivate_addresses = true\n{more}\n"
    );
    Gateway::start_with(&config, &["--profile", "socket.io"])
}

/// The logic of a small shop.
fn shop(told: &Told) -> Reply {
    let events = told.events();
    let event = &events[0];
    let socket = &event["socket"];
    match (event["type"].as_str(), event["event"].as_str()) {
        (Some("connect"), _) if event["auth"]["bad"] == true => {
            let refuse = json!({"refuse": {"message": "closed", "data": {"until": 9}}});
            Reply::json(&json!({"commands": [refuse]}))
        }
        (Some("connect"), _) => Reply::json(&json!({"commands": [
            {"join": {"sockets": [socket], "join": ["shop"]}},
            {"emit": {"sockets": [socket], "event": "hello", "args": [socket]}},
        ]})),
        (_, Some("echo")) => Reply::json(&json!({"commands": [{"ack": {
            "args": event["args"],
            "attachments": event["attachments"].as_array().cloned().unwrap_or_default(),
        }}]})),
        (_, Some("news")) => Reply::json(&json!({"commands": [
            {"emit": {"rooms": ["shop"], "event": "news", "args": event["args"]}},
        ]})),
        (_, Some("kick")) => Reply::json(&json!({"commands": [
            {"disconnect": {"sockets": [socket]}},
        ]})),
        (_, Some("wrong")) => Reply::json(&json!({"commands": [{"emti": {}}]})),
        (_, Some("long")) => Reply::json(&json!({"commands": [], "x": "y".repeat(70_000)})),
        (_, Some("away")) => Reply(302, "Location: http://127.0.0.1:1/\r\n", String::new()),
        _ => Reply::empty(),
    }
}

fn client(gateway: &Gateway) -> SocketIo {
    let mut client = SocketIo::connect(gateway.addr);
    assert_eq!(client.expect("hello"), [json!(client.sid)]);
    client
}

#[test]
fn an_endpoint_is_the_logic_of_a_namespace() {
    let receiver = Receiver::open(shop);
    let gateway = gateway(receiver.addr, "");
    let mut refused = SocketIo::open(gateway.addr);
    refused.send(r#"40{"bad":true}"#);
    let reply = refused.packet();
    assert_eq!(reply, r#"44{"message":"closed","data":{"until":9}}"#);
    let (mut first, mut second) = (client(&gateway), client(&gateway));
    let said = json!(["echo", 1.5, {"a": [null, "\u{1f980}"]}]);
    assert_eq!(
        first.ask(1, &said),
        json!([1.5, {"a": [null, "\u{1f980}"]}])
    );
    assert_eq!(first.ask(2, &json!(["local", "x"])), json!(["x"]));
    // An answer without a word acks with nothing.
    assert_eq!(first.ask(3, &json!(["quiet"])), json!([]));
    first.emit(&json!(["news", "fish"]));
    assert_eq!(first.expect("news"), [json!("fish")]);
    assert_eq!(second.expect("news"), [json!("fish")]);
    let connect = receiver.heard("connect");
    assert_eq!(connect["address"], "127.0.0.1");
    assert_eq!(connect["namespace"], "/");
    assert_eq!(connect["sequence"], 1);
    let headers = connect["headers"].as_array().expect("headers");
    let upgrade = json!("upgrade");
    assert!(headers.iter().any(|header| {
        header[0]
            .as_str()
            .is_some_and(|name| name.eq_ignore_ascii_case("upgrade"))
            && header[1] != upgrade
    }));
    let told = receiver.told();
    assert_eq!(told[0].path, "/hook?a=1");
    let id = told[0].header("sockeye-event-id").expect("an id");
    assert_eq!(told[0].events()[0]["id"], id);
    second.emit(&json!(["kick"]));
    assert_eq!(second.packet(), "41");
    let gone = receiver.heard("disconnected");
    assert_eq!(gone["socket"], second.sid.as_str());
    assert_eq!(gone["reason"], "server namespace disconnect");
    assert!(
        gone["rooms"]
            .as_array()
            .expect("rooms")
            .contains(&json!("shop"))
    );
}

#[test]
fn events_that_nobody_waits_for_go_together_and_in_order() {
    let receiver = Receiver::open(shop);
    let gateway = gateway(receiver.addr, "batch_max = 30");
    let mut clients = [client(&gateway), client(&gateway)];
    for number in 0..100 {
        for client in &mut clients {
            client.emit(&json!(["note", number]));
        }
    }
    let notes = |socket: &str| {
        let all = receiver.events().into_iter();
        let own = all.filter(|event| event["event"] == "note" && event["socket"] == socket);
        own.collect::<Vec<Value>>()
    };
    for client in &clients {
        assert!(eventually(PATIENCE, || notes(&client.sid).len() == 100));
        for (at, note) in notes(&client.sid).iter().enumerate() {
            assert_eq!(note["args"], json!([at]));
            assert_eq!(note["sequence"], json!(at + 2));
        }
    }
    let sizes = receiver.told();
    let sizes = sizes.iter().map(|told| told.events().len());
    let largest = sizes.max().expect("a request");
    assert!((2..=30).contains(&largest), "{largest} events in a request");
}

#[test]
fn an_answer_that_can_not_be_used_does_nothing_and_the_client_is_told() {
    let receiver = Receiver::open(shop);
    let gateway = gateway(receiver.addr, "");
    let mut client = client(&gateway);
    for (at, event) in ["wrong", "long", "away"].into_iter().enumerate() {
        let answer = client.ask(at as u64, &json!([event]));
        assert_eq!(
            answer,
            json!([{"error": "The backend failed on this event"}]),
            "{event}"
        );
    }
    assert!(gateway.logged("known commands are emit", PATIENCE));
    assert!(gateway.logged("longer than 65536 bytes", PATIENCE));
    assert!(gateway.logged("redirects are not followed", PATIENCE));
    let refused = r#"sockeye_backend_calls_total{outcome="refused"}"#;
    assert!(eventually(PATIENCE, || gateway.metric(refused) == 3.0));
}

/// PHP's default type, none, another one of JSON, and pages with 200: each let the client in, and nothing was in the log.
#[test]
fn a_refusal_of_another_type_let_the_client_in() {
    const REFUSE: &str = r#"{"commands":[{"refuse":{"message":"closed"}}]}"#;
    const TWICE: &str = r#"{"commands":[],"commands":[{"refuse":{"message":"closed"}}]}"#;
    const FOREIGN: &str =
        r#"{"commands":[{"emit":{"namespace":"/other","all":true,"event":"a"}}]}"#;
    const PAGE: &str = "<html><form>log in</form></html>";
    const JSON: &str = "Content-Type: application/json\r\n";
    const HTML: &str = "Content-Type: text/html\r\n";
    const LINKED: &str = "Content-Type: application/ld+json\r\n";
    let answers = [
        (HTML, REFUSE, "closed", ""),
        ("", REFUSE, "closed", ""),
        (LINKED, REFUSE, "closed", ""),
        (HTML, PAGE, "service unavailable", "it is no JSON"),
        ("", "OK", "service unavailable", "it is no JSON"),
        (
            JSON,
            r#"{"refuse":{}}"#,
            "service unavailable",
            "unknown member",
        ),
        (JSON, TWICE, "service unavailable", "two members"),
        (JSON, FOREIGN, "service unavailable", "not of this backend"),
        (JSON, "{}", "", ""),
        (HTML, " \n", "", ""),
    ];
    let receiver = Receiver::open(move |told| {
        let event = &told.events()[0];
        match (event["type"].as_str(), event["auth"]["at"].as_u64()) {
            (Some("connect"), Some(at)) => {
                let (kind, body, ..) = answers[at as usize];
                Reply(200, kind, body.to_owned())
            }
            _ => Reply(200, HTML, "thanks".to_owned()),
        }
    });
    let gateway = gateway(receiver.addr, "");
    for (at, (_, body, refused, logged)) in answers.into_iter().enumerate() {
        let mut client = SocketIo::open(gateway.addr);
        client.send(&format!(r#"40{{"at":{at}}}"#));
        let packet = client.packet();
        match refused {
            "" => assert!(packet.starts_with("40{"), "{body}: {packet}"),
            _ => assert!(
                packet.starts_with("44") && packet.contains(refused),
                "{body}: {packet}"
            ),
        }
        assert!(gateway.logged(logged, PATIENCE), "{logged}");
        if refused.is_empty() {
            // Of an event the status is all that counts, and the words are told of once.
            assert_eq!(client.ask(1, &json!(["quiet"])), json!([]));
        }
    }
    let unread = r#"sockeye_backend_calls_total{outcome="unread"}"#;
    assert!(gateway.reaches(unread, 2.0) >= 2.0);
    let log = gateway.log();
    let told = log.iter().filter(|line| line.contains("is not read"));
    assert_eq!(told.count(), 1);
}

/// The endpoint's port is closed while clients come, speak and go.
#[test]
fn news_for_an_endpoint_that_was_away_arrive_later_in_order() {
    let addr = free_addr();
    let more = "decides = false\nretry_min = \"20ms\"\nretry_max = \"100ms\"";
    let gateway = gateway(addr, more);
    let mut sids = Vec::new();
    for _ in 0..20 {
        let mut client = SocketIo::connect(gateway.addr);
        client.emit(&json!(["note", 1]));
        sids.push(client.sid.clone());
    }
    let failed = r#"sockeye_backend_calls_total{outcome="failed"}"#;
    assert!(eventually(PATIENCE, || gateway.metric(failed) >= 8.0));
    let well = gateway.metric_settles("sockeye_backend_workers", |well| well == 0.0);
    assert_eq!(well, Ok(0.0));
    assert!(gateway.logged("the endpoint fails", PATIENCE));
    let listener = TcpListener::bind(addr).expect("the same port");
    let receiver = Receiver::on(listener, None, |_| Reply::empty());
    let complete = || {
        let mut all = BTreeMap::<String, Vec<u64>>::new();
        for event in receiver.events() {
            let socket = event["socket"].as_str().expect("a socket").to_owned();
            let number = event["sequence"].as_u64().expect("a number");
            let seen = all.entry(socket).or_default();
            if seen.last().is_none_or(|last| *last < number) {
                seen.push(number);
            }
        }
        sids.iter()
            .all(|sid| all.get(sid).is_some_and(|seen| *seen == [1, 2, 3]))
    };
    assert!(eventually(PATIENCE, complete), "{:?}", receiver.events());
    let kept = || gateway.metric("sockeye_backend_kept_bytes") == 0.0;
    assert!(eventually(PATIENCE, kept));
    assert!(
        receiver
            .events()
            .iter()
            .any(|event| event["redelivered"] == true)
    );
    assert_eq!(gateway.metric("sockeye_backend_dead_letters_total"), 0.0);
    assert!(gateway.logged("the endpoint is well again", PATIENCE));
}

#[test]
fn newcomers_at_an_endpoint_that_is_away_are_refused_and_can_come_again() {
    let addr = free_addr();
    let more = "connect_timeout = \"300ms\"\nretry_min = \"20ms\"\nretry_max = \"50ms\"";
    let gateway = gateway(addr, more);
    let mut client = SocketIo::open(gateway.addr);
    client.send("40{}");
    let unavailable = r#"44{"message":"service unavailable","data":{"retry_after_ms":1000}}"#;
    assert_eq!(client.packet(), unavailable);
    let listener = TcpListener::bind(addr).expect("the same port");
    let _receiver = Receiver::on(listener, None, shop);
    let admitted = || {
        client.send("40{}");
        client.packet().starts_with("40{")
    };
    assert!(eventually(PATIENCE, admitted));
}

#[test]
fn an_endpoint_inside_is_not_called_unless_that_is_allowed() {
    let receiver = Receiver::open(shop);
    let port = receiver.addr.port();
    // The name leads to a loopback address: that is known only when it is asked for.
    let config = format!(
        "[server]\nshards = 1\n[namespaces.\"/\"]\nbackend = \"shop\"\n\
         [backends.shop]\nurl = \"https://localhost:{port}/\"\nconnect_timeout = \"300ms\"\n"
    );
    let gateway = Gateway::start_with(&config, &["--profile", "socket.io"]);
    let mut client = SocketIo::open(gateway.addr);
    client.send("40{}");
    assert!(client.packet().starts_with("44{"));
    assert!(gateway.logged("which is no address on the Internet", PATIENCE));
    assert!(receiver.told().is_empty());
}

/// A server for `localhost` whose certificate is in this file.
pub fn secure(pki: &Pki) -> Arc<ServerConfig> {
    let key = PrivateKeyDer::from_pem_file(pki.path("tls.key")).expect("a key");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![pki.current()], key);
    Arc::new(config.expect("a configuration"))
}

#[test]
fn an_endpoint_whose_certificate_nobody_vouches_for_is_told_nothing() {
    let pki = Pki::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let receiver = Receiver::on(listener, Some(secure(&pki)), shop);
    let port = receiver.addr.port();
    let config = format!(
        "[server]\nshards = 1\n[namespaces.\"/\"]\nbackend = \"shop\"\n[backends.shop]\n\
         url = \"https://localhost:{port}/\"\nprivate_addresses = true\n"
    );
    let soon = format!("{config}connect_timeout = \"500ms\"\n");
    let stranger = Gateway::start_with(&soon, &["--profile", "socket.io"]);
    let mut client = SocketIo::open(stranger.addr);
    client.send("40{}");
    assert!(client.packet().starts_with("44{"));
    assert!(stranger.logged("certificate", PATIENCE));
    assert!(receiver.told().is_empty());
    let trusted = pki.path("tls.pem");
    let trusted = trusted.to_str().expect("a path");
    let config = format!("profile = \"socket.io\"\n{config}");
    let friend = Gateway::start_in(&config, &[("SSL_CERT_FILE", trusted)]);
    let mut client = SocketIo::connect(friend.addr);
    assert_eq!(client.expect("hello"), [json!(client.sid)]);
}

/// The example of docs/webhooks.md checks what a gateway signs.
#[test]
#[ignore = "needs Python: cargo xtask test foreign"]
fn the_example_of_the_documentation_knows_the_gateways_signature() {
    let receiver = Receiver::open(shop);
    let gateway = gateway(receiver.addr, "secret = \"new\"\nsecret_old = \"old\"");
    let _client = client(&gateway);
    let told = receiver.told().remove(0);
    let header = told.header("sockeye-signature").expect("a signature");
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/webhooks.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let (_, example) = page.split_once("```python\n").expect("an example");
    let (example, _) = example.split_once("```").expect("its end");
    let judge = |secret: &str, body: &[u8], later: u32| {
        let script = format!(
            "{example}\nimport sys\nsecret, header, later = sys.argv[1:]\n\
             print(is_genuine(secret.encode(), header, sys.stdin.buffer.read(), time.time() + int(later)))"
        );
        let mut python = Command::new("python3")
            .args(["-c", &script, secret, header, &later.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3");
        let mut input = python.stdin.take().expect("a pipe");
        input.write_all(body).expect("the body");
        drop(input);
        let output = python.wait_with_output().expect("an end");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    assert_eq!(judge("new", &told.body, 0), "True");
    assert_eq!(judge("old", &told.body, 0), "True");
    assert_eq!(judge("newer", &told.body, 0), "False");
    assert_eq!(judge("new", b"{}", 0), "False");
    assert_eq!(judge("new", &told.body, 400), "False");
}

/// The ends that a stop causes were lost with the process.
#[test]
fn the_ends_of_the_last_sockets_were_lost_when_the_gateway_stopped() {
    let receiver = Receiver::open(shop);
    let mut gateway = gateway(receiver.addr, "batch_delay = \"300ms\"");
    let clients: Vec<SocketIo> = (0..50).map(|_| client(&gateway)).collect();
    gateway.terminate();
    let status = gateway.exit_status(PATIENCE).expect("an end");
    assert!(status.success());
    let ends = receiver.events().into_iter();
    let ends = ends.filter(|event| event["type"] == "disconnected");
    let mut ended: Vec<String> = ends
        .map(|event| event["socket"].as_str().expect("an id").to_owned())
        .collect();
    let mut expected: Vec<String> = clients.iter().map(|client| client.sid.clone()).collect();
    ended.sort_unstable();
    expected.sort_unstable();
    assert_eq!(ended, expected);
}

/// A gateway that stopped while its endpoint was away lost what waited, and its last words were that all was well.
#[test]
fn news_that_a_stop_lost_were_not_mentioned() {
    let addr = free_addr();
    let mut gateway = gateway(addr, "decides = false");
    drop(SocketIo::connect(gateway.addr));
    let kept = "sockeye_backend_kept_bytes";
    assert!(gateway.reaches(kept, 1.0) >= 1.0);
    gateway.terminate();
    let status = gateway.exit_status(PATIENCE).expect("an end");
    assert!(status.success());
    assert!(gateway.logged("what waited for this backend is lost", PATIENCE));
}

/// Its sockets are not told of one by one: nobody is left who knows them.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn an_endpoint_is_told_of_a_node_that_died() {
    let redis = Redis::start();
    let receiver = Receiver::open(shop);
    let addr = receiver.addr;
    let config = format!(
        "profile = \"socket.io\"\n[server]\nshards = 2\n[cluster]\nadapter = \"redis\"\nurls = [{:?}]\nsecret = \"s\"\n\
         [namespaces.\"/\"]\nbackend = \"shop\"\n\
         [backends.shop]\nurl = \"http://{addr}/\"\nprivate_addresses = true\n",
        redis.url()
    );
    let nodes: [Gateway; 3] = std::array::from_fn(|_| Gateway::start(&config));
    for node in &nodes {
        assert_eq!(
            node.metric_settles("sockeye_cluster_peers", |peers| peers == 2.0),
            Ok(2.0)
        );
    }
    let [first, second, dying] = nodes;
    let _client = client(&dying);
    let log = dying.log();
    let line = log.iter().find(|line| line.contains("\"listening\""));
    let line: Value = serde_json::from_str(line.expect("a line")).expect("JSON");
    drop(dying);
    let told = || {
        let events = receiver.events().into_iter();
        events
            .filter(|event| event["type"] == "node_gone")
            .collect::<Vec<_>>()
    };
    assert!(eventually(PATIENCE, || told().len() == 2));
    let told = told();
    assert_eq!(told[0]["id"], told[1]["id"], "the same news of two nodes");
    assert_eq!(told[0]["node"], line["node"]);
    drop((first, second));
}
