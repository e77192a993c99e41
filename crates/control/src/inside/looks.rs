//! Sessions, rooms and ends of this node, as its shards see them.

use hub::{Ended, SeenRoom, SeenSession, SeenSocket};
use serde::Serialize;
use std::collections::HashMap;
use utoipa::ToSchema;

/// Sessions of this node.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Sessions {
    /// In no order.
    pub(super) sessions: Vec<Session>,
    /// All that fit the question.
    pub(super) matched: u64,
    /// `false`: a shard did not answer in time.
    pub(super) complete: bool,
}

/// A session.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Session {
    /// The beginning of its id. The whole of it is the secret by which its client polls.
    id: String,
    /// Such as `socket.io` or `plain.json`.
    protocol: &'static str,
    /// The version of Engine.IO; `null` without Engine.IO.
    engineio: Option<u8>,
    /// `json` or `msgpack`.
    parser: &'static str,
    /// `polling`, `websocket` or `sse`, as of now.
    transport: &'static str,
    /// A WebSocket is about to take the place of polling.
    upgrading: bool,
    /// Its messages may be compressed.
    compressed: bool,
    /// Another node passes its connection on.
    relayed: bool,
    /// The client's address, as trusted proxies tell it.
    address: String,
    /// Bytes that wait for the client.
    waiting_bytes: usize,
    /// Bytes that came from the client and are no whole message yet.
    input_bytes: usize,
    /// How long the last ping is unanswered, milliseconds; `null` if it was answered.
    silent_ms: Option<u32>,
    /// Messages that were rejected for their rate, less those accepted since.
    rejections: u16,
    /// Its sockets, eight at most.
    sockets: Vec<Socket>,
    /// How many it has.
    socket_count: usize,
}

/// A socket: the session's membership in one namespace.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SocketOfSession)]
pub(super) struct Socket {
    /// Its id.
    id: String,
    /// The namespace that it is in.
    namespace: String,
    /// The user that it belongs to.
    user: Option<String>,
    /// When it joined its namespace, Unix milliseconds. One that came back keeps its first time.
    since_ms: u64,
    /// When its token ends, Unix seconds; `null` if it has no end.
    expires: Option<u32>,
    /// The rooms that it is in, fifty at most.
    rooms: Vec<String>,
    /// How many rooms these are.
    room_count: usize,
    /// Answers that its client owes to events with an ack.
    acks_owed: usize,
    /// Bytes of the data that a handler attached.
    data_bytes: usize,
    /// A client that loses this connection can come back to what it missed.
    recoverable: bool,
    /// It came back so.
    recovered: bool,
}

impl From<SeenSession> for Session {
    fn from(seen: SeenSession) -> Self {
        Self {
            id: format!("{:.8}…", seen.id.to_string()),
            protocol: seen.protocol.name(),
            engineio: seen.engineio,
            parser: if seen.msgpack { "msgpack" } else { "json" },
            transport: seen.transport,
            upgrading: seen.upgrading,
            compressed: seen.compressed,
            relayed: seen.relayed,
            address: seen.peer.to_string(),
            waiting_bytes: seen.waiting_bytes,
            input_bytes: seen.input_bytes,
            silent_ms: seen.silent_ms,
            rejections: seen.rejections,
            sockets: seen.sockets.into_iter().map(Socket::from).collect(),
            socket_count: seen.socket_count,
        }
    }
}

impl From<SeenSocket> for Socket {
    fn from(seen: SeenSocket) -> Self {
        Self {
            id: seen.id.to_string(),
            namespace: seen.namespace.to_string(),
            user: seen.user,
            since_ms: seen.since_ms,
            expires: seen.expires_s,
            rooms: seen.rooms,
            room_count: seen.room_count,
            acks_owed: seen.acks_owed,
            data_bytes: seen.data_bytes,
            recoverable: seen.recoverable,
            recovered: seen.recovered,
        }
    }
}

/// Rooms of this node.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RoomsOfNode)]
pub(super) struct Rooms {
    /// The largest first.
    pub(super) rooms: Vec<Room>,
    /// There are more than these.
    pub(super) more: bool,
    /// `false`: a shard did not answer in time.
    pub(super) complete: bool,
}

/// A room.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = RoomOfNode)]
pub(super) struct Room {
    /// Its namespace.
    namespace: String,
    /// Its name.
    room: String,
    /// Members that are connected to this node.
    members: u64,
}

/// Rooms of several shards as one list. Each shard has counted the members on all of them.
pub(super) fn largest(seen: Vec<SeenRoom>, limit: usize) -> Vec<Room> {
    let mut members = HashMap::new();
    for room in seen {
        let known = members.entry((room.namespace, room.name)).or_insert(0);
        *known = room.members.max(*known);
    }
    let rooms = members
        .into_iter()
        .map(|((namespace, room), members)| Room {
            namespace: namespace.to_string(),
            room: room.to_string(),
            members,
        });
    let mut rooms: Vec<Room> = rooms.collect();
    rooms.sort_by(|a, b| {
        let by_name = || (&a.namespace, &a.room).cmp(&(&b.namespace, &b.room));
        b.members.cmp(&a.members).then_with(by_name)
    });
    rooms.truncate(limit);
    rooms
}

/// Sessions of this node that ended.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Ends {
    /// The newest first. Each shard remembers a thousand.
    pub(super) ends: Vec<End>,
    /// `false`: a shard did not answer in time.
    pub(super) complete: bool,
}

/// The end of a session.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct End {
    /// Unix time, milliseconds.
    pub(super) at_ms: u64,
    /// The session that ended.
    session: String,
    /// The reason, as in `sockeye_closes_total`.
    reason: &'static str,
    /// The client's address, as trusted proxies tell it.
    address: String,
    /// The protocol that its client spoke.
    protocol: &'static str,
    /// `polling`, `websocket` or `sse`, as it was last.
    transport: &'static str,
    /// Its first socket, or the one that left last; `null` if it had none.
    socket: Option<String>,
    /// The namespace of that socket.
    namespace: Option<String>,
    /// The user of that socket.
    user: Option<String>,
    /// Bytes that waited for the client.
    waiting_bytes: usize,
    /// How long a ping was unanswered, milliseconds.
    silent_ms: Option<u32>,
    /// Messages that were rejected for their rate, less those accepted since.
    rejections: u16,
}

impl From<Ended> for End {
    fn from(ended: Ended) -> Self {
        let (socket, namespace) = ended.socket.unzip();
        Self {
            at_ms: ended.at_ms,
            session: ended.session.to_string(),
            reason: ended.reason.name(),
            address: ended.peer.to_string(),
            protocol: ended.protocol,
            transport: ended.transport,
            socket: socket.map(|id| id.to_string()),
            namespace: namespace.map(|name| name.to_string()),
            user: ended.user.map(String::from),
            waiting_bytes: ended.waiting_bytes,
            silent_ms: ended.silent_ms,
            rejections: ended.rejections,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_on_two_shards_is_one_room() {
        let room = |name: &str, here, members| SeenRoom {
            namespace: "/".into(),
            name: name.into(),
            here,
            members,
        };
        let seen = vec![
            room("a", 1, 3),
            room("b", 5, 5),
            room("a", 2, 3),
            room("c", 9, 9),
        ];
        let rooms = largest(seen, 2);
        let named: Vec<_> = rooms.iter().map(|r| (&*r.room, r.members)).collect();
        assert_eq!(named, [("c", 9), ("b", 5)]);
    }
}
