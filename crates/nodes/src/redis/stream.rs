//! A stream of entries. It is read on a connection of its own, because its reader waits at the server. A reader that comes back after
//! a cut goes on where it was, so a cut loses nothing unless the stream was cut off behind it meanwhile.

use super::conn::{Conn, refusal, text};
use super::routes::Routes;
use super::settings::Settings;
use super::slot::slot;
use super::wait::Backoff;
use crate::engine::{Entry, Name, StreamNews, Trouble};
use arc_swap::ArcSwap;
use redis::{Cmd, Pipeline, Value};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::sleep;

/// Entries in one answer.
const COUNT: usize = 100;
/// Answers that may wait for their reader: then Redis keeps what else there is.
const WAITING_MAX: usize = 8;
/// How long the server waits for an entry.
const BLOCK: Duration = Duration::from_secs(2);

/// The name of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Id(u64, u64);

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.0, self.1)
    }
}

impl Id {
    fn read(value: &Value) -> Option<Self> {
        let text = text(value);
        let (ms, number) = text.split_once('-')?;
        Some(Self(ms.parse().ok()?, number.parse().ok()?))
    }
}

/// Reads what is appended from now on, as long as somebody takes it.
pub(super) fn read(
    stream: Name,
    settings: &Arc<Settings>,
    routes: &Arc<ArcSwap<Routes>>,
) -> Receiver<StreamNews> {
    let (news, receiver) = channel(WAITING_MAX);
    let reader = Reader {
        stream,
        settings: Arc::clone(settings),
        routes: Arc::clone(routes),
        last: None,
        news,
    };
    tokio::spawn(reader.run());
    receiver
}

struct Reader {
    stream: Name,
    settings: Arc<Settings>,
    routes: Arc<ArcSwap<Routes>>,
    /// The last entry that was read; `None` = nobody knows yet where the stream ends.
    last: Option<Id>,
    news: Sender<StreamNews>,
}

/// Nobody takes news any more.
struct Deserted;

impl Reader {
    async fn run(mut self) {
        let mut backoff = Backoff::default();
        while !self.news.is_closed() {
            let trouble = match self.connect().await {
                Ok(conn) => {
                    backoff = Backoff::default();
                    match self.follow(&conn).await {
                        Ok(Deserted) => return,
                        Err(trouble) => trouble,
                    }
                }
                Err(trouble) => trouble,
            };
            if self.tell(StreamNews::Down(trouble)).await.is_err() {
                return;
            }
            sleep(backoff.next()).await;
        }
    }

    async fn tell(&self, news: StreamNews) -> Result<(), Deserted> {
        self.news.send(news).await.map_err(|_| Deserted)
    }

    /// Connects to the stream's owner, and finds where to go on.
    async fn connect(&mut self) -> Result<Conn, Trouble> {
        let owner = {
            let routes = self.routes.load();
            let lane = routes.lanes().get(routes.owner(slot(&self.stream)));
            lane.map(|lane| lane.addr.clone())
        };
        let owner = owner.ok_or_else(|| Trouble::new("nobody knows where the stream is"))?;
        let settings = &self.settings;
        let conn = Conn::open(&owner, &settings.login, settings, None).await?;
        conn.hello.suits(&owner, &settings.mode)?;
        let mut newest = Cmd::new();
        newest.arg("XREVRANGE").arg(&self.stream[..]);
        newest.arg("+").arg("-").arg("COUNT").arg(1);
        let answer = conn.ask(newest, settings.patience).await?;
        let end = self.accepted(&answer).map(first_id)?.unwrap_or_default();
        // A stream that ends before what was read of it is another one.
        let is_another = self.last.is_some_and(|last| end < last);
        if is_another {
            let _ = self.tell(StreamNews::Missed).await;
        }
        self.last = match self.last {
            Some(last) if !is_another => Some(last),
            Some(_) => Some(Id::default()),
            None => Some(end),
        };
        Ok(conn)
    }

    async fn follow(&mut self, conn: &Conn) -> Result<Deserted, Trouble> {
        let patience = BLOCK + self.settings.patience;
        loop {
            let last = self.last.unwrap_or_default();
            let answers = conn.send(&self.question(last), patience).await?;
            let [entries, oldest] = &answers[..] else {
                return Err(Trouble::new("Redis left a question unanswered"));
            };
            let oldest = self.accepted(oldest).map(first_id)?;
            let is_cut = last != Id::default() && oldest.is_some_and(|oldest| oldest > last);
            if is_cut && self.tell(StreamNews::Missed).await.is_err() {
                return Ok(Deserted);
            }
            let entries = entries_of(self.accepted(entries)?);
            let Some((newest, _)) = entries.last() else {
                if self.news.is_closed() {
                    return Ok(Deserted);
                }
                continue;
            };
            self.last = Some(*newest);
            let entries = entries.into_iter().map(|(_, entry)| entry).collect();
            if self.tell(StreamNews::Entries(entries)).await.is_err() {
                return Ok(Deserted);
            }
        }
    }

    /// The entries behind the last that was read, then the oldest that is still there: asked in this order, it tells what was cut off while
    /// the reader waited.
    fn question(&self, last: Id) -> Pipeline {
        let mut oldest = Cmd::new();
        oldest.arg("XRANGE").arg(&self.stream[..]);
        oldest.arg("-").arg("+").arg("COUNT").arg(1);
        let mut next = Cmd::new();
        next.arg("XREAD").arg("COUNT").arg(COUNT);
        next.arg("BLOCK").arg(BLOCK.as_millis() as u64);
        next.arg("STREAMS")
            .arg(&self.stream[..])
            .arg(last.to_string());
        let mut pipeline = Pipeline::new();
        pipeline.add_command(next).add_command(oldest);
        pipeline
    }

    fn accepted<'a>(&self, answer: &'a Value) -> Result<&'a Value, Trouble> {
        match refusal(answer) {
            None => Ok(answer),
            Some(why) => {
                let stream = String::from_utf8_lossy(&self.stream);
                let text = format!("cannot read the stream {stream:?}: Redis says: {why}");
                Err(Trouble::new(text))
            }
        }
    }
}

/// Entries of XREAD of one stream; what is no entry is left out.
fn entries_of(answer: &Value) -> Vec<(Id, Entry)> {
    let streams = answer.as_map_iter().into_iter().flatten();
    let entries = streams.flat_map(|(_, entries)| entries.as_sequence().unwrap_or_default());
    entries.filter_map(entry).collect()
}

fn entry(value: &Value) -> Option<(Id, Entry)> {
    let [id, fields] = value.as_sequence()? else {
        return None;
    };
    let words = fields.as_sequence().unwrap_or_default();
    let pairs = words.chunks_exact(2);
    let fields = pairs.filter_map(|pair| Some((bytes(&pair[0])?, bytes(&pair[1])?)));
    Some((Id::read(id)?, fields.collect()))
}

fn bytes(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes.clone()),
        _ => None,
    }
}

/// The name of the only entry of a range.
fn first_id(range: &Value) -> Option<Id> {
    let entry = range.as_sequence()?.first()?;
    Id::read(entry.as_sequence()?.first()?)
}
