//! How fast a store takes and gives events: `cargo run --profile production -p history --example append -- memory`, or `disk`, `disk-always`,
//! `redis`, `postgres` (servers of its own, which `cargo xtask test` installs). Events of 128 bytes in 1,000 rooms.

use control::history::TlsFiles;
use history::{Ask, Disk, Event, Intake, Keep, Memory, Plan, Postgres, Store, Sync, Way};
use identity::Secret;
use nodes::redis::settings::Mode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::oneshot;

const ROOMS: u64 = 1_000;
const BYTES: usize = 128;
/// As fast as the store takes them.
const SATURATED: Duration = Duration::from_secs(10);
/// So many a second, for the time that one of them waits.
const PACE: u64 = 1_000;
const PACED: Duration = Duration::from_secs(10);
const PAGES: u64 = 2_000;

fn event(n: u64) -> Event {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Event {
        namespace: "/".to_owned(),
        room: format!("room-{}", n % ROOMS),
        name: "say".to_owned(),
        args: format!("\"{}\"", "x".repeat(BYTES)),
        user: Some(format!("user-{}", n % 97)),
        time_ms: now.map_or(0, |since| since.as_millis() as u64),
    }
}

async fn store(name: &str, ground: &Ground) -> Arc<dyn Store> {
    let keep = Keep {
        events: 10_000,
        bytes: 16 << 20,
        age_ms: 86_400_000,
    };
    let plan = Plan::new([("/".to_owned(), "*".to_owned(), keep)]);
    let folder = || ground.folder.path().to_owned();
    match (name, &ground.redis, &ground.postgres) {
        ("disk", ..) => Arc::new(
            Disk::open(folder(), Sync::Second, plan)
                .await
                .expect("a folder"),
        ),
        ("disk-always", ..) => Arc::new(
            Disk::open(folder(), Sync::Always, plan)
                .await
                .expect("a folder"),
        ),
        (_, Some(redis), _) => {
            let place = control::history::Redis {
                urls: Secret::new(redis.url()),
                mode: Mode::Single,
                replicas: 0,
                tls: TlsFiles::default(),
            };
            let opened = control::history::open_redis(&place, plan).await;
            Arc::new(opened.expect("Redis"))
        }
        (_, _, Some(postgres)) => Arc::new(
            Postgres::open(&postgres.url(), plan)
                .await
                .expect("PostgreSQL"),
        ),
        _ => Arc::new(Memory::new(plan, 8 << 30)),
    }
}

/// What a store stands on.
struct Ground {
    folder: tempfile::TempDir,
    redis: Option<servers::Redis>,
    postgres: Option<servers::Postgres>,
}

#[tokio::main]
async fn main() {
    let name = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "memory".to_owned());
    let ground = Ground {
        folder: tempfile::tempdir().expect("a folder"),
        redis: (name == "redis").then(|| servers::Redis::start_with(&["--appendonly", "yes"])),
        postgres: (name == "postgres").then(servers::Postgres::start),
    };
    let store = store(&name, &ground).await;
    let intake = Intake::new(Arc::clone(&store), 64 << 20, 1);
    let mut n = 0;
    let began = Instant::now();
    while began.elapsed() < SATURATED {
        if intake.figures().waiting_bytes > 4 << 20 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        }
        for _ in 0..100 {
            intake.push(event(n), None);
            n += 1;
        }
    }
    let stored = intake.figures().stored;
    println!(
        "{name}: {:.0} events/s saturated",
        stored as f64 / began.elapsed().as_secs_f64()
    );
    intake.settle().await;
    let mut waits = paced(&intake).await;
    waits.sort_unstable();
    let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize];
    println!(
        "{name}: stored after {:?} (p50), {:?} (p99) at {PACE} events/s",
        at(0.5),
        at(0.99)
    );
    let began = Instant::now();
    for page in 0..PAGES {
        let ask = Ask {
            namespace: "/".to_owned(),
            room: format!("room-{}", page * 7 % ROOMS),
            after: None,
            before: None,
            way: Way::Backward,
            events_max: 100,
            bytes_max: 1 << 20,
        };
        store.page(ask).await.expect("a page");
    }
    println!(
        "{name}: {:.0} pages/s of 100 events, one after the other",
        PAGES as f64 / began.elapsed().as_secs_f64()
    );
    store.close().await.expect("closed");
}

/// How long each event waits until it is stored.
async fn paced(intake: &Intake) -> Vec<Duration> {
    let (began, mut waits) = (Instant::now(), Vec::new());
    let mut pace = tokio::time::interval(Duration::from_micros(1_000_000 / PACE));
    let mut under_way = Vec::new();
    for n in 0.. {
        pace.tick().await;
        if began.elapsed() > PACED {
            break;
        }
        let (waiter, wait) = oneshot::channel();
        intake.push(event(n), Some(waiter));
        let since = Instant::now();
        under_way.push(tokio::spawn(async move {
            wait.await.expect("told").expect("stored");
            since.elapsed()
        }));
    }
    for one in under_way {
        waits.push(one.await.expect("it ends"));
    }
    waits
}
