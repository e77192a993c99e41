//! Clients of the conformance application's `/lab`, the same number on each of four shards.

use super::client::{Event, SocketIo};
use serde_json::{Value, json};
use std::net::SocketAddr;

pub const SHARDS: usize = 4;
/// Connections tried until each shard has its share; the kernel spreads them by a hash.
const TRIES_MAX: usize = 2_000;

/// Time in milliseconds since 2024 and shard, as a socket's id names them: 41 bits of time, 10 of node, 13 of sequence
/// whose upper eight are the shard.
pub fn parts(id: &str) -> (u64, usize) {
    let id = wire::base64url::Id20::decode(id.as_bytes()).expect("an id of 20 characters");
    let snowflake = id.0[..8]
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte));
    (snowflake >> 23, (snowflake >> 5) as usize & 0xff)
}

/// `per_shard` WebSocket clients on each shard, in turn: client `n` is on shard `n % 4`.
pub fn lab(addr: SocketAddr, per_shard: usize, auth: impl Fn(usize) -> Value) -> Vec<SocketIo> {
    let mut places: Vec<Option<SocketIo>> = (0..per_shard * SHARDS).map(|_| None).collect();
    let mut counts = [0; SHARDS];
    for _ in 0..TRIES_MAX {
        if counts.iter().all(|count| *count == per_shard) {
            break;
        }
        // The id is only known once connected, and the place decides about the user: look first.
        let mut client = SocketIo::websocket(addr, "/lab", json!({}));
        let shard = parts(&client.id).1;
        if counts[shard] == per_shard {
            client.leave_session();
            continue;
        }
        let place = counts[shard] * SHARDS + shard;
        counts[shard] += 1;
        client.rejoin(auth(place));
        places[place] = Some(client);
    }
    places
        .into_iter()
        .map(|client| client.expect("a client on every shard"))
        .collect()
}

/// What each client got until now: client 0 sends everyone a marker.
pub fn heard(clients: &mut [SocketIo]) -> Vec<Vec<Event>> {
    clients[0].emit("all", &["marker".into()]);
    clients
        .iter_mut()
        .map(|client| client.until("marker"))
        .collect()
}

/// Numbers of the clients that got something.
pub fn hearers(heard: &[Vec<Event>]) -> Vec<usize> {
    (0..heard.len()).filter(|n| !heard[*n].is_empty()).collect()
}
