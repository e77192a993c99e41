//! A store in files of this node, on fjall: a log-structured tree with a journal. One process has the folder at a time.

use crate::ask::{Ask, Filling, Forget, Page, Shed, Trimmed, Usage, Way};
use crate::bounds::TRIM_MAX;
use crate::disk_fault::fault;
use crate::disk_keys::{self as keys, Gist, Row};
use crate::event::{Batch, Event, Kept};
use crate::fault::{Fault, Kind};
use crate::plan::{Keep, Plan};
use crate::position::Position;
use crate::store::{Answer, Store};
use crate::sync::Sync;
use fjall::{
    AbstractTree, Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch as Changes,
    PersistMode,
};
use std::collections::{BTreeMap, HashMap};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Of decoded blocks, for all rooms.
const CACHE_BYTES: u64 = 32 << 20;
/// What each of the five trees holds in memory before it is written out; and of the journal, which is read at the start.
const TREE_BYTES: u64 = 8 << 20;
const JOURNAL_BYTES: u64 = 64 << 20;
/// Events that one step deletes or looks at, so that events that come wait no longer than for that.
const STEP: usize = 1_000;
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// Events in a folder.
#[derive(Debug)]
pub struct Disk(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    sync: Sync,
    plan: Plan,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// `None`: it failed, and is opened anew by whoever needs it next; or it is closed.
    open: Option<Open>,
    closed: bool,
    /// Where retention goes on.
    trimmed: Vec<u8>,
}

#[derive(Clone)]
struct Open {
    database: Database,
    /// Events by room and place.
    events: Keyspace,
    /// What each room has: number and bytes.
    rooms: Keyspace,
    /// Names of all events by their time, with what removing them needs.
    times: Keyspace,
    /// Names of events by their user.
    users: Keyspace,
    /// The last place, and the last batch.
    facts: Keyspace,
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Open").finish_non_exhaustive()
    }
}

impl Disk {
    /// Opens the folder, or makes it. Within a runtime.
    ///
    /// # Errors
    /// Another process has it, or what is in it cannot be read.
    pub async fn open(folder: PathBuf, sync: Sync, plan: Plan) -> Result<Self, Fault> {
        let inner = Arc::new(Inner {
            folder,
            sync,
            plan,
            state: Mutex::default(),
        });
        let disk = Self(inner);
        disk.run(|inner| inner.state().map(drop)).await?;
        if sync == Sync::Second {
            tokio::spawn(write_through(Arc::downgrade(&disk.0)));
        }
        Ok(disk)
    }

    /// On a thread that may block.
    async fn run<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Inner) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let inner = Arc::clone(&self.0);
        let done = tokio::task::spawn_blocking(move || act(&inner)).await;
        done.unwrap_or_else(|_| Err(Fault::closed()))
    }
}

async fn write_through(inner: std::sync::Weak<Inner>) {
    loop {
        tokio::time::sleep(SYNC_INTERVAL).await;
        let Some(inner) = inner.upgrade() else { return };
        let written = tokio::task::spawn_blocking(move || {
            let open = inner.lock().open.clone();
            open.map_or(Ok(()), |open| open.database.persist(PersistMode::SyncData))
        });
        if let Ok(Err(error)) = written.await {
            tracing::error!(%error, "the store of history cannot write through to the disk");
        }
    }
}

/// What is open, and whose turn it is.
struct Turn<'a> {
    state: MutexGuard<'a, State>,
    open: Open,
}

