//! For a while there is no worker at all. What clients are told is configured.

use super::{Account, Delays, Life, Scene, pause, record, seconds};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A worker, none, and another one.
fn nobody_for_a_while(what: &str, more: &str) -> (Account, Vec<Life>) {
    let mut scene = Scene::open(more);
    let mut worker = scene.worker();
    let crowd = scene.crowd();
    crowd.speak();
    sleep(pause());
    worker.kill();
    let moment = Instant::now();
    let absence = absence();
    sleep(absence);
    let _heir = scene.worker();
    sleep(pause());
    let lives = crowd.end();
    let account = Account::of(&lives, &scene.ledgers());
    record(what, &account, &Delays::around(&lives, moment, absence));
    (account, lives)
}

fn absence() -> Duration {
    seconds("WORKERS_ABSENCE", 2)
}

/// Before the absence ends.
fn early() -> String {
    let half = absence().as_millis() / 2;
    format!("park_timeout = \"{half}ms\"\nanswer_timeout = \"10m\"")
}

/// Some events had come to the worker before it was killed, and were answered by nobody: these are handled and refused.
fn errors(lives: &[Life]) -> Vec<String> {
    let said = lives.iter().flat_map(|life| &life.said);
    let answers = said.filter_map(|said| said.answered.as_ref()?.1.clone());
    let mut errors: Vec<String> = answers.collect();
    errors.sort_unstable();
    errors.dedup();
    errors
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn without_a_worker_events_wait_for_the_next_one() {
    let more = "park_timeout = \"10m\"\nanswer_timeout = \"10m\"\nqueue_max = \"1GiB\"";
    let (account, _) = nobody_for_a_while("absent keep", more);
    assert!(account.is_clean(), "{account:?}");
    assert_eq!((account.refused, account.handled), (0, account.said));
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn clients_that_are_told_of_an_absent_worker_go_on_with_the_next() {
    let (account, lives) = nobody_for_a_while("absent tell", &early());
    assert!(account.is_clean() && account.refused > 0, "{account:?}");
    assert_eq!(errors(&lives), [r#"{"error":"No backend is connected"}"#]);
    let last = lives.iter().map(|life| life.said.last());
    let answered = |said: &super::crowd::Said| matches!(said.answered, Some((_, None)));
    assert!(last.flatten().all(answered), "all go on");
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn clients_of_an_absent_worker_are_closed_where_that_is_configured() {
    let more = format!("{}\nclose_when_absent = true", early());
    let (account, lives) = nobody_for_a_while("absent close", &more);
    assert_eq!(account.disconnects, lives.len());
    let reason = |life: &Life| life.lost.clone().unwrap_or_default();
    let first = reason(&lives[0]);
    assert!(first.contains("1013"), "{first}");
    assert!(lives.iter().all(|life| reason(life) == first));
    assert_eq!((account.lost, account.twice, account.reordered), (0, 0, 0));
}
