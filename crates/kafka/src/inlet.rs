//! Commands on their way in: a consumer group reads them, each record is handed over, and its offset is committed afterwards.

use crate::context::Watch;
use crate::letters::{Letter, Letters};
use crate::place::Place;
use crate::settings::Settings;
use crate::topics::Topic;
use bridge::{Command, Fault, Flaw, InFigures, Kind, Lines, RawHeader, Unhandled, Window};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::{ClientConfig, ClientContext, Statistics, TopicPartitionList};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How soon a stop is noticed.
const POLL: Duration = Duration::from_millis(100);
/// Before a client that failed for good is made again, and before a command that nobody took is handed over again.
const PAUSE: Duration = Duration::from_secs(1);

/// What is read, and how.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The consumer group: each record goes to one member.
    pub group: String,
    /// The topics.
    pub topics: Vec<Topic>,
    /// Where records go that are no command; `None`: they are counted and dropped.
    pub dead_letters: Option<String>,
    /// Of a record's value. Larger ones are no commands.
    pub value_bytes_max: usize,
}

/// Reads commands until it is dropped or stopped, in a thread of its own.
pub struct Inlet {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Inlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inlet").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Shared {
    stops: AtomicBool,
    watch: Watch,
    handed: AtomicU64,
    repeated: AtomicU64,
    dead: AtomicU64,
    lost: AtomicU64,
}

impl Shared {
    fn stops(&self) -> bool {
        self.stops.load(Ordering::Acquire)
    }
}

struct Context(Arc<Shared>);

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        self.0.watch.log(level, facility, text);
    }

    fn stats(&self, statistics: Statistics) {
        self.0.watch.statistics(&statistics);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.0
            .watch
            .trouble(format_args!("cannot read commands: {error}: {reason}"));
    }
}

impl ConsumerContext for Context {
    fn commit_callback(&self, result: KafkaResult<()>, _: &TopicPartitionList) {
        if let Err(error) = result {
            self.0
                .watch
                .trouble(format_args!("cannot commit offsets: {error}"));
        }
    }
}

impl Inlet {
    /// Begins to read. `hand` gets each command, in the order of its partition, and may block: that holds the others back. When it returns,
    /// the command counts as handed over. The text of a flaw is the reason in the dead letter.
    ///
    /// Brokers and topics may be missing: they are looked for in the background.
    ///
    /// # Errors
    /// A property has a value that librdkafka does not take, Kafka has no such topic name, or there is no topic or group.
    pub fn start(
        settings: &Settings,
        reading: Reading,
        hand: impl FnMut(Place<'_>, Command<'_>) -> Result<(), Unhandled> + Send + 'static,
    ) -> Result<Self, Fault> {
        if reading.topics.is_empty() || reading.group.is_empty() {
            let text = "cannot read commands from Kafka: name a group and at least one topic";
            return Err(Fault::new(Kind::Settings, text));
        }
        let shared = Arc::new(Shared::default());
        let config = config(settings, &reading.group);
        let letters = Letters::new(settings, reading.dead_letters.as_deref())?;
        let consumer = consumer(&config, &reading, &shared)?;
        let desk = Desk {
            shared: Arc::clone(&shared),
            letters,
            window: Window::default(),
            lines: Lines::default(),
            reading,
            hand,
        };
        let name = "kafka-in".to_owned();
        let thread = thread::Builder::new().name(name);
        let thread = thread.spawn(move || run(&config, consumer, desk));
        let thread = thread.map_err(|error| {
            Fault::new(
                Kind::Settings,
                format!("cannot start a thread for Kafka: {error}"),
            )
        })?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// What became of records so far.
    pub fn figures(&self) -> InFigures {
        let shared = &self.shared;
        InFigures {
            handed: shared.handed.load(Ordering::Relaxed),
            repeated: shared.repeated.load(Ordering::Relaxed),
            dead: shared.dead.load(Ordering::Relaxed),
            lost: shared.lost.load(Ordering::Relaxed),
            lag: shared.watch.lag(),
        }
    }

    /// Finishes the record at hand, commits, leaves the group. Blocks for that time.
    pub fn stop(mut self) {
        self.shared.stops.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // It catches its panics.
            let _ = thread.join();
        }
    }
}

impl Drop for Inlet {
    fn drop(&mut self) {
        self.shared.stops.store(true, Ordering::Release);
    }
}

fn config(settings: &Settings, group: &str) -> ClientConfig {
    let mut config = settings.client();
    let own = [
        ("auto.offset.reset", "earliest"),
        ("partition.assignment.strategy", "cooperative-sticky"),
        // A member that was killed holds its partitions for so long.
        ("session.timeout.ms", "10000"),
        // Commands that come faster than they are handed over wait in Kafka, and not here.
        ("queued.max.messages.kbytes", "4096"),
        // And they come as soon as there is room: librdkafka looks once a second by itself.
        ("fetch.queue.backoff.ms", "20"),
    ];
    for (name, value) in own {
        if config.get(name).is_none() {
            config.set(name, value);
        }
    }
    config
        .set("group.id", group)
        // Committed is what was handed over: each second, and when a partition is given up.
        .set("enable.auto.offset.store", "false")
        .set("enable.auto.commit", "true")
        .set("auto.commit.interval.ms", "1000");
    config
}

