//! NATS between nodes: messages by core subjects, and a few keys in JetStream. It is tried again for ever; messages may get lost while it is in
//! trouble, and whoever uses it is told.

mod ear;
mod echo;
mod keeper;
mod keys;
mod lives;
mod mouth;
mod parts;

pub use keys::{Bucket, Value};
pub use lives::Unkept;

use crate::settings::Settings;
use keeper::{Keeper, Line};
use mouth::{Mouth, Parcel};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

/// A batch or a question is tried for so long.
const TRY_FOR: Duration = Duration::from_millis(1_500);
const FULL: &str = "cannot publish: too much waits for NATS, which is slow or away";
const SLOW: &str = "NATS did not take messages in time";

/// Why something did not work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    text: String,
    lasts: bool,
}

impl Trouble {
    fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            lasts: false,
        }
    }

    fn lasting(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            lasts: true,
        }
    }

    /// Whether waiting does not mend it.
    pub fn lasts(&self) -> bool {
        self.lasts
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What it reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// A message of a subject came.
    Message {
        /// The subject.
        subject: String,
        /// As it was published.
        body: Vec<u8>,
    },
    /// The server answers, and all wanted subjects are heard.
    Up,
    /// It is not so any more.
    Down(Trouble),
    /// From now on messages of these subjects come.
    Heard(Vec<String>),
    /// They do not come any more; they are subscribed to again.
    Unheard(Vec<String>),
    /// Messages were thrown away.
    Dropped(u64),
}

/// Hears what is reported. It must not block.
pub type Told = Arc<dyn Fn(News) + Send + Sync>;

/// What an engine is made of.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where the servers are.
    pub settings: Settings,
    /// Beginning of all subjects, without the dot behind it.
    pub root: String,
    /// Of the JetStream with the buckets, where it is not that of the server.
    pub domain: Option<String>,
    /// The buckets for keys.
    pub buckets: Vec<Bucket>,
    /// Bytes of messages that may wait for NATS.
    pub queue_bytes: usize,
    /// Nobody publishes by it, so no message that stays out tells of a way that ended without a word.
    pub is_quiet: bool,
}

enum Order {
    Subscribe(Vec<String>),
    Unsubscribe(Vec<String>),
    Doubt,
}

/// A handle; it ends with the last of its clones.
#[derive(Clone)]
pub struct Engine(Arc<Shared>);

struct Shared {
    plan: Arc<Plan>,
    orders: UnboundedSender<Order>,
    parcels: UnboundedSender<Parcel>,
    line: watch::Receiver<Option<Line>>,
    waiting: Arc<AtomicUsize>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

/// Connects, and sets up the buckets. Within a runtime.
///
/// # Errors
/// NATS cannot be used now: why, and what to do.
pub async fn open(plan: Plan, told: Told) -> Result<Engine, Trouble> {
    let plan = Arc::new(plan);
    let first = keeper::connect(&plan, &told).await?;
    keys::ensure(&first.line, &plan).await?;
    let (orders, ordered) = unbounded_channel();
    let (parcels, posted) = unbounded_channel();
    let (tell_line, line) = watch::channel(None);
    let keeper = Keeper::new(Arc::clone(&plan), told, ordered, tell_line);
    tokio::spawn(keeper.run(first));
    tokio::spawn(Mouth::new(posted, line.clone()).run());
    Ok(Engine(Arc::new(Shared {
        plan,
        orders,
        parcels,
        line,
        waiting: Arc::default(),
    })))
}

impl Engine {
    /// Publishes a batch in order, which is handed over at once. It ends within seconds; an error says that nobody knows how much of it was
    /// taken.
    pub fn publish(
        &self,
        messages: Vec<(String, Arc<[u8]>)>,
    ) -> impl Future<Output = Result<(), Trouble>> + Send + use<> {
        let bytes = messages.iter().map(|(_, body)| body.len()).sum();
        let waiting = self.0.waiting.fetch_add(bytes, Ordering::Relaxed);
        let room = mouth::Room::new(Arc::clone(&self.0.waiting), bytes);
        // A batch above the bound passes when nothing else waits.
        let is_full = waiting > 0 && waiting + bytes > self.0.plan.queue_bytes;
        let (done, taken) = oneshot::channel();
        if !is_full {
            let parcel = Parcel::new(messages, done, room);
            let _ = self.0.parcels.send(parcel);
        }
        async move {
            if is_full {
                return Err(Trouble::new(FULL));
            }
            match timeout(TRY_FOR, taken).await {
                Ok(Ok(taken)) => taken,
                Ok(Err(_)) => Err(Trouble::new("the connection to NATS has ended")),
                Err(_) => Err(Trouble::new(SLOW)),
            }
        }
    }

    /// Wants to hear subjects.
    pub fn subscribe(&self, subjects: Vec<String>) {
        let _ = self.0.orders.send(Order::Subscribe(subjects));
    }

    /// Does not want to hear them any more.
    pub fn unsubscribe(&self, subjects: Vec<String>) {
        let _ = self.0.orders.send(Order::Unsubscribe(subjects));
    }

    /// Connects anew.
    pub fn doubt(&self) {
        let _ = self.0.orders.send(Order::Doubt);
    }

    /// Whether the server takes a value of so many bytes. Without a connection nobody knows.
    pub fn fits(&self, bytes: usize) -> bool {
        let line = self.0.line.borrow();
        line.as_ref().is_none_or(|line| line.takes(bytes))
    }

    /// The version of the server, and whether it is one of several.
    ///
    /// # Errors
    /// There is no connection.
    pub async fn server(&self) -> Result<(String, bool), Trouble> {
        let line = self.line().await?;
        let info = line.client.server_info();
        Ok((info.version, info.cluster.is_some()))
    }

    async fn line(&self) -> Result<Line, Trouble> {
        let mut line = self.0.line.clone();
        let up = timeout(TRY_FOR, line.wait_for(Option::is_some)).await;
        let up = up
            .ok()
            .and_then(Result::ok)
            .and_then(|line| Line::clone_of(&line));
        up.ok_or_else(|| Trouble::new("there is no connection to NATS"))
    }
}
