//! TLS of the real `sockeye` process: handshakes, traffic, ends and new certificates, seen by rustls' client and by OpenSSL's.

#[path = "../harness/mod.rs"]
mod harness;

mod closing;
mod handshakes;
mod openssl;
mod pki;
mod rotation;
mod traffic;
