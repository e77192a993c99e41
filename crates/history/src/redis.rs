//! A store in streams of one Redis, for several gateways. As durable as that Redis is.

use crate::ask::{Ask, Filling, Forget, Page, Trimmed, Way};
use crate::event::{Batch, Event, Kept};
use crate::fault::{Fault, Kind};
use crate::memory::keep_of;
use crate::plan::Plan;
use crate::position::Position;
use crate::store::{Answer, Store};
use ::redis::aio::MultiplexedConnection;
use ::redis::streams::{StreamId, StreamRangeReply};
use ::redis::{AsyncConnectionConfig, Client, Cmd, ErrorKind, RedisError, Script, ServerErrorKind};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, SystemTime};

const CONNECT_TIME: Duration = Duration::from_secs(5);
/// Shorter than anybody waits for the store: a connection that fell silent is replaced.
const ANSWER_TIME: Duration = Duration::from_secs(8);
/// Events of a user that one step deletes.
const STEP: usize = 500;
/// Entries that are read at once.
const PART: usize = 32;
/// Bits of the counter in a position.
const COUNTER_BITS: u32 = 20;

/// Events in streams whose names begin with `sockeye:history:`.
pub struct Redis {
    client: Client,
    plan: Plan,
    script: Script,
    /// `None`: it broke, and is made anew by whoever needs it next.
    connection: tokio::sync::Mutex<Option<MultiplexedConnection>>,
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").finish_non_exhaustive()
    }
}

/// All keys of a namespace are in one slot, so that a script may use several.
fn prefix(namespace: &str) -> String {
    format!("sockeye:history:{{{namespace}}}:")
}

fn stream(namespace: &str, room: &str) -> String {
    format!("{}room:{room}", prefix(namespace))
}

fn id(at: Position) -> String {
    let counter = at.as_u64() & ((1 << COUNTER_BITS) - 1);
    format!("{}-{counter}", at.time_ms())
}

fn place(id: &str) -> Option<Position> {
    let (ms, counter) = id.split_once('-')?;
    let (ms, counter): (u64, u64) = (ms.parse().ok()?, counter.parse().ok()?);
    Some(Position::from_u64(Position::at_time(ms).as_u64() | counter))
}

impl Redis {
    /// Connects. `url`: `redis://user:password@host:port/database`.
    ///
    /// # Errors
    /// The address cannot be used, or the server does not answer.
    pub async fn open(url: &str, plan: Plan) -> Result<Self, Fault> {
        let client = Client::open(url).map_err(|error| {
            Fault::new(
                Kind::Refused,
                format!("the address of Redis cannot be used: {error}"),
            )
        })?;
        let store = Self {
            client,
            plan,
            script: Script::new(include_str!("append.lua")),
            connection: tokio::sync::Mutex::default(),
        };
        let _: String = store.ask(&::redis::cmd("PING")).await?;
        Ok(store)
    }

