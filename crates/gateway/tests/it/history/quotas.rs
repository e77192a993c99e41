//! What all rooms of a namespace keep together.

use super::{all, call, config, is_stored, join, publish, soon};
use crate::harness::Gateway;
use serde_json::{Value, json};

fn gateway(store: &str, quota: &str) -> Gateway {
    Gateway::start(&config(store, quota, ""))
}

fn used(node: &Gateway) -> f64 {
    node.metric("sockeye_history_quota_used_ratio")
}

#[test]
fn the_oldest_events_and_the_rooms_that_are_silent_make_way() {
    let folder = tempfile::tempdir().expect("a folder");
    let on_disk = format!("store = \"disk\"\nfolder = {:?}", folder.path());
    for store in ["store = \"memory\"", &on_disk] {
        let node = gateway(store, "quota_bytes = \"16KiB\"\nquota_rooms = 3");
        // The 4th room, and more bytes than there may be.
        for n in 0..200 {
            let room = ["on-a", "on-b", "on-c", "on-d"][(n as usize / 20).min(3)];
            assert_eq!(publish(&node, room, n), is_stored());
        }
        soon("the first room made way", || all(&node, "on-a").is_empty());
        soon("the quota holds", || (0.5..=1.0).contains(&used(&node)));
        let kept = all(&node, "on-d");
        assert_eq!(kept.last(), Some(&199), "the newest stay");
        assert!(kept.is_sorted());
        assert!(node.metric("sockeye_history_removed_total") > 0.0);
    }
}

#[test]
fn a_namespace_that_keeps_as_much_as_it_may_refuses_and_says_so() {
    let quota = "quota_bytes = \"8KiB\"\nabove_quota = \"refuse\"";
    let node = gateway("store = \"memory\"", quota);
    let mut member = join(&node, "on-a");
    // The quota may be found full while an event is on its way: that one is sent, and its publisher is told that it is not stored.
    let (mut sent, mut stored) = (0, 0);
    let mut refused = (0, Value::Null);
    soon("it refuses", || {
        refused = publish(&node, "on-a", sent);
        stored += u64::from(refused == is_stored());
        sent += u64::from(refused.0 != 503);
        refused.0 == 503
    });
    let detail = refused.1["detail"].as_str().unwrap_or_default();
    assert!(
        detail.contains("history.quota_bytes") && detail.contains("nothing was sent"),
        "{refused:?}"
    );
    assert!(sent <= stored + 1, "{sent} were sent, {stored} stored");
    for n in 0..sent {
        assert_eq!(member.expect("say")[0]["n"], n);
    }
    let kept = all(&node, "on-a");
    assert_eq!(kept.len() as u64, stored, "what was stored stays");

    // Members hear what is not stored, and it is counted.
    let event = json!({"event": "say", "rooms": ["on-a"], "args": [{"room": "on-a", "n": 9}]});
    assert_eq!(call(&node, "POST", "/v1/emit", &event).0, 202);
    assert_eq!(member.expect("say")[0]["n"], 9);
    let over = (1 + sent - stored) as f64;
    let counted = node.reaches("sockeye_history_events_total{outcome=\"over_quota\"}", over);
    assert_eq!(counted, over);
    assert_eq!(all(&node, "on-a"), kept);
    let import = json!({"room": "on-b", "events": [{"time": 1, "event": "say", "args": []}]});
    let (status, told) = call(&node, "POST", "/v1/history", &import);
    assert_eq!(status, 503, "{told}");

    // Room is made by hand.
    let room = "/v1/history?room=on-a";
    assert_eq!(call(&node, "DELETE", room, &Value::Null).0, 200);
    soon("it stores again", || {
        publish(&node, "on-a", 10) == is_stored()
    });
}