impl Turn<'_> {
    /// After a failure nothing is known of what was written: the journal is read again before the next step.
    fn fail(mut self, error: &fjall::Error, folder: &Path) -> Fault {
        self.state.open = None;
        fault(error, folder)
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> Result<Turn<'_>, Fault> {
        let mut state = self.lock();
        if state.closed {
            return Err(Fault::closed());
        }
        let open = match &state.open {
            Some(open) => open.clone(),
            None => {
                let open = Open::new(&self.folder).map_err(|error| fault(&error, &self.folder))?;
                state.open.insert(open).clone()
            }
        };
        Ok(Turn { state, open })
    }

    /// A step that changes something: all of it or nothing.
    fn change<T>(
        &self,
        act: impl FnOnce(&mut Step<'_>) -> Result<T, fjall::Error>,
    ) -> Result<T, Fault> {
        let turn = self.state()?;
        let mut step = Step::new(&turn.open, self.sync);
        let done = act(&mut step).and_then(|value| step.commit().map(|()| value));
        done.map_err(|error| turn.fail(&error, &self.folder))
    }

    fn append(&self, batch: &Batch) -> Result<Vec<Position>, Fault> {
        let mut keeps = Vec::new();
        for event in &batch.events {
            keeps.push(crate::memory::keep_of(&self.plan, event)?);
            keys::check(event)?;
        }
        self.change(|step| {
            match step.last_batch(batch.writer)? {
                Some((number, places)) if number == batch.number => return Ok(Some(places)),
                // Given up by its writer, which has gone on: another attempt stored it.
                Some((number, _)) if number > batch.number => return Ok(None),
                _ => {}
            }
            let mut last = step.last()?;
            let mut places = Vec::new();
            for event in &batch.events {
                last = last.next(event.time_ms);
                places.push(last);
                step.put(event, last)?;
            }
            step.note(batch, &places, last);
            let rooms = batch
                .events
                .iter()
                .map(|event| keys::room(&event.namespace, &event.room));
            let rooms: BTreeMap<Vec<u8>, Keep> = rooms.zip(keeps).collect();
            for (room, keep) in rooms {
                step.hold(&room, &keep)?;
            }
            Ok(Some(places))
        })?
        .ok_or_else(Fault::late)
    }

    fn page(&self, ask: &Ask) -> Result<Page, Fault> {
        let open = self.state()?.open;
        let mut filling = Filling::new(ask);
        let room = keys::room(&ask.namespace, &ask.room);
        let first = ask.after.map_or(Position::START, |after| after.next(0));
        let end = ask.before.unwrap_or(Position::from_u64(u64::MAX));
        if first >= end {
            return Ok(filling.done());
        }
        let mut rows = open
            .events
            .range(keys::event(&room, first)..keys::event(&room, end));
        loop {
            let row = match ask.way {
                Way::Forward => rows.next(),
                Way::Backward => rows.next_back(),
            };
            let Some(row) = row else {
                return Ok(filling.done());
            };
            let (key, value) = row
                .into_inner()
                .map_err(|error| fault(&error, &self.folder))?;
            let kept = keys::place(&key)
                .zip(Row::read(&value))
                .map(|(at, row)| Kept {
                    at,
                    event: row.into_event(&ask.namespace, &ask.room),
                });
            let Some(kept) = kept else {
                let text = format!(
                    "an event of the room {:?} in {} cannot be read",
                    ask.room,
                    self.folder.display()
                );
                return Err(Fault::new(Kind::Torn, text));
            };
            if !filling.push(kept) {
                return Ok(filling.done());
            }
        }
    }

    fn forget(&self, what: &Forget) -> Result<u64, Fault> {
        let mut gone = 0;
        loop {
            let step = self.change(|step| match what {
                Forget::Event {
                    namespace,
                    room,
                    at,
                } => step
                    .remove(&keys::event(&keys::room(namespace, room), *at))
                    .map(u64::from),
                Forget::Room { namespace, room } => {
                    let room = keys::room(namespace, room);
                    let names = step.first_keys(&step.open.events, &room)?;
                    step.remove_all(names)
                }
                Forget::User { namespace, user } => {
                    let user = keys::user(user, namespace.as_deref());
                    let rows = step.first_keys(&step.open.users, &user)?;
                    let names = rows.iter().filter_map(|row| keys::of_user(row));
                    let names: Vec<Vec<u8>> = names.map(<[u8]>::to_vec).collect();
                    step.remove_all(names)
                }
            })?;
            gone += step;
            if step < STEP as u64 {
                return Ok(gone);
            }
        }
    }

    /// One walk over all events by their time takes several calls. Those that are young end it.
    fn trim(&self, now_ms: u64) -> Result<Trimmed, Fault> {
        let (mut events, mut more) = (0, true);
        for _ in 0..TRIM_MAX / STEP {
            let from = self.lock().trimmed.clone();
            let plan = &self.plan;
            let (gone, next) = self.change(|step| {
                let mut old = Vec::new();
                let mut next = Vec::new();
                for (seen, row) in step.open.times.range(from..).enumerate() {
                    let (key, gist) = row.into_inner()?;
                    if seen == STEP {
                        next = key.to_vec();
                        break;
                    }
                    let Some((at, event)) = keys::of_time(&key) else {
                        continue;
                    };
                    if at.time_ms().saturating_add(plan.shortest_age_ms()) >= now_ms {
                        break;
                    }
                    let keep =
                        keys::names(event).and_then(|(namespace, room)| plan.of(namespace, room));
                    if keep.is_none_or(|keep| at.time_ms().saturating_add(keep.age_ms) < now_ms) {
                        old.push((event.to_vec(), Gist::read(&gist)));
                    }
                }
                Ok((step.remove_old(old)?, next))
            })?;
            events += gone;
            more = !next.is_empty();
            self.lock().trimmed = next;
            if !more {
                break;
            }
        }
        // A walk past what is kept takes its time.
        let more = more && events > 0;
        Ok(Trimmed { events, more })
    }

    fn usage(&self, namespace: &str) -> Result<Usage, Fault> {
        let turn = self.state()?;
        let open = turn.open.clone();
        drop(turn);
        let rooms = open.rooms_of(namespace);
        let rooms = rooms.map_err(|error| fault(&error, &self.folder))?;
        Ok(rooms
            .iter()
            .fold(Usage::default(), |sum, (_, bytes)| Usage {
                rooms: sum.rooms + 1,
                bytes: sum.bytes + bytes,
            }))
    }

    fn shed(&self, namespace: &str, what: &Shed) -> Result<u64, Fault> {
        match what {
            Shed::Bytes(bytes) => self.shed_bytes(namespace, *bytes),
            Shed::Rooms(count) => self.shed_rooms(namespace, *count),
        }
    }

    /// A walk over all events by their time, of other namespaces as well.
    fn shed_bytes(&self, namespace: &str, bytes: u64) -> Result<u64, Fault> {
        let (mut gone, mut left, mut from) = (0, bytes, Vec::new());
        let own = keys::namespace(namespace);
        for _ in 0..TRIM_MAX / STEP {
            let (removed, next) = self.change(|step| {
                let (mut oldest, mut next) = (Vec::new(), Vec::new());
                for (seen, row) in step.open.times.range(from.clone()..).enumerate() {
                    let (key, gist) = row.into_inner()?;
                    if left == 0 || seen == STEP {
                        next = key.to_vec();
                        break;
                    }
                    let Some((_, name)) = keys::of_time(&key) else {
                        continue;
                    };
                    if name.starts_with(&own) {
                        let gist = match Gist::read(&gist) {
                            // An older version wrote nothing beside its time.
                            None => step.gist_of(name)?,
                            known => known,
                        };
                        left = left.saturating_sub(gist.as_ref().map_or(0, Gist::bytes));
                        oldest.push((name.to_vec(), gist));
                    }
                }
                Ok((step.remove_old(oldest)?, next))
            })?;
            gone += removed;
            if left == 0 || next.is_empty() {
                break;
            }
            from = next;
        }
        Ok(gone)
    }

    fn shed_rooms(&self, namespace: &str, count: u64) -> Result<u64, Fault> {
        let open = self.state()?.open;
        let failed = |error| fault(&error, &self.folder);
        let mut rooms = Vec::new();
        for (room, _) in open.rooms_of(namespace).map_err(failed)? {
            let last = open.events.prefix(&room).next_back();
            let last = last.map(|row| row.key()).transpose().map_err(failed)?;
            rooms.push((last.and_then(|key| keys::place(&key)), room));
        }
        rooms.sort_unstable();
        let (mut gone, count) = (0, usize::try_from(count).unwrap_or(usize::MAX));
        for (_, room) in rooms.into_iter().take(count) {
            loop {
                let names = |step: &mut Step<'_>| {
                    let names = step.first_keys(&step.open.events, &room)?;
                    step.remove_all(names)
                };
                let step = self.change(names)?;
                gone += step;
                if step < STEP as u64 {
                    break;
                }
            }
        }
        Ok(gone)
    }

    fn close(&self) -> Result<(), Fault> {
        let mut state = self.lock();
        state.closed = true;
        match state.open.take() {
            None => Ok(()),
            Some(open) => {
                let written = open.write_out();
                written.map_err(|error| fault(&error, &self.folder))
            }
        }
    }
}

