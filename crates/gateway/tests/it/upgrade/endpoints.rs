//! A backend that is called: calls that are under way end before another process goes on, and what waits for a call goes over.

use super::chain::Chain;
use crate::backend::receiver::{Receiver, Reply, Told};
use crate::harness::{PATIENCE, Stop, eventually};
use client::full::SocketIo;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

const CLIENTS: u64 = 6;
const UPGRADES: usize = 3;
const PAUSE: Duration = Duration::from_millis(500);
/// The endpoint thinks about each call.
const WORK: Duration = Duration::from_millis(8);

fn start(addr: SocketAddr) -> Chain {
    Chain::start(&format!(
        "profile = \"socket.io\"\n[server]\nshards = 2\n[namespaces.\"/\"]\nbackend = \"shop\"\n\
         [backends.shop]\nurl = \"http://{addr}/hook\"\nprivate_addresses = true\nretry_min = \"100ms\"\ncall_timeout = \"10s\"\n"
    ))
}

fn answer(told: &Told) -> Reply {
    sleep(WORK);
    let events = told.events();
    match &events[0]["event"] {
        Value::String(name) if name == "ask" => Reply::json(&json!({"commands": [
            {"ack": {"args": events[0]["args"]}},
        ]})),
        _ => Reply::empty(),
    }
}

fn client(addr: SocketAddr) -> SocketIo {
    SocketIo::websocket(addr, "/", json!({}))
}

/// Asks and tells in turn, until it is told to end: how often.
fn speak(mut client: SocketIo, ends: &AtomicBool) -> (String, u64) {
    let mut n = 0;
    while !ends.load(Ordering::Acquire) {
        assert_eq!(client.ask("ask", &[json!(n)]), [json!(n)]);
        client.emit("tell", &[json!(n + 1)]);
        n += 2;
    }
    (client.id.clone(), n)
}

/// Each event reaches the endpoint once, in its order and with the next number, and each question is answered.
#[test]
fn each_event_is_told_once_while_processes_change() {
    let receiver = Receiver::open(answer);
    let mut chain = start(receiver.addr);
    let ends = AtomicBool::new(false);
    let clients: Vec<SocketIo> = (0..CLIENTS).map(|_| client(chain.first.addr)).collect();
    let accounts: Vec<(String, u64)> = scope(|scope| {
        let _stop = Stop(&ends);
        let ends = &ends;
        let speakers = clients.into_iter();
        let speakers = speakers.map(|client| scope.spawn(move || speak(client, ends)));
        let speakers: Vec<_> = speakers.collect();
        sleep(PAUSE);
        for _ in 0..UPGRADES {
            let (said, took) = chain.upgrade();
            println!("{took:?}; {}", said.lines().last().unwrap_or_default());
            sleep(PAUSE);
        }
        ends.store(true, Ordering::Release);
        let accounts = speakers
            .into_iter()
            .map(|one| one.join().expect("it speaks"));
        accounts.collect()
    });
    // Their ends come last.
    let ended = || {
        let events = receiver.events();
        let ends = events
            .iter()
            .filter(|event| event["type"] == "disconnected");
        ends.count() as u64 == CLIENTS
    };
    assert!(eventually(PATIENCE, ended));
    let mut told: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for event in receiver.events() {
        assert_eq!(event["redelivered"], Value::Null, "{event}");
        let socket = event["socket"].as_str().expect("an id").to_owned();
        told.entry(socket).or_default().push(event);
    }
    println!("{accounts:?}");
    for (id, said) in accounts {
        let own = &told[&id];
        let numbers = own.iter().map(|event| event["sequence"].as_u64());
        let expected = (1..=said + 2).map(Some);
        assert!(numbers.eq(expected), "{id}: {own:?}");
        let args = own.iter().filter(|event| event["type"] == "event");
        let args = args.map(|event| event["args"][0].as_u64());
        assert!(args.eq((0..said).map(Some)), "{id}: {own:?}");
    }
}

/// While the endpoint fails, events wait, and wait on in the next process: none is lost and none is told twice.
#[test]
fn what_waits_for_an_endpoint_that_fails_goes_over() {
    let fails = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&fails);
    let receiver = Receiver::open(move |told| match flag.load(Ordering::Acquire) {
        true => Reply(503, "", String::new()),
        false => answer(told),
    });
    let mut chain = start(receiver.addr);
    let mut client = client(chain.first.addr);
    assert_eq!(client.ask("ask", &[json!(0)]), [json!(0)]);
    fails.store(true, Ordering::Release);
    let before = receiver.told().len();
    client.ask_later("ask", &[json!(1)]);
    client.emit("tell", &[json!(2)]);
    assert!(eventually(PATIENCE, || receiver.told().len() > before));
    chain.upgrade();
    fails.store(false, Ordering::Release);
    assert_eq!(client.ack(), [json!(1)]);
    assert_eq!(client.ask("ask", &[json!(3)]), [json!(3)]);
    let events = receiver.events().into_iter();
    let told = events.filter(|event| event["args"][0] == 2);
    assert_eq!(told.count(), 1, "it was behind the first all the time");
    chain.first_ends();
}

/// A call that takes longer than an upgrade waits for: the process goes on, and the call ends as it would have.
#[test]
fn a_call_that_takes_long_keeps_the_process() {
    let began = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&began);
    let receiver = Receiver::open(move |told| {
        if told.events()[0]["event"] == "slow" {
            flag.store(true, Ordering::Release);
            sleep(Duration::from_secs(8));
        }
        answer(told)
    });
    let mut chain = start(receiver.addr);
    let mut client = client(chain.first.addr);
    client.ask_later("slow", &[]);
    assert!(eventually(PATIENCE, || began.load(Ordering::Acquire)));
    let refused = chain.failing_upgrade(&[]);
    assert!(refused.contains("calls of endpoints"), "{refused}");
    assert!(client.ack().is_empty());
    assert_eq!(client.ask("ask", &[json!(1)]), [json!(1)]);
    chain.upgrade();
    assert_eq!(client.ask("ask", &[json!(2)]), [json!(2)]);
}