fn consumer(
    config: &ClientConfig,
    reading: &Reading,
    shared: &Arc<Shared>,
) -> Result<BaseConsumer<Context>, Fault> {
    let wrong = |error| Fault::new(Kind::Settings, format!("cannot read from Kafka: {error}"));
    let context = Context(Arc::clone(shared));
    let consumer: BaseConsumer<Context> = config.create_with_context(context).map_err(wrong)?;
    let topics: Vec<&str> = reading.topics.iter().map(Topic::name).collect();
    consumer.subscribe(&topics).map_err(wrong)?;
    Ok(consumer)
}

fn run<H>(config: &ClientConfig, mut current: BaseConsumer<Context>, mut desk: Desk<H>)
where
    H: FnMut(Place<'_>, Command<'_>) -> Result<(), Unhandled>,
{
    loop {
        read(&current, &mut desk);
        // It leaves the group, and commits what was handed over.
        drop(current);
        current = loop {
            if desk.shared.stops() {
                return;
            }
            thread::sleep(PAUSE);
            match consumer(config, &desk.reading, &desk.shared) {
                Ok(next) => break next,
                Err(fault) => desk.shared.watch.trouble(fault),
            }
        };
    }
}

/// Until it stops, or the client has failed for good.
fn read<H>(consumer: &BaseConsumer<Context>, desk: &mut Desk<H>)
where
    H: FnMut(Place<'_>, Command<'_>) -> Result<(), Unhandled>,
{
    while !desk.shared.stops() {
        match consumer.poll(POLL) {
            None => {}
            Some(Ok(message)) => {
                if !desk.settle(&message) {
                    return;
                }
                // The partition may be another member's by now: then it gets the record again.
                if let Err(error) = consumer.store_offset_from_message(&message) {
                    tracing::debug!(%error, "the offset of a record is not committed");
                }
            }
            Some(Err(error @ KafkaError::MessageConsumptionFatal(_))) => {
                tracing::error!(%error, "the consumer of Kafka has failed: it is made again");
                return;
            }
            Some(Err(error)) => desk.shared.watch.trouble(error),
        }
    }
}

struct Desk<H> {
    shared: Arc<Shared>,
    letters: Letters,
    window: Window,
    lines: Lines,
    reading: Reading,
    hand: H,
}

impl<H> Desk<H>
where
    H: FnMut(Place<'_>, Command<'_>) -> Result<(), Unhandled>,
{
    /// Hands a record over or buries it, however long that takes; `false`: neither, since it stops.
    fn settle(&mut self, message: &BorrowedMessage<'_>) -> bool {
        let place = Place {
            topic: message.topic(),
            partition: message.partition(),
            offset: message.offset(),
        };
        let time_ms = message.timestamp().to_millis().unwrap_or_default();
        let Place {
            topic,
            partition,
            offset,
        } = place;
        if self.window.has(topic, partition, offset, time_ms) {
            self.shared.repeated.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        let settled = loop {
            // A header's name that is not UTF-8 makes the library panic; whatever else panics must not end the thread either.
            let handed = catch_unwind(AssertUnwindSafe(|| self.hand_over(message, place)));
            let handed = handed.unwrap_or_else(|_| {
                let text = "it cannot be read: is the name of each header UTF-8?";
                Err(Unhandled::Flaw(text.to_owned()))
            });
            match handed {
                Ok(()) => {
                    self.shared.handed.fetch_add(1, Ordering::Relaxed);
                    break true;
                }
                Err(Unhandled::Flaw(text)) => break self.bury(message, place, &Flaw::new(text)),
                Err(Unhandled::Later) if self.shared.stops() => break false,
                // It stays in its group: one that leaves and comes back makes the others share anew each time.
                Err(Unhandled::Later) => thread::sleep(PAUSE),
            }
        };
        if settled {
            self.window.add(topic, partition, offset, time_ms);
        }
        settled
    }

    fn hand_over(
        &mut self,
        message: &BorrowedMessage<'_>,
        place: Place<'_>,
    ) -> Result<(), Unhandled> {
        let value = message.payload();
        let (bytes, max) = (value.map_or(0, <[u8]>::len), self.reading.value_bytes_max);
        if bytes > max {
            let text = format!("the value has {bytes} bytes: at most {max} are allowed");
            return Err(text.into());
        }
        let mut topics = self.reading.topics.iter();
        let topic = topics.find(|topic| topic.name() == place.topic);
        let topic = topic.ok_or_else(|| "no such topic is read".to_owned())?;
        let headers = message.headers().into_iter().flat_map(Headers::iter);
        let headers: Vec<RawHeader<'_>> =
            headers.map(|header| (header.key, header.value)).collect();
        let command = Command::read(topic.rights(), &headers, value);
        (self.hand)(place, command.map_err(|flaw| flaw.to_string())?)
    }

    fn bury(&mut self, message: &BorrowedMessage<'_>, place: Place<'_>, flaw: &Flaw) -> bool {
        if self.lines.more() {
            tracing::warn!(
                topic = place.topic,
                partition = place.partition,
                offset = place.offset,
                "a record is no command: {flaw}"
            );
        }
        while !self.shared.stops() {
            let count = match self.letters.write(message, place, flaw) {
                Letter::Written => &self.shared.dead,
                Letter::Lost => &self.shared.lost,
                Letter::Later => {
                    thread::sleep(PAUSE);
                    continue;
                }
            };
            count.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        false
    }
}
