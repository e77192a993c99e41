//! What all stores promise, tried on each of them; and what each promises when it is cut off, killed or torn.

mod durability;
mod failover;
mod promises;
mod queue;

use control::history::TlsFiles;
use history::{
    Ask, Batch, Disk, Event, Keep, Kept, Memory, Page, Plan, Position, Store, Sync, Way,
};
use identity::Secret;
use nodes::redis::settings::Mode;
use servers::{Postgres, Redis};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;

/// Rooms of `/`: `few-…` keep five events, `small-…` 2,000 bytes, `short-…` an hour, all others 100,000 events for 1,000 days.
fn plan() -> Plan {
    let keep = |events, bytes, age_ms| Keep {
        events,
        bytes,
        age_ms,
    };
    const DAYS: u64 = 1_000 * 86_400_000;
    let rows = [
        ("few-*", keep(5, 1 << 30, DAYS)),
        ("small-*", keep(100_000, 2_000, DAYS)),
        ("short-*", keep(100_000, 1 << 30, 3_600_000)),
        ("*", keep(100_000, 1 << 30, DAYS)),
    ];
    let of = |namespace: &'static str| {
        rows.map(|(rooms, keep)| (namespace.to_owned(), rooms.to_owned(), keep))
    };
    Plan::new(of("/").into_iter().chain(of("/other")))
}

fn now_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.expect("a clock").as_millis() as u64
}

fn event(room: &str, n: u64) -> Event {
    Event {
        namespace: "/".to_owned(),
        room: room.to_owned(),
        name: "say".to_owned(),
        args: format!("{n},{{\"text\":\"ä\\u0000\"}}"),
        user: None,
        time_ms: now_ms(),
    }
}

fn number(event: &Event) -> u64 {
    let (number, _) = event.args.split_once(',').expect("a number");
    number.parse().expect("a number")
}

fn numbers(events: &[Kept]) -> Vec<u64> {
    events.iter().map(|kept| number(&kept.event)).collect()
}

/// A batch of its own.
async fn append(store: &dyn Store, events: Vec<Event>) -> Vec<Position> {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    let batch = Batch {
        // Numbers of another process are another writer's.
        writer: std::process::id().into(),
        number: NUMBER.fetch_add(1, Ordering::Relaxed),
        events,
    };
    store.append(&batch).await.expect("it is stored")
}

fn ask(room: &str) -> Ask {
    Ask {
        namespace: "/".to_owned(),
        room: room.to_owned(),
        after: None,
        before: None,
        way: Way::Forward,
        events_max: 1_000,
        bytes_max: 1 << 20,
    }
}

async fn page(store: &dyn Store, ask: Ask) -> Page {
    store.page(ask).await.expect("a page")
}

/// All of a room, page by page, in the order of `way`.
async fn all(store: &dyn Store, room: &str, way: Way, events_max: usize) -> Vec<Kept> {
    let mut events = Vec::new();
    let mut asked = Ask {
        way,
        events_max,
        ..ask(room)
    };
    loop {
        let page = page(store, asked.clone()).await;
        assert!(page.events.len() <= events_max);
        events.extend(page.events);
        match (page.next, way) {
            (None, _) => return events,
            (next, Way::Forward) => asked.after = next,
            (next, Way::Backward) => asked.before = next,
        }
    }
}

/// A store, and what it stands on. It can be opened once more.
struct Rig {
    ground: Ground,
    store: Arc<dyn Store>,
}

enum Ground {
    Memory,
    Disk(TempDir),
    Postgres(Box<Postgres>),
    Redis(Box<Redis>),
}

impl Ground {
    async fn open(&self) -> Arc<dyn Store> {
        match self {
            Self::Memory => Arc::new(Memory::new(plan(), 1 << 30)),
            Self::Disk(folder) => {
                let folder = folder.path().to_owned();
                Arc::new(
                    Disk::open(folder, Sync::Os, plan())
                        .await
                        .expect("a folder"),
                )
            }
            Self::Postgres(server) => {
                let store = history::Postgres::open(&server.url(), plan()).await;
                Arc::new(store.expect("a server"))
            }
            Self::Redis(server) => open_redis(&[server.url()], Mode::Single, 0).await,
        }
    }

    async fn rig(self) -> Rig {
        let store = self.open().await;
        Rig {
            ground: self,
            store,
        }
    }
}

async fn open_redis(urls: &[String], mode: Mode, replicas: u16) -> Arc<dyn Store> {
    let place = control::history::Redis {
        urls: Secret::new(urls.join(",")),
        mode,
        replicas,
        tls: TlsFiles::default(),
    };
    let store = control::history::open_redis(&place, plan()).await;
    Arc::new(store.expect("a server"))
}

async fn memory() -> Rig {
    Ground::Memory.rig().await
}

async fn disk() -> Rig {
    Ground::Disk(tempfile::tempdir().expect("a folder"))
        .rig()
        .await
}

async fn postgres() -> Rig {
    Ground::Postgres(Box::new(Postgres::start())).rig().await
}

async fn redis() -> Rig {
    Ground::Redis(Box::new(Redis::start_with(&[
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
    ])))
    .rig()
    .await
}
