//! Large bodies: events that are too large to be sent to everybody, and what clients upload. A store keeps them, this part serves
//! them, and members get references.
//!
//! It has a thread of its own with a low priority, so that transfers slow no chat down.

mod books;
mod bucket;
mod door;
mod download;
mod fault;
mod key;
mod pace;
mod quota;
mod range;
mod refusal;
mod sign;
mod spool;
mod stall;
mod store;
mod upload;

pub use books::Books;
pub use bucket::{Bucket, HAS_S3, WITHOUT_S3};
pub use quota::Bounds;
pub use sign::is_reserved;
pub use store::Place;

pub(crate) use books::load;
pub(crate) use fault::Fault;
pub(crate) use key::Key;

use hub::config::Cors;
use identity::{Secret, Verifier};
use key::Form;
use pace::Pace;
use process::vitals::Pulse;
use quota::{Addresses, Quotas};
use rules::ToShards;
use rules::large::{Large, LargeEvent, answer, event_bytes, reference};
use rules::{Message, Uploads};
use sign::Signer;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use store::Store;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// Longest time between two looks for old bodies.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// Threads that wait for files.
const FILE_THREADS: usize = 8;
/// Transfers give way to all that is quick: clients, operators, workers.
const NICENESS: i32 = 10;

/// The treatment of large events, by namespace; `*` is every other one.
pub type Namespaces = BTreeMap<String, Large>;

/// The treatment in one namespace.
pub fn treatment(namespaces: &Namespaces, namespace: &str) -> Large {
    let found = namespaces.get(namespace).or_else(|| namespaces.get("*"));
    found.copied().unwrap_or_default()
}

/// The settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub place: Place,
    pub namespaces: Namespaces,
    /// Signs addresses. `None`: one that this process makes.
    pub secret: Option<Secret>,
    /// Before the paths of addresses.
    pub public_url: String,
    pub url_lifetime: Duration,
    /// Older bodies are removed.
    pub keep: Duration,
    /// For each request to the store.
    pub store_timeout: Duration,
    /// A peer that neither sends nor takes anything for so long is gone.
    pub idle_timeout: Duration,
    /// For one transfer.
    pub transfer_timeout: Duration,
    /// Of all transfers together.
    pub bytes_per_second: u64,
    pub transfers_max: usize,
    /// Of one address.
    pub transfers_per_address: usize,
    /// Pages of other origins that may fetch and upload.
    pub cors: Cors,
    /// `None`: clients upload nothing.
    pub uploads: Option<UploadSettings>,
}

/// Bounds of uploads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UploadSettings {
    pub bytes_max: u64,
    pub user: Bounds,
    pub address: Bounds,
    /// The time in which bytes are counted.
    pub window: Duration,
}

/// The part of a node that keeps bodies.
pub struct Bodies {
    settings: Settings,
    store: Store,
    signer: Signer,
    quotas: Option<Quotas>,
    books: Arc<Books>,
    runtime: Handle,
    transfers: Arc<Semaphore>,
    addresses: Addresses,
    pace: Arc<Pace>,
    announcer: OnceLock<Announcer>,
}

/// The announcer of uploads: the rules name event and room, the shards send it.
pub struct Announcer {
    pub rules: Uploads,
    pub shards: Box<dyn ToShards>,
    /// `None`: no token can be checked, so nobody uploads.
    pub verifier: Option<Arc<Verifier>>,
}

impl std::fmt::Debug for Announcer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Announcer").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Bodies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bodies").finish_non_exhaustive()
    }
}

impl Bodies {
    /// Opens the store, and starts the thread.
    pub fn start(settings: Settings, pulse: Pulse) -> Result<Arc<Self>, String> {
        let Settings {
            place,
            store_timeout,
            keep,
            ..
        } = &settings;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(FILE_THREADS)
            .thread_name("bodies: files")
            .build();
        let runtime = runtime.map_err(|error| format!("cannot keep large events: {error}"))?;
        let store = Store::open(place, *store_timeout, *keep)?;
        let secret = settings.secret.as_ref();
        let signer = Signer::new(secret, settings.url_lifetime, &settings.public_url);
        let quotas = settings.uploads.map(|uploads| {
            let UploadSettings {
                user,
                address,
                window,
                ..
            } = uploads;
            Quotas::new(user, address, window)
        });
        let bodies = Arc::new(Self {
            store,
            signer: signer.ok_or("cannot sign addresses: the system has no randomness")?,
            quotas,
            books: Arc::default(),
            runtime: runtime.handle().clone(),
            transfers: Arc::new(Semaphore::new(settings.transfers_max)),
            addresses: Addresses::new(settings.transfers_per_address),
            pace: Arc::new(Pace::new(settings.bytes_per_second)),
            announcer: OnceLock::new(),
            settings,
        });
        let sweeping = Arc::clone(&bodies);
        let thread = std::thread::Builder::new().name("bodies".to_owned());
        let started = thread.spawn(move || {
            let _pulse = pulse;
            // A refusal costs others some time, and nothing else.
            let _ = rustix::process::setpriority_process(None, NICENESS);
            runtime.block_on(sweeping.sweep());
        });
        started.map_err(|error| format!("cannot keep large events: {error}"))?;
        Ok(bodies)
    }

