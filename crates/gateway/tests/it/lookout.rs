//! What operators see of one session beside its queues, and of backends one by one.

use crate::backend::receiver::{Receiver, Reply};
use crate::backend::worker::Worker;
use crate::backend::{KEY, Kitchen};
use crate::harness::{Gateway, PATIENCE, SocketIo, eventually};
use ::client::full::{self, Encoding, Plain, WebSocket, request};
use serde_json::{Value, json};
use std::process::Command;
use std::sync::LazyLock;

const SECRET: &str = "a-secret-of-more-than-thirty-two-bytes";

fn key(name: &str, allowed: &[&str]) -> (String, String) {
    let allowed: Vec<String> = allowed.iter().map(|word| (*word).to_owned()).collect();
    identity::keys::generate(name, &allowed).expect("a key")
}

static OPS: LazyLock<(String, String)> = LazyLock::new(|| key("ops", &[]));
static VIEWER: LazyLock<(String, String)> = LazyLock::new(|| key("viewer", &["read"]));
static OPERATOR: LazyLock<(String, String)> =
    LazyLock::new(|| key("operator", &["read", "operate", "trace"]));

fn admin() -> String {
    format!("\n[admin]\napi_keys = {:?}\n", [&OPS.1, &VIEWER.1])
}

fn ask_as(node: &Gateway, key: &str, path: &str) -> Value {
    let headers = format!("Authorization: Bearer {key}\r\n");
    let answer = request(node.admin, "GET", path, &headers, "");
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    serde_json::from_str(&answer.body).expect("JSON")
}

fn ask(node: &Gateway, path: &str) -> Value {
    ask_as(node, &OPS.0, path)
}

fn token(claims: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockeye"));
    command.args(["token", "--secret", SECRET, "--uid", "ada"]);
    command.args(claims.iter().flat_map(|claim| ["--claim", claim]));
    let output = command.output().expect("sockeye token runs");
    let text = String::from_utf8(output.stdout).expect("text");
    text.trim().to_owned()
}

