//! History: events go from the hubs' tap into a store, and programs and clients read pages of it. The crate `history` has the stores; this
//! module has their place in the process.

mod books;
mod carrying;
mod lending;
mod opening;
mod pages;
mod place;
mod quotas;
mod range;
#[cfg(feature = "history-redis")]
mod redis;
mod wanted;

pub use ::history::{Keep, Plan, Sync};
pub use books::Books;
pub use opening::{Settings, missing};
pub(crate) use pages::Deletion;
pub use place::{Place, Redis, TlsFiles};
pub use quotas::Quota;
pub(crate) use range::Range;
#[cfg(feature = "history-redis")]
pub use redis::open as open_redis;

use ::history::{Ask, Fault, Forget, Intake, Memory, Page, Receipt, Receipts, Store};
pub use ::history::{Event, Kept, Position};
use hub::HistoryTap;
use lending::Folder;
use quotas::Quotas;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{RwLock, Semaphore};

/// Requests for pages under way at once.
const READS_MAX: usize = 64;
/// One of them may take so long.
const READ_TIME: Duration = Duration::from_secs(10);
/// A deletion looks at everything that a user said.
const FORGET_TIME: Duration = Duration::from_secs(60);
/// How often what is too old is removed, and how soon when there is more of it.
const TRIM_INTERVAL: Duration = Duration::from_secs(30);
const TRIM_AGAIN: Duration = Duration::from_millis(100);

/// The store, its queue and its readers.
pub struct History {
    store: Arc<dyn Store>,
    /// The store, if one process at a time has it.
    folder: Option<Arc<Folder>>,
    /// The store, if it is this process's memory.
    memory: Option<Arc<Memory>>,
    /// Another process is about to have what it keeps: nothing is deleted.
    is_lent: AtomicBool,
    /// Shared by deletions of what is remembered, and held alone before it is lent: what is sent away is deleted nowhere.
    deletions: RwLock<()>,
    intake: Intake,
    plan: Plan,
    quotas: Quotas,
    receipts: Arc<Receipts>,
    reads: Semaphore,
    books: Books,
    runtime: Handle,
    tap: Arc<HistoryTap>,
    /// Held by the one who empties the tap: order is that of the tap.
    emptying: Mutex<()>,
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("History").finish_non_exhaustive()
    }
}

impl History {
    /// Opens the store and begins to take events from the tap. Within a runtime. `is_lent`: another process has the folder, if there is
    /// one, until [`Self::take`].
    pub async fn start(settings: Settings, is_lent: bool) -> Result<Arc<Self>, Fault> {
        let folder = match &settings.place {
            Place::Disk { .. } => {
                let folder = Folder::new(settings.clone());
                if !is_lent {
                    folder.take(Duration::ZERO).await?;
                }
                Some(Arc::new(folder))
            }
            _ => None,
        };
        let memory = match &settings.place {
            Place::Memory { bytes_max } => {
                Some(Arc::new(Memory::new(settings.plan.clone(), *bytes_max)))
            }
            _ => None,
        };
        let store: Arc<dyn Store> = match (&folder, &memory) {
            (Some(folder), _) => Arc::clone(folder) as _,
            (None, Some(memory)) => Arc::clone(memory) as _,
            (None, None) => opening::open(&settings).await?,
        };
        let Settings {
            plan,
            waiting_bytes_max,
            quotas,
            ..
        } = settings;
        let history = Arc::new(Self {
            intake: Intake::new(Arc::clone(&store), waiting_bytes_max, random()),
            tap: Arc::new(HistoryTap::new(plan.namespaces().map(str::to_owned))),
            store,
            folder,
            memory,
            is_lent: AtomicBool::new(false),
            deletions: RwLock::default(),
            plan,
            quotas: Quotas::new(quotas),
            receipts: Arc::default(),
            reads: Semaphore::new(READS_MAX),
            books: Books::default(),
            runtime: Handle::current(),
            emptying: Mutex::default(),
        });
        carrying::start(&history);
        tokio::spawn(trim(Arc::clone(&history)));
        tokio::spawn(quotas::hold(Arc::clone(&history)));
        Ok(history)
    }

    /// Where hubs put the events.
    pub fn tap(&self) -> &Arc<HistoryTap> {
        &self.tap
    }

    /// The figures.
    pub fn books(&self) -> &Books {
        &self.books
    }

