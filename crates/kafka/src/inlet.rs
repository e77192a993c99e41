//! Commands on their way in: a consumer group reads them, each record is handed over, and its offset is committed when it is carried out.

use crate::context::Watch;
use crate::letters::{Letter, Letters};
use crate::offsets::Offsets;
use crate::settings::Settings;
use crate::topics::Topic;
use crate::under_way::{Step, UnderWay};
use bridge::{
    Command, Fault, Flaw, Handed, InBooks, InFigures, Kind, Lines, Past, Place, RawHeader, Said,
    Unhandled,
};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientConfig, ClientContext, Offset, Statistics, TopicPartitionList};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How soon a stop is noticed.
const POLL: Duration = Duration::from_millis(100);
/// Before a client that failed for good is made again, and before a command that nobody took is handed over again.
const PAUSE: Duration = Duration::from_secs(1);
/// The broker says within this time which offsets it has.
const COMMITTED_TIME: Duration = Duration::from_secs(1);
/// What was handed over longer ago, and of which a broker says that it is not committed, nobody commits any more: its topic may be gone, or an
/// operator went back.
const COMMITS: Duration = Duration::from_secs(10 * 60);

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
    /// Offsets of records that were handed over may not be committed.
    in_doubt: AtomicBool,
    watch: Watch,
    under_way: UnderWay,
    offsets: Offsets,
    books: InBooks,
}

impl Shared {
    fn stops(&self) -> bool {
        self.stops.load(Ordering::Acquire)
    }

    /// Blocks until all commands under way are carried out; `false`: one was not. How far they came is stored a moment later.
    fn settle(&self, consumer: &BaseConsumer<Context>) -> bool {
        let settled = self.under_way.settle();
        self.books
            .handed
            .fetch_add(settled.handed, Ordering::Relaxed);
        let now = Instant::now();
        self.offsets.add(settled.reached, now);
        store(consumer, &self.offsets.take_ripe(now));
        settled.is_whole
    }

    /// The same for what this member gives up: it is stored now.
    fn settle_all(&self, consumer: &BaseConsumer<Context>) -> bool {
        let is_whole = self.settle(consumer);
        store(consumer, &self.offsets.take_all());
        is_whole
    }
}

fn store(consumer: &BaseConsumer<Context>, offsets: &TopicPartitionList) {
    if offsets.count() > 0
        && let Err(error) = consumer.store_offsets(offsets)
    {
        // The partitions are another member's by now: it gets the records again.
        tracing::debug!(%error, "offsets of records are not committed");
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
    /// A partition that is given up is committed as far as its commands are carried out: that is all that were handed over.
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, _: &Rebalance<'_>) {
        self.0.settle_all(consumer);
    }

    fn commit_callback(&self, result: KafkaResult<()>, _: &TopicPartitionList) {
        if let Err(error) = result {
            self.0
                .watch
                .trouble(format_args!("cannot commit offsets: {error}"));
        }
    }
}

