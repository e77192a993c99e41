//! A new process takes over while clients speak to Kafka and programs speak from there.

use super::{Program, broker, comes, config, header, read, soon, text};
use crate::harness::Stop;
use crate::upgrade::chain::Chain;
use ::client::full::SocketIo;
use serde_json::{Value, json};
use servers::Kafka;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

const CLIENTS: u64 = 4;
const UPGRADES: usize = 3;
const PAUSE: Duration = Duration::from_millis(700);

fn start(kafka: &Kafka) -> Chain {
    Chain::start(&config(
        &kafka.brokers(),
        "key = \"socket\"\nack = \"kafka\"",
        "",
    ))
}

/// Speaks and waits for Kafka each time, until it is told to end; what it heard, in order.
fn speak(mut client: SocketIo, ends: &AtomicBool, last: &str) -> (String, u64, Vec<u64>) {
    let (id, mut said) = (client.id.clone(), 0);
    while !ends.load(Ordering::Acquire) {
        assert!(client.ask("order", &[json!({ "n": said })]).is_empty());
        said += 1;
    }
    let events = client.until(last).into_iter();
    let told = events.filter(|event| event.name == "told");
    let told = told.map(|event| event.args[0].as_u64().expect("a number"));
    (id, said, told.collect())
}

/// Each event is written once, with the next number of its socket, and each command is carried out once, in order.
#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn nothing_is_lost_or_comes_twice_while_processes_change() {
    let kafka = broker(1);
    let mut chain = start(&kafka);
    let program = Program::new(&kafka);
    let ends = AtomicBool::new(false);
    let broadcast = [("X-Operator", "broadcast")];
    let clients: Vec<SocketIo> = (0..CLIENTS).map(|_| comes(&chain.first, "")).collect();
    let (accounts, commands) = scope(|scope| {
        let _stop = Stop(&ends);
        let ends = &ends;
        let speakers = clients.into_iter();
        let speakers = speakers.map(|client| scope.spawn(move || speak(client, ends, "last")));
        let speakers: Vec<_> = speakers.collect();
        let teller = scope.spawn(|| {
            let mut n = 0_u64;
            while !ends.load(Ordering::Acquire) {
                program.write(0, &broadcast, &format!("[\"told\",{n}]"));
                n += 1;
                sleep(Duration::from_millis(2));
            }
            program.say(&broadcast, "[\"last\"]");
            n
        });
        sleep(PAUSE);
        for _ in 0..UPGRADES {
            let (said, took) = chain.upgrade();
            println!("{took:?}; {}", said.lines().last().unwrap_or_default());
            sleep(PAUSE);
        }
        ends.store(true, Ordering::Release);
        let commands = teller.join().expect("it tells");
        let accounts = speakers
            .into_iter()
            .map(|one| one.join().expect("it speaks"));
        (accounts.collect::<Vec<_>>(), commands)
    });
    let all: u64 = accounts.iter().map(|(_, said, _)| said).sum();
    println!("{all} events out, {commands} commands in");
    let mut written: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
    for record in read(&kafka, "events", all as usize) {
        let number = |text: Option<String>| text.and_then(|text| text.parse().ok());
        let sequence = number(header(&record, "X-Sockeye-Sequence")).expect("a number");
        let said: Value = serde_json::from_str(&text(&record)).expect("JSON");
        let n = said[1]["n"].as_u64().expect("a number");
        let id = header(&record, "X-ID").expect("an id");
        written.entry(id).or_default().push((sequence, n));
    }
    for (id, said, told) in accounts {
        let expected: Vec<(u64, u64)> = (0..said).map(|n| (n + 1, n)).collect();
        assert!(
            written.get(&id) == Some(&expected),
            "{id}: {:?}",
            written.get(&id)
        );
        assert!(said > 0);
        let first = told.first().copied().unwrap_or_default();
        assert_eq!(told, (first..commands).collect::<Vec<u64>>());
    }
}

/// What waits for a Kafka that is away keeps the process; when it is back, another one takes over.
#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn a_broker_that_is_away_keeps_the_process() {
    let kafka = broker(1);
    let mut chain = start(&kafka);
    let mut client = comes(&chain.first, "");
    assert!(client.ask("order", &[json!({ "n": 0 })]).is_empty());
    kafka.freeze();
    client.ask_later("order", &[json!({ "n": 1 })]);
    let refused = chain.failing_upgrade(&[]);
    assert!(refused.contains("Kafka"), "{refused}");
    kafka.thaw();
    assert!(client.ack().is_empty());
    let program = Program::new(&kafka);
    soon("commands are read again", || {
        program.say(&[("X-Operator", "broadcast")], "[\"told\",1]");
        chain
            .first
            .metric("sockeye_kafka_commands_total{outcome=\"handed\"}")
            >= 1.0
    });
    chain.upgrade();
    assert!(client.ask("order", &[json!({ "n": 2 })]).is_empty());
}
