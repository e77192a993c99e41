//! Processes that die around the last word of an upgrade, with recovery of level `cluster`: all of their clients come back to another node.

use super::{all_up_of, closed};
use crate::e2e::recovery::{Client, say};
use crate::harness::{PATIENCE, eventually};
use crate::upgrade::chain::{Chain, ends, signal};
use rustix::process::Signal;
use serde_json::Value;
use servers::Redis;
use std::thread::sleep;
use std::time::Duration;

const RECOVERS: &str = "[namespaces.\"/\"]\nclient_joins = true\n\
    [namespaces.\"/\".recovery]\nlevel = \"cluster\"\n\
    [namespaces.\"/\".events.say]\naction = \"rooms\"\nroom_field = \"room\"\n\
    [namespaces.\"/\".events.echo]\naction = \"reply\"\n";
const CLIENTS: usize = 8;

/// Two nodes, clients at the first, and a speaker at the second.
struct Scene {
    _redis: Redis,
    chains: [Chain; 2],
    speaker: Client,
    clients: Vec<Client>,
    said: u64,
}

impl Scene {
    fn open() -> Self {
        let redis = Redis::start();
        let text = closed(&redis, RECOVERS);
        let chains = [Chain::start(&text), Chain::start(&text)];
        all_up_of(&[&chains[0].first, &chains[1].first]);
        let mut clients: Vec<Client> = (0..CLIENTS)
            .map(|_| Client::new(&chains[0].first))
            .collect();
        clients.iter_mut().for_each(|client| client.join("room"));
        let speaker = Client::new(&chains[1].first);
        Self {
            _redis: redis,
            chains,
            speaker,
            clients,
            said: 0,
        }
    }

    fn say(&mut self, count: u64) {
        say(&mut self.speaker, "room", self.said..self.said + count, "x");
        self.said += count;
    }

    /// Nobody has the first node's number any more. What is said then its clients hear at the other one, and nothing twice.
    fn all_come_back(mut self) {
        let ids: Vec<String> = self.clients.iter().map(|one| one.sid.clone()).collect();
        let lost: Vec<Value> = self.clients.drain(..).map(Client::lose).collect();
        self.say(5);
        let last = self.said - 1;
        for (id, auth) in ids.iter().zip(lost) {
            let mut back = Client::comes_back(&self.chains[1].first, auth);
            assert_eq!(back.sid, *id);
            let mut heard = Vec::new();
            let came = eventually(PATIENCE, || {
                heard.extend(back.hears());
                heard.last() == Some(&last)
            });
            assert!(came, "{last} did not come, but {heard:?}");
            assert_eq!(heard, (0..self.said).collect::<Vec<u64>>());
        }
    }
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_successor_that_dies_after_the_last_word_loses_nobody() {
    let mut scene = Scene::open();
    scene.say(3);
    scene.chains[0].upgrade();
    scene.chains[0].first_ends();
    scene.say(2);
    let successor = scene.chains[0].pid();
    signal(successor, Signal::KILL);
    assert!(ends(successor));
    scene.all_come_back();
}

/// Either the successor had taken over, which the command knows, or it ends by itself: it is nobody's.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn an_old_process_that_dies_before_the_last_word_loses_nobody() {
    for delay_ms in [10, 60] {
        let mut scene = Scene::open();
        scene.say(3);
        let upgrade = scene.chains[0].begin_upgrade();
        let successor = upgrade.successor;
        scene.chains[0].note_successor(successor);
        sleep(Duration::from_millis(delay_ms));
        scene.chains[0].first.kill();
        if upgrade.succeeds() {
            println!("after {delay_ms} ms it had taken over");
            signal(successor, Signal::KILL);
        }
        assert!(ends(successor), "after {delay_ms} ms");
        scene.all_come_back();
    }
}
