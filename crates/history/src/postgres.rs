//! A store in PostgreSQL, for several gateways.

use crate::ask::{Ask, Filling, Forget, Page, Shed, Trimmed, Usage, Way};
use crate::bounds::{KEEPER_MS, STATEMENT_MS, TOUCHED_MAX};
use crate::event::{Batch, Event, Kept};
use crate::fault::{Fault, Kind};
use crate::memory::keep_of;
use crate::plan::Plan;
use crate::position::Position;
use crate::store::{Answer, Store};
use rustls::ClientConfig;
use rustls_platform_verifier::ConfigVerifierExt;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio_postgres::config::Config;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Numbered; each is applied once.
const MIGRATIONS: [&str; 1] = [include_str!("../migrations/0001_events.sql")];
/// Held while migrations are applied: several gateways may start at once.
const MIGRATION_LOCK: i64 = 0x736f_636b_6579_6501;
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// What was sent and is not acknowledged for so long ends a connection.
const SILENCE: Duration = Duration::from_secs(8);
/// Old events that one statement deletes.
const STEP: i64 = 5_000;

/// With `asc` or `desc` for `ORDER`. A page has a bound in bytes: what is beyond it, but for one, does not leave the server.
const PAGE: &str = "select at, name, args, \"user\", time_ms from (select *, sum(bytes) over w as total, lag(bytes, 1, 0::bigint) over w as previous from \
                    (select * from sockeye_history_events where namespace = $1 and room = $2 and at > $3 and at < $4 \
                    order by at ORDER limit $5) as found window w as (order by at ORDER)) as counted where total - bytes - previous <= $6::bigint order by at ORDER";
/// The places from which on a room has no more events than it may, and no more bytes.
const HOLD: &str = "delete from sockeye_history_events where namespace = $1 and room = $2 and at <= coalesce((select max(at) from ( \
                    select at, row_number() over w as events, sum(bytes) over w as bytes from sockeye_history_events \
                    where namespace = $1 and room = $2 window w as (order by at desc)) as counted where events > $3::bigint or bytes > $4::bigint), 0)";
const OLD: &str = "delete from sockeye_history_events where ctid = any (array(select ctid from sockeye_history_events \
                   where namespace = $1 and room like $2 and at < $3 and not room like any ($4) limit $5))";

const USAGE: &str = "select count(*)::bigint, coalesce(sum(bytes), 0)::bigint from (select sum(bytes) as bytes \
                     from sockeye_history_events where namespace = $1 group by room) as rooms";
/// The oldest events, until so many bytes are gone.
const SHED_BYTES: &str = "delete from sockeye_history_events where namespace = $1 and at <= (select max(at) from (select at, \
                          sum(bytes) over (order by at) - bytes as before from (select at, bytes from sockeye_history_events \
                          where namespace = $1 order by at limit $3) as oldest) as counted where before < $2::bigint)";
const SHED_ROOMS: &str = "delete from sockeye_history_events where namespace = $1 and room in (select room from sockeye_history_events \
                          where namespace = $1 group by room order by max(at) limit $2)";

/// Events in tables `sockeye_history_…` of a database.
pub struct Postgres {
    config: Config,
    plan: Plan,
    /// Writers do not wait for readers, and nobody for deletions.
    writer: Connection,
    reader: Connection,
    keeper: Connection,
    touched: Mutex<BTreeSet<(String, String)>>,
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").finish_non_exhaustive()
    }
}

/// Opened when it is needed, and anew after it broke.
struct Connection {
    open: tokio::sync::Mutex<Option<Arc<Client>>>,
    statement_ms: u32,
}

impl Connection {
    fn new(statement_ms: u32) -> Self {
        Self {
            open: tokio::sync::Mutex::default(),
            statement_ms,
        }
    }
}

