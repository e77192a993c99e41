//! Two conformance applications and a Node server with the same handlers in one cluster: every operation is tried from each of the
//! three, and must do the same.

use crate::e2e::application::Application;
use crate::harness::{PATIENCE, eventually};
use client::RawConn;
use client::brief::{Poller, poll_request, post_request};
use client::full::{Event, SocketIo, bytes};
use serde_json::{Value, json};
use servers::{Cluster, Redis, Reference};

/// Servers, each with a client in rooms r1 and 42; that of the second is in r2 as well.
struct Lab {
    clients: Vec<SocketIo>,
    servers: Vec<std::net::SocketAddr>,
    round: u64,
    /// Whether messages of the Node server keep their order.
    node_orders: bool,
    _nodes: Vec<Application>,
    reference: Reference,
    _redis: Servers,
}

enum Servers {
    One { _redis: Redis },
    Six { _cluster: Cluster },
}

/// `adapter`: of the Node server. `told`: what our nodes are told of it; nothing = they find out.
fn lab(adapter: &str, told: &[&str], more: &[&str]) -> Lab {
    let redis = Redis::start();
    let urls = vec![redis.url()];
    start(&urls, adapter, told, more, Servers::One { _redis: redis })
}

/// The same on a Redis of three masters with a replica each.
fn lab_on_six(adapter: &str) -> Lab {
    let cluster = Cluster::start();
    let urls: Vec<String> = cluster.nodes.iter().map(Redis::url).collect();
    start(&urls, adapter, &[], &[], Servers::Six { _cluster: cluster })
}

fn start(urls: &[String], adapter: &str, told: &[&str], more: &[&str], redis: Servers) -> Lab {
    let list = urls.join(",");
    let node = |number: &str| {
        let flags = ["--redis", &list, "--node", number];
        Application::start_with(&[&flags, told].concat())
    };
    let nodes = vec![node("3"), node("4")];
    let reference = Reference::start(urls, adapter, more);
    let servers: Vec<_> = nodes.iter().map(|node| node.addr).collect();
    let mut lab = Lab {
        clients: Vec::new(),
        servers: [&servers[..], &[reference.addr]].concat(),
        round: 0,
        // Node's client of a Redis Cluster gives each master its share of what is published.
        node_orders: matches!(redis, Servers::One { .. }),
        _nodes: nodes,
        reference,
        _redis: redis,
    };
    lab.clients = (0..3).map(|at| lab.client(at, &["r1", "42"])).collect();
    lab.clients[1].ask("join", &[json!("r2")]);
    lab.settle();
    lab
}

impl Lab {
    fn client(&self, at: usize, rooms: &[&str]) -> SocketIo {
        let user = json!({"user": format!("u{at}")});
        let mut client = SocketIo::websocket(self.servers[at], "/lab", user);
        for room in rooms {
            // A number is a room of its own in Node.
            let room = room
                .parse::<u64>()
                .map_or(json!(room), |number| json!(number));
            client.ask("join", &[room]);
        }
        client
    }

    /// Until each server hears the others: nobody tells when a Node server has subscribed.
    fn settle(&mut self) {
        let heard_by_all = eventually(PATIENCE, || {
            self.round += 1;
            for at in 0..3 {
                let args = [json!("settle"), json!(at), json!(self.round)];
                self.clients[at].emit("all", &args);
            }
            // Words of its own server come at once; the others have a moment.
            std::thread::sleep(std::time::Duration::from_millis(50));
            let round = self.round;
            self.clients.iter_mut().all(|client| {
                client.emit("local", &[json!("end"), json!(round)]);
                let mut heard = Vec::new();
                loop {
                    let event = client.next();
                    match event.name.as_str() {
                        "end" if event.args == [json!(round)] => break,
                        _ => heard.push(event),
                    }
                }
                let was_heard = |at: u64| {
                    heard.iter().any(|event| {
                        event.name == "settle" && event.args == [json!(at), json!(round)]
                    })
                };
                (0..3).all(was_heard)
            })
        });
        assert!(heard_by_all, "every server hears the others");
        self.quiet();
    }

