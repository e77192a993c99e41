//! Node numbers: a lease in the engine for each, held by one life of one node at a time.

use super::card::Card;
use super::engine::{Engine, Holder, Lease, Name, Taken, Trouble};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Numbers that an id has room for.
pub const NUMBERS: u16 = 1024;
/// A lease that is not renewed ends so late.
const TIME: Duration = Duration::from_secs(15);
/// How often it is renewed.
pub(super) const RENEWAL: Duration = Duration::from_secs(5);
/// How often a number that is taken is asked for again, while its last life may be over.
const RETRY: Duration = Duration::from_millis(500);

/// The lease of a node's number.
#[derive(Clone, Debug)]
pub(super) struct Number {
    pub(super) number: u16,
    pub(super) lease: Lease,
}

fn key(prefix: &str, number: u16) -> Name {
    // One tag, so that all of them can be read at once from a cluster of Redis.
    format!("{prefix}{{nodes}}:{number}").into_bytes().into()
}

/// Where the leases of all numbers are.
pub(super) fn keys(prefix: &str) -> Arc<[Name]> {
    (0..NUMBERS).map(|number| key(prefix, number)).collect()
}

impl Number {
    fn new(prefix: &str, number: u16, clock: u64, payload: &str) -> Self {
        let counter = format!("{prefix}{{nodes}}:epoch");
        Self {
            number,
            lease: Lease {
                key: key(prefix, number),
                counter: counter.into_bytes().into(),
                epoch: clock,
                payload: payload.to_owned(),
                time: TIME,
            },
        }
    }

    /// Tells this life of the node from all before.
    pub(super) fn epoch(&self) -> u64 {
        self.lease.epoch
    }

    /// Tries to become the holder; who it is otherwise.
    async fn try_take(&mut self, engine: &Engine) -> Result<Option<Holder>, Trouble> {
        match engine.take(&self.lease).await? {
            Taken::Mine(epoch) => {
                self.lease.epoch = epoch;
                Ok(None)
            }
            Taken::Other(holder) => Ok(Some(holder)),
        }
    }

    /// Takes a given number, or the lowest that is free. A given one may still be its last life's for a while. `clock` is a time:
    /// epochs rise also when the engine has lost the last one.
    pub(super) async fn take(
        engine: &Engine,
        prefix: &str,
        given: Option<u16>,
        clock: u64,
        payload: &str,
    ) -> Result<Self, Trouble> {
        let Some(given) = given else {
            return Self::take_free(engine, prefix, clock, payload).await;
        };
        let mut number = Self::new(prefix, given, clock, payload);
        let deadline = Instant::now() + TIME + RENEWAL;
        while let Some(holder) = number.try_take(engine).await? {
            if Instant::now() >= deadline {
                return Err(Trouble::new(format!(
                    "cannot join the cluster: node number {given} is held by {}; give each node a server.node of its own, or \
                     \"auto\"",
                    Card::read(&holder.payload).name
                )));
            }
            tokio::time::sleep(RETRY).await;
        }
        Ok(number)
    }

    async fn take_free(
        engine: &Engine,
        prefix: &str,
        clock: u64,
        payload: &str,
    ) -> Result<Self, Trouble> {
        let holders = engine.holders(&keys(prefix)).await?;
        let free = (0..NUMBERS)
            .zip(holders)
            .filter(|(_, holder)| holder.is_none());
        for (free, _) in free {
            let mut number = Self::new(prefix, free, clock, payload);
            // Another node may have been faster.
            if number.try_take(engine).await?.is_none() {
                return Ok(number);
            }
        }
        Err(Trouble::new(format!(
            "cannot join the cluster: all {NUMBERS} node numbers are held"
        )))
    }
}
