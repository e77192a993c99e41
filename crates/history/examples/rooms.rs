//! Many rooms on disk: `… --example rooms fill FOLDER 1000000` gives each 20 events and ends as by `kill -9`; `… rooms open FOLDER 1000000`
//! says how long the next start takes, and pages, and how much memory; then it removes old events for a minute.

use history::{Ask, Disk, Event, Intake, Keep, Plan, Store, Sync, Way};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

const EACH: u64 = 20;
const BYTES: usize = 128;
const PAGES: u64 = 5_000;
const RETENTION: Duration = Duration::from_secs(60);

fn event(room: u64) -> Event {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Event {
        namespace: "/".to_owned(),
        room: format!("room-{room}"),
        name: "say".to_owned(),
        args: format!("\"{}\"", "x".repeat(BYTES)),
        user: Some(format!("user-{}", room % 97)),
        time_ms: now.map_or(0, |since| since.as_millis() as u64),
    }
}

async fn open(folder: &str) -> Arc<dyn Store> {
    let keep = Keep {
        events: 10_000,
        bytes: 16 << 20,
        age_ms: 86_400_000,
    };
    let plan = Plan::new([("/".to_owned(), "*".to_owned(), keep)]);
    let opened = Disk::open(folder.into(), Sync::Second, plan).await;
    Arc::new(opened.expect("a folder"))
}

#[tokio::main]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [what, folder, rooms] = &words[..] else {
        panic!("rooms fill|open FOLDER ROOMS");
    };
    let rooms: u64 = rooms.parse().expect("a number of rooms");
    match what.as_str() {
        "fill" => fill(folder, rooms).await,
        _ => read(folder, rooms).await,
    }
}

async fn fill(folder: &str, rooms: u64) {
    let intake = Intake::new(open(folder).await, 64 << 20, 1);
    let began = Instant::now();
    for n in 0..rooms * EACH {
        while intake.figures().waiting_bytes > 4 << 20 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        intake.push(event(n % rooms), None);
        if n % rooms == 0 {
            let (round, seconds) = (n / rooms, began.elapsed().as_secs());
            println!(
                "{round} events in each room after {seconds} s, {}",
                memory()
            );
        }
    }
    while !intake.settle().await {}
    let stored = intake.figures().stored;
    let rate = stored as f64 / began.elapsed().as_secs_f64();
    println!(
        "{stored} events, {rate:.0} a second, {}, {} MB on disk",
        memory(),
        megabytes(folder)
    );
    // Without an orderly end.
    std::process::abort();
}

async fn read(folder: &str, rooms: u64) {
    let began = Instant::now();
    let store = open(folder).await;
    println!("opened in {:?}, {}", began.elapsed(), memory());
    let mut waits = Vec::new();
    for n in 0..PAGES {
        let ask = Ask {
            namespace: "/".to_owned(),
            room: format!("room-{}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % rooms),
            after: None,
            before: None,
            way: Way::Backward,
            events_max: 100,
            bytes_max: 1 << 20,
        };
        let began = Instant::now();
        let page = store.page(ask).await.expect("a page");
        assert!((1..=EACH).contains(&(page.events.len() as u64)));
        waits.push(began.elapsed());
    }
    waits.sort_unstable();
    let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize];
    println!(
        "a page: {:?} (p50), {:?} (p99), {:?} (slowest); {}",
        at(0.5),
        at(0.99),
        at(1.0),
        memory()
    );
    let (began, mut gone, mut slowest) = (Instant::now(), 0, Duration::ZERO);
    while began.elapsed() < RETENTION {
        let step = Instant::now();
        let trimmed = store.trim(u64::MAX >> 20).await.expect("trimmed");
        slowest = slowest.max(step.elapsed());
        gone += trimmed.events;
        if !trimmed.more {
            break;
        }
    }
    let rate = gone as f64 / began.elapsed().as_secs_f64();
    println!(
        "retention: {gone} events, {rate:.0} a second, a step {slowest:?} at most; {}",
        memory()
    );
    store.close().await.expect("closed");
}

fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let lines = status
        .lines()
        .filter(|line| line.starts_with("VmRSS") || line.starts_with("VmHWM"));
    lines.collect::<Vec<_>>().join(", ")
}

fn megabytes(folder: &str) -> String {
    let output = std::process::Command::new("du")
        .args(["-sm", folder])
        .output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    text.split_whitespace()
        .next()
        .unwrap_or_default()
        .to_owned()
}
