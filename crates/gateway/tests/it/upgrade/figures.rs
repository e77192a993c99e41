//! What operators see of upgrades: while one is under way, and how those before went.

use super::chain::Chain;
use super::troubles::Pair;
use crate::harness::{PATIENCE, eventually};
use ::client::full::request;
use serde_json::Value;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

const CONFIG: &str = "profile = \"socket.io\"\n[server]\nshards = 2\n";

fn upgrades(chain: &Chain, outcome: &str) -> f64 {
    let name = format!("sockeye_upgrades_total{{outcome=\"{outcome}\"}}");
    chain.first.metric(&name)
}

fn is_under_way(chain: &Chain) -> (bool, bool) {
    let answer = request(chain.first.admin, "GET", "/v1/nodes", "", "");
    let nodes: Value = serde_json::from_str(&answer.body).expect("JSON");
    let gauge = chain.first.metric("sockeye_upgrade_under_way");
    (nodes["nodes"][0]["upgrading"] == true, gauge == 1.0)
}

#[test]
fn upgrades_are_counted_over_all_processes_of_a_chain() {
    let mut chain = Chain::start(CONFIG);
    let mut pair = Pair::join(&chain);
    assert_eq!(is_under_way(&chain), (false, false));
    assert_eq!(chain.first.metric("sockeye_upgrade_pause_seconds"), 0.0);
    chain.failing_upgrade(&["--binary", "/bin/false"]);
    assert_eq!(
        [upgrades(&chain, "failed"), upgrades(&chain, "done")],
        [1.0, 0.0]
    );
    for done in 1..=2 {
        chain.upgrade();
        pair.talk();
        let counted = ["done", "failed", "refused"].map(|outcome| upgrades(&chain, outcome));
        assert_eq!(counted, [f64::from(done), 1.0, 0.0]);
        let over = ["sessions", "connections"]
            .map(|what| chain.first.metric(&format!("sockeye_upgrade_{what}_total")));
        assert!(
            over.iter().all(|over| *over >= 2.0 * f64::from(done)),
            "{over:?}"
        );
        let pause = chain.first.metric("sockeye_upgrade_pause_seconds");
        assert!(pause > 0.0 && pause < 10.0, "{pause}");
    }
    assert_eq!(is_under_way(&chain), (false, false));
}

/// The next program takes its time to start, and then does not come.
#[test]
fn an_upgrade_is_seen_while_it_is_under_way() {
    let chain = Chain::start(CONFIG);
    let mut pair = Pair::join(&chain);
    let slow = chain.folder().join("slow");
    let go_on = chain.folder().join("go-on");
    let script = format!(
        "#!/bin/sh\nwhile [ ! -e {:?} ]; do sleep 0.05; done\nexit 1\n",
        go_on
    );
    std::fs::write(&slow, script).expect("write");
    std::fs::set_permissions(&slow, Permissions::from_mode(0o755)).expect("a program");
    let mut command = chain.command(&["--binary", &slow.display().to_string()]);
    let command = std::thread::spawn(move || command.output().expect("sockeye upgrade"));
    assert!(eventually(PATIENCE, || is_under_way(&chain) == (true, true)));
    pair.talk();
    std::fs::write(&go_on, "").expect("write");
    let output = command.join().expect("its end");
    assert!(!output.status.success());
    assert_eq!(is_under_way(&chain), (false, false));
    assert_eq!(upgrades(&chain, "failed"), 1.0);
    pair.talk();
}
