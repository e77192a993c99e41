//! What clients notice of their workers: many of them, each with events that are answered, while Node processes are killed, cut off,
//! absent, replaced or too slow. Every event is handled once, or again with a mark; in order; and nobody is disconnected.
//!
//! `WORKERS_CLIENTS`, `WORKERS_RATE` (events a second), `WORKERS_ROUNDS`, `WORKERS_CUT` and `WORKERS_ABSENCE` (seconds) make the
//! histories larger; `WORKERS_RECORD=file` appends what each came to. `cargo xtask workers` sets them.

mod absent;
pub mod account;
mod beside;
pub mod crowd;

use crate::backend::{KEY, Kitchen};
use crate::harness::{PATIENCE, eventually};
use account::{Account, Delays, keep};
use crowd::{Crowd, Life, Manners};
use servers::{Cable, Handled, NodeWorker};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn setting(name: &str, otherwise: u32) -> u32 {
    let text = std::env::var(name).ok();
    text.map_or(otherwise, |text| text.parse().expect("a number"))
}

fn seconds(name: &str, otherwise: u32) -> Duration {
    Duration::from_secs(setting(name, otherwise).into())
}

/// How long everything is quiet between two troubles.
fn pause() -> Duration {
    match std::env::var_os("WORKERS_RECORD") {
        Some(_) => Duration::from_secs(3),
        None => Duration::from_millis(500),
    }
}

/// A gateway, and the workers that it has had.
struct Scene {
    kitchen: Kitchen,
    files: TempDir,
    ledgers: usize,
}

impl Scene {
    /// `more`: keys of the backend.
    fn open(more: &str) -> Scene {
        Scene {
            kitchen: Kitchen::open(more),
            files: tempfile::tempdir().expect("a folder"),
            ledgers: 0,
        }
    }

    fn worker(&mut self) -> NodeWorker {
        let gateway = self.kitchen.workers.to_string();
        self.worker_by(&gateway)
    }

    fn worker_by(&mut self, gateway: &str) -> NodeWorker {
        self.ledgers += 1;
        let ledger = self.files.path().join(self.ledgers.to_string());
        NodeWorker::start(gateway, &KEY.0, "kitchen", &ledger)
    }

    /// What each of the workers so far has handled.
    fn ledgers(&self) -> Vec<Vec<Handled>> {
        let files = (1..=self.ledgers).map(|number| self.files.path().join(number.to_string()));
        files.map(|file| servers::handled(&file)).collect()
    }

    fn crowd(&self) -> Crowd {
        Crowd::enter(Manners {
            addr: self.kitchen.gateway.addr,
            namespace: "/",
            clients: setting("WORKERS_CLIENTS", 200),
            per_second: setting("WORKERS_RATE", 1_000),
            event: "count",
        })
    }

    fn all_have_workers(&self) {
        let parked = "sockeye_backend_parked_sockets";
        let none = || self.kitchen.metric(parked) == 0.0;
        assert!(eventually(PATIENCE, none), "all sockets have workers");
    }

    /// What a history came to, and what became of the clients.
    fn end(&self, crowd: Crowd) -> (Account, Vec<Life>) {
        let lives = crowd.end();
        let first = lives.iter().filter_map(|life| life.lost.as_ref()).next();
        assert_eq!(first, None, "a client is disconnected");
        let account = Account::of(&lives, &self.ledgers());
        (account, lives)
    }
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

fn record(what: &str, account: &Account, delays: &Delays) {
    let numbers = [
        ("said", account.said as f64),
        ("handled", account.handled as f64),
        ("marked", account.marked as f64),
        ("refused", account.refused as f64),
        ("lost", account.lost as f64),
        ("unanswered", account.unanswered as f64),
        ("twice", account.twice as f64),
        ("reordered", account.reordered as f64),
        ("disconnects", account.disconnects as f64),
        ("p50_ms", ms(delays.permille(500)).round()),
        ("p99_ms", ms(delays.permille(990)).round()),
        ("most_ms", ms(delays.permille(1_000)).round()),
    ];
    keep(what, &numbers);
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn a_worker_killed_under_load_loses_nothing_and_repeats_nothing_unmarked() {
    let mut scene = Scene::open("");
    let mut worker = scene.worker();
    let crowd = scene.crowd();
    crowd.speak();
    let mut kills = Vec::new();
    for _ in 0..setting("WORKERS_ROUNDS", 2) {
        let heir = scene.worker();
        sleep(pause());
        worker.kill();
        kills.push(Instant::now());
        worker = heir;
        sleep(pause());
        scene.all_have_workers();
    }
    let (account, lives) = scene.end(crowd);
    for moment in kills {
        let delays = Delays::around(&lives, moment, Duration::from_millis(1_500));
        record("killed", &account, &delays);
    }
    assert!(account.is_clean() && account.refused == 0, "{account:?}");
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn a_silent_link_delays_events_and_neither_loses_nor_repeats_any() {
    let mut scene = Scene::open("");
    let cable = Cable::to(scene.kitchen.workers.port());
    let _worker = scene.worker_by(&cable.addr());
    let crowd = scene.crowd();
    crowd.speak();
    sleep(pause());
    cable.cut();
    let moment = Instant::now();
    let cut = seconds("WORKERS_CUT", 2);
    sleep(cut);
    cable.mend();
    sleep(pause());
    let (account, lives) = scene.end(crowd);
    record("silent", &account, &Delays::around(&lives, moment, cut));
    let once = account.marked == 0 && account.refused == 0;
    assert!(account.is_clean() && once, "{account:?}");
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn a_rolling_deploy_of_three_workers_is_noticed_by_nobody() {
    let mut scene = Scene::open("");
    let mut workers = [(); 3].map(|()| scene.worker());
    let crowd = scene.crowd();
    crowd.speak();
    let mut deploys = Vec::new();
    for _ in 0..setting("WORKERS_ROUNDS", 1).min(3) {
        sleep(pause());
        let began = Instant::now();
        for worker in &mut workers {
            let heir = scene.worker();
            worker.leave();
            *worker = heir;
        }
        scene.all_have_workers();
        deploys.push((began, began.elapsed()));
    }
    sleep(pause());
    let (account, lives) = scene.end(crowd);
    for (moment, took) in deploys {
        record("deploy", &account, &Delays::around(&lives, moment, took));
    }
    let once = account.marked == 0 && account.refused == 0;
    assert!(account.is_clean() && once, "{account:?}");
}
