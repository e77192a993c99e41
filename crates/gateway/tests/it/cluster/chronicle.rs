//! Recovery of level `cluster`: clients whose node was killed come back to another one.

use super::{all_up, all_up_of, closed, member};
use crate::e2e::recovery::{Client, say};
use crate::e2e::resuming::Resumer;
use crate::harness::client::{Poller, SOCKETIO};
use crate::harness::{Gateway, PATIENCE, eventually};
use crate::upgrade::chain::Chain;
use client::full::{Encoding, SocketIo};
use client::{Ended, OpCode, RawConn};
use serde_json::{Value, json};
use servers::{Cluster, Redis, Sentinels};
use std::time::{Duration, Instant};

const RECOVERS: &str = "[namespaces.\"/\"]\nclient_joins = true\n\
    [namespaces.\"/\".recovery]\nlevel = \"cluster\"\n\
    [namespaces.\"/\".events.say]\naction = \"rooms\"\nroom_field = \"room\"\n\
    [namespaces.\"/\".events.echo]\naction = \"reply\"\n";

fn start(redis: &Redis) -> Gateway {
    Gateway::start(&closed(redis, RECOVERS))
}

fn nodes<const N: usize>(redis: &Redis) -> [Gateway; N] {
    let nodes = std::array::from_fn(|_| start(redis));
    all_up(&nodes);
    nodes
}

fn outcomes(nodes: &[Gateway], outcome: &str) -> f64 {
    let name = format!("sockeye_returns_total{{outcome=\"{outcome}\"}}");
    nodes.iter().map(|node| node.metric(&name)).sum()
}

/// What a client hears up to a number. Its own echo may stand in the stream before what another node says.
pub(super) fn hears_up_to(client: &mut Client, last: u64) -> Vec<u64> {
    let mut heard = Vec::new();
    let came = eventually(PATIENCE, || {
        heard.extend(client.hears());
        heard.last() == Some(&last)
    });
    assert!(came, "{last} did not come, but {heard:?}");
    heard
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn clients_of_a_node_that_was_killed_have_missed_nothing() {
    const CLIENTS: usize = 12;
    let redis = Redis::start();
    let mut nodes: Vec<Gateway> = nodes::<3>(&redis).into();
    let mut speaker = Client::new(&nodes[2]);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::new(&nodes[0])).collect();
    clients.iter_mut().for_each(|client| client.join("room"));
    // Half of them hear something before, the others have no offset.
    say(&mut speaker, "room", 0..3, "");
    for client in clients.iter_mut().take(CLIENTS / 2) {
        assert_eq!(hears_up_to(client, 2), [0, 1, 2]);
    }
    nodes[0].kill();
    let ids: Vec<String> = clients.iter().map(|client| client.sid.clone()).collect();
    let lost: Vec<Value> = clients.drain(..).map(Client::lose).collect();
    say(&mut speaker, "room", 3..20, "x");
    say(&mut speaker, "elsewhere", 900..910, "x");
    for (n, (id, auth)) in ids.iter().zip(lost).enumerate() {
        let mut client = Client::comes_back(&nodes[1 + n % 2], auth);
        assert_eq!(client.sid, *id, "client {n}");
        let begun = if n < CLIENTS / 2 { 3 } else { 0 };
        assert_eq!(
            hears_up_to(&mut client, 19),
            (begun..20).collect::<Vec<u64>>(),
            "client {n}"
        );
        clients.push(client);
    }
    assert_eq!(outcomes(&nodes[1..], "recovered"), CLIENTS as f64);
    // And once more, from the node that took them.
    say(&mut speaker, "room", 20..22, "x");
    for client in &mut clients {
        assert_eq!(hears_up_to(client, 21), [20, 21]);
    }
    let lost: Vec<Value> = clients.drain(..).map(Client::lose).collect();
    nodes[1].kill();
    say(&mut speaker, "room", 22..30, "x");
    for (n, (id, auth)) in ids.iter().zip(lost).enumerate() {
        let mut client = Client::comes_back(&nodes[2], auth);
        assert_eq!(client.sid, *id, "client {n}");
        assert_eq!(
            hears_up_to(&mut client, 29),
            (22..30).collect::<Vec<u64>>(),
            "client {n}"
        );
    }
}

