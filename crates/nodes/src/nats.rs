//! NATS as engine: channels are subjects of core NATS, leases and boards are buckets of JetStream.

use super::engine::{
    self, Board, Held, Holder, Kind, Lease, Message, Name, News, Pending, Publish, Published,
    Server, Shown, Taken, Topic, Trouble, VALUE_BYTES_MAX,
};
use super::feed::{Opened, feed};
use cluster::budget::SHEET_US;
use cluster::numbers::KEY_US;
use nats::engine::{self as carrier, Bucket, Value};
use std::sync::Arc;
use std::time::Duration;

/// Somebody else may write at the same time; then it is looked at again.
const TRIES_MAX: usize = 8;
/// The key of the last epoch that was given.
const EPOCH: &str = "epoch";

/// How to reach it, and what to use there.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) settings: nats::Settings,
    /// As that of channels and keys in Redis.
    pub(super) prefix: String,
    /// Of JetStream.
    pub(super) domain: Option<String>,
    pub(super) queue_bytes: usize,
    /// Bytes of messages that may wait for their reader; above it they are dropped and told of.
    pub(super) feed_bytes: usize,
}

/// Subjects and buckets in place of the names that all engines know.
#[derive(Clone, Debug)]
struct Names {
    prefix: Arc<str>,
    /// Beginning of subjects, and the bucket of leases.
    root: Arc<str>,
}

impl Names {
    fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.into(),
            root: root(prefix).into(),
        }
    }

    /// What stands in braces, and what stands behind them: `n5` of `sockeye:{n5}`, `nodes` and `17` of `sockeye:{nodes}:17`.
    fn words<'a>(&self, name: &'a [u8]) -> Option<(&'a str, &'a str)> {
        let name = std::str::from_utf8(name).ok()?;
        let rest = name.strip_prefix(&*self.prefix)?.strip_prefix('{')?;
        let (inner, behind) = rest.split_once('}')?;
        Some((inner, behind.strip_prefix(':').unwrap_or(behind)))
    }

    fn subject(&self, channel: &[u8]) -> Option<String> {
        let (inner, _) = self.words(channel)?;
        Some(format!("{}.{inner}", self.root))
    }

    fn channel(&self, subject: &str) -> Vec<u8> {
        let inner = subject.rsplit('.').next().unwrap_or_default();
        format!("{}{{{inner}}}", self.prefix).into_bytes()
    }

    fn topic(&self, subject: &str) -> Topic {
        Topic::Channel(Kind::Classic, self.channel(subject).into())
    }

    fn leases(&self) -> &str {
        &self.root
    }

    fn epochs(&self) -> String {
        format!("{}_epochs", self.root)
    }

    fn boards(&self) -> String {
        format!("{}_limits", self.root)
    }
}

/// Programs may have subjects that begin with the prefix: those of nodes are others.
pub(super) fn root(prefix: &str) -> String {
    format!("{}_nodes", prefix.trim_end_matches(':'))
}

/// Whether subjects and buckets can begin with it.
pub(super) fn fits(prefix: &str) -> bool {
    let stem = prefix.strip_suffix(':').unwrap_or(prefix);
    let is_word = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_');
    !stem.is_empty() && stem.chars().all(is_word)
}

/// The connection.
#[derive(Debug)]
struct Port {
    engine: carrier::Engine,
    names: Names,
}

pub(super) fn trouble(trouble: &carrier::Trouble) -> Trouble {
    match trouble.lasts() {
        true => Trouble::lasting(trouble.to_string()),
        false => Trouble::new(trouble.to_string()),
    }
}

fn nameless(name: &[u8]) -> Trouble {
    let name = String::from_utf8_lossy(name);
    Trouble::new(format!(
        "NATS carries messages between nodes only, and not {name:?}"
    ))
}

/// Connects. From then on everything is tried again for ever.
pub(super) async fn open(plan: Plan) -> Result<Opened, Trouble> {
    let names = Names::new(&plan.prefix);
    let (source, feed) = feed(plan.feed_bytes);
    let told = names.clone();
    let topics = |names: &Names, subjects: Vec<String>| {
        subjects
            .iter()
            .map(|subject| names.topic(subject))
            .collect()
    };
    let tell = move |news: carrier::News| {
        source.tell(match news {
            carrier::News::Message { subject, body } => News::Message(Message {
                kind: Kind::Classic,
                pattern: None,
                channel: told.channel(&subject),
                body,
            }),
            carrier::News::Up => News::Up,
            carrier::News::Down(why) => News::Down(trouble(&why)),
            carrier::News::Heard(subjects) => News::Heard(topics(&told, subjects)),
            carrier::News::Unheard(subjects) => News::Unheard(topics(&told, subjects)),
            carrier::News::Dropped(count) => News::Dropped(count),
        });
    };
    let bucket = |name: String, age: Option<u64>| Bucket {
        name,
        age: age.map(Duration::from_micros),
        bytes_max: None,
    };
    let plan = carrier::Plan {
        settings: plan.settings,
        root: names.root.to_string(),
        domain: plan.domain,
        buckets: vec![
            bucket(names.leases().to_owned(), Some(KEY_US)),
            bucket(names.epochs(), None),
            bucket(names.boards(), Some(SHEET_US)),
        ],
        queue_bytes: plan.queue_bytes,
        is_quiet: false,
    };
    let engine = carrier::open(plan, Arc::new(tell)).await;
    let engine = engine.map_err(|why| trouble(&why))?;
    Ok((Arc::new(Port { engine, names }), feed))
}

