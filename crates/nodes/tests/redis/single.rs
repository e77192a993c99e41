//! One Redis that is restarted, cut, frozen, and that throws its subscribers out.

use super::*;
use nodes::engine::{Held, Holder, Lease, Taken};
use servers::{Cable, Redis};

async fn pair(redis: &Redis) -> (Node, Node) {
    let settings = settings(&[redis.addr()], Mode::Single);
    (
        Node::open(settings.clone()).await,
        Node::open(settings).await,
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn messages_come_in_order_on_every_kind_of_channel() {
    let redis = Redis::start();
    let (a, mut b) = pair(&redis).await;
    let pattern = Topic::Pattern(b"p#*"[..].into());
    b.hears(&[classic("x"), sharded("x"), pattern]).await;
    let mut published = Vec::new();
    for n in 0..100 {
        published.push(a.engine.publish(&[
            publish(Kind::Classic, "x", &n.to_string()),
            publish(Kind::Sharded, "x", "sharded"),
            publish(Kind::Classic, "p#room", "pattern"),
        ]));
    }
    for batch in published {
        let published = batch.await;
        assert_eq!(published.receivers, [Some(1); 3], "{published:?}");
    }
    for n in 0..100 {
        let came = b.message().await;
        assert_eq!(came.body, n.to_string().as_bytes());
        let came = b.message().await;
        assert_eq!((came.kind, came.pattern), (Kind::Sharded, None));
        let came = b.message().await;
        assert_eq!(came.pattern.as_deref(), Some(&b"p#*"[..]));
        assert_eq!(came.channel, b"p#room");
    }
    assert_eq!(a.counts(Kind::Classic, &["x", "y"]).await, [1, 0]);
    b.engine.unsubscribe(vec![classic("x")]);
    servers::wait_for("unsubscribed", || {
        let count = redis.ask(&["PUBSUB", "NUMSUB", "x"]);
        count.trim().ends_with('0').then_some(())
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn subscriptions_return_after_a_restart_and_after_a_kick() {
    let mut redis = Redis::start();
    let (mut a, mut b) = pair(&redis).await;
    let channels: Vec<String> = (0..24).map(|n| format!("room:{n}")).collect();
    let topics: Vec<Topic> = channels.iter().map(|name| classic(name)).collect();
    b.hears(&topics).await;
    a.up().await;
    redis.ask(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    b.hears_all(&a, Kind::Classic, &channels, "kick").await;
    redis.kill();
    let trouble = a.down().await;
    assert!(trouble.contains(&redis.addr()), "{trouble}");
    let refused = a
        .engine
        .publish(&[publish(Kind::Classic, "room:0", "")])
        .await;
    assert!(!refused.is_complete() && refused.trouble.is_some());
    redis.restart();
    a.up().await;
    b.hears_all(&a, Kind::Classic, &channels, "restart").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn a_frozen_server_is_found_out_and_answers_do_not_wait_for_it() {
    let redis = Redis::start();
    let (mut a, mut b) = pair(&redis).await;
    b.hears(&[classic("x")]).await;
    a.up().await;
    redis.freeze();
    let refused = a
        .engine
        .publish(&[publish(Kind::Classic, "x", "lost")])
        .await;
    assert_eq!(refused.receivers, [None]);
    assert!(a.down().await.contains("did not answer"));
    b.until("unheard", |_, news| matches!(news, News::Unheard(_)))
        .await;
    redis.thaw();
    a.up().await;
    b.hears_all(&a, Kind::Classic, &["x".to_owned()], "thawed")
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn a_flood_that_nobody_reads_is_bounded_and_told() {
    let redis = Redis::start();
    let mut settings = settings(&[redis.addr()], Mode::Single);
    settings.feed_bytes = 1 << 20;
    let (a, mut b) = (
        Node::open(settings.clone()).await,
        Node::open(settings).await,
    );
    b.hears(&[classic("x")]).await;
    let body = "x".repeat(64 << 10);
    for _ in 0..100 {
        a.publishes(&[publish(Kind::Classic, "x", &body)]).await;
    }
    let mut dropped = 0;
    let all = b.until("the flood", |_, news| {
        if let News::Dropped(messages) = news {
            dropped += messages;
        }
        dropped > 0
    });
    all.await;
    b.hears_all(&a, Kind::Classic, &["x".to_owned()], "after")
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn commands_beyond_the_queue_are_refused_at_once() {
    let redis = Redis::start();
    let mut settings = settings(&[redis.addr()], Mode::Single);
    settings.queue_bytes = 1_000;
    let a = Node::open(settings).await;
    redis.freeze();
    let body = "x".repeat(900);
    let first = a.engine.publish(&[publish(Kind::Classic, "x", &body)]);
    let second = a
        .engine
        .publish(&[publish(Kind::Classic, "x", &body)])
        .await;
    let trouble = second.trouble.expect("refused").to_string();
    assert!(trouble.contains("too much waits for Redis"), "{trouble}");
    assert!(!first.await.is_complete());
    redis.thaw();
    a.publishes(&[publish(Kind::Classic, "x", &body)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn a_lease_has_one_holder_and_outlives_an_empty_restart() {
    let mut redis = Redis::start();
    let (a, b) = pair(&redis).await;
    let lease = |epoch: u64, payload: &str| Lease {
        key: b"{s}:1"[..].into(),
        counter: b"{s}:epoch"[..].into(),
        epoch,
        payload: payload.to_owned(),
        over: None,
        time: Duration::from_secs(60),
    };
    let (mine, yours) = (lease(12, "a x"), lease(1, "b"));
    let holder = |epoch: u64, payload: &str| Holder::read(format!("{epoch} {payload}").as_bytes());
    assert_eq!(a.engine.hold(&mine).await, Ok(Held::Mine));
    assert_eq!(a.engine.hold(&lease(12, "a y")).await, Ok(Held::Mine));
    let held = Held::Other(holder(12, "a y"));
    assert_eq!(b.engine.hold(&yours).await, Ok(held));
    b.engine.release(&yours).await.expect("nothing to release");
    let keys = [b"{s}:1"[..].into(), b"{s}:2"[..].into()];
    let holders = b.engine.holders(&keys).await;
    assert_eq!(holders, Ok(vec![Some(holder(12, "a y")), None]));
    redis.restart();
    assert_eq!(a.engine.hold(&mine).await, Ok(Held::Mine));
    a.engine.release(&mine).await.expect("released");
    assert_eq!(b.engine.hold(&yours).await, Ok(Held::Mine));
    let ttl = redis.ask(&["PTTL", "{s}:1"]);
    let ttl: u64 = ttl.trim().parse().expect("milliseconds");
    assert!((1..=60_000).contains(&ttl), "{ttl}");
}

/// Epochs were times: the next life of a node was ignored if its clock was behind that of the last one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn an_epoch_is_above_all_that_were_given_whatever_the_clocks_say() {
    let redis = Redis::start();
    let (a, b) = pair(&redis).await;
    let lease = |number: u16, clock: u64, payload: &str| Lease {
        key: format!("{{s}}:{number}").into_bytes().into(),
        counter: b"{s}:epoch"[..].into(),
        epoch: clock,
        payload: payload.to_owned(),
        over: None,
        time: Duration::from_secs(60),
    };
    const TODAY: u64 = 1_790_000_000_000_000;
    assert_eq!(
        a.engine.take(&lease(1, TODAY, "a")).await,
        Ok(Taken::Mine(TODAY))
    );
    // A command that was sent twice, because its connection broke, takes the lease once.
    assert_eq!(
        a.engine.take(&lease(1, TODAY, "a")).await,
        Ok(Taken::Mine(TODAY))
    );
    let other = Taken::Other(Holder::read(format!("{TODAY} a").as_bytes()));
    assert_eq!(b.engine.take(&lease(1, 7, "b")).await, Ok(other));
    assert_eq!(
        b.engine.take(&lease(2, 7, "b")).await,
        Ok(Taken::Mine(TODAY + 1))
    );
    // Redis forgot everything: who is there still reminds it.
    assert_eq!(redis.ask(&["FLUSHALL"]).trim(), "OK");
    let kept = lease(1, TODAY, "a");
    assert_eq!(a.engine.hold(&kept).await, Ok(Held::Mine));
    a.engine.release(&kept).await.expect("released");
    assert_eq!(
        b.engine.take(&lease(1, 7, "b")).await,
        Ok(Taken::Mine(TODAY + 1))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn the_server_is_named() {
    let redis = Redis::start();
    let (a, _) = pair(&redis).await;
    let server = a.engine.server().await.expect("INFO");
    assert_eq!((server.name.as_str(), server.mode), ("redis", "single"));
    assert!(server.version.starts_with('7'), "{}", server.version);
    let buffer = server.pubsub_buffer.expect("CONFIG GET");
    assert_eq!((buffer.hard_bytes, buffer.soft_bytes), (32 << 20, 8 << 20));
    let remarks = nodes::redis::inspect::judge(&server);
    assert!(remarks.iter().all(|remark| remark.wanted.is_none()));
}

/// A message larger than the server keeps for a subscriber: it throws the connection out, with all that waited.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn a_subscriber_that_is_thrown_out_for_its_output_buffer_returns() {
    let redis = Redis::start_with(&["--client-output-buffer-limit", "pubsub 64kb 0 0"]);
    let (a, mut b) = pair(&redis).await;
    b.hears(&[classic("x")]).await;
    let body = "x".repeat(4 << 20);
    a.publishes(&[publish(Kind::Classic, "x", &body)]).await;
    b.until("unheard", |_, news| matches!(news, News::Unheard(_)))
        .await;
    b.hears_all(&a, Kind::Classic, &["x".to_owned()], "back")
        .await;
    let log = redis.log();
    assert!(log.contains("overcoming of output buffer limits"), "{log}");
}

/// A count of a hundred thousand subscriptions is no reason to look at all of them for each news.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn many_topics_return_after_a_kick() {
    let redis = Redis::start();
    let (a, mut b) = pair(&redis).await;
    let names: Vec<String> = (0..20_000).map(|n| format!("room:{n}")).collect();
    let topics: Vec<Topic> = names.iter().map(|name| classic(name)).collect();
    b.hears(&topics).await;
    redis.ask(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    b.until("unheard", |node, _| node.heard.is_empty()).await;
    b.until("heard again", |node, _| node.heard.len() == 20_000)
        .await;
    let some = [names[0].clone(), names[19_999].clone()];
    b.hears_all(&a, Kind::Classic, &some, "back").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn a_node_whose_network_is_cut_notices_and_comes_back() {
    let redis = Redis::start();
    let cable = Cable::to(redis.port());
    let a = Node::open(settings(&[redis.addr()], Mode::Single)).await;
    let mut b = Node::open(settings(&[cable.addr()], Mode::Single)).await;
    b.hears(&[classic("x")]).await;
    b.up().await;
    cable.cut();
    assert!(b.down().await.contains("did not answer"));
    let refused = b.engine.publish(&[publish(Kind::Classic, "x", "")]).await;
    assert!(!refused.is_complete());
    cable.mend();
    b.up().await;
    b.hears_all(&a, Kind::Classic, &["x".to_owned()], "mended")
        .await;
}
