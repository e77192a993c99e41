//! The process that backends are in, and what it knows of all of them.

use super::state::Turns;
use super::windows::Windows;
use process::health::Readiness;
use process::log::LogLoss;
use process::vitals::Vitals;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

/// The process, as backends see it.
#[derive(Clone, Debug, Default)]
pub struct Host {
    pub readiness: Readiness,
    /// It ends when a driver has ended.
    pub vitals: Vitals,
    pub log: Arc<LogLoss>,
    pub facts: Arc<Facts>,
}

/// Written by backends, read by shards, operators and the exporter.
#[derive(Debug, Default)]
pub struct Facts {
    /// For looks at them.
    pub windows: OnceLock<Windows>,
    /// What they do at the ends of shards' turns.
    pub turns: Arc<Turns>,
    /// Streams without the key of their backend.
    pub refused: AtomicU64,
    /// Connections that gave their place to a newcomer.
    pub displaced: AtomicU64,
}
