//! Where the ledger stands: with what nodes share.

use super::answer::Answered;
#[cfg(feature = "nats")]
use super::nats::Nats;
use super::own::Due;
use super::redis::Redis;
use super::words::Words;
use crate::engine::Trouble;
use crate::way::{Kind, Way};
#[cfg(feature = "nats")]
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug)]
pub(super) enum Store {
    Redis(Redis),
    #[cfg(feature = "nats")]
    Nats(Arc<Nats>),
}

impl Store {
    pub(super) async fn open(
        way: &Way,
        prefix: &str,
        remembered: Duration,
    ) -> Result<Self, Trouble> {
        match way.kind() {
            Kind::Redis(settings) => {
                let words = Words::new(prefix, remembered);
                let redis = Redis::open((**settings).clone(), words);
                redis.await.map(Self::Redis)
            }
            #[cfg(feature = "nats")]
            Kind::Nats(plan) => {
                let nats = Nats::open((**plan).clone(), remembered);
                nats.await.map(Arc::new).map(Self::Nats)
            }
        }
    }

    /// Beginning of its keys, or its bucket.
    pub(super) fn root(&self) -> &str {
        match self {
            Self::Redis(redis) => redis.root(),
            #[cfg(feature = "nats")]
            Self::Nats(nats) => nats.root(),
        }
    }

    /// The generation. One that is missing becomes `fresh`, or a name with it.
    pub(super) async fn look(&self, fresh: &str) -> Result<String, Trouble> {
        match self {
            Self::Redis(redis) => redis.look(fresh).await,
            #[cfg(feature = "nats")]
            Self::Nats(nats) => nats.look(fresh).await,
        }
    }

    /// Takes an order that nobody has. `known`: the generation that the asker knows.
    pub(super) async fn claim(
        &self,
        name: &str,
        entry: &str,
        known: &str,
        fresh: &str,
    ) -> Result<Answered, Trouble> {
        match self {
            Self::Redis(redis) => redis.claim(name, entry, known, fresh).await,
            #[cfg(feature = "nats")]
            Self::Nats(nats) => nats.claim(name, entry, known, fresh).await,
        }
    }

    /// Writes what this node says of its orders. `Some`: what another one said of it, which stays.
    pub(super) async fn write(&self, due: &[Due]) -> Vec<Result<Option<String>, Trouble>> {
        match self {
            Self::Redis(redis) => redis.write(due).await,
            #[cfg(feature = "nats")]
            Self::Nats(nats) => nats.write(due).await,
        }
    }

    /// Replaces an entry, if it is still that one.
    pub(super) async fn swap(&self, name: &str, held: &str, entry: &str) -> Result<bool, Trouble> {
        match self {
            Self::Redis(redis) => redis.swap(name, held, entry).await,
            #[cfg(feature = "nats")]
            Self::Nats(nats) => nats.swap(name, held, entry).await,
        }
    }
}
