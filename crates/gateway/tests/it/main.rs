//! What the gateway promises, tried on the real `sockeye` process over real sockets. One binary, so that
//! the harness is compiled and linked once; each folder is one subject.

mod api;
mod attacks;
mod backend;
mod cluster;
mod console;
mod e2e;
mod edges;
mod faults;
mod harness;
mod history;
mod kafka;
mod large;
mod lookout;
mod nats;
mod noise;
mod observability;
#[expect(dead_code, reason = "the hub's tests use the rest of the player")]
#[path = "../../../../transcripts/player/mod.rs"]
mod player;
mod presence;
mod record;
mod scenarios;
mod tls;
mod trace;
mod transcripts;
mod upgrade;
mod webtransport;
mod workers;