fn top(node: &Gateway, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockeye"));
    command
        .args(["top", "--once", "--admin", &node.admin.to_string()])
        .args(args);
    command.env("SOCKEYE_API_KEY", &OPS.0);
    let output = command.output().expect("sockeye runs");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn a_session_is_shown_with_its_program_its_claims_and_its_connection() {
    let node = Gateway::start(&format!(
        "[server]\nshards = 2\n[auth]\nsecret = \"{SECRET}\"\nrequired = false\n{}",
        admin()
    ));
    let token = token(&["card=\"4111-1111\"", "vip=true", "teams=[1]"]);
    let agent = "Mozilla/5.0 <script>alert(1)</script>";
    let socket = WebSocket::connect(
        node.addr,
        &format!("/ws?token={token}"),
        &format!("User-Agent: {agent}\r\n"),
    );
    let _ada = Plain::over(socket, Encoding::Json);
    let _nobody = Plain::connect(node.addr, Encoding::Json);
    let mut found = Value::Null;
    assert!(eventually(PATIENCE, || {
        found = ask(&node, "/v1/node/sessions?user=ada");
        found["matched"] == 1
    }));
    let session = &found["sessions"][0];
    assert_eq!(session["agent"], agent);
    // Many sessions are not worth a question to the kernel each.
    assert_eq!(session["kernel"], Value::Null);
    let claims = &session["claims"];
    let kind = |name: &str| {
        let mut all = claims.as_array().expect("claims").iter();
        let claim = all.find(|claim| claim["name"] == name);
        claim.map_or(Value::Null, |claim| claim["kind"].clone())
    };
    assert_eq!(
        [kind("card"), kind("vip"), kind("teams"), kind("exp")],
        ["text", "boolean", "list", "number"].map(Value::from)
    );
    assert!(!found.to_string().contains("4111"), "{found}");

    let id = session["sockets"][0]["id"].as_str().expect("an id");
    let one = ask(&node, &format!("/v1/node/sessions?id={id}"));
    let kernel = &one["sessions"][0]["kernel"];
    assert!(kernel["rtt_us"].as_u64() > Some(0), "{one}");
    assert_eq!(kernel["unsent_bytes"], 0, "{one}");
    assert_eq!(one["sessions"][0]["sockets"][0]["worker"], Value::Null);
    let others = ask(&node, "/v1/node/sessions")["sessions"].clone();
    let others = others.as_array().expect("sessions").iter();
    assert_eq!(others.filter(|one| one["agent"].is_null()).count(), 1);
}

#[test]
fn a_session_is_shown_with_its_rates_and_the_time_of_its_heartbeat() {
    let node = Gateway::start_with(
        &format!(
            "[socketio]\nping_interval = \"300ms\"\n[rates]\nsession = \"600/h\"\naddress = \"6000/h\"\n\
             [namespaces.\"/\"]\nclient_joins = true\n{}",
            admin()
        ),
        &["--profile", "socket.io"],
    );
    let mut client = full::SocketIo::websocket(node.addr, "/", json!({}));
    let fresh = ask(&node, "/v1/node/sessions")["sessions"][0].clone();
    assert_eq!(fresh["rates"][0]["of"], 600, "{fresh}");
    let mut session = Value::Null;
    assert!(eventually(PATIENCE, || {
        // It answers pings while it waits for its own answers.
        client.ask("join", &[json!("den")]);
        session = ask(&node, "/v1/node/sessions")["sessions"][0].clone();
        session["round_trip_ms"].as_u64() > Some(0)
    }));
    let rates = session["rates"].as_array().expect("rates");
    let scopes: Vec<&Value> = rates.iter().map(|rate| &rate["scope"]).collect();
    assert_eq!(scopes, ["session", "address"], "{session}");
    let used = rates[0]["used"].as_u64();
    assert!((Some(1)..=Some(600)).contains(&used), "{session}");
    assert_eq!(rates[1]["of"], 6_000, "{session}");
}

#[test]
fn limits_are_shown_with_what_is_used_of_them_and_refusals_with_their_reasons() {
    let more = "[limits]\nroom_name_bytes_max = 8\n[namespaces.\"/\"]\nclient_joins = true\n";
    let node = Gateway::start_with(&format!("{more}{}", admin()), &["--profile", "socket.io"]);
    let mut client = full::SocketIo::websocket(node.addr, "/", json!({}));
    client.ask("join", &[json!("a name of more than eight bytes")]);
    let config = ask(&node, "/v1/node/config");
    let limits = config["limits"].as_array().expect("limits");
    let share = |limit: &Value| {
        limit["used"].as_f64().expect("used") / limit["limit"].as_f64().expect("a limit")
    };
    assert!(
        limits
            .windows(2)
            .all(|two| share(&two[0]) >= share(&two[1])),
        "{limits:?}"
    );
    let keys = limits.iter().filter_map(|limit| limit["key"].as_str());
    let keys: Vec<&str> = keys.collect();
    for key in [
        "memory",
        "descriptors",
        "limits.conns_max",
        "limits.waiting_bytes_max",
    ] {
        assert!(keys.contains(&key), "{key}: {keys:?}");
    }
    let refusals = ask(&node, "/v1/node/overview")["refusals"].clone();
    let refusals = refusals.as_array().expect("refusals").iter();
    let mut names = refusals.filter(|one| one["reason"] == "room_name");
    let refused = names.next().expect("the name was refused");
    assert_eq!(
        (&refused["what"], &refused["times"]),
        (&json!("limit reached"), &json!(1))
    );
}

/// An operator who reads one of them need not read the others.
#[test]
fn the_console_the_probe_and_the_terminal_say_the_same_sentence() {
    let config = format!("[server]\nshards = 1\n{}", admin());
    let node = Gateway::start(&config);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("sockeye.toml");
    let text = format!(
        "profile = \"socket.io\"\n[server]\nadmin = \"{}\"\n",
        node.admin
    );
    std::fs::write(&file, text).expect("a file");
    let doctor = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sockeye"));
        command.args(["doctor", "--live", "--config"]).arg(&file);
        let output = command.output().expect("sockeye runs");
        let said = String::from_utf8(output.stdout).expect("text");
        (output.status.code(), said)
    };
    let console = || ask(&node, "/v1/node/overview")["health"].clone();
    let probe = || {
        let answer = request(node.admin, "GET", "/ready?verbose", "", "");
        let body: Value = serde_json::from_str(&answer.body).expect("JSON");
        (answer.status, body["health"].clone())
    };
    assert!(eventually(PATIENCE, || console()["sentence"] == "All is well."));
    assert_eq!(probe(), (200, console()));
    assert_eq!(doctor(), (Some(0), "ready: All is well.\n".to_owned()));
    assert!(top(&node, &[]).contains("All is well."));

    node.reload("[limits]\nconns_max = \"many\"\n");
    let refused = "The configuration was refused at the last reload: the old one is in force.";
    assert!(eventually(PATIENCE, || console()["sentence"] == refused));
    // It takes clients all the same.
    assert_eq!(probe(), (200, console()));
    let (code, said) = doctor();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.starts_with(&format!("ready: {refused}\n")), "{said}");
    assert!(
        said.contains("SockeyeReloadFailed, docs/operations.md#"),
        "{said}"
    );
    assert!(top(&node, &[]).contains(refused));
    node.reload(&config);
    assert!(eventually(PATIENCE, || console()["ok"] == true));
    drop(node);
    assert_eq!(doctor().0, Some(2));
}