/// From a node to the next, while each that it left is killed, before the client came to the next one or as it comes; and to one that began since.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_socket_goes_around_while_the_nodes_behind_it_are_killed() {
    let redis = Redis::start();
    let mut nodes: Vec<Gateway> = nodes::<3>(&redis).into();
    let mut speaker = Client::new(&nodes[2]);
    let mut client = Client::new(&nodes[0]);
    client.join("room");
    let sid = client.sid.clone();
    let mut next = 0;
    let mut missed = || {
        next += 3;
        next - 3..next
    };
    // To the second and back, so that the first has had it twice.
    for at in [1, 0] {
        let (lost, range) = (client.lose(), missed());
        say(&mut speaker, "room", range.clone(), "x");
        client = Client::comes_back(&nodes[at], lost);
        assert_eq!(client.sid, sid);
        assert_eq!(
            hears_up_to(&mut client, range.end - 1),
            range.collect::<Vec<u64>>()
        );
    }
    let (lost, range) = (client.lose(), missed());
    say(&mut speaker, "room", range.clone(), "x");
    let mut first = nodes.remove(0);
    client = std::thread::scope(|scope| {
        scope.spawn(|| first.kill());
        Client::comes_back(&nodes[0], lost)
    });
    assert_eq!(client.sid, sid);
    assert_eq!(
        hears_up_to(&mut client, range.end - 1),
        range.collect::<Vec<u64>>()
    );
    let newcomer = start(&redis);
    let ready = eventually(PATIENCE, || newcomer.metric("sockeye_cluster_up") == 1.0);
    assert!(ready, "the newcomer");
    let (lost, range) = (client.lose(), missed());
    nodes[0].kill();
    say(&mut speaker, "room", range.clone(), "x");
    client = Client::comes_back(&newcomer, lost);
    assert_eq!(client.sid, sid);
    assert_eq!(
        hears_up_to(&mut client, range.end - 1),
        range.collect::<Vec<u64>>()
    );
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_client_that_comes_to_another_node_leaves_the_one_that_lives() {
    let redis = Redis::start();
    let nodes: [Gateway; 2] = nodes(&redis);
    let mut speaker = Client::new(&nodes[0]);
    for round in 0..4 {
        let mut client = Client::new(&nodes[0]);
        client.join("room");
        let (sid, auth) = (client.sid.clone(), client.lose());
        say(&mut speaker, "room", 0..5, "x");
        let mut back = Client::comes_back(&nodes[1], auth.clone());
        assert_eq!(back.sid, sid, "round {round}");
        assert_eq!(hears_up_to(&mut back, 4), [0, 1, 2, 3, 4]);
        say(&mut speaker, "room", 5..7, "x");
        assert_eq!(hears_up_to(&mut back, 6), [5, 6]);
        // It is at one place: it goes back, and nothing comes twice.
        let auth = back.lose();
        let mut again = Client::comes_back(&nodes[0], auth);
        assert_eq!(again.sid, sid, "round {round}");
        assert_eq!(again.hears(), [0; 0]);
        drop(again);
    }
    assert_eq!(outcomes(&nodes, "recovered"), 8.0);
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn what_a_client_made_up_gives_it_nothing() {
    let redis = Redis::start();
    let mut nodes: [Gateway; 2] = nodes(&redis);
    let mut speaker = Client::new(&nodes[1]);
    let mut client = Client::new(&nodes[0]);
    client.join("room");
    say(&mut speaker, "room", 0..4, "x");
    assert_eq!(hears_up_to(&mut client, 3), [0, 1, 2, 3]);
    let sid = client.sid.clone();
    let auth = client.lose();
    nodes[0].kill();
    let mut forged = auth.clone();
    forged["pid"] = json!("A".repeat(28));
    assert_ne!(Client::comes_back(&nodes[1], forged).sid, sid);
    // Of what is still to come nobody has anything.
    let mut forged = auth.clone();
    forged["offset"] = json!("_".repeat(28));
    assert_ne!(Client::comes_back(&nodes[1], forged).sid, sid);
    assert_eq!(outcomes(&nodes[1..], "trimmed"), 1.0);
}

/// A second connection with the same secret takes the socket from the first: there is never more than one.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn of_two_claimers_one_has_the_socket() {
    let redis = Redis::start();
    let mut nodes: Vec<Gateway> = nodes::<3>(&redis).into();
    let mut client = Client::new(&nodes[0]);
    client.join("room");
    let (sid, auth) = (client.sid.clone(), client.lose());
    nodes[0].kill();
    let claims: Vec<(String, Client)> = std::thread::scope(|scope| {
        let both = [1, 2].map(|node| {
            let (node, auth) = (&nodes[node], auth.clone());
            scope.spawn(move || Client::comes_back(node, auth))
        });
        let both = both
            .into_iter()
            .map(|claim| claim.join().expect("an answer"));
        both.map(|client| (client.sid.clone(), client)).collect()
    });
    let live = || {
        let sockets = nodes[1..].iter();
        let sockets = sockets.map(|node| node.metric("sockeye_sockets"));
        sockets.sum::<f64>()
    };
    let has_it = claims.iter().filter(|(id, _)| *id == sid).count();
    assert!(has_it >= 1, "one of them is recovered");
    if has_it == 2 {
        assert!(
            eventually(PATIENCE, || live() <= 1.0),
            "the first was ended"
        );
    }
}

