//! Whether this process is alive, and whether new clients should be sent to it.

use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Shared by everything that answers `/ready`.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    draining: Arc<AtomicBool>,
}

impl Readiness {
    /// From now on load balancers are told to send nobody.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    pub fn is_ready(&self) -> bool {
        !self.draining.load(Ordering::Acquire)
    }

    /// Status and body of `/ready`.
    pub(crate) fn answer(&self) -> (u16, String) {
        let (status, word) = if self.is_ready() {
            (200, "ready")
        } else {
            (503, "draining")
        };
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