    /// From now on uploads can be announced.
    pub fn open(&self, announcer: Announcer) {
        // Nobody else sets it.
        let _ = self.announcer.set(announcer);
    }

    /// The sources of metrics.
    pub fn books(&self) -> &Books {
        &self.books
    }

    /// A shard's handler wants an event kept. Returns at once; the answer is for the handler.
    pub fn ask(
        self: &Arc<Self>,
        question: Box<[u8]>,
        answered: impl FnOnce(Option<Box<[u8]>>) + Send + 'static,
    ) {
        let Some(event) = LargeEvent::read(question) else {
            return answered(None);
        };
        let bodies = Arc::clone(self);
        self.runtime.spawn(async move {
            let kept = bodies.keep(event).await;
            let kept = kept.map_err(|fault| fault.message().to_owned());
            answered(Some(answer(&kept)));
        });
    }

    /// The same for a message of a program or a worker: what is to be sent in its place, if it is large.
    pub(crate) async fn replace(
        self: &Arc<Self>,
        namespace: &str,
        message: &Message,
    ) -> Result<Option<Message>, Fault> {
        let Message {
            event,
            args,
            attachments,
            volatile,
            receipt,
            spot,
        } = message;
        let large = treatment(&self.settings.namespaces, namespace);
        if !large.stores(event_bytes(event, args, attachments)) {
            return Ok(None);
        }
        let body = LargeEvent::new(namespace, event, args, attachments);
        let bodies = Arc::clone(self);
        let kept = self.runtime.spawn(async move { bodies.keep(body).await });
        let kept = kept.await.map_err(|error| Fault::Away(error.to_string()))?;
        Ok(Some(Message {
            event: hub::notices::LARGE.to_owned(),
            args: kept?,
            attachments: Vec::new(),
            volatile: *volatile,
            receipt: *receipt,
            spot: spot.clone(),
        }))
    }

    /// The reference to an event that is stored now.
    async fn keep(&self, event: LargeEvent) -> Result<String, Fault> {
        let kept = self.store_event(event).await;
        match &kept {
            Ok(_) => books::add(&self.books.stored, 1),
            Err(fault) => {
                books::add(&self.books.failed, 1);
                tracing::warn!(%fault, "cannot keep a large event");
            }
        }
        kept
    }

    async fn store_event(&self, event: LargeEvent) -> Result<String, Fault> {
        let LargeEvent {
            namespace,
            event,
            form,
            body,
        } = event;
        let no_name = || Fault::Away("the system has no randomness".to_owned());
        let key = Key::make(&namespace, Form::from(form)).ok_or_else(no_name)?;
        let size = body.len() as u64;
        self.store.put(&key, body).await?;
        let url = self.signer.url(&key, None);
        Ok(reference(key.as_str(), &url, size, &event, &[]))
    }

    /// Removes a body. The error tells whether there was one.
    pub(crate) async fn delete(self: &Arc<Self>, key: Key) -> Result<(), Fault> {
        let bodies = Arc::clone(self);
        let deleted = self
            .runtime
            .spawn(async move { bodies.store.delete(&key).await });
        deleted
            .await
            .map_err(|error| Fault::Away(error.to_string()))??;
        books::add(&self.books.removed, 1);
        Ok(())
    }

    async fn sweep(&self) {
        let every = SWEEP_EVERY
            .min(self.settings.keep / 4)
            .max(Duration::from_millis(250));
        let mut ticks = tokio::time::interval(every);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut failing = false;
        loop {
            ticks.tick().await;
            match self.store.sweep().await {
                Ok(removed) => {
                    books::add(&self.books.removed, removed);
                    failing = false;
                }
                // Said once for each outage.
                Err(fault) if !failing => {
                    failing = true;
                    tracing::warn!(%fault, "cannot remove old bodies");
                }
                Err(_) => {}
            }
            let bytes = self.store.folder_bytes();
            self.books.folder_bytes.store(bytes, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_of_its_own_is_none_of_the_others() {
        let store = Large::Store {
            above: 1,
            timeout: Duration::ZERO,
        };
        let all = [("*", store), ("/own", Large::Through)];
        let all = all.map(|(name, large)| (name.to_owned(), large)).into();
        assert_eq!(treatment(&all, "/own"), Large::Through);
        assert_eq!(treatment(&all, "/else"), store);
        assert_eq!(treatment(&Namespaces::new(), "/else"), Large::Through);
    }
}
