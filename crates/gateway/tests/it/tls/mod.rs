//! TLS of the real `sockeye` process: handshakes, traffic, ends and new certificates, seen by rustls' client and by OpenSSL's.

mod closing;
mod handshakes;
mod openssl;
pub mod pki;
mod rotation;
mod traffic;
mod workers;
