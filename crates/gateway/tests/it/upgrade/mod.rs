//! `sockeye upgrade`: a new process takes over live connections, and their clients notice nothing.

mod calls;
pub mod chain;
mod clustered;
mod endpoints;
mod figures;
mod keeping;
mod later;
mod limits;
mod programs;
mod returning;
mod rising;
mod scarcity;
mod stopping;
mod stores;
mod strangers;
mod streams;
mod supervised;
mod traffic;
mod troubles;
mod workers;
