//! Uploads: who may, how much, and what becomes of those that are broken off.

use super::{config, files, get, join, member, rig, settles_empty, upload, upload_head, url};
use crate::harness::token::token_with;
use crate::harness::{Gateway, PATIENCE, RawConn, eventually};
use serde_json::json;
use std::time::{Duration, Instant};

const UPLOADS: &str = "uploads = true\nupload_max = \"1MiB\"";

#[test]
fn what_a_member_uploads_is_announced_to_the_room() {
    let rig = rig(UPLOADS);
    let (mut ada, token) = member(rig.addr(), "ada", "den");
    let mut hearer = join(rig.addr(), "/", "den");
    let body: Vec<u8> = (0..300_000_u32).map(|n| (n % 127) as u8).collect();
    let query = format!("event=file&room=den&name=cat.png&socket={}", ada.id);
    let (status, answer) = upload(rig.addr(), &query, &token, &body);
    assert_eq!(status, 201, "{answer}");
    let said = hearer.next();
    assert_eq!(
        (said.name.as_str(), &said.args[0]),
        ("large_message", &answer)
    );
    let members = ["type", "event", "content_type", "name", "size"].map(|name| &answer[name]);
    let expected = [
        json!("large_message"),
        json!("file"),
        json!("image/png"),
        json!("cat.png"),
        json!(300_000),
    ];
    assert_eq!(members, expected.each_ref());
    let response = get(rig.addr(), &url(&answer), "");
    assert_eq!(response.header("content-type"), Some("image/png"));
    assert_eq!(response.header("content-disposition"), Some("attachment"));
    assert_eq!(response.body.as_bytes(), body);
    // The rule has no echo, and the client named its socket.
    ada.emit("end", &[]);
    hearer.expect("end");
    assert_eq!(ada.ask("join", &[json!("other")]), [json!(["other"])]);
}

#[test]
fn a_stranger_uploads_nothing() {
    let rig = rig(UPLOADS);
    let (_ada, good) = member(rig.addr(), "ada", "den");
    let narrow = token_with(&["--uid", "ada", "--permission", "publish:attic"]);
    for (query, token, status, code) in [
        ("event=file&room=den", "", 401, "AUTHENTICATION_REQUIRED"),
        ("event=file&room=den", "no.such.token", 401, "INVALID_TOKEN"),
        ("event=file&room=attic", &good, 403, "NOT_IN_ROOM"),
        ("event=file&room=den", &narrow, 403, "FORBIDDEN"),
        ("event=file", &good, 400, "INVALID_REQUEST"),
        ("room=den", &good, 400, "INVALID_REQUEST"),
        ("event=file&room=den&x=1", &good, 400, "INVALID_REQUEST"),
        ("event=file&room=%ff", &good, 400, "INVALID_REQUEST"),
        ("event=large_message&room=den", &good, 403, "RESERVED_EVENT"),
        ("event=disconnect&room=den", &good, 403, "RESERVED_EVENT"),
        ("event=join&room=den", &good, 403, "FORBIDDEN"),
        (
            "event=file&room=den&namespace=/none",
            &good,
            404,
            "NOT_FOUND",
        ),
        (
            "event=file&room=den&namespace=/through",
            &good,
            404,
            "NOT_FOUND",
        ),
    ] {
        let (got, answer) = upload(rig.addr(), query, token, b"body");
        assert_eq!(
            (got, &answer["error"]),
            (status, &json!(code)),
            "{query}: {answer}"
        );
    }
    let no_token = RawConn::exchange(
        rig.addr(),
        "POST /upload?event=file&room=den HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
    );
    assert_eq!(
        (no_token.status, no_token.header("www-authenticate")),
        (401, Some("Bearer"))
    );
    settles_empty(&rig);
    // With the permission, membership is not asked for.
    let wide = token_with(&["--uid", "eve", "--permission", "publish:attic"]);
    assert_eq!(
        upload(rig.addr(), "event=file&room=attic", &wide, b"body").0,
        201
    );
}

#[test]
fn an_upload_above_the_bound_is_refused_whether_it_says_so_or_not() {
    let rig = rig(UPLOADS);
    let (_ada, token) = member(rig.addr(), "ada", "den");
    let (status, answer) = upload(
        rig.addr(),
        "event=file&room=den",
        &token,
        &vec![7; (1 << 20) + 1],
    );
    assert_eq!((status, &answer["error"]), (413, &json!("TOO_LARGE")));
    let mut conn = RawConn::connect(rig.addr());
    conn.send(upload_head(
        "event=file&room=den",
        &token,
        "Transfer-Encoding: chunked\r\n",
    ));
    let chunk = [&b"8000\r\n"[..], &[7; 0x8000], b"\r\n"].concat();
    for _ in 0..40 {
        if !conn.try_send(&chunk) {
            break;
        }
    }
    let response = conn.response_within(PATIENCE).expect("an answer");
    assert_eq!(response.status, 413, "{response:?}");
    settles_empty(&rig);
}

