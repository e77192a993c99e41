//! Streams that stand still, because another process is to go on from where they are: nothing is passed on to shards meanwhile. What is
//! written is written on. If the one who holds them goes away, for whatever reason, they go on as if nothing had been.

use super::{Desk, Office};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::sync::OwnedMutexGuard;

const LOOK: Duration = Duration::from_millis(2);

/// How far the shards of a process have a namespace's stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stand {
    /// Its namespace.
    pub namespace: String,
    /// The number of the last entry that they have.
    pub number: u64,
    /// The name of the Redis that has it.
    pub generation: String,
}

/// The streams of a process.
#[derive(Debug)]
pub struct Streams {
    office: Weak<Office>,
    /// The turns of readers that wait for the word of the process before.
    waiting: Mutex<Vec<OwnedMutexGuard<()>>>,
}

/// Streams that stand still. They go on when this is dropped.
pub struct Still {
    office: Arc<Office>,
    turns: Vec<OwnedMutexGuard<()>>,
}

impl std::fmt::Debug for Still {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.stands()).finish()
    }
}

impl Streams {
    pub(super) fn of(office: &Arc<Office>) -> Self {
        Self {
            office: Arc::downgrade(office),
            waiting: Mutex::default(),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<OwnedMutexGuard<()>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Readers that have not begun wait.
    pub(super) fn wait(&self) {
        if let Some(office) = self.office.upgrade() {
            let turns = office.desks.values().filter_map(Desk::try_turn);
            *self.waiting() = turns.collect();
        }
    }

    /// Waits until all is written that hubs have for the streams; `false`: Redis has not taken it in this time. Blocks.
    pub fn catch_up(&self, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        let unwritten = || {
            let office = self.office.upgrade();
            office.is_some_and(|office| office.chronicle.unwritten() > 0)
        };
        while unwritten() {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(LOOK);
        }
        true
    }

    /// Nothing is passed on from now on. Blocks.
    ///
    /// # Errors
    /// A reader is in the middle of something for longer than that.
    pub fn stand_still(&self, within: Duration) -> Result<Still, String> {
        let deadline = Instant::now() + within;
        let office = self.office.upgrade();
        let office = office.ok_or_else(|| "the streams of recovery are read no more".to_owned())?;
        let mut turns = Vec::new();
        for desk in office.desks.values() {
            turns.push(loop {
                if let Some(turn) = desk.try_turn() {
                    break turn;
                }
                if Instant::now() >= deadline {
                    return Err(format!(
                        "the stream of {} (recovery.level = \"cluster\") does not come to rest",
                        desk.course.namespace
                    ));
                }
                std::thread::sleep(LOOK);
            });
        }
        Ok(Still { office, turns })
    }

    /// Shards are sent what comes behind these places, once they [begin](Self::begin).
    ///
    /// # Errors
    /// The process before had other streams.
    pub fn go_on_from(&self, stands: &[Stand]) -> Result<(), String> {
        let office = self.office.upgrade();
        let office = office.ok_or_else(|| "the streams of recovery are read no more".to_owned())?;
        let own: Vec<&str> = office.desks.keys().map(String::as_str).collect();
        let theirs: Vec<&str> = stands.iter().map(|stand| &*stand.namespace).collect();
        if own != theirs {
            return Err(format!(
                "it has recovery of level \"cluster\" in \"{}\", and this configuration in \"{}\": restart instead, or take the change back",
                theirs.join(", "),
                own.join(", ")
            ));
        }
        for (desk, stand) in office.desks.values().zip(stands) {
            let course = &desk.course;
            if stand.generation.is_empty() {
                return Err(format!("it has not read the stream of {}", stand.namespace));
            }
            course.note_generation(stand.generation.clone());
            course.position.send_replace(stand.number);
            office.chronicle.begins(&course.namespace, stand.number);
            // What is said beside the stream tells clients where they are in it.
            office.deliver(&office.mail.passed(&course.namespace, stand.number));
            desk.health.reads_fail(false);
            office.note_state(desk);
        }
        Ok(())
    }

    /// Readers begin.
    pub fn begin(&self) {
        self.waiting().clear();
    }
}

impl Still {
    /// Where each stands, in the order of the namespaces' names.
    pub fn stands(&self) -> Vec<Stand> {
        let stands = self.office.desks.values().map(|desk| Stand {
            namespace: desk.course.namespace.clone(),
            number: *desk.course.position.borrow(),
            generation: desk.course.generation().0,
        });
        stands.collect()
    }

    /// Another process goes on from there: nothing is passed on here any more.
    pub fn commit(self) {
        // The turns are not given back.
        let given = self.office.given.lock();
        let mut given = given.unwrap_or_else(PoisonError::into_inner);
        given.extend(self.turns);
    }
}

impl Desk {
    fn try_turn(&self) -> Option<OwnedMutexGuard<()>> {
        Arc::clone(&self.turn).try_lock_owned().ok()
    }
}
