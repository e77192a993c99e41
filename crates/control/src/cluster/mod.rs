//! What connects the nodes of a cluster: an engine that carries bytes between them.

pub mod engine;
pub mod feed;
pub mod foreign;
pub mod memory;
pub mod redis;
