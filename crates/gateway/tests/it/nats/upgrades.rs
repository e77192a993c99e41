//! A new process takes over while clients speak to NATS and programs speak from there.

use super::{HANDED, Program, STREAM, comes, config, header, listens, soon, text};
use crate::harness::Stop;
use crate::upgrade::chain::Chain;
use ::client::full::SocketIo;
use futures_util::TryStreamExt;
use serde_json::{Value, json};
use servers::Nats;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

const CLIENTS: u64 = 4;
const UPGRADES: usize = 3;
const PAUSE: Duration = Duration::from_millis(700);
const BROADCAST: [(&str, &str); 1] = [("X-Operator", "broadcast")];
const OUT: &str = "mode = \"jetstream\"\nkey = \"socket\"\nack = \"nats\"";

/// Speaks and waits for the stream each time, until it is told to end; what it heard, in order.
fn speak(mut client: SocketIo, ends: &AtomicBool) -> (String, u64, Vec<u64>) {
    let (id, mut said) = (client.id.clone(), 0);
    while !ends.load(Ordering::Acquire) {
        assert!(client.ask("order", &[json!({ "n": said })]).is_empty());
        said += 1;
    }
    let events = client.until("last").into_iter();
    let told = events.filter(|event| event.name == "told");
    let told = told.map(|event| event.args[0].as_u64().expect("a number"));
    (id, said, told.collect())
}

/// Each event is stored once, with the next number of its socket, and each command is carried out once, in order.
#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn nothing_is_lost_or_comes_twice_while_processes_change() {
    let nats = Nats::start();
    let program = Program::with_streams(&nats);
    let mut chain = Chain::start(&config(&nats.url(), OUT, STREAM, ""));
    listens(&chain.first, &program);
    let ends = AtomicBool::new(false);
    let clients: Vec<SocketIo> = (0..CLIENTS).map(|_| comes(&chain.first, "")).collect();
    let (accounts, commands) = scope(|scope| {
        let _stop = Stop(&ends);
        let ends = &ends;
        let speakers = clients.into_iter();
        let speakers = speakers.map(|client| scope.spawn(move || speak(client, ends)));
        let speakers: Vec<_> = speakers.collect();
        let program = &program;
        let teller = scope.spawn(move || {
            let mut n = 0_u64;
            while !ends.load(Ordering::Acquire) {
                program.publish("commands", &BROADCAST, &format!("[\"told\",{n}]"));
                n += 1;
                sleep(Duration::from_millis(2));
            }
            program.say(&BROADCAST, "[\"last\"]");
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
    for message in program.read("EVENTS", all as usize) {
        let sequence = header(&message, "X-Sockeye-Sequence").expect("a number");
        let said: Value = serde_json::from_str(&text(&message)).expect("JSON");
        let n = said[1]["n"].as_u64().expect("a number");
        let id = header(&message, "X-ID").expect("an id");
        let row = (sequence.parse().expect("a number"), n);
        written.entry(id).or_default().push(row);
    }
    for (id, said, told) in accounts {
        let expected: Vec<(u64, u64)> = (0..said).map(|n| (n + 1, n)).collect();
        let found = written.get(&id);
        assert!(found == Some(&expected), "{id}: {found:?}");
        let first = told.first().copied().unwrap_or_default();
        assert_eq!(told, (first..commands).collect::<Vec<u64>>());
    }
}

/// Between two processes nobody would hear what core NATS says once.
#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn commands_without_a_stream_keep_the_process() {
    let nats = Nats::start();
    let program = Program::new(&nats);
    let mut chain = Chain::start(&config(&nats.url(), "", "", ""));
    let refused = chain.failing_upgrade(&["--dry-run"]);
    assert!(refused.contains("[nats.in] without a stream"), "{refused}");
    listens(&chain.first, &program);
}

/// A connection broke behind a command: nobody knows whether the server has its acknowledgement, and the next process would not know the
/// command.
#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn acknowledgements_that_may_be_lost_keep_the_process() {
    let mut nats = Nats::start();
    let program = Program::with_streams(&nats);
    let mut chain = Chain::start(&config(&nats.url(), "", STREAM, ""));
    listens(&chain.first, &program);
    let mut client = comes(&chain.first, "");
    program.say(&BROADCAST, "[\"told\",0]");
    assert_eq!(client.expect("told"), [json!(0)]);
    nats.kill();
    nats.restart();
    let refused = chain.failing_upgrade(&[]);
    assert!(refused.contains("NATS"), "{refused}");
    let before = chain.first.metric(HANDED);
    let mut said = 0;
    soon("commands are read again", || {
        said += 1;
        program.say(&BROADCAST, &format!("[\"told\",{said}]"));
        chain.first.metric(HANDED) > before
    });
    program.say(&BROADCAST, "[\"last\"]");
    // What this program said while its own connection was away may be lost.
    let told = client.until("last").into_iter();
    let told = told.filter(|event| event.name == "told");
    let told: Vec<u64> = told.filter_map(|event| event.args[0].as_u64()).collect();
    let is_once = told.is_sorted_by(|a, b| a < b) && !told.contains(&0);
    assert!(is_once && !told.is_empty(), "{told:?}");
}

/// Somebody deletes the consumer: the next one reads the stream from its beginning, and another process carried that out.
#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn what_the_process_before_carried_out_is_left_out() {
    const BEFORE: u64 = 3;
    const REPEATS: &str = "sockeye_cluster_repeats_total";
    let nats = Nats::start();
    let program = Program::with_streams(&nats);
    let mut chain = Chain::start(&config(&nats.url(), "", STREAM, ""));
    // So many that both shards have some, and are asked.
    let mut clients: Vec<_> = (0..24).map(|_| comes(&chain.first, "")).collect();
    for n in 0..BEFORE {
        program.say(&BROADCAST, &format!("[\"told\",{n}]"));
        for client in &mut clients {
            assert_eq!(client.expect("told"), [json!(n)]);
        }
    }
    chain.upgrade();
    program.runtime.block_on(async {
        let stream = program.streams().get_stream("COMMANDS").await;
        let stream = stream.expect("the stream");
        let names: Vec<String> = stream.consumer_names().try_collect().await.expect("names");
        assert_eq!(names.len(), 1);
        stream.delete_consumer(&names[0]).await.expect("it goes");
    });
    soon("all is read again", || {
        chain.first.metric(HANDED) >= BEFORE as f64
    });
    program.say(&BROADCAST, "[\"last\"]");
    for client in &mut clients {
        let told = client.until("last");
        assert!(!told.iter().any(|event| event.name == "told"), "{told:?}");
    }
    // Each shard counts what it leaves out.
    let of_both = 2.0 * BEFORE as f64;
    assert_eq!(chain.first.reaches(REPEATS, of_both), of_both);
}