    /// Stored, dropped, refused, unfit, over a quota.
    pub(crate) fn events(&self) -> [u64; 5] {
        let figures = self.intake.figures();
        let dropped = figures.dropped + self.tap.dropped();
        [
            figures.stored,
            dropped,
            figures.refused,
            self.tap.unfit(),
            self.books.over_quota(),
        ]
    }

    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.intake.figures().waiting_bytes
    }

    pub(crate) fn failures(&self) -> u64 {
        self.intake.figures().failures
    }

    pub(crate) fn away_seconds(&self) -> u64 {
        self.intake.figures().away_seconds
    }

    /// How much of its quota the fullest namespace uses.
    pub(crate) fn quotas_used(&self) -> f64 {
        self.quotas.used()
    }

    /// Why a namespace takes no more events; `None`: it takes them.
    pub(crate) fn refusal(&self, namespace: &str) -> Option<Fault> {
        self.quotas.refusal(namespace)
    }

    /// Whether events of a room are stored.
    pub(crate) fn keeps(&self, namespace: &str, room: &str) -> bool {
        self.plan.of(namespace, room).is_some()
    }

    pub(crate) fn keeps_some_of(&self, namespace: &str) -> bool {
        self.plan.namespaces().any(|name| name == namespace)
    }

    /// For a program that waits until its event is stored.
    pub(crate) fn receipt(&self) -> Receipt<'_> {
        self.receipts.open()
    }

    /// A page, or why there is none. One of many that are under way is refused.
    pub(crate) async fn page(&self, ask: Ask) -> Result<Page, Fault> {
        self.within(READ_TIME, self.store.page(ask)).await
    }

    /// Deletes; how many events there were.
    pub(crate) async fn forget(&self, what: Forget) -> Result<u64, Fault> {
        let _deletes = self.deletions.read().await;
        if self.memory.is_some() && self.is_lent.load(Ordering::Acquire) {
            return Err(lending::elsewhere());
        }
        // Events that still wait would be stored after the deletion, and stay.
        carrying::drain(self);
        if !self.intake.settle().await {
            self.books.refused();
            return Err(Fault::unsettled());
        }
        self.within(FORGET_TIME, self.store.forget(what)).await
    }

    async fn within<T>(
        &self,
        time: Duration,
        asked: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        let Ok(_place) = self.reads.try_acquire() else {
            self.books.refused();
            return Err(Fault::busy(READS_MAX));
        };
        let answer = tokio::time::timeout(time, asked).await;
        let answer = answer.unwrap_or_else(|_| Err(Fault::slow(time)));
        self.books.note(&answer);
        answer
    }

    /// Waits until all events so far are stored; `false`: some of it still waits after so long. For a thread of no runtime.
    #[must_use]
    pub fn catch_up(&self, within: Duration) -> bool {
        carrying::drain(self);
        let settled = async { tokio::time::timeout(within, self.intake.settle()).await };
        self.runtime.block_on(settled).unwrap_or(false)
    }

    /// Only this process knows what is stored.
    pub fn remembers(&self) -> bool {
        self.memory.is_some()
    }

    /// What only this process knows, behind a place: about so many bytes of it.
    pub fn remembered(&self, place: Position, bytes: usize) -> Vec<Kept> {
        let memory = self.memory.as_ref();
        memory.map_or_else(Vec::new, |memory| memory.behind(place, bytes))
    }

    /// Goes on with what the process before knew.
    ///
    /// # Errors
    /// It is not in order.
    pub fn remember(&self, events: Vec<Kept>) -> Result<(), Fault> {
        let memory = self.memory.as_ref();
        memory.map_or(Ok(()), |memory| memory.go_on_with(events))
    }

    /// Closes a folder, and deletes nothing of what is remembered: another process is about to open it. For a thread of no runtime.
    ///
    /// # Errors
    /// It cannot be closed, or a deletion is under way, for that long; it is to be taken back.
    pub fn lend(&self, within: Duration) -> Result<(), Fault> {
        let lent = async {
            if self.memory.is_some() {
                let _alone = self.deletions.write().await;
                self.is_lent.store(true, Ordering::Release);
            }
            match &self.folder {
                Some(folder) => folder.lend().await,
                None => Ok(()),
            }
        };
        let lent = async { tokio::time::timeout(within, lent).await };
        let lent = self.runtime.block_on(lent);
        lent.unwrap_or_else(|_| Err(Fault::slow(within)))
    }

    /// Opens a folder that another process has closed. For a thread of no runtime.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn take(&self, within: Duration) -> Result<(), Fault> {
        self.is_lent.store(false, Ordering::Release);
        let folder = self.folder.as_ref();
        folder.map_or(Ok(()), |folder| self.runtime.block_on(folder.take(within)))
    }

    /// Writes what waits, for at most so long, and closes the store, for at most so long again.
    pub async fn close(&self, within: Duration) {
        carrying::drain(self);
        self.intake.close(within).await;
        let closed = tokio::time::timeout(within, self.store.close()).await;
        if let Err(fault) = closed.unwrap_or_else(|_| Err(Fault::slow(within))) {
            tracing::error!(%fault, "cannot close the store of history");
        }
    }
}

/// Removes what is too old, until the process ends.
async fn trim(history: Arc<History>) {
    let mut pause = TRIM_INTERVAL;
    loop {
        tokio::time::sleep(pause).await;
        pause = TRIM_INTERVAL;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now_ms = now.map_or(0, |since| since.as_millis() as u64);
        match history.store.trim(now_ms).await {
            Ok(trimmed) => {
                history.books.trimmed(trimmed);
                if trimmed.more {
                    pause = TRIM_AGAIN;
                }
            }
            Err(fault) => {
                tracing::warn!(%fault, "cannot remove what is too old in the store of history")
            }
        }
    }
}

fn random() -> u64 {
    let mut bytes = [0; 8];
    // Without randomness no process gets so far.
    let _ = aws_lc_rs::rand::fill(&mut bytes);
    u64::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// It deleted behind the copy that another process got, and was answered as done.
    #[test]
    fn nothing_is_deleted_of_what_another_process_is_about_to_have() {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let settings = Settings {
            place: Place::Memory { bytes_max: 1 << 20 },
            plan: Plan::new([]),
            waiting_bytes_max: 1 << 20,
            quotas: BTreeMap::new(),
        };
        let history = runtime.block_on(History::start(settings, false));
        let history = history.expect("memory");
        let forget = || {
            let what = Forget::User {
                namespace: None,
                user: "ann".to_owned(),
            };
            runtime.block_on(history.forget(what))
        };
        let under_way = runtime.block_on(history.deletions.read());
        assert!(history.lend(Duration::from_millis(20)).is_err());
        drop(under_way);
        assert_eq!(forget(), Ok(0), "it was not lent");
        history.lend(READ_TIME).expect("nothing is under way");
        assert_eq!(forget(), Err(lending::elsewhere()));
        history.take(READ_TIME).expect("it was here");
        assert_eq!(forget(), Ok(0));
    }
}