/// Each name of a program is kept once, and no flood of names makes the node larger.
#[test]
fn a_flood_of_names_of_programs_is_kept_within_a_bound() {
    let node = Gateway::start(&format!("[server]\nshards = 1\n{}", admin()));
    let users = || {
        let memory = ask(&node, "/debug/memory");
        memory["total"]["users"].as_u64().expect("bytes")
    };
    let long = "x".repeat(3_000);
    for n in 0..1_300 {
        let headers = format!("User-Agent: {n}{long}\r\n");
        drop(WebSocket::connect(node.addr, "/ws", &headers));
    }
    assert!(users() < 800_000, "{}", users());
    let kept: Vec<WebSocket> = (0..1_100)
        .map(|n| {
            let headers = format!("User-Agent: {n}{long}\r\n");
            WebSocket::connect(node.addr, "/ws", &headers)
        })
        .collect();
    assert!(users() < 800_000, "{}", users());
    let late = WebSocket::connect(node.addr, "/ws", "User-Agent: late\r\n");
    let found = ask(&node, "/v1/node/sessions?limit=200");
    assert_eq!(found["matched"], 1_101);
    drop((kept, late));
}

#[test]
fn each_worker_is_shown_with_what_it_has_and_how_fast_it_is() {
    let kitchen = Kitchen::open(&admin());
    let node = &kitchen.gateway;
    let quiet = ask(node, "/v1/node/backends");
    let backend = &quiet["backends"][0];
    assert_eq!(
        (&backend["name"], &backend["kind"], &backend["well"]),
        (&json!("kitchen"), &json!("workers"), &json!(false))
    );
    assert_eq!(
        (&quiet["kafka"], &quiet["complete"]),
        (&Value::Null, &json!(true))
    );
    let cook = Worker::attach(kitchen.workers, &KEY.0, "cook");
    let mut client = SocketIo::connect(node.addr);
    for n in 0..40 {
        client.ask(n, &json!(["echo", n]));
    }
    let mut worker = Value::Null;
    assert!(eventually(PATIENCE, || {
        worker = ask(node, "/v1/node/backends")["backends"][0]["workers"][0].clone();
        worker["handled"].as_u64() >= Some(41) && worker["under_way"] == 0
    }));
    assert_eq!(
        (&worker["instance"], &worker["state"], &worker["sockets"]),
        (&json!("cook"), &json!("attached"), &json!(1))
    );
    assert!(
        worker["handled_per_second"].as_f64() > Some(1.0),
        "{worker}"
    );
    assert!(worker["p99_ms"].as_u64() >= Some(1), "{worker}");
    // Links by gRPC are none of a shard's.
    let by_grpc = std::env::var("WORKERS_FRAMING").is_ok_and(|framing| framing == "grpc");
    assert_eq!(worker["shard"].is_null(), by_grpc, "{worker}");
    let links = node.metric_settles("sockeye_backend_links_of_shards", |links| {
        (links == 1.0) != by_grpc
    });
    assert!(links.is_ok(), "{links:?}");
    let session = ask(node, &format!("/v1/node/sessions?id={}", client.sid));
    assert_eq!(
        session["sessions"][0]["sockets"][0]["worker"],
        json!({"backend": "kitchen", "instance": "cook"})
    );
    let said = top(node, &[]);
    assert!(
        said.contains("kitchen") && said.contains("  cook"),
        "{said}"
    );
    let said: Value = serde_json::from_str(&top(node, &["--json"])).expect("JSON");
    assert_eq!(said["backends"][0]["workers"][0]["instance"], "cook");
    // Its link is cut: for a while it may come back.
    cook.die();
    assert!(eventually(PATIENCE, || {
        let workers = ask(node, "/v1/node/backends")["backends"][0]["workers"].clone();
        workers[0]["state"] == "away"
    }));
}

