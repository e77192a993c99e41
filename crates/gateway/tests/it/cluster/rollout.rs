//! A rolling update as the chart describes it, with its own numbers: pods are processes, the service is HAProxy, and Kubernetes' steps are played
//! in their order. Clients with recovery miss nothing.

use super::departures::Service;
use super::relay::know_addresses_by;
use super::{all_up, closed};
use crate::e2e::recovery::Client;
use crate::harness::{Alone, Gateway, Stop};
use ::client::full::request;
use serde_json::{Value, json};
use servers::Redis;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

const CLIENTS: usize = 24;
/// The program's key, and its entry: the API of a cluster asks for one.
static KEY: LazyLock<(String, String)> =
    LazyLock::new(|| identity::keys::generate("program", &[]).expect("a key"));
/// Proxies hear of an end later than the pod itself.
const HEARS_LATE: Duration = Duration::from_secs(2);

fn allowed() -> String {
    format!("Authorization: Bearer {}\r\n", KEY.0)
}

/// What the chart says of the end of a pod, and how its configuration drains.
struct Chart {
    pre_stop: Duration,
    grace: Duration,
    drain: [String; 2],
}

impl Chart {
    fn read() -> Self {
        let values = include_str!("../../../../../deploy/helm/sockeye/values.yaml");
        let number = |key: &str| {
            let line = values.lines().find_map(|line| line.strip_prefix(key));
            let number = line.expect(key).trim().parse().expect(key);
            Duration::from_secs(number)
        };
        let config = values
            .split_once("\nconfig: |\n")
            .expect("its configuration")
            .1;
        let lines = config.lines().take_while(|line| line.starts_with("  "));
        let config: String = lines.map(|line| format!("{}\n", line.trim())).collect();
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sockeye.toml");
        std::fs::write(&path, config).expect("write");
        let mut command = Command::new(super::BINARY);
        command
            .args(["config", "show", "--json", "--config"])
            .arg(&path);
        let shown = command.output().expect("sockeye config show").stdout;
        let shown: Value = serde_json::from_slice(&shown).expect("JSON");
        let drain = ["server.drain_window", "server.drain_grace"];
        Self {
            pre_stop: number("preStopSeconds:"),
            grace: number("terminationGracePeriodSeconds:"),
            drain: drain.map(|key| shown[key]["value"].as_str().expect(key).to_owned()),
        }
    }

    /// Of the pod with this number, which is its node's in a StatefulSet.
    fn config(&self, redis: &Redis, level: &str, pod: usize) -> String {
        let [window, grace] = &self.drain;
        let pace =
            format!("shards = 2\nnode = {pod}\ndrain_window = {window:?}\ndrain_grace = {grace:?}");
        let recovers = format!(
            "[admin]\napi_keys = [{:?}]\n[namespaces.\"/\"]\nclient_joins = true\n[namespaces.\"/\".recovery]\nlevel = {level:?}\n\
             [namespaces.\"/\".events.echo]\naction = \"reply\"\n",
            KEY.1
        );
        closed(redis, &recovers).replace("shards = 2", &pace)
    }
}

/// A stock client: sent away, it comes back after half a second to one and a half, to whichever pod the service has.
fn life(addr: SocketAddr, mut client: Client, number: usize, over: &AtomicBool) -> Life {
    let sid = client.sid.clone();
    let mut life = Life::default();
    while client.listens(&mut life.heard, over) {
        let number = (number * 7 + life.returns * 5) % CLIENTS;
        std::thread::sleep(Duration::from_millis(
            500 + 1_000 * number as u64 / CLIENTS as u64,
        ));
        client = Client::through(addr, client.lose());
        life.returns += 1;
        life.new += usize::from(client.sid != sid);
    }
    life.heard.extend(client.hears());
    life
}

#[derive(Default)]
struct Life {
    heard: Vec<u64>,
    returns: usize,
    /// So often it was told that it is new.
    new: usize,
}

