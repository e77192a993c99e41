//! An application moves from Node servers to Sockeye, as docs/node-servers.md says: Node servers, then both, then Sockeye alone. An
//! emitter talks to a room throughout.

use super::{all_up, config};
use crate::harness::{Gateway, PATIENCE, eventually};
use serde_json::{Value, json};
use servers::{NodePeer, Redis};

struct Moving {
    peer: NodePeer,
    said: u64,
}

impl Moving {
    /// A stock client in the room, of the Node server or of a gateway.
    fn enter(&mut self, name: &str, gateway: Option<&Gateway>) {
        let mut command = json!({"do": "client", "name": name, "rooms": ["r1"]});
        if let Some(gateway) = gateway {
            command["url"] = format!("http://{}", gateway.addr).into();
        }
        self.peer.call(command);
    }

    /// The application, which needs no server for that.
    fn talk(&mut self, count: u64) {
        for _ in 0..count {
            self.said += 1;
            self.peer.call(json!({
                "do": "emit", "via": "emitter", "to": ["r1"], "event": "tick", "args": [self.said]
            }));
        }
    }

    /// The client hears what is said from now on: each once, in order.
    fn hears(&mut self, clients: &[&str], count: u64) {
        let first = self.said + 1;
        self.talk(count);
        for client in clients {
            for n in first..first + count {
                assert_eq!(self.peer.hears(client, "tick"), json!([n]), "{client}");
            }
        }
    }

    /// Nobody tells when a server has subscribed: until a client of it hears the emitter.
    fn until_heard(&mut self, client: &str) {
        let mut round = 0;
        let is_heard = eventually(PATIENCE, || {
            round += 1;
            let gate = json!({
                "do": "emit", "via": "emitter", "to": ["r1"], "event": "gate", "args": [round]
            });
            self.peer.call(gate);
            std::thread::sleep(std::time::Duration::from_millis(50));
            let heard = self.peer.heard_else();
            assert!(
                heard.iter().all(|line| line["event"] != "tick"),
                "{heard:?}"
            );
            let mut heard = heard.iter();
            heard.any(|line| line["client"] == client && line["event"] == "gate")
        });
        assert!(is_heard, "{client} hears the emitter");
    }
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn an_application_moves_from_node_servers_to_sockeye_and_talks_throughout() {
    let redis = Redis::start();
    let peer = NodePeer::start(&redis.url(), "classic", "/");
    let mut moving = Moving { peer, said: 0 };
    moving.enter("old", None);
    moving.until_heard("old");
    moving.hears(&["old"], 20);

    // Both: new clients are on gateways.
    let gateways = [(); 2].map(|()| Gateway::start(&config(&redis, "")));
    all_up(&gateways);
    moving.enter("new", Some(&gateways[0]));
    moving.until_heard("new");
    moving.hears(&["old", "new"], 20);
    moving
        .peer
        .call(json!({"do": "say", "name": "new", "event": "say", "args": ["hello"]}));
    assert_eq!(moving.peer.hears("old", "say"), json!(["hello"]));

    // Sockeye alone: clients of the Node server connect to a gateway, by the proxy or by DNS.
    moving.peer.call(json!({"do": "stopServer"}));
    let told = moving.peer.hears("old", "disconnect");
    assert_eq!(told, json!(["transport close"]));
    moving.hears(&["new"], 20);
    moving.enter("moved", Some(&gateways[1]));
    moving.until_heard("moved");
    moving.hears(&["new", "moved"], 20);
    moving
        .peer
        .call(json!({"do": "say", "name": "new", "event": "say", "args": ["still here"]}));
    assert_eq!(moving.peer.hears("moved", "say"), json!(["still here"]));
    assert_eq!(
        moving.peer.heard_else(),
        Vec::<Value>::new(),
        "nothing came twice"
    );
}
