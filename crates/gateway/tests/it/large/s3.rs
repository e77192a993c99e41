//! Several nodes with one bucket, and a bucket that is away, slow, or killed in the middle.

use super::{
    LARGE, config, fetch, files, get, join, member, reference, text, upload, upload_head, url,
};
use crate::harness::{Gateway, PATIENCE, RawConn, eventually};
use ::client::full::SocketIo;
use serde_json::{Value, json};
use servers::{Bucket, Redis};
use std::path::PathBuf;
use std::time::{Duration, Instant};

struct Nodes {
    nodes: Vec<Gateway>,
    bucket: Bucket,
    redis: Redis,
    folders: Vec<tempfile::TempDir>,
}

impl Nodes {
    /// Uploads of one node that are whole, or half there.
    fn spooled(&self, node: usize) -> Vec<PathBuf> {
        files(self.folders[node].path())
    }
}

fn nodes(large: &str) -> Nodes {
    nodes_with(large, "")
}

fn nodes_with(large: &str, cluster: &str) -> Nodes {
    let (redis, bucket) = (Redis::start(), Bucket::start());
    let folders: Vec<_> = (0..2)
        .map(|_| tempfile::tempdir().expect("a folder"))
        .collect();
    let cluster = format!(
        "[cluster]\nadapter = \"redis\"\nurls = [{:?}]\nsecret = \"s\"\n{cluster}\n",
        redis.url()
    );
    let large = format!(
        "{}secret = \"the same on all nodes, and long enough\"\n{large}",
        bucket.settings()
    );
    let nodes = folders
        .iter()
        .map(|folder| Gateway::start(&config(folder.path(), &large, &cluster)));
    Nodes {
        nodes: nodes.collect(),
        bucket,
        redis,
        folders,
    }
}