    async fn connection(&self) -> Result<MultiplexedConnection, Fault> {
        let mut open = self.connection.lock().await;
        if let Some(connection) = &*open {
            return Ok(connection.clone());
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIME))
            .set_response_timeout(Some(ANSWER_TIME));
        let connection = self
            .client
            .get_multiplexed_async_connection_with_config(&config)
            .await;
        let connection = connection.map_err(|error| fault(&error))?;
        Ok(open.insert(connection).clone())
    }

    /// After a failure of the connection the next one is another.
    async fn failed(&self, error: RedisError) -> Fault {
        if error.is_io_error() || error.is_timeout() || error.is_unrecoverable_error() {
            self.connection.lock().await.take();
        }
        fault(&error)
    }

    async fn ask<T: ::redis::FromRedisValue>(&self, command: &Cmd) -> Result<T, Fault> {
        let mut connection = self.connection().await?;
        match command.query_async(&mut connection).await {
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.failed(error).await),
        }
    }

    async fn append_batch(&self, batch: &Batch) -> Result<Vec<Position>, Fault> {
        let mut places = vec![Position::START; batch.events.len()];
        let mut namespaces = BTreeMap::<&str, Vec<usize>>::new();
        for (at, event) in batch.events.iter().enumerate() {
            keep_of(&self.plan, event)?;
            namespaces.entry(&event.namespace).or_default().push(at);
        }
        for (namespace, own) in namespaces {
            let own_places = self.append_to(namespace, batch, &own).await?;
            for (at, place) in own.into_iter().zip(own_places) {
                places[at] = place;
            }
        }
        Ok(places)
    }

    async fn append_to(
        &self,
        namespace: &str,
        batch: &Batch,
        own: &[usize],
    ) -> Result<Vec<Position>, Fault> {
        let prefix = prefix(namespace);
        let mut call = self.script.prepare_invoke();
        call.key(format!("{prefix}last"))
            .key(format!("{prefix}batch:{}", batch.writer));
        call.arg(batch.number).arg(&prefix);
        for at in own {
            let event = &batch.events[*at];
            let keep = keep_of(&self.plan, event)?;
            call.arg(&event.room).arg(&event.name).arg(&event.args);
            call.arg(event.user.as_deref().unwrap_or_default())
                .arg(u8::from(event.user.is_some()));
            call.arg(event.time_ms).arg(keep.events).arg(keep.age_ms);
        }
        let mut connection = self.connection().await?;
        let answer: Result<String, RedisError> = call.invoke_async(&mut connection).await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return Err(self.failed(error).await),
        };
        let places: Option<Vec<Position>> = answer.split(' ').map(place).collect();
        let places = places.filter(|places| places.len() == own.len());
        places.ok_or_else(|| Fault::new(Kind::Torn, format!("Redis answers strangely: {answer:?}")))
    }

    async fn read(&self, mut ask: Ask) -> Result<Page, Fault> {
        // A stream is trimmed when its room is written: what is too old by then is not shown.
        if let Some(keep) = self.plan.of(&ask.namespace, &ask.room) {
            let oldest = Position::at_time(now_ms().saturating_sub(keep.age_ms)).before();
            ask.after = ask.after.max(Some(oldest));
        }
        let bounds = ask.clone();
        let mut filling = Filling::new(&bounds);
        loop {
            let entries = self.entries(&ask).await?;
            let is_last = entries.len() < part(&ask);
            for entry in entries {
                let kept = kept(&ask, &entry).ok_or_else(|| {
                    let text = format!(
                        "an event of the room {:?} in Redis cannot be read: {}",
                        ask.room, entry.id
                    );
                    Fault::new(Kind::Torn, text)
                })?;
                match ask.way {
                    Way::Forward => ask.after = Some(kept.at),
                    Way::Backward => ask.before = Some(kept.at),
                }
                if !filling.push(kept) {
                    return Ok(filling.done());
                }
            }
            if is_last {
                return Ok(filling.done());
            }
        }
    }

    /// A part of a page: how many bytes its events have is known afterwards.
    async fn entries(&self, ask: &Ask) -> Result<Vec<StreamId>, Fault> {
        let bound = |at: Option<Position>, open: &str| match at {
            None => open.to_owned(),
            Some(at) => format!("({}", id(at)),
        };
        if ask.before == Some(Position::START) {
            return Ok(Vec::new());
        }
        let (after, before) = (bound(ask.after, "-"), bound(ask.before, "+"));
        let (name, from, to) = match ask.way {
            Way::Forward => ("XRANGE", after, before),
            Way::Backward => ("XREVRANGE", before, after),
        };
        let mut command = ::redis::cmd(name);
        let stream = stream(&ask.namespace, &ask.room);
        command
            .arg(stream)
            .arg(from)
            .arg(to)
            .arg("COUNT")
            .arg(part(ask));
        let entries: StreamRangeReply = self.ask(&command).await?;
        Ok(entries.ids)
    }

    async fn delete(&self, what: &Forget) -> Result<u64, Fault> {
        match what {
            Forget::Event {
                namespace,
                room,
                at,
            } => self.delete_one(namespace, room, &id(*at)).await,
            Forget::Room { namespace, room } => {
                let stream = stream(namespace, room);
                let events = self.ask(::redis::cmd("XLEN").arg(&stream)).await?;
                let _: u64 = self.ask(::redis::cmd("DEL").arg(&stream)).await?;
                Ok(events)
            }
            Forget::User { namespace, user } => {
                let all: BTreeSet<&str> = self.plan.namespaces().collect();
                let meant = all
                    .into_iter()
                    .filter(|name| namespace.as_ref().is_none_or(|own| own == name));
                let mut deleted = 0;
                for namespace in meant {
                    deleted += self.delete_user(namespace, user).await?;
                }
                Ok(deleted)
            }
        }
    }

    async fn delete_one(&self, namespace: &str, room: &str, id: &str) -> Result<u64, Fault> {
        self.ask(::redis::cmd("XDEL").arg(stream(namespace, room)).arg(id))
            .await
    }

    async fn delete_user(&self, namespace: &str, user: &str) -> Result<u64, Fault> {
        let index = format!("{}user:{user}", prefix(namespace));
        let mut deleted = 0;
        loop {
            let mut range = ::redis::cmd("ZRANGE");
            let names: Vec<String> = self.ask(range.arg(&index).arg(0).arg(STEP - 1)).await?;
            if names.is_empty() {
                return Ok(deleted);
            }
            for (id, room) in names.iter().filter_map(|name| name.split_once(' ')) {
                deleted += self.delete_one(namespace, room, id).await?;
            }
            let _: u64 = self
                .ask(::redis::cmd("ZREM").arg(&index).arg(names))
                .await?;
        }
    }
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |since| since.as_millis() as u64)
}

/// One more than a page has says whether there is more.
fn part(ask: &Ask) -> usize {
    PART.min(ask.events_max.saturating_add(1))
}

fn kept(ask: &Ask, entry: &StreamId) -> Option<Kept> {
    let has_user: u8 = entry.get("h")?;
    Some(Kept {
        at: place(&entry.id)?,
        event: Event {
            namespace: ask.namespace.clone(),
            room: ask.room.clone(),
            name: entry.get("n")?,
            args: entry.get("a")?,
            user: (has_user == 1).then(|| entry.get("u")).flatten(),
            time_ms: entry.get("t")?,
        },
    })
}

fn fault(error: &RedisError) -> Fault {
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::BusyLoading | ServerErrorKind::TryAgain) => {
            Fault::new(Kind::Away, format!("Redis is not ready: {error}"))
        }
        _ if error.code() == Some("OOM") => {
            Fault::new(Kind::Full, format!("the memory of Redis is full: {error}"))
        }
        _ => Fault::new(
            Kind::Away,
            format!("Redis cannot be used for history: {error}"),
        ),
    }
}

impl Store for Redis {
    fn append<'a>(&'a self, batch: &'a Batch) -> Answer<'a, Vec<Position>> {
        Box::pin(self.append_batch(batch))
    }

    fn page(&self, ask: Ask) -> Answer<'_, Page> {
        Box::pin(self.read(ask))
    }

    fn forget(&self, what: Forget) -> Answer<'_, u64> {
        Box::pin(async move { self.delete(&what).await })
    }

    /// Streams end by themselves when their room is silent for so long as it keeps events, and are trimmed when it is not.
    fn trim(&self, _: u64) -> Answer<'_, Trimmed> {
        Box::pin(async { Ok(Trimmed::default()) })
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async {
            self.connection.lock().await.take();
            Ok(())
        })
    }
}
