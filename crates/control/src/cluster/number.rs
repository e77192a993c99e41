//! Node numbers: a lease in the engine for each, held by one life of one node at a time.

use super::engine::{Engine, Held, Lease, Name, Trouble};
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
    pub(super) epoch: u64,
    pub(super) lease: Lease,
}

fn key(prefix: &str, number: u16) -> Name {
    // One tag, so that all of them can be read at once from a cluster of Redis.
    format!("{prefix}{{nodes}}:{number}").into_bytes().into()
}

impl Number {
    fn new(prefix: &str, number: u16, epoch: u64, payload: &str) -> Self {
        Self {
            number,
            epoch,
            lease: Lease {
                key: key(prefix, number),
                fence: format!("{epoch:x}"),
                payload: payload.to_owned(),
                time: TIME,
            },
        }
    }

    /// Takes a given number, or the lowest that is free. A given one may still be its last life's for a while.
    pub(super) async fn take(
        engine: &Engine,
        prefix: &str,
        given: Option<u16>,
        epoch: u64,
        payload: &str,
    ) -> Result<Self, Trouble> {
        let Some(given) = given else {
            return Self::take_free(engine, prefix, epoch, payload).await;
        };
        let number = Self::new(prefix, given, epoch, payload);
        let deadline = Instant::now() + TIME + RENEWAL;
        loop {
            match engine.hold(&number.lease).await? {
                Held::Mine => return Ok(number),
                Held::Other(holder) if Instant::now() >= deadline => {
                    return Err(Trouble::new(format!(
                        "cannot join the cluster: node number {given} is held by {}; give each node a server.node of its own, or \
                         \"auto\"",
                        holder.payload
                    )));
                }
                Held::Other(_) => tokio::time::sleep(RETRY).await,
            }
        }
    }

    async fn take_free(
        engine: &Engine,
        prefix: &str,
        epoch: u64,
        payload: &str,
    ) -> Result<Self, Trouble> {
        let keys: Vec<Name> = (0..NUMBERS).map(|number| key(prefix, number)).collect();
        let holders = engine.holders(&keys).await?;
        let free = (0..NUMBERS)
            .zip(holders)
            .filter(|(_, holder)| holder.is_none());
        for (free, _) in free {
            let number = Self::new(prefix, free, epoch, payload);
            // Another node may have been faster.
            if engine.hold(&number.lease).await? == Held::Mine {
                return Ok(number);
            }
        }
        Err(Trouble::new(format!(
            "cannot join the cluster: all {NUMBERS} node numbers are held"
        )))
    }
}