impl engine::Port for Port {
    fn name(&self) -> &'static str {
        "NATS"
    }

    fn publish(&self, batch: &[Publish]) -> Pending<'static, Published> {
        let count = batch.len();
        let message = |one: &Publish| {
            let subject = self.names.subject(&one.channel);
            let subject = subject.ok_or_else(|| nameless(&one.channel))?;
            Ok((subject, Arc::clone(&one.body)))
        };
        let messages: Result<Vec<_>, Trouble> = batch.iter().map(message).collect();
        let published = messages.map(|messages| self.engine.publish(messages));
        Box::pin(async move {
            let taken = match published {
                Ok(published) => published.await.map_err(|why| trouble(&why)),
                Err(trouble) => Err(trouble),
            };
            match taken {
                // How many heard each, NATS does not say.
                Ok(()) => Published {
                    receivers: vec![Some(1); count],
                    trouble: None,
                },
                Err(trouble) => Published::failed(count, trouble),
            }
        })
    }

    fn subscribe(&self, topics: Vec<Topic>) {
        self.engine.subscribe(self.subjects(&topics));
    }

    fn unsubscribe(&self, topics: Vec<Topic>) {
        self.engine.unsubscribe(self.subjects(&topics));
    }

    fn doubt(&self) {
        self.engine.doubt();
    }

    fn take<'a>(&'a self, lease: &'a Lease) -> Pending<'a, Result<Taken, Trouble>> {
        Box::pin(self.take_lease(lease.clone()))
    }

    fn hold<'a>(&'a self, lease: &'a Lease) -> Pending<'a, Result<Held, Trouble>> {
        Box::pin(self.hold_lease(lease))
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> Pending<'a, Result<(), Trouble>> {
        Box::pin(self.release_lease(lease))
    }

    fn holders<'a>(
        &'a self,
        keys: &'a [Name],
    ) -> Pending<'a, Result<Vec<Option<Holder>>, Trouble>> {
        Box::pin(self.holders_of(keys))
    }

    fn show<'a>(
        &'a self,
        board: &'a Board,
        value: &'a [u8],
    ) -> Pending<'a, Result<Shown, Trouble>> {
        Box::pin(self.show_on(board, value))
    }

    fn server(&self) -> Pending<'_, Result<Server, Trouble>> {
        Box::pin(async move {
            let (version, is_cluster) = self.engine.server().await.map_err(|why| trouble(&why))?;
            Ok(Server {
                name: "nats".to_owned(),
                version,
                mode: if is_cluster { "cluster" } else { "single" },
                pubsub_buffer: None,
                node_timeout: None,
            })
        })
    }
}

impl Port {
    fn subjects(&self, topics: &[Topic]) -> Vec<String> {
        let channel = |topic: &Topic| match topic {
            Topic::Channel(_, name) => self.names.subject(name),
            Topic::Pattern(_) => None,
        };
        topics.iter().filter_map(channel).collect()
    }