/// Nobody knows what another Redis lost: its clients are told that they are new, and come back again to what is said from then on.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_redis_that_forgot_recovers_nobody_falsely() {
    let mut redis = Redis::start();
    let (key, entry) = identity::keys::generate("ci", &[]).expect("a key");
    let mut nodes = [(); 3].map(|()| with_key(&redis, &entry));
    all_up(&nodes);
    let mut client = Client::new(&nodes[0]);
    client.join("room");
    let say = |node: &Gateway, n: u64| {
        let body = json!({"event": "say", "rooms": ["room"], "args": [{"n": n}]});
        call(node, &key, "/v1/emit", &body) == 202
    };
    assert!(eventually(PATIENCE, || say(&nodes[2], 1)));
    assert!(hears_up_to(&mut client, 1).contains(&1));
    let mut idle = Client::new(&nodes[0]);
    idle.join("room");
    redis.kill();
    redis.restart();
    let all = [0, 1, 2].map(|at| eventually(3 * PATIENCE, || say(&nodes[at], 10)));
    assert_eq!(all, [true; 3], "all of them speak again");
    // Each node has seen by then that it is another.
    std::thread::sleep(Duration::from_secs(2));
    assert!(say(&nodes[2], 11));
    hears_up_to(&mut client, 11);
    let ids = [client.sid.clone(), idle.sid.clone()];
    let lost = [client.lose(), idle.lose()];
    nodes[0].kill();
    assert!(say(&nodes[2], 12) && say(&nodes[2], 13));
    // It heard something of the new one, and the other proves nothing of since then.
    let [auth, idle] = lost;
    let mut back = Client::comes_back(&nodes[1], auth);
    assert_eq!(back.sid, ids[0]);
    assert_eq!(hears_up_to(&mut back, 13), [12, 13]);
    assert_ne!(Client::comes_back(&nodes[1], idle).sid, ids[1]);
    assert_eq!(outcomes(&nodes[1..2], "trimmed"), 1.0);
}

/// A node with a key for programs.
fn with_key(redis: &Redis, entry: &str) -> Gateway {
    let admin = format!("[admin]\napi_keys = [{entry:?}]\n{RECOVERS}");
    Gateway::start(&closed(redis, &admin))
}

pub(super) fn call(node: &Gateway, key: &str, path: &str, body: &Value) -> u16 {
    let body = body.to_string();
    let order = format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    RawConn::exchange(node.admin, order).status
}

