//! The ledger in a bucket of JetStream, in memory. Its generation is the name of the bucket's life: a server that lost all takes no entry
//! that was meant for the life before.

use super::answer::{Answered, YOUNG};
use super::entry::Entry;
use super::own::Due;
use crate::engine::Trouble;
use crate::nats::{Plan, crowded, root, trouble};
use ::nats::engine::{Bucket, Engine, Unkept, Value, open};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Somebody else may write at the same time; then it is looked at again.
const TRIES_MAX: usize = 8;
/// Of all entries, in the memory of the server that also keeps the numbers of nodes.
const BYTES_MAX: u32 = 64 << 20;
const SPREAD: &str = "nodes that share several servers of NATS, or a JetStream of another domain, do not remember them for each other, and waiting does not help: use one server of NATS, or cluster.adapter = \"redis\"";
/// What another node says is told up to here.
const TOLD_BYTES: usize = 512;

#[derive(Debug)]
pub(super) struct Nats {
    engine: Engine,
    bucket: Bucket,
    has_domain: bool,
    known: Mutex<Option<Known>>,
}

/// The bucket's life.
#[derive(Clone, Debug)]
struct Known {
    life: String,
    young_until: Instant,
}

impl Nats {
    pub(super) async fn open(plan: Plan, remembered: Duration) -> Result<Self, Trouble> {
        let root = root(&plan.prefix);
        let bucket = Bucket {
            name: format!("{root}_once"),
            age: Some(remembered),
            bytes_max: Some(BYTES_MAX),
        };
        let has_domain = plan.domain.is_some();
        let plan = ::nats::engine::Plan {
            settings: plan.settings,
            root,
            domain: plan.domain,
            buckets: Vec::new(),
            queue_bytes: plan.queue_bytes,
            is_quiet: true,
        };
        // The state of the connection is seen by what becomes of questions.
        let engine = open(plan, Arc::new(|_| {})).await;
        Ok(Self {
            engine: engine.map_err(|why| trouble(&why))?,
            bucket,
            has_domain,
            known: Mutex::default(),
        })
    }

    pub(super) fn root(&self) -> &str {
        &self.bucket.name
    }

    pub(super) async fn look(&self, fresh: &str) -> Result<String, Trouble> {
        let (_, is_cluster) = self.engine.server().await.map_err(|why| trouble(&why))?;
        if is_cluster || self.has_domain {
            return Err(Trouble::lasting(SPREAD));
        }
        let life = self.engine.life(&self.bucket, fresh).await;
        let life = life.map_err(|why| trouble(&why))?;
        if self.known().as_ref().is_none_or(|known| known.life != life) {
            let age = self.engine.age(&self.bucket, &life).await;
            let age = age.map_err(|why| unkept(&why))?;
            *self.known() = Some(Known {
                life: life.clone(),
                young_until: Instant::now() + YOUNG.saturating_sub(age),
            });
        }
        Ok(life)
    }

    pub(super) async fn claim(
        &self,
        name: &str,
        entry: &str,
        known: &str,
        fresh: &str,
    ) -> Result<Answered, Trouble> {
        for _ in 0..TRIES_MAX {
            let now = self.known().clone();
            let Some(now) = now else {
                self.look(fresh).await?;
                continue;
            };
            if now.life != known {
                return Ok(Answered::Another(now.life));
            }
            if Instant::now() < now.young_until {
                return Ok(Answered::Young);
            }
            let (life, bytes) = (&now.life, entry.as_bytes());
            let engine = &self.engine;
            let written = engine.write_in(&self.bucket, life, name, bytes, Some(0));
            match written.await {
                Ok(true) => return Ok(Answered::Mine),
                Ok(false) => match self.read(life, name).await {
                    Ok(Some((held, _))) if held == entry => return Ok(Answered::Mine),
                    Ok(Some((held, _))) => return Ok(Answered::Held(held)),
                    // It ended just now.
                    Ok(None) => {}
                    Err(why) => self.forget(why)?,
                },
                Err(why) => self.forget(why)?,
            }
        }
        Err(crowded())
    }