impl Open {
    fn new(folder: &Path) -> Result<Self, fjall::Error> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        let database = Database::builder(folder)
            .cache_size(CACHE_BYTES)
            .max_journaling_size(JOURNAL_BYTES)
            .worker_threads(1)
            .open()?;
        // Never by its own threads: see `make_room`.
        let options = || KeyspaceCreateOptions::default().max_memtable_size(u64::MAX);
        let keyspace = |name: &str| database.keyspace(name, options);
        Ok(Self {
            events: keyspace("events")?,
            rooms: keyspace("rooms")?,
            times: keyspace("times")?,
            users: keyspace("users")?,
            facts: keyspace("facts")?,
            database,
        })
    }
}

impl Open {
    /// The rooms of a namespace, and the bytes of each.
    fn rooms_of(&self, namespace: &str) -> Result<Vec<(Vec<u8>, u64)>, fjall::Error> {
        let mut rooms = Vec::new();
        for row in self.rooms.prefix(keys::namespace(namespace)) {
            let (room, has) = row.into_inner()?;
            let bytes = keys::read_pair(&has).map_or(0, |(_, bytes)| bytes);
            rooms.push((room.to_vec(), bytes));
        }
        Ok(rooms)
    }

    fn trees(&self) -> [&Keyspace; 5] {
        [
            &self.events,
            &self.rooms,
            &self.times,
            &self.users,
            &self.facts,
        ]
    }

