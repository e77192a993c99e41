//! The words of other Socket.IO servers in the same cluster, as their Redis adapters write them.
//!
//! | dialect | written by |
//! |---|---|
//! | [`classic`] | `@socket.io/redis-adapter` 8.x `createAdapter`, `@socket.io/redis-emitter` and its ports |
//! | [`clustered`] | `createShardedAdapter` of the same package, `@socket.io/redis-streams-adapter` 0.3 |
//! | [`python`] | python-socketio's Redis manager, 5.14 or later |
//!
//! Each dialect turns bytes into [`verb::Letter`]s and letters into bytes. [`presence`] knows in which namespaces such servers
//! are, and [`asked`] counts the answers that they owe. [`plane`] puts them together: one member of such a cluster. There is no I/O here, and no clock: `now` is an argument, in
//! milliseconds of any monotonic clock.
//!
//! Everything that arrives is from strangers: each message is taken or [`refused::Refused`] with a reason, whatever it holds.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod asked;
mod body;
pub mod bounds;
pub mod classic;
pub mod clustered;
mod dialect;
pub mod names;
mod others;
mod ours;
pub mod plane;
pub mod presence;
pub mod python;
mod question;
pub mod refused;
mod space;
pub mod verb;
mod writing;
