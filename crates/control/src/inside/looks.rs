//! Sessions, rooms and ends of this node, as its shards see them.

use backend::Name;
use hub::metrics::Scope;
use hub::{Ended, SeenRoom, SeenSession, SeenSocket, UsedRate};
use serde::Serialize;
use std::collections::HashMap;
use std::ops::Add;
use std::sync::Arc;
use utoipa::ToSchema;
use workers::Windows;

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
    /// The name of the client's program (`User-Agent`), from its first request; `null`: it gave none, or there are too many different ones.
    agent: Option<String>,
    /// Names and kinds of the claims of the token that was good last, 24 at most; empty without one. Each socket has its user and its end.
    claims: Vec<ClaimOfToken>,
    /// The kernel's figures of its connection, when one session is asked for; `null`: it has none now, or the system does not tell.
    kernel: Option<Kernel>,
    /// Bytes that wait for the client.
    waiting_bytes: usize,
    /// Bytes that came from the client and are no whole message yet.
    input_bytes: usize,
    /// How long the last ping is unanswered, milliseconds; `null` if it was answered.
    silent_ms: Option<u32>,
    /// The time from the last ping that was answered to the answer, milliseconds, 65,535 at most; `null` before the first, and of clients that ping by
    /// themselves (Engine.IO 3).
    round_trip_ms: Option<u16>,
    /// Messages that were rejected for their rate, less those accepted since.
    rejections: u16,
    /// What is used of the rates that hold for its messages; empty without such rates.
    rates: Vec<RateUsed>,
    /// Its sockets, eight at most.
    sockets: Vec<Socket>,
    /// How many it has.
    socket_count: usize,
}

/// What is used of a rate.
#[derive(Debug, Serialize, ToSchema)]
struct RateUsed {
    /// Whose rate it is: `session`, `user` or `address`.
    scope: &'static str,
    /// Messages that count still.
    used: u32,
    /// Messages that may pass at once; where nodes share the rate, this node's part of them.
    of: u32,
}

impl From<UsedRate> for RateUsed {
    fn from(rate: UsedRate) -> Self {
        Self {
            scope: Scope::NAMES[rate.scope as usize],
            used: rate.used,
            of: rate.of,
        }
    }
}

/// A TCP connection as the kernel sees it. With a proxy in front it is the proxy's.
#[derive(Debug, Serialize, ToSchema)]
struct Kernel {
    /// Smoothed round-trip time, microseconds.
    rtt_us: u32,
    /// How much it varies, microseconds.
    rtt_var_us: u32,
    /// Segments that were sent again since it began.
    retransmits: u32,
    /// Timeouts in a row, without an answer since.
    timeouts: u8,
    /// Bytes that were sent and not acknowledged.
    unacked_bytes: u32,
    /// Bytes that the kernel has not sent yet.
    unsent_bytes: u32,
}

impl From<hub::Kernel> for Kernel {
    fn from(kernel: hub::Kernel) -> Self {
        Self {
            rtt_us: kernel.rtt_us,
            rtt_var_us: kernel.rtt_var_us,
            retransmits: kernel.retransmits,
            timeouts: kernel.backoff,
            unacked_bytes: kernel.unacked_bytes,
            unsent_bytes: kernel.unsent_bytes,
        }
    }
}

/// A claim of a token. The value may be a secret, and is not shown.
#[derive(Debug, Serialize, ToSchema)]
struct ClaimOfToken {
    name: String,
    /// `text`, `number`, `boolean`, `list`, `object` or `null`.
    kind: String,
}

fn claims(lines: &str) -> Vec<ClaimOfToken> {
    let pairs = lines.lines().filter_map(|line| line.rsplit_once('\t'));
    let claim = |(name, kind): (&str, &str)| ClaimOfToken {
        name: name.to_owned(),
        kind: kind.to_owned(),
    };
    pairs.map(claim).collect()
}

/// The worker that a socket has.
#[derive(Debug, Serialize, ToSchema)]
struct WorkerOfSocket {
    backend: String,
    /// Its own name for itself.
    instance: String,
}

impl Session {
    /// Asks which workers have its sockets.
    pub(super) async fn find_workers(&mut self, windows: &Windows) {
        let names = self.sockets.iter();
        let names: Vec<Name> = names.filter_map(|socket| Name::parse(&socket.id)).collect();
        let holders = windows.holders_of(&names).await;
        for (socket, holder) in self.sockets.iter_mut().zip(holders) {
            socket.worker = holder.map(|(backend, instance)| WorkerOfSocket {
                backend: backend.to_owned(),
                instance,
            });
        }
    }
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
    /// The worker that has it, when one session is asked for; `null`: none has, or its backend did not answer in time.
    worker: Option<WorkerOfSocket>,
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
            agent: seen.agent.map(|agent| agent.to_string()),
            claims: seen.claims.map_or_else(Vec::new, |lines| claims(&lines)),
            kernel: seen.kernel.map(Kernel::from),
            waiting_bytes: seen.waiting_bytes,
            input_bytes: seen.input_bytes,
            silent_ms: seen.silent_ms,
            round_trip_ms: seen.round_trip_ms,
            rejections: seen.rejections,
            rates: seen.rates.into_iter().map(RateUsed::from).collect(),
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
            worker: None,
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
    /// In the order that was wanted.
    pub(super) rooms: Vec<Room>,
    /// There are more than these.
    pub(super) more: bool,
    /// `false`: a shard did not answer in time.
    pub(super) complete: bool,
}

