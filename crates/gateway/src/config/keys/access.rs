//! `[rates]` and `[admission]`: who may send how much, and when newcomers wait.

use super::Profile;
use crate::config::typed::{Bytes, Whole, choice, section};
use hub::config::Rate;
use std::time::Duration;

/// The nodes for which a limit holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitScope {
    /// On each node of its own.
    Node,
    /// On all nodes together.
    Cluster,
}

choice! {
    LimitScope { "node" => LimitScope::Node, "cluster" => LimitScope::Cluster }
}

section! {
    /// How much a client may send.
    Rates = "rates." {
        session: Option<Rate> = ""
            => on(Profile::Public, "100/60s"),
            "Messages of one connection or polling session, such as `\"100/60s\"`, or `\"100/60s fixed\"` if nothing more \
             may come in the same 60 seconds.";
        user: Option<Rate> = "",
            "Messages of one user (uid of its token), over all its connections.";
        user_scope: LimitScope = "node",
            "`cluster`: `user` holds for all nodes together, which share it by way of Redis; `node`: for each node.";
        address: Option<Rate> = ""
            => on(Profile::Public, "1000/60s"),
            "Messages from one address (IPv6: one /64), over all its connections.";
        address_scope: LimitScope = "node",
            "Where `address` holds, as with `user_scope`.";
        connects: Option<Rate> = "",
            "New sessions from one address; more get 429 with Retry-After.";
        connects_scope: LimitScope = "node",
            "Where `connects` holds, as with `user_scope`.";
        dry_run: bool = "false",
            "Count what would be rejected, and let it pass.";
    }
}

section! {
    /// When newcomers wait.
    Admission = "admission." {
        turn_max: Duration = "500ms",
            "Mean duration of a shard's turn above which newcomers wait; `0s` = no bound.";
        ask_max: Duration = "2s",
            "Mean time to verify a token above which newcomers wait; `0s` = no bound.";
        memory_percent_max: Whole<0, 100> = "90",
            "Memory in use, percent of `memory_max`, from which newcomers wait; what is free goes back to the system first; 0 = no bound.";
        memory_percent_shed: Whole<0, 100> = "95",
            "The same for closing the clients with the most unread output; 0 = never.";
        memory_max: Option<Bytes> = "",
            "Memory the process may have; unset = what its control group (container) or the machine has.";
    }
}
