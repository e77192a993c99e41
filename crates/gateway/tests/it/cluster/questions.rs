//! Questions between gateways and Node servers: so many answers are waited for as there are servers.

use super::{member, nodes_with};
use crate::harness::{Gateway, PATIENCE, Stop, eventually};
use ::client::full::{SocketIo, request};
use serde_json::{Value, json};
use servers::{NodePeer, Redis};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// A key that allows everything, and its entry.
pub static KEY: LazyLock<(String, String)> =
    LazyLock::new(|| identity::keys::generate("ops", &[]).expect("a key"));

/// The table that opens the server API.
pub fn api() -> String {
    let key = &KEY.1;
    format!("[admin]\napi_keys = [{key:?}]\napi_rate = \"100000/1s\"\n")
}

/// A call of the server API, and its answer.
pub fn post(gateway: &Gateway, path: &str, body: &Value) -> (u16, Value) {
    post_with(gateway.admin, path, "", body)
}

/// The same with more headers.
pub fn post_with(admin: SocketAddr, path: &str, more: &str, body: &Value) -> (u16, Value) {
    let header = format!("Authorization: Bearer {}\r\n{more}", KEY.0);
    let response = request(admin, "POST", path, &header, &body.to_string());
    let answer = serde_json::from_str(&response.body).unwrap_or_default();
    (response.status, answer)
}

/// Gateways with the server API.
fn gateways<const N: usize>(redis: &Redis) -> [Gateway; N] {
    nodes_with(redis, &api())
}

/// The sockets of a room on all servers: their ids, each once, and whether all servers answered.
fn fetched(gateway: &Gateway, room: &str) -> (BTreeSet<String>, bool) {
    let header = format!("Authorization: Bearer {}\r\n", KEY.0);
    let path = format!("/v1/sockets?room={room}&limit=1000");
    let response = request(gateway.admin, "GET", &path, &header, "");
    assert_eq!(response.status, 200, "{response:?}");
    let list: Value = serde_json::from_str(&response.body).expect("JSON");
    (ids(&list["sockets"]), list["complete"] == json!(true))
}

fn ids(list: &Value) -> BTreeSet<String> {
    let list = list.as_array().expect("a list");
    let id = |socket: &Value| socket["id"].as_str().expect("an id").to_owned();
    let ids: BTreeSet<String> = list.iter().map(id).collect();
    assert_eq!(ids.len(), list.len(), "nobody is in the list twice");
    ids
}

/// Members of a room that stay, on each of two gateways and a Node server.
struct Crowd {
    gateways: [Gateway; 2],
    peer: NodePeer,
    stay: BTreeSet<String>,
    _members: Vec<SocketIo>,
    _redis: Redis,
}

const EACH: usize = 5;

fn crowd(adapter: &str) -> Crowd {
    crowd_with(adapter, &[])
}

/// The Node server has these flags.
fn crowd_with(adapter: &str, flags: &[&str]) -> Crowd {
    let redis = Redis::start();
    let gateways: [Gateway; 2] = gateways(&redis);
    let mut peer = NodePeer::start_with(&redis.url(), adapter, "/", flags);
    let there = (0..EACH).map(|n| {
        let id = peer.call(json!({"do": "client", "name": format!("n{n}"), "rooms": ["r1"]}));
        id.as_str().expect("an id").to_owned()
    });
    let mut stay: BTreeSet<String> = there.collect();
    let members = gateways
        .iter()
        .flat_map(|gateway| (0..EACH).map(move |_| member(gateway, "r1")));
    let members: Vec<SocketIo> = members.collect();
    stay.extend(members.iter().map(|member| member.id.clone()));
    for gateway in &gateways {
        let all = || fetched(gateway, "r1") == (stay.clone(), true);
        assert!(eventually(PATIENCE, all), "{:?}", fetched(gateway, "r1"));
    }
    Crowd {
        gateways,
        peer,
        stay,
        _members: members,
        _redis: redis,
    }
}