/// Orders to a socket that is nowhere are not lost: a user that was kicked stays away.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn orders_that_are_given_while_its_node_is_dead_count() {
    let redis = Redis::start();
    let (key, entry) = identity::keys::generate("ci", &[]).expect("a key");
    let mut nodes = [(); 2].map(|()| with_key(&redis, &entry));
    all_up(&nodes);
    let mut clients = [(); 3].map(|()| Client::new(&nodes[0]));
    clients.iter_mut().for_each(|client| client.join("room"));
    clients[1].join("kicked");
    let ids = clients.each_ref().map(|client| client.sid.clone());
    let lost = clients.map(Client::lose);
    nodes[0].kill();
    let to = |id: &str| json!({ "sockets": [id] });
    let mut moved = to(&ids[2]);
    moved["join"] = json!(["late"]);
    let node = &nodes[1];
    assert_eq!(
        call(node, &key, "/v1/disconnect", &json!({"rooms": ["kicked"]})),
        202
    );
    assert_eq!(call(node, &key, "/v1/join", &moved), 202);
    let say = |rooms: Value, n: u64| json!({"event": "say", "rooms": rooms, "args": [{"n": n}]});
    assert_eq!(call(node, &key, "/v1/emit", &say(json!(["late"]), 1)), 202);
    assert_eq!(call(node, &key, "/v1/emit", &say(json!(["room"]), 2)), 202);
    let [first, second, third] = lost;
    let mut first = Client::comes_back(node, first);
    assert_eq!(first.sid, ids[0]);
    assert_eq!(first.hears(), [2]);
    assert_ne!(
        Client::comes_back(node, second).sid,
        ids[1],
        "it was kicked"
    );
    let mut third = Client::comes_back(node, third);
    assert_eq!(third.sid, ids[2]);
    assert_eq!(third.hears(), [1, 2]);
}

/// While Redis takes nothing, programs are told so, and no client is promised anything.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn without_redis_nobody_is_told_anything_that_might_not_hold() {
    let mut redis = Redis::start();
    let (key, entry) = identity::keys::generate("ci", &[]).expect("a key");
    let node = with_key(&redis, &entry);
    all_up(std::slice::from_ref(&node));
    let body = json!({"event": "say", "all": true, "args": [{"n": 1}]});
    let is_taken = || call(&node, &key, "/v1/emit", &body) == 202;
    assert!(eventually(PATIENCE, is_taken));
    let local = json!({"event": "say", "all": true, "args": [{"n": 1}], "local": true});
    assert_eq!(
        call(&node, &key, "/v1/emit", &local),
        400,
        "all would get it"
    );
    redis.kill();
    let is_refused = || call(&node, &key, "/v1/emit", &body) == 503;
    assert!(eventually(2 * PATIENCE, is_refused));
    redis.restart();
    assert!(eventually(2 * PATIENCE, is_taken));
}

/// Redis goes in the moment in which clients come. They wait for as long as it may be back. Then their sessions end without an answer, or they would
/// say what they had kept for it, and lose that. A client that comes later is served at once.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_connect_that_redis_does_not_take_was_answered_before_the_cut() {
    let mut redis = Redis::start();
    let node = start(&redis);
    all_up(std::slice::from_ref(&node));
    let comes = || {
        let mut conn = RawConn::websocket(node.addr, SOCKETIO);
        conn.frame();
        conn.send_text("40");
        conn
    };
    let text = |conn: &mut RawConn| conn.frame().text().to_owned();
    // It stands still, and the node cannot know yet that it takes nothing.
    redis.freeze();
    let mut waits = comes();
    let silence = waits.frame_within(Duration::from_millis(500));
    assert_eq!(
        silence.err(),
        Some(Ended::Open),
        "nothing that may not hold"
    );
    redis.thaw();
    let welcome = text(&mut waits);
    assert!(welcome.contains("\"pid\""), "{welcome}");
    waits.send_text("421[\"echo\",1]");
    assert_eq!(text(&mut waits), "431[1]", "it stays");
    redis.freeze();
    let mut cut = comes();
    let poller = Poller::open(node.addr);
    assert_eq!(poller.post("40").status, 200);
    redis.kill();
    let ends = || {
        let answer = poller.poll();
        assert!(!answer.body.contains("\"pid\""), "{answer:?}");
        answer.status == 400 || answer.body.ends_with('1')
    };
    assert!(eventually(PATIENCE, ends), "its session has ended");
    let end = cut.frame_within(PATIENCE).map(|frame| frame.opcode);
    let has_ended = matches!(end, Ok(OpCode::Close) | Err(Ended::Cleanly | Ended::Reset));
    assert!(has_ended, "{end:?}");
    let late = Client::new(&node);
    assert_eq!(late.lose()["pid"], Value::Null, "nobody can come back now");
}

