//! What comes of sockets whose clients are away while something between the nodes fails: nodes that stand still or are cut off, a Redis that is
//! started anew. In doubt a client is somebody new, and what was kept for it is there when the doubt is over.

use super::all_up;
use super::away::{LEVELS, Stage, away, started};
use super::chronicle::hears_up_to;
use crate::e2e::recovery::{Client, SECRET, is_refused, shows, token};
use crate::harness::{Gateway, PATIENCE, eventually};
use rustix::process::Signal;
use serde_json::{Value, json};
use servers::Cable;

const OWNER: usize = 0;
const CLAIMER: usize = 1;
const THIRD: usize = 2;

/// A client that comes to another node until it has its socket; `None`: it is always somebody new.
fn recovered(node: &Gateway, lost: &Value, id: &str) -> Option<Client> {
    let mut back = None;
    eventually(3 * PATIENCE, || {
        let client = Client::comes_back(node, lost.clone());
        let is_same = client.sid == id;
        back = is_same.then_some(client);
        is_same
    });
    back
}

/// It is told that it is somebody new, and gets nothing of what was said to the socket that it had.
fn is_new(node: &Gateway, lost: &Value, id: &str, what: &str) {
    let mut stranger = Client::comes_back(node, lost.clone());
    assert_ne!(stranger.sid, id, "{what}");
    assert_eq!(stranger.hears(), [0; 0], "{what}");
    stranger.join("elsewhere");
}

/// Any node may have something for the socket that the others do not know of.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn while_a_node_stands_still_nobody_gets_a_socket_of_another() {
    for frozen in [OWNER, THIRD] {
        let stage = Stage::new("node", "");
        let nodes: [Gateway; 3] = stage.nodes();
        let ([id], [lost]) = away(&nodes[OWNER], &json!({}));
        stage.says(&nodes[THIRD], "room", 1);
        nodes[frozen].freeze();
        stage.says(&nodes[CLAIMER], "room", 2);
        is_new(&nodes[CLAIMER], &lost, &id, "a moment later");
        is_new(&nodes[CLAIMER], &lost, &id, "when it is known");
        nodes[frozen].signal(Signal::CONT);
        let back = recovered(&nodes[CLAIMER], &lost, &id);
        let mut back = back.unwrap_or_else(|| panic!("node {frozen} runs again"));
        let mut heard = back.hears();
        // Those of two nodes have no order.
        heard.sort_unstable();
        assert_eq!(heard, [1, 2], "node {frozen}");
        stage.says(&nodes[OWNER], "room", 3);
        assert_eq!(hears_up_to(&mut back, 3), [3], "node {frozen}");
    }
}

/// The claimer or the owner has lost its way to Redis: neither knows of that at first.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_that_is_cut_off_gives_no_socket_away_and_takes_none() {
    for cut_off in [OWNER, CLAIMER] {
        let stage = Stage::new("node", "");
        let cable = Cable::to(stage.redis.port());
        let behind = stage.config.replace(&stage.redis.addr(), &cable.addr());
        let mut configs = [&stage.config; 3];
        configs[cut_off] = &behind;
        let nodes = started(configs);
        let ([id], [lost]) = away(&nodes[OWNER], &json!({}));
        stage.says(&nodes[OWNER], "room", 1);
        cable.cut();
        is_new(&nodes[CLAIMER], &lost, &id, "a moment later");
        is_new(&nodes[CLAIMER], &lost, &id, "when it is known");
        cable.mend();
        all_up(&nodes);
        stage.says(&nodes[OWNER], "room", 2);
        let back = recovered(&nodes[CLAIMER], &lost, &id);
        let mut back = back.unwrap_or_else(|| panic!("node {cut_off} is there again"));
        assert_eq!(hears_up_to(&mut back, 2), [1, 2], "node {cut_off}");
    }
}

/// A Redis that is empty and new is between the nodes: what they say is under way in their memory.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_redis_that_begins_anew_between_nodes_loses_nothing_of_those_who_are_away() {
    let mut stage = Stage::new("node", "");
    let nodes: [Gateway; 2] = stage.nodes();
    let ([id], [lost]) = away(&nodes[OWNER], &json!({}));
    stage.says(&nodes[CLAIMER], "room", 1);
    stage.redis.restart();
    all_up(&nodes);
    stage.says(&nodes[CLAIMER], "room", 2);
    let back = recovered(&nodes[CLAIMER], &lost, &id);
    let mut back = back.expect("the nodes are together again");
    assert_eq!(hears_up_to(&mut back, 2), [1, 2]);
    stage.says(&nodes[OWNER], "room", 3);
    assert_eq!(hears_up_to(&mut back, 3), [3]);
}

/// A token that ended meanwhile opens nothing, at no node and for nobody else; its user's next one does.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_token_that_ended_while_its_client_was_away_opens_nothing_elsewhere() {
    let auth = format!(
        "[auth]\nrequired = true\nsecret = {SECRET:?}\nleeway = \"0s\"\nwarn_before = \"0s\""
    );
    for level in LEVELS {
        let stage = Stage::new(level, &auth);
        let [mut there, here]: [Gateway; 2] = stage.nodes();
        let brief = token("ann", "6s");
        let ([id], [lost]) = away(&there, &shows(&json!({}), &brief));
        stage.says(&here, "room", 1);
        if level == "cluster" {
            there.kill();
        }
        let ended = || is_refused(&here, &shows(&json!({}), &brief));
        assert!(eventually(PATIENCE, ended), "{level}");
        assert!(is_refused(&here, &shows(&lost, &brief)), "{level}");
        let other = Client::comes_back(&here, shows(&lost, &token("bob", "1h")));
        assert_ne!(other.sid, id, "{level}");
        let mut back = Client::comes_back(&here, shows(&lost, &token("ann", "1h")));
        assert_eq!(back.sid, id, "{level}");
        assert_eq!(hears_up_to(&mut back, 1), [1], "{level}");
    }
}
