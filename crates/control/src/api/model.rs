//! Requests and answers of the server API, in JSON.

use super::object;
use rules::Wanted;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use types::Target;
use utoipa::ToSchema;

fn root() -> String {
    "/".to_owned()
}

/// A request about sockets: its own members and those that choose the sockets.
macro_rules! about_sockets {
    ($(#[$meta:meta])* $name:ident { $($(#[$field:meta])* $member:ident: $kind:ty,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$field])* pub $member: $kind,)*
            /// The namespace; `/` if it is left out.
            #[serde(default = "root")]
            #[schema(default = "/", pattern = "^/")]
            pub namespace: String,
            /// Members of these rooms.
            #[serde(default)]
            pub rooms: Vec<String>,
            /// Sockets of these users.
            #[serde(default)]
            pub users: Vec<String>,
            /// Sockets with these ids.
            #[serde(default)]
            pub sockets: Vec<String>,
            /// No members of these rooms, and no sockets with these ids.
            #[serde(default)]
            pub except: Vec<String>,
            /// Only sockets of the node that is asked.
            #[serde(default)]
            pub local: bool,
            /// All sockets of the namespace. Needed if `rooms`, `users` and `sockets` name nobody.
            #[serde(default)]
            pub all: bool,
        }

        impl $name {
            /// Takes out the members that choose the sockets.
            pub(super) fn target(&mut self) -> Target {
                Target {
                    namespace: std::mem::take(&mut self.namespace),
                    rooms: std::mem::take(&mut self.rooms),
                    users: std::mem::take(&mut self.users),
                    sockets: std::mem::take(&mut self.sockets),
                    except: std::mem::take(&mut self.except),
                    local: self.local,
                    all: self.all,
                    without: Vec::new(),
                }
            }
        }
    };
}

/// A call that changes something.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) of: Target,
    /// The caller waits until the store of history has it.
    pub(crate) stored: bool,
    pub(crate) wanted: Wanted,
}

about_sockets! {
    /// An event for sockets. One of `rooms`, `users`, `sockets` and `all` is needed.
    Emit {
        /// Name of the event.
        #[schema(min_length = 1, example = "news")]
        event: String,
        /// Arguments of the event: any JSON values. They reach clients as they are written here.
        #[serde(default)]
        #[schema(value_type = Vec<serde_json::Value>, example = json!(["hello", {"n": 1}]))]
        args: Vec<Box<RawValue>>,
        /// Bytes in base64. Each stands in `args` once, as `{"_placeholder":true,"num":N}`.
        #[serde(default)]
        attachments: Vec<String>,
        /// Clients that cannot take it this instant do not get it.
        #[serde(default)]
        volatile: bool,
        /// Wait for the answers of all receivers.
        #[serde(default, deserialize_with = "object::or_nothing")]
        #[schema(nullable = false)]
        ack: Option<Ack>,
        /// Wait until the store of history has the event in all of `rooms`.
        #[serde(default)]
        stored: bool,
    }
}

/// How long answers are waited for.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Ack {
    /// Milliseconds, 60 seconds at most.
    #[schema(minimum = 1, maximum = 60_000, example = 2_000)]
    pub timeout_ms: u64,
}

about_sockets! {
    /// Puts sockets into rooms. One of `rooms`, `users`, `sockets` and `all` is needed.
    Join {
        /// The rooms that they join.
        #[schema(min_items = 1, example = json!(["sports"]))]
        join: Vec<String>,
    }
}

about_sockets! {
    /// Takes sockets out of rooms. One of `rooms`, `users`, `sockets` and `all` is needed.
    Leave {
        /// The rooms that they leave.
        #[schema(min_items = 1, example = json!(["sports"]))]
        leave: Vec<String>,
    }
}

about_sockets! {
    /// Puts sockets out. One of `rooms`, `users`, `sockets` and `all` is needed.
    Disconnect {
        /// Their connections end as well, with all namespaces.
        #[serde(default)]
        close: bool,
    }
}

/// The gateway has it, and will do it.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
pub struct Accepted {
    /// Always `true`.
    pub accepted: bool,
    /// `false`: other nodes cannot be reached now, and only the sockets of this one are concerned.
    pub everywhere: bool,
    /// `true`: the store of history has it. Only with `stored` in the request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stored: bool,
}

