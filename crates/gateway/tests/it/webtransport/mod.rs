//! Sessions by WebTransport of the real `sockeye` process, seen by a client of QUIC.

mod client;
mod elsewhere;
mod impolite;
mod life;
mod sessions;