impl Postgres {
    /// Connects and applies migrations. `url`: `postgres://user:password@host:port/database`; TLS as its `sslmode` says, and as the server
    /// offers it without one.
    ///
    /// # Errors
    /// The address cannot be used, or the server does not let this user in, or make tables.
    pub async fn open(url: &str, plan: Plan) -> Result<Self, Fault> {
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
            Fault::new(
                Kind::Refused,
                format!(
                    "the address of PostgreSQL cannot be used: {}",
                    cause(&error)
                ),
            )
        })?;
        config.tcp_user_timeout(SILENCE).keepalives_idle(SILENCE);
        let store = Self {
            config,
            plan,
            writer: Connection::new(STATEMENT_MS),
            reader: Connection::new(STATEMENT_MS),
            keeper: Connection::new(KEEPER_MS),
            touched: Mutex::default(),
        };
        let client = store.client(&store.writer).await?;
        migrate(&client).await.map_err(|error| fault(&error))?;
        Ok(store)
    }

    async fn client(&self, connection: &Connection) -> Result<Arc<Client>, Fault> {
        let mut open = connection.open.lock().await;
        if let Some(client) = open.as_ref().filter(|client| !client.is_closed()) {
            return Ok(Arc::clone(client));
        }
        let connecting =
            tokio::time::timeout(CONNECT_TIME, connect(&self.config, connection.statement_ms))
                .await;
        let client = connecting.unwrap_or_else(|_| Err(Fault::slow(CONNECT_TIME)))?;
        Ok(Arc::clone(open.insert(Arc::new(client))))
    }

    async fn append_batch(&self, batch: &Batch) -> Result<Vec<Position>, Fault> {
        for event in &batch.events {
            keep_of(&self.plan, event)?;
            check(event)?;
        }
        let events = &batch.events;
        let texts = |of: fn(&Event) -> &str| events.iter().map(of).collect::<Vec<_>>();
        let numbers = |of: fn(&Event) -> u64| {
            events
                .iter()
                .map(|event| of(event) as i64)
                .collect::<Vec<_>>()
        };
        let users: Vec<Option<&str>> = events.iter().map(|event| event.user.as_deref()).collect();
        let client = self.client(&self.writer).await?;
        let row = client
            .query_one(
                "select sockeye_history_append($1, $2, $3, $4, $5, $6, $7, $8, $9)",
                &[
                    &(batch.writer as i64),
                    &(batch.number as i64),
                    &texts(|event| &event.namespace),
                    &texts(|event| &event.room),
                    &texts(|event| &event.name),
                    &texts(|event| &event.args),
                    &users,
                    &numbers(|event| event.time_ms),
                    &numbers(|event| event.bytes() as u64),
                ],
            )
            .await
            .map_err(|error| fault(&error))?;
        let places: Vec<i64> = row.try_get(0).map_err(|error| fault(&error))?;
        self.touch(events);
        Ok(places.into_iter().map(place).collect())
    }

    fn touch(&self, events: &[Event]) {
        let mut touched = self.touched();
        for event in events {
            if touched.len() < TOUCHED_MAX {
                touched.insert((event.namespace.clone(), event.room.clone()));
            }
        }
    }

    async fn read(&self, ask: &Ask) -> Result<Page, Fault> {
        let mut filling = Filling::new(ask);
        if [&ask.namespace, &ask.room]
            .iter()
            .any(|name| name.contains('\0'))
        {
            return Ok(filling.done());
        }
        let client = self.client(&self.reader).await?;
        let order = match ask.way {
            Way::Forward => "asc",
            Way::Backward => "desc",
        };
        let after = ask.after.map_or(-1, number);
        let before = ask.before.map_or(i64::MAX, number);
        // One more says whether there is more.
        let limit = ask.events_max as i64 + 1;
        let bytes = ask.bytes_max as i64;
        let text = PAGE.replace("ORDER", order);
        let rows = client
            .query(
                &text,
                &[&ask.namespace, &ask.room, &after, &before, &limit, &bytes],
            )
            .await;
        for row in rows.map_err(|error| fault(&error))? {
            let kept = kept(ask, &row).map_err(|error| fault(&error))?;
            if !filling.push(kept) {
                break;
            }
        }
        Ok(filling.done())
    }

    async fn delete(&self, what: &Forget) -> Result<u64, Fault> {
        const EVENTS: &str = "delete from sockeye_history_events where";
        let client = self.client(&self.keeper).await?;
        let deleted = match what {
            Forget::Event {
                namespace,
                room,
                at,
            } => {
                let text = format!("{EVENTS} namespace = $1 and room = $2 and at = $3");
                client
                    .execute(&text, &[namespace, room, &number(*at)])
                    .await
            }
            Forget::Room { namespace, room } => {
                let text = format!("{EVENTS} namespace = $1 and room = $2");
                client.execute(&text, &[namespace, room]).await
            }
            Forget::User { namespace, user } => {
                let text =
                    format!("{EVENTS} \"user\" = $1 and ($2::text is null or namespace = $2)");
                client.execute(&text, &[user, namespace]).await
            }
        };
        deleted.map_err(|error| fault(&error))
    }

    async fn count(&self, namespace: &str) -> Result<Usage, Fault> {
        let client = self.client(&self.keeper).await?;
        let row = client.query_one(USAGE, &[&namespace]).await;
        let row = row.map_err(|error| fault(&error))?;
        let number = |at: usize| row.try_get(at).map(i64::unsigned_abs);
        Ok(Usage {
            rooms: number(0).map_err(|error| fault(&error))?,
            bytes: number(1).map_err(|error| fault(&error))?,
        })
    }

    async fn shed_some(&self, namespace: &str, what: &Shed) -> Result<u64, Fault> {
        let client = self.client(&self.keeper).await?;
        let gone = match what {
            Shed::Bytes(bytes) => {
                let bytes = bounded(*bytes);
                client
                    .execute(SHED_BYTES, &[&namespace, &bytes, &STEP])
                    .await
            }
            Shed::Rooms(count) => {
                let count = bounded(*count);
                client.execute(SHED_ROOMS, &[&namespace, &count]).await
            }
        };
        gone.map_err(|error| fault(&error))
    }

    async fn trim_some(&self, now_ms: u64) -> Result<Trimmed, Fault> {
        let client = self.client(&self.keeper).await?;
        let mut trimmed = self.trim_old(&client, now_ms).await?;
        trimmed.events += self.trim_full(&client).await?;
        // Of gateways that are long gone.
        let writers =
            "delete from sockeye_history_writers where written < now() - interval '1 day'";
        let gone = client.execute(writers, &[]).await;
        gone.map(|_| trimmed).map_err(|error| fault(&error))
    }

    async fn trim_old(&self, client: &Client, now_ms: u64) -> Result<Trimmed, Fault> {
        let mut trimmed = Trimmed::default();
        let mut before = BTreeMap::<&str, Vec<String>>::new();
        for (namespace, pattern, keep) in self.plan.rows() {
            // The first row that fits a room counts.
            let others = before.entry(namespace).or_default();
            let own = like(pattern);
            let end = number(Position::at_time(now_ms.saturating_sub(keep.age_ms)));
            let gone = client
                .execute(OLD, &[&namespace, &own, &end, others, &STEP])
                .await;
            let gone = gone.map_err(|error| fault(&error))?;
            trimmed.events += gone;
            trimmed.more |= gone >= STEP.unsigned_abs();
            others.push(own);
        }
        Ok(trimmed)
    }

    /// Rooms that were written and may have more than they may. One that fails is looked at again, and holds up no other.
    async fn trim_full(&self, client: &Client) -> Result<u64, Fault> {
        let touched = std::mem::take(&mut *self.touched());
        let (mut events, mut failed) = (0, Ok(()));
        for (namespace, room) in touched {
            let Some(keep) = self.plan.of(&namespace, &room) else {
                continue;
            };
            let (most, bytes) = (bounded(keep.events), bounded(keep.bytes));
            match client
                .execute(HOLD, &[&namespace, &room, &most, &bytes])
                .await
            {
                Ok(gone) => events += gone,
                Err(error) => {
                    failed = Err(fault(&error));
                    self.touched().insert((namespace, room));
                }
            }
        }
        failed.map(|()| events)
    }

    fn touched(&self) -> MutexGuard<'_, BTreeSet<(String, String)>> {
        self.touched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// PostgreSQL keeps no text with NUL.
