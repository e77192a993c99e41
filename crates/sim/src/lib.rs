//! A process of many hubs without a process: messages between hubs wait as long as the dice say (in order between each pair),
//! connections come to any hub and move to their owner, and after every step all invariants are checked. One seed is one history.
//! Odd seeds run with bounds so small that they are reached all the time.
//!
//! Events go to one room or two. Event streams break off and come back. Clients that poll go over to WebSockets, rooms keep events for
//! those who join later, and hubs stand still, sometimes for long. Processes hand their sessions over to others.
//!
//! Faults that were put back to see whether the first seeds find them. Those marked with a star can be put back at any time:
//! `cargo test -p sim --features faults` shows that they are found. With this feature, the shares of a turn are so small that
//! histories reach them.
//!
//! | fault | found as |
//! |---|---|
//! | a turn does not count the messages that it sends to other hubs \* | too many messages to other hubs in one turn |
//! | one flush answers all waiting polls \* | too many bytes of answers to polls in one flush |
//! | a kept event and its record take different ways \* | a client got one twice, or missed one, behind its history |
//! | an event for two rooms is a letter for each of them \* | a client got one twice |
//! | a handler hears of a socket's end after what its client did next | a client is back before its end was told |
//! | nobody tells a round that a socket it waits for has left | rounds without a result |
//! | a round that could not ask everybody is called complete | a round is complete, and a client of the room was not asked |
//! | a connection that waits for a long mailbox is never read again | POSTs without answer |
//! | logs of two nodes have one name (C2) \* | an event stream was told that it resumes where it does not |
//! | an id of an event stream does not say of which room (C3) \* | an event stream missed one of a room |
//! | a newcomer that has to wait for other nodes is slow (C9) \* | a client was closed, and did nothing |
//! | a join that the home of a namespace passes on is not expected \* | what a worker said behind it was missed |
//! | a node with a lower epoch is never heard (C19) | joins wait for ever |
//! | letters leave before others have told what they hold \* | a message was missed, or somebody waits for ever |
//! | messages between hubs are lost | every seed (`losses_are_noticed`) |

mod check;
mod client;
mod handler;
mod listener;
mod listening;
mod names;
mod network;
mod people;
mod plain;
mod plan;
mod settings;
mod succession;
pub mod whole;
mod world;

pub use check::Report;
pub use plan::Plan;
pub use world::{play, run};
