//! Nodes of a cluster: the others do not see that a process changed. Nothing between nodes is lost, comes twice or in another order.

use super::chain::{Chain, ends, signal, started};
use crate::cluster::questions::{api, post, post_with};
use crate::cluster::relay::know_addresses;
use crate::faults::traffic::Traffic;
use crate::harness::{Alone, Gateway, PATIENCE, RawConn};
use client::brief::{Poller, poll_request, post_request};
use client::full::SocketIo;
use rustix::process::Signal;
use serde_json::json;
use servers::{Nats, Redis};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(700);
/// The last word that is said to those who poll.
const LAST: u64 = 399;

fn config(redis: &Redis, more: &str) -> String {
    format!(
        "profile = \"socket.io\"\n[server]\nshards = 2\n[cluster]\nadapter = \"redis\"\nurls = [{:?}]\nsecret = \"s\"\n{more}",
        redis.url()
    )
}

fn loaded(redis: &Redis) -> String {
    format!(
        "profile = \"plain\"\n[server]\nshards = 2\n[admission]\nturn_max = \"0s\"\n[limits]\noutbox_bytes_max = \"64MiB\"\n\
         [cluster]\nadapter = \"redis\"\nurls = [{:?}]\nsecret = \"s\"\njoin_wait = \"5s\"\n",
        redis.url()
    )
}

fn chains<const N: usize>(config: &str) -> [Chain; N] {
    let chains = std::array::from_fn(|_| Chain::start(config));
    let others = N as f64 - 1.0;
    for chain in &chains {
        let peers = |peers| peers == others;
        let settled = chain.first.metric_settles("sockeye_cluster_peers", peers);
        assert_eq!(settled, Ok(others));
    }
    chains
}

fn member(chain: &Chain, room: &str) -> SocketIo {
    let mut client = SocketIo::websocket(chain.first.addr, "/", json!({}));
    assert_eq!(client.ask("join", &[json!(room)]), [json!([room])]);
    client
}

/// What one says the other hears next, in both directions.
fn talk(clients: &mut [SocketIo; 2], word: u64) {
    for at in [0, 1] {
        clients[at].emit("word", &[json!(word)]);
        assert_eq!(clients[1 - at].expect("word"), [json!(word)]);
    }
}

/// No node has seen another one go or lost a letter.
fn nobody_went(chains: &[Chain]) {
    for chain in chains {
        let log = chain.first.log();
        let went = log.iter().find(|line| line.contains("a node went"));
        assert_eq!(went, None);
        assert_eq!(chain.first.metric("sockeye_cluster_lost_total"), 0.0);
        assert_eq!(chain.first.metric("sockeye_cluster_resyncs_total"), 0.0);
    }
}

/// Three nodes, each upgraded twice, while 5,000 messages a second go between them.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn nodes_are_upgraded_one_after_the_other_under_load() {
    let _alone = Alone::wait();
    let redis = Redis::start();
    let mut chains: [Chain; 3] = chains(&loaded(&redis));
    let traffic = Traffic::at(chains.each_ref().map(|chain| chain.first.addr), 1);
    sleep(2 * PAUSE);
    for round in 0..2 {
        for (at, chain) in chains.iter_mut().enumerate() {
            let (text, took) = chain.upgrade();
            let last = text.lines().last().unwrap_or_default();
            println!("round {round}, node {at}: {took:?}; {last}");
            sleep(PAUSE);
        }
    }
    let came = traffic.end();
    println!("{came:?}");
    assert_eq!((came.lost, came.duplicated, came.reordered), (0, 0, 0));
    assert!(came.came > came.sent);
    nobody_went(&chains);
}