fn check(event: &Event) -> Result<(), Fault> {
    let texts = [&event.namespace, &event.room, &event.name, &event.args];
    match texts
        .into_iter()
        .chain(&event.user)
        .any(|text| text.contains('\0'))
    {
        false => Ok(()),
        true => Err(Fault::new(
            Kind::Refused,
            "PostgreSQL keeps no names with NUL in them",
        )),
    }
}

fn number(at: Position) -> i64 {
    i64::try_from(at.as_u64()).unwrap_or(i64::MAX)
}

fn bounded(bound: u64) -> i64 {
    i64::try_from(bound).unwrap_or(i64::MAX)
}

fn place(number: i64) -> Position {
    Position::from_u64(number.unsigned_abs())
}

/// A pattern of rooms for LIKE.
fn like(pattern: &str) -> String {
    let escaped = pattern
        .replace('\\', "\\\\")
        .replace('%', "\\%")
        .replace('_', "\\_");
    escaped.replace('*', "%")
}

fn kept(ask: &Ask, row: &Row) -> Result<Kept, tokio_postgres::Error> {
    let time: i64 = row.try_get(4)?;
    Ok(Kept {
        at: place(row.try_get(0)?),
        event: Event {
            namespace: ask.namespace.clone(),
            room: ask.room.clone(),
            name: row.try_get(1)?,
            args: row.try_get(2)?,
            user: row.try_get(3)?,
            time_ms: time.unsigned_abs(),
        },
    })
}

