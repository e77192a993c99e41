//! A recording is of all nodes, and can be played against another cluster.

use super::{OPS, Recorder, comes, config, played, replay};
use crate::harness::{Gateway, PATIENCE, eventually};
use serde_json::json;
use servers::Redis;

fn pair(redis: &Redis) -> [Gateway; 2] {
    let more = format!(
        "[cluster]\nadapter = \"redis\"\nsecret = \"s\"\nurls = [{:?}]",
        redis.url()
    );
    let nodes = [(); 2].map(|()| Gateway::start(&config(&more)));
    let sees = |node: &Gateway| node.metric("sockeye_cluster_peers") == 1.0;
    assert!(eventually(PATIENCE, || nodes.iter().all(sees)));
    nodes
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn people_at_two_nodes_are_recorded_at_one_and_played_against_two_others() {
    let redis = [Redis::start(), Redis::start()];
    let nodes = pair(&redis[0]);
    let mut recorder = Recorder::start(&nodes[0], &["--share", "100%"]);
    let is_followed = || !recorder.lines("node").is_empty();
    assert!(eventually(PATIENCE, is_followed));
    let mut ada = comes(&nodes[0], "ada", "den");
    let mut bob = comes(&nodes[1], "bob", "den");
    for number in 0..5 {
        ada.emit("chat", &[json!(number)]);
        assert_eq!(bob.expect("chat"), [json!(number)]);
        bob.emit("reply", &[json!(number)]);
        assert_eq!(ada.expect("reply"), [json!(number)]);
    }
    recorder.waits_for("event", "chat", 10);
    recorder.waits_for("event", "reply", 10);
    recorder.stop();
    let text = std::fs::read_to_string(&recorder.file).expect("the file");
    for secret in ["\"ada\"", "\"bob\"", "\"den\"", &*OPS.0] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    let others = pair(&redis[1]);
    let output = replay(&recorder.file, others[1].addr, &["--json"]);
    let report = played(&output);
    assert_eq!(output.status.code(), Some(0), "{report:#}\n{text}");
    assert_eq!(report["events"]["/ chat"]["replayed"], 5, "{report:#}");
    assert_eq!(report["events"]["/ reply"]["replayed"], 5, "{report:#}");
}

/// A node that is lost while a recording runs is a gap, and the one who plays it learns that.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_that_is_lost_is_a_gap_in_the_recording() {
    let redis = Redis::start();
    let mut nodes = pair(&redis);
    let mut recorder = Recorder::start(&nodes[0], &["--share", "100%"]);
    assert!(eventually(PATIENCE, || !recorder.lines("node").is_empty()));
    let mut ada = comes(&nodes[0], "ada", "den");
    nodes[1].kill();
    let is_lost = || {
        recorder
            .lines("node")
            .iter()
            .any(|line| line["state"] == "lost")
    };
    assert!(eventually(PATIENCE, is_lost));
    ada.emit("chat", &[json!(1)]);
    recorder.waits_for("event", "chat", 1);
    recorder.stop();
    let output = replay(&recorder.file, nodes[0].addr, &["--json"]);
    let report = played(&output);
    let gap = report["gaps"][0].as_str().expect("a gap");
    assert!(gap.contains(" lost: "), "{gap}");
}
