//! Tokens that are forged or worn out, rights that were never given, and users who are put out.

use super::memory::MIB;
use super::{Attacked, SOON};
use crate::harness::client::{PLAIN, SOCKETIO};
use crate::harness::raw::upgrade_request;
use crate::harness::{Alone, Gateway, Poller, RawConn, SocketIo, eventually};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use client::OpCode;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

const SECRET: &str = "a-secret-of-more-than-thirty-two-bytes";

/// How long after its token's end, or after an operator's word, a client may stay.
const PUT_OUT_WITHIN: Duration = Duration::from_secs(5);

fn settings(auth: &str) -> String {
    format!(
        "{}\n[auth]\nrequired = true\nleeway = \"0s\"\n{auth}\n",
        super::SETTINGS
    )
}

/// What the binary prints.
fn sockeye(folder: &Path, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockeye"));
    let run = command.args(args).current_dir(folder).output();
    let run = run.expect("run sockeye");
    assert!(run.status.success(), "{args:?}: {run:?}");
    let text = String::from_utf8(run.stdout).expect("UTF-8");
    text.trim().to_owned()
}

/// A token of `sockeye token` for the audience `chat`; later arguments win.
fn token(folder: &Path, key: &[&str], more: &[&str]) -> String {
    let args = [&["token", "--uid", "ann", "--claim", "aud=chat"], key, more];
    sockeye(folder, &args.concat())
}

/// A token with this header, the claims of `good`, and a signature of somebody's.
fn forged(header: &Value, good: &str, signature: &str) -> String {
    let claims = good.split('.').nth(1).expect("claims");
    let header = URL_SAFE_NO_PAD.encode(header.to_string());
    format!("{header}.{claims}.{signature}")
}

/// What a token gets from a namespace, and how long that takes.
fn verdict(gateway: &Gateway, token: &str) -> (String, Duration) {
    let mut client = SocketIo::open(gateway.addr);
    let started = Instant::now();
    client.send(&format!("40{}", json!({ "token": token })));
    (client.packet(), started.elapsed())
}

/// What it gets from the plain protocol, but for the time of day.
fn plain_verdict(gateway: &Gateway, token: &str) -> (Value, u16) {
    let target = format!("{PLAIN}?token={token}");
    let mut conn = RawConn::websocket(gateway.addr, &target);
    let told: Value = serde_json::from_str(conn.frame().text()).expect("JSON");
    (told["error"].clone(), conn.close_code(SOON))
}

/// Answers to each token. The quickest counts: all that delays an answer comes on top of what the token itself takes.
const ROUNDS: usize = 60;

