//! Redis with replicas: what was acknowledged is there after masters were killed, frozen and replaced, and after slots were moved; once.

use crate::{all, append, event, numbers, open_redis};
use history::{Batch, Event, Forget, Kind, Store, Way};
use nodes::redis::settings::Mode;
use servers::{Cluster, Redis, Sentinels, wait_for};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;

/// Appends numbers to the room `a`, each until it is acknowledged, until it is told to end.
struct Writer {
    acknowledged: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    task: JoinHandle<u64>,
}

impl Writer {
    fn start(store: &Arc<dyn Store>) -> Self {
        let (acknowledged, ends) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let task = tokio::spawn(write(
            Arc::clone(store),
            Arc::clone(&acknowledged),
            Arc::clone(&ends),
        ));
        Self {
            acknowledged,
            ends,
            task,
        }
    }

    /// Waits for so many more.
    async fn goes_on(&self, events: u64) {
        let target = self.acknowledged.load(Ordering::Relaxed) + events;
        let waited = tokio::time::timeout(servers::PATIENCE, async {
            while self.acknowledged.load(Ordering::Relaxed) < target {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        assert!(waited.await.is_ok(), "nothing is acknowledged any more");
    }

    /// All that was acknowledged is there, once, and nothing else.
    async fn ends_whole(self, store: &dyn Store) {
        self.ends.store(true, Ordering::Relaxed);
        let written = self.task.await.expect("it ends");
        let stored = numbers(&all(store, "a", Way::Forward, 1_000).await);
        assert_eq!(stored, (0..written).collect::<Vec<_>>());
    }
}

async fn write(store: Arc<dyn Store>, acknowledged: Arc<AtomicU64>, ends: Arc<AtomicBool>) -> u64 {
    let mut number = 0;
    while !ends.load(Ordering::Relaxed) {
        let mut event = event("a", number);
        event.user = Some(format!("user-{}", number % 7));
        let batch = Batch {
            writer: 9,
            number,
            events: vec![event],
        };
        while let Err(fault) = store.append(&batch).await {
            assert_ne!(fault.kind(), Kind::Refused, "{fault}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        number += 1;
        acknowledged.store(number, Ordering::Relaxed);
    }
    number
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn sentinels_may_choose_another_master() {
    let mut set = Sentinels::start(1_000);
    let urls: Vec<String> = set
        .addrs()
        .iter()
        .map(|addr| format!("redis://{addr}"))
        .collect();
    let store = open_redis(&urls, Mode::Sentinel(set.name().to_owned()), 1).await;
    let writer = Writer::start(&store);
    writer.goes_on(200).await;
    // It is cut off with what only it has, and believes that it is the master when it wakes up.
    set.servers[0].freeze();
    wait_for("another master", || (set.master() == Some(1)).then_some(()));
    // Without a replica nothing is acknowledged; it follows when it wakes up.
    set.servers[0].thaw();
    writer.goes_on(200).await;
    set.servers[1].kill();
    wait_for("the first again", || {
        (set.master() == Some(0)).then_some(())
    });
    set.servers[1].restart();
    writer.goes_on(200).await;
    writer.ends_whole(&*store).await;
}

/// A master that is alone for a moment, and dies then.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn what_no_replica_has_is_not_acknowledged() {
    let mut set = Sentinels::start(2_000);
    let urls: Vec<String> = set
        .addrs()
        .iter()
        .map(|addr| format!("redis://{addr}"))
        .collect();
    let store = open_redis(&urls, Mode::Sentinel(set.name().to_owned()), 1).await;
    let writer = Writer::start(&store);
    writer.goes_on(100).await;
    set.servers[1].freeze();
    let had = writer.acknowledged.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_millis(500)).await;
    set.servers[0].kill();
    let has = writer.acknowledged.load(Ordering::Relaxed);
    assert!(has <= had + 1, "{} were stored in one place", has - had);
    set.servers[1].thaw();
    wait_for("another master", || (set.master() == Some(1)).then_some(()));
    set.servers[0].restart();
    writer.goes_on(100).await;
    writer.ends_whole(&*store).await;
}

fn urls(cluster: &Cluster) -> Vec<String> {
    let addrs = cluster.addrs();
    addrs.iter().map(|addr| format!("redis://{addr}")).collect()
}

const KEY: &str = "sockeye:history:{/}:";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn a_master_of_a_cluster_may_be_killed() {
    let mut cluster = Cluster::start();
    let store = open_redis(&urls(&cluster)[3..], Mode::Cluster, 1).await;
    let writer = Writer::start(&store);
    writer.goes_on(200).await;
    let owner = cluster.owner(3, KEY);
    cluster.nodes[owner].kill();
    let other = (owner + 1) % 3;
    wait_for("another owner", || {
        (cluster.owner(other, KEY) == owner + 3).then_some(())
    });
    // It comes back as the replica without which nothing is acknowledged.
    cluster.nodes[owner].restart();
    writer.goes_on(200).await;
    writer.ends_whole(&*store).await;
}

/// With its keys, while they are written.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn the_slot_of_a_namespace_may_be_moved() {
    let cluster = Cluster::start();
    let store = open_redis(&urls(&cluster), Mode::Cluster, 1).await;
    let writer = Writer::start(&store);
    let (mut owner, slot) = (cluster.owner(0, KEY), cluster.slot(0, KEY));
    for _ in 0..3 {
        writer.goes_on(100).await;
        let next = (owner + 1) % 3;
        cluster.migrate_keys(slot, owner, next);
        owner = next;
    }
    writer.goes_on(100).await;
    writer.ends_whole(&*store).await;
}

/// The rights that the documents name are enough, and a number of a database is that.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn a_user_with_few_rights_can_do_all() {
    let redis = Redis::start();
    let rights = history::ACL.split_whitespace().chain(["+select"]);
    let user = ["ACL", "SETUSER", "keeper", "on", ">pass"];
    let command: Vec<&str> = user.into_iter().chain(rights).collect();
    assert_eq!(redis.ask(&command).trim(), "OK", "{command:?}");
    let url = format!("redis://keeper:pass@{}/3", redis.addr());
    let store = open_redis(&[url], Mode::Single, 0).await;
    let of_ada = |number| Event {
        user: Some("ada".to_owned()),
        ..event("a", number)
    };
    let places = append(&*store, (0..4).map(of_ada).collect()).await;
    assert_ne!(redis.ask(&["-n", "3", "DBSIZE"]).trim(), "0");
    assert_eq!(redis.ask(&["DBSIZE"]).trim(), "0");
    let (namespace, room, user) = ("/".to_owned(), "a".to_owned(), "ada".to_owned());
    let deletions = [
        (
            Forget::Event {
                namespace: namespace.clone(),
                room: room.clone(),
                at: places[1],
            },
            1,
            vec![0, 2, 3],
        ),
        (
            Forget::User {
                namespace: None,
                user,
            },
            3,
            vec![],
        ),
        (Forget::Room { namespace, room }, 0, vec![]),
    ];
    for (what, deleted, left) in deletions {
        assert_eq!(store.forget(what).await.expect("deleted"), deleted);
        assert_eq!(numbers(&all(&*store, "a", Way::Forward, 10).await), left);
    }
    let log = redis.ask(&["ACL", "LOG"]);
    assert_eq!(log.trim(), "", "{log}");
}

/// Redis refuses to delete in one of the rooms of a user: the next attempt finds the events of that room, too.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis: cargo xtask test foreign"]
async fn a_user_whose_deletion_was_refused_is_deleted_by_the_next_attempt() {
    let server = Redis::start();
    let store = open_redis(&[server.url()], Mode::Single, 0).await;
    let rooms = ["a", "b"].map(|room| {
        let mut event = event(room, 1);
        event.user = Some("ada".to_owned());
        event
    });
    append(&*store, rooms.to_vec()).await;
    let (room, aside) = (format!("{KEY}room:a"), format!("{KEY}aside"));
    server.ask(&["RENAME", &room, &aside]);
    server.ask(&["SET", &room, "no stream"]);
    let forget = || {
        store.forget(Forget::User {
            namespace: Some("/".to_owned()),
            user: "ada".to_owned(),
        })
    };
    assert!(forget().await.is_err());
    server.ask(&["RENAME", &aside, &room]);
    assert_eq!(forget().await, Ok(1));
    for room in ["a", "b"] {
        assert_eq!(all(&*store, room, Way::Forward, 10).await, []);
    }
    let index = server.ask(&["EXISTS", &format!("{KEY}user:ada")]);
    assert_eq!(index.trim(), "0");
}
