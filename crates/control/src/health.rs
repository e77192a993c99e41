//! Whether this process is alive, and whether new clients should be sent to it.

use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::Notify;

/// Shared by everything that answers `/ready`.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    draining: Arc<AtomicBool>,
    /// Other nodes cannot be reached.
    cut_off: Arc<AtomicBool>,
    /// An operator wants it to drain.
    asked_to_drain: Arc<AtomicBool>,
    /// All clients are gone.
    drained: Arc<AtomicBool>,
    emptied: Arc<Notify>,
}

impl Readiness {
    /// From now on load balancers are told to send nobody.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// An operator wants the clients of this node elsewhere.
    pub fn ask_to_drain(&self) {
        self.asked_to_drain.store(true, Ordering::Release);
    }

    /// Whether that is so and not done yet.
    pub fn is_asked_to_drain(&self) -> bool {
        self.asked_to_drain.load(Ordering::Acquire) && !self.draining.load(Ordering::Acquire)
    }

    /// The clients are gone, and no others come.
    pub fn set_drained(&self) {
        self.drained.store(true, Ordering::Release);
        self.emptied.notify_one();
    }

    /// Waits until it is. One may wait.
    pub(crate) async fn drained(&self) {
        self.emptied.notified().await;
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.drained.load(Ordering::Acquire)
    }

    /// While other nodes cannot be reached, new clients are better off elsewhere.
    pub fn set_cut_off(&self, cut_off: bool) {
        self.cut_off.store(cut_off, Ordering::Release);
    }

    pub fn is_ready(&self) -> bool {
        self.word() == "ready"
    }

    pub(crate) fn word(&self) -> &'static str {
        if self.drained.load(Ordering::Acquire) {
            "drained"
        } else if self.draining.load(Ordering::Acquire) {
            "draining"
        } else if self.cut_off.load(Ordering::Acquire) {
            "cut off from the cluster"
        } else {
            "ready"
        }
    }

    /// Status and body of `/ready`.
    pub(crate) fn answer(&self) -> (u16, String) {
        let word = self.word();
        let status = if word == "ready" { 200 } else { 503 };
        (
            status,
            json!({ "status": word, "timestamp": now_ms() }).to_string(),
        )
    }
}

/// Body of `/health`.
pub(crate) fn healthy() -> String {
    json!({ "status": "healthy", "timestamp": now_ms() }).to_string()
}

fn now_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
