//! Lists of sockets of all nodes, and what they keep.

use crate::rig::net::Client;
use crate::rig::nodes::Nodes;
use hub::config::Config;
use hub::{ConnectRequest, Context, Decision, Event, Found, Handler, SocketKey};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Clone, Default)]
struct Asker(Arc<Mutex<Option<Found>>>);

impl Handler for Asker {
    fn connecting(&mut self, _: &mut Context<'_>, _: &ConnectRequest<'_>) -> Decision {
        Decision::Admit
    }

    fn connected(&mut self, cx: &mut Context<'_>, socket: SocketKey, _: &str) {
        cx.socket(socket).join("room").expect("a good name");
    }

    fn event(&mut self, cx: &mut Context<'_>, _: SocketKey, _: Event<'_>) {
        cx.of("/").to(&["room"]).fetch(Duration::from_secs(5), 1);
    }

    fn found(&mut self, _: &mut Context<'_>, _: u64, found: Found) {
        *self.0.lock().expect("nobody panicked") = Some(found);
    }
}

const NODES: usize = 4;
const SHARDS: usize = 2;

/// Four nodes with so many sockets in a room, and one of them.
fn crowd(asker: &Asker, sockets: usize) -> (Nodes, Client) {
    let build = || Box::new(asker.clone()) as Box<dyn Handler>;
    let mut nodes = Nodes::with_room(32 << 20, NODES as u16, &Config::default(), build);
    (0..NODES).for_each(|node| nodes.net(node).checks = false);
    let first = nodes.client(0, 0);
    for n in 1..sockets {
        nodes.net(n % NODES).client(n / NODES % SHARDS);
    }
    nodes.settle();
    (nodes, first)
}

/// Of all shards of a node.
fn kept(nodes: &mut Nodes, node: usize) -> u64 {
    let cells = nodes.net(node).cells.iter();
    let kept = cells.flat_map(|cells| &cells.kept);
    kept.map(|bytes| bytes.load(Ordering::Relaxed)).sum()
}

/// 50,000 sockets may be asked for.
#[test]
fn a_list_of_all_nodes_is_kept_once_and_in_few_bytes() {
    const SOCKETS: usize = 4_000;
    let asker = Asker::default();
    let (mut nodes, first) = crowd(&asker, SOCKETS);
    nodes.net(0).say(first, "42[\"fetch\"]");
    let own = kept(&mut nodes, 0) as usize;
    let each = own / (SOCKETS / NODES / SHARDS);
    assert!((50..400).contains(&each), "{each} bytes for each socket");
    assert!(each * 50_000 < 20 << 20, "{each} bytes for each socket");
    nodes.settle();
    for node in 0..NODES {
        assert_eq!(kept(&mut nodes, node), 0, "node {node}");
    }
    let found = asker.0.lock().expect("nobody panicked").take();
    let found = found.expect("a list");
    assert_eq!((found.sockets.len(), found.complete), (SOCKETS, true));
}
