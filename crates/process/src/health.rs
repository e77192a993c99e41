//! Whether this process is alive, and whether new clients should be sent to it.

use crate::moving::Moving;
use crate::upgrades::Upgrades;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::Notify;

/// How a node of a cluster stands to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cluster {
    /// There are none.
    None = 0,
    /// It has not met them yet.
    Joining = 1,
    Connected = 2,
    /// It had met them, and cannot reach them now.
    CutOff = 3,
}

/// Shared by everything that answers `/ready`.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    draining: Arc<AtomicBool>,
    /// A [`Cluster`].
    cluster: Arc<AtomicU8>,
    /// An operator wants it to drain.
    asked_to_drain: Arc<AtomicBool>,
    /// All clients are gone.
    drained: Arc<AtomicBool>,
    emptied: Arc<Notify>,
    moving: Moving,
    upgrades: Upgrades,
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

    /// What is asked of this node's sessions, and how far that is.
    pub fn moving(&self) -> &Moving {
        &self.moving
    }

    /// Other processes that take over from this one, or did.
    pub fn upgrades(&self) -> &Upgrades {
        &self.upgrades
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
    pub async fn drained(&self) {
        self.emptied.notified().await;
    }

    pub fn is_drained(&self) -> bool {
        self.drained.load(Ordering::Acquire)
    }

    /// There are other nodes, and this one has to meet them before it takes clients.
    pub fn set_joining(&self) {
        self.set(Cluster::Joining);
    }

    /// Whether the other nodes can be reached. A node that met them once serves its clients also without them: if one engine that is away
    /// took all nodes out of service, nobody would be served.
    pub fn set_connected(&self, connected: bool) {
        match (connected, self.cluster()) {
            (true, _) => self.set(Cluster::Connected),
            (false, Cluster::Connected) => self.set(Cluster::CutOff),
            (false, _) => {}
        }
    }

    fn set(&self, cluster: Cluster) {
        self.cluster.store(cluster as u8, Ordering::Release);
    }

    fn cluster(&self) -> Cluster {
        match self.cluster.load(Ordering::Acquire) {
            0 => Cluster::None,
            1 => Cluster::Joining,
            2 => Cluster::Connected,
            _ => Cluster::CutOff,
        }
    }

    pub fn is_ready(&self) -> bool {
        self.word() == "ready"
    }

    pub fn word(&self) -> &'static str {
        if self.drained.load(Ordering::Acquire) {
            "drained"
        } else if self.draining.load(Ordering::Acquire) {
            "draining"
        } else if self.cluster() == Cluster::Joining {
            "starting"
        } else {
            "ready"
        }
    }

    /// Status and body of `/ready`.
    pub fn answer(&self) -> (u16, Value) {
        let word = self.word();
        let status = if word == "ready" { 200 } else { 503 };
        let mut body = json!({ "status": word, "timestamp": now_ms() });
        let cluster = match self.cluster() {
            Cluster::None => None,
            Cluster::Joining => Some("joining"),
            Cluster::Connected => Some("connected"),
            Cluster::CutOff => Some("cut off"),
        };
        if let Some(cluster) = cluster {
            body["cluster"] = cluster.into();
        }
        (status, body)
    }

    /// It had met the other nodes, and cannot reach them now.
    pub fn is_cut_off(&self) -> bool {
        self.cluster() == Cluster::CutOff
    }

    /// Whether this node hears all others, if there are any.
    pub fn hears_others(&self) -> bool {
        matches!(self.cluster(), Cluster::None | Cluster::Connected)
    }
}

/// Body of `/health`.
pub fn healthy() -> String {
    json!({ "status": "healthy", "timestamp": now_ms() }).to_string()
}

fn now_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// While Redis was away, no node was ready, and a balancer had nobody to send clients to.
    #[test]
    fn a_node_that_lost_the_others_took_itself_out_of_service() {
        let readiness = Readiness::default();
        let stands = |readiness: &Readiness| {
            let (status, body) = readiness.answer();
            (status, body["cluster"].as_str().map(str::to_owned))
        };
        let told = |word: &str| Some(word.to_owned());
        assert_eq!(stands(&readiness), (200, None));
        assert!(readiness.hears_others(), "there are none");
        readiness.set_joining();
        readiness.set_connected(false);
        assert_eq!(stands(&readiness), (503, told("joining")));
        assert!(!readiness.hears_others());
        readiness.set_connected(true);
        assert_eq!(stands(&readiness), (200, told("connected")));
        assert!(readiness.hears_others());
        readiness.set_connected(false);
        assert_eq!(stands(&readiness), (200, told("cut off")));
        assert!(!readiness.hears_others());
        readiness.drain();
        assert_eq!(stands(&readiness).0, 503);
    }
}
