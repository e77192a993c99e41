//! Two nodes on a real Redis: a call to one of them is about the clients of both.

use super::{KEY, accepted, call, call_with, config, get, ids, members, post};
use crate::harness::{Gateway, PATIENCE, RawConn, eventually};
use ::client::full::SocketIo;
use rustix::process::Signal;
use serde_json::{Value, json};
use servers::{Nats, Redis};

/// Two nodes that know each other.
pub(super) fn nodes(redis: &Redis) -> [Gateway; 2] {
    nodes_with(redis, "")
}

pub(super) fn nodes_over_nats(nats: &Nats) -> [Gateway; 2] {
    nodes_over("nats", &nats.url(), "")
}

/// `more`: keys of the cluster.
pub(super) fn nodes_with(redis: &Redis, more: &str) -> [Gateway; 2] {
    nodes_over("redis", &redis.url(), more)
}

fn nodes_over(adapter: &str, url: &str, more: &str) -> [Gateway; 2] {
    let cluster =
        format!("[cluster]\nadapter = {adapter:?}\nurls = [{url:?}]\nsecret = \"s\"\n{more}");
    let nodes = [(); 2].map(|()| Gateway::start(&config(&cluster)));
    for node in &nodes {
        assert!(eventually(PATIENCE, || is_ready(node)), "ready");
        let peers = node.metric_settles("sockeye_cluster_peers", |peers| peers == 1.0);
        assert_eq!(peers, Ok(1.0));
    }
    nodes
}

pub(super) fn is_ready(node: &Gateway) -> bool {
    let request = "GET /ready HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n";
    RawConn::exchange(node.admin, request).status == 200
}

fn count(node: &Gateway, room: &str, local: bool) -> Value {
    get(node, &format!("/v1/rooms/{room}/count?local={local}"))["sockets"].clone()
}