fn error(answer: &[Value]) -> String {
    answer
        .first()
        .map_or_else(String::new, |answer| answer["error"].to_string())
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn order_holds_across_nodes_and_any_node_serves_a_body() {
    let all = nodes("");
    let [one, two] = [all.nodes[0].addr, all.nodes[1].addr];
    let mut hearer = join(two, "/", "den");
    let mut ada = join(one, "/", "den");
    for n in 0..60 {
        let body = if n % 3 == 1 {
            text(LARGE)
        } else {
            String::new()
        };
        ada.emit("said", &[json!(n), json!(body)]);
    }
    for n in 0..60 {
        if n % 3 == 1 {
            let reference = reference(&mut hearer, "said");
            let node = if n % 2 == 0 { one } else { two };
            assert_eq!(fetch(node, &reference)[0], json!(n));
        } else {
            assert_eq!(hearer.expect("said")[0], json!(n));
        }
    }
    assert_eq!(all.bucket.objects(), 20);
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn an_upload_of_several_parts_reaches_the_bucket_whole() {
    let all = nodes("uploads = true\n");
    let [one, two] = [all.nodes[0].addr, all.nodes[1].addr];
    let (_ada, token) = member(one, "ada", "den");
    let mut hearer: SocketIo = join(two, "/", "den");
    let body: Vec<u8> = (0..20_000_000_u32).map(|n| (n % 125) as u8).collect();
    // The user is a member by a socket of the other node.
    let (status, answer) = upload(two, "event=file&room=den", &token, &body);
    assert_eq!(status, 201, "{answer}");
    let said = reference(&mut hearer, "file");
    assert_eq!(said, answer);
    let whole = get(one, &url(&said), "");
    assert!(whole.body.as_bytes() == body, "{} bytes", whole.body.len());
    let part = get(two, &url(&said), "Range: bytes=19999990-\r\n");
    assert_eq!(
        (part.status, part.body.as_bytes()),
        (206, &body[19_999_990..])
    );
    assert_eq!(all.bucket.objects(), 1);
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_bucket_that_is_slow_or_away_is_told_and_nothing_is_half_published() {
    let mut all = nodes("uploads = true\nstore_timeout = \"1s\"\n");
    let addr = all.nodes[0].addr;
    let (mut ada, token) = member(addr, "ada", "den");
    let mut hearer = join(all.nodes[1].addr, "/", "den");
    ada.ask("said", &[json!(text(LARGE))]);
    reference(&mut hearer, "said");
    // It stands still: others are not held up, and what waits behind keeps its place.
    all.bucket.freeze();
    ada.emit("said", &[json!(text(LARGE))]);
    ada.emit("behind", &[]);
    let mut bob = join(addr, "/", "den");
    bob.emit("meanwhile", &[]);
    assert_eq!(hearer.next().name, "meanwhile");
    assert_eq!(hearer.next().name, "behind");
    let (status, answer) = upload(addr, "event=file&room=den", &token, &vec![7; 12_000_000]);
    assert_eq!(
        (status, &answer["error"]),
        (503, &json!("STORE_UNAVAILABLE"))
    );
    all.bucket.thaw();
    // It is away.
    all.bucket.kill();
    let refused = error(&ada.ask("said", &[json!(text(LARGE))]));
    assert!(refused.contains("store"), "{refused}");
    let (status, answer) = upload(addr, "event=file&room=den", &token, &vec![7; 12_000_000]);
    assert_eq!(
        (status, &answer["error"]),
        (503, &json!("STORE_UNAVAILABLE"))
    );
    ada.emit("small", &[]);
    assert_eq!(hearer.next().name, "small");
    // It is back.
    all.bucket.start_again();
    let back = eventually(PATIENCE, || {
        error(&ada.ask("said", &[json!(text(LARGE))])).is_empty()
    });
    assert!(back);
    let reference = reference(&mut hearer, "said");
    assert_eq!(fetch(all.nodes[1].addr, &reference), json!([text(LARGE)]));
}

/// All of an upload is there, and the bucket dies while it takes it.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_bucket_that_is_killed_in_the_middle_of_an_upload_is_told_and_has_nothing_of_it() {
    let mut all = nodes("uploads = true\nstore_timeout = \"30s\"\n");
    let addr = all.nodes[0].addr;
    let (mut ada, token) = member(addr, "ada", "den");
    let mut hearer = join(all.nodes[1].addr, "/", "den");
    all.bucket.freeze();
    let mut conn = RawConn::connect(addr);
    conn.send(upload_head(
        "event=file&room=den",
        &token,
        "Content-Length: 12000000\r\n",
    ));
    conn.send(vec![7; 12_000_000]);
    let is_whole = |path: &PathBuf| !path.to_string_lossy().contains('#');
    let carried = eventually(PATIENCE, || all.spooled(0).iter().any(is_whole));
    assert!(carried, "{:?}", all.spooled(0));
    all.bucket.kill();
    let response = conn.response_within(PATIENCE).expect("an answer");
    assert_eq!(response.status, 503, "{response:?}");
    ada.emit("small", &[]);
    assert_eq!(hearer.next().name, "small");
    assert!(eventually(PATIENCE, || all.spooled(0).is_empty()));
    all.bucket.start_again();
    assert_eq!(all.bucket.objects(), 0);
}

/// A client that goes when all is there does not leave its upload lying about.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn an_upload_reaches_the_bucket_also_if_its_client_goes_meanwhile() {
    let all = nodes("uploads = true\nstore_timeout = \"30s\"\n");
    let addr = all.nodes[0].addr;
    let (_ada, token) = member(addr, "ada", "den");
    let mut hearer = join(all.nodes[1].addr, "/", "den");
    all.bucket.freeze();
    let mut conn = RawConn::connect(addr);
    conn.send(upload_head(
        "event=file&room=den",
        &token,
        "Content-Length: 9000000\r\n",
    ));
    conn.send(vec![7; 9_000_000]);
    let is_whole = |path: &PathBuf| !path.to_string_lossy().contains('#');
    assert!(eventually(PATIENCE, || all.spooled(0).iter().any(is_whole)));
    let cut = "sockeye_large_downloads_total{outcome=\"cut\"}";
    conn.reset();
    assert!(all.nodes[0].reaches(cut, 1.0) >= 1.0);
    all.bucket.thaw();
    let said = reference(&mut hearer, "file");
    let whole = get(all.nodes[1].addr, &url(&said), "");
    assert_eq!((whole.status, whole.body.len()), (200, 9_000_000));
    assert!(eventually(PATIENCE, || all.spooled(0).is_empty()));
}

/// `store_timeout` is for the store, and not for the client.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_slow_client_gets_the_whole_body_from_the_bucket() {
    let all = nodes("uploads = true\nstore_timeout = \"5s\"\n");
    let addr = all.nodes[0].addr;
    let (_ada, token) = member(addr, "ada", "den");
    // More than all buffers between the bucket and the client hold.
    let body: Vec<u8> = (0..30_000_000_u32).map(|n| (n % 125) as u8).collect();
    let (status, reference) = upload(addr, "event=file&room=den", &token, &body);
    assert_eq!(status, 201, "{reference}");
    let mut conn = RawConn::connect(addr);
    conn.shrink_receive_buffer(65_536);
    conn.send(format!(
        "GET {} HTTP/1.1\r\nHost: x\r\n\r\n",
        url(&reference)
    ));
    // It takes a piece now and then, for longer than that.
    let began = Instant::now();
    let mut got = Vec::new();
    while began.elapsed() < Duration::from_secs(8) {
        got.extend(conn.bytes_within(10_000, PATIENCE).expect("more of it"));
        std::thread::sleep(Duration::from_millis(20));
    }
    let head = got.windows(4).position(|four| four == b"\r\n\r\n");
    let head = head.expect("a head") + 4;
    let rest = head + body.len() - got.len();
    got.extend(conn.bytes_within(rest, PATIENCE).expect("all of it"));
    assert!(got[head..] == body);
}

/// Where not all nodes can be told, clients of this one have the reference: it must lead somewhere.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn an_upload_that_not_all_nodes_hear_of_is_told_and_stays() {
    let mut all = nodes_with("uploads = true\n", "queue_bytes = \"64KiB\"\n");
    let addr = all.nodes[0].addr;
    let (mut ada, token) = member(addr, "ada", "den");
    let mut hearer = join(addr, "/", "den");
    // The other node wants what is said there.
    let mut elsewhere = join(all.nodes[1].addr, "/", "den");
    ada.emit("first", &[]);
    assert_eq!(elsewhere.next().name, "first");
    all.redis.kill();
    let full = eventually(PATIENCE, || {
        error(&ada.ask("filler", &[json!(text(8_000))])).contains("only clients of this node")
    });
    assert!(full);
    let (status, answer) = upload(addr, "event=file&room=den", &token, b"body");
    assert_eq!(
        (status, &answer["error"]),
        (503, &json!("CLUSTER_UNAVAILABLE")),
        "{answer}"
    );
    let reference = loop {
        let said = hearer.next();
        if said.name == "large_message" {
            break said.args[0].clone();
        }
    };
    assert_eq!(get(addr, &url(&reference), "").body, "body");
}