/// Redis is killed and comes back empty at the moment of upgrades: those that fail change nothing.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn redis_that_restarts_in_the_middle_loses_nothing() {
    let _alone = Alone::wait();
    let mut redis = Redis::start();
    let mut chains: [Chain; 3] = chains(&loaded(&redis));
    let traffic = Traffic::at(chains.each_ref().map(|chain| chain.first.addr), 2);
    sleep(2 * PAUSE);
    for delay_ms in [0, 60, 120, 200] {
        let chain = &mut chains[0];
        let mut command = chain.command(&[]);
        let child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let child = child.expect("sockeye upgrade");
        sleep(Duration::from_millis(delay_ms));
        redis.kill();
        sleep(Duration::from_millis(300));
        redis.restart();
        let output = child.wait_with_output().expect("its end");
        let text = super::chain::said(&output);
        println!(
            "after {delay_ms} ms: {}",
            text.lines().last().unwrap_or_default()
        );
        if let Some(pid) = started(&text) {
            chain.note_successor(pid);
        }
        sleep(2 * PAUSE);
    }
    let up = |up| up == 1.0;
    assert_eq!(
        chains[0].first.metric_settles("sockeye_cluster_up", up),
        Ok(1.0)
    );
    chains[0].upgrade();
    let came = traffic.end();
    println!("{came:?}");
    assert_eq!((came.lost, came.duplicated, came.reordered), (0, 0, 0));
}

/// While Redis is away the command says so, and the process goes on.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn without_redis_nothing_is_handed_over() {
    let mut redis = Redis::start();
    let mut chains: [Chain; 2] = chains(&config(&redis, ""));
    let mut clients = [member(&chains[0], "r"), member(&chains[1], "r")];
    talk(&mut clients, 1);
    redis.kill();
    let down = |up| up == 0.0;
    assert_eq!(
        chains[0].first.metric_settles("sockeye_cluster_up", down),
        Ok(0.0)
    );
    let text = chains[0].failing_upgrade(&[]);
    println!("{text}");
    redis.restart();
    talk(&mut clients, 2);
    chains[0].upgrade();
    talk(&mut clients, 3);
    chains[0].first_ends();
    nobody_went(&chains[1..]);
}

/// The same between nodes that have NATS in the place of Redis.
#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn nodes_at_nats_go_on_too() {
    let nats = Nats::start();
    let mut chains: [Chain; 2] = chains(&format!(
        "profile = \"socket.io\"\n[server]\nshards = 2\n[cluster]\nadapter = \"nats\"\nurls = [{:?}]\nsecret = \"s\"\n",
        nats.url()
    ));
    let mut clients = [member(&chains[0], "r"), member(&chains[1], "r")];
    for word in 0..6 {
        talk(&mut clients, word);
        chains[(word % 2) as usize].upgrade();
    }
    talk(&mut clients, 6);
    nobody_went(&chains);
}

/// A successor that is killed at many moments: either it had taken over, or nothing has changed, here and at the other node.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_successor_that_is_killed_changes_nothing_in_the_cluster() {
    let redis = Redis::start();
    let chains: [Chain; 2] = chains(&config(&redis, ""));
    let mut clients = [member(&chains[0], "r"), member(&chains[1], "r")];
    let mut given_up = 0;
    for delay_ms in (0..400).step_by(8) {
        let upgrade = chains[0].begin_upgrade();
        if upgrade.killed_after(Duration::from_millis(delay_ms)) {
            println!("at {delay_ms} ms it had taken over; {given_up} were given up before");
            break;
        }
        given_up += 1;
        talk(&mut clients, delay_ms);
    }
    assert!(given_up >= 5, "{given_up}");
}

/// It dies in the middle: its successor ends as well, the others see the death of a node, and another process takes its place.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn an_old_process_that_is_killed_in_the_middle_is_a_node_that_died() {
    let redis = Redis::start();
    let text = config(&redis, "");
    let mut chains: [Chain; 2] = chains(&text);
    let mut watcher = member(&chains[1], "r");
    let upgrade = chains[0].begin_upgrade();
    let successor = upgrade.successor;
    sleep(Duration::from_millis(40));
    chains[0].first.kill();
    if upgrade.succeeds() {
        // The last word had been said.
        println!("it had taken over");
        signal(successor, Signal::KILL);
    }
    assert!(ends(successor));
    let alone = |peers| peers == 0.0;
    let settled = chains[1]
        .first
        .metric_settles("sockeye_cluster_peers", alone);
    assert_eq!(settled, Ok(0.0));
    let next = Gateway::start(&text);
    let mut back = SocketIo::websocket(next.addr, "/", json!({}));
    assert_eq!(back.ask("join", &[json!("r")]), [json!(["r"])]);
    back.emit("word", &[json!(1)]);
    assert_eq!(watcher.expect("word"), [json!(1)]);
    chains[1].upgrade();
    back.emit("word", &[json!(2)]);
    assert_eq!(watcher.expect("word"), [json!(2)]);
}