/// Three members of a room on the first node, two on the second.
fn crowd(nodes: &[Gateway; 2]) -> Vec<SocketIo> {
    let mut clients = members(&nodes[0], "room", 3);
    clients.extend(members(&nodes[1], "room", 2));
    for node in nodes {
        // On a machine that is busy, a join is acked before other nodes know of it.
        let all = || count(node, "room", false) == json!(5);
        assert!(eventually(PATIENCE, all), "both nodes see all");
    }
    clients
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn any_node_knows_who_is_on_all_of_them() {
    let redis = Redis::start();
    let nodes = nodes(&redis);
    let clients = crowd(&nodes);
    for (at, node) in nodes.iter().enumerate() {
        let list = get(node, "/v1/sockets?room=room");
        let seen = list["sockets"].as_array().into_iter().flatten();
        let seen: Vec<&str> = seen.filter_map(|socket| socket["id"].as_str()).collect();
        assert_eq!(
            (seen, &list["complete"]),
            (
                ids(&clients).iter().map(String::as_str).collect(),
                &json!(true)
            )
        );
        assert_eq!(
            get(node, "/v1/rooms")["rooms"],
            json!([{"room": "room", "sockets": 5}])
        );
        let here = if at == 0 { 3 } else { 2 };
        assert_eq!(
            [count(node, "room", false), count(node, "room", true)],
            [json!(5), json!(here)]
        );
    }
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_call_moves_and_puts_out_the_sockets_of_all_nodes() {
    let redis = Redis::start();
    let nodes = nodes(&redis);
    let mut clients = crowd(&nodes);
    let there = clients[4].id.clone();
    assert_eq!(
        post(
            &nodes[0],
            "/v1/join",
            &json!({"rooms": ["room"], "join": ["x"]})
        ),
        accepted()
    );
    assert_eq!(
        count(&nodes[0], "x", false),
        json!(5),
        "what was done before is seen"
    );
    assert_eq!(
        post(
            &nodes[0],
            "/v1/leave",
            &json!({"sockets": [there], "leave": ["x"]})
        ),
        accepted()
    );
    assert_eq!(count(&nodes[0], "x", false), json!(4));
    let local = json!({"rooms": ["room"], "leave": ["x"], "local": true});
    assert_eq!(post(&nodes[0], "/v1/leave", &local), accepted());
    assert_eq!(
        [count(&nodes[0], "x", false), count(&nodes[0], "x", true)],
        [json!(1), json!(0)]
    );

    assert_eq!(
        post(
            &nodes[0],
            "/v1/emit",
            &json!({"event": "here", "local": true, "all": true})
        ),
        accepted()
    );
    assert_eq!(
        post(
            &nodes[0],
            "/v1/emit",
            &json!({"event": "all", "rooms": ["room"]})
        ),
        accepted()
    );
    for (at, client) in clients.iter_mut().enumerate() {
        let before = client.until("all").len();
        assert_eq!(before, usize::from(at < 3), "{at}");
    }
    let end = json!({"rooms": ["room"], "close": true});
    assert_eq!(post(&nodes[1], "/v1/disconnect", &end), accepted());
    clients
        .iter_mut()
        .for_each(|client| drop(client.until_closed()));
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn answers_come_from_all_nodes_and_a_node_that_stands_still_is_no_silence() {
    let redis = Redis::start();
    let nodes = nodes(&redis);
    let mut clients = crowd(&nodes);
    let ask = |timeout_ms: u64| {
        let ack = json!({ "timeout_ms": timeout_ms });
        post(
            &nodes[0],
            "/v1/emit",
            &json!({"event": "q", "rooms": ["room"], "ack": ack}),
        )
    };
    let answer = |client: &mut SocketIo| {
        let question = client.next_named("q").ack.expect("an ack is wanted");
        client.answer(question, &[json!("yes")]);
    };
    let (status, told) = std::thread::scope(|scope| {
        let asked = scope.spawn(|| ask(30_000));
        clients.iter_mut().for_each(answer);
        asked.join().expect("an answer")
    });
    assert_eq!(
        (status, &told["acked"], &told["complete"]),
        (200, &json!(5), &json!(true)),
        "{told}"
    );

    nodes[1].freeze();
    let (status, told) = std::thread::scope(|scope| {
        let asked = scope.spawn(|| ask(1_500));
        clients[..3].iter_mut().for_each(answer);
        asked.join().expect("an answer")
    });
    let list = get(&nodes[0], "/v1/rooms/room/count");
    nodes[1].signal(Signal::CONT);
    assert_eq!(
        (status, &told["acked"], &told["complete"]),
        (200, &json!(3), &json!(false)),
        "{told}"
    );
    assert_eq!(
        (&list["sockets"], &list["complete"]),
        (&json!(3), &json!(false))
    );
}

/// With an idempotency key: the same call again has the same answer, and asks no client twice.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_question_to_a_node_that_dies_under_it_is_answered() {
    let redis = Redis::start();
    let mut nodes = nodes(&redis);
    let mut clients = crowd(&nodes);
    let (first, rest) = nodes.split_at_mut(1);
    let ask = || {
        let body = json!({"event": "q", "rooms": ["room"], "ack": {"timeout_ms": 8_000}});
        let key = "Idempotency-Key: once\r\n";
        let (answer, told) = call_with(
            &first[0],
            &KEY.0,
            key,
            "POST",
            "/v1/emit",
            &body.to_string(),
        );
        (answer.status, told)
    };
    let told = std::thread::scope(|scope| {
        let asked = scope.spawn(ask);
        let questions = clients.iter_mut().map(|client| client.next_named("q").ack);
        let questions: Vec<_> = questions
            .map(|ack| ack.expect("an ack is wanted"))
            .collect();
        rest[0].kill();
        for (client, question) in clients[..3].iter_mut().zip(questions) {
            client.answer(question, &[json!("yes")]);
        }
        asked.join().expect("an answer")
    });
    assert_eq!(
        (told.0, &told.1["acked"], &told.1["complete"]),
        (200, &json!(3), &json!(false)),
        "{told:?}"
    );
    assert_eq!(ask(), told);
    post(
        &first[0],
        "/v1/emit",
        &json!({"event": "last", "all": true}),
    );
    for client in &mut clients[..3] {
        assert_eq!(client.until("last").len(), 0);
    }
}

/// Messages that wait for Redis are bounded. A call that other nodes will not hear of must say so.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_call_while_other_nodes_cannot_be_reached_says_so() {
    let mut redis = Redis::start();
    let nodes = nodes_with(&redis, "queue_bytes = \"1MiB\"");
    let _crowd = crowd(&nodes);
    let node = &nodes[0];
    redis.kill();
    let up = node.metric_settles("sockeye_cluster_up", |up| up == 0.0);
    assert_eq!(up, Ok(0.0));
    let text = "x".repeat(256 * 1024);
    let emit = json!({"event": "a", "args": [text], "all": true});
    let told = eventually(PATIENCE, || {
        let (status, body) = call(node, "POST", "/v1/emit", &emit);
        assert_eq!((status, &body["accepted"]), (202, &json!(true)));
        body["everywhere"] == false
    });
    assert!(told, "it says so");
    let list = get(node, "/v1/sockets?all=true");
    assert_eq!(list["complete"], false, "{list}");
    assert_eq!(
        get(node, "/v1/sockets?local=true&all=true")["complete"],
        true
    );
}
