//! The servers do what tests ask of them.

use servers::{Cluster, Redis, Sentinels, wait_for};

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn one_redis_comes_back_on_its_port() {
    let mut redis = Redis::start_with(&["--maxclients", "77"]);
    assert_eq!(redis.ask(&["SET", "a", "1"]).trim(), "OK");
    redis.restart();
    assert_eq!(redis.ask(&["GET", "a"]).trim(), "");
    let answer = redis.ask(&["CONFIG", "GET", "maxclients"]);
    assert!(answer.contains("77"), "{answer}");
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_replica_takes_over_from_a_killed_master() {
    let mut cluster = Cluster::start();
    assert_eq!(cluster.owner(3, "a"), 2);
    cluster.nodes[2].kill();
    wait_for("the replica owns the slot", || {
        (cluster.owner(0, "a") == 5).then_some(())
    });
    cluster.nodes[2].restart();
    cluster.wait_until_whole();
    cluster.migrate(cluster.slot(0, "b"), 0, 1);
    assert_eq!(cluster.owner(0, "b"), 1);
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn sentinels_name_another_master() {
    let mut set = Sentinels::start(500);
    assert_eq!(set.master(), Some(0));
    set.servers[0].kill();
    wait_for("another master", || (set.master() == Some(1)).then_some(()));
}