    /// Everything that each client heard up to now, from each server.
    fn quiet(&mut self) -> Vec<Vec<Event>> {
        self.round += 1;
        let fence = format!("fence{}", self.round);
        for client in &mut self.clients {
            client.emit("all", &[json!(fence)]);
        }
        let until_all = |client: &mut SocketIo| {
            let parts = (0..3).flat_map(|_| client.until(&fence));
            parts.filter(|event| !is_noise(event)).collect()
        };
        self.clients.iter_mut().map(until_all).collect()
    }

    /// The next so many events of a client.
    fn next(&mut self, at: usize, count: usize) -> Vec<Event> {
        let client = &mut self.clients[at];
        let events = std::iter::repeat_with(|| client.next());
        let events = events.filter(|event| !is_noise(event));
        events.take(count).collect()
    }

    /// Does something, and compares what each client hears. A room may have a channel of its own, at another Redis than others, so
    /// what must come is waited for first.
    fn heard(&mut self, what: &str, from: usize, args: &[Value], expected: [&[Value]; 3]) {
        self.clients[from].emit(what, args);
        for (at, expected) in expected.into_iter().enumerate() {
            for event in self.next(at, usize::from(!expected.is_empty())) {
                assert_eq!(
                    event.args, expected,
                    "{what} {args:?} from {from}, heard at {at}"
                );
            }
        }
        let more = self.quiet().concat();
        assert_eq!(more, [], "{what} {args:?} from {from}");
    }

    /// Ids of the sockets in a room, as one server knows them.
    fn fetched(&mut self, from: usize, room: Value) -> Vec<Value> {
        let answer = self.clients[from].ask("fetch", &[room]);
        assert_eq!(answer[0], Value::Null, "{answer:?}");
        let found = answer[1].as_array().expect("a list");
        let mut found: Vec<Value> = found.iter().map(|socket| socket["id"].clone()).collect();
        found.sort_by_key(Value::to_string);
        found
    }

    fn ids(&self) -> Vec<Value> {
        let mut ids: Vec<Value> = self.clients.iter().map(|client| json!(client.id)).collect();
        ids.sort_by_key(Value::to_string);
        ids
    }

    /// Waits until each server says that a room has these members: a Node server does itself what it orders when Redis brings it back.
    fn has_members(&mut self, room: &str, members: &[Value]) {
        for from in 0..3 {
            let are_there = || self.fetched(from, json!(room)) == members;
            assert!(eventually(PATIENCE, are_there), "{room} at {from}");
        }
    }

    fn broadcasts(&mut self, from: usize) {
        let rest = [
            json!({"n": 1}),
            json!("té"),
            json!(1.5),
            json!(null),
            bytes(&[1, 2, 255]),
        ];
        let all: [&[Value]; 3] = [&rest, &rest, &rest];
        let none: &[Value] = &[];
        let but =
            |at: usize| std::array::from_fn(|other| if other == at { none } else { &rest[..] });
        let only =
            |at: usize| std::array::from_fn(|other| if other == at { &rest[..] } else { none });
        let with = |head: &[Value]| [head, &[json!("ev")], &rest].concat();
        self.heard("to", from, &with(&[json!("r1")]), but(from));
        self.heard("to", from, &with(&[json!(["r1", "r2", 42])]), but(from));
        self.heard("in", from, &with(&[json!("r1")]), all);
        self.heard("in", from, &with(&[json!(42)]), all);
        self.heard("in", from, &with(&[json!("r2")]), only(1));
        self.heard("in", from, &with(&[json!("nobody")]), [none; 3]);
        self.heard("except", from, &with(&[json!("r2")]), but(1));
        self.heard("all", from, &with(&[]), all);
        self.heard("local", from, &with(&[]), only(from));
        for at in 0..3 {
            let id = json!(self.clients[at].id);
            self.heard("in", from, &with(&[id]), only(at));
        }
        let date = [json!("2023-11-14T22:13:20.123Z")];
        let args = [json!("ev"), json!(1_700_000_000_123_u64)];
        self.heard("all-date", from, &args, [&date, &date, &date]);
        for n in 0..20 {
            self.clients[from].emit("in", &[json!("r1"), json!("n"), json!(n)]);
        }
        let expected: Vec<Value> = (0..20).map(Value::from).collect();
        for at in 0..3 {
            let heard = self.next(at, 20);
            let mut numbers: Vec<Value> = heard.into_iter().flat_map(|event| event.args).collect();
            if from == 2 && !self.node_orders {
                numbers.sort_by_key(Value::as_u64);
            }
            assert_eq!(numbers, expected, "in order, from {from}");
        }
    }

