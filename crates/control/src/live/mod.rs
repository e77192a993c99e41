//! Live traces: an operator sees what passes a user, a session, a room or events of one name, at all nodes of the cluster. Shards write
//! lines; this is who asks them, and the stream to the one who reads.

mod desk;
mod gauges;
mod line;
mod order;
mod others;
pub(crate) mod stream;

pub use desk::Desk;
pub use gauges::Gauges;
