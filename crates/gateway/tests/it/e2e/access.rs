//! Who may do what over HTTP: API keys and orders of operators, and how many pages an address may ask for.

use super::client::{Encoding, PATIENCE, Plain, SocketIo, request};
use crate::harness::{Ended, Gateway, RawConn, eventually};
use serde_json::{Value, json};
use std::process::Command;
use std::time::{Duration, Instant};

/// When the gateway itself would give up on them.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// A key and its entry, as the binary makes them.
fn api_key(name: &str) -> (String, String) {
    let run = Command::new(env!("CARGO_BIN_EXE_sockeye"))
        .args(["api-key", name])
        .output()
        .expect("run sockeye");
    assert!(run.status.success(), "{run:?}");
    let text = String::from_utf8(run.stdout).expect("UTF-8");
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.expect(name).trim().to_owned()
    };
    (field("key"), field("entry"))
}

fn config(entry: &str, more: &str) -> String {
    format!(
        "profile = \"socket.io\"\n[server]\nshards = 4\n[admin]\napi_keys = [{entry}]\n{more}\n"
    )
}

/// Attack A11: whoever reaches the operators' port without a key gets a hundred lines a second, and then a number.
#[test]
fn a_flood_of_requests_without_a_key_is_counted_instead_of_logged() {
    const BATCHES: usize = 60;
    const EACH: usize = 100;
    let gateway = Gateway::start(&config(&api_key("ops").1, ""));
    let started = Instant::now();
    let mut stranger = RawConn::connect(gateway.admin);
    for _ in 0..BATCHES {
        stranger.send("GET /none HTTP/1.1\r\nHost: a\r\n\r\n".repeat(EACH));
        for _ in 0..EACH {
            assert_eq!(stranger.response().status, 401);
        }
    }
    // A window for each second that began, and the one before.
    let most = 100 * (started.elapsed().as_secs() as usize + 2);
    assert!(most < BATCHES * EACH / 2, "too slow to prove anything");
    assert!(
        gateway.logged("\"suppressed\"", PATIENCE),
        "nobody was told"
    );
    let lines = || {
        let log = gateway.log();
        log.iter()
            .filter(|line| line.contains("\"path\":\"/none\""))
            .count()
    };
    let settled = eventually(PATIENCE, || {
        let suppressed = gateway.metric("sockeye_log_lines_suppressed_total");
        lines() as f64 + suppressed == (BATCHES * EACH) as f64
    });
    assert!(settled, "{} lines", lines());
    assert!((100..=most).contains(&lines()), "{} lines", lines());
}

fn bearer(key: &str) -> String {
    format!("Authorization: Bearer {key}\r\n")
}

fn disconnect(gateway: &Gateway, key: &str, order: &Value) -> (u16, Value) {
    let headers = bearer(key);
    let answer = request(
        gateway.admin,
        "POST",
        "/v1/disconnect",
        &headers,
        &order.to_string(),
    );
    (
        answer.status,
        serde_json::from_str(&answer.body).expect("JSON"),
    )
}

#[test]
fn with_keys_every_path_but_the_open_ones_asks_for_one() {
    let (key, entry) = api_key("ops");
    let gateway = Gateway::start(&config(&entry, ""));
    let status =
        |path: &str, headers: &str| request(gateway.admin, "GET", path, headers, "").status;
    for path in ["/health", "/ready", "/metrics"] {
        assert_eq!(status(path, ""), 200, "{path}");
    }
    for path in [
        "/none",
        "/debug/memory",
        "/v1/disconnect",
        "/metrics/",
        "/Metrics",
    ] {
        let answer = request(gateway.admin, "GET", path, "", "");
        assert_eq!(answer.status, 401, "{path}: {answer:?}");
        assert!(
            answer
                .head
                .to_ascii_lowercase()
                .contains("www-authenticate: bearer"),
            "{answer:?}"
        );
    }
    for wrong in ["", "x", &key[1..]] {
        assert_eq!(status("/none", &bearer(wrong)), 401, "{wrong:?}");
    }
    assert_eq!(status("/none", &bearer(&key)), 404);
    assert_eq!(status("/none", &format!("X-API-Key: {key}\r\n")), 404);
    let refused = gateway.metric("sockeye_http_refused_total{part=\"admin\"}");
    assert_eq!(refused, 8.0);
    assert!(
        !gateway.log().join("\n").contains(&key),
        "a key is in the log"
    );
}

