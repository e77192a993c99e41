//! The keys of `[namespaces."/"]` and of the rules in it. The operator chooses the names of namespaces and events.

use super::{EMPTY_LIST, Key};
use crate::config::layer::{Layer, Path};
use crate::config::typed::{Field, JsonText, Typed, Whole, choice};
use hub::config::{Offsets, Parser, Rate, SlowConsumer};
use std::time::Duration;

/// Where the keys of a namespace are.
pub(super) const NAMESPACE: &str = "namespaces.*";

/// What a rule does with its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    Rooms,
    Reply,
    Backend,
    Kafka,
    Nats,
    Drop,
}

/// The treatment of events that are large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LargeEvents {
    Through,
    Store,
    Refuse,
}

/// How far recovery reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryLevel {
    Off,
    Node,
    Cluster,
}

choice! {
    RecoveryLevel { "off" => RecoveryLevel::Off, "node" => RecoveryLevel::Node, "cluster" => RecoveryLevel::Cluster }
    Offsets { "all" => Offsets::All, "asked" => Offsets::Asked }
    LargeEvents { "through" => LargeEvents::Through, "store" => LargeEvents::Store, "refuse" => LargeEvents::Refuse }
    Reaction {
        "rooms" => Reaction::Rooms, "reply" => Reaction::Reply, "backend" => Reaction::Backend, "kafka" => Reaction::Kafka,
        "nats" => Reaction::Nats, "drop" => Reaction::Drop,
    }
}