    /// Asks a room from one server; each client answers unless it is `silent`. Returns the asker's result, and its answers in order.
    fn collected(
        &mut self,
        from: usize,
        room: &str,
        ms: u64,
        silent: Option<usize>,
    ) -> (Value, Vec<Value>) {
        let members = if room == "r1" { 3 } else { 0 };
        let question = [
            json!(room),
            json!(ms),
            json!("question"),
            json!(7),
            bytes(&[9]),
        ];
        self.clients[from].ask_later("collect", &question);
        for (at, client) in self.clients.iter_mut().enumerate().take(members) {
            let asked = client.next_named("question");
            assert_eq!(asked.args, [json!(7), bytes(&[9])]);
            if silent != Some(at) {
                let answer = json!({"from": at, "bytes": bytes(&[at as u8])});
                client.answer(asked.ack.expect("a question"), &[answer, json!("more")]);
            }
        }
        let answer = self.clients[from].ack();
        let mut answers = answer[1].as_array().expect("answers").clone();
        answers.sort_by_key(Value::to_string);
        (answer[0].clone(), answers)
    }

    fn questions(&mut self, from: usize) {
        let answer = |at: u8| json!({"from": at, "bytes": bytes(&[at])});
        let all = vec![answer(0), answer(1), answer(2)];
        assert_eq!(self.collected(from, "r1", 30_000, None), (json!(null), all));
        assert_eq!(
            self.collected(from, "nobody", 30_000, None),
            (json!(null), Vec::new())
        );
        let late = (json!("operation has timed out"), vec![answer(0), answer(2)]);
        assert_eq!(self.collected(from, "r1", 700, Some(1)), late);

        assert_eq!(self.fetched(from, json!("r1")), self.ids());
        assert_eq!(self.fetched(from, json!(null)), self.ids());
        assert_eq!(self.fetched(from, json!("nobody")), Vec::<Value>::new());
        let found = self.clients[from].ask("fetch", &[json!("r2")]);
        let socket = &found[1][0];
        assert_eq!(socket["data"]["user"], "u1", "{found:?}");
        let rooms = socket["rooms"].as_array().expect("rooms");
        assert_eq!(rooms[0], json!(self.clients[1].id));
        for room in ["r1", "r2"] {
            assert!(rooms.contains(&json!(room)), "{found:?}");
        }
    }

    fn servers(&mut self, from: usize) {
        assert_eq!(self.clients[from].ask("server-count", &[]), [json!(3)]);
        // No bytes: the classic adapter writes them as JSON does.
        let x = json!({"n": 1, "list": ["té", 1.5, null]});
        let told = [x.clone()];
        let ping = [json!("ping-nodes"), x.clone()];
        let others = std::array::from_fn(|at| if at == from { &[][..] } else { &told[..] });
        self.heard("server-side-emit", from, &ping, others);
        let answer = self.clients[from].ask("server-side-ask", &ping);
        assert_eq!(answer, [json!(null), json!([{"pong": x}, {"pong": x}])]);
    }

    fn orders(&mut self, from: usize) {
        let moved = format!("moved{from}");
        let everybody = self.ids();
        self.clients[from].emit("sockets-join", &[json!("r1"), json!(moved)]);
        self.has_members(&moved, &everybody);
        let second = json!(self.clients[1].id);
        self.clients[from].emit("sockets-leave", &[json!("r2"), json!(moved)]);
        let others: Vec<Value> = everybody.into_iter().filter(|id| *id != second).collect();
        self.has_members(&moved, &others);
        self.clients[from].emit("sockets-leave", &[json!("r1"), json!(moved)]);
        self.has_members(&moved, &[]);
        for close in [true, false] {
            let room = format!("kicked{from}");
            let mut guests: Vec<SocketIo> = (0..3).map(|at| self.client(at, &[&room])).collect();
            self.clients[from].emit("sockets-kick", &[json!(room), json!(close)]);
            for guest in &mut guests {
                assert_eq!(
                    guest.until_closed().2,
                    "disconnect packet",
                    "close: {close}"
                );
            }
            self.has_members(&room, &[]);
        }
    }
}

