//! A store in a folder, which one process at a time has: at an upgrade it is closed here and opened there, or the other way round.

use super::opening::{self, Settings};
use ::history::{
    Answer, Ask, Batch, Fault, Forget, Kind, Page, Position, Shed, Store, Trimmed, Usage,
};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Between two tries to open a folder that another process has not closed yet.
const RETRY: Duration = Duration::from_millis(50);

/// The store, while this process has the folder.
#[derive(Debug)]
pub(super) struct Folder {
    settings: Settings,
    store: RwLock<Option<Arc<dyn Store>>>,
}

pub(super) fn elsewhere() -> Fault {
    Fault::new(
        Kind::Away,
        "another process has the store of history, or is about to have it (sockeye upgrade): try again",
    )
}

impl Folder {
    /// A folder that another process has.
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            settings,
            store: RwLock::default(),
        }
    }

    fn store(&self) -> Result<Arc<dyn Store>, Fault> {
        let store = self.store.read().unwrap_or_else(PoisonError::into_inner);
        store.clone().ok_or_else(elsewhere)
    }

    fn put(&self, store: Option<Arc<dyn Store>>) -> Option<Arc<dyn Store>> {
        let mut own = self.store.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *own, store)
    }

    /// Opens it, once the other process has closed it, unless it is open here.
    pub(super) async fn take(&self, within: Duration) -> Result<(), Fault> {
        if self.store().is_ok() {
            return Ok(());
        }
        let deadline = Instant::now() + within;
        loop {
            match opening::open(&self.settings).await {
                Ok(store) => {
                    self.put(Some(store));
                    return Ok(());
                }
                Err(fault) if Instant::now() >= deadline => return Err(fault),
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
    }

    /// Closes it: another process may open it.
    pub(super) async fn lend(&self) -> Result<(), Fault> {
        match self.put(None) {
            Some(store) => store.close().await,
            None => Ok(()),
        }
    }

    /// A store that was closed in that moment was closed for another process.
    fn doubt(&self, fault: Fault) -> Fault {
        match fault.kind() {
            Kind::Closed => self.store().err().unwrap_or(fault),
            _ => fault,
        }
    }
}

impl Store for Folder {
    fn append<'a>(&'a self, batch: &'a Batch) -> Answer<'a, Vec<Position>> {
        Box::pin(async move {
            let store = self.store()?;
            store.append(batch).await.map_err(|fault| self.doubt(fault))
        })
    }

    fn page(&self, ask: Ask) -> Answer<'_, Page> {
        Box::pin(async move {
            let store = self.store()?;
            store.page(ask).await.map_err(|fault| self.doubt(fault))
        })
    }

    fn forget(&self, what: Forget) -> Answer<'_, u64> {
        Box::pin(async move {
            let store = self.store()?;
            store.forget(what).await.map_err(|fault| self.doubt(fault))
        })
    }

    fn trim(&self, now_ms: u64) -> Answer<'_, Trimmed> {
        Box::pin(async move {
            let store = self.store()?;
            store.trim(now_ms).await.map_err(|fault| self.doubt(fault))
        })
    }

    fn usage<'a>(&'a self, namespace: &'a str) -> Answer<'a, Usage> {
        Box::pin(async move {
            let store = self.store()?;
            let usage = store.usage(namespace).await;
            usage.map_err(|fault| self.doubt(fault))
        })
    }

    fn shed<'a>(&'a self, namespace: &'a str, what: Shed) -> Answer<'a, u64> {
        Box::pin(async move {
            let store = self.store()?;
            let shed = store.shed(namespace, what).await;
            shed.map_err(|fault| self.doubt(fault))
        })
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(self.lend())
    }
}
