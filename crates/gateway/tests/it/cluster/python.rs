//! A python-socketio server in the cluster: each of its manager's methods, in both directions.

use super::questions::{api, post};
use crate::harness::{Gateway, PATIENCE, eventually};
use ::client::full::SocketIo;
use serde_json::{Value, json};
use servers::{Python, Redis};

/// A Python server with the client `n`, and a gateway with a client: both are in r1.
struct Two {
    python: Python,
    gateway: Gateway,
    member: SocketIo,
    there: String,
    _redis: Redis,
}

fn two() -> Two {
    let redis = Redis::start();
    let more = format!("{}[compat]\npython = true\n", api());
    let [gateway]: [Gateway; 1] = super::nodes_with(&redis, &more);
    let mut python = Python::start(&redis.url());
    let there = python.client("n", &["r1"], None);
    let mut two = Two {
        member: super::member(&gateway, "r1"),
        python,
        gateway,
        there,
        _redis: redis,
    };
    // Until each hears the other.
    assert!(eventually(PATIENCE, || {
        two.member.emit("up", &[]);
        std::thread::sleep(std::time::Duration::from_millis(50));
        let heard = two.python.heard_else();
        heard.iter().any(|line| line["event"] == "up")
    }));
    two
}

impl Two {
    /// A method of the manager.
    fn manage(&mut self, method: &str, args: Value, options: Value) {
        let command = json!({"do": method, "args": args, "options": options});
        self.python.tell(&command);
    }

    fn emit(&mut self, event: &str, room: &str) {
        self.manage("emit", json!([event, null]), json!({"room": room}));
    }

    fn post(&self, path: &str, body: Value) {
        assert_eq!(post(&self.gateway, path, &body).0, 202, "{path} {body}");
    }
}

const BYTES: &str = "0102ff";

#[test]
#[ignore = "needs Python: cargo xtask test foreign"]
fn python_servers_and_gateways_share_rooms() {
    let mut two = two();
    let args = json!(["ev", {"$tuple": [{"n": 1}, "té", {"$bytes": BYTES}]}]);
    two.manage("emit", args, json!({"room": "r1"}));
    let heard = json!([{"n": 1}, "té", {"bytes": BYTES}]);
    assert_eq!(Value::from(two.member.expect("ev")), heard);
    assert_eq!(two.python.hears("n", "ev")[1], "té");
    let args = [json!({"n": 2}), json!({"bytes": BYTES})];
    two.member.emit("say", &args);
    assert_eq!(
        two.python.hears("n", "say"),
        json!([{"n": 2}, {"$bytes": BYTES}])
    );
    // Sockets may be left out.
    let skip = json!({"room": "r1", "skip_sid": two.member.id});
    two.manage("emit", json!(["others", null]), skip);
    two.emit("all", "r1");
    assert!(two.member.until("all").is_empty());
    two.post(
        "/v1/emit",
        json!({"event": "others", "rooms": ["r1"], "except": [two.there]}),
    );
    two.post("/v1/emit", json!({"event": "end", "rooms": ["r1"]}));
    two.python.hears("n", "end");
    let twice = two.python.heard_else();
    let twice: Vec<&Value> = twice
        .iter()
        .filter(|line| line["event"] == "others")
        .collect();
    assert_eq!(twice.len(), 1, "the one of its own server: {twice:?}");
}

#[test]
#[ignore = "needs Python: cargo xtask test foreign"]
fn an_emitter_in_python_reaches_clients_of_gateways() {
    let mut two = two();
    let options = json!({"room": "r1"});
    let emit = json!({"do": "emit", "via": "emitter", "args": ["ev", 1], "options": options});
    two.python.tell(&emit);
    assert_eq!(two.member.expect("ev"), [json!(1)]);
}

#[test]
#[ignore = "needs Python: cargo xtask test foreign"]
fn a_python_server_asks_and_moves_and_disconnects_a_socket_of_a_gateway() {
    let mut two = two();
    let id = two.member.id.clone();
    two.python.tell(
        &json!({"do": "emit", "args": ["ask", 1], "options": {"room": id}, "callback": true}),
    );
    let asked = two.member.next_named("ask");
    let ack = asked.ack.expect("it wants an ack");
    two.member.answer(ack, &[json!("fine"), json!(2)]);
    assert_eq!(two.python.callback(), json!(["fine", 2]));

    two.manage("enter_room", json!([id, "/", "r2"]), json!({}));
    two.emit("entered", "r2");
    two.member.expect("entered");
    two.manage("leave_room", json!([id, "/", "r2"]), json!({}));
    two.emit("left", "r2");
    two.manage("close_room", json!(["r1", "/"]), json!({}));
    two.emit("closed", "r1");
    two.emit("end", &id);
    assert!(two.member.until("end").is_empty());
    two.manage("disconnect", json!([id, "/"]), json!({}));
    two.member.until_closed();
}

#[test]
#[ignore = "needs Python: cargo xtask test foreign"]
fn a_gateway_moves_and_disconnects_a_socket_of_a_python_server() {
    let mut two = two();
    let n = two.there.clone();
    let heard = |two: &mut Two| {
        let heard = two.python.heard_else();
        let events = heard.iter().map(|line| line["event"].clone());
        // On a busy machine what was said at the beginning comes late.
        events.filter(|event| event != "up").collect::<Vec<_>>()
    };
    two.post("/v1/join", json!({"sockets": [n], "join": ["r2"]}));
    two.post("/v1/emit", json!({"event": "joined", "rooms": ["r2"]}));
    two.python.hears("n", "joined");
    two.post("/v1/leave", json!({"sockets": [n], "leave": ["r2"]}));
    two.post("/v1/emit", json!({"event": "left", "rooms": ["r2"]}));
    // All members of a room at once: Python's close_room.
    two.post("/v1/leave", json!({"rooms": ["r1"], "leave": ["r1"]}));
    two.post("/v1/emit", json!({"event": "closed", "rooms": ["r1"]}));
    two.post("/v1/emit", json!({"event": "end", "sockets": [n]}));
    two.python.hears("n", "end");
    assert_eq!(heard(&mut two), Vec::<Value>::new());
    two.post("/v1/disconnect", json!({"sockets": [n]}));
    two.python.hears("n", "disconnect");
}