/// The replica may lack the last that was said: who proves nothing of since then is new.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn after_a_failover_clients_come_back_to_what_was_said_since() {
    let mut set = Sentinels::start(1_000);
    let (key, entry) = identity::keys::generate("ci", &[]).expect("a key");
    let config = format!(
        "profile = \"socket.io\"\n[server]\nshards = 2\n[cluster]\nadapter = \"redis\"\nmode = \"sentinel\"\nmaster = {:?}\n\
         urls = {:?}\nsecret = \"s\"\n[admin]\napi_keys = [{entry:?}]\n{RECOVERS}",
        set.name(),
        set.addrs()
            .iter()
            .map(|addr| format!("redis://{addr}"))
            .collect::<Vec<_>>(),
    );
    let mut nodes = [(); 3].map(|()| Gateway::start(&config));
    all_up(&nodes);
    let say = |node: &Gateway, n: u64| {
        let body = json!({"event": "say", "rooms": ["room"], "args": [{"n": n}]});
        call(node, &key, "/v1/emit", &body) == 202
    };
    let mut client = Client::new(&nodes[0]);
    client.join("room");
    let mut idle = Client::new(&nodes[0]);
    idle.join("room");
    assert!(say(&nodes[2], 1));
    hears_up_to(&mut client, 1);
    let master = set.master().expect("a master");
    set.servers[master].kill();
    let failed_over = || set.master().is_some_and(|now| now != master);
    assert!(eventually(3 * PATIENCE, failed_over));
    let all = [0, 1, 2].map(|at| eventually(3 * PATIENCE, || say(&nodes[at], 10)));
    assert_eq!(all, [true; 3], "all of them speak again");
    std::thread::sleep(Duration::from_secs(2));
    assert!(say(&nodes[2], 11));
    hears_up_to(&mut client, 11);
    // A newcomer of the time between.
    let mut newcomer = Client::new(&nodes[0]);
    newcomer.join("room");
    let ids = [&client, &newcomer, &idle].map(|one| one.sid.clone());
    let lost = [client, newcomer, idle].map(Client::lose);
    nodes[0].kill();
    assert!(say(&nodes[2], 12) && say(&nodes[2], 13));
    let [first, second, third] = lost;
    for (id, auth) in ids.iter().zip([first, second]) {
        let mut back = Client::comes_back(&nodes[1], auth);
        assert_eq!(back.sid, *id);
        assert_eq!(hears_up_to(&mut back, 13), [12, 13]);
    }
    assert_ne!(Client::comes_back(&nodes[1], third).sid, ids[2]);
}

