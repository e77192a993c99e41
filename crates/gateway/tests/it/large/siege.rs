//! Many uploads beside many clients: memory stays flat. `SOCKEYE_UPLOADS` and `SOCKEYE_UPLOAD_MB` say how many and how large.

use super::{config, upload_head};
use crate::harness::token::token_with;
use crate::harness::{Alone, Gateway, RawConn};
use serde_json::json;
use std::time::Duration;

fn number(name: &str, usual: usize) -> usize {
    let said = std::env::var(name).ok();
    said.and_then(|said| said.parse().ok()).unwrap_or(usual)
}

/// As long as uploads of this size may take on a machine that does other things.
const UPLOAD_TIME: Duration = Duration::from_secs(300);

#[test]
fn many_uploads_at_once_take_no_memory() {
    let _alone = Alone::wait();
    let (uploads, megabytes) = (
        number("SOCKEYE_UPLOADS", 24),
        number("SOCKEYE_UPLOAD_MB", 8),
    );
    let folder = tempfile::tempdir().expect("a folder");
    let large = "uploads = true\nuploads_per_user = 1000\nuploads_per_address = 1000\nupload_bytes_per_user = \"1000GiB\"\n\
                 upload_bytes_per_address = \"1000GiB\"\n";
    let node = Gateway::start(&config(folder.path(), large, ""));
    // No member: a client that only waits for its uploads would have to answer heartbeats meanwhile.
    let token = token_with(&["--uid", "ada", "--permission", "publish:den"]);
    let one = |megabytes: usize| {
        let mut conn = RawConn::connect(node.addr);
        let length = format!("Content-Length: {}\r\n", megabytes << 20);
        conn.send(upload_head("event=file&room=den", &token, &length));
        let piece = vec![7; 1 << 20];
        (0..megabytes).for_each(|_| conn.send(&piece));
        conn.response_within(UPLOAD_TIME).expect("an answer").status
    };
    // What the first one loads stays.
    assert_eq!(one(1), 201);
    let before = node.own_memory();
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..uploads)
            .map(|_| scope.spawn(|| one(megabytes)))
            .collect();
        all.into_iter()
            .map(|one| one.join().expect("an upload"))
            .collect()
    });
    let more = node.own_memory().saturating_sub(before) >> 20;
    let peak = node.peak_memory() >> 20;
    println!("{uploads} uploads of {megabytes} MiB: {more} MiB more afterwards, peak {peak} MiB");
    assert!(statuses.iter().all(|status| *status == 201), "{statuses:?}");
    assert!(more <= 32, "{more} MiB");
    assert_eq!(
        node.metric("sockeye_large_uploads_total{outcome=\"done\"}"),
        json!(uploads + 1).as_f64().expect("a number")
    );
}
