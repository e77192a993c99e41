//! Node servers in the same cluster as two gateways, on a real Redis, with stock clients on each of the three.

use crate::harness::{Gateway, PATIENCE, eventually};
use serde_json::{Value, json};
use servers::{Cluster, NodePeer, Redis};

/// Two gateways and a Node server. Stock clients are in r1: `n` at the Node server, `a` and `b` at the gateways.
struct Three {
    peer: NodePeer,
    gateways: Vec<Gateway>,
    _redis: Servers,
}

/// What they share.
enum Servers {
    One { _redis: Redis },
    Six { _cluster: Cluster },
}

const ALL: [&str; 3] = ["n", "a", "b"];

fn three(adapter: &str) -> Three {
    let redis = Redis::start();
    let gateways: [Gateway; 2] = super::nodes(&redis);
    let peer = NodePeer::start(&redis.url(), adapter, "/");
    together(peer, gateways, Servers::One { _redis: redis })
}

/// The same on a Redis of three masters with a replica each.
fn three_on_a_cluster(adapter: &str) -> Three {
    let cluster = Cluster::start();
    let urls: Vec<String> = cluster.nodes.iter().map(Redis::url).collect();
    let config = format!(
        "profile = \"socket.io\"\n[server]\nshards = 2\n[cluster]\nadapter = \"redis\"\nmode = \"cluster\"\nurls = {urls:?}\n"
    );
    let gateways: [Gateway; 2] = std::array::from_fn(|_| Gateway::start(&config));
    super::all_up(&gateways);
    let peer = NodePeer::start_with(&urls[0], adapter, "/", &["--cluster"]);
    together(peer, gateways, Servers::Six { _cluster: cluster })
}

fn together(peer: NodePeer, gateways: [Gateway; 2], redis: Servers) -> Three {
    let mut three = Three {
        peer,
        gateways: gateways.into(),
        _redis: redis,
    };
    three.client("n", None);
    three.client("a", Some(0));
    three.client("b", Some(1));
    three.settle();
    three
}

impl Three {
    /// A stock client in r1, of the Node server or of a gateway.
    fn client(&mut self, name: &str, gateway: Option<usize>) -> String {
        let mut command = json!({"do": "client", "name": name, "rooms": ["r1"]});
        if let Some(gateway) = gateway {
            let addr = self.gateways[gateway].addr;
            command["url"] = format!("http://{addr}").into();
        }
        let id = self.peer.call(command);
        id.as_str().expect("an id").to_owned()
    }

    /// Until every server hears the others, and nothing is under way any more.
    fn settle(&mut self) {
        let mut round = 0;
        let heard_by_all = eventually(PATIENCE, || {
            round += 1;
            self.peer
                .call(json!({"do": "emit", "to": ["r1"], "event": "node", "args": [round]}));
            self.peer
                .call(json!({"do": "say", "name": "a", "event": "gate", "args": [round]}));
            self.peer.hears("n", "node");
            std::thread::sleep(std::time::Duration::from_millis(50));
            let heard = self.peer.heard_else();
            let was_heard = |client: &str, event: &str| {
                heard.iter().any(|line| {
                    line["client"] == client
                        && line["event"] == event
                        && line["args"] == json!([round])
                })
            };
            let pairs = [("a", "node"), ("b", "node"), ("n", "gate"), ("b", "gate")];
            pairs
                .into_iter()
                .all(|(client, event)| was_heard(client, event))
        });
        assert!(heard_by_all, "every server hears the others");
        self.peer.heard_else();
    }

    /// Waits until a room has so many: what a Node server orders, it does itself when Redis brings it back.
    fn has_members(&mut self, room: &str, count: usize) {
        assert!(eventually(PATIENCE, || {
            let found = self.peer.call(json!({"do": "fetch", "to": [room]}));
            found.as_array().map(Vec::len) == Some(count)
        }));
    }

    fn emit(&mut self, event: &str, args: Value) {
        self.peer
            .call(json!({"do": "emit", "to": ["r1"], "event": event, "args": args}));
    }
}

