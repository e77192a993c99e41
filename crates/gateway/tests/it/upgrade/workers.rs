//! Gateways with workers: clients talk to Node workers through upgrades. Each event is handled once, in order, and answered.
//!
//! `UPGRADES`, `UPGRADE_CLIENTS` and `UPGRADE_RATE` (events a second) make the histories larger.

use super::chain::{Chain, lives};
use super::later;
use crate::backend::KEY;
use crate::harness::client::SocketIo;
use crate::harness::{Alone, PATIENCE, eventually};
use crate::workers::account::{Account, Delays};
use crate::workers::crowd::{Crowd, Life, Manners};
use client::OpCode;
use serde_json::{Value, json};
use servers::{Handled, NodeWorker};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Between two troubles.
const PAUSE: Duration = Duration::from_millis(700);

fn setting(name: &str, otherwise: u32) -> u32 {
    let text = std::env::var(name).ok();
    text.map_or(otherwise, |text| text.parse().expect("a number"))
}

struct Scene {
    chain: Chain,
    workers: String,
    ledgers: usize,
}

impl Scene {
    fn open() -> Self {
        Self::open_at("127.0.0.1:0")
    }

    /// Where workers attach.
    fn open_at(listen: &str) -> Self {
        let chain = Chain::start(&format!(
            "profile = \"socket.io\"\n[server]\nshards = 2\n[workers]\nlisten = {listen:?}\n\
             [namespaces.\"/\"]\nbackend = \"kitchen\"\n[backends.kitchen]\napi_keys = [{:?}]\n",
            KEY.1
        ));
        let log = chain.first.log();
        let line = log.iter().find(|line| line.contains("\"listening\""));
        let line: Value = serde_json::from_str(line.expect("a line")).expect("JSON");
        Self {
            workers: line["workers"].as_str().expect("an address").to_owned(),
            chain,
            ledgers: 0,
        }
    }

    fn worker(&mut self) -> NodeWorker {
        self.ledgers += 1;
        let ledger = self.chain.folder().join(format!("ledger-{}", self.ledgers));
        NodeWorker::start(&self.workers, &KEY.0, "kitchen", &ledger)
    }

    fn ledgers(&self) -> Vec<Vec<Handled>> {
        let files = (1..=self.ledgers).map(|n| self.chain.folder().join(format!("ledger-{n}")));
        files.map(|file| servers::handled(&file)).collect()
    }

    fn crowd(&self) -> Crowd {
        let crowd = Crowd::enter(Manners {
            addr: self.chain.first.addr,
            namespace: "/",
            clients: setting("UPGRADE_CLIENTS", 200),
            per_second: setting("UPGRADE_RATE", 1_000),
            event: "count",
        });
        crowd.speak();
        sleep(PAUSE);
        crowd
    }

    fn end(&self, crowd: Crowd) -> (Account, Vec<Life>) {
        let lives = crowd.end();
        let account = Account::of(&lives, &self.ledgers());
        println!("{account:?}");
        (account, lives)
    }
}

/// One after the other: nobody is cut off, and nothing is lost, refused, handled twice (with a mark or without) or in another order.
#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn events_for_workers_are_handled_once_through_upgrades_in_a_row() {
    let _alone = Alone::or_with_a_quiet_one();
    let mut scene = Scene::open();
    let _workers = [scene.worker(), scene.worker()];
    let crowd = scene.crowd();
    let mut moments = Vec::new();
    for number in 1..=setting("UPGRADES", 4) {
        let moment = Instant::now();
        let (text, took) = scene.chain.upgrade();
        moments.push(moment);
        println!(
            "upgrade {number}: {took:?}; {}",
            text.lines().last().unwrap_or_default()
        );
        sleep(PAUSE);
    }
    let (account, lives) = scene.end(crowd);
    for moment in moments {
        let delays = Delays::around(&lives, moment, PAUSE);
        let of = |permille| delays.permille(permille).as_millis();
        println!(
            "around an upgrade: p50 {} ms, p99 {} ms, most {} ms",
            of(500),
            of(990),
            of(1_000)
        );
    }
    assert!(account.is_clean(), "{account:?}");
    assert_eq!((account.marked, account.refused), (0, 0), "{account:?}");
    scene.chain.first_ends();
}

/// Each process takes over the socket and its file: nobody notices, and a worker that comes later finds the last one.
#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn workers_of_a_unix_socket_stay_through_upgrades() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("w.sock");
    let mut scene = Scene::open_at(&format!("unix:{}", path.display()));
    let _first = scene.worker();
    let crowd = scene.crowd();
    for _ in 0..2 {
        scene.chain.upgrade();
        sleep(PAUSE);
    }
    let _second = scene.worker();
    let (account, _) = scene.end(crowd);
    assert!(account.is_clean(), "{account:?}");
    assert_eq!((account.marked, account.refused), (0, 0), "{account:?}");
    let mut client = SocketIo::connect(scene.chain.first.addr);
    assert_eq!(client.ask(1, &json!(["count", 1, 1])), json!([1]));
}

