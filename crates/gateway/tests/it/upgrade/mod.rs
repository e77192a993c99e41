//! `sockeye upgrade`: a new process takes over live connections, and their clients notice nothing.

pub mod chain;
mod clustered;
mod endpoints;
mod figures;
mod keeping;
mod later;
mod programs;
mod returning;
mod stopping;
mod stores;
mod strangers;
mod traffic;
mod troubles;
mod workers;
