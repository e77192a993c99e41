//! `[rates]` and `[admission]`: who may send how much, and when newcomers wait.

use super::{Key, Kind, Profile};

pub(super) fn rates() -> Vec<Key> {
    vec![
        Key::new(
            "rates.session",
            Kind::Rate,
            "",
            "Messages of one connection or polling session, such as `\"100/60s\"`, or `\"100/60s fixed\"` if nothing more \
             may come in the same 60 seconds.",
        )
        .on(Profile::Public, "100/60s"),
        Key::new(
            "rates.user",
            Kind::Rate,
            "",
            "Messages of one user (uid of its token), over all its connections.",
        ),
        Key::new(
            "rates.address",
            Kind::Rate,
            "",
            "Messages from one address (IPv6: one /64), over all its connections.",
        )
        .on(Profile::Public, "1000/60s"),
        Key::new(
            "rates.connects",
            Kind::Rate,
            "",
            "New sessions from one address; more get 429 with Retry-After.",
        ),
        Key::new(
            "rates.dry_run",
            Kind::Bool,
            "false",
            "Count what would be rejected, and let it pass.",
        ),
    ]
}

pub(super) fn admission() -> Vec<Key> {
    let percent = Kind::Integer { min: 0, max: 100 };
    vec![
        Key::new(
            "admission.turn_max",
            Kind::Duration,
            "500ms",
            "Mean duration of a shard's turn above which newcomers wait; `0s` = no bound.",
        ),
        Key::new(
            "admission.ask_max",
            Kind::Duration,
            "2s",
            "Mean time to verify a token above which newcomers wait; `0s` = no bound.",
        ),
        Key::new(
            "admission.memory_percent_max",
            percent,
            "90",
            "Memory in use, percent of `memory_max`, from which newcomers wait; 0 = no bound.",
        ),
        Key::new(
            "admission.memory_percent_shed",
            percent,
            "95",
            "The same for closing the clients with the most unread output; 0 = never.",
        ),
        Key::new(
            "admission.memory_max",
            Kind::Size,
            "",
            "Memory the process may have; unset = what its control group (container) or the machine has.",
        ),
    ]
}