/// A program that speaks all the time, by a pod that nobody is about to stop.
fn speaks(admin: &Mutex<SocketAddr>, said: &AtomicU64, over: &AtomicBool) {
    while !over.load(Ordering::Acquire) {
        let n = said.fetch_add(1, Ordering::AcqRel);
        let body = json!({ "event": "say", "rooms": ["room"], "args": [{ "n": n }] });
        let admin = *admin.lock().expect("an address");
        let headers = format!("Content-Type: application/json\r\n{}", allowed());
        let answer = request(admin, "POST", "/v1/emit", &headers, &body.to_string());
        assert_eq!(answer.status, 202, "{answer:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn a_rolling_update(level: &str, count: usize) {
    let _alone = Alone::or_with_a_quiet_one();
    let (redis, chart) = (Redis::start(), Chart::read());
    let start = |pod: usize| Gateway::start(&chart.config(&redis, level, pod + 1));
    let mut pods: Vec<Gateway> = (0..count).map(start).collect();
    all_up(&pods);
    know_addresses_by(&pods.iter().collect::<Vec<_>>(), &allowed());
    let service = Service::start(count);
    (0..)
        .zip(&pods)
        .for_each(|(pod, node)| service.add(pod, node.addr));
    let addr = service.addr();
    let mut clients: Vec<Client> = (0..CLIENTS)
        .map(|_| Client::through(addr, json!({})))
        .collect();
    clients.iter_mut().for_each(|client| client.join("room"));
    let (over, silent, said) = (
        AtomicBool::new(false),
        AtomicBool::new(false),
        AtomicU64::new(0),
    );
    let admin = Mutex::new(pods[0].admin);
    let lives: Vec<Life> = std::thread::scope(|scope| {
        let _ends = (Stop(&over), Stop(&silent));
        let (over, silent, said, admin) = (&over, &silent, &said, &admin);
        let lives = clients.drain(..).enumerate();
        let lives = lives.map(|(n, client)| scope.spawn(move || life(addr, client, n, over)));
        let lives: Vec<_> = lives.collect();
        let program = scope.spawn(move || speaks(admin, said, silent));
        // The pod with the highest number first, each when the one before is ready.
        for pod in (0..count).rev() {
            *admin.lock().expect("an address") = pods[(pod + 1) % count].admin;
            std::thread::sleep(HEARS_LATE);
            service.remove(pod);
            std::thread::sleep(chart.pre_stop.saturating_sub(HEARS_LATE));
            pods[pod].terminate();
            let left = chart.grace.saturating_sub(chart.pre_stop);
            let status = pods[pod].exit_status(left).expect("within its grace");
            assert_eq!(status.code(), Some(0));
            pods[pod] = start(pod);
            all_up(&pods);
            know_addresses_by(&pods.iter().collect::<Vec<_>>(), &allowed());
            service.add(pod, pods[pod].addr);
        }
        // Those who were sent away last come back.
        std::thread::sleep(Duration::from_secs(2));
        silent.store(true, Ordering::Release);
        program.join().expect("a program");
        // What it said last is on its way.
        std::thread::sleep(HEARS_LATE);
        over.store(true, Ordering::Release);
        let lives = lives.into_iter().map(|life| life.join().expect("a life"));
        lives.collect()
    });
    let all: Vec<u64> = (0..said.load(Ordering::Acquire)).collect();
    assert!(all.len() > 200, "{}", all.len());
    let returns: usize = lives.iter().map(|life| life.returns).sum();
    println!(
        "{} events, {returns} returns of {CLIENTS} clients",
        all.len()
    );
    assert!(returns >= CLIENTS, "{returns}");
    for (number, life) in lives.iter().enumerate() {
        assert_eq!((life.new, &life.heard), (0, &all), "client {number}");
    }
}

#[test]
#[ignore = "needs HAProxy: cargo xtask test foreign"]
fn a_rolling_update_with_the_charts_numbers_loses_nothing() {
    a_rolling_update("node", 3);
}

#[test]
#[ignore = "needs HAProxy: cargo xtask test foreign"]
fn a_rolling_update_with_streams_loses_nothing() {
    a_rolling_update("cluster", 2);
}
