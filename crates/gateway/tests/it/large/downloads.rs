//! Addresses of bodies: what is good, what is not, and clients that do not read.

use super::{LARGE, Rig, get, join, member, reference, rig, text, upload, url};
use crate::harness::{PATIENCE, RawConn, eventually};
use serde_json::{Value, json};

/// A stored event, as a member got it.
fn stored(rig: &Rig, namespace: &str, bytes: usize) -> Value {
    let mut ada = join(rig.addr(), namespace, "den");
    let mut hearer = join(rig.addr(), namespace, "den");
    ada.emit("said", &[json!(text(bytes))]);
    reference(&mut hearer, "said")
}

/// A body that no connection's buffers hold: the kernel takes 4 MiB. It was uploaded, and nothing is under way any more.
fn uploaded(rig: &Rig) -> Value {
    let (_ada, token) = member(rig.addr(), "ada", "den");
    let body = vec![7; 16 << 20];
    let (status, answer) = upload(rig.addr(), "event=file&room=den", &token, &body);
    assert_eq!(status, 201, "{answer}");
    let open = rig
        .node
        .metric_settles("sockeye_large_transfers", |open| open == 0.0);
    assert_eq!(open, Ok(0.0));
    answer
}

#[test]
fn only_an_address_as_it_was_made_leads_to_a_body() {
    let rig = rig("");
    let (here, there) = (stored(&rig, "/", LARGE), stored(&rig, "/b", LARGE));
    let good = url(&here);
    let key = |reference: &Value| reference["key"].as_str().expect("a key").to_owned();
    assert_eq!(get(rig.addr(), &good, "").status, 200);
    let (path, query) = good.split_once('?').expect("a query");
    for (url, status) in [
        (path.to_owned(), 403),
        (good.replace("signature=", "signature=A"), 403),
        (good.replace("expires=", "expires=9"), 403),
        (format!("{good}&type=text/html"), 403),
        // Of another namespace.
        (good.replace(&key(&here), &key(&there)), 403),
        (format!("/large/?{query}"), 404),
        (format!("/large/../../../etc/passwd?{query}"), 404),
        (format!("/large/..%2f..%2fetc%2fpasswd?{query}"), 404),
        (format!("/large/{}%00?{query}", key(&here)), 404),
        (format!("{path}/..?{query}"), 404),
        (format!("{path}%231?{query}"), 404),
    ] {
        assert_eq!(get(rig.addr(), &url, "").status, status, "{url}");
    }
    let post = format!("POST {good} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    let refused = RawConn::exchange(rig.addr(), post);
    assert_eq!(
        (refused.status, refused.header("allow")),
        (405, Some("GET, HEAD, OPTIONS"))
    );
    // An address is a key: the log has none.
    let log = rig.node.log().join("\n");
    assert!(!log.contains("signature="), "{log}");
}

#[test]
fn an_address_ends() {
    let rig = rig("url_lifetime = \"1s\"\nkeep = \"1h\"");
    let reference = stored(&rig, "/", LARGE);
    let mut status = 0;
    let ended = eventually(PATIENCE, || {
        status = get(rig.addr(), &url(&reference), "").status;
        status != 200
    });
    assert!(ended);
    assert_eq!(status, 410);
    assert_eq!(rig.bodies().len(), 1);
}

#[test]
fn ranges_and_conditions_are_answered_as_the_standard_says() {
    let rig = rig("");
    let reference = stored(&rig, "/", LARGE);
    let url = url(&reference);
    let whole = get(rig.addr(), &url, "");
    let size = whole.body.len();
    assert_eq!(reference["size"], json!(size));
    let etag = whole.header("etag").expect("a tag").to_owned();
    for (range, expected) in [
        ("bytes=0-0", Some((0, 1))),
        ("bytes=2-", Some((2, size))),
        ("bytes=-4", Some((size - 4, size))),
        ("bytes=0-99999999", Some((0, size))),
        ("bytes=3-2", None),
        ("bytes=0-1,4-5", None),
        ("pages=1-2", None),
    ] {
        let part = get(rig.addr(), &url, &format!("Range: {range}\r\n"));
        match expected {
            Some((from, to)) => {
                assert_eq!(part.status, 206, "{range}");
                assert_eq!(part.body, whole.body[from..to], "{range}");
                let span = format!("bytes {from}-{}/{size}", to - 1);
                assert_eq!(part.header("content-range"), Some(&*span));
            }
            None => assert_eq!((part.status, part.body.len()), (200, size), "{range}"),
        }
    }
    for range in [
        format!("bytes={size}-"),
        "bytes=-0".to_owned(),
        "bytes=99999999999999999999-".to_owned(),
    ] {
        let none = get(rig.addr(), &url, &format!("Range: {range}\r\n"));
        let span = format!("bytes */{size}");
        assert_eq!(
            (none.status, none.header("content-range")),
            (416, Some(&*span)),
            "{range}"
        );
    }
    let same = get(
        rig.addr(),
        &url,
        &format!("Range: bytes=0-0\r\nIf-Range: {etag}\r\n"),
    );
    assert_eq!(same.status, 206);
    let other = get(
        rig.addr(),
        &url,
        "Range: bytes=0-0\r\nIf-Range: \"other\"\r\n",
    );
    assert_eq!(other.status, 200);
    let known = get(rig.addr(), &url, &format!("If-None-Match: {etag}\r\n"));
    assert_eq!((known.status, known.body.len()), (304, 0));
    let head = RawConn::exchange(
        rig.addr(),
        format!("HEAD {url} HTTP/1.1\r\nHost: x\r\n\r\n"),
    );
    let length = size.to_string();
    assert_eq!(
        (head.status, head.header("content-length")),
        (200, Some(&*length))
    );
}

#[test]
fn a_body_is_never_a_page_of_this_site() {
    let rig = rig("");
    let reference = stored(&rig, "/", LARGE);
    let response = get(
        rig.addr(),
        &url(&reference),
        "Origin: https://other.example\r\n",
    );
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("content-disposition", "attachment"),
        ("content-security-policy", "default-src 'none'; sandbox"),
        ("referrer-policy", "no-referrer"),
        ("accept-ranges", "bytes"),
    ] {
        assert_eq!(response.header(name), Some(value), "{name}: {response:?}");
    }
    let cached = response.header("cache-control").expect("a policy");
    assert!(cached.starts_with("private, max-age="), "{cached}");
}

