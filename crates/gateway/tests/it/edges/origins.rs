//! Whose pages may use the gateway: the allow-list on every transport, CORS with credentials, methods.

use super::SOON;
use crate::harness::client::{SOCKETIO, poll_request, post_request};
use crate::harness::raw::upgrade_request;
use crate::harness::{Ended, Gateway, Poller, RawConn, Response, SocketIo};

const SETTINGS: &str = r#"
profile = "socket.io"
[server]
shards = 1
pin = false
[socketio]
origins = ["https://chat.example", "https://*.example.org", "http://localhost:3000"]
cors = ["https://chat.example", "https://*.example.org", "null"]
cors_max_age = "5m"
"#;

const FOREIGN: [&str; 9] = [
    "https://evil.example",
    "http://chat.example",
    "https://chat.example:8443",
    "https://chat.example.evil.example",
    "https://example.org",
    "https://evilexample.org",
    "https://evil.example/.example.org",
    "null",
    "",
];

const OURS: [&str; 3] = [
    "https://chat.example",
    "https://a.b.example.org",
    "http://localhost:3000",
];

/// The request with one more header line.
fn with(request: impl AsRef<[u8]>, line: &str) -> String {
    let request = String::from_utf8_lossy(request.as_ref()).into_owned();
    request.replacen("\r\n", &format!("\r\n{line}\r\n"), 1)
}

fn ask(gateway: &Gateway, request: impl AsRef<[u8]>, origin: &str) -> Response {
    RawConn::exchange(gateway.addr, with(request, &format!("Origin: {origin}")))
}

fn options(target: &str, headers: &str) -> String {
    format!("OPTIONS {target} HTTP/1.1\r\nHost: a\r\n{headers}\r\n")
}

/// Attack A01: cross-site WebSocket hijacking: a page of another site opens a socket with its visitor's cookies. Browsers let it; the
/// Origin header is all that tells.
#[test]
fn a_page_of_another_site_opens_no_websocket() {
    let gateway = Gateway::start(SETTINGS);
    let polling = Poller::connect(gateway.addr);
    let probe = format!("{SOCKETIO}&sid={}", polling.sid);
    for target in [SOCKETIO, "/ws", &probe] {
        for origin in FOREIGN {
            let mut conn = RawConn::connect(gateway.addr);
            let line = format!("Origin: {origin}\r\nCookie: session=victim");
            conn.send(with(upgrade_request(target, ""), &line));
            let answer = conn.response();
            assert_eq!(answer.status, 403, "{target} {origin}: {answer:?}");
            assert_eq!(answer.header("sec-websocket-accept"), None);
            assert_ne!(conn.ended(SOON), Ended::Open, "{target} {origin}");
        }
        // Two lines: one reader may see this, another that.
        let twice = with(
            upgrade_request(target, ""),
            "Origin: https://chat.example\r\nOrigin: https://evil.example",
        );
        assert_eq!(RawConn::exchange(gateway.addr, twice).status, 403);
    }
    assert!(polling.is_alive(), "foreign upgrades did it harm");
    for origin in OURS {
        let header = format!("Origin: {origin}\r\n");
        let _client = SocketIo::over(RawConn::websocket_with(gateway.addr, SOCKETIO, &header));
        let _plain = RawConn::websocket_with(gateway.addr, "/ws", &header);
    }
    let _native = SocketIo::connect(gateway.addr);
    let header = "Origin: https://chat.example\r\n";
    let mut upgraded = RawConn::websocket_with(gateway.addr, &probe, header);
    upgraded.send_text("2probe");
    assert_eq!(upgraded.frame().text(), "3probe");
}

/// Attack E27.
#[test]
fn a_page_of_another_site_can_not_poll_either() {
    let gateway = Gateway::start(SETTINGS);
    let victim = Poller::connect(gateway.addr);
    for origin in FOREIGN {
        for request in [
            poll_request(""),
            poll_request(&victim.sid),
            post_request(&victim.sid, "42[\"transfer\",1000]"),
            options(
                &format!("/socket.io/?EIO=4&transport=polling&sid={}", victim.sid),
                "",
            ),
        ] {
            let answer = ask(&gateway, request, origin);
            assert_eq!(answer.status, 403, "{origin}: {answer:?}");
            if origin != "null" {
                assert_eq!(answer.header("access-control-allow-origin"), None);
                assert_eq!(answer.header("access-control-allow-credentials"), None);
            }
        }
    }
    assert!(victim.is_alive());
}

