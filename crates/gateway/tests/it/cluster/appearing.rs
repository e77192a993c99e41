//! Node servers that come and go while clients speak.

use super::{member, nodes};
use crate::harness::{Gateway, PATIENCE, Stop, eventually};
use ::client::full::SocketIo;
use serde_json::{Value, json};
use servers::{NodePeer, Redis};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const SPEAKERS: [&str; 2] = ["a", "b"];

/// Says numbers until told to stop, then `end`; how many there were.
fn speak(speaker: &mut SocketIo, name: &str, stop: &AtomicBool) -> u64 {
    let mut said = 0;
    while !stop.load(Ordering::Relaxed) {
        let taken = speaker.ask("n", &[json!(name), json!(said)]);
        assert_eq!(taken, Vec::<Value>::new());
        said += 1;
    }
    speaker.emit("end", &[]);
    said
}

/// How many numbers of each speaker were heard, without gaps and in order.
#[derive(Debug, Default)]
struct Heard(BTreeMap<String, Vec<u64>>);

impl Heard {
    fn note(&mut self, args: &[Value]) {
        let (name, number) = (args[0].as_str(), args[1].as_u64());
        let (name, number) = (name.expect("a name"), number.expect("a number"));
        let all = self.0.entry(name.to_owned()).or_default();
        let is_next = all.last().is_none_or(|last| number == last + 1);
        assert!(is_next, "{number} of {name} follows {:?}", all.last());
        all.push(number);
    }

    fn of(&self, name: &str) -> &[u64] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }
}

/// Hears until both speakers have ended.
fn listen(listener: &mut SocketIo) -> Heard {
    let mut heard = Heard::default();
    let mut ends = 0;
    while ends < SPEAKERS.len() {
        let event = listener.next();
        match event.name.as_str() {
            "n" => heard.note(&event.args),
            _ => ends += 1,
        }
    }
    heard
}

/// A Node server appears, its client hears both speakers without a gap, and it ends.
fn come_and_go(redis: &Redis, adapter: &str) {
    let mut peer = NodePeer::start(&redis.url(), adapter, "/");
    peer.call(json!({"do": "client", "name": "n", "rooms": ["room"]}));
    let mut heard = Heard::default();
    let enough = eventually(PATIENCE, || {
        for line in peer.heard_else() {
            heard.note(line["args"].as_array().expect("arguments"));
        }
        SPEAKERS.iter().all(|name| heard.of(name).len() > 100)
    });
    assert!(enough, "{heard:?}");
}

fn nothing_is_lost_while_node_servers_come_and_go(adapter: &str) {
    let redis = Redis::start();
    let gateways: [Gateway; 2] = nodes(&redis);
    let all = || [&gateways[0], &gateways[1]].map(|gateway| member(gateway, "room"));
    let (mut speakers, mut listeners) = (all(), all());
    let stop = AtomicBool::new(false);
    let stop = &stop;
    thread::scope(|scope| {
        let _stop = Stop(stop);
        let speaking = speakers.iter_mut().zip(SPEAKERS);
        let speaking: Vec<_> = speaking
            .map(|(speaker, name)| scope.spawn(move || speak(speaker, name, stop)))
            .collect();
        let listening = listeners.iter_mut();
        let listening: Vec<_> = listening
            .map(|listener| scope.spawn(move || listen(listener)))
            .collect();
        let came = thread::Builder::new();
        let came = came.spawn_scoped(scope, || (0..2).for_each(|_| come_and_go(&redis, adapter)));
        let came = came.expect("a thread").join();
        stop.store(true, Ordering::Relaxed);
        let said = speaking
            .into_iter()
            .map(|one| one.join().expect("a number"));
        let said: Vec<u64> = said.collect();
        for one in listening {
            let heard = one.join().expect("all");
            for (name, said) in SPEAKERS.iter().zip(&said) {
                let expected: Vec<u64> = (0..*said).collect();
                assert_eq!(heard.of(name), expected, "{name}");
            }
        }
        assert!(came.is_ok(), "what the Node server's client heard");
    });
    for gateway in &gateways {
        assert_eq!(gateway.metric("sockeye_cluster_lost_total"), 0.0);
    }
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn nothing_is_lost_or_doubled_while_servers_with_the_classic_adapter_come_and_go() {
    nothing_is_lost_while_node_servers_come_and_go("classic");
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn nothing_is_lost_or_doubled_while_servers_with_the_sharded_adapter_come_and_go() {
    nothing_is_lost_while_node_servers_come_and_go("sharded");
}
