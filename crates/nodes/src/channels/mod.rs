//! Channels of Redis that programs outside share with clients: chosen events are published there as plain JSON, and messages of others
//! are taken in. Each node publishes what is published on it, and tells what it hears to its own clients. One task does both, on
//! connections of its own.

mod words;

pub use words::Channel;

use super::engine::{Engine, Kind, Name, News, Publish, Published, Topic};
use super::feed::Feed;
use super::redis::{self, settings::Settings as Redis};
use hub::{Tap, Tapped};
use rules::ToShards;
use rules::{Errand, Wanted};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::sleep;
use words::{Origin, Refused};

/// Redis is looked for this often at the start.
const RETRY: Duration = Duration::from_secs(2);
/// Events of one batch, and batches under way.
const BATCH: usize = 256;
const BATCHES_MAX: usize = 16;
/// While a shard has more letters than it may, it is looked at so often.
const BEHIND: Duration = Duration::from_millis(1);
/// Messages that wait for this task.
const FEED_BYTES: usize = 8 << 20;

/// Counters of the channels, for the exporter.
#[derive(Debug, Default)]
pub struct Gauges {
    /// Events that Redis took.
    pub published: AtomicU64,
    /// Events that it did not take.
    pub failed: AtomicU64,
    /// Events that were not published because too many waited.
    pub dropped: AtomicU64,
    /// Events that are too large for a channel, or cannot be marked.
    pub unfit: AtomicU64,
    /// Events that are too large for all channels, or have attachments.
    pub uncopied: AtomicU64,
    /// Messages that clients of this node were told.
    pub taken: AtomicU64,
    /// Messages of this cluster, which clients have already.
    pub own: AtomicU64,
    pub malformed: AtomicU64,
    pub large: AtomicU64,
    /// Messages whose event is not taken.
    pub unchosen: AtomicU64,
    /// Messages above the rate.
    pub rate: AtomicU64,
    /// Messages that this node did not read in time.
    pub missed: AtomicU64,
}

/// The plan of the task.
pub struct Plan {
    pub redis: Redis,
    /// The prefix of all nodes of this cluster: it marks what they publish.
    pub cluster: String,
    pub node: u16,
    pub channels: Vec<Channel>,
    pub tap: Arc<Tap>,
    /// Rings when the tap has something.
    pub bell: Arc<Notify>,
    pub shards: Box<dyn ToShards>,
    /// Some shard has more letters than it may.
    pub are_behind: Box<dyn Fn() -> bool + Send + Sync>,
    pub gauges: Arc<Gauges>,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").finish_non_exhaustive()
    }
}

/// Starts the task on the runtime that is entered. It ends with it.
pub fn start(plan: Plan) {
    tokio::spawn(async move {
        let settings = Redis {
            feed_bytes: FEED_BYTES,
            ..plan.redis.clone()
        };
        let (engine, feed) = loop {
            match redis::open(settings.clone()).await {
                Ok(opened) => break opened,
                Err(trouble) => {
                    tracing::warn!(%trouble, "the channels for programs outside wait for Redis");
                    sleep(RETRY).await;
                }
            }
        };
        Bridge::new(plan, engine).run(feed).await;
    });
}

struct Bridge {
    plan: Plan,
    engine: Engine,
    origin: Origin,
    batches: JoinSet<Published>,
    /// For each channel, when the second began in which messages are counted, and how many came.
    seconds: Vec<(Instant, u64)>,
    /// The log was told of a message that was refused.
    told: bool,
}

impl Bridge {
    fn new(plan: Plan, engine: Engine) -> Self {
        let origin = Origin {
            cluster: plan.cluster.clone(),
            node: plan.node,
        };
        Self {
            seconds: vec![(Instant::now(), 0); plan.channels.len()],
            plan,
            engine,
            origin,
            batches: JoinSet::new(),
            told: false,
        }
    }

    async fn run(mut self, mut feed: Feed) {
        let heard = self.plan.channels.iter();
        let heard = heard.filter(|channel| !channel.take.is_empty());
        let topics: Vec<Topic> = heard
            .map(|channel| Topic::Channel(Kind::Classic, name(&channel.name)))
            .collect();
        if !topics.is_empty() {
            self.engine.subscribe(topics);
        }
        let bell = Arc::clone(&self.plan.bell);
        loop {
            self.publish();
            self.count();
            let is_behind = (self.plan.are_behind)();
            tokio::select! {
                Some(batch) = self.batches.join_next() => self.on_batch(batch),
                () = bell.notified() => {}
                news = feed.next(), if !is_behind => match news {
                    Some(news) => self.on_news(news),
                    None => return,
                },
                () = sleep(BEHIND), if is_behind => {}
            }
        }
    }