    /// Has full trees written out. The writer asks for it, not a thread of fjall: those ask by a queue of 1,000 places that they empty
    /// themselves, and each commit to a full tree takes a place. A full queue stops them for ever, and memory grows.
    fn make_room(&self) -> Result<(), fjall::Error> {
        for tree in self.trees() {
            if tree.tree.active_memtable().size() > TREE_BYTES {
                tree.rotate_memtable()?;
            }
        }
        Ok(())
    }

    /// The next start reads no journal.
    fn write_out(&self) -> Result<(), fjall::Error> {
        for tree in self.trees() {
            tree.rotate_memtable_and_wait()?;
        }
        self.database.persist(PersistMode::SyncAll)
    }
}

/// Changes of one step, and what they make of the numbers of rooms.
struct Step<'a> {
    open: &'a Open,
    changes: Changes,
    sync: Sync,
    /// Number and bytes of the rooms that were looked at.
    rooms: HashMap<Vec<u8>, (u64, u64)>,
    /// Events of this step, by their names. They are written with its end: one that goes again in the same step never was.
    fresh: BTreeMap<Vec<u8>, Event>,
}

impl<'a> Step<'a> {
    fn new(open: &'a Open, sync: Sync) -> Self {
        Self {
            open,
            changes: open.database.batch(),
            sync,
            rooms: HashMap::new(),
            fresh: BTreeMap::new(),
        }
    }