fn a_room_is_one_room(mut three: Three) {
    let args = json!([{"n": 1}, "té", {"$bytes": "0102ff"}, null, 1.5]);
    for _ in 0..3 {
        three.emit("ev", args.clone());
    }
    for client in ALL {
        for _ in 0..3 {
            assert_eq!(three.peer.hears(client, "ev"), args, "{client}");
        }
    }
    // What a client of a gateway says goes to all but itself, once.
    for n in 0..50 {
        three
            .peer
            .call(json!({"do": "say", "name": "a", "event": "say", "args": [n, {"$bytes": "07"}]}));
    }
    for client in ["n", "b"] {
        for n in 0..50 {
            assert_eq!(
                three.peer.hears(client, "say"),
                json!([n, {"$bytes": "07"}]),
                "{client}"
            );
        }
    }
    three.emit("last", json!([]));
    ALL.into_iter()
        .for_each(|client| drop(three.peer.hears(client, "last")));
    assert_eq!(
        three.peer.heard_else(),
        Vec::<Value>::new(),
        "nothing came twice"
    );
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_room_is_one_room_for_gateways_and_node_servers_with_the_classic_adapter() {
    a_room_is_one_room(three("classic"));
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_room_is_one_room_for_gateways_and_node_servers_with_the_sharded_adapter() {
    a_room_is_one_room(three("sharded"));
}

fn node_asks_the_sockets_of_gateways(mut three: Three) {
    let ask = json!({"do": "ask", "to": ["r1"], "event": "ask", "timeout": 20_000, "args": [1]});
    let answers = three.peer.call(ask);
    let mut answers: Vec<String> = serde_json::from_value(answers).expect("answers, no timeout");
    answers.sort();
    assert_eq!(answers, ["a got ask", "b got ask", "n got ask"]);
    let bytes = json!({"do": "ask", "event": "ask-bytes", "timeout": 20_000});
    let answers = three.peer.call(bytes);
    assert!(
        answers
            .as_array()
            .expect("answers")
            .contains(&json!({"$bytes": "61"})),
        "{answers}"
    );

    let found = three.peer.call(json!({"do": "fetch", "to": ["r1"]}));
    let found = found.as_array().expect("sockets");
    assert_eq!(found.len(), 3, "{found:?}");
    for socket in found {
        let rooms = socket["rooms"].as_array().expect("rooms");
        assert!(
            rooms.contains(&socket["id"]) && rooms.contains(&json!("r1")),
            "{socket}"
        );
    }
    assert_eq!(
        three.peer.call(json!({"do": "fetch", "to": ["nobody"]})),
        json!([])
    );
    // Nobody of ours has handlers for these: each node says so, and the caller does not wait in vain.
    let answers = three
        .peer
        .call(json!({"do": "serverAsk", "args": ["ping-nodes", 1]}));
    assert_eq!(answers, json!([null, null]));
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_server_with_the_classic_adapter_asks_the_sockets_of_gateways() {
    node_asks_the_sockets_of_gateways(three("classic"));
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_server_with_the_sharded_adapter_asks_the_sockets_of_gateways() {
    node_asks_the_sockets_of_gateways(three("sharded"));
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_server_moves_and_disconnects_the_sockets_of_gateways() {
    for adapter in ["classic", "sharded"] {
        let mut three = three(adapter);
        three
            .peer
            .call(json!({"do": "join", "to": ["r1"], "rooms": ["r2"]}));
        three.has_members("r2", 3);
        three
            .peer
            .call(json!({"do": "emit", "to": ["r2"], "event": "moved"}));
        ALL.into_iter()
            .for_each(|client| drop(three.peer.hears(client, "moved")));
        three
            .peer
            .call(json!({"do": "leave", "to": ["r1"], "rooms": ["r1"]}));
        three.has_members("r1", 0);
        three
            .peer
            .call(json!({"do": "emit", "to": ["r1"], "event": "nobody"}));
        three
            .peer
            .call(json!({"do": "emit", "to": ["r2"], "event": "end"}));
        ALL.into_iter()
            .for_each(|client| drop(three.peer.hears(client, "end")));
        assert_eq!(three.peer.heard_else(), Vec::<Value>::new());
        three
            .peer
            .call(json!({"do": "disconnect", "to": ["r2"], "close": true}));
        for client in ALL {
            assert_eq!(
                three.peer.hears(client, "disconnect"),
                json!(["io server disconnect"])
            );
        }
        assert!(three.peer.is_alive());
    }
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn the_redis_emitter_reaches_clients_of_gateways() {
    let redis = Redis::start();
    let gateways: [Gateway; 2] = super::nodes(&redis);
    let peer = NodePeer::start(&redis.url(), "none", "/");
    let mut three = Three {
        peer,
        gateways: gateways.into(),
        _redis: Servers::One { _redis: redis },
    };
    let id = three.client("a", Some(0));
    three.client("b", Some(1));
    let emit = json!({"do": "emit", "via": "emitter", "to": ["r1"], "except": [id], "event": "ev", "args": [1]});
    three.peer.call(emit);
    assert_eq!(three.peer.hears("b", "ev"), json!([1]));
    three
        .peer
        .call(json!({"do": "emit", "via": "emitter", "event": "all"}));
    three.peer.hears("a", "all");
    three.peer.hears("b", "all");
    assert_eq!(three.peer.heard_else(), Vec::<Value>::new());
    // No server is there: an emitter hears nothing, and nothing is written for it.
    three
        .peer
        .call(json!({"do": "say", "name": "a", "event": "say", "args": [1]}));
    three.peer.hears("b", "say");
    for gateway in &three.gateways {
        assert_eq!(gateway.metric("sockeye_foreign_written_total"), 0.0);
    }
}

/// The task for Node servers read each letter, though none was there: a fifth of a publisher's CPU. The first message is heard all the same, both ways.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn letters_were_read_for_node_servers_though_none_was_there() {
    const READ: &str = "sockeye_foreign_letters_read_total";
    let redis = Redis::start();
    let gateways: [Gateway; 2] = super::nodes(&redis);
    let mut clients = NodePeer::start(&redis.url(), "none", "/");
    for (name, gateway) in [("a", &gateways[0]), ("b", &gateways[1])] {
        let url = format!("http://{}", gateway.addr);
        clients.call(json!({"do": "client", "name": name, "rooms": ["r1"], "url": url}));
    }
    for n in 0..200 {
        clients.call(json!({"do": "say", "name": "a", "event": "say", "args": [n]}));
        assert_eq!(clients.hears("b", "say"), json!([n]));
    }
    for gateway in &gateways {
        assert_eq!(gateway.metric(READ), 0.0);
    }
    for adapter in ["classic", "sharded"] {
        let mut server = NodePeer::start(&redis.url(), adapter, "/");
        server.call(json!({"do": "client", "name": "n", "rooms": ["r1"]}));
        // Its first word reaches clients of both, and theirs reaches its client: nothing was said before. To a room, the sharded adapter speaks by the
        // room's own channel, which is listened to when the server is known.
        server.call(json!({"do": "emit", "event": "first", "args": [adapter]}));
        for client in ["a", "b"] {
            assert_eq!(clients.hears(client, "first"), json!([adapter]));
        }
        // A name of its own: what was said in the last 1.5 s is told to a server that comes, and the one before was answered then.
        let answer = format!("answer-{adapter}");
        clients.call(json!({"do": "say", "name": "a", "event": answer, "args": [adapter]}));
        assert_eq!(clients.hears("b", &answer), json!([adapter]));
        assert_eq!(server.hears("n", &answer), json!([adapter]));
    }
    assert!(gateways[0].metric(READ) >= 1.0);
}

/// Messages between the subscription of a Node server and the moment in which gateways know of it.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_server_hears_what_is_said_before_anybody_knows_of_it() {
    let redis = Redis::start();
    let gateways: [Gateway; 2] = super::nodes(&redis);
    let mut clients = NodePeer::start(&redis.url(), "none", "/");
    let url = format!("http://{}", gateways[0].addr);
    clients.call(json!({"do": "client", "name": "a", "rooms": ["r1"], "url": url}));
    let url = format!("http://{}", gateways[1].addr);
    clients.call(json!({"do": "client", "name": "b", "rooms": ["r1"], "url": url}));
    let mut server = NodePeer::start(&redis.url(), "classic", "/");
    server.call(json!({"do": "client", "name": "n", "rooms": ["r1"]}));
    // It says nothing: that it is there is found out by counting.
    clients.call(json!({"do": "say", "name": "a", "event": "first", "args": [1]}));
    assert_eq!(clients.hears("b", "first"), json!([1]));
    assert_eq!(server.hears("n", "first"), json!([1]));
}

/// As the emitter for the streams adapter writes it, which npm does not have; and what is no entry of anybody.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn entries_that_emitters_append_to_the_stream_reach_clients_of_gateways() {
    let redis = Redis::start();
    let gateways: [Gateway; 2] = super::nodes(&redis);
    let mut members = [&gateways[0], &gateways[1]].map(|gateway| super::member(gateway, "r1"));
    let readers = || redis.ask(&["CLIENT", "LIST"]).matches("cmd=xread").count() == 2;
    assert!(eventually(PATIENCE, readers));
    let append = |fields: &[&str]| {
        let command = ["XADD", "socket.io", "MAXLEN", "~", "10000", "*"];
        redis.ask(&[&command[..], fields].concat());
    };
    let entry = |data: &str| append(&["uid", "emitter", "nsp", "/", "type", "3", "data", data]);
    append(&["nothing", "known"]);
    append(&["uid", "x", "nsp", "/", "type", "5"]);
    for data in [
        "",
        "{",
        "{}",
        "garbage",
        "wA==",
        r#"{"packet":null,"opts":{}}"#,
    ] {
        entry(data);
    }
    entry(
        r#"{"packet":{"type":2,"data":["ev",{"n":1}],"nsp":"/"},"opts":{"rooms":["r1"],"except":[],"flags":{}}}"#,
    );
    for member in &mut members {
        assert_eq!(member.expect("ev"), [json!({"n": 1})]);
    }
    for gateway in &gateways {
        // It is told after what was carried out.
        let refused = gateway.reaches("sockeye_foreign_refused_total", 8.0);
        assert!(refused >= 8.0, "{refused}");
    }
}

/// The steps of docs/cluster.md: Node servers, both, gateways. Clients of all talk at each step.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn clients_move_from_node_servers_to_gateways_step_by_step() {
    let redis = Redis::start();
    let mut old = NodePeer::start(&redis.url(), "classic", "/");
    old.call(json!({"do": "client", "name": "n", "rooms": ["r1"]}));
    let gateways: [Gateway; 2] = super::nodes(&redis);
    let mut clients = NodePeer::start(&redis.url(), "none", "/");
    for (name, gateway) in [("a", &gateways[0]), ("b", &gateways[1])] {
        let url = format!("http://{}", gateway.addr);
        clients.call(json!({"do": "client", "name": name, "rooms": ["r1"], "url": url}));
    }
    // Both: whoever speaks is heard everywhere.
    assert!(eventually(PATIENCE, || {
        clients.call(json!({"do": "say", "name": "a", "event": "both", "args": []}));
        clients.hears("b", "both");
        std::thread::sleep(std::time::Duration::from_millis(50));
        old.heard_else().iter().any(|line| line["event"] == "both")
    }));
    old.call(json!({"do": "emit", "to": ["r1"], "event": "old"}));
    clients.hears("a", "old");
    clients.hears("b", "old");
    // The last Node server goes; the gateways go on.
    drop(old);
    clients.call(json!({"do": "say", "name": "b", "event": "alone", "args": []}));
    clients.hears("a", "alone");
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_gateway_that_was_killed_is_not_waited_for() {
    let mut three = three("classic");
    // Dropping one kills it.
    drop(three.gateways.pop());
    let ask = json!({"do": "ask", "to": ["r1"], "event": "ask", "timeout": 20_000, "args": [1]});
    assert!(eventually(PATIENCE, || {
        let answers = three.peer.call(ask.clone());
        answers.as_array().is_some_and(|answers| answers.len() == 2)
    }));
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_room_is_one_room_on_a_redis_of_three_masters() {
    for adapter in ["classic", "sharded"] {
        a_room_is_one_room(three_on_a_cluster(adapter));
    }
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_server_asks_the_sockets_of_gateways_on_a_redis_of_three_masters() {
    for adapter in ["classic", "sharded"] {
        node_asks_the_sockets_of_gateways(three_on_a_cluster(adapter));
    }
}