#[test]
fn a_webhook_is_shown_with_its_last_failures_and_only_operators_read_them() {
    let receiver = Receiver::open(|told| match told.events()[0]["event"].as_str() {
        Some("wrong") => Reply::json(&json!({"commands": [{"emti": {"secret": "card 4111"}}]})),
        _ => Reply::empty(),
    });
    let node = Gateway::start_with(
        &format!(
            "[server]\nshards = 2\n[namespaces.\"/\"]\nbackend = \"shop\"\n\
             [backends.shop]\nurl = \"http://{}/hook\"\nprivate_addresses = true\n{}",
            receiver.addr,
            admin()
        ),
        &["--profile", "socket.io"],
    );
    let mut client = SocketIo::open(node.addr);
    client.send("40{}");
    assert!(client.packet().starts_with("40{"));
    client.send("421[\"wrong\",1]");
    let mut shop = Value::Null;
    assert!(eventually(PATIENCE, || {
        shop = ask(&node, "/v1/node/backends")["backends"][0].clone();
        shop["failures"]
            .as_array()
            .is_some_and(|all| !all.is_empty())
            && shop["calls_refused"] == 1
    }));
    assert_eq!(
        (&shop["kind"], &shop["well"], &shop["workers"]),
        (&json!("webhook"), &json!(true), &json!([]))
    );
    let failure = &shop["failures"][0];
    assert_eq!(failure["what"], "call refused");
    let detail = failure["detail"].as_str().expect("words");
    assert!(detail.starts_with("cannot use the answer"), "{detail}");
    assert!(shop["p99_ms"].as_u64() >= Some(1), "{shop}");
    let seen = ask_as(&node, &VIEWER.0, "/v1/node/backends");
    assert_eq!(seen["backends"][0]["failures"][0]["detail"], Value::Null);
    assert!(!seen.to_string().contains("4111"), "{seen}");
}

