//! `[compat]`: servers of Node and Python in the same cluster.

use crate::config::typed::{Bytes, choice, section};
use compat::clustered::Mode;
use compat::plane::Membership;

choice! {
    Membership { "auto" => Membership::Auto, "always" => Membership::Always, "never" => Membership::Never }
    Mode { "dynamic" => Mode::Dynamic, "dynamic-private" => Mode::DynamicPrivate, "static" => Mode::Static }
}

section! {
    /// Servers of Node and Python in the same cluster.
    Compat = "compat." {
        enabled: Option<bool> = "",
            "Whether such servers and emitters are heard at all: they know no secret, so whoever can publish to Redis is one. Unset means: unless \
             `cluster.secret` is set. While they are not heard, the first one that speaks is named in the log.";
        classic: Membership = "auto",
            "Node servers with `createAdapter` of `@socket.io/redis-adapter`, and emitters. `auto`: they are listened to, and a \
             namespace is written to while such a server is there. `always`: it is always written to. `never`: neither.";
        sharded: Membership = "auto",
            "The same for Node servers with `createShardedAdapter`; Redis 7.0 or newer.";
        sharded_mode: Mode = "dynamic",
            "`subscriptionMode` of these servers.";
        streams: Membership = "auto",
            "The same for Node servers with `@socket.io/redis-streams-adapter`, and emitters that append to their stream. Servers with this \
             adapter and servers with `createAdapter` must not share a prefix: questions of the first end the processes of the second.";
        stream: String = "socket.io",
            "`streamName` of these servers; their `streamCount` must be 1.";
        prefix: String = "socket.io",
            "`key` and `channelPrefix` of these servers and emitters.";
        list_bytes_max: Bytes = "8MiB",
            "The largest list of sockets or rooms that a Node server gets (`fetchSockets`, `allRooms`). It is one message, and Redis cuts \
             off subscribers that have more waiting than `client-output-buffer-limit pubsub`. A server that asks for a larger one reports a \
             timeout.";
        python: bool = "false",
            "Servers and emitters of python-socketio, 5.14 or newer, in the channel `socketio`.";
    }
}
