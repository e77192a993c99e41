//! Intervals that grow with the number of sessions: what clients are told holds, on whatever shard and transport they are.

use super::client::{Frame, Polling, WebSocket, open_session, request};
use crate::harness::{Alone, Gateway, PATIENCE};
use serde_json::Value;
use std::time::{Duration, Instant};

const POLL: &str = "/socket.io/?EIO=4&transport=polling";
/// From half a second to four.
const STRETCHED: &str = "profile = \"socket.io\"\n[server]\nshards = 4\n[socketio]\nping_interval = \"500ms\"\nping_timeout = \"20s\"\n\
    [plain]\nping_interval = \"500ms\"\n[heartbeat]\nstretch = 8\nper_second_max = 10\n";

fn interval(open: &Value) -> u64 {
    open["pingInterval"].as_u64().expect("a number")
}

/// The next ping on a WebSocket, and when it came.
fn pinged(socket: &mut WebSocket) -> Instant {
    assert_eq!(socket.frame(), Frame::Text("2".to_owned()));
    Instant::now()
}

#[test]
fn newcomers_are_told_longer_intervals_and_both_times_of_detection_are_told() {
    let gateway = Gateway::start(STRETCHED);
    let open = || open_session(&request(gateway.addr, "GET", POLL, "", "").body);
    let opens: Vec<Value> = (0..120).map(|_| open()).collect();
    let intervals: Vec<u64> = opens.iter().map(interval).collect();
    assert_eq!(
        intervals[..5],
        [500; 5],
        "five times two heartbeats a second"
    );
    assert!(intervals.is_sorted(), "{intervals:?}");
    assert_eq!(intervals[119], 4_000);
    // Each session's share of ten heartbeats a second.
    let shares = intervals.iter().zip(1..);
    let short = shares.filter(|(ms, n)| **ms < 100 * n && **ms < 4_000);
    assert_eq!(short.count(), 0, "{intervals:?}");
    let detection = |which: &str| {
        gateway.metric(&format!(
            "sockeye_heartbeat_detection_seconds{{interval=\"{which}\"}}"
        ))
    };
    assert_eq!((detection("shortest"), detection("longest")), (20.5, 24.0));
    assert_eq!(detection("newcomer"), 24.0);
    assert!(gateway.logged("intervals of heartbeats grow", PATIENCE));
    assert!(gateway.logged("20500ms", PATIENCE) && gateway.logged("24s", PATIENCE));
}

/// The poll, the upgrade and the WebSocket land on any of four shards, and the ping comes when it was announced: not later, but
/// for a busy machine, and not much sooner.
#[test]
fn a_session_that_upgrades_on_another_shard_is_pinged_as_it_was_told() {
    let _alone = Alone::or_with_a_quiet_one();
    let gateway = Gateway::start(STRETCHED);
    for _ in 0..120 {
        request(gateway.addr, "GET", POLL, "", "");
    }
    let announced = Duration::from_millis(4_000);
    let is_in_time = |from: Instant, to: Instant| {
        let time = to - from;
        let (least, most) = (announced - announced / 20, announced + announced / 2);
        assert!(time >= least && time <= most, "{time:?}");
    };
    let moved = || gateway.metric("sockeye_connections_moved_total");
    let before = moved();
    let began = Instant::now();
    let mut sockets: Vec<WebSocket> = (0..8)
        .map(|_| {
            let polling = Polling::connect(gateway.addr, "");
            assert_eq!(interval(&polling.open), 4_000);
            polling.post("40");
            assert!(polling.poll().body.contains("40{"));
            let sid = polling.open["sid"].as_str().expect("a sid").to_owned();
            let path = format!("/socket.io/?EIO=4&transport=websocket&sid={sid}");
            let mut socket = WebSocket::connect(gateway.addr, &path, "");
            socket.text("2probe");
            assert_eq!(socket.frame(), Frame::Text("3probe".to_owned()));
            socket.text("5");
            socket
        })
        .collect();
    assert!(
        moved() > before,
        "all requests landed on the shards of their sessions"
    );
    let mut last = vec![began; sockets.len()];
    for _ in 0..2 {
        for (socket, last) in sockets.iter_mut().zip(&mut last) {
            let now = pinged(socket);
            is_in_time(*last, now);
            socket.text("3");
            *last = now;
        }
    }
}