    fn number<'a>(&self, key: &'a Name) -> Result<&'a str, Trouble> {
        let words = self.names.words(key);
        words.map(|(_, number)| number).ok_or_else(|| nameless(key))
    }

    /// What stands under the key of a lease, and its revision.
    async fn find(&self, lease: &Lease) -> Result<(Option<Holder>, u64), Trouble> {
        let key = self.number(&lease.key)?;
        let value = self.engine.read(self.names.leases(), key).await;
        let value = value.map_err(|why| trouble(&why))?;
        let revision = value.as_ref().map_or(0, |value| value.revision);
        let holder = value.map(|value| holder(&value));
        // What is nobody's may be replaced.
        let holder = holder.filter(|holder| lease.over.as_ref() != Some(&holder.value));
        Ok((holder, revision))
    }

    async fn set(&self, lease: &Lease, over: u64) -> Result<bool, Trouble> {
        let (key, value) = (self.number(&lease.key)?, lease.value());
        let bucket = self.names.leases();
        let set = self.engine.write(bucket, key, value.as_bytes(), Some(over));
        set.await.map_err(|why| trouble(&why))
    }

    async fn take_lease(&self, mut lease: Lease) -> Result<Taken, Trouble> {
        for _ in 0..TRIES_MAX {
            let (holder, revision) = self.find(&lease).await?;
            if let Some(holder) = holder {
                return Ok(match holder.payload == lease.payload {
                    true => Taken::Mine(holder.epoch),
                    false => Taken::Other(holder),
                });
            }
            lease.epoch = self.count(lease.epoch, true).await?;
            if self.set(&lease, revision).await? {
                return Ok(Taken::Mine(lease.epoch));
            }
        }
        Err(crowded())
    }

    /// Counts an epoch as given: this one, or with `above` one that is also above all that were given.
    async fn count(&self, epoch: u64, above: bool) -> Result<u64, Trouble> {
        let bucket = self.names.epochs();
        for _ in 0..TRIES_MAX {
            let last = self.engine.read(&bucket, EPOCH).await;
            let last = last.map_err(|why| trouble(&why))?;
            let text = last
                .as_ref()
                .map(|value| String::from_utf8_lossy(&value.bytes));
            let given = text.and_then(|text| text.parse::<u64>().ok());
            let given = given.unwrap_or_default();
            if !above && given >= epoch {
                return Ok(epoch);
            }
            let next = epoch.max(given.saturating_add(u64::from(above)));
            let over = last.map_or(0, |value| value.revision);
            let text = next.to_string();
            let written = self
                .engine
                .write(&bucket, EPOCH, text.as_bytes(), Some(over));
            if written.await.map_err(|why| trouble(&why))? {
                return Ok(next);
            }
        }
        Err(crowded())
    }

    async fn hold_lease(&self, lease: &Lease) -> Result<Held, Trouble> {
        for _ in 0..TRIES_MAX {
            let (holder, revision) = self.find(lease).await?;
            if let Some(holder) = holder.filter(|holder| holder.epoch != lease.epoch) {
                return Ok(Held::Other(holder));
            }
            self.count(lease.epoch, false).await?;
            if self.set(lease, revision).await? {
                return Ok(Held::Mine);
            }
        }
        Err(crowded())
    }

    async fn release_lease(&self, lease: &Lease) -> Result<(), Trouble> {
        let (holder, revision) = self.find(lease).await?;
        if holder.is_some_and(|holder| holder.epoch == lease.epoch) {
            let erased = self.engine.erase(self.names.leases(), revision);
            erased.await.map_err(|why| trouble(&why))?;
        }
        Ok(())
    }

    async fn holders_of(&self, keys: &[Name]) -> Result<Vec<Option<Holder>>, Trouble> {
        let values = self.engine.read_all(self.names.leases()).await;
        let values = values.map_err(|why| trouble(&why))?;
        let find = |key: &Name| {
            let number = self.number(key)?;
            let found = values.iter().find(|(key, _)| key == number);
            Ok(found.map(|(_, value)| holder(value)))
        };
        keys.iter().map(find).collect()
    }

    async fn show_on(&self, board: &Board, value: &[u8]) -> Result<Shown, Trouble> {
        let (bucket, number) = (self.names.boards(), board.number.to_string());
        let shown = self.engine.write(&bucket, &number, value, None).await;
        shown.map_err(|why| trouble(&why))?;
        let values = self.engine.read_all(&bucket).await;
        let values = values.map_err(|why| trouble(&why))?.into_iter();
        let fits = |value: &Value| value.bytes.len() <= board.bytes_max;
        Ok(values
            .filter(|(_, value)| fits(value))
            .filter_map(|(key, value)| Some((key.parse().ok()?, value.bytes)))
            .collect())
    }
}

fn holder(value: &Value) -> Holder {
    let bytes = &value.bytes;
    Holder::read(&bytes[..bytes.len().min(VALUE_BYTES_MAX)])
}

pub(super) fn crowded() -> Trouble {
    Trouble::new("others write to a key of JetStream all the time: this node was slower each time")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_nodes_are_subjects_and_keys() {
        let names = Names::new("sockeye:");
        let subject = names.subject(b"sockeye:{n5}").expect("a subject");
        assert_eq!(subject, "sockeye_nodes.n5");
        assert_eq!(names.channel(&subject), b"sockeye:{n5}");
        assert_eq!(names.words(b"sockeye:{nodes}:17"), Some(("nodes", "17")));
        assert_eq!(names.subject(b"other:{n5}"), None);
    }

    #[test]
    fn a_prefix_is_one_word() {
        for prefix in ["sockeye:", "a-b_9:", "a"] {
            assert!(fits(prefix), "{prefix}");
        }
        for prefix in ["", ":", "a.b:", "a b:", "a:b:", "*:"] {
            assert!(!fits(prefix), "{prefix}");
        }
    }
}