async fn connect(config: &Config, statement_ms: u32) -> Result<Client, Fault> {
    let tls = ClientConfig::with_platform_verifier().map_err(|error| {
        Fault::new(
            Kind::Refused,
            format!("cannot use the certificates of this machine: {error}"),
        )
    })?;
    let connected = config.connect(MakeRustlsConnect::new(tls)).await;
    let (client, connection) = connected.map_err(|error| fault(&error))?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(error = cause(&error), "a connection to PostgreSQL ended");
        }
    });
    let settings =
        format!("set statement_timeout = {statement_ms}; set application_name = 'sockeye'");
    client
        .batch_execute(&settings)
        .await
        .map_err(|error| fault(&error))?;
    Ok(client)
}

async fn migrate(client: &Client) -> Result<(), tokio_postgres::Error> {
    client
        .execute("select pg_advisory_lock($1)", &[&MIGRATION_LOCK])
        .await?;
    let migrated = async {
        client
            .batch_execute(
                "create table if not exists sockeye_history_migrations (number integer primary key, applied timestamptz not null default now())",
            )
            .await?;
        for (number, text) in (1..).zip(MIGRATIONS) {
            let number: i32 = number;
            let known = "select 1 from sockeye_history_migrations where number = $1";
            if client.query_opt(known, &[&number]).await?.is_none() {
                let whole = format!(
                    "begin; {text} insert into sockeye_history_migrations (number) values ({number}); commit"
                );
                client.batch_execute(&whole).await?;
            }
        }
        Ok(())
    };
    let migrated = migrated.await;
    client
        .execute("select pg_advisory_unlock($1)", &[&MIGRATION_LOCK])
        .await?;
    migrated
}

/// What the server says, else what the connection does.
fn cause(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => error.message().to_owned(),
        None => {
            let source = std::error::Error::source(error);
            source.map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
        }
    }
}

fn fault(error: &tokio_postgres::Error) -> Fault {
    let why = cause(error);
    let Some(code) = error.code() else {
        return Fault::new(Kind::Away, format!("PostgreSQL cannot be reached: {why}"));
    };
    // Data that it never takes; everything else may pass.
    let is_refused = code.code().starts_with("22") || *code == SqlState::PROGRAM_LIMIT_EXCEEDED;
    match code {
        _ if is_refused => Fault::new(
            Kind::Refused,
            format!("PostgreSQL does not take an event: {why}"),
        ),
        _ if *code == SqlState::DISK_FULL => {
            Fault::new(Kind::Full, format!("the disk of PostgreSQL is full: {why}"))
        }
        _ => Fault::new(
            Kind::Away,
            format!("PostgreSQL fails: {why} ({})", code.code()),
        ),
    }
}

impl Store for Postgres {
    fn append<'a>(&'a self, batch: &'a Batch) -> Answer<'a, Vec<Position>> {
        Box::pin(self.append_batch(batch))
    }

    fn page(&self, ask: Ask) -> Answer<'_, Page> {
        Box::pin(async move { self.read(&ask).await })
    }

    fn forget(&self, what: Forget) -> Answer<'_, u64> {
        Box::pin(async move { self.delete(&what).await })
    }

    fn trim(&self, now_ms: u64) -> Answer<'_, Trimmed> {
        Box::pin(self.trim_some(now_ms))
    }

    fn usage<'a>(&'a self, namespace: &'a str) -> Answer<'a, Usage> {
        Box::pin(self.count(namespace))
    }

    fn shed<'a>(&'a self, namespace: &'a str, what: Shed) -> Answer<'a, u64> {
        Box::pin(async move { self.shed_some(namespace, &what).await })
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async {
            for connection in [&self.writer, &self.reader, &self.keeper] {
                connection.open.lock().await.take();
            }
            Ok(())
        })
    }
}