/// Nodes come and go while another one changes its process, again and again: all that are there hear each other.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_that_comes_in_the_middle_is_met() {
    let redis = Redis::start();
    let text = config(&redis, "");
    let mut chains: [Chain; 2] = chains(&text);
    let mut clients = [member(&chains[0], "r"), member(&chains[1], "r")];
    for word in 0..3 {
        let newcomer = text.clone();
        let newcomer = spawn(move || Gateway::start(&newcomer));
        // Newcomers listen for two seconds before they say anything.
        let until = Instant::now() + Duration::from_millis(2_600);
        while Instant::now() < until {
            chains[0].upgrade();
        }
        let mut newcomer = newcomer.join().expect("a node");
        let mut client = SocketIo::websocket(newcomer.addr, "/", json!({}));
        assert_eq!(client.ask("join", &[json!("r")]), [json!(["r"])]);
        client.emit("word", &[json!(word)]);
        for other in &mut clients {
            assert_eq!(other.expect("word"), [json!(word)]);
        }
        talk(&mut clients, 100 + word);
        for _ in [0, 1] {
            assert_eq!(client.expect("word"), [json!(100 + word)]);
        }
        newcomer.terminate();
        assert!(newcomer.exit_status(3 * PATIENCE).is_some());
    }
}

/// Sockets come into rooms all the time: from the answer to its join on, a client hears all that another node says.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn who_joins_in_the_middle_hears_what_other_nodes_say() {
    let redis = Redis::start();
    let mut chains: [Chain; 2] = chains(&config(&redis, &api()));
    let (here, there) = (chains[0].first.addr, chains[1].first.addr);
    let stop = Arc::new(AtomicBool::new(false));
    let joiners = [here, here, there].map(|addr| {
        let stop = Arc::clone(&stop);
        spawn(move || {
            let other = if addr == here { there } else { here };
            let mut speaker = SocketIo::websocket(other, "/", json!({}));
            let mut hearer = SocketIo::websocket(addr, "/", json!({}));
            let mut joined = 0;
            while !stop.load(Ordering::Relaxed) {
                let room = format!("{addr}-{:p}-{joined}", &raw const joined);
                assert_eq!(hearer.ask("join", &[json!(room)]).len(), 1);
                speaker.ask("join", &[json!(room)]);
                speaker.emit("word", &[json!(joined)]);
                // Rooms of before are left behind: each word comes once.
                assert_eq!(hearer.expect("word"), [json!(joined)]);
                hearer.ask("leave", &[json!(room)]);
                speaker.ask("leave", &[json!(room)]);
                joined += 1;
                sleep(Duration::from_millis(2));
            }
            joined
        })
    });
    for _ in 0..4 {
        sleep(PAUSE);
        let (text, _) = chains[0].upgrade();
        println!("{}", text.lines().last().unwrap_or_default());
    }
    sleep(PAUSE);
    stop.store(true, Ordering::Relaxed);
    let joined: u64 = joiners
        .into_iter()
        .map(|one| one.join().expect("a joiner"))
        .sum();
    println!("{joined} joins");
    assert!(joined > 100);
}

