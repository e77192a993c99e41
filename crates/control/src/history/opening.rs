//! Which store it is, and how it is opened.

use super::place::Place;
use super::quotas::Quota;
#[cfg(feature = "history-redis")]
use super::redis;
use ::history::{Fault, Memory, Plan, Store};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The store.
    pub place: Place,
    /// Which rooms are stored, and how much of each.
    pub plan: Plan,
    /// Bytes of events that may wait for the store.
    pub waiting_bytes_max: usize,
    /// What all rooms of a namespace keep together, by namespace.
    pub quotas: BTreeMap<String, Quota>,
}

/// The stores of this build.
const STORES: [(&str, bool); 4] = [
    ("memory", true),
    ("disk", cfg!(feature = "history-disk")),
    ("redis", cfg!(feature = "history-redis")),
    ("postgres", cfg!(feature = "history-postgres")),
];

/// Why this build has no such store; `None`: it has.
pub fn missing(store: &str) -> Option<String> {
    let has = STORES.contains(&(store, true));
    (!has).then(|| {
        format!("this build has no store {store:?}: build with `--features history-{store}`; packages and images have it")
    })
}

pub(super) async fn open(settings: &Settings) -> Result<Arc<dyn Store>, Fault> {
    let plan = settings.plan.clone();
    Ok(match &settings.place {
        Place::Memory { bytes_max } => Arc::new(Memory::new(plan, *bytes_max)),
        #[cfg(feature = "history-disk")]
        Place::Disk { folder, sync } => {
            use ::history::Disk;
            Arc::new(Disk::open(folder.clone(), *sync, plan).await?)
        }
        #[cfg(feature = "history-redis")]
        Place::Redis(place) => Arc::new(redis::open(place, plan).await?),
        #[cfg(feature = "history-postgres")]
        Place::Postgres { url } => Arc::new(::history::Postgres::open(url.reveal(), plan).await?),
        // The configuration is refused before.
        #[cfg(not(all(
            feature = "history-disk",
            feature = "history-redis",
            feature = "history-postgres"
        )))]
        place => {
            return Err(Fault::new(
                ::history::Kind::Refused,
                format!("this build has no such store: {place:?}"),
            ));
        }
    })
}
