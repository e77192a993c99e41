//! Counters of TLS on one shard. The hub knows no TLS: the shard counts here itself, one writer, and the exporter reads them with
//! the rest of the shard's cells.

use std::sync::atomic::{AtomicU64, Ordering};

named! {
    /// Why a TLS connection failed.
    pub enum TlsFailure {
        /// The first bytes are no TLS.
        NotTls = "not_tls",
        /// No protocol version in common.
        Version = "version",
        /// No cipher suite, group or signature scheme in common.
        NoCommonCipher = "no_common_cipher",
        /// No certificate for the name that the client asked for.
        UnknownName = "unknown_name",
        /// No application protocol in common.
        Alpn = "alpn",
        /// The peer sent a fatal alert.
        PeerAlert = "peer_alert",
        /// Records that cannot be read.
        Malformed = "malformed",
        /// Records that do not decrypt.
        Decrypt = "decrypt",
        /// Messages that the protocol does not allow there: renegotiation, for one.
        Misbehaved = "misbehaved",
        /// Gone, or out of time, in the middle of the handshake.
        Unfinished = "unfinished",
        /// The stream ended without close_notify (RFC 8446 §6.1).
        Truncated = "truncated",
        /// Anything else.
        Other = "other",
    }
}

named! {
    /// How a handshake ended.
    pub enum TlsHandshake {
        /// With a certificate.
        Full = "full",
        /// From a ticket.
        Resumed = "resumed",
        /// None: it failed.
        Failed = "failed",
    }
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

/// Adds one. There is one writer, so a load and a store are enough.
fn count(cell: &AtomicU64) {
    cell.store(cell.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}