    /// `Some`: what another node said of the same order, or this one said later.
    pub(super) async fn write(
        self: &Arc<Self>,
        due: &[Due],
    ) -> Vec<Result<Option<String>, Trouble>> {
        let begin = |due: &Due| {
            let (nats, due) = (Arc::clone(self), due.clone());
            tokio::spawn(async move { nats.write_one(&due).await })
        };
        let begun: Vec<_> = due.iter().map(begin).collect();
        let mut answers = Vec::with_capacity(due.len());
        for one in begun {
            let ended = || Err(Trouble::new("writing to NATS has failed"));
            answers.push(one.await.unwrap_or_else(|_| ended()));
        }
        answers
    }

    async fn write_one(&self, due: &Due) -> Result<Option<String>, Trouble> {
        let life = self.life()?;
        let entry = due.entry().map(|entry| self.short(due, entry));
        for _ in 0..TRIES_MAX {
            let held = self.read(&life, due.name()).await;
            let held = held.map_err(|why| self.is_gone(why))?;
            let is_own = |held: &str| held.starts_with(due.prefix());
            let done = match (&entry, held) {
                (None, Some((held, revision))) if is_own(&held) => {
                    let erased = self.engine.erase_in(&self.bucket, &life, revision);
                    erased.await.map(|()| true)
                }
                (None, _) => return Ok(None),
                (Some(entry), Some((held, _)))
                    if held != *entry && !is_own(&held) && !held.starts_with("lost ") =>
                {
                    return Ok(Some(held.chars().take(TOLD_BYTES).collect()));
                }
                (Some(entry), held) => {
                    let over = held.map_or(0, |(_, revision)| revision);
                    let (name, bytes) = (due.name(), entry.as_bytes());
                    let written =
                        self.engine
                            .write_in(&self.bucket, &life, name, bytes, Some(over));
                    written.await
                }
            };
            if done.map_err(|why| self.is_gone(why))? {
                return Ok(None);
            }
        }
        Err(crowded())
    }

    pub(super) async fn swap(&self, name: &str, held: &str, entry: &str) -> Result<bool, Trouble> {
        let life = self.life()?;
        let now = self.read(&life, name).await;
        let now = now.map_err(|why| self.is_gone(why))?;
        let Some((_, revision)) = now.filter(|(now, _)| now == held) else {
            return Ok(false);
        };
        let (bucket, bytes) = (&self.bucket, entry.as_bytes());
        let written = self
            .engine
            .write_in(bucket, &life, name, bytes, Some(revision));
        written.await.map_err(|why| self.is_gone(why))
    }

    /// A server takes no larger message than it says: of such an answer nobody else hears more than that there was one.
    fn short(&self, due: &Due, entry: &str) -> String {
        if self.engine.fits(entry.len()) {
            return entry.to_owned();
        }
        let lost = Entry::read(entry).map(|entry| entry.lost());
        tracing::warn!(
            order = due.name(),
            bytes = entry.len(),
            "an answer under an Idempotency-Key is larger than max_payload of NATS: only this node can give it again"
        );
        lost.unwrap_or_default()
    }

    async fn read(&self, life: &str, name: &str) -> Result<Option<(String, u64)>, Unkept> {
        let value = self.engine.read_in(&self.bucket, life, name).await?;
        Ok(value.map(|Value { bytes, revision }| {
            (String::from_utf8_lossy(&bytes).into_owned(), revision)
        }))
    }

    fn life(&self) -> Result<String, Trouble> {
        let known = self.known();
        let known = known.as_ref().map(|known| known.life.clone());
        known.ok_or_else(|| unkept(&Unkept::Gone))
    }

    /// The next question finds another life.
    fn is_gone(&self, why: Unkept) -> Trouble {
        if why == Unkept::Gone {
            *self.known() = None;
        }
        unkept(&why)
    }

    /// As long as it is no other trouble.
    fn forget(&self, why: Unkept) -> Result<(), Trouble> {
        match (why == Unkept::Gone, self.is_gone(why)) {
            (true, _) => Ok(()),
            (false, trouble) => Err(trouble),
        }
    }

    fn known(&self) -> MutexGuard<'_, Option<Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unkept(why: &Unkept) -> Trouble {
    match why {
        Unkept::Gone => Trouble::new("NATS lost what it knew of Idempotency-Keys just now"),
        Unkept::Spread => Trouble::lasting(SPREAD),
        Unkept::Trouble(why) => trouble(why),
    }
}