/// Nodes speak while their processes change. Clients notice nothing and hear all that stands in the stream once, in order, whether the store
/// knows them or not; those that it knows come back by it, also with what the process before had said last.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn upgrades_lose_nothing_of_the_stream() {
    const EVENTS: u64 = 600;
    const UPGRADES: u64 = 3;
    let redis = Redis::start();
    let asked = "level = \"cluster\"\noffsets = \"asked\"";
    let text = closed(&redis, &RECOVERS.replace("level = \"cluster\"", asked));
    let mut chains = [Chain::start(&text), Chain::start(&text)];
    all_up_of(&[&chains[0].first, &chains[1].first]);
    // They do not ask for offsets, so that nothing is stored of them.
    let mut listeners: Vec<SocketIo> = chains
        .iter()
        .map(|chain| member(&chain.first, "room"))
        .collect();
    let (mut stays, mut returns) = (
        Client::asking(&chains[0].first),
        Client::asking(&chains[0].first),
    );
    stays.join("room");
    returns.join("room");
    let mut speaker = member(&chains[1].first, "room");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for n in 0..EVENTS {
                speaker.emit("say", &[json!({ "room": "room", "n": n })]);
                std::thread::sleep(Duration::from_millis(5));
            }
            // It is heard behind them.
            speaker.ask("echo", &[]);
        });
        let (mut heard, mut others): (Vec<u64>, Vec<u64>) = Default::default();
        for round in 0..UPGRADES {
            heard.extend(returns.hears());
            others.extend(stays.hears());
            for chain in &mut chains {
                let (said, took) = chain.upgrade();
                println!("{took:?}; {}", said.lines().last().unwrap_or_default());
                assert!(!said.contains("sent away"), "{said}");
            }
            // It does not read what comes to its connection.
            std::thread::sleep(Duration::from_millis(100));
            let (sid, auth) = (returns.sid.clone(), returns.lose());
            returns = Client::comes_back_asking(&chains[0].first, auth);
            assert_eq!(returns.sid, sid, "round {round}: it was recovered");
        }
        for (client, heard) in [(&mut returns, &mut heard), (&mut stays, &mut others)] {
            while heard.last() != Some(&(EVENTS - 1)) {
                heard.extend(client.hears());
            }
            assert_eq!(*heard, (0..EVENTS).collect::<Vec<u64>>());
        }
    });
    for client in &mut listeners {
        let mut heard = Vec::new();
        while heard.last() != Some(&(EVENTS - 1)) {
            heard.push(client.expect("say")[0]["n"].as_u64().expect("a number"));
        }
        assert_eq!(heard, (0..EVENTS).collect::<Vec<u64>>());
    }
}

/// What Redis does not take keeps the process; nothing of it is lost.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_stream_that_takes_nothing_keeps_the_process() {
    let mut redis = Redis::start();
    let mut chain = Chain::start(&closed(&redis, RECOVERS));
    let mut plain = member(&chain.first, "room");
    let mut speaker = member(&chain.first, "room");
    speaker.emit("say", &[json!({ "room": "room", "n": 0 })]);
    assert_eq!(plain.expect("say")[0]["n"], 0);
    redis.freeze();
    speaker.emit("say", &[json!({ "room": "room", "n": 1 })]);
    let refused = chain.failing_upgrade(&[]);
    println!("{refused}");
    redis.thaw();
    assert_eq!(plain.expect("say")[0]["n"], 1);
    redis.kill();
    chain.failing_upgrade(&[]);
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_plain_client_comes_back_when_its_node_was_killed() {
    let redis = Redis::start();
    let mut nodes: [Gateway; 2] = nodes(&redis);
    let mut speaker = Client::new(&nodes[1]);
    let mut client = Resumer::new(nodes[0].addr, Encoding::Json);
    client.join("room");
    say(&mut speaker, "room", 0..3, "x");
    assert_eq!(client.hears_up_to("room", 2), [0, 1, 2]);
    let mut silent = Resumer::new(nodes[0].addr, Encoding::Msgpack);
    silent.join("other");
    nodes[0].kill();
    say(&mut speaker, "room", 3..9, "x");
    say(&mut speaker, "other", 0..4, "x");
    let mut client = client.comes_back(nodes[1].addr);
    assert!(client.recovered);
    assert_eq!(client.hears_up_to("room", 8), [3, 4, 5, 6, 7, 8]);
    let mut silent = silent.comes_back(nodes[1].addr);
    assert!(silent.recovered);
    assert_eq!(silent.hears_up_to("other", 3), [0, 1, 2, 3]);
}