fn is_noise(event: &Event) -> bool {
    ["settle", "end"].contains(&event.name.as_str()) || event.name.starts_with("fence")
}

fn every_operation(mut lab: Lab) {
    for from in 0..3 {
        lab.broadcasts(from);
        lab.questions(from);
        lab.servers(from);
        lab.orders(from);
    }
    assert!(lab.reference.is_alive());
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn every_operation_does_the_same_from_each_server_beside_the_classic_adapter() {
    every_operation(lab("classic", &[], &[]));
}

/// As in Node: a server without a listener says nothing, and the asker waits in vain.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn servers_without_a_listener_are_told_of_by_an_error() {
    let mut lab = lab("classic", &[], &[]);
    let unknown = [json!("nobody-listens"), json!(1)];
    let answer = lab.clients[0].ask("server-side-ask", &unknown);
    assert!(
        answer[0].is_string() && answer[1] == json!([]),
        "{answer:?}"
    );
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn every_operation_does_the_same_from_each_server_beside_the_sharded_adapter() {
    every_operation(lab("sharded", &[], &[]));
}

/// We are not told the mode: servers in each of them hear us in the same channel.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn every_operation_does_the_same_beside_the_sharded_adapter_in_static_mode() {
    every_operation(lab("sharded", &[], &["--sharded-mode", "static"]));
}

/// There each socket has a channel: what a Node server sent to the id of one socket of a gateway did not arrive.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn every_operation_does_the_same_beside_the_sharded_adapter_in_private_mode() {
    let mode = ["--sharded-mode", "dynamic-private"];
    every_operation(lab("sharded", &mode, &mode));
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn every_operation_does_the_same_from_each_server_beside_the_streams_adapter() {
    every_operation(lab("streams", &[], &[]));
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn every_operation_does_the_same_on_a_redis_of_three_masters() {
    for adapter in ["classic", "sharded", "streams"] {
        every_operation(lab_on_six(adapter));
    }
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn every_operation_does_the_same_where_the_adapter_is_told() {
    for adapter in ["classic", "sharded", "streams"] {
        every_operation(lab(adapter, &["--adapter", adapter], &[]));
    }
}

/// Its first shard, which hears for the node, had not told anybody that it is there.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_without_clients_heard_nothing_of_other_servers() {
    let redis = Redis::start();
    let start = || Application::start_with(&["--redis", &redis.url()]);
    let nodes = [start(), start()];
    let mut client = SocketIo::websocket(nodes[0].addr, "/lab", json!({}));
    let both_count = || client.ask("server-count", &[]) == [json!(2)];
    assert!(eventually(PATIENCE, both_count));
    let ping = [json!("ping-nodes"), json!(1)];
    let answer = client.ask("server-side-ask", &ping);
    assert_eq!(answer, [json!(null), json!([{"pong": 1}])]);
}

/// The application dropped connections that were to be relayed.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_poll_at_the_other_application_had_no_answer() {
    let redis = Redis::start();
    let start = || Application::start_with(&["--redis", &redis.url()]);
    let nodes = [start(), start()];
    let session = Poller::connect(nodes[0].addr);
    let answered = eventually(PATIENCE, || {
        RawConn::exchange(nodes[1].addr, post_request(&session.sid, "3")).status == 200
    });
    assert!(answered);
    let event = post_request(&session.sid, r#"421["message-with-ack",7]"#);
    assert_eq!(RawConn::exchange(nodes[1].addr, event).body, "ok");
    let polled = RawConn::exchange(nodes[1].addr, poll_request(&session.sid));
    assert_eq!(polled.body, "431[7]");
}
