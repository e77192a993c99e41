//! Three masters with their replicas: whatever moves, subscriptions come along.

use super::*;
use servers::Cluster;

/// Over all slots.
fn channels() -> Vec<String> {
    (0..24).map(|n| format!("room:{n}")).collect()
}

async fn pair(cluster: &Cluster) -> (Node, Node) {
    let settings = settings(&cluster.addrs(), Mode::Cluster);
    let (a, mut b) = (
        Node::open(settings.clone()).await,
        Node::open(settings).await,
    );
    assert_eq!(a.engine.native(), Kind::Sharded);
    let server = a.engine.server().await.expect("INFO");
    assert_eq!(server.node_timeout, Some(Duration::from_secs(1)));
    let topics: Vec<Topic> = channels().iter().map(|name| sharded(name)).collect();
    b.hears(&topics).await;
    (a, b)
}

/// All that subscribers of the 24 channels went through when other clients were tried, one after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn sharded_subscriptions_survive_kicks_migration_failover_and_death() {
    let mut cluster = Cluster::start();
    let (a, mut b) = pair(&cluster).await;
    let channels = channels();
    b.hears_all(&a, Kind::Sharded, &channels, "steady").await;
    for node in &cluster.nodes[..3] {
        node.ask(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    }
    b.hears_all(&a, Kind::Sharded, &channels, "kick").await;
    let from = cluster.owner(0, "room:0");
    let to = (from + 1) % 3;
    cluster.migrate(cluster.slot(0, "room:0"), from, to);
    b.hears_all(&a, Kind::Sharded, &channels, "migration").await;
    assert_eq!(cluster.owner(0, "room:0"), to);
    cluster.nodes[3].ask(&["CLUSTER", "FAILOVER"]);
    servers::wait_for("the replica is master", || {
        let role = cluster.nodes[3].field(&["INFO", "replication"], "role")?;
        (role == "master").then_some(())
    });
    b.hears_all(&a, Kind::Sharded, &channels, "failover").await;
    cluster.wait_until_whole();
    cluster.nodes[1].kill();
    b.hears_all(&a, Kind::Sharded, &channels, "death").await;
    cluster.nodes[1].restart();
    cluster.wait_until_whole();
    b.hears_all(&a, Kind::Sharded, &channels, "return").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn a_frozen_master_is_replaced_and_returns_without_harm() {
    let cluster = Cluster::start();
    let (a, mut b) = pair(&cluster).await;
    let channels = channels();
    cluster.nodes[2].freeze();
    b.hears_all(&a, Kind::Sharded, &channels, "frozen").await;
    cluster.nodes[2].thaw();
    cluster.wait_until_whole();
    b.hears_all(&a, Kind::Sharded, &channels, "thawed").await;
    // Each channel is held once: a message comes once.
    while timeout(Duration::from_millis(300), b.next()).await.is_ok() {}
    let batch: Vec<Publish> = channels
        .iter()
        .map(|name| publish(Kind::Sharded, name, "once"))
        .collect();
    assert_eq!(a.engine.publish(&batch).await.receivers, [Some(1); 24]);
    let mut came = 0;
    while let Ok(news) = timeout(Duration::from_millis(500), b.next()).await {
        came += usize::from(matches!(news, News::Message(_)));
    }
    assert_eq!(came, channels.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn classic_channels_reach_all_nodes_and_are_counted_over_them() {
    let mut cluster = Cluster::start();
    let (a, mut b) = pair(&cluster).await;
    let mut c = Node::open(settings(&cluster.addrs()[1..2], Mode::Cluster)).await;
    let topics = [classic("request"), Topic::Pattern(b"p#*"[..].into())];
    b.hears(&topics).await;
    c.hears(&topics).await;
    assert_eq!(a.counts(Kind::Classic, &["request"]).await, [2]);
    assert_eq!(a.counts(Kind::Sharded, &["room:1"]).await, [1]);
    let owner = cluster.owner(0, "request");
    cluster.nodes[owner].kill();
    for (node, round) in [(&mut b, "for b"), (&mut c, "for c")] {
        let names = ["request".to_owned(), "p#room".to_owned()];
        node.hears_all(&a, Kind::Classic, &names, round).await;
    }
}

/// A cluster that is asked as if it were a single server, and the other way round.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn the_wrong_mode_is_named() {
    let cluster = Cluster::start();
    let wrong = redis::open(settings(&cluster.addrs()[..1], Mode::Single)).await;
    let trouble = wrong.expect_err("a cluster").to_string();
    assert!(trouble.contains("it is a node of a cluster"), "{trouble}");
    let single = servers::Redis::start();
    let wrong = redis::open(settings(&[single.addr()], Mode::Cluster)).await;
    let trouble = wrong.expect_err("no cluster").to_string();
    assert!(trouble.contains("not a node of a cluster"), "{trouble}");
}