impl Inlet {
    /// Begins to read. `hand` gets each command, in the order of its partition, and may block: that holds the others back. Some more commands
    /// of the same namespace are handed over while one is under way. The text of a flaw is the reason in the dead letter.
    ///
    /// Brokers and topics may be missing: they are looked for in the background.
    ///
    /// # Errors
    /// A property has a value that librdkafka does not take, Kafka has no such topic name, or there is no topic or group.
    pub fn start<H: Into<Handed> + 'static>(
        settings: &Settings,
        reading: Reading,
        hand: impl FnMut(Place<'_>, Command<'_>) -> Result<H, Unhandled> + Send + 'static,
    ) -> Result<Self, Fault> {
        Self::go_on(settings, reading, &Past::default(), hand)
    }

    /// The same behind readers that were stopped, and what they handed over.
    ///
    /// # Errors
    /// As above.
    pub fn go_on<H: Into<Handed> + 'static>(
        settings: &Settings,
        reading: Reading,
        past: &Past,
        hand: impl FnMut(Place<'_>, Command<'_>) -> Result<H, Unhandled> + Send + 'static,
    ) -> Result<Self, Fault> {
        if reading.topics.is_empty() || reading.group.is_empty() {
            let text = "cannot read commands from Kafka: name a group and at least one topic";
            return Err(Fault::new(Kind::Settings, text));
        }
        let shared = Arc::new(Shared {
            watch: Watch::new(settings.failures()),
            under_way: UnderWay::behind(past.clone()),
            ..Shared::default()
        });
        let config = config(settings, &reading.group);
        let letters = Letters::new(settings, reading.dead_letters.as_deref())?;
        let consumer = consumer(&config, &reading, &shared)?;
        let desk = Desk {
            shared: Arc::clone(&shared),
            letters,
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
        self.shared.books.figures(self.shared.watch.lag())
    }

    /// Finishes the records at hand, commits, leaves the group. Blocks for that time. `false`: the last may be read again.
    pub fn stop(mut self) -> bool {
        self.shared.stops.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // It catches its panics.
            let _ = thread.join();
        }
        !self.shared.in_doubt.load(Ordering::Acquire)
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

fn run<F, H>(config: &ClientConfig, mut current: BaseConsumer<Context>, mut desk: Desk<F>)
where
    F: FnMut(Place<'_>, Command<'_>) -> Result<H, Unhandled>,
    H: Into<Handed>,
{
    loop {
        read(&current, &mut desk);
        let is_whole = desk.shared.settle_all(&current);
        let is_safe =
            is_whole && desk.shared.stops() && is_committed(&current, &desk.shared.under_way);
        // It leaves the group, and commits what was carried out.
        drop(current);
        desk.shared.under_way.begin_again();
        current = loop {
            if desk.shared.stops() {
                desk.shared.in_doubt.store(!is_safe, Ordering::Release);
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

/// Waits for the broker to have the offsets of all that was carried out, also by readers before this one.
fn is_committed(consumer: &BaseConsumer<Context>, under_way: &UnderWay) -> bool {
    let committed = consumer.commit_consumer_state(CommitMode::Sync);
    let none = |error: &KafkaError| error.rdkafka_error_code() == Some(RDKafkaErrorCode::NoOffset);
    if !committed.as_ref().map_or_else(none, |()| true) {
        return false;
    }
    let furthest = under_way.furthest();
    if furthest.is_empty() {
        return true;
    }
    let mut asked = TopicPartitionList::new();
    for of in &furthest {
        asked.add_partition(&of.topic, of.partition);
    }
    let Ok(committed) = consumer.committed_offsets(asked, COMMITTED_TIME) else {
        return false;
    };
    furthest.iter().all(|of| {
        let found = committed.find_partition(&of.topic, of.partition);
        let at = found.and_then(|found| match found.offset() {
            Offset::Offset(at) => Some(at),
            _ => None,
        });
        at.is_some_and(|at| at >= of.next) || of.at.elapsed() > COMMITS
    })
}

/// Until it stops, the client has failed for good, or a command was not carried out: then another client reads it again.
fn read<F, H>(consumer: &BaseConsumer<Context>, desk: &mut Desk<F>)
where
    F: FnMut(Place<'_>, Command<'_>) -> Result<H, Unhandled>,
    H: Into<Handed>,
{
    while !desk.shared.stops() {
        // What is here already is handed over before anybody waits for what was.
        let patience = match desk.shared.under_way.is_empty() {
            true => POLL,
            false => Duration::ZERO,
        };
        match consumer.poll(patience) {
            None => {}
            Some(Ok(message)) => {
                if !desk.take(&message, consumer) {
                    return;
                }
                if !desk.shared.under_way.is_full() {
                    continue;
                }
            }
            Some(Err(error @ KafkaError::MessageConsumptionFatal(_))) => {
                tracing::error!(%error, "the consumer of Kafka has failed: it is made again");
                return;
            }
            Some(Err(error)) => desk.shared.watch.trouble(error),
        }
        if !desk.shared.settle(consumer) {
            return;
        }
    }
}

struct Desk<F> {
    shared: Arc<Shared>,
    letters: Letters,
    lines: Lines,
    reading: Reading,
    hand: F,
}

impl<F, H> Desk<F>
where
    F: FnMut(Place<'_>, Command<'_>) -> Result<H, Unhandled>,
    H: Into<Handed>,
{
    /// Hands a record over or buries it, however long that takes; `false`: neither, since it stops, or since one before it was not carried
    /// out.
    fn take(&mut self, message: &BorrowedMessage<'_>, consumer: &BaseConsumer<Context>) -> bool {
        let place = Place {
            topic: message.topic(),
            partition: message.partition(),
            offset: message.offset(),
            time_ms: message.timestamp().to_millis().unwrap_or_default(),
        };
        let bytes = message.payload().map_or(0, <[u8]>::len);
        let shared = Arc::clone(&self.shared);
        let add = |step| shared.under_way.add(place, step, bytes);
        if shared.under_way.has(place) {
            shared.books.repeated.fetch_add(1, Ordering::Relaxed);
            add(Step::LeftOut);
            return true;
        }
        loop {
            // A header's name that is not UTF-8 makes the library panic; whatever else panics must not end the thread either.
            let handed = catch_unwind(AssertUnwindSafe(|| {
                self.hand_over(message, place, consumer)
            }));
            let handed = handed.unwrap_or_else(|_| {
                let text = "it cannot be read: is the name of each header UTF-8?";
                Err(Unhandled::Flaw(text.to_owned()))
            });
            match handed {
                Ok(Handed::Done) => {
                    add(Step::Handed(Handed::Done));
                    return shared.settle(consumer);
                }
                Ok(handed) => {
                    add(Step::Handed(handed));
                    return true;
                }
                // Both may take a while: the offsets of those before it do not wait for that.
                Err(_) if !shared.settle(consumer) => return false,
                Err(Unhandled::Flaw(text)) => {
                    let is_buried = self.bury(message, place, &Flaw::new(text));
                    if is_buried {
                        add(Step::LeftOut);
                    }
                    return is_buried;
                }
                Err(Unhandled::Later) if shared.stops() => return false,
                // It stays in its group: one that leaves and comes back makes the others share anew each time.
                Err(Unhandled::Later) => thread::sleep(PAUSE),
            }
        }
    }

    fn hand_over(
        &mut self,
        message: &BorrowedMessage<'_>,
        place: Place<'_>,
        consumer: &BaseConsumer<Context>,
    ) -> Result<Handed, Unhandled> {
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
        let command = command.map_err(|flaw| flaw.to_string())?;
        let under_way = &self.shared.under_way;
        let namespace = command.of.namespace.as_str();
        if under_way.is_elsewhere(namespace) && !self.shared.settle(consumer) {
            return Err(Unhandled::Later);
        }
        under_way.be_in(namespace);
        (self.hand)(place, command).map(H::into)
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
        let failures = &self.shared.watch.failures;
        failures.note_said("no command", &flaw.to_string(), || {
            let (partition, offset) = (place.partition, place.offset);
            let names = format!("{}, partition {partition}, offset {offset}", place.topic);
            let body = message.payload().unwrap_or_default();
            vec![Said::new("record", &names, body)]
        });
        while !self.shared.stops() {
            let count = match self.letters.write(message, place, flaw) {
                Letter::Written => &self.shared.books.dead,
                Letter::Lost => &self.shared.books.lost,
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