/// A client that asks and does not read must not hold its place.
#[test]
fn a_client_that_stops_reading_is_cut_off() {
    let rig = rig("uploads = true\nidle_timeout = \"1s\"");
    let reference = uploaded(&rig);
    let idle: Vec<RawConn> = (0..20).map(|_| unread(&rig, &reference)).collect();
    let began = "sockeye_large_downloads_total{outcome=\"done\"}";
    assert!(rig.node.reaches(began, 20.0) >= 20.0);
    let open = rig
        .node
        .metric_settles("sockeye_large_transfers", |open| open == 0.0);
    assert_eq!(open, Ok(0.0));
    drop(idle);
    // The others are served.
    assert_eq!(get(rig.addr(), &url(&reference), "").status, 200);
}

#[test]
fn more_transfers_than_there_are_places_are_told_to_come_again() {
    let rig = rig("uploads = true\ntransfers_max = 2\nidle_timeout = \"10m\"");
    let large = uploaded(&rig);
    let held: Vec<RawConn> = (0..2).map(|_| unread(&rig, &large)).collect();
    let begun = rig
        .node
        .metric_settles("sockeye_large_transfers", |open| open == 2.0);
    assert_eq!(begun, Ok(2.0));
    let refused = get(rig.addr(), &url(&large), "");
    assert_eq!(
        (refused.status, refused.header("retry-after")),
        (503, Some("1"))
    );
    drop(held);
    assert!(eventually(PATIENCE, || get(rig.addr(), &url(&large), "")
        .status
        == 200));
}

/// One member cannot take the places of all others.
#[test]
fn an_address_has_its_share_of_the_places() {
    let rig = rig("uploads = true\ntransfers_per_address = 2\nidle_timeout = \"10m\"");
    let large = uploaded(&rig);
    let held: Vec<RawConn> = (0..2).map(|_| unread(&rig, &large)).collect();
    let begun = rig
        .node
        .metric_settles("sockeye_large_transfers", |open| open == 2.0);
    assert_eq!(begun, Ok(2.0));
    assert_eq!(get(rig.addr(), &url(&large), "").status, 503);
    let mut elsewhere = RawConn::connect_from([127, 0, 0, 9], rig.addr());
    elsewhere.send(format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", url(&large)));
    assert_eq!(elsewhere.response().status, 200);
    drop(held);
    assert!(eventually(PATIENCE, || get(rig.addr(), &url(&large), "")
        .status
        == 200));
}

/// A client that asks and reads nothing.
fn unread(rig: &Rig, reference: &Value) -> RawConn {
    let mut conn = RawConn::connect(rig.addr());
    conn.shrink_receive_buffer(4096);
    conn.send(format!(
        "GET {} HTTP/1.1\r\nHost: x\r\n\r\n",
        url(reference)
    ));
    conn
}
