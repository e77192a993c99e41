//! Events out: headers, order, and brokers in trouble.

use crate::{
    Program, broadcast, event, header, limits, make_topics, read, runtime, settings, topics,
};
use kafka::{Encoding, Event, Key, Kind, Limits, Moment, Operator, Outlet};
use rdkafka::message::{Message, OwnedMessage};
use servers::Kafka;
use std::collections::HashMap;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);

/// Numbers in the bodies, by key.
fn by_key(messages: &[OwnedMessage]) -> HashMap<String, Vec<u64>> {
    let mut all: HashMap<String, Vec<u64>> = HashMap::new();
    for message in messages {
        let key = String::from_utf8_lossy(message.key().expect("a key")).into_owned();
        let body = String::from_utf8_lossy(message.payload().expect("a value")).into_owned();
        all.entry(key)
            .or_default()
            .push(body.parse().expect("a number"));
    }
    all
}

#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn a_record_has_all_headers_and_the_raw_body() {
    let kafka = Kafka::start();
    make_topics(&kafka, &["out"], 4);
    let outlet = Outlet::new(&settings(&kafka), "out", limits(LONG)).expect("an outlet");
    let full = Event {
        moment: Moment::Disconnect,
        socket: "s1",
        user: Some("ann"),
        room: Some("doc:7"),
        inner: Some("leave"),
        operator: Some(Operator::Unicast),
        auth: Some("jwt"),
        trace: Some("4bf92f3577b34da6a3ce929d0e0e4736"),
        namespace: "/chat",
        name: Some("bye"),
        sequence: Some(42),
        encoding: Encoding::Msgpack,
        attachments: Some("1,1"),
        key: Key::Room,
        // No text at all: nobody decodes it.
        body: &[0x92, 0xff, 0x00, 0xc1],
    };
    let written = outlet.send(&full).expect("it is taken");
    let written = runtime().block_on(written.answer()).expect("Kafka has it");
    let all = read(&kafka, "out", 1);
    let [record] = &all[..] else {
        panic!("{} records", all.len())
    };
    assert_eq!(
        (record.partition(), record.offset()),
        (written.partition, written.offset)
    );
    assert_eq!(record.key(), Some(&b"doc:7"[..]));
    assert_eq!(record.payload(), Some(full.body));
    let expected = [
        ("X-ID", "s1"),
        ("X-Uid", "ann"),
        ("X-Guid", "doc:7"),
        ("X-Inner", "leave"),
        ("X-Event", "Disconnect"),
        ("X-Operator", "unicast"),
        ("X-Auth-Type", "jwt"),
        ("X-Trace-ID", "4bf92f3577b34da6a3ce929d0e0e4736"),
        ("X-Sockeye-Namespace", "/chat"),
        ("X-Sockeye-Name", "bye"),
        ("X-Sockeye-Sequence", "42"),
        ("X-Sockeye-Encoding", "msgpack"),
        ("X-Sockeye-Attachments", "1,1"),
    ];
    for (name, value) in expected {
        assert_eq!(header(record, name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(outlet.figures().produced, 1);
    assert_eq!(outlet.figures().waiting_bytes, 0);
}

/// 0 lost, none twice, in order for each key, whoever is killed meanwhile.
#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn order_of_each_key_survives_a_broker_that_is_killed_and_one_that_is_stopped() {
    const KEYS: u64 = 10;
    const EVENTS: u64 = 3_000;
    let mut kafka = Kafka::start();
    make_topics(&kafka, &["out"], 4);
    let outlet = Outlet::new(&settings(&kafka), "out", limits(LONG)).expect("an outlet");
    let sender = std::thread::spawn({
        let outlet = outlet.clone();
        move || {
            let send = |n: u64| {
                std::thread::sleep(Duration::from_millis(5));
                let (user, body) = (format!("user-{}", n % KEYS), n.to_string());
                outlet
                    .send(&event(&user, body.as_bytes()))
                    .expect("there is room")
            };
            (0..EVENTS).map(send).collect::<Vec<_>>()
        }
    });
    std::thread::sleep(Duration::from_secs(2));
    kafka.kill();
    std::thread::sleep(Duration::from_secs(1));
    kafka.restart();
    kafka.stop();
    kafka.restart();
    let deliveries = sender.join().expect("it sends");
    runtime().block_on(async {
        for delivery in deliveries {
            delivery.answer().await.expect("Kafka has it in the end");
        }
    });
    let all = read(&kafka, "out", EVENTS as usize);
    assert_eq!(all.len() as u64, EVENTS);
    for (key, numbers) in by_key(&all) {
        let first = numbers[0];
        let expected: Vec<u64> = (first..EVENTS).step_by(KEYS as usize).collect();
        assert_eq!(numbers, expected, "{key}");
        assert!(first < KEYS, "{key} begins with {first}");
    }
    assert_eq!(outlet.figures().failed, 0);
}

#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn a_broker_that_is_away_at_the_start_costs_bounded_time_and_memory() {
    let mut kafka = Kafka::stopped();
    let narrow = Limits {
        waiting_bytes_max: 4_000,
        record_bytes_max: 2_000,
        time: Duration::from_secs(2),
    };
    let outlet = Outlet::new(&settings(&kafka), "out", narrow).expect("brokers may be away");
    let begin = Instant::now();
    let body = [b'x'; 1_300];
    let first = [(); 2].map(|()| outlet.send(&event("ann", &body)).expect("there is room"));
    let full = outlet.send(&event("ann", &body)).expect_err("no room");
    assert_eq!(full.kind(), Kind::Full, "{full}");
    let large = outlet
        .send(&event("ann", &[b'x'; 2_001]))
        .expect_err("too large");
    assert_eq!(large.kind(), Kind::Refused, "{large}");
    let runtime = runtime();
    for delivery in first {
        let fault = runtime
            .block_on(delivery.answer())
            .expect_err("nobody is there");
        assert_eq!(fault.kind(), Kind::Away, "{fault}");
    }
    assert!(begin.elapsed() < LONG / 2, "{:?}", begin.elapsed());
    let figures = outlet.figures();
    assert_eq!(
        (figures.failed, figures.refused, figures.waiting_bytes),
        (2, 2, 0)
    );
    kafka.restart();
    make_topics(&kafka, &["out"], 1);
    // It finds the broker by itself.
    servers::wait_for("a record is written", || {
        let delivery = outlet.send(&event("ann", b"1")).ok()?;
        runtime.block_on(delivery.answer()).ok()
    });
}

