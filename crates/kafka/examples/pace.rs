//! How many events a second go out to Kafka and come in from it, and what one costs: `cargo run --profile production -p kafka --example pace`.
//! It starts a broker of its own, which `cargo xtask test` installs. Bodies of 128 bytes, 1,000 users, four partitions.

use kafka::{
    Command, Encoding, Event, Handed, Inlet, Key, Kind, Limits, Moment, Operator, Outlet, Place,
    Reading, Settings, Topic,
};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use servers::Kafka;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const EVENTS: u64 = 500_000;
/// One every 2 ms, for the time that one of them waits.
const PACED: u32 = 2_500;
const PACE: Duration = Duration::from_millis(2);

/// Of this process, all threads, from the clock of Linux: 100 ticks a second.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let ticks = fields.split(' ').skip(11).take(2);
    let ticks: u64 = ticks.filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(10 * ticks)
}

struct Clock {
    begin: Instant,
    cpu: Duration,
}

impl Clock {
    fn start() -> Clock {
        Clock {
            begin: Instant::now(),
            cpu: cpu(),
        }
    }

    fn tell(&self, what: &str) {
        let seconds = self.begin.elapsed().as_secs_f64();
        let each = (cpu() - self.cpu).as_secs_f64() * 1e6 / EVENTS as f64;
        println!(
            "{what}: {:.0} events/s, {each:.1} µs of a core each in this process",
            EVENTS as f64 / seconds
        );
    }
}

#[tokio::main]
async fn main() {
    let kafka = Kafka::start();
    make_topics(&kafka).await;
    let settings = Settings::new(&kafka.brokers(), []).expect("good settings");
    let limits = Limits {
        waiting_bytes_max: 16 << 20,
        record_bytes_max: 1 << 20,
        time: Duration::from_secs(60),
    };
    let outlet = Outlet::new(&settings, "events", limits).expect("an outlet");
    outwards(&outlet).await;
    paced(&outlet).await;
    println!("{:?}", outlet.figures());
    inwards(&settings);
}

async fn make_topics(kafka: &Kafka) {
    let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
        .set("bootstrap.servers", kafka.brokers())
        .create()
        .expect("a client");
    let topics = ["events", "dead"].map(|name| NewTopic::new(name, 4, TopicReplication::Fixed(1)));
    let made = admin.create_topics(&topics, &AdminOptions::new()).await;
    made.expect("topics");
}

fn event<'a>(user: &'a str, body: &'a [u8]) -> Event<'a> {
    Event {
        moment: Moment::Message,
        socket: "lv_VI97HAXpY6yYWAAAB",
        user: Some(user),
        room: Some("doc:7"),
        inner: None,
        // The same records are read as commands afterwards.
        operator: Some(Operator::User),
        auth: Some("jwt"),
        trace: Some("4bf92f3577b34da6a3ce929d0e0e4736"),
        namespace: "/",
        name: Some("say"),
        sequence: Some(1),
        encoding: Encoding::Json,
        attachments: None,
        key: Key::User,
        body,
    }
}

async fn outwards(outlet: &Outlet) {
    let body = [b'x'; 128];
    let users: Vec<String> = (0..1_000).map(|n| format!("user-{n}")).collect();
    let clock = Clock::start();
    for user in users.iter().cycle().take(EVENTS as usize) {
        while let Err(fault) = outlet.send(&event(user, &body)) {
            assert_eq!(fault.kind(), Kind::Full, "{fault}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    while outlet.figures().waiting > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    clock.tell("out");
}

async fn paced(outlet: &Outlet) {
    let mut times = Vec::new();
    for _ in 0..PACED {
        let begin = Instant::now();
        let delivery = outlet.send(&event("ann", b"[\"say\"]")).expect("room");
        delivery.answer().await.expect("Kafka has it");
        times.push(begin.elapsed());
        tokio::time::sleep(PACE.saturating_sub(begin.elapsed())).await;
    }
    times.sort_unstable();
    let at = |share: usize| times[times.len() * share / 100].as_secs_f64() * 1e3;
    println!(
        "acknowledged after, one at a time: p50 {:.1} ms, p99 {:.1} ms",
        at(50),
        at(99)
    );
}

fn inwards(settings: &Settings) {
    let topic = Topic::new("events", vec!["/".to_owned()], Operator::ALL.to_vec());
    let reading = Reading {
        group: "pace".to_owned(),
        topics: vec![topic.expect("a name")],
        dead_letters: Some("dead".to_owned()),
        value_bytes_max: 1 << 20,
    };
    let bytes = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&bytes);
    let clock = Clock::start();
    let inlet = Inlet::start(
        settings,
        reading,
        move |_: Place<'_>, command: Command<'_>| {
            counted.fetch_add(command.of.namespace.len() as u64, Ordering::Relaxed);
            // As it is with shards: the next ones are read meanwhile.
            Ok(Handed::UnderWay(Box::new(|| true)))
        },
    );
    let inlet = inlet.expect("it reads");
    while bytes.load(Ordering::Relaxed) < EVENTS {
        std::thread::sleep(Duration::from_millis(1));
    }
    clock.tell("in, with joining the group");
    println!("{:?}", inlet.figures());
    inlet.stop();
}
