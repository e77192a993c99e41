//! What a room costs a process with many shards.

use crate::rig::net::Net;
use crate::rig::{handler, lab_rules};
use hub::config::Config;

/// One-member rooms of one shard among so many: the net, with all clients still in it.
fn rooms(shards: usize, rooms: usize) -> Net {
    let mut config = Config::default();
    config.limits.rooms_per_socket_max = rooms;
    let mut net = Net::new(shards, &config, |_| handler(&lab_rules()));
    let client = net.client(0);
    net.settle();
    let joins = (0..rooms).map(|n| format!("42[\"join\",\"room-{n:05}\"]"));
    net.say_all(client, joins);
    net
}

/// Each room was a slot of every shard, and each first join a letter to each of them.
#[test]
fn a_room_was_announced_to_every_shard() {
    let mut net = rooms(8, 100);
    net.pass(1_000);
    assert_eq!(net.routes(), [], "letters about rooms that have one member");
    let elsewhere: usize = (1..8).map(|at| net.hub(at).census().rooms).sum();
    assert_eq!(elsewhere, 0);
}

/// Prints the bytes: `cargo test -p hub --test dialogues bytes_of_a_room -- --nocapture`.
#[test]
fn bytes_of_a_room_do_not_grow_with_the_shards() {
    const ROOMS: usize = 1_000;
    let of_rooms = |net: &Net, shards: usize| -> usize {
        let parts = (0..shards).flat_map(|at| net.hub(at).memory());
        parts
            .filter(|(part, _)| *part == "rooms")
            .map(|(_, n)| n)
            .sum()
    };
    let [one, two, eight] = [1, 2, 8].map(|shards| {
        // What each shard has without rooms.
        let bytes = of_rooms(&rooms(shards, ROOMS), shards) - of_rooms(&rooms(shards, 0), shards);
        println!(
            "a room of one member costs {} bytes on {shards} shards",
            bytes / ROOMS
        );
        bytes / ROOMS
    });
    assert!(two - one < 250, "a card costs {}", two - one);
    assert!(
        eight <= two + 8,
        "{two} bytes on two shards, {eight} on eight"
    );
}

/// Clients that joined and left many rooms left tables behind that were as large as all their rooms.
#[test]
fn rooms_that_were_left_cost_nothing() {
    const ROOMS: usize = 20_000;
    let mut config = Config::default();
    config.limits.rooms_per_socket_max = ROOMS;
    let mut net = Net::new(1, &config, |_| handler(&lab_rules()));
    net.checks = false;
    let clients = [(); 10].map(|()| net.client(0));
    let bytes = |net: &Net| -> usize {
        let parts = net.hub(0).memory();
        let parts = parts
            .iter()
            .filter(|(part, _)| ["rooms", "sockets"].contains(part));
        parts.map(|(_, bytes)| bytes).sum()
    };
    net.pass(1_000);
    let before = bytes(&net);
    for what in ["join", "leave"] {
        for (who, client) in clients.iter().enumerate() {
            let rooms = (0..ROOMS / 10).map(|n| format!("42[\"{what}\",\"room-{who}-{n}\"]"));
            net.say_all(*client, rooms);
        }
        if what == "join" {
            assert!(bytes(&net) > before + 100 * ROOMS, "{} bytes", bytes(&net));
        }
    }
    // A turn looks at its share of the rooms.
    (0..30).for_each(|_| net.pass(1_000));
    let after = bytes(&net);
    assert!(
        after < before + 150_000,
        "{before} bytes before, {after} after"
    );
}