/// Clients that join and leave the room until told to stop.
fn restless(gateway: &Gateway, stop: &AtomicBool) {
    let mut client = SocketIo::websocket(gateway.addr, "/", json!({}));
    while !stop.load(Ordering::Relaxed) {
        client.ask("join", &[json!("r1")]);
        client.ask("leave", &[json!("r1")]);
    }
}

const THREADS: usize = 16;
const FETCHES: usize = 32;

/// Twice a list was incomplete on a busy machine: nobody knew why.
fn every_list_is_whole(adapter: &str) {
    let mut crowd = crowd(adapter);
    let stop = AtomicBool::new(false);
    let asked: Vec<u64> = (0..500)
        .map(|_| crowd.peer.begin(json!({"do": "fetch", "to": ["r1"]})))
        .collect();
    let (gateways, stay) = (&crowd.gateways, &crowd.stay);
    thread::scope(|scope| {
        let _stop = Stop(&stop);
        gateways
            .iter()
            .for_each(|gateway| drop(scope.spawn(|| restless(gateway, &stop))));
        let ask = |at: usize| {
            let lists = (0..FETCHES).map(|_| fetched(&gateways[at % 2], "r1"));
            lists
                .filter(|(ids, complete)| !complete || !ids.is_superset(stay))
                .count()
        };
        let asking: Vec<_> = (0..THREADS)
            .map(|at| scope.spawn(move || ask(at)))
            .collect();
        let short: usize = asking
            .into_iter()
            .map(|asking| asking.join().expect("answers"))
            .sum();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(short, 0, "of {}", THREADS * FETCHES);
    });
    for asked in asked {
        let found = ids(&crowd.peer.finish(asked));
        assert!(found.is_superset(&crowd.stay), "{found:?}");
    }
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn lists_of_sockets_were_incomplete_beside_servers_with_the_classic_adapter() {
    every_list_is_whole("classic");
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn lists_of_sockets_were_incomplete_beside_servers_with_the_sharded_adapter() {
    every_list_is_whole("sharded");
}

/// Two Node servers and a gateway with a client each. The answers that are waited for are those of the servers that live.
/// Its answers came to a channel to which nobody listened, and each list was incomplete.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_server_that_answers_in_the_askers_own_channel_was_not_heard() {
    let mut crowd = crowd_with("classic", &["--specific"]);
    for gateway in &crowd.gateways {
        assert_eq!(fetched(gateway, "r1"), (crowd.stay.clone(), true));
    }
    let found = crowd.peer.call(json!({"do": "fetch", "to": ["r1"]}));
    assert_eq!(ids(&found), crowd.stay);
}

fn a_frozen_server_costs_its_timeout(adapter: &str) {
    let redis = Redis::start();
    let [gateway]: [Gateway; 1] = gateways(&redis);
    let mut peers: Vec<NodePeer> = (0..2)
        .map(|_| NodePeer::start(&redis.url(), adapter, "/"))
        .collect();
    let mut all = BTreeSet::new();
    for peer in &mut peers {
        let id = peer.call(json!({"do": "client", "name": "n", "rooms": ["r1"]}));
        all.insert(id.as_str().expect("an id").to_owned());
    }
    let frozen = all.clone();
    let member = member(&gateway, "r1");
    all.insert(member.id.clone());
    let is_whole = |expected: &BTreeSet<String>| {
        let whole = || fetched(&gateway, "r1") == (expected.clone(), true);
        assert!(eventually(PATIENCE, whole), "{:?}", fetched(&gateway, "r1"));
    };
    is_whole(&all);
    let answers = |servers: usize| {
        let ack = json!({"event": "ask", "rooms": ["r1"], "except": [member.id], "ack": {"timeout_ms": 2_000}});
        let (status, answer) = post(&gateway, "/v1/emit", &ack);
        assert_eq!(status, 200, "{answer}");
        assert_eq!(
            answer["answers"].as_array().map(Vec::len),
            Some(servers),
            "{answer}"
        );
        answer["complete"].clone()
    };
    assert_eq!(answers(2), json!(true), "nobody is counted twice");

    peers[1].freeze();
    let (found, complete) = fetched(&gateway, "r1");
    assert!(!complete, "the list says that a server is silent");
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(!found.is_superset(&frozen));
    assert_eq!(answers(1), json!(false));
    peers[1].thaw();
    is_whole(&all);
    assert_eq!(answers(2), json!(true));

    // One that has ended is not waited for.
    let gone = peers.pop().expect("two");
    drop(gone);
    let (mut kept, _) = fetched(&gateway, "r1");
    assert!(eventually(PATIENCE, || {
        let complete;
        (kept, complete) = fetched(&gateway, "r1");
        complete && kept.len() == 2
    }));
    assert_eq!(answers(1), json!(true));
    // Nor does the other Node server wait in vain.
    let asked = json!({"do": "ask", "to": ["r1"], "except": [member.id], "event": "ask", "timeout": 20_000});
    assert_eq!(peers[0].call(asked), json!(["n got ask"]));
    assert_eq!(
        ids(&peers[0].call(json!({"do": "fetch", "to": ["r1"]}))),
        kept
    );
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_frozen_server_with_the_classic_adapter_costs_its_timeout_and_no_answer_of_others() {
    a_frozen_server_costs_its_timeout("classic");
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_frozen_server_with_the_sharded_adapter_costs_its_timeout_and_no_answer_of_others() {
    a_frozen_server_costs_its_timeout("sharded");
}

/// It was one message, however large, and Redis cut off everybody who heard it.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_list_that_was_too_large_for_redis_was_sent_to_node_servers() {
    let redis = Redis::start();
    let more = format!("{}[compat]\nlist_bytes_max = \"4KB\"\n", api());
    let [gateway]: [Gateway; 1] = nodes_with(&redis, &more);
    let _crowd: Vec<SocketIo> = (0..30).map(|_| member(&gateway, "crowd")).collect();
    let few: Vec<SocketIo> = (0..3).map(|_| member(&gateway, "few")).collect();
    for adapter in ["classic", "sharded"] {
        let mut peer = NodePeer::start(&redis.url(), adapter, "/");
        let asked = peer.begin(json!({"do": "fetch", "to": ["crowd"]}));
        let error = peer.fails(asked);
        assert!(error.contains("timeout reached"), "{error}");
        let found = ids(&peer.call(json!({"do": "fetch", "to": ["few"]})));
        assert_eq!(found, few.iter().map(|member| member.id.clone()).collect());
    }
    assert_eq!(gateway.metric("sockeye_foreign_cut_lists_total"), 2.0);
    assert!(gateway.logged("compat.list_bytes_max", PATIENCE));
}

/// Each shard has more than a page of such a list.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_list_of_many_pages_is_whole_while_clients_come_and_go() {
    const MANY: usize = 700;
    let redis = Redis::start();
    let gateways: [Gateway; 2] = gateways(&redis);
    let come = |gateway| {
        let mut member = member(gateway, "r1");
        // So a page has fewer than a hundred sockets.
        for room in ["x", "y"] {
            member.ask("join", &[json!(room.repeat(250))]);
        }
        member
    };
    let members: Vec<SocketIo> = gateways
        .iter()
        .flat_map(|gateway| (0..MANY / 2).map(move |_| come(gateway)))
        .collect();
    let stay: BTreeSet<String> = members.iter().map(|member| member.id.clone()).collect();
    for gateway in &gateways {
        let all = || fetched(gateway, "r1") == (stay.clone(), true);
        assert!(eventually(PATIENCE, all), "{:?}", fetched(gateway, "r1").1);
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = Stop(&stop);
        gateways
            .iter()
            .for_each(|gateway| drop(scope.spawn(|| restless(gateway, &stop))));
        for gateway in gateways.iter().cycle().take(20) {
            let (found, complete) = fetched(gateway, "r1");
            assert!(complete, "nobody was silent");
            assert!(stay.is_subset(&found), "{} of {MANY}", found.len());
        }
        stop.store(true, Ordering::Relaxed);
    });
}
