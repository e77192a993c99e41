//! The load generator: drives Socket.IO and WebSocket servers from many loopback addresses, counts what should have arrived, and sets
//! servers beside each other.
//!
//! `scenario` reads scenario files, `engine` runs them, `outcome` is what comes out, `report` shows it. `compare` and `suite` run
//! several servers in turn.

pub mod cli;
pub mod clock;
pub mod compare;
pub mod descriptors;
pub mod engine;
pub mod floor;
pub mod live;
pub mod loss;
pub mod process;
pub mod report;
pub mod scenario;
pub mod server;
pub mod stream;
pub mod suite;
pub mod target;
pub mod tls;
pub mod url;
