//! What is known of this process outside its shards. The parts that know it write here, the exporter reads.

use super::before::Before;
use super::detection::Detection;
use super::load;
use crate::api::{Api, Past};
use crate::bodies::Bodies;
use crate::bridge::Bridges;
use crate::history::History;
use crate::inside::audit::Audit;
use crate::listening::Doorway;
use crate::live;
use crate::traces;
use crate::webtransport::Carrier;
use hub::addresses::Addresses;
use identity::Verifier;
use nodes::channels;
use nodes::foreign;
use nodes::gauges::Gauges;
use nodes::relay;
use nodes::{directory, ledger};
use process::health::Readiness;
use process::log::LogLoss;
use process::owed::Owed;
use process::vitals::Vitals;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bounds that alerts compare with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bounds {
    /// Connections above which newcomers are refused.
    pub connections: u64,
    /// Memory that this process may use: its control group's limit, or what the machine has.
    pub memory_bytes: Option<u64>,
}

#[derive(Debug, Default)]
pub struct Node {
    pub readiness: Readiness,
    /// The actions of operators.
    pub audit: Arc<Audit>,
    /// Without which it ends.
    pub vitals: Vitals,
    pub bounds: OnceLock<Bounds>,
    /// When clients that are gone are found.
    pub detection: OnceLock<Detection>,
    /// Connections by address.
    pub addresses: OnceLock<Arc<Addresses>>,
    pub log: Arc<LogLoss>,
    pub reloads: Reloads,
    /// What processes before this one have counted.
    pub before: OnceLock<Before>,
    /// When the certificate that expires first does so, in seconds since 1970; 0 if there is none.
    pub certificate_expiry: AtomicU64,
    /// Namespaces of recovery level `cluster`, if there are any.
    pub chronicle: OnceLock<Arc<nodes::chronicle::Acks>>,
    /// The way to other nodes.
    pub cluster: Arc<Gauges>,
    /// Connections that are relayed to other nodes.
    pub relay: Arc<relay::Gauges>,
    /// The way to other nodes for questions of operators, if there is one.
    pub relays: OnceLock<relay::Relays>,
    /// Channels that programs outside share with clients.
    pub channels: Arc<channels::Gauges>,
    /// The directory for programs outside.
    pub directory: Arc<directory::Gauges>,
    /// Calls under Idempotency-Keys that all nodes know.
    pub ledger: Arc<ledger::Gauges>,
    /// The way to servers of other kinds.
    pub foreign: Arc<foreign::Gauges>,
    /// What checks tokens, if anything does.
    pub verifier: OnceLock<Arc<Verifier>>,
    pub refused: Refused,
    pub displaced: Displaced,
    /// Answers to operators.
    pub owed: Arc<Owed>,
    /// Spans for a collector.
    pub traces: Arc<traces::Stats>,
    /// Traces that operators read as things pass.
    pub live: Arc<live::Gauges>,
    /// Backends by name, if there are any.
    pub backends: OnceLock<BTreeMap<String, Arc<workers::Figures>>>,
    /// What is known of all of them.
    pub workers: Arc<workers::Facts>,
    /// The server API.
    pub api: OnceLock<Arc<Api>>,
    /// What the process before knew of its callers, until the server API has it.
    pub past: Mutex<Past>,
    /// Large bodies, if they are kept.
    pub bodies: OnceLock<Arc<Bodies>>,
    /// The store of history, if there is one.
    pub history: OnceLock<Arc<History>>,
    /// To programs.
    pub bridges: Arc<Bridges>,
    /// Where test clients of operators come in.
    pub doorway: OnceLock<Doorway>,
    /// The carrier of WebTransport, if there is one.
    pub carrier: OnceLock<Arc<dyn Carrier>>,
}

impl Node {
    /// As backends see it.
    pub fn host(&self) -> workers::Host {
        workers::Host {
            readiness: self.readiness.clone(),
            vitals: self.vitals.clone(),
            log: Arc::clone(&self.log),
            facts: Arc::clone(&self.workers),
        }
    }

    fn past(&self) -> MutexGuard<'_, Past> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls and rates of callers, as the process before knew them.
    pub fn note_past(&self, past: Past) {
        *self.past() = past;
    }

    /// The same, for the server API.
    pub fn take_past(&self) -> Past {
        std::mem::take(&mut *self.past())
    }

    /// Bytes that wait outside of shards, by part.
    pub fn kept(&self) -> Vec<(&'static str, usize)> {
        let backends = self.backends.get().into_iter().flat_map(BTreeMap::values);
        let backends = backends.map(|figures| figures.untold_bytes()).sum();
        let history = self.history.get().map_or(0, |store| store.waiting_bytes());
        let parts = [
            ("log", load(&self.log.queued_bytes)),
            ("backends", backends),
            ("cluster", load(&self.cluster.queued_bytes)),
            ("history store", history),
        ];
        let parts = parts.into_iter();
        parts
            .map(|(part, bytes)| (part, usize::try_from(bytes).unwrap_or(usize::MAX)))
            .collect()
    }
}

/// HTTP requests that the control plane refused.
#[derive(Debug, Default)]
pub struct Refused {
    /// On the operators' listener: without a valid API key.
    pub admin: AtomicU64,
    /// Pages: more than one address may ask for.
    pub pages: AtomicU64,
}

/// Connections that gave their place to a newcomer.
#[derive(Debug, Default)]
pub struct Displaced {
    pub admin: AtomicU64,
}

/// How the last attempts to read the configuration again went.
#[derive(Debug)]
pub struct Reloads {
    succeeded: AtomicU64,
    failed: AtomicU64,
    last_failed: AtomicBool,
    /// Milliseconds since 1970 of the last success; the start is one.
    last_success_ms: AtomicU64,
}

impl Default for Reloads {
    fn default() -> Self {
        Reloads {
            succeeded: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            last_failed: AtomicBool::new(false),
            last_success_ms: AtomicU64::new(now_ms()),
        }
    }
}

impl Reloads {
    pub fn succeeded(&self) {
        self.succeeded.fetch_add(1, Ordering::Relaxed);
        self.last_failed.store(false, Ordering::Relaxed);
        self.last_success_ms.store(now_ms(), Ordering::Relaxed);
    }

    pub fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        self.last_failed.store(true, Ordering::Relaxed);
    }

    pub(super) fn by_result(&self) -> Vec<(String, f64)> {
        let results = [("success", &self.succeeded), ("failure", &self.failed)];
        let count = |(result, cell): (&str, &AtomicU64)| (result.to_owned(), load(cell) as f64);
        results.into_iter().map(count).collect()
    }

    pub(super) fn last_successful(&self) -> f64 {
        f64::from(u8::from(!self.last_failed.load(Ordering::Relaxed)))
    }

    pub(super) fn last_success_seconds(&self) -> f64 {
        load(&self.last_success_ms) as f64 / 1e3
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