#[test]
fn metrics_ask_for_a_key_when_they_are_told_to() {
    let (key, entry) = api_key("prometheus");
    let gateway = Gateway::start(&config(&entry, "metrics_need_key = true"));
    let status = |headers: &str| request(gateway.admin, "GET", "/metrics", headers, "").status;
    assert_eq!((status(""), status(&bearer(&key))), (401, 200));
}

#[test]
fn an_operator_puts_out_a_socket_a_room_or_a_whole_connection() {
    let (key, entry) = api_key("ops");
    let gateway = Gateway::start(&config(&entry, ""));
    // Several clients, so that there is one on each shard or nearly.
    let mut clients: Vec<_> = (0..8)
        .map(|_| SocketIo::websocket(gateway.addr, "/", json!({})))
        .collect();
    let mut by_socket = clients.remove(0);
    let order = json!({ "sockets": [by_socket.id], "close": true });
    assert_eq!(
        disconnect(&gateway, &key, &order),
        (202, json!({ "accepted": true, "everywhere": true }))
    );
    by_socket.until_closed();

    clients
        .iter_mut()
        .for_each(|client| drop(client.ask("join", &["r".into()])));
    let mut plain = Plain::connect(gateway.addr, Encoding::Json);
    let mut stays = SocketIo::websocket(gateway.addr, "/", json!({}));
    plain.join("r");
    assert_eq!(
        disconnect(&gateway, &key, &json!({ "rooms": ["r"], "close": true })).0,
        202
    );
    clients
        .iter_mut()
        .for_each(|client| drop(client.until_closed()));
    plain.until_closed();
    stays.ask("join", &["r".into()]);

    for wrong in [
        json!({}),
        json!({ "close": true }),
        json!({ "rooms": [], "close": true }),
        json!({ "uid": "a" }),
        json!([]),
    ] {
        let (status, body) = disconnect(&gateway, &key, &wrong);
        let kind = json!("urn:sockeye:problem:invalid-request");
        assert_eq!((status, &body["type"]), (400, &kind), "{wrong}");
    }
    stays.ask("leave", &["r".into()]);
    assert!(gateway.logged("disconnect ordered", PATIENCE));
}

#[test]
fn an_operator_puts_out_all_connections_of_a_user() {
    let (key, entry) = api_key("ops");
    let secret = "0123456789abcdef0123456789abcdef";
    let gateway = Gateway::start(&config(&entry, &format!("[auth]\nsecret = \"{secret}\"")));
    let token = |uid: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sockeye"));
        let run = command
            .args(["token", "--secret", secret, "--uid", uid])
            .output();
        let text = String::from_utf8(run.expect("run sockeye").stdout).expect("UTF-8");
        json!({ "token": text.trim() })
    };
    let (ada, eve) = (token("ada"), token("eve"));
    let mut out: Vec<_> = (0..6)
        .map(|_| SocketIo::websocket(gateway.addr, "/", ada.clone()))
        .collect();
    let mut stays = SocketIo::websocket(gateway.addr, "/", eve);
    assert_eq!(
        disconnect(&gateway, &key, &json!({ "users": ["ada"], "close": true })).0,
        202
    );
    out.iter_mut()
        .for_each(|client| drop(client.until_closed()));
    stays.ask("join", &["r".into()]);
    assert_eq!(
        gateway.reaches("sockeye_auth_tokens_total{result=\"accepted\"}", 7.0),
        7.0
    );
    assert_eq!(gateway.reaches("sockeye_auth_keys", 1.0), 1.0);
}

#[test]
fn without_keys_nobody_gives_orders() {
    let gateway = Gateway::start("profile = \"socket.io\"\n");
    let order = json!({ "rooms": ["r"] }).to_string();
    let answer = request(gateway.admin, "POST", "/v1/disconnect", "", &order);
    assert_eq!(answer.status, 403, "{answer:?}");
}

#[test]
fn connections_of_operators_are_few_and_must_speak() {
    let config = "profile = \"socket.io\"\n[admin]\nconns_max = 2\n";
    let gateway = Gateway::start(config);
    let mut silent: Vec<_> = (0..2).map(|_| RawConn::connect(gateway.admin)).collect();
    silent[0].send("GET /metr");
    // Its place is the first one's.
    let served = request(gateway.admin, "GET", "/health", "", "");
    assert_eq!(served.status, 200, "{served:?}");
    for mut conn in silent {
        let ended = conn.ended(Duration::from_secs(15));
        assert_ne!(ended, Ended::Open, "a silent connection stays");
    }
    assert_eq!(gateway.metric("sockeye_connections"), 0.0);
}

