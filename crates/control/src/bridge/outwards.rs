//! Events on their way out: from the rules' words to those of the bridges, and the answers that clients wait for.

use super::{Answered, Key, Writes};
use ::bridge::{Encoding, Event, Fault, Kind, Operator};
use rules::bridge::{Inner, Moment, Record, Unwritten, write_answer};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// What the configuration says about each record.
pub(crate) struct Outline {
    key: Key,
    room: Option<String>,
    operator: Option<Operator>,
}

impl Outline {
    pub(crate) fn new(of: &Writes) -> Self {
        Self {
            key: of.key,
            room: of.room.clone(),
            operator: of.operator.as_deref().and_then(Operator::from_word),
        }
    }

    pub(crate) fn reads_rooms(&self) -> bool {
        self.room.is_some()
    }

    /// Says the record in the words of the bridges.
    pub(crate) fn tell<T>(&self, record: &Record<'_>, send: impl FnOnce(&Event<'_>) -> T) -> T {
        let pattern = self.room.as_deref();
        let fits = |room: &&String| pattern.is_some_and(|pattern| units::fits(pattern, room));
        let room = match record.inner {
            // It speaks of the room that was joined or left, whatever its name.
            Some(_) => record.rooms.first(),
            None => record.rooms.iter().find(fits),
        };
        let trace = record.trace.map(|trace| format!("{trace:032x}"));
        send(&Event {
            moment: match record.moment {
                Moment::Connect => ::bridge::Moment::Connect,
                Moment::Message => ::bridge::Moment::Message,
                Moment::Disconnect => ::bridge::Moment::Disconnect,
            },
            socket: record.client.socket(),
            user: record.client.user(),
            room: room.map(String::as_str),
            inner: record.inner.map(|inner| match inner {
                Inner::Join => "join",
                Inner::Leave => "leave",
            }),
            operator: self.operator,
            auth: Some(record.client.auth()),
            trace: trace.as_deref(),
            namespace: record.namespace,
            name: Some(record.name),
            sequence: Some(record.sequence),
            encoding: Encoding::Json,
            attachments: record.attachments,
            key: match self.key {
                Key::User => ::bridge::Key::User,
                Key::Room => ::bridge::Key::Room,
                Key::Socket => ::bridge::Key::Socket,
                Key::Claim => record
                    .client
                    .claim()
                    .map_or(::bridge::Key::Socket, ::bridge::Key::Claim),
            },
            body: record.body,
        })
    }
}

/// What a client is told.
pub(crate) fn unwritten(fault: &Fault) -> Unwritten {
    match fault.kind() {
        Kind::Full => Unwritten::Busy,
        Kind::Refused | Kind::Settings => Unwritten::Refused,
        Kind::Away | Kind::Closed | Kind::Broken => Unwritten::Away,
    }
}

/// Blocks until it is so; `false`: it is not in this time.
pub(crate) fn settled(within: Duration, is_so: impl Fn() -> bool) -> bool {
    const LOOK: Duration = Duration::from_millis(2);
    let deadline = Instant::now() + within;
    while !is_so() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(LOOK);
    }
    true
}

/// Answers a shard's question about a record when the bus has answered. `None`: it was not taken, and its client knows.
pub(crate) fn answer<T>(
    runtime: &Handle,
    written: Option<impl Future<Output = Result<T, Fault>> + Send + 'static>,
    answered: Answered,
) {
    let Some(written) = written else {
        return answered(None);
    };
    runtime.spawn(async move {
        let written = written.await.map(drop).map_err(|fault| unwritten(&fault));
        answered(Some(write_answer(written)));
    });
}

/// Answers that shards will ask for, by the number of the record.
pub(crate) struct Asked<D>(Mutex<HashMap<u64, D>>);

impl<D> Default for Asked<D> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<D> Asked<D> {
    pub(crate) fn keep(&self, number: Option<u64>, delivery: D) {
        if let Some(number) = number {
            let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            asked.insert(number, delivery);
        }
    }

    pub(crate) fn take(&self, number: u64) -> Option<D> {
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        asked.remove(&number)
    }
}
