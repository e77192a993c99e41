//! Several nodes with one bucket, and a bucket that is away, slow, or killed in the middle.

use super::{LARGE, config, fetch, get, join, member, reference, text, upload, url};
use crate::harness::{Gateway, PATIENCE, eventually};
use ::client::full::SocketIo;
use serde_json::{Value, json};
use servers::{Bucket, Redis};

struct Nodes {
    nodes: Vec<Gateway>,
    bucket: Bucket,
    _redis: Redis,
    _folders: Vec<tempfile::TempDir>,
}

fn nodes(large: &str) -> Nodes {
    let (redis, bucket) = (Redis::start(), Bucket::start());
    let folders: Vec<_> = (0..2)
        .map(|_| tempfile::tempdir().expect("a folder"))
        .collect();
    let cluster = format!(
        "[cluster]\nadapter = \"redis\"\nurls = [{:?}]\nsecret = \"s\"\n",
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
        _redis: redis,
        _folders: folders,
    }
}

fn error(answer: &[Value]) -> String {
    answer
        .first()
        .map_or_else(String::new, |answer| answer["error"].to_string())
}

#[test]
#[ignore = "needs Redis, node: cargo xtask test foreign"]
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
#[ignore = "needs Redis, node: cargo xtask test foreign"]
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
#[ignore = "needs Redis, node: cargo xtask test foreign"]
fn a_bucket_that_is_slow_away_or_killed_in_the_middle_is_told_and_half_of_nothing_is_published() {
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
    // It is killed while it takes an upload, and is away.
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
