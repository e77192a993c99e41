//! `[tls]`: certificates and the addresses that use them.

use super::{EMPTY_LIST, Key};
use crate::config::value::Kind;

pub(super) fn keys() -> Vec<Key> {
    vec![
        Key::new(
            "tls.listen",
            Kind::List,
            EMPTY_LIST,
            "Public addresses that speak TLS (`https://`, `wss://`), beside `server.listen`.",
        ),
        Key::new(
            "tls.cert",
            Kind::List,
            EMPTY_LIST,
            "PEM files, each a certificate and its chain. With several, clients get the one that \
             has the name they ask for (SNI).",
        )
        .live(),
        Key::new(
            "tls.key",
            Kind::List,
            EMPTY_LIST,
            "PEM files with the keys of `cert`, in the same order.",
        )
        .live(),
        Key::new(
            "tls.min_version",
            Kind::Choice(&["1.2", "1.3"]),
            "1.2",
            "Oldest TLS version accepted.",
        )
        .live(),
        Key::new(
            "tls.unknown_name",
            Kind::Choice(&["default", "refuse"]),
            "default",
            "What a client gets that asks for a name no certificate has: the first certificate, \
             or a refusal.",
        )
        .live(),
        Key::new(
            "tls.check_interval",
            Kind::Duration,
            "1m",
            "How often the files are looked at for changes; `0s` for only on SIGHUP.",
        )
        .live(),
    ]
}