#[test]
fn what_was_said_in_a_failed_call_is_shown_for_a_reason_only_and_without_secrets() {
    let receiver = Receiver::open(|told| {
        let event = &told.events()[0];
        match event["event"].as_str() {
            Some("broken") => Reply(
                400,
                "Content-Type: text/html\r\n",
                "<b>no</b>".repeat(2_000),
            ),
            // It says again what the client proved itself with.
            None if event["auth"]["bad"] == true => Reply(403, "", event["auth"].to_string()),
            _ => Reply::empty(),
        }
    });
    let node = Gateway::start_with(
        &format!(
            "[server]\nshards = 2\n[namespaces.\"/\"]\nbackend = \"shop\"\n\
             [backends.shop]\nurl = \"http://{}/hook\"\nprivate_addresses = true\n\
             [admin]\napi_keys = {:?}\n",
            receiver.addr,
            [&OPS.1, &VIEWER.1, &OPERATOR.1]
        ),
        &["--profile", "socket.io"],
    );
    let mut stranger = SocketIo::open(node.addr);
    stranger.send(r#"40{"bad":true,"password":"hunter2"}"#);
    assert!(stranger.packet().starts_with("44"));
    let mut client = SocketIo::open(node.addr);
    client.send("40{}");
    assert!(client.packet().starts_with("40{"));
    client.send("421[\"broken\",\"card 4111\"]");
    let failures = |seen: &Value| seen["backends"][0]["failures"].clone();
    let seen = || failures(&ask(&node, "/v1/node/backends"));
    assert!(eventually(PATIENCE, || {
        seen().as_array().is_some_and(|all| all.len() == 2)
    }));
    // Names and sizes are for operators, sizes for those who look on, and bodies are not in the list.
    let said = &seen()[0]["said"];
    assert_eq!(
        (&said[0]["part"], &said[0]["names"]),
        (&json!("request"), &json!("broken"))
    );
    assert!(said[0]["bytes"].as_u64() > Some(50), "{said}");
    assert_eq!(
        said[1],
        json!({"part": "answer", "names": "400 Bad Request, text/html", "bytes": 18_000, "body": null})
    );
    let viewed = failures(&ask_as(&node, &VIEWER.0, "/v1/node/backends"));
    assert_eq!(viewed[0]["said"][1]["names"], Value::Null);
    assert_eq!(viewed[0]["said"][1]["bytes"], 18_000);

    let path = "/v1/node/failures?backend=shop&reason=case%207";
    let status = |key: &str, path: &str| {
        let headers = format!("Authorization: Bearer {key}\r\n");
        request(node.admin, "GET", path, &headers, "").status
    };
    assert_eq!(
        [status(&VIEWER.0, path), status(&OPERATOR.0, path)],
        [403, 403]
    );
    for (query, expected) in [
        ("backend=shop", 400),
        ("backend=shop&reason=%20", 400),
        ("reason=x", 400),
        ("backend=shop&bridge=nats&reason=x", 400),
        ("backend=none&reason=x", 404),
        ("bridge=kafka&reason=x", 404),
        ("bridge=none&reason=x", 404),
    ] {
        let path = format!("/v1/node/failures?{query}");
        assert_eq!(status(&OPS.0, &path), expected, "{query}");
    }
    let shown = ask(&node, path)["failures"].clone();
    let body = |failure: usize, part: usize| {
        let body = shown[failure]["said"][part]["body"].as_str();
        body.unwrap_or_else(|| panic!("{failure}, {part}: {shown}"))
            .to_owned()
    };
    assert!(body(0, 0).contains(r#""args":["card 4111"]"#), "{shown}");
    assert_eq!(body(0, 1).len(), 4_096);
    assert_eq!(shown[1]["said"][0]["names"], "CONNECT");
    assert_eq!(shown[1]["said"][1]["body"], Value::Null);
    assert!(body(1, 0).contains(r#""auth":"(left out)""#), "{shown}");
    assert!(!shown.to_string().contains("hunter2"), "{shown}");
    let action = ask(&node, "/v1/node/audit")["actions"][0].clone();
    assert_eq!(
        (&action["key"], &action["what"], &action["of"]),
        (
            &json!("ops"),
            &json!("failures"),
            &json!("backend shop with payload, because: case 7")
        )
    );
}