#[test]
fn credentials_are_for_named_origins_and_caches_know() {
    let gateway = Gateway::start(&SETTINGS.replace("origins =", "# origins ="));
    let listed = ["https://chat.example", "https://a.b.example.org", "null"];
    for origin in listed {
        let answers = [
            ask(&gateway, poll_request(""), origin),
            ask(&gateway, poll_request("AAAAAAAAAAAAAAAAAAAA"), origin),
            ask(
                &gateway,
                options("/socket.io/?EIO=4&transport=polling", ""),
                origin,
            ),
        ];
        assert_eq!(
            answers.each_ref().map(|answer| answer.status),
            [200, 400, 204]
        );
        for answer in answers {
            assert_eq!(
                answer.header("access-control-allow-origin"),
                Some(origin),
                "{answer:?}"
            );
            assert_eq!(
                answer.header("access-control-allow-credentials"),
                Some("true")
            );
            assert_eq!(answer.header("vary"), Some("Origin"));
        }
    }
    for origin in [
        "https://evil.example",
        "https://example.org",
        "http://chat.example",
    ] {
        let answer = ask(&gateway, poll_request(""), origin);
        assert_eq!(
            answer.status, 200,
            "the browser keeps it from the page: {answer:?}"
        );
        assert_eq!(answer.header("access-control-allow-origin"), None);
        assert_eq!(answer.header("access-control-allow-credentials"), None);
        assert_eq!(answer.header("vary"), Some("Origin"));
    }
}