/// The result of an event that wanted answers. Each socket that was meant is in one of the four counts.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct Collected {
    /// Sockets that answered.
    pub acked: u64,
    /// Sockets that got the event and did not answer in time.
    pub timed_out: u64,
    /// Sockets that got the event and left before they answered.
    pub gone: u64,
    /// Sockets that did not get the event, because a shard waits for too many answers already.
    pub undelivered: u64,
    /// All sockets on all nodes got the event and answered, and all their answers are here.
    pub complete: bool,
    /// In no order; fewer than `acked` if not all could be kept.
    pub answers: Vec<Answer>,
}

/// One client's answer.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct Answer {
    /// The client's answer.
    #[schema(value_type = Vec<serde_json::Value>)]
    pub args: Box<RawValue>,
    /// Bytes in base64, for the placeholders in `args`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<String>,
}

/// A page of sockets, in the order of their ids.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Sockets {
    /// The sockets.
    pub sockets: Vec<Socket>,
    /// The `after` of the next page; none on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// `false`: a node did not answer in time, or there are more sockets than a list can hold.
    pub complete: bool,
}

/// A socket.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Socket {
    /// Its id.
    pub id: String,
    /// The rooms that it is in, and the room of its own id.
    pub rooms: Vec<String>,
    /// Data that a handler attached to it.
    #[schema(value_type = serde_json::Value)]
    pub data: Box<RawValue>,
}

/// A page of rooms, in the order of their names. The rooms that sockets have for themselves are not among them.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Rooms {
    /// The rooms.
    pub rooms: Vec<Room>,
    /// The `after` of the next page; none on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// `false`: a node did not answer in time, or there are more sockets than could be counted.
    pub complete: bool,
}

/// A room and its members.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Room {
    /// Its name.
    pub room: String,
    /// How many sockets are in it.
    pub sockets: u64,
}

/// How many sockets are in a room.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Count {
    /// The name of the room.
    pub room: String,
    /// How many sockets are in it.
    pub sockets: u64,
    /// `false`: a node did not answer in time, or there are more sockets than could be counted.
    pub complete: bool,
}

/// The result of an order.
#[derive(Clone, Debug)]
pub(crate) enum Done {
    Accepted(Accepted),
    Collected(Collected),
}

/// The members of a room.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Members {
    /// The room.
    pub room: String,
    /// Members on all nodes.
    pub count: u64,
    /// `false`: other nodes did not answer yet, or cannot be asked now, so that some of their members may be missing.
    pub complete: bool,
    /// None where there are too many for names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<Vec<Member>>,
}

/// A member of a room: a user, or a socket without one.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Member {
    /// The user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The chosen members of its data.
    #[schema(value_type = Option<serde_json::Value>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub info: Option<Box<RawValue>>,
}

/// A page of what a room said.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct HistoryPage {
    /// Newest first; with `after`, oldest first.
    pub events: Vec<HistoryEvent>,
    /// The `before` of the next page, or its `after` if this one was asked for by `after`; none on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// An event that a store has.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct HistoryEvent {
    /// Its place in the room.
    pub at: String,
    /// The time when it was published, in ms since 1970.
    pub time: u64,
    /// Its name.
    pub event: String,
    /// Its arguments.
    #[schema(value_type = Vec<serde_json::Value>)]
    pub args: Box<RawValue>,
    /// The user of the client that said it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// The result of a deletion.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct Deleted {
    /// Events that the store does not have any more.
    pub deleted: u64,
    /// `false`: other nodes cannot be reached now, and their rooms may still show their last events to those who join.
    pub everywhere: bool,
}

/// Events of another store, or of an export.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Import {
    /// The namespace of the room; `/` if it is left out.
    #[serde(default = "root")]
    #[schema(default = "/", pattern = "^/")]
    pub namespace: String,
    /// The room.
    pub room: String,
    /// Oldest first. They get places behind all that the namespace has.
    #[serde(deserialize_with = "object::list")]
    #[schema(min_items = 1, max_items = 1_000)]
    pub events: Vec<ImportEvent>,
}

/// An event as [`HistoryEvent`] shows it.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportEvent {
    /// Its place where it comes from. It gets another one.
    #[expect(dead_code, reason = "lines of an export have it")]
    #[serde(default)]
    #[schema(nullable = false)]
    pub at: Option<String>,
    /// The time when it was published, in ms since 1970.
    pub time: u64,
    /// Its name.
    #[schema(min_length = 1)]
    pub event: String,
    /// Its arguments.
    #[schema(value_type = Vec<serde_json::Value>)]
    pub args: Vec<Box<RawValue>>,
    /// The user of the client that said it.
    #[serde(default)]
    #[schema(nullable = false)]
    pub user: Option<String>,
}

/// The result of an import.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct Imported {
    /// Events that the store has now.
    pub stored: u64,
}