/// A program asks all clients through one node; the node of the clients changes its process before they answer.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn answers_to_other_nodes_arrive_after_an_upgrade() {
    let redis = Redis::start();
    let mut chains: [Chain; 2] = chains(&config(&redis, &api()));
    let mut clients: Vec<SocketIo> = (0..5).map(|_| member(&chains[0], "r")).collect();
    // It makes sure that the other node knows of the room.
    let mut other = member(&chains[1], "r");
    let asked = json!({"event": "ask", "rooms": ["r"], "args": [1], "ack": {"timeout_ms": 8_000}});
    let (status, body) = std::thread::scope(|scope| {
        let [own, others] = &mut chains;
        let asker = &others.first;
        let asking = scope.spawn(move || post(asker, "/v1/emit", &asked));
        let all = clients.iter_mut().chain([&mut other]);
        let ids: Vec<u64> = all
            .map(|client| client.next_named("ask").ack.expect("an ack is wanted"))
            .collect();
        own.upgrade();
        let all = clients.iter_mut().chain([&mut other]);
        for (client, id) in all.zip(ids) {
            client.answer(id, &[json!("yes")]);
        }
        asking.join().expect("an answer")
    });
    assert_eq!(
        (status, &body["acked"], &body["complete"]),
        (200, &json!(6), &json!(true)),
        "{body}"
    );
}

/// A session that polls comes by another node, which relays it: it goes on through upgrades of its own node, and of the other one.
fn polls_by_way_of_another_node_go_on(relay_tls: bool) {
    let redis = Redis::start();
    let mut chains: [Chain; 2] = chains(&config(&redis, &format!("relay_tls = {relay_tls}\n")));
    know_addresses(&chains.each_ref().map(|chain| &chain.first));
    let session = Poller::connect(chains[0].first.addr);
    let (sid, by) = (session.sid.clone(), chains[1].first.addr);
    let post = move |sid: &str, body: &str| {
        let posted = RawConn::exchange(by, post_request(sid, body));
        assert_eq!(posted.status, 200, "{posted:?}");
    };
    post(&sid, r#"421["join","r"]"#);
    let mut speaker = member(&chains[1], "r");
    let hearer = spawn(move || {
        let mut heard = Vec::new();
        while heard.last() != Some(&LAST) {
            let polled = RawConn::exchange(by, poll_request(&sid));
            assert_eq!(polled.status, 200, "{polled:?}, after {heard:?}");
            for packet in polled.body.split('\u{1e}') {
                if packet == "2" {
                    post(&sid, "3");
                }
                if let Some(word) = packet.strip_prefix("42[\"word\",") {
                    let word = word.trim_end_matches(']').parse::<u64>();
                    heard.push(word.expect("a number"));
                }
            }
        }
        heard
    });
    for word in 0..=LAST {
        speaker.emit("word", &[json!(word)]);
        sleep(Duration::from_millis(10));
        match word {
            50 | 120 | 190 => drop(chains[0].upgrade()),
            260 | 330 => drop(chains[1].upgrade()),
            _ => {}
        }
    }
    let heard = hearer.join().expect("the hearer");
    assert_eq!(heard, (0..=LAST).collect::<Vec<u64>>());
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn polls_that_are_relayed_in_the_clear_go_on() {
    polls_by_way_of_another_node_go_on(false);
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn polls_that_are_relayed_encrypted_go_on() {
    polls_by_way_of_another_node_go_on(true);
}

/// A call that the process before had begun is not carried out again by the next one.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_call_under_a_key_is_not_repeated_by_the_next_process() {
    let redis = Redis::start();
    let mut chains: [Chain; 2] = chains(&config(&redis, &api()));
    let mut hearer = member(&chains[1], "r");
    let _here = member(&chains[0], "r");
    let admin = chains[0].first.admin;
    let ask = move || {
        let body = json!({"event": "q", "rooms": ["r"], "ack": {"timeout_ms": 6_000}});
        let key = "Idempotency-Key: once\r\n";
        spawn(move || post_with(admin, "/v1/emit", key, &body))
    };
    // The caller may be cut off.
    let _first = ask();
    let question = hearer.next_named("q").ack.expect("an ack is wanted");
    chains[0].upgrade();
    let _again = ask();
    sleep(Duration::from_millis(1_500));
    hearer.answer(question, &[json!("yes")]);
    let (status, body) = post(
        &chains[1].first,
        "/v1/emit",
        &json!({"event": "last", "rooms": ["r"]}),
    );
    assert!(status < 300, "{body}");
    assert_eq!(hearer.next().name, "last");
}
