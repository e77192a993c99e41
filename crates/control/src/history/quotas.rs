//! Quotas of namespaces: what all rooms of one keep together. They are looked at every few seconds, so a namespace may have more for a
//! moment.

use super::History;
use ::history::{Fault, Kind, Shed, Usage};
use std::collections::BTreeMap;
use std::sync::{Arc, RwLock, RwLockReadGuard};
use std::time::Duration;

/// How often they are looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// What makes way at once is a little more than it must, so that not each look has something to remove: one part of so many.
const SLACK: u64 = 50;

/// A quota, and what becomes of what is above it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Of all events.
    pub bytes: Option<u64>,
    /// Rooms that have events.
    pub rooms: Option<u64>,
    /// New events are not stored; else the oldest make way.
    pub refuses: bool,
}

impl Quota {
    /// How much of it is used; 1 = all.
    fn used(&self, usage: Usage) -> f64 {
        let part = |used: u64, of: Option<u64>| of.map_or(0.0, |of| used as f64 / of.max(1) as f64);
        part(usage.bytes, self.bytes).max(part(usage.rooms, self.rooms))
    }

    /// What must make way.
    fn above(&self, usage: Usage) -> Vec<Shed> {
        let rooms = self.rooms.map(|most| usage.rooms.saturating_sub(most));
        let bytes = self.bytes.map(|most| match usage.bytes > most {
            true => usage.bytes - most + most / SLACK,
            false => 0,
        });
        let rooms = rooms.filter(|rooms| *rooms > 0).map(Shed::Rooms);
        let bytes = bytes.filter(|bytes| *bytes > 0).map(Shed::Bytes);
        rooms.into_iter().chain(bytes).collect()
    }
}

/// The quotas, by namespace, and what was found last.
#[derive(Debug, Default)]
pub(super) struct Quotas {
    of: BTreeMap<String, Quota>,
    found: RwLock<BTreeMap<String, Usage>>,
}

impl Quotas {
    pub(super) fn new(of: BTreeMap<String, Quota>) -> Self {
        Self {
            of,
            found: RwLock::default(),
        }
    }

    fn found(&self) -> RwLockReadGuard<'_, BTreeMap<String, Usage>> {
        self.found
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Why a namespace takes no more events; `None`: it takes them.
    pub(super) fn refusal(&self, namespace: &str) -> Option<Fault> {
        let quota = self.of.get(namespace).filter(|quota| quota.refuses)?;
        let most = quota.bytes?;
        let bytes = self.found().get(namespace)?.bytes;
        (bytes >= most).then(|| {
            let text = format!(
                "the rooms of {namespace:?} keep {bytes} bytes together, and {most} are allowed (namespaces.{namespace:?}.history.quota_bytes): \
                 delete some, or allow more"
            );
            Fault::new(Kind::Full, text)
        })
    }

    /// Of the fullest namespace, for the exporter.
    pub(super) fn used(&self) -> f64 {
        let found = self.found();
        let used = self.of.iter().map(|(namespace, quota)| {
            let usage = found.get(namespace).copied().unwrap_or_default();
            quota.used(usage)
        });
        used.fold(0.0, f64::max)
    }

    fn note(&self, namespace: &str, usage: Usage) {
        let found = self.found.write();
        let mut found = found.unwrap_or_else(std::sync::PoisonError::into_inner);
        found.insert(namespace.to_owned(), usage);
    }
}

/// Looks at them until the process ends.
pub(super) async fn hold(history: Arc<History>) {
    loop {
        for (namespace, quota) in &history.quotas.of {
            if let Err(fault) = look(&history, namespace, quota).await {
                tracing::warn!(%fault, namespace, "cannot hold the quota of what rooms keep");
            }
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

async fn look(history: &History, namespace: &str, quota: &Quota) -> Result<(), Fault> {
    let usage = history.store.usage(namespace).await?;
    history.quotas.note(namespace, usage);
    if quota.refuses {
        return Ok(());
    }
    for shed in quota.above(usage) {
        let gone = history.store.shed(namespace, shed.clone()).await?;
        history.books.shed(gone);
        tracing::info!(
            namespace,
            events = gone,
            ?shed,
            "the oldest events made way for the quota of their namespace"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_above_a_quota_makes_way_or_is_refused() {
        let usage = |rooms, bytes| Usage { rooms, bytes };
        let quota = Quota {
            bytes: Some(1_000),
            rooms: Some(3),
            refuses: false,
        };
        assert_eq!(quota.above(usage(3, 1_000)), []);
        let above = [Shed::Rooms(2), Shed::Bytes(120)];
        assert_eq!(quota.above(usage(5, 1_100)), above);
        assert_eq!(quota.used(usage(6, 500)), 2.0);
        let refusing = Quota {
            refuses: true,
            rooms: None,
            ..quota
        };
        let quotas = Quotas::new([("/a".to_owned(), refusing)].into());
        assert_eq!(quotas.refusal("/a"), None);
        quotas.note("/a", usage(1, 1_000));
        let fault = quotas.refusal("/a").expect("it is full");
        assert_eq!(fault.kind(), Kind::Full);
        assert_eq!(quotas.refusal("/b"), None);
        assert_eq!(quotas.used(), 1.0);
    }
}