/// A node of a Redis Cluster with two namespaces on different masters; these, and the master of the first.
fn apart(cluster: &Cluster) -> (Gateway, [String; 2], usize) {
    let owner = |name: &str| cluster.owner(0, &format!("sockeye:recovery:{{{name}}}:stream"));
    let needed = ["sockeye:{all}", "sockeye:{n1}"].map(|channel| cluster.owner(0, channel));
    let mut names = (0..100).map(|n| format!("/n{n}"));
    let away = names.find(|name| !needed.contains(&owner(name)));
    let away = away.expect("a namespace of its own");
    let master = owner(&away);
    let other = names.find(|name| owner(name) != master);
    let other = other.expect("another master");
    let urls: Vec<String> = cluster.nodes.iter().map(Redis::url).collect();
    let namespaces = [&away, &other].map(|name| {
        format!(
            "[namespaces.{name:?}]\nclient_joins = true\n[namespaces.{name:?}.recovery]\nlevel = \"cluster\"\n"
        )
    });
    let node = Gateway::start(&format!(
        "profile = \"socket.io\"\n[server]\nshards = 2\nnode = 1\n\
         [cluster]\nadapter = \"redis\"\nmode = \"cluster\"\nurls = {urls:?}\nsecret = \"s\"\n{}",
        namespaces.concat()
    ));
    (node, [away, other], master)
}

/// Those that connected or joined in any namespace were closed until the master of the one was back.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_master_that_was_away_ended_the_clients_of_other_namespaces() {
    let cluster = Cluster::start_with(600_000, &[]);
    let (node, [away, other], master) = apart(&cluster);
    all_up(std::slice::from_ref(&node));
    let join = |client: &mut SocketIo, room: &str| client.ask("join", &[json!(room)]);
    let mut lost = SocketIo::websocket(node.addr, &away, json!({}));
    join(&mut lost, "before");
    cluster.nodes[master].freeze();
    lost.emit("join", &[json!("after")]);
    let begun = Instant::now();
    let mut clients = Vec::new();
    for round in 0..8 {
        let mut client = SocketIo::websocket(node.addr, &other, json!({}));
        join(&mut client, "room");
        clients.push(client);
        for client in &mut clients {
            join(client, &format!("room {round}"));
        }
        std::thread::sleep(Duration::from_millis(900));
    }
    assert!(
        begun.elapsed() > Duration::from_secs(6),
        "longer than it is waited"
    );
    let away_for = format!("sockeye_stream_away_seconds{{namespace={away:?}}}");
    let here = format!("sockeye_stream_away_seconds{{namespace={other:?}}}");
    assert!(node.metric(&away_for) > 3.0);
    assert_eq!(node.metric(&here), 0.0);
    for client in &mut clients {
        join(client, "the last room");
    }
    cluster.nodes[master].thaw();
    let is_back = || node.metric(&away_for) == 0.0;
    assert!(eventually(3 * PATIENCE, is_back));
    let mut back = SocketIo::websocket(node.addr, &away, json!({}));
    join(&mut back, "room");
}

/// What was acknowledged is on a replica: without one nobody is told that it is stored, and all goes on when it is back.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn without_replicas_that_it_asked_for_nothing_counts_as_stored() {
    let redis = Redis::start();
    let port = redis.port().to_string();
    let replica = || Redis::start_with(&["--replicaof", "127.0.0.1", &port]);
    let first = replica();
    let (key, entry) = identity::keys::generate("ci", &[]).expect("a key");
    let admin = format!("[admin]\napi_keys = [{entry:?}]\n{RECOVERS}");
    let two = admin.replace("level = \"cluster\"", "level = \"cluster\"\nreplicas = 1");
    let node = Gateway::start(&closed(&redis, &two));
    all_up(std::slice::from_ref(&node));
    let body = json!({"event": "say", "all": true, "args": [{"n": 1}]});
    let is_taken = || call(&node, &key, "/v1/emit", &body) == 202;
    assert!(eventually(2 * PATIENCE, is_taken));
    let mut client = Client::new(&node);
    client.join("room");
    first.freeze();
    let is_refused = || call(&node, &key, "/v1/emit", &body) == 503;
    assert!(eventually(2 * PATIENCE, is_refused));
    first.thaw();
    assert!(eventually(3 * PATIENCE, is_taken));
    let log = node.log().join("\n");
    assert!(
        log.contains("of 1 replicas") && log.contains("recovery.replicas"),
        "{log}"
    );
}
