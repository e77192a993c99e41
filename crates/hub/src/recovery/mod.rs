//! Sockets that come back: what was said while they were away, what is left of them meanwhile, and how another shard takes them.
//! [ADR 38](../../../../docs/adr/0038-a-socket-that-comes-back-is-taken.md) has the reasons.

pub(crate) mod apart;
mod between;
pub(crate) mod bytes;
pub mod chronicle;
pub(crate) mod circle;
pub(crate) mod deed;
pub(crate) mod exchange;
pub(crate) mod headings;
pub(crate) mod journal;
pub(crate) mod marks;
pub(crate) mod members;
pub(crate) mod messages;
pub(crate) mod parked;
pub(crate) mod pid;
pub(crate) mod record;
pub(crate) mod repeated;
mod said;
pub(crate) mod shown;
mod spans;
pub(crate) mod stamp;
pub(crate) mod streams;
pub(crate) mod taking;
pub(crate) mod takings;
pub(crate) mod ways;

#[cfg(test)]
mod tests;
