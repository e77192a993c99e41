//! Counters of TLS on one shard. The hub knows no TLS: the shard counts here itself, one writer, and the exporter reads them with
//! the rest of the shard's cells.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why a TLS connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TlsFailure {
    /// The first bytes are no TLS.
    NotTls,
    /// No protocol version in common.
    Version,
    /// No cipher suite, group or signature scheme in common.
    NoCommonCipher,
    /// No certificate for the name that the client asked for.
    UnknownName,
    /// No application protocol in common.
    Alpn,
    /// The peer sent a fatal alert.
    PeerAlert,
    /// Records that cannot be read.
    Malformed,
    /// Records that do not decrypt.
    Decrypt,
    /// Messages that the protocol does not allow there: renegotiation, for one.
    Misbehaved,
    /// Gone, or out of time, in the middle of the handshake.
    Unfinished,
    /// The stream ended without close_notify (RFC 8446 §6.1).
    Truncated,
    Other,
}

impl TlsFailure {
    pub const NAMES: [&'static str; 12] = [
        "not_tls",
        "version",
        "no_common_cipher",
        "unknown_name",
        "alpn",
        "peer_alert",
        "malformed",
        "decrypt",
        "misbehaved",
        "unfinished",
        "truncated",
        "other",
    ];
}

/// How a handshake ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TlsHandshake {
    /// With a certificate.
    Full,
    /// From a ticket.
    Resumed,
    Failed,
}

impl TlsHandshake {
    pub const NAMES: [&'static str; 3] = ["full", "resumed", "failed"];
}

/// What a shard knows of its TLS connections.
#[derive(Debug, Default)]
pub struct TlsCells {
    /// Handshakes ended, by `TlsHandshake`.
    pub handshakes: [AtomicU64; TlsHandshake::NAMES.len()],
    /// What went wrong, in handshakes and later, by `TlsFailure`.
    pub failures: [AtomicU64; TlsFailure::NAMES.len()],
    /// TLS connections on the shard now.
    pub sessions: AtomicU64,
    /// Bytes that these connections hold beside what a plain one does: state and unsent or incomplete records.
    pub bytes: AtomicU64,
    /// Handshakes waiting for their turn.
    pub waiting: AtomicU64,
}

impl TlsCells {
    /// Counts a handshake; only the shard's thread may.
    pub fn handshake(&self, handshake: TlsHandshake) {
        count(&self.handshakes[handshake as usize]);
    }

    /// Counts what went wrong; only the shard's thread may.
    pub fn failure(&self, failure: TlsFailure) {
        count(&self.failures[failure as usize]);
    }
}

/// There is one writer.
fn count(cell: &AtomicU64) {
    cell.store(cell.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}
