//! What rustls' errors are called in our counters.

use hub::tls::TlsFailure;
use rustls::{Error, PeerIncompatible};

pub(super) fn failure(error: &Error) -> TlsFailure {
    match error {
        Error::PeerIncompatible(incompatible) => incompatibility(incompatible),
        // What rustls says when there is no certificate for the name (its only general error in a handshake).
        Error::General(_) => TlsFailure::UnknownName,
        Error::NoApplicationProtocol => TlsFailure::Alpn,
        Error::AlertReceived(_) => TlsFailure::PeerAlert,
        Error::InvalidMessage(_) | Error::PeerSentOversizedRecord => TlsFailure::Malformed,
        Error::DecryptError => TlsFailure::Decrypt,
        Error::PeerMisbehaved(_)
        | Error::InappropriateMessage { .. }
        | Error::InappropriateHandshakeMessage { .. } => TlsFailure::Misbehaved,
        _ => TlsFailure::Other,
    }
}

fn incompatibility(incompatible: &PeerIncompatible) -> TlsFailure {
    match incompatible {
        PeerIncompatible::ServerDoesNotSupportTls12Or13
        | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
        | PeerIncompatible::SupportedVersionsExtensionRequired
        // Only hellos of versions before 1.2 do without it (RFC 5246 §7.4.1.4.1), and rustls looks for it first.
        | PeerIncompatible::SignatureAlgorithmsExtensionRequired
        | PeerIncompatible::Tls12NotOffered
        | PeerIncompatible::Tls12NotOfferedOrEnabled => TlsFailure::Version,
        _ => TlsFailure::NoCommonCipher,
    }
}
