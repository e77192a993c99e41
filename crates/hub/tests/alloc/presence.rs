//! What members of rooms with presence cost each node, besides what they cost without.

use crate::IN_USE;
use crate::rig::nodes::Nodes;
use hub::config::{Config, PresenceOf};
use hub::{ConnectRequest, Context, Decision, Event, Handler, SocketKey};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const NODES: usize = 3;
/// As many of each room on each shard.
const MEMBERS: usize = 3_006;
const ROOMS: usize = 3;
const PER_ROOM: usize = MEMBERS / ROOMS;

/// Lets sockets be users and join, and counts the shards that know all members.
struct Door(Arc<AtomicUsize>);

impl Handler for Door {
    fn connecting(&mut self, _: &mut Context<'_>, _: &ConnectRequest<'_>) -> Decision {
        Decision::Admit
    }

    fn event(&mut self, cx: &mut Context<'_>, socket: SocketKey, event: Event<'_>) {
        let word = event.args.trim_matches('"');
        let mut socket = cx.socket(socket);
        match event.name {
            "be" => socket.set_user(word).expect("it is here"),
            "join" => socket.join(word).expect("a good name"),
            _ => {
                let known = cx.present("/", word).expect("it is here");
                assert_eq!((known.joined.len(), known.nameless), (PER_ROOM, false));
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Bytes in use after all came to three nodes of two shards, and everybody was told.
fn in_use(has_presence: bool, users: bool) -> isize {
    let rule = PresenceOf {
        rooms: vec!["*".to_owned()],
        grace: Duration::from_secs(15),
        members_max: PER_ROOM as u32,
        info: Vec::new(),
    };
    let rule = has_presence.then(|| Arc::new(rule));
    let config = Config {
        presence: [("/".to_owned(), rule)].into(),
        ..Config::default()
    };
    let whole = Arc::new(AtomicUsize::new(0));
    let mut nodes = Nodes::new(NODES as u16, &config, || Box::new(Door(Arc::clone(&whole))));
    (0..NODES).for_each(|node| nodes.net(node).checks = false);
    let before = IN_USE.with(Cell::get);
    let mut clients = Vec::with_capacity(6);
    for n in 0..MEMBERS {
        let (node, shard) = (n % NODES, n / NODES % 2);
        let client = nodes.client(node, shard);
        if users {
            nodes.say(node, client, &format!("42[\"be\",\"somebody-{n:011}\"]"));
        }
        let room = format!("room {}", n / 6 % ROOMS);
        nodes.say(node, client, &format!("42[\"join\",\"{room}\"]"));
        if clients.len() < 6 {
            clients.push((node, client, room));
        }
    }
    (0..10).for_each(|_| nodes.pass(300));
    let bytes = IN_USE.with(Cell::get) - before;
    for (node, client, room) in clients.into_iter().filter(|_| has_presence) {
        nodes.say(node, client, &format!("42[\"check\",\"{room}\"]"));
    }
    let shards = if has_presence { 2 * NODES } else { 0 };
    assert_eq!(whole.load(Ordering::Relaxed), shards);
    bytes
}

#[test]
fn a_member_costs_each_node_two_hundred_bytes_at_most() {
    for users in [false, true] {
        let more = in_use(true, users) - in_use(false, users);
        let each = more / (NODES * MEMBERS) as isize;
        eprintln!("presence: {each} bytes for each member and node, users: {users}");
        assert!(each <= 200, "{each}");
    }
}