/// To a build that knows a higher version of the record and says more than this one knows, from it to the next such, and so on: nobody is cut off,
/// and nothing is lost, handled twice or in another order.
#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn builds_that_know_more_are_understood_there_and_back() {
    let _alone = Alone::or_with_a_quiet_one();
    let mut scene = Scene::open();
    let _workers = [scene.worker(), scene.worker()];
    let crowd = scene.crowd();
    for _ in 0..2 {
        later::takes_over(&mut scene.chain);
        sleep(PAUSE);
        scene.chain.upgrade();
        sleep(PAUSE);
    }
    let (account, _) = scene.end(crowd);
    assert!(account.is_clean(), "{account:?}");
    assert_eq!((account.marked, account.refused), (0, 0), "{account:?}");
}

/// The handler is in the middle of an event when the gateway changes: its answer finds the client, and the event is not handled again.
#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn an_answer_that_takes_longer_than_an_upgrade_arrives() {
    let mut scene = Scene::open();
    let _worker = scene.worker();
    let mut clients: Vec<SocketIo> = (0..6)
        .map(|_| SocketIo::connect(scene.chain.first.addr))
        .collect();
    for (client, n) in clients.iter_mut().zip(1..) {
        client.send(&format!("42{n}{}", json!(["slow", n, n])));
    }
    sleep(Duration::from_millis(300));
    scene.chain.upgrade();
    scene.chain.upgrade();
    for (client, n) in clients.iter_mut().zip(1..) {
        let answer = client.packet_within(PATIENCE).expect("an answer");
        assert_eq!(answer, format!("43{n}[{n}]"));
        assert_eq!(client.ask(90, &json!(["count", n, 1])), json!([1]));
    }
}

/// A worker is killed in the middle: what it had not handled comes to the other one, marked.
#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn a_worker_that_is_killed_during_an_upgrade_loses_nothing() {
    let mut scene = Scene::open();
    let mut worker = scene.worker();
    let crowd = scene.crowd();
    for delay_ms in [0, 15, 40] {
        let heir = scene.worker();
        sleep(PAUSE);
        let upgrade = scene.chain.begin_upgrade();
        scene.chain.note_successor(upgrade.successor);
        sleep(Duration::from_millis(delay_ms));
        worker.kill();
        worker = heir;
        assert!(upgrade.succeeds());
        // Its sockets wait for it as long as for one that comes back.
        sleep(Duration::from_secs(3));
    }
    let (account, _) = scene.end(crowd);
    assert!(account.is_clean() && account.refused == 0, "{account:?}");
}

/// The successor is killed at many moments before it has taken over: the old process and its workers go on.
#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn a_successor_that_is_killed_leaves_the_workers_where_they_are() {
    let mut scene = Scene::open();
    let _workers = [scene.worker(), scene.worker()];
    let crowd = scene.crowd();
    let (mut given_up, mut died) = (0, false);
    for step in 0..30 {
        let upgrade = scene.chain.begin_upgrade();
        died = upgrade.killed_after(Duration::from_millis(4 * step));
        if died {
            println!("after {given_up} it had taken over");
            break;
        }
        given_up += 1;
    }
    assert!(given_up > 0);
    if died {
        // That is the death of a node.
        return drop(crowd);
    }
    let (account, _) = scene.end(crowd);
    assert!(account.is_clean(), "{account:?}");
    assert_eq!((account.marked, account.refused), (0, 0), "{account:?}");
    assert!(eventually(PATIENCE, || lives(scene.chain.pid())));
}

/// A worker has asked a client, which answers after the upgrade: the answer finds the worker, and what came of it the client.
#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn a_question_of_a_worker_is_answered_after_an_upgrade() {
    let mut scene = Scene::open();
    let _worker = scene.worker();
    let mut clients: Vec<SocketIo> = (0..6)
        .map(|_| SocketIo::connect(scene.chain.first.addr))
        .collect();
    let mut ids = Vec::new();
    for (client, n) in clients.iter_mut().zip(0..) {
        client.send(&format!("421{}", json!(["ask", n])));
        let question = client.packet_within(PATIENCE).expect("a question");
        let asked = json!(["question", n]).to_string();
        let id = question
            .strip_prefix("42")
            .and_then(|rest| rest.strip_suffix(&asked));
        ids.push(id.expect("the id of an ack").to_owned());
    }
    scene.chain.upgrade();
    scene.chain.upgrade();
    for (client, id) in clients.iter_mut().zip(&ids) {
        client.send(&format!("43{id}[\"yes\"]"));
        let answer = client.packet_within(PATIENCE).expect("an answer");
        assert_eq!(answer, "431[\"yes\"]");
    }
    // One that nobody asked of it is nobody's.
    clients[0].send(&format!("43{}[\"again\"]", ids[0]));
    assert_eq!(clients[0].ask(90, &json!(["left"])), json!([0]));
}

/// One client is in the middle of a message and cannot go: its worker hears that it left.
#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn a_worker_hears_of_clients_that_were_sent_away() {
    let mut scene = Scene::open();
    let _worker = scene.worker();
    let mut ann = SocketIo::connect(scene.chain.first.addr);
    let mut ben = SocketIo::connect(scene.chain.first.addr);
    assert_eq!(ann.ask(1, &json!(["left"])), json!([0]));
    ben.conn.send_frame(false, OpCode::Text, "42[\"cou");
    sleep(Duration::from_millis(100));
    let (text, _) = scene.chain.upgrade();
    assert!(text.contains("1 sessions are sent away"), "{text}");
    let heard = eventually(PATIENCE, || ann.ask(2, &json!(["left"])) == json!([1]));
    assert!(heard, "the worker knows that one has left");
    scene.chain.first_ends();
}
