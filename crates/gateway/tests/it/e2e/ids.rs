//! Ids: unique, of 20 characters, with a time that does not step back; session ids say nothing about each other.

use super::client::{Polling, SocketIo};
use super::crowd::parts;
use crate::harness::Gateway;
use serde_json::json;
use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

const CLIENTS: usize = 400;
/// 2024-01-01T00:00:00Z
const EPOCH_MS: u64 = 1_704_067_200_000;

fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a clock after 1970")
        .as_millis() as u64
        - EPOCH_MS
}

fn is_id(id: &str) -> bool {
    id.len() == 20
        && id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

#[test]
fn socket_ids_are_unique_and_their_time_increases() {
    let gateway = Gateway::start_with(
        "profile = \"socket.io\"\n[server]\nshards = 4\n",
        &["--node", "5"],
    );
    let before = now_ms();
    let clients: Vec<SocketIo> = (0..CLIENTS)
        .map(|_| SocketIo::websocket(gateway.addr, "/", json!({})))
        .collect();
    let after = now_ms();
    let ids: Vec<&str> = clients.iter().map(|client| client.id.as_str()).collect();
    assert!(ids.iter().all(|id| is_id(id)), "{ids:?}");
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), CLIENTS);
    let times: Vec<u64> = ids.iter().map(|id| parts(id).0).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert!(
        before <= times[0] && times[CLIENTS - 1] <= after,
        "{before} {times:?} {after}"
    );
    let shards: BTreeSet<usize> = ids.iter().map(|id| parts(id).1).collect();
    assert_eq!(shards, (0..4).collect());
    // The socket's id is public; nothing of the session's id is in it, and no two sessions begin alike.
    let sids: BTreeSet<&str> = clients.iter().map(|client| client.sid.as_str()).collect();
    assert_eq!(sids.len(), CLIENTS);
    assert!(sids.iter().all(|sid| is_id(sid)));
    let beginnings: BTreeSet<&str> = sids.iter().map(|sid| &sid[..6]).collect();
    assert_eq!(
        beginnings.len(),
        CLIENTS,
        "96 random bits do not repeat their first 36 so soon"
    );
}

/// Attack A04.
#[test]
fn a_guessed_session_is_refused() {
    let gateway = Gateway::start("profile = \"socket.io\"\n[server]\nshards = 4\n");
    let polling = Polling::connect(gateway.addr, "");
    let sid = polling.open["sid"].as_str().expect("a sid");
    // One character changed in the random part: same node, same shard.
    let other = if sid.starts_with('A') { "B" } else { "A" };
    let guessed = polling.path.replace(sid, &format!("{other}{}", &sid[1..]));
    let answer = Polling::again(gateway.addr, &guessed).poll();
    assert_eq!(
        (answer.status, answer.body.as_str()),
        (400, r#"{"code":1,"message":"Session ID unknown"}"#)
    );
    assert_eq!(polling.post("40").status, 200, "the real one is as it was");
}