/// A name that was mistyped does not become a topic, also where brokers make topics.
#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn a_topic_that_is_missing_is_not_made() {
    let kafka = Kafka::that_makes_topics();
    let time = Duration::from_secs(3);
    let outlet = Outlet::new(&settings(&kafka), "evnets", limits(time)).expect("an outlet");
    let delivery = outlet.send(&event("ann", b"1")).expect("it is taken");
    let fault = runtime().block_on(delivery.answer());
    let kind = fault.expect_err("there is no such topic").kind();
    assert!(matches!(kind, Kind::Away | Kind::Refused), "{kind:?}");
    // Others make theirs there.
    let program = Program::new(&kafka);
    program.write("wanted", 0, broadcast(), Some(b"1"));
    program.flush();
    let topics = topics(&kafka);
    assert!(topics.contains(&"wanted".to_owned()), "{topics:?}");
    assert!(!topics.contains(&"evnets".to_owned()), "{topics:?}");
}

#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn a_broker_that_stands_still_does_not_keep_anyone_waiting() {
    let kafka = Kafka::start();
    make_topics(&kafka, &["out"], 1);
    let time = Duration::from_secs(2);
    let outlet = Outlet::new(&settings(&kafka), "out", limits(time)).expect("an outlet");
    let runtime = runtime();
    servers::wait_for("a record is written", || {
        let delivery = outlet.send(&event("ann", b"1")).ok()?;
        runtime.block_on(delivery.answer()).ok()
    });
    kafka.freeze();
    let delivery = outlet.send(&event("ann", b"2")).expect("it is taken");
    let fault = runtime.block_on(delivery.answer()).expect_err("no answer");
    assert_eq!(fault.kind(), Kind::Away, "{fault}");
    // At the end, whoever still waits is told.
    let delivery = outlet.send(&event("ann", b"3")).expect("it is taken");
    let left = runtime.block_on(outlet.close(Duration::from_millis(100)));
    assert_eq!(left, 1);
    let fault = runtime
        .block_on(delivery.answer())
        .expect_err("it was given up");
    assert_eq!(fault.kind(), Kind::Closed, "{fault}");
    let fault = outlet.send(&event("ann", b"4")).expect_err("closed");
    assert_eq!(fault.kind(), Kind::Closed, "{fault}");
    kafka.thaw();
}
