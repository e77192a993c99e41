//! Stores of history that outlive a process: what rooms said before, during and after upgrades is there once, in order.

use super::chain::Chain;
use crate::history::{all, config, join, say, soon};
use servers::{Postgres, Redis};

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