#[test]
fn a_preflight_says_what_is_allowed_and_for_how_long() {
    let gateway = Gateway::start(SETTINGS);
    let asked =
        "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: x-shout\r\n";
    let request = options("/socket.io/?EIO=4&transport=polling", asked);
    let answer = ask(&gateway, request, "https://chat.example");
    assert_eq!((answer.status, &*answer.body), (204, ""));
    for (name, value) in [
        ("access-control-allow-origin", "https://chat.example"),
        ("access-control-allow-credentials", "true"),
        ("access-control-allow-methods", "GET,POST"),
        ("access-control-allow-headers", "x-shout"),
        ("access-control-max-age", "300"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{answer:?}");
    }
    assert!(
        answer.head.contains("Vary: Access-Control-Request-Headers"),
        "{answer:?}"
    );
}

/// A client library may ask without naming headers: the answer named none then.
#[test]
fn a_preflight_that_names_no_header_hears_of_the_configured_ones() {
    let settings = format!("{SETTINGS}cors_headers = [\"content-type\", \"x-shout\"]\n");
    let gateway = Gateway::start(&settings);
    for asked in ["", "Access-Control-Request-Headers: x-whisper\r\n"] {
        let request = options("/socket.io/default/?EIO=4&transport=polling", asked);
        let answer = ask(&gateway, request, "https://chat.example");
        assert_eq!(answer.status, 204);
        let allowed = answer.header("access-control-allow-headers");
        assert_eq!(allowed, Some("content-type,x-shout"), "{answer:?}");
    }
}

#[test]
fn any_origin_goes_without_credentials() {
    let gateway = Gateway::start("[server]\nshards = 1\npin = false\n[socketio]\ncors = [\"*\"]\n");
    for request in [
        poll_request(""),
        options("/socket.io/?EIO=4&transport=polling", ""),
    ] {
        let answer = ask(&gateway, request, "https://anywhere.example");
        assert_eq!(
            answer.header("access-control-allow-origin"),
            Some("*"),
            "{answer:?}"
        );
        assert_eq!(answer.header("access-control-allow-credentials"), None);
    }
}

/// A handshake by another method than GET is Engine.IO's error 2, which clients know; all else is HTTP's 405.
#[test]
fn get_and_post_are_all_there_is() {
    let gateway = Gateway::start(&SETTINGS.replace("cors =", "# cors ="));
    let poller = Poller::connect(gateway.addr);
    let session = format!("/socket.io/?EIO=4&transport=polling&sid={}", poller.sid);
    for method in [
        "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "X-ODD",
    ] {
        let request =
            format!("{method} {session} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let answer = RawConn::exchange(gateway.addr, request);
        assert_eq!(answer.status, 405, "{method}: {answer:?}");
        assert_eq!(answer.header("allow"), Some("GET, POST"), "{method}");
    }
    let handshake = "PUT /socket.io/?EIO=4&transport=polling HTTP/1.1\r\nHost: a\r\n\r\n";
    let answer = RawConn::exchange(gateway.addr, handshake);
    assert_eq!(
        (answer.status, answer.header("allow")),
        (400, Some("GET, POST"))
    );
    assert_eq!(
        answer.body,
        r#"{"code":2,"message":"Bad handshake method"}"#
    );
    let plain = "POST /ws HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    let answer = RawConn::exchange(gateway.addr, plain);
    assert_eq!((answer.status, answer.header("allow")), (405, Some("GET")));
    let page = "DELETE /health HTTP/1.1\r\nHost: a\r\n\r\n";
    let answer = RawConn::exchange(gateway.addr, page);
    assert_eq!(
        (answer.status, answer.header("allow")),
        (405, Some("GET, HEAD"))
    );
    assert!(poller.is_alive());
}

/// The request as sent to this name of the gateway.
fn to(request: impl AsRef<[u8]>, host: &str) -> String {
    let request = String::from_utf8_lossy(request.as_ref()).into_owned();
    let lines = request.split("\r\n");
    let others = lines.filter(|line| !line.to_ascii_lowercase().starts_with("host:"));
    let whole = others.collect::<Vec<_>>().join("\r\n");
    with(whole, &format!("Host: {host}"))
}

/// Status of a poll, what its answer allows to whom, and the status of a WebSocket.
fn tried(gateway: &Gateway, host: &str, origin: &str) -> (u16, Option<String>, u16) {
    let poll = ask(gateway, to(poll_request(""), host), origin);
    let upgrade = ask(gateway, to(upgrade_request(SOCKETIO, ""), host), origin);
    let allowed = poll.header("access-control-allow-origin");
    (poll.status, allowed.map(str::to_owned), upgrade.status)
}

/// docs/migration.md says of a page on another port: polls need `cors`, WebSockets nothing, and a list refuses both.
#[test]
fn each_combination_of_cors_and_origins_does_what_the_pages_say() {
    let page = "http://localhost:5173";
    let cors = "cors = [\"http://localhost:5173\"]\n";
    let listed = "origins = [\"http://localhost:5173\"]\n";
    let elsewhere = "origins = [\"https://chat.example\"]\n";
    let allowed = Some(page.to_owned());
    for (settings, wanted) in [
        // Without the header the browser keeps the answer from the page.
        (String::new(), (200, None, 101)),
        (cors.to_owned(), (200, allowed.clone(), 101)),
        (listed.to_owned(), (200, None, 101)),
        (format!("{cors}{listed}"), (200, allowed, 101)),
        (elsewhere.to_owned(), (403, None, 403)),
    ] {
        let config = format!("[server]\nshards = 1\n[socketio]\n{settings}");
        let gateway = Gateway::start(&config);
        assert_eq!(
            tried(&gateway, "localhost:3000", page),
            wanted,
            "{settings}"
        );
    }
}

/// The gateway's own page got 403 as soon as another site was listed.
#[test]
fn the_own_origin_was_refused_where_others_are_listed() {
    let gateway = Gateway::start(SETTINGS);
    for (host, origin) in [
        ("localhost:3001", "http://localhost:3001"),
        ("192.0.2.7:3000", "http://192.0.2.7:3000"),
        ("other.example", "https://other.example"),
    ] {
        let (poll, _, upgrade) = tried(&gateway, host, origin);
        assert_eq!((poll, upgrade), (200, 101), "{origin} at {host}");
        let plain = ask(&gateway, to(upgrade_request("/ws", ""), host), origin);
        assert_eq!(plain.status, 101, "{plain:?}");
    }
    for (host, origin) in [
        ("localhost:3001", "http://localhost:5173"),
        // Any site can have a name that leads here.
        ("evil.example:3000", "http://evil.example:3000"),
    ] {
        let (poll, _, upgrade) = tried(&gateway, host, origin);
        assert_eq!((poll, upgrade), (403, 403), "{origin} at {host}");
    }
}

/// With this profile there is no page: `/` said NOT_FOUND and nothing else.
#[test]
fn a_look_at_the_address_tells_where_clients_connect() {
    let gateway = Gateway::start(
        "profile = \"socket.io\"\n[server]\nshards = 1\n[plain]\npath = \"/live\"\n",
    );
    let answer = RawConn::exchange(gateway.addr, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(answer.status, 404);
    assert_eq!(
        answer.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    for line in [
        "Socket.IO clients: io(\"this address\")",
        "plain WebSocket: /live",
        "event streams: /sse",
    ] {
        assert!(
            answer.body.lines().any(|said| said == line),
            "{}",
            answer.body
        );
    }
}
