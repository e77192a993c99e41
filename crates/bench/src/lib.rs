//! The load generator and benchmark suite: drives Socket.IO and WebSocket servers from many
//! loopback addresses, counts what should have arrived, and sets servers beside each other.
//!
//! `swarm` holds the connections of one process, `worker` carries out commands on a swarm, `fleet`
//! commands several workers, `measure` turns that into figures, `suite` into a comparison.
//! `scenario` reads scenario files, `engine` runs them, `outcome` is what comes out.

pub mod cli;
pub mod clock;
pub mod compare;
pub mod descriptors;
pub mod dialect;
pub mod engine;
pub mod fleet;
pub mod floor;
pub mod latency;
pub mod ledger;
pub mod live;
pub mod machine;
pub mod measure;
pub mod nearest;
pub mod orders;
pub mod outcome;
pub mod plan;
pub mod process;
pub mod report;
pub mod results;
pub mod scenario;
pub mod server;
pub mod stamp;
pub mod stream;
pub mod suite;
pub mod swarm;
pub mod toml_file;
pub mod url;
pub mod worker;
