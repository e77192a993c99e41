//! Requests over real sockets, handed over as a shard does it: some bytes already read.

use super::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

struct Site {
    pages: Pages,
    listener: TcpListener,
}

const NO_TRANSPORT: &str = r#"{"code":0,"message":"Transport unknown"}"#;

/// `all`: the chat page and the bundles.
fn config(all: bool, cors: Cors) -> PageConfig {
    PageConfig {
        chat_page: all,
        doors: "Clients connect to /socket.io/\n".to_owned(),
        serve_client: all,
        socketio_path: "/socket.io/".to_owned(),
        cors,
    }
}

impl Site {
    fn start(config: PageConfig) -> (Site, Readiness) {
        let readiness = Readiness::default();
        let pages = Pages::new(config, readiness.clone(), &Arc::new(Places::new(2_000)));
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        (Site { pages, listener }, readiness)
    }

    fn whole() -> Site {
        Site::start(config(true, Cors::Off)).0
    }

    /// Sends `request`; the first `read` bytes are read by the "shard" before it hands over.
    async fn exchange(&self, request: String, read: usize) -> Answer {
        let addr = self.listener.local_addr().expect("addr");
        let client = tokio::task::spawn_blocking(move || {
            let mut stream = TcpStream::connect(addr).expect("connect");
            stream.write_all(request.as_bytes()).expect("request");
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).expect("answer");
            Answer::parse(&answer)
        });
        let (mut stream, peer) = self.listener.accept().expect("accept");
        let mut first = vec![0; read];
        stream.read_exact(&mut first).expect("first bytes");
        stream.set_nonblocking(true).expect("nonblocking");
        self.pages.accept(Stream::Tcp(stream), first, peer.ip());
        client.await.expect("client")
    }

    async fn get(&self, path: &str, headers: &str) -> Answer {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n{headers}\r\n");
        let read = request.len();
        self.exchange(request, read).await
    }
}

struct Answer {
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn parse(bytes: &[u8]) -> Answer {
        let end = bytes
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .expect("a whole head");
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        Answer {
            head,
            body: bytes[end + 4..].to_vec(),
        }
    }

