//! A master whose place another one takes.

use super::*;
use servers::Sentinels;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn the_new_master_is_followed_when_the_old_one_dies_or_freezes() {
    let mut set = Sentinels::start(1_000);
    let settings = settings(&set.addrs(), Mode::Sentinel(set.name().to_owned()));
    let (mut a, mut b) = (
        Node::open(settings.clone()).await,
        Node::open(settings).await,
    );
    let names = ["x".to_owned()];
    b.hears(&[classic("x")]).await;
    a.up().await;
    b.hears_all(&a, Kind::Classic, &names, "steady").await;
    set.servers[0].freeze();
    a.down().await;
    servers::wait_for("another master", || (set.master() == Some(1)).then_some(()));
    a.up().await;
    b.hears_all(&a, Kind::Classic, &names, "frozen").await;
    // It believes that it is still the master when it wakes up.
    set.servers[0].thaw();
    b.hears_all(&a, Kind::Classic, &names, "thawed").await;
    servers::wait_for("a replica", || {
        let link = set.servers[0].field(&["INFO", "replication"], "master_link_status")?;
        (link == "up").then_some(())
    });
    set.servers[1].kill();
    b.hears_all(&a, Kind::Classic, &names, "killed").await;
    assert_eq!(set.master(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn a_name_that_the_sentinels_do_not_know_is_told() {
    let set = Sentinels::start(1_000);
    let wrong = settings(&set.addrs(), Mode::Sentinel("other".to_owned()));
    let trouble = redis::open(wrong).await.expect_err("no such master");
    assert!(trouble.to_string().contains("\"other\""), "{trouble}");
}
