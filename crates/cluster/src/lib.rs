//! The native plane between Sockeye nodes: letters that arrive once, in order, over channels that forget.
//!
//! An engine (Redis PUB/SUB first) offers no more than "publish bytes to a named channel". It drops what a subscriber misses while
//! its connection is down or a master is replaced. This crate adds what is missing, without I/O and without a clock:
//!
//! * [`frame`]: many letters in one message, with checksum and positions.
//! * [`outlet`]: batches letters per receiver, keeps what it sent in a bounded ring, answers questions for what got lost.
//! * [`inlet`]: finds gaps in what one publisher sent, asks for them, and hands letters on in the publisher's order.
//! * [`interest`]: which node has members of which room, so that others are not sent its messages.
//! * [`node`]: all of them for one node, with heartbeats and the verdict that a peer is dead.
//! * [`numbers`]: which number a node takes, who keeps a number that two claim, and whose messages are heard.
//! * [`budget`]: what each node may use of limits that hold for all nodes together.
//!
//! # Contract
//!
//! The driver owns the connection to the engine and calls a [`node::Node`] like this:
//!
//! 1. `begin(now)` sets the time, in microseconds of any monotonic clock. It comes first.
//! 2. `arrived(bytes)` for each message of the node's own inbox channel and of the flood channel. Its letters are handed on as
//!    [`part`]s of it.
//! 3. `send`, `hold` and `release` for what local clients do.
//! 4. `take(..)` yields the messages to publish now; `ended` says how that ended. One batch may be under way while the next is
//!    filled.
//! 5. `events` yields letters for local members, gaps that could not be repaired, and peers that came or went.
//! 6. `due()` says when to call again if nothing happens before.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod bounds;
pub mod budget;
#[cfg(feature = "faults")]
pub mod faults;
#[cfg(not(feature = "faults"))]
mod faults;
pub mod frame;
pub mod inlet;
pub mod interest;
mod keys;
mod letter;
pub mod node;
pub mod numbers;
pub mod outlet;
pub mod part;
mod pulse;