/// A room.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = RoomOfNode)]
pub(super) struct Room {
    /// Its namespace.
    namespace: String,
    /// Its name.
    room: String,
    /// Members that are connected to this node.
    members: u64,
    /// Events to it each second, in the last fifteen to thirty seconds, of one event in sixteen; `null` unless the busiest were wanted.
    events_per_second: Option<f64>,
    /// Deliveries of these events to members of this node.
    deliveries_per_second: Option<f64>,
    /// Members of this node for whom bytes wait now; `null` unless the slowest were wanted.
    members_behind: Option<u64>,
    /// Bytes that wait for these members, of this room and of all else that they hear.
    waiting_bytes: Option<u64>,
}

/// Rooms of several shards as one list, in the order of what they are wanted for. Each shard has counted the members on all of them, and the
/// events that it heard of.
pub(super) fn merged(seen: Vec<SeenRoom>, limit: usize) -> Vec<Room> {
    let mut rooms = HashMap::<_, Room>::new();
    for seen in seen {
        let name = (Arc::clone(&seen.namespace), Arc::clone(&seen.name));
        let known = rooms.entry(name).or_insert_with(|| Room {
            namespace: seen.namespace.to_string(),
            room: seen.name.to_string(),
            members: 0,
            events_per_second: None,
            deliveries_per_second: None,
            members_behind: None,
            waiting_bytes: None,
        });
        known.members = known.members.max(seen.members);
        known.events_per_second = larger(known.events_per_second, seen.events_per_s);
        known.deliveries_per_second = sum(known.deliveries_per_second, seen.deliveries_per_s);
        known.members_behind = sum(known.members_behind, seen.behind);
        known.waiting_bytes = sum(known.waiting_bytes, seen.waiting_bytes);
    }
    let mut rooms: Vec<Room> = rooms.into_values().collect();
    rooms.sort_by(|a, b| {
        let busy = |room: &Room| room.deliveries_per_second.unwrap_or_default();
        let by_name = || (&a.namespace, &a.room).cmp(&(&b.namespace, &b.room));
        busy(b)
            .total_cmp(&busy(a))
            .then_with(|| b.waiting_bytes.cmp(&a.waiting_bytes))
            .then_with(|| b.members.cmp(&a.members))
            .then_with(by_name)
    });
    rooms.truncate(limit);
    rooms
}

fn larger(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.into_iter().chain(b).reduce(f64::max)
}

fn sum<T: Add<Output = T>>(a: Option<T>, b: Option<T>) -> Option<T> {
    a.into_iter().chain(b).reduce(|a, b| a + b)
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
            events_per_s: None,
            deliveries_per_s: None,
            behind: None,
            waiting_bytes: None,
        };
        let seen = vec![
            room("a", 1, 3),
            room("b", 5, 5),
            room("a", 2, 3),
            room("c", 9, 9),
        ];
        let rooms = merged(seen, 2);
        let named: Vec<_> = rooms.iter().map(|r| (&*r.room, r.members)).collect();
        assert_eq!(named, [("c", 9), ("b", 5)]);
    }

    #[test]
    fn a_busy_room_is_before_a_large_one_and_each_shard_delivers_its_part() {
        let room = |name: &str, members, events, deliveries| SeenRoom {
            namespace: "/".into(),
            name: name.into(),
            here: 1,
            members,
            events_per_s: Some(events),
            deliveries_per_s: Some(deliveries),
            behind: None,
            waiting_bytes: None,
        };
        let seen = vec![
            room("large", 900, 1.0, 900.0),
            room("busy", 3, 400.0, 800.0),
            room("busy", 3, 380.0, 380.0),
        ];
        let rooms = merged(seen, 9);
        assert_eq!((&*rooms[0].room, rooms[0].members), ("busy", 3));
        let paces = (rooms[0].events_per_second, rooms[0].deliveries_per_second);
        assert_eq!(paces, (Some(400.0), Some(1_180.0)));
    }

    #[test]
    fn a_slow_room_is_before_a_large_one_and_each_shard_adds_its_members() {
        let room = |name: &str, members, behind, waiting| SeenRoom {
            namespace: "/".into(),
            name: name.into(),
            here: 1,
            members,
            events_per_s: None,
            deliveries_per_s: None,
            behind: Some(behind),
            waiting_bytes: Some(waiting),
        };
        let seen = vec![
            room("large", 900, 1, 70_000),
            room("slow", 3, 1, 50_000),
            room("slow", 3, 2, 40_000),
        ];
        let rooms = merged(seen, 9);
        let of = |room: &Room| (room.room.clone(), room.members_behind, room.waiting_bytes);
        assert_eq!(of(&rooms[0]), ("slow".to_owned(), Some(3), Some(90_000)));
    }
}