    // ---- to the channels ----------------------------------------------------------------------------------------------------

    fn publish(&mut self) {
        while self.batches.len() < BATCHES_MAX {
            let events: Vec<Tapped> = std::iter::from_fn(|| self.plan.tap.next())
                .take(BATCH)
                .collect();
            if events.is_empty() {
                return;
            }
            let batch: Vec<Publish> = events
                .iter()
                .flat_map(|event| self.messages(event))
                .collect();
            if !batch.is_empty() {
                let published = self.engine.publish(&batch);
                self.batches.spawn(published);
            }
        }
    }

    /// An event as it goes to each channel that wants it.
    fn messages(&self, event: &Tapped) -> Vec<Publish> {
        let wants = |channel: &&Channel| {
            channel.namespace == event.namespace && channel.publish.contains(&event.event)
        };
        let channels = self.plan.channels.iter().filter(wants);
        let texts = channels.map(|channel| (channel, self.origin.write(channel, event)));
        texts
            .filter_map(|(channel, text)| {
                let text = text.filter(|text| text.len() <= channel.bytes_max);
                if text.is_none() {
                    add(&self.plan.gauges.unfit, 1);
                }
                Some(Publish {
                    kind: Kind::Classic,
                    channel: name(&channel.name),
                    body: text?.into_bytes().into(),
                })
            })
            .collect()
    }

    fn on_batch(&mut self, batch: Result<Published, tokio::task::JoinError>) {
        let Ok(published) = batch else { return };
        let gauges = &self.plan.gauges;
        let taken = published.receivers.iter().flatten().count();
        add(&gauges.published, taken as u64);
        add(&gauges.failed, (published.receivers.len() - taken) as u64);
        if let Some(trouble) = &published.trouble {
            tracing::debug!(%trouble, "events for programs outside are lost");
        }
    }

    // ---- from the channels --------------------------------------------------------------------------------------------------

    fn on_news(&mut self, news: News) {
        match news {
            News::Message(message) => self.on_message(&message.channel, &message.body),
            News::Dropped(count) => add(&self.plan.gauges.missed, count),
            News::Up => tracing::info!("the channels for programs outside are heard"),
            News::Down(trouble) => {
                tracing::warn!(%trouble, "the channels for programs outside are not heard: what is published there meanwhile is lost");
            }
            News::Heard(_) | News::Unheard(_) => {}
        }
    }

    fn on_message(&mut self, channel: &[u8], body: &[u8]) {
        let mut channels = self.plan.channels.iter();
        let at = channels.position(|known| known.name.as_bytes() == channel);
        let Some((at, channel)) = at.map(|at| (at, &self.plan.channels[at])) else {
            return;
        };
        let gauges = Arc::clone(&self.plan.gauges);
        if body.len() > channel.bytes_max {
            let name = channel.name.clone();
            return self.refuse(&gauges.large, &name, "it is larger than bytes_max");
        }
        let (of, message) = match self.origin.read(channel, body) {
            Ok(read) => read,
            Err(Refused::Own) => return add(&gauges.own, 1),
            Err(Refused::Unchosen) => return add(&gauges.unchosen, 1),
            Err(Refused::Malformed) => {
                let name = channel.name.clone();
                let why = "it is no JSON in the form that this channel has (docs/feed.md)";
                return self.refuse(&gauges.malformed, &name, why);
            }
        };
        let (began, came) = &mut self.seconds[at];
        if began.elapsed() >= Duration::from_secs(1) {
            (*began, *came) = (Instant::now(), 0);
        }
        *came += 1;
        if *came > channel.per_second_max {
            return add(&gauges.rate, 1);
        }
        add(&gauges.taken, 1);
        self.plan.shards.send(Errand {
            of,
            what: Wanted::Emit(message),
            answer: Box::new(|_| {}),
            begun: None,
        });
    }

    /// The first one is told.
    fn refuse(&mut self, cell: &AtomicU64, channel: &str, why: &str) {
        add(cell, 1);
        if !std::mem::replace(&mut self.told, true) {
            tracing::warn!(
                channel,
                why,
                "a message of a program outside was skipped; further ones are only counted"
            );
        }
    }

    fn count(&self) {
        let (gauges, tap) = (&self.plan.gauges, &self.plan.tap);
        gauges.dropped.store(tap.dropped(), Ordering::Relaxed);
        gauges.uncopied.store(tap.unfit(), Ordering::Relaxed);
    }
}

fn add(cell: &AtomicU64, count: u64) {
    cell.fetch_add(count, Ordering::Relaxed);
}

fn name(text: &str) -> Name {
    text.as_bytes().into()
}
