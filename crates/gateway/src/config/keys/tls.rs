//! `[tls]`: certificates and the addresses that use them.

use super::EMPTY_LIST;
use crate::config::typed::{choice, section};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    V12,
    V13,
}

/// What a client gets that asks for a name no certificate has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownName {
    Default,
    Refuse,
}

choice! {
    TlsVersion { "1.2" => TlsVersion::V12, "1.3" => TlsVersion::V13 }
    UnknownName { "default" => UnknownName::Default, "refuse" => UnknownName::Refuse }
}

section! {
    /// Certificates and the addresses that use them.
    Tls = "tls." {
        listen: Vec<String> = EMPTY_LIST,
            "Public addresses that speak TLS (`https://`, `wss://`), beside `server.listen`.";
        cert: Vec<String> = EMPTY_LIST
            => live(),
            "PEM files, each a certificate and its chain. With several, clients get the one that \
             has the name they ask for (SNI).";
        key: Vec<String> = EMPTY_LIST
            => live(),
            "PEM files with the keys of `cert`, in the same order.";
        min_version: TlsVersion = "1.2"
            => live(),
            "Oldest TLS version accepted.";
        unknown_name: UnknownName = "default"
            => live(),
            "The answer to a client that asks for a name no certificate has: the first certificate, \
             or a refusal.";
        check_interval: Duration = "1m"
            => live(),
            "How often the files are looked at for changes; `0s` for only on SIGHUP.";
    }
}
