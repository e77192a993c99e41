//! Commands of a bus that a node reads again after another one was killed: each client gets each of them once.

use crate::rig::net::Client;
use crate::rig::nodes::Nodes;
use hub::config::Config;
use hub::{
    ConnectRequest, Context, Decision, Emit, Event, Handler, Keeping, Keeps, SocketKey, Spot,
};
use std::sync::Arc;

/// Carries out commands of one partition, by their numbers.
struct Reader {
    keeps: bool,
}

impl Handler for Reader {
    fn connecting(&mut self, _: &mut Context<'_>, _: &ConnectRequest<'_>) -> Decision {
        Decision::Admit
    }

    fn keeping(&self) -> Arc<Keeping> {
        let keeps = self.keeps.then(Keeps::default);
        Arc::new(Keeping::new([("/".to_owned(), keeps)]))
    }

    fn event(&mut self, cx: &mut Context<'_>, socket: SocketKey, event: Event<'_>) {
        if event.name == "join" {
            cx.socket(socket).join("den").expect("a good name");
            return;
        }
        let spot = Spot {
            source: "kafka:g:t/0".into(),
            number: event.args.parse().expect("a number"),
            time_ms: 1,
        };
        let command = Emit {
            spot: Some(&spot),
            ..Emit::new("news", event.args)
        };
        let _ = cx.of("/").to(&["den"]).emit(&command);
    }
}

struct World {
    nodes: Nodes,
    clients: Vec<(usize, Client)>,
}

impl World {
    /// Three nodes, with a member of the room on each of their shards.
    fn new(keeps: bool) -> Self {
        let mut nodes = Nodes::new(3, &Config::default(), || Box::new(Reader { keeps }));
        let places = (0..6).map(|n| (n / 2, n % 2));
        let clients = places.map(|(node, shard)| {
            let client = nodes.client(node, shard);
            nodes.say(node, client, "42[\"join\"]");
            (node, client)
        });
        let clients = clients.collect();
        Self { nodes, clients }
    }

    /// A shard carries them out.
    fn carry(&mut self, at: usize, numbers: &[u64]) {
        let (node, client) = self.clients[at];
        for number in numbers {
            let text = format!("42[\"carry\",{number}]");
            self.nodes.say(node, client, &text);
        }
    }

    /// What each client of a node got.
    fn heard(&mut self, node: usize) -> Vec<Vec<u64>> {
        let clients: Vec<Client> = self
            .clients
            .iter()
            .filter(|(of, _)| *of == node)
            .map(|(_, client)| *client)
            .collect();
        let number = |text: &String| {
            let text = text.strip_prefix("42[\"news\",")?;
            text.strip_suffix(']')?.parse().ok()
        };
        let texts = clients.into_iter().map(|client| {
            let texts = self.nodes.texts(node, client);
            texts.iter().filter_map(number).collect()
        });
        texts.collect()
    }
}

#[test]
fn what_a_killed_node_had_not_committed_comes_once() {
    for keeps in [false, true] {
        let mut world = World::new(keeps);
        // The last node misses one.
        world.nodes.cut_off(2, true);
        world.carry(0, &[7]);
        world.nodes.cut_off(2, false);
        world.carry(0, &[8]);
        assert_eq!(world.heard(1), [[7, 8], [7, 8]]);
        world.nodes.dies(0);
        world.carry(2, &[7]);
        world.carry(3, &[8, 9]);
        assert_eq!(world.heard(1), [[9], [9]], "keeps: {keeps}");
        assert_eq!(world.heard(2), [[8, 7, 9], [8, 7, 9]], "keeps: {keeps}");
        // And once more by the third.
        world.nodes.dies(1);
        world.carry(4, &[7, 8, 9, 10]);
        assert_eq!(world.heard(2), [[10], [10]], "keeps: {keeps}");
    }
}

/// Nodes of the version before are sent events as they know them.
#[test]
fn a_node_that_reads_no_places_gets_all() {
    let mut world = World::new(false);
    world.nodes.reads_spots(0, false);
    world.carry(0, &[7]);
    assert_eq!(world.heard(1), [[7], [7]]);
    world.carry(0, &[7]);
    assert_eq!(world.heard(0), [[7], [7]]);
    assert_eq!(world.heard(1), [[7], [7]]);
}