    fn commit(mut self) -> Result<(), fjall::Error> {
        for (name, event) in &self.fresh {
            let at = keys::place(name).unwrap_or_default();
            let time = keys::time(at, name);
            let gist = Gist::of(event).write();
            self.changes.insert(&self.open.times, time, gist);
            if let Some(user) = &event.user {
                let user = keys::user_event(user, &event.namespace, name);
                self.changes.insert(&self.open.users, user, Vec::new());
            }
            self.changes
                .insert(&self.open.events, name.as_slice(), Row::write(event));
        }
        for (room, (events, bytes)) in &self.rooms {
            match events {
                0 => self.changes.remove(&self.open.rooms, room.as_slice()),
                _ => self.changes.insert(
                    &self.open.rooms,
                    room.as_slice(),
                    keys::pair(*events, *bytes).to_vec(),
                ),
            }
        }
        let mode = (self.sync == Sync::Always).then_some(PersistMode::SyncData);
        self.changes.durability(mode).commit()?;
        self.open.make_room()
    }

    fn room(&mut self, room: &[u8]) -> Result<&mut (u64, u64), fjall::Error> {
        if !self.rooms.contains_key(room) {
            let stored = self.open.rooms.get(room)?;
            let stored = stored.and_then(|stored| keys::read_pair(&stored));
            self.rooms.insert(room.to_vec(), stored.unwrap_or_default());
        }
        Ok(self.rooms.entry(room.to_vec()).or_default())
    }

    fn last(&self) -> Result<Position, fjall::Error> {
        let last = self.open.facts.get(keys::LAST)?;
        let last = last.and_then(|last| keys::read_pair(&last));
        Ok(Position::from_u64(last.map_or(0, |(last, _)| last)))
    }

    /// Number and places of the last batch, if it is this writer's.
    fn last_batch(&self, writer: u64) -> Result<Option<(u64, Vec<Position>)>, fjall::Error> {
        let stored = self.open.facts.get(keys::BATCH)?;
        Ok(stored.and_then(|stored| keys::read_batch(&stored, writer)))
    }

    fn note(&mut self, batch: &Batch, places: &[Position], last: Position) {
        let facts = &self.open.facts;
        self.changes
            .insert(facts, keys::LAST, keys::pair(last.as_u64(), 0).to_vec());
        self.changes
            .insert(facts, keys::BATCH, keys::batch(batch, places));
    }

    fn put(&mut self, event: &Event, at: Position) -> Result<(), fjall::Error> {
        let room = keys::room(&event.namespace, &event.room);
        let has = self.room(&room)?;
        *has = (has.0 + 1, has.1 + event.bytes() as u64);
        self.fresh.insert(keys::event(&room, at), event.clone());
        Ok(())
    }

    /// Removes the oldest events of a room that has more than it may.
    fn hold(&mut self, room: &[u8], keep: &Keep) -> Result<(), fjall::Error> {
        let is_above = |has: &(u64, u64)| has.0 > keep.events || has.1 > keep.bytes;
        if !is_above(self.room(room)?) {
            return Ok(());
        }
        let stored = self
            .open
            .events
            .prefix(room)
            .map(|row| row.key().map(|key| key.to_vec()));
        let fresh: Vec<_> = self
            .fresh
            .range(room.to_vec()..)
            .map(|(name, _)| name.clone())
            .collect();
        let fresh = fresh.into_iter().take_while(|name| name.starts_with(room));
        for name in stored.chain(fresh.map(Ok)) {
            if !is_above(self.room(room)?) {
                return Ok(());
            }
            self.remove(&name?)?;
        }
        Ok(())
    }