/// For ten seconds nobody else saw anything.
#[test]
fn silent_connections_kept_a_scrape_out() {
    let gateway = Gateway::start("profile = \"socket.io\"\n");
    let mut silent: Vec<_> = (0..200).map(|_| RawConn::connect(gateway.admin)).collect();
    for (n, conn) in silent.iter_mut().enumerate() {
        if n % 2 == 0 {
            conn.send("GET /metrics HTTP/1.1\r\nHost: ");
        }
    }
    let mut scraper = RawConn::connect(gateway.admin);
    for round in 0..3 {
        for _ in 0..20 {
            silent.push(RawConn::connect(gateway.admin));
        }
        scraper.send("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
        let answer = scraper.response_within(HEAD_TIMEOUT / 2);
        let answer = answer.unwrap_or_else(|error| panic!("scrape {round}: {error:?}"));
        assert_eq!(answer.status, 200, "{round}");
        assert!(answer.body.contains("sockeye_connections "), "{round}");
    }
}

#[test]
fn pages_are_counted_by_address_and_realtime_and_health_are_not() {
    let config = "[server]\nshards = 2\n[pages]\nrate = \"5/15m\"\nrate_loopback = true\n";
    let gateway = Gateway::start(config);
    let header = |answer: &crate::harness::Response, name: &str| {
        answer
            .header(name)
            .and_then(|text| text.parse::<u64>().ok())
    };
    let get = |path: &str| {
        let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        RawConn::exchange(gateway.addr, head)
    };
    for remaining in (0..5).rev() {
        let answer = get(if remaining == 2 { "/none" } else { "/" });
        assert!(matches!(answer.status, 200 | 404), "{answer:?}");
        assert_eq!(header(&answer, "RateLimit-Limit"), Some(5));
        assert_eq!(header(&answer, "RateLimit-Remaining"), Some(remaining));
        let reset = header(&answer, "RateLimit-Reset").expect("reset");
        assert!((800..=900).contains(&reset), "{answer:?}");
    }
    let answer = get("/");
    assert_eq!(answer.status, 429, "{answer:?}");
    assert_eq!(header(&answer, "RateLimit-Remaining"), Some(0));
    assert!(header(&answer, "Retry-After").is_some_and(|seconds| (800..=900).contains(&seconds)));
    for _ in 0..10 {
        assert_eq!(get("/health").status, 200);
    }
    let mut client = SocketIo::websocket(gateway.addr, "/", json!({}));
    client.ask("join", &["r".into()]);
    assert_eq!(
        gateway.reaches("sockeye_http_refused_total{part=\"pages\"}", 1.0),
        1.0
    );
}

#[test]
fn loopback_may_ask_for_any_number_of_pages() {
    let gateway = Gateway::start("[server]\nshards = 2\n[pages]\nrate = \"2/15m\"\n");
    for _ in 0..10 {
        let answer = RawConn::exchange(
            gateway.addr,
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        );
        assert_eq!(
            (answer.status, answer.header("RateLimit-Limit")),
            (200, None),
            "{answer:?}"
        );
    }
}

/// With the defaults, the 17th visitor behind one address had a page without the script it needs.
#[test]
fn visitors_behind_one_address_used_up_the_files_of_the_page() {
    let config = "[server]\nshards = 2\n[pages]\nrate = \"20/15m\"\nrate_loopback = true\n";
    let gateway = Gateway::start(config);
    let get = |path: &str, headers: &str| {
        let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\n{headers}Connection: close\r\n\r\n");
        RawConn::exchange(gateway.addr, head)
    };
    let files = [
        "/style.css",
        "/theme.js",
        "/app.js",
        "/socket.io/socket.io.min.js",
        "/icon.svg",
    ];
    for visitor in 0..25 {
        let page = get("/", "");
        assert_eq!(
            page.status,
            if visitor < 20 { 200 } else { 429 },
            "{visitor}"
        );
        for path in files {
            let file = get(path, "");
            assert_eq!(
                (file.status, file.header("RateLimit-Limit")),
                (200, None),
                "{path}"
            );
        }
    }
    // What is not there is no file, and a browser shows a sentence.
    assert_eq!(get("/none.js", "").status, 429);
    let page = get("/", "Accept: text/html,*/*;q=0.8\r\n");
    assert_eq!(page.status, 429, "{page:?}");
    assert!(
        page.body
            .contains("<p>This address has asked for too many pages."),
        "{page:?}"
    );
    assert!(get("/", "").body.contains("RATE_LIMIT_EXCEEDED"));
}