/// All of them hear the same, in times that differ by less than a millisecond: nothing tells how near a forgery came.
fn assert_refused_alike(gateway: &Gateway, tokens: &[(&str, String)]) {
    let mut times = vec![Vec::new(); tokens.len()];
    for _ in 0..ROUNDS {
        for ((name, token), times) in tokens.iter().zip(&mut times) {
            let (told, took) = verdict(gateway, token);
            assert_eq!(told, r#"44{"message":"Invalid token"}"#, "{name}");
            times.push(took);
        }
    }
    for (name, token) in tokens {
        let told = plain_verdict(gateway, token);
        assert_eq!(told, (json!("INVALID_TOKEN"), 4501), "{name}");
        let target = format!("{SOCKETIO}&token={token}");
        let mut client = SocketIo::over(RawConn::websocket(gateway.addr, &target));
        client.send("40");
        assert_eq!(
            client.packet(),
            r#"44{"message":"Invalid token"}"#,
            "{name}"
        );
    }
    let quickest: Vec<_> = times
        .iter()
        .zip(tokens)
        .map(|(times, (name, _))| (*times.iter().min().expect("a time"), *name))
        .collect();
    println!("{quickest:?}");
    let (least, most) = (quickest.iter().min(), quickest.iter().max());
    let (least, most) = (least.expect("some").0, most.expect("some").0);
    assert!(most - least < Duration::from_millis(1), "{quickest:?}");
    let refused = gateway.metric("sockeye_tokens_denied_total{reason=\"invalid\"}");
    assert_eq!(refused, ((ROUNDS + 2) * tokens.len()) as f64);
}

/// Attack A02, with a shared secret.
#[test]
fn forged_tokens_are_refused_alike() {
    let _alone = Alone::wait();
    let folder = tempfile::tempdir().expect("a folder");
    let ours = ["--secret", SECRET];
    let make = |key: &[&str], more: &[&str]| token(folder.path(), key, more);
    let good = make(&ours, &[]);
    let foreign = ["--secret", "another-secret-of-more-than-32-bytes"];
    let signature = good.rsplit('.').next().expect("a signature").to_owned();
    let unsigned = |alg: &str| forged(&json!({ "alg": alg, "typ": "JWT" }), &good, "");
    let path = make(&foreign, &["--kid", "../../../../../../dev/null"]);
    let tokens = [
        (
            "expired, too",
            make(&foreign, &["--claim", "exp=1000000000"]),
        ),
        ("wrong signature", make(&foreign, &[])),
        ("wrong audience", make(&ours, &["--claim", "aud=mail"])),
        ("alg none", unsigned("none")),
        ("alg nOnE", unsigned("nOnE")),
        ("no alg", forged(&json!({}), &good, &signature)),
        ("kid is a path", path),
        ("kid is a query", make(&foreign, &["--kid", "' OR 1=1 --"])),
        (
            "algorithm of a pair",
            forged(&json!({ "alg": "RS256" }), &good, &signature),
        ),
        ("no token at all", "a.b.c".to_owned()),
    ];
    let auth = format!("secret = \"{SECRET}\"\naudience = [\"chat\"]");
    let gateway = Attacked::start_with_token(&settings(&auth), &good);
    assert_refused_alike(&gateway, &tokens);
    assert!(verdict(&gateway, &good).0.starts_with("40{"));
}

/// Attack A02, with a pair of keys whose public one everybody has: it is no shared secret.
#[test]
fn a_public_key_signs_nothing() {
    let _alone = Alone::wait();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    sockeye(path, &["token", "key", "--alg", "RS256", "--kid", "k1"]);
    let set = fs::read_to_string(path.join("k1.jwks.json")).expect("the public key");
    let keys: Value = serde_json::from_str(&set).expect("JSON");
    let modulus = keys["keys"][0]["n"].as_str().expect("a modulus");
    let good = token(path, &["--key", "k1.pem", "--kid", "k1"], &[]);
    let swapped = |secret: &str| token(path, &["--secret", secret, "--kid", "k1"], &[]);
    let signature = good.rsplit('.').next().expect("a signature").to_owned();
    let with = |header: Value| forged(&header, &good, &signature);
    let tokens = [
        ("the modulus as secret", swapped(modulus)),
        ("the file as secret", swapped(&set)),
        ("none", with(json!({ "alg": "none", "kid": "k1" }))),
        ("another kind", with(json!({ "alg": "PS256", "kid": "k1" }))),
        (
            "kid is a path",
            with(json!({ "alg": "RS256", "kid": "../k1" })),
        ),
        (
            "a key of its own",
            with(json!({ "alg": "RS256", "jwk": keys["keys"][0] })),
        ),
    ];
    let jwks = path.join("k1.jwks.json");
    let auth = format!("jwks_file = {jwks:?}\nalgorithms = [\"RS256\"]\naudience = [\"chat\"]");
    let gateway = Attacked::start_with_token(&settings(&auth), &good);
    assert_refused_alike(&gateway, &tokens);
    assert!(verdict(&gateway, &good).0.starts_with("40{"));
}

/// Attack A03: the token ends while its clients are connected, on every shard and by every transport.
#[test]
fn an_ended_token_ends_its_connections() {
    let _alone = Alone::wait();
    let gateway = Gateway::start(&settings(&format!("secret = \"{SECRET}\"")));
    let folder = tempfile::tempdir().expect("a folder");
    let json = token(
        folder.path(),
        &["--secret", SECRET],
        &["--json", "--expires", "4s"],
    );
    let made: Value = serde_json::from_str(&json).expect("JSON");
    let ends = made["claims"]["exp"].as_u64().expect("a time");
    let (mut clients, poller) = everywhere(&gateway, made["token"].as_str().expect("a token"));
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    assert!(
        now().expect("a time") < Duration::from_secs(ends),
        "it took too long to connect"
    );
    for client in &mut clients {
        let patience = Duration::from_secs(4) + PUT_OUT_WITHIN;
        assert_eq!(client.conn.close_code(patience), 4004);
    }
    put_out(&poller);
    let over = now().expect("a time");
    let ends = Duration::from_secs(ends);
    assert!(
        (ends..ends + PUT_OUT_WITHIN).contains(&over),
        "{over:?}, token until {ends:?}"
    );
    assert_eq!(
        gateway.metric_settles("sockeye_sessions", |n| n == 0.0),
        Ok(0.0)
    );
    let all = clients.len() as f64 + 1.0;
    assert_eq!(gateway.closes_reach("token_expired", all), all);
}

/// Attack A03: an operator puts a user out, whose token is good for an hour: every connection goes, on every shard and by
/// every transport, and nobody else's.
#[test]
fn a_banned_user_is_put_out_everywhere() {
    let _alone = Alone::wait();
    let folder = tempfile::tempdir().expect("a folder");
    let made = sockeye(folder.path(), &["api-key", "ops"]);
    let field = |name: &str| {
        let line = made.lines().find_map(|line| line.strip_prefix(name));
        line.expect(name).trim()
    };
    let admin = format!(
        "secret = \"{SECRET}\"\n[admin]\napi_keys = [{}]",
        field("entry")
    );
    let gateway = Gateway::start(&settings(&admin));
    let of = |uid: &str| sockeye(folder.path(), &["token", "--secret", SECRET, "--uid", uid]);
    let (mut out, poller) = everywhere(&gateway, &of("eve"));
    let (mut stay, other) = everywhere(&gateway, &of("ann"));
    let order = json!({ "users": ["eve"], "close": true }).to_string();
    let request = format!(
        "POST /v1/disconnect HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{order}",
        field("key"),
        order.len()
    );
    let started = Instant::now();
    assert_eq!(RawConn::exchange(gateway.admin, request).status, 202);
    for client in &mut out {
        client.conn.close_code(PUT_OUT_WITHIN);
    }
    put_out(&poller);
    assert!(
        started.elapsed() < PUT_OUT_WITHIN,
        "{:?}",
        started.elapsed()
    );
    for client in &mut stay {
        assert_eq!(client.ask(7, &json!(["echo", 1])), json!([1]));
    }
    assert!(other.is_alive());
    let left = stay.len() as f64 + 1.0;
    assert_eq!(
        gateway.metric_settles("sockeye_sessions", |n| n == left),
        Ok(left)
    );
}

/// Polls bring what is left and then nothing; a session that goes on would keep the poll waiting, which is an error.
fn put_out(poller: &Poller) {
    let over = (0..3).any(|_| poller.poll().status == 400);
    assert!(over, "the polling session goes on");
}

/// Clients of one user: enough for each of the two shards to have some, and one that polls.
fn everywhere(gateway: &Gateway, token: &str) -> (Vec<SocketIo>, Poller) {
    let auth = json!({ "token": token }).to_string();
    let clients = (0..12).map(|_| {
        let mut client = SocketIo::open(gateway.addr);
        client.join_namespace("/", &auth);
        client
    });
    let clients = clients.collect();
    let poller = Poller::open(gateway.addr);
    assert_eq!(poller.post(&format!("40{auth}")).status, 200);
    let answer = poller.poll();
    assert!(answer.body.starts_with("40{"), "{answer:?}");
    (clients, poller)
}

/// Attack A07: what a token does not allow is refused, whatever the room is called; patterns are no rights.
#[test]
fn rights_are_for_the_rooms_they_name() {
    let gateway = Gateway::start(&settings(&format!("secret = \"{SECRET}\"")));
    let folder = tempfile::tempdir().expect("a folder");
    let narrow = [
        "--permission",
        "join:lobby",
        "--permission",
        "publish:lobby",
    ];
    let narrow = token(folder.path(), &["--secret", SECRET], &narrow);
    let reader = ["--permission", "join:vault", "--permission", "join:lobby"];
    let reader = token(folder.path(), &["--secret", SECRET], &reader);
    let plain = |token: &str| {
        let mut conn = RawConn::connect(gateway.addr);
        conn.send(upgrade_request(&format!("{PLAIN}?token={token}"), ""));
        assert_eq!(conn.response().status, 101);
        crate::harness::Plain { conn }
    };
    let (mut member, mut stranger) = (plain(&reader), plain(&narrow));
    for room in ["vault", "lobby"] {
        member.send(&json!({"type": "join", "room": room, "id": 1}));
        member.expect_type("ack");
    }
    for room in ["vault", "lobb?", "lob*", "*", "[l]obby", "lobby\0", "LOBBY"] {
        stranger.send(&json!({"type": "join", "room": room, "id": 2}));
        let answers = [stranger.message(), stranger.message()];
        assert!(
            answers.iter().any(|answer| answer["error"].is_string()),
            "{room}: {answers:?}"
        );
    }
    stranger.send(&json!({"type": "join", "room": "lobby", "id": 3}));
    stranger.expect_type("ack");
    // Neither may the stranger speak in the vault, nor the reader where it listens.
    stranger.send(&json!({"type": "message", "room": "vault", "payload": "forged"}));
    assert!(stranger.message()["error"].is_string());
    member.send(&json!({"type": "message", "room": "lobby", "payload": "forged"}));
    assert!(member.message()["error"].is_string());
    stranger.send(&json!({"type": "message", "room": "lobby", "payload": "allowed"}));
    assert_eq!(member.expect_type("message")["payload"], "allowed");
}

/// Attack A18: whoever answers for the identity provider with too much, with nonsense, with a way to somewhere else or not at
/// all makes nobody wait and fills no memory: tokens cannot be checked, and the client is told so.
#[test]
fn a_hostile_key_server_costs_its_tokens_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    sockeye(
        folder.path(),
        &["token", "key", "--alg", "RS256", "--kid", "k1"],
    );
    let token = token(folder.path(), &["--key", "k1.pem", "--kid", "k1"], &[]);
    let elsewhere = TcpListener::bind("127.0.0.1:0").expect("a port");
    let hidden = elsewhere.local_addr().expect("an address");
    elsewhere.set_nonblocking(true).expect("nonblocking");
    let redirect =
        format!("HTTP/1.1 302 Found\r\nLocation: http://{hidden}/\r\nContent-Length: 0\r\n\r\n");
    let sized = |len: usize| format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n");
    let large = sized(64 << 20) + &"[".repeat(64 << 20);
    let endless = "HTTP/1.1 200 OK\r\n\r\n".to_owned() + &"{\"keys\":".repeat(8 << 20);
    let broken = sized(9) + "{\"keys\":";
    let mut calm = None;
    for (name, answer) in [
        ("silence", String::new()),
        ("redirect", redirect),
        ("64 MiB", large),
        ("endless", endless),
        ("broken", broken),
    ] {
        let (port, fetches) = key_server(answer);
        let auth = format!(
            "jwks_url = \"http://127.0.0.1:{port}/\"\naudience = [\"chat\"]\ntimeout = \"1s\""
        );
        let gateway = Gateway::start(&settings(&auth));
        let before = gateway.memory();
        for _ in 0..5 {
            let (told, _) = verdict(&gateway, &token);
            assert_eq!(
                told, r#"44{"message":"Authentication unavailable"}"#,
                "{name}"
            );
        }
        let grown = gateway.peak_memory().saturating_sub(before);
        println!("{name}: {grown} bytes more at the peak");
        // Fetching takes some memory itself; the answers are larger than what they may add.
        let calm = *calm.get_or_insert(grown);
        assert!(
            grown < calm + 32 * MIB,
            "{name}: {grown} bytes, {calm} without an answer"
        );
        let fetches = fetches.load(Ordering::Relaxed);
        assert!(
            (1..=4).contains(&fetches),
            "{name}: {fetches} fetches for five tokens"
        );
        let health = "GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        assert_eq!(RawConn::exchange(gateway.addr, health).status, 200);
    }
    assert!(elsewhere.accept().is_err(), "the redirect was followed");
}

/// A server that gives this answer to whatever it is asked, and says nothing more for a while; its port, and how often it was
/// asked. It ends with the test.
fn key_server(answer: String) -> (u16, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let asked = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&asked);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            count.fetch_add(1, Ordering::Relaxed);
            let answer = answer.clone();
            std::thread::spawn(move || {
                let mut request = [0; 4096];
                let _ = stream.read(&mut request);
                let _ = stream.write_all(answer.as_bytes());
                std::thread::sleep(Duration::from_secs(8));
            });
        }
    });
    (port, asked)
}

impl Attacked {
    /// Ordinary clients need a token here.
    fn start_with_token(settings: &str, token: &str) -> Attacked {
        let gateway = Gateway::start(settings);
        for _ in 0..300 {
            let mut client = SocketIo::open(gateway.addr);
            client.send(&format!("40{}", json!({ "token": token })));
            assert_eq!(client.conn.frame().opcode, OpCode::Text);
        }
        assert!(eventually(SOON, || gateway.metric("sockeye_connections") == 0.0));
        Attacked {
            memory: Some(gateway.memory()),
            descriptors: gateway.descriptors(),
            gateway,
        }
    }
}
