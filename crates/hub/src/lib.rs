//! All realtime state of one shard: sessions, sockets, rooms, fan-out, outboxes, acks, timers. Input in, effects out; time and
//! randomness are passed in, so that the same code runs in production, in simulation, in fuzzing and in transcript tests.
#![forbid(unsafe_code)]

mod ack;
pub mod addresses;
pub mod admission;
pub mod ask;
mod auth;
mod chat;
mod close;
mod compression;
pub mod config;
mod conn;
mod core;
mod drain;
mod effect;
mod expiry;
mod fanout;
mod flush;
mod handler;
mod history;
mod hub;
mod id;
pub mod identity;
mod invariants;
mod io;
mod lifecycle;
pub mod limits;
pub mod mailbox;
mod member;
mod memory;
pub mod metrics;
pub mod origin;
mod outbox;
mod packet;
mod plain;
mod polling;
mod process;
pub mod proxies;
mod rate;
mod relay;
mod requests;
mod room;
pub mod rules;
mod session;
mod slab;
mod socket;
mod timer;
pub mod tls;
mod traffic;
mod unit;
mod users;
mod websocket;

pub use ack::Collected;
pub use ask::{Ask, AskKey, Reply};
pub use close::{CloseReason, Departure, DisconnectReason};
pub use core::{Entropy, Now};
pub use effect::{Effect, Notice};
pub use handler::{
    AckTo, ConnectRequest, Data, Event, Handler, HandlerFactory, Refusal, SessionKey,
};
pub use hub::Hub;
pub use id::{Identity, Owner};
pub use invariants::Census;
pub use io::{Emit, Io, Rejection, SocketInfo};
pub use member::JoinError;
pub use memory::{MemoryWalk, Parts};
pub use outbox::{Sink, Written};
pub use process::Process;
pub use relay::{Answer, Fetched, Relay, Target};
pub use session::Protocol;
pub use socket::SocketKey;
pub use wire::socketio::is_reserved;