    fn status(&self) -> u16 {
        self.head
            .split(' ')
            .nth(1)
            .and_then(|text| text.parse().ok())
            .expect("status")
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{name}: ")))
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

#[tokio::test]
async fn the_page_comes_with_its_safety_belts() {
    let site = Site::whole();
    let answer = site.get("/", "").await;
    assert_eq!(answer.status(), 200);
    assert_eq!(
        answer.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(answer.header("cache-control"), Some("no-cache"));
    assert_eq!(answer.header("connection"), Some("close"));
    let policy = answer.header("content-security-policy").expect("policy");
    assert!(policy.starts_with("default-src 'self'; connect-src 'self' ws: wss:"));
    assert!(answer.text().to_lowercase().contains("<!doctype html>"));
}

#[tokio::test]
async fn bytes_that_a_shard_has_read_are_not_lost() {
    let site = Site::whole();
    let request = "GET /health HTTP/1.1\r\nHost: a\r\n\r\n";
    for read in [0, 1, 7, request.len()] {
        let answer = site.exchange(request.to_owned(), read).await;
        assert_eq!(answer.status(), 200, "{read} bytes read before");
        assert!(
            answer
                .text()
                .starts_with(r#"{"status":"healthy","timestamp":1"#)
        );
    }
}

#[tokio::test]
async fn a_second_request_on_the_connection_is_not_answered() {
    let site = Site::whole();
    let request = "GET /health HTTP/1.1\r\nHost: a\r\n\r\n".repeat(2);
    let answer = site.exchange(request, 10).await;
    assert_eq!(answer.status(), 200);
    assert!(!answer.text().contains("HTTP/1.1"), "{}", answer.text());
}

#[tokio::test]
async fn known_files_are_not_sent_again() {
    let site = Site::whole();
    let first = site.get("/app.js", "Accept-Encoding: br, gzip\r\n").await;
    assert_eq!(first.header("content-encoding"), Some("gzip"));
    let etag = first.header("etag").expect("etag").to_owned();
    let headers = format!("Accept-Encoding: gzip\r\nIf-None-Match: \"x\", W/{etag}\r\n");
    let again = site.get("/app.js", &headers).await;
    assert_eq!((again.status(), again.body.len()), (304, 0));
    assert_eq!(again.header("etag"), Some(&*etag));
}

#[tokio::test]
async fn compression_is_for_those_who_ask() {
    let site = Site::whole();
    let plain = site
        .get("/app.js", "Accept-Encoding: gzip;q=0, identity\r\n")
        .await;
    assert_eq!(plain.header("content-encoding"), None);
    assert_eq!(plain.header("vary"), Some("accept-encoding"));
    let packed = site.get("/app.js", "Accept-Encoding: gzip\r\n").await;
    assert!(packed.body.len() < plain.body.len());
}

#[tokio::test]
async fn the_client_is_served_as_socketio_serves_it() {
    let site = Site::whole();
    let version = format!("\"{}\"", crate::assets::bundle_version());
    let answer = site.get("/socket.io/socket.io.js", "").await;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.header("etag"), Some(&*version));
    assert!(answer.text().contains("Socket.IO"));
    let again = site
        .get(
            "/socket.io/socket.io.js",
            &format!("If-None-Match: {version}\r\n"),
        )
        .await;
    assert_eq!(again.status(), 304);
    let map = site
        .get(
            "/socket.io/socket.io.min.js.map",
            "Accept-Encoding: gzip\r\n",
        )
        .await;
    assert_eq!(
        map.header("content-type"),
        Some("application/json; charset=utf-8")
    );
    for name in ["VERSION", "socket.io.esm.js", "socket.io.js.gz"] {
        let answer = site.get(&format!("/socket.io/{name}"), "").await;
        assert_eq!(
            (answer.status(), &*answer.text()),
            (400, NO_TRANSPORT),
            "{name}"
        );
    }
}

#[tokio::test]
async fn of_equal_codings_the_first_is_taken_as_socketio_takes_it() {
    let site = Site::whole();
    for (accepted, coding) in [
        ("br", Some("br")),
        ("gzip,br,deflate", Some("gzip")),
        ("br;q=0.5, gzip;q=0.7", Some("gzip")),
        ("gzip;q=0, br;q=0.1", Some("br")),
        ("deflate", None),
        ("*", Some("gzip")),
    ] {
        let headers = format!("Accept-Encoding: {accepted}\r\n");
        let answer = site.get("/socket.io/socket.io.js", &headers).await;
        assert_eq!(answer.header("content-encoding"), coding, "{accepted}");
    }
}

#[tokio::test]
async fn pages_of_listed_origins_could_not_load_the_client_with_credentials() {
    let listed = "https://good.example";
    let (site, _) = Site::start(config(true, Cors::Origins(vec![listed.to_owned()])));
    for (origin, allowed, credentials) in [
        (listed, listed, Some("true")),
        ("https://other.example", "*", None),
    ] {
        let headers = format!("Origin: {origin}\r\n");
        let answer = site.get("/socket.io/socket.io.js", &headers).await;
        assert_eq!(answer.header("access-control-allow-origin"), Some(allowed));
        assert_eq!(
            answer.header("access-control-allow-credentials"),
            credentials
        );
        assert!(answer.head.contains("vary: origin"), "{}", answer.head);
    }
}

#[tokio::test]
async fn what_is_switched_off_is_not_there() {
    let (site, _) = Site::start(config(false, Cors::Off));
    for (path, said) in [
        ("/", "Clients connect to /socket.io/\n"),
        ("/app.js", r#"{"error":"NOT_FOUND"}"#),
        ("//", r#"{"error":"NOT_FOUND"}"#),
    ] {
        let answer = site.get(path, "").await;
        assert_eq!(answer.status(), 404, "{path}");
        assert_eq!(answer.text(), said);
    }
    // As Socket.IO's server has it.
    let answer = site.get("/socket.io/socket.io.js", "").await;
    assert_eq!(answer.status(), 400);
    assert_eq!(answer.text(), NO_TRANSPORT);
    assert_eq!(site.get("/health", "").await.status(), 200);
}

#[tokio::test]
async fn readiness_ends_with_the_drain() {
    let (site, readiness) = Site::start(config(false, Cors::Off));
    assert_eq!(site.get("/ready", "").await.status(), 200);
    readiness.drain();
    assert_eq!(site.get("/ready", "").await.status(), 503);
}

#[tokio::test]
async fn other_methods_and_bad_requests_get_an_answer() {
    let site = Site::whole();
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n".to_owned();
    let answer = site.exchange(post, 4).await;
    assert_eq!(answer.status(), 405);
    assert_eq!(answer.header("allow"), Some("get, head"));
    let head = "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned();
    let answer = site.exchange(head, 4).await;
    assert_eq!((answer.status(), answer.body.len()), (200, 0));
    let junk = site.exchange("NOT HTTP AT ALL\r\n\r\n".to_owned(), 4).await;
    assert_eq!(junk.status(), 400);
}

#[tokio::test]
async fn too_many_at_once_are_told_to_come_again() {
    let site = Site::whole();
    let all = Arc::clone(&site.pages.conns)
        .acquire_many_owned(CONNS_MAX as u32)
        .await;
    let answer = site.get("/", "").await;
    assert_eq!(answer.status(), 503);
    assert_eq!(answer.header("retry-after"), Some("1"));
    drop(all);
    assert_eq!(site.get("/", "").await.status(), 200);
}