#[test]
fn quotas_hold_for_users_and_addresses() {
    let quotas = "uploads_per_user = 1\nupload_bytes_per_user = \"600KiB\"\nupload_bytes_per_address = \"600KiB\"\n";
    let rig = rig(&format!("{UPLOADS}\n{quotas}"));
    let (_ada, ada) = member(rig.addr(), "ada", "den");
    let (_bob, bob) = member(rig.addr(), "bob", "den");
    let send = |token: &str, bytes: usize| {
        let (status, answer) = upload(rig.addr(), "event=file&room=den", token, &vec![1; bytes]);
        (
            status,
            answer["error"].as_str().unwrap_or_default().to_owned(),
        )
    };
    assert_eq!(send(&ada, 120_000).0, 201);
    assert_eq!(send(&ada, 500_000), (429, "QUOTA_EXCEEDED".to_owned()));
    assert_eq!(send(&bob, 160_000).0, 201);
    // Both are at one address.
    assert_eq!(send(&bob, 350_000), (429, "QUOTA_EXCEEDED".to_owned()));
    // One at once.
    let mut held = RawConn::connect(rig.addr());
    held.send(upload_head(
        "event=file&room=den",
        &ada,
        "Content-Length: 1000\r\n",
    ));
    held.send([7]);
    let received = "sockeye_large_received_bytes_total";
    assert_eq!(rig.node.reaches(received, 280_001.0), 280_001.0);
    assert_eq!(send(&ada, 10), (429, "TOO_MANY_UPLOADS".to_owned()));
    drop(held);
    assert!(eventually(PATIENCE, || send(&ada, 1).0 == 201));
    // However small they are, a flood of them ends.
    let codes: Vec<_> = (0..10).map(|_| send(&ada, 1)).collect();
    assert_eq!(codes[9], (429, "QUOTA_EXCEEDED".to_owned()), "{codes:?}");
}

/// Each of them rests for longer than `idle_timeout`, and none is taken for a client that stands still.
#[test]
fn all_transfers_together_keep_the_rate() {
    let rate = "bytes_per_second = \"64KiB\"\nidle_timeout = \"1s\"";
    let rig = rig(&format!("{UPLOADS}\n{rate}"));
    let (_ada, token) = member(rig.addr(), "ada", "den");
    let body = vec![7; 128 << 10];
    let begun = Instant::now();
    let answers = std::thread::scope(|scope| {
        let send = || upload(rig.addr(), "event=file&room=den", &token, &body);
        let sent = [(); 4].map(|()| scope.spawn(send));
        sent.map(|upload| upload.join().expect("an upload"))
    });
    let took = begun.elapsed();
    assert!(answers.iter().all(|(status, _)| *status == 201));
    assert!(took >= Duration::from_secs(7), "{took:?} for 512 KiB");
    let begun = Instant::now();
    let response = get(rig.addr(), &url(&answers[0].1), "");
    assert_eq!(response.body.as_bytes(), body);
    // The last piece is not waited for.
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(900), "{took:?} for 128 KiB");
}

/// A client that does not wait for the answer has uploaded, or has not: nothing is told of and missing, or there and not told of.
#[test]
fn a_client_that_goes_at_the_end_has_uploaded_all_or_nothing() {
    let rig = rig(UPLOADS);
    let (mut ada, token) = member(rig.addr(), "ada", "den");
    let mut hearer = join(rig.addr(), "/", "den");
    for n in 0..20 {
        let mut conn = RawConn::connect(rig.addr());
        let length = "Content-Length: 200000\r\n";
        conn.send(upload_head("event=file&room=den", &token, length));
        conn.send(vec![7; 200_000]);
        if n % 2 == 0 { drop(conn) } else { conn.reset() }
    }
    let open = rig
        .node
        .metric_settles("sockeye_large_transfers", |open| open == 0.0);
    assert_eq!(open, Ok(0.0));
    ada.emit("end", &[]);
    let mut told = 0;
    loop {
        let said = hearer.next();
        if said.name == "end" {
            break;
        }
        let response = get(rig.addr(), &url(&said.args[0]), "");
        assert_eq!((response.status, response.body.len()), (200, 200_000));
        told += 1;
    }
    let settled = eventually(PATIENCE, || rig.bodies().len() == told);
    assert!(settled, "{told} were told of: {:?}", rig.bodies());
}

