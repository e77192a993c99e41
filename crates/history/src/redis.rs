//! A store in streams of Redis, for several gateways. As durable as that Redis is, on as many replicas as it is told.

use crate::ask::{Ask, Filling, Forget, Page, Trimmed, Way};
use crate::bounds::REPLICAS_MS;
use crate::door::Door;
use crate::event::{Batch, Event, Kept};
use crate::fault::{Fault, Kind};
use crate::memory::keep_of;
use crate::plan::Plan;
use crate::position::Position;
use crate::store::{Answer, Store};
use ::redis::{Cmd, FromRedisValue, Value, cmd, from_redis_value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::SystemTime;

const APPEND: &str = include_str!("append.lua");
/// Events of a user that one step deletes.
const STEP: usize = 500;
/// Entries that the first read of a page asks for. They tell how large events are.
const PART: usize = 32;
/// Later reads ask for at most so many times what the one before did: small events may be followed by large ones.
const PART_GROWTH: usize = 3;
/// Bits of the counter in a position.
const COUNTER_BITS: u32 = 20;

/// The rights that a user of this store needs, as words of `ACL SETUSER`. `HELLO` and `AUTH` need none.
pub const ACL: &str = "~sockeye:history:* +ping +eval +get +set +time +xadd +xtrim +xrange +xrevrange +xlen +xdel +del +pexpire +pttl \
    +zadd +zrange +zrem +zremrangebyscore +wait +cluster|slots +cluster|info";

/// Events in streams whose names begin with `sockeye:history:`.
pub struct Redis {
    /// Writers do not wait for readers.
    writer: Box<dyn Door>,
    reader: Box<dyn Door>,
    plan: Plan,
    replicas: u16,
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

fn index(namespace: &str, user: &str) -> String {
    format!("{}user:{user}", prefix(namespace))
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

fn strange(answer: &dyn fmt::Debug) -> Fault {
    Fault::new(Kind::Torn, format!("Redis answers strangely: {answer:?}"))
}

fn read<T: FromRedisValue>(value: Value) -> Result<T, Fault> {
    from_redis_value(value).map_err(|error| strange(&error))
}

impl Redis {
    /// A change counts as stored when so many `replicas` have it.
    pub fn new(writer: Box<dyn Door>, reader: Box<dyn Door>, plan: Plan, replicas: u16) -> Self {
        Self {
            writer,
            reader,
            plan,
            replicas,
        }
    }

    /// Reads.
    async fn ask<T: FromRedisValue>(&self, key: &str, command: Cmd) -> Result<T, Fault> {
        let mut answers = self.reader.carry_out(key, vec![command]).await?;
        read(answers.pop().unwrap_or_default())
    }

    /// Changes something. Replicas are asked on the connection that wrote: what it wrote before they have as well.
    async fn change(&self, key: &str, mut commands: Vec<Cmd>) -> Result<Vec<Value>, Fault> {
        if self.replicas == 0 {
            return self.writer.carry_out(key, commands).await;
        }
        let mut wait = cmd("WAIT");
        wait.arg(self.replicas).arg(REPLICAS_MS);
        commands.push(wait);
        let mut answers = self.writer.carry_out(key, commands).await?;
        let has: u16 = read(answers.pop().unwrap_or_default())?;
        if has < self.replicas {
            let text = format!(
                "{has} of {} replicas of Redis have it within {REPLICAS_MS} ms: it is tried again; mend the others, or ask for fewer",
                self.replicas
            );
            return Err(Fault::new(Kind::Away, text));
        }
        Ok(answers)
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
        let (last, number) = (
            format!("{prefix}last"),
            format!("{prefix}batch:{}", batch.writer),
        );
        // The script makes their names itself. A cluster that moves the slot must know them all: half of them may be elsewhere.
        let events = own.iter().map(|at| &batch.events[*at]);
        let others: BTreeSet<String> = events
            .flat_map(|event| {
                let user = event.user.as_ref().map(|user| index(namespace, user));
                [Some(stream(namespace, &event.room)), user]
            })
            .flatten()
            .collect();
        let mut call = cmd("EVAL");
        call.arg(APPEND).arg(2 + others.len());
        call.arg(&last).arg(number).arg(&others);
        call.arg(batch.number).arg(&prefix);
        for at in own {
            let event = &batch.events[*at];
            let keep = keep_of(&self.plan, event)?;
            call.arg(&event.room).arg(&event.name).arg(&event.args);
            call.arg(event.user.as_deref().unwrap_or_default())
                .arg(u8::from(event.user.is_some()));
            call.arg(event.time_ms).arg(keep.events).arg(keep.age_ms);
        }
        let mut answers = self.change(&last, vec![call]).await?;
        let answer: String = read(answers.pop().unwrap_or_default())?;
        let places: Option<Vec<Position>> = answer.split(' ').map(place).collect();
        let places = places.filter(|places| places.len() == own.len());
        places.ok_or_else(|| strange(&answer))
    }

    async fn page_of(&self, mut ask: Ask) -> Result<Page, Fault> {
        // A stream is trimmed when its room is written: what is too old by then is not shown.
        if let Some(keep) = self.plan.of(&ask.namespace, &ask.room) {
            let oldest = Position::at_time(now_ms().saturating_sub(keep.age_ms)).before();
            ask.after = ask.after.max(Some(oldest));
        }
        let bounds = ask.clone();
        let mut filling = Filling::new(&bounds);
        let mut part = PART;
        loop {
            part = filling.part(part);
            let entries = self.entries(&ask, part).await?;
            let is_last = entries.len() < part;
            part *= PART_GROWTH;
            for entry in entries {
                let kept = kept(&ask, entry).map_err(|id| {
                    let text = format!(
                        "an event of the room {:?} in Redis cannot be read: {id}",
                        ask.room
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
    async fn entries(&self, ask: &Ask, part: usize) -> Result<Vec<Value>, Fault> {
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
        let stream = stream(&ask.namespace, &ask.room);
        let mut command = cmd(name);
        command.arg(&stream).arg(from).arg(to);
        command.arg("COUNT").arg(part);
        self.ask(&stream, command).await
    }

    async fn delete(&self, what: &Forget) -> Result<u64, Fault> {
        match what {
            Forget::Event {
                namespace,
                room,
                at,
            } => {
                let command = delete_one(namespace, room, &id(*at));
                let answers = self.change(&prefix(namespace), vec![command]).await?;
                answers.into_iter().map(read::<u64>).sum()
            }
            Forget::Room { namespace, room } => {
                let stream = stream(namespace, room);
                let [mut count, mut delete] = [cmd("XLEN"), cmd("DEL")];
                count.arg(&stream);
                delete.arg(&stream);
                let answers = self.change(&stream, vec![count, delete]).await?;
                read(answers.into_iter().next().unwrap_or_default())
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

    async fn delete_user(&self, namespace: &str, user: &str) -> Result<u64, Fault> {
        let index = index(namespace, user);
        let mut deleted = 0;
        loop {
            let mut range = cmd("ZRANGE");
            range.arg(&index).arg(0).arg(STEP - 1);
            let names: Vec<String> = self.ask(&index, range).await?;
            if names.is_empty() {
                return Ok(deleted);
            }
            let events = names.iter().filter_map(|name| name.split_once(' '));
            let commands: Vec<Cmd> = events
                .map(|(id, room)| delete_one(namespace, room, id))
                .collect();
            // The index is what finds them: it goes when all of them have gone, or the next attempt would find none.
            for answer in self.change(&index, commands).await? {
                deleted += read::<u64>(answer)?;
            }
            let mut forget = cmd("ZREM");
            forget.arg(&index).arg(&names);
            self.change(&index, vec![forget]).await?;
        }
    }
}

fn delete_one(namespace: &str, room: &str, id: &str) -> Cmd {
    let mut command = cmd("XDEL");
    command.arg(stream(namespace, room)).arg(id);
    command
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |since| since.as_millis() as u64)
}

/// One more than a page has says whether there is more.
/// Takes an entry of a stream apart: its id, then names and values in turn.
///
/// # Errors
/// The id of one that is not as it was written.
fn kept(ask: &Ask, entry: Value) -> Result<Kept, String> {
    let Ok((id, fields)) = from_redis_value::<(String, Vec<Value>)>(entry) else {
        return Err("an entry without an id".to_owned());
    };
    event(ask, &id, fields).ok_or(id)
}

fn event(ask: &Ask, id: &str, fields: Vec<Value>) -> Option<Kept> {
    let (mut name, mut args, mut user, mut has_user, mut time) = (None, None, None, None, None);
    let mut fields = fields.into_iter().map(text);
    while let Some(field) = fields.next() {
        let value = fields.next().flatten();
        match field?.as_str() {
            "n" => name = value,
            "a" => args = value,
            "u" => user = value,
            "h" => has_user = value,
            "t" => time = value,
            _ => {}
        }
    }
    Some(Kept {
        at: place(id)?,
        event: Event {
            namespace: ask.namespace.clone(),
            room: ask.room.clone(),
            name: name?,
            args: args?,
            user: (has_user? == "1").then_some(user).flatten(),
            time_ms: time?.parse().ok()?,
        },
    })
}

/// Without a copy.
fn text(value: Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

impl Store for Redis {
    fn append<'a>(&'a self, batch: &'a Batch) -> Answer<'a, Vec<Position>> {
        Box::pin(self.append_batch(batch))
    }

    fn page(&self, ask: Ask) -> Answer<'_, Page> {
        Box::pin(self.page_of(ask))
    }

    fn forget(&self, what: Forget) -> Answer<'_, u64> {
        Box::pin(async move { self.delete(&what).await })
    }

    /// Streams end by themselves when their room is silent for so long as it keeps events, and are trimmed when it is not.
    fn trim(&self, _: u64) -> Answer<'_, Trimmed> {
        Box::pin(async { Ok(Trimmed::default()) })
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}