/// Makes the type of a table that may stand in several places: `field: Type = "default", "meaning.";`.
macro_rules! table {
    ($(#[$about:meta])* $name:ident {
        $($field:ident: $type:ty = $default:expr $(=> $modifier:ident())*, $doc:expr;)*
    }) => {
        $(#[$about])*
        #[derive(Debug)]
        pub struct $name { $(pub $field: Field<$type>),* }

        impl $name {
            fn keys(prefix: &str) -> Vec<Key> {
                vec![$(
                    Key::new(&format!("{prefix}.{}", stringify!($field)), <$type>::KIND, $default, $doc)$(.$modifier())*
                ),*]
            }

            fn read(layer: &Layer, table: &[&str]) -> Self {
                let place = |name| Path::new(&[table, &[name]].concat());
                $name { $($field: Field::read_at(layer, place(stringify!($field)), $default)),* }
            }
        }
    };
}

pub(super) use table;

table! {
    Namespace {
        backend: Option<String> = "",
            "Name of the backend (`[backends.NAME]`) whose workers decide who may join, and get every event that has no rule \
             here. The profile's rules for the namespace do not count then.";
        chat: bool = "false",
            "The chat events: every socket is in room `global`, `chat-message` is checked, stamped with an \
             id and sent to its room, members are told how many they are.";
        client_joins: bool = "false",
            "Clients may emit `join` and `leave` with the name of a room.";
        auto_join: Vec<String> = EMPTY_LIST,
            "Rooms that every socket is put into when it connects.";
        compression: bool = "true",
            "`false`: nothing of this namespace is ever compressed. For messages that hold a secret \
             beside text of other people.";
        uncompressed_rooms: Vec<String> = EMPTY_LIST,
            "The same for some rooms only.";
        parser: Option<Parser> = "",
            "Parser of the Socket.IO clients of this namespace; unset means `socketio.parser`.";
        slow_consumer: Option<SlowConsumer> = "",
            "The policy for events of this namespace for which a slow client has no room; unset means \
             `limits.slow_consumer`.";
        conflate_by: Option<String> = "",
            "For `conflate`: a member of the event's first argument, such as `symbol`. Only the newest \
             event of each name, room and value of that member waits for a slow client.";
        large: LargeEvents = "through",
            "Events above `large.threshold` that are for rooms: `through` sends them like all others, `store` puts the body into a store and sends \
             members a reference (`large_message`), `refuse` refuses them.";
        kafka_lifecycle: bool = "false",
            "The beginnings and ends of its sockets are written to `kafka.out.topic` (`X-Event` is `Connect` or `Disconnect`).";
        nats_lifecycle: bool = "false",
            "They are published to `nats.out.subject`, with the names `connect` and `disconnect`.";
    }
}

table! {
    /// The treatment of clients that lose their connection and come back.
    Recovery {
        level: RecoveryLevel = "off",
            "`node`: a Socket.IO client that loses its connection and comes back within `window`, to this node or to another that can take part \
             ([recovery.md](recovery.md#other-nodes)), has its socket again: its id, its rooms, and all that was said to it meanwhile. `cluster`: also when its node died \
             ([recovery.md](recovery.md#when-a-node-dies)); all that is said goes through a stream in the Redis of `[cluster]` first. `off`: it is a \
             new socket.";
        window: Duration = "2m",
            "For so long a socket without a connection is kept. It leaves lists and counts at once, and handlers are told of its end.";
        offsets: Offsets = "all",
            "The clients that can come back: each of their events has one more argument, its offset. `all` Socket.IO clients, as with \
             Socket.IO's own recovery; or only those that `asked` for it, by `query: {recovery: 1}`. Only the JavaScript client knows what \
             to do with offsets, and elsewhere a handler may not expect one more argument.";
        replicas: Whole<0, 16> = "0",
            "With level `cluster`: what is said counts as stored when so many replicas of Redis have it, so that a failover loses none of it. While \
             there are fewer, nobody can say anything. `0`: the master's word is enough.";
    }
}

table! {
    /// The rooms of a namespace whose members are told who is there.
    RoomPresence {
        enabled: bool = "false",
            "Members of a room get the event `sockeye:presence` when others come or go, and may ask by it for the list (docs/presence.md).";
        rooms: Vec<String> = "*",
            "Rooms that have it; `*` in a name stands for any text.";
        grace: Duration = "15s",
            "A member whose connection was lost is still there for so long, unless it comes back; `5m` at most. A socket without a user that \
             [recovery](recovery.md) does not keep is gone at once.";
        names_max: Whole<1, 10_000> = "1000",
            "With more members a room is counted, and nobody is named.";
        info: Vec<String> = EMPTY_LIST,
            "Members of a socket's data (an object) that others see beside its user: those that a worker set, `name` in the chat profile.";
    }
}

table! {
    /// A rule for one event, or for all events without a rule of their own.
    Event {
        action: Reaction = "rooms",
            "`rooms` sends the event on to the members of a room, `reply` back to its sender, \
             `drop` nowhere, `backend` to the namespace's backend, `kafka` to `kafka.out.topic`, `nats` to `nats.out.subject`. For `chat-message`, `join` and `leave` an action \
             replaces what the gateway does itself; a rule without one refines it.";
        room: Option<String> = "",
            "Room for `rooms`, unless the client names one (`room_field`); unset means every room the sender is in.";
        room_field: Option<String> = "",
            "Member of the first argument (an object) by which a client names the room for `rooms`; plain clients may \
             also say `room` beside the payload.";
        echo: bool = "false",
            "`rooms` includes the sender.";
        schema: Option<JsonText> = "",
            "JSON Schema that the first argument must fulfil.";
        schema_file: Option<String> = "",
            "The same from a file, relative to this one.";
        rate: Option<Rate> = "",
            "Events that one socket may send; more are refused. `\"100/60s fixed\"`: nothing more in the same 60 seconds; \
             without `fixed`, what was used comes back evenly. `chat-message` of `chat` has `\"10/s\"` if nothing is set.";
        history: bool = "false",
            "Keep events of this name, whoever says them, for those who join their rooms later; volatile ones and those with \
             binary attachments are not kept.";
        kafka: bool = "false",
            "The event is written to `kafka.out.topic` before the action is done. Of `join` and `leave`, those are written that changed something.";
        nats: bool = "false",
            "The event is published to `nats.out.subject`, likewise.";
    }
}

impl Namespace {
    pub fn of(layer: &Layer, name: &str) -> Self {
        Namespace::read(layer, &["namespaces", name])
    }
}

impl Recovery {
    pub fn of(layer: &Layer, namespace: &str) -> Self {
        Recovery::read(layer, &["namespaces", namespace, "recovery"])
    }
}

impl RoomPresence {
    pub fn of(layer: &Layer, namespace: &str) -> Self {
        RoomPresence::read(layer, &["namespaces", namespace, "presence"])
    }
}

impl Event {
    pub fn of(layer: &Layer, namespace: &str, event: &str) -> Self {
        Event::read(layer, &["namespaces", namespace, "events", event])
    }

    /// The rule for events without one of their own.
    pub fn default_of(layer: &Layer, namespace: &str) -> Self {
        Event::read(layer, &["namespaces", namespace, "default"])
    }
}

pub fn keys() -> Vec<Key> {
    let events = Event::keys(&format!("{NAMESPACE}.events.*"));
    let mut default = Event::keys(&format!("{NAMESPACE}.default"));
    for key in default
        .iter_mut()
        .filter(|key| key.path.ends_with(".action"))
    {
        key.default = Some(super::literal(&key.path, key.kind, "drop"));
    }
    let mut keys = Namespace::keys(NAMESPACE);
    keys.extend(Recovery::keys(&format!("{NAMESPACE}.recovery")));
    keys.extend(RoomPresence::keys(&format!("{NAMESPACE}.presence")));
    keys.extend(default.into_iter().chain(events));
    keys
}
