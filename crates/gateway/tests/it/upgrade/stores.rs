//! Stores of history that outlive a process: what rooms said before, during and after upgrades is there once, in order.

use super::chain::Chain;
use crate::history::{all, answers, config, join, say, soon};
use servers::{Postgres, Redis};
use std::time::Duration;

const EVENTS: u64 = 90;
/// An upgrade behind so many.
const EACH: u64 = 30;

fn keeps_its_order(history: &str) -> Chain {
    let mut chain = Chain::start(&config(history, "", ""));
    let mut client = join(&chain.first, "on-a");
    for n in 0..EVENTS {
        say(&mut client, "on-a", n);
        if n % EACH == EACH - 1 {
            chain.upgrade();
        }
    }
    say(&mut client, "on-a", EVENTS);
    soon("all is stored", || {
        all(&chain.first, "on-a").len() as u64 > EVENTS
    });
    let expected: Vec<u64> = (0..=EVENTS).collect();
    assert_eq!(all(&chain.first, "on-a"), expected);
    chain
}

/// While the store is away, the process that has what waits for it goes on.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn history_in_redis_goes_on_and_waits_for_a_store_that_is_away() {
    let mut redis = Redis::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let mut chain = keeps_its_order(&format!("store = \"redis\"\nurl = {:?}", redis.url()));
    let mut client = join(&chain.first, "on-b");
    redis.kill();
    say(&mut client, "on-b", 0);
    chain.failing_upgrade(&[]);
    say(&mut client, "on-b", 1);
    redis.restart();
    let waits = "sockeye_history_waiting_bytes";
    soon("the store is back", || chain.first.metric(waits) == 0.0);
    assert_eq!(all(&chain.first, "on-b"), [0, 1]);
    chain.upgrade();
    say(&mut client, "on-b", 2);
    soon("all is stored", || all(&chain.first, "on-b") == [0, 1, 2]);
}

#[test]
#[ignore = "needs PostgreSQL: cargo xtask test foreign"]
fn history_in_postgres_goes_on() {
    let postgres = Postgres::start();
    keeps_its_order(&format!("store = \"postgres\"\nurl = {:?}", postgres.url()));
}

/// One process at a time has the folder. A successor that is killed with it in its hands gives it back by its end.
#[test]
fn history_on_disk_changes_hands() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = format!(
        "store = \"disk\"\nfolder = {:?}",
        folder.path().join("history")
    );
    let chain = keeps_its_order(&store);
    let mut client = join(&chain.first, "on-b");
    let mut said = 0;
    for delay_ms in (0..400).step_by(15) {
        let upgrade = chain.begin_upgrade();
        if upgrade.killed_after(Duration::from_millis(delay_ms)) {
            println!("at {delay_ms} ms it had taken over");
            break;
        }
        say(&mut client, "on-b", said);
        said += 1;
        let expected: Vec<u64> = (0..said).collect();
        // The folder is opened again once the successor has ended.
        soon("the folder is back", || answers(&chain.first, "on-b"));
        soon("all is stored", || all(&chain.first, "on-b") == expected);
    }
    assert!(said > 1);
}

/// What only the process remembers goes over, at the same places.
#[test]
fn history_in_memory_goes_on() {
    keeps_its_order("store = \"memory\"");
}