    fn first_keys(&self, of: &Keyspace, prefix: &[u8]) -> Result<Vec<Vec<u8>>, fjall::Error> {
        let rows = of.prefix(prefix).take(STEP);
        rows.map(|row| row.key().map(|key| key.to_vec())).collect()
    }

    fn remove_all(&mut self, names: Vec<Vec<u8>>) -> Result<u64, fjall::Error> {
        let mut gone = 0;
        for name in names {
            gone += u64::from(self.remove(&name)?);
        }
        Ok(gone)
    }

    /// Removes events by what stands beside their times: they lie all over the disk, and are not read.
    fn remove_old(&mut self, old: Vec<(Vec<u8>, Option<Gist>)>) -> Result<u64, fjall::Error> {
        let mut gone = 0;
        for (name, gist) in old {
            gone += u64::from(match gist {
                Some(gist) => self.remove_known(&name, &gist)?,
                None => self.remove(&name)?,
            });
        }
        Ok(gone)
    }

    /// Removes an event by its name, which a step does once; `false`: there is none.
    fn remove(&mut self, name: &[u8]) -> Result<bool, fjall::Error> {
        if let Some(event) = self.fresh.remove(name) {
            let room = keys::room(&event.namespace, &event.room);
            self.count_out(&room, event.bytes() as u64)?;
            return Ok(true);
        }
        match self.gist_of(name)? {
            Some(gist) => self.remove_known(name, &gist),
            None => Ok(false),
        }
    }

    /// Reads the event, which is stored.
    fn gist_of(&self, name: &[u8]) -> Result<Option<Gist>, fjall::Error> {
        let value = self.open.events.get(name)?;
        let row = value.as_ref().and_then(|value| Row::read(value));
        let named = row.zip(keys::names(name));
        Ok(named.map(|(row, (namespace, room))| Gist::of(&row.into_event(namespace, room))))
    }

    /// One that is stored.
    fn remove_known(&mut self, name: &[u8], gist: &Gist) -> Result<bool, fjall::Error> {
        let Some((namespace, room)) = keys::names(name) else {
            return Ok(false);
        };
        let at = keys::place(name).unwrap_or_default();
        self.changes.remove(&self.open.events, name);
        self.changes.remove(&self.open.times, keys::time(at, name));
        if let Some(user) = gist.user() {
            let user = keys::user_event(user, namespace, name);
            self.changes.remove(&self.open.users, user);
        }
        self.count_out(&keys::room(namespace, room), gist.bytes())?;
        Ok(true)
    }

    fn count_out(&mut self, room: &[u8], bytes: u64) -> Result<(), fjall::Error> {
        let has = self.room(room)?;
        *has = (has.0.saturating_sub(1), has.1.saturating_sub(bytes));
        Ok(())
    }
}

impl Store for Disk {
    fn append<'a>(&'a self, batch: &'a Batch) -> Answer<'a, Vec<Position>> {
        let batch = batch.clone();
        Box::pin(self.run(move |inner| inner.append(&batch)))
    }

    fn page(&self, ask: Ask) -> Answer<'_, Page> {
        Box::pin(self.run(move |inner| inner.page(&ask)))
    }

    fn forget(&self, what: Forget) -> Answer<'_, u64> {
        Box::pin(self.run(move |inner| inner.forget(&what)))
    }

    fn trim(&self, now_ms: u64) -> Answer<'_, Trimmed> {
        Box::pin(self.run(move |inner| inner.trim(now_ms)))
    }

    fn usage<'a>(&'a self, namespace: &'a str) -> Answer<'a, Usage> {
        let namespace = namespace.to_owned();
        Box::pin(self.run(move |inner| inner.usage(&namespace)))
    }

    fn shed<'a>(&'a self, namespace: &'a str, what: Shed) -> Answer<'a, u64> {
        let namespace = namespace.to_owned();
        Box::pin(self.run(move |inner| inner.shed(&namespace, &what)))
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(self.run(Inner::close))
    }
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