/// Half an upload is none: nobody is told, and nothing stays.
#[test]
fn uploads_that_are_broken_off_leave_nothing() {
    let rig = rig(&format!("{UPLOADS}\nidle_timeout = \"1s\""));
    let (_ada, token) = member(rig.addr(), "ada", "den");
    let mut hearer = join(rig.addr(), "/", "den");
    let begin = || {
        let mut conn = RawConn::connect(rig.addr());
        let head = upload_head("event=file&room=den", &token, "Content-Length: 500000\r\n");
        conn.send(head);
        conn.send(vec![7; 200_000]);
        conn
    };
    let received = |least| {
        rig.node
            .reaches("sockeye_large_received_bytes_total", least)
    };
    // It stands still.
    let still = begin();
    assert!(received(200_000.0) >= 200_000.0);
    settles_empty(&rig);
    drop(still);
    // It is reset, and closed.
    begin().reset();
    drop(begin());
    settles_empty(&rig);
    let mut ada = join(rig.addr(), "/", "den");
    ada.emit("end", &[]);
    let next = hearer.next();
    assert_eq!(next.name, "end", "{next:?}");
}

#[test]
fn a_token_that_ends_meanwhile_announces_nothing() {
    let rig = rig(UPLOADS);
    let (_ada, _) = member(rig.addr(), "ada", "den");
    let mut hearer = join(rig.addr(), "/", "den");
    let short = token_with(&["--uid", "ada", "--expires", "6s"]);
    let mut conn = RawConn::connect(rig.addr());
    conn.send(upload_head(
        "event=file&room=den",
        &short,
        "Content-Length: 100000\r\n",
    ));
    conn.send(vec![7; 99_999]);
    assert!(
        rig.node
            .reaches("sockeye_large_received_bytes_total", 99_999.0)
            >= 99_999.0
    );
    // Until its token is refused elsewhere.
    let ended = eventually(PATIENCE, || {
        upload(rig.addr(), "event=file&room=nowhere", &short, b"").1["error"]
            == json!("TOKEN_EXPIRED")
    });
    assert!(ended);
    conn.send([7]);
    let response = conn.response_within(PATIENCE).expect("an answer");
    assert_eq!(response.status, 401, "{response:?}");
    settles_empty(&rig);
    let mut eve = join(rig.addr(), "/", "den");
    eve.emit("end", &[]);
    assert_eq!(hearer.next().name, "end");
}

#[test]
fn a_member_that_leaves_meanwhile_announces_nothing() {
    let rig = rig(UPLOADS);
    let (mut ada, token) = member(rig.addr(), "ada", "den");
    let mut conn = RawConn::connect(rig.addr());
    conn.send(upload_head(
        "event=file&room=den",
        &token,
        "Content-Length: 10\r\n",
    ));
    conn.send(b"12345");
    assert!(rig.node.reaches("sockeye_large_received_bytes_total", 5.0) >= 5.0);
    ada.ask("leave", &[json!("den")]);
    conn.send(b"67890");
    let response = conn.response_within(PATIENCE).expect("an answer");
    assert_eq!(response.status, 403, "{response:?}");
    settles_empty(&rig);
}

/// The process is killed in the middle: what it was writing is never a body, and goes when it is old.
#[test]
fn what_a_killed_process_was_writing_goes_when_it_is_old() {
    let folder = tempfile::tempdir().expect("a folder");
    let large = format!("{UPLOADS}\nurl_lifetime = \"1s\"\nkeep = \"1s\"");
    let mut node = Gateway::start(&config(folder.path(), &large, ""));
    let (_ada, token) = member(node.addr, "ada", "den");
    let mut conn = RawConn::connect(node.addr);
    conn.send(upload_head(
        "event=file&room=den",
        &token,
        "Content-Length: 500000\r\n",
    ));
    conn.send(vec![7; 200_000]);
    assert!(node.reaches("sockeye_large_received_bytes_total", 200_000.0) >= 200_000.0);
    node.kill();
    let left = files(folder.path());
    assert!(
        left.iter().all(|path| path.to_string_lossy().contains('#')),
        "{left:?}"
    );
    let _node = Gateway::start(&config(folder.path(), &large, ""));
    assert!(eventually(PATIENCE, || files(folder.path()).is_empty()));
}

#[test]
fn pages_of_listed_origins_may_upload() {
    let folder = tempfile::tempdir().expect("a folder");
    let listed = "[socketio]\ncors = [\"https://app.example\"]\n";
    let node = Gateway::start(&config(folder.path(), UPLOADS, listed));
    let ask = |origin: &str| {
        let request = format!(
            "OPTIONS /upload HTTP/1.1\r\nHost: x\r\nOrigin: {origin}\r\nAccess-Control-Request-Method: POST\r\n\r\n"
        );
        RawConn::exchange(node.addr, request)
    };
    let listed = ask("https://app.example");
    assert_eq!(listed.status, 204);
    assert_eq!(
        listed.header("access-control-allow-origin"),
        Some("https://app.example")
    );
    assert_eq!(
        listed.header("access-control-allow-headers"),
        Some("authorization, content-type")
    );
    assert_eq!(
        ask("https://evil.example").header("access-control-allow-origin"),
        None
    );
}
