//! Writes records to one topic: acknowledged by all replicas, each once, in order for each key, within bounds of bytes and time.

use crate::context::Watch;
use crate::settings::Settings;
use crate::topics;
use bridge::{Fault, Kind, Limits, OutBooks, OutFigures, Said};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Message, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, PurgeConfig, ThreadedProducer};
use rdkafka::{ClientContext, Statistics};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;

/// librdkafka's own for a record, and ours.
const OVERHEAD_BYTES: usize = 512;
/// After it gave up records, their waiters are told within this time.
const TELL_TIME: Duration = Duration::from_millis(500);

/// Where Kafka has written a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The partition.
    pub partition: i32,
    /// The offset there.
    pub offset: i64,
}

/// A record that was taken. Kafka's answer may be waited for, or not.
#[derive(Debug)]
pub struct Delivery(oneshot::Receiver<Result<Written, Fault>>);

impl Delivery {
    /// Kafka's answer; it comes within [`Limits::time`] and some moments.
    ///
    /// # Errors
    /// Kafka did not take it in time, or not at all, or the bridge is closed.
    pub async fn answer(self) -> Result<Written, Fault> {
        self.0.await.unwrap_or_else(|_| Err(closed()))
    }

    /// The same for a thread that may wait.
    pub(crate) fn wait(self) -> Result<Written, Fault> {
        self.0.blocking_recv().unwrap_or_else(|_| Err(closed()))
    }
}

fn closed() -> Fault {
    Fault::new(Kind::Closed, "the bridge to Kafka is closed")
}

/// One that is under way.
pub(crate) struct Pending {
    waiter: oneshot::Sender<Result<Written, Fault>>,
    bytes: usize,
}

struct Context {
    limits: Limits,
    watch: Watch,
    closed: AtomicBool,
    broken: AtomicBool,
    books: OutBooks,
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        self.watch.log(level, facility, text);
    }

    fn stats(&self, statistics: Statistics) {
        self.watch.statistics(&statistics);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::Fatal) {
            self.broken.store(true, Ordering::Relaxed);
        }
        self.watch.trouble(format_args!("{error}: {reason}"));
    }
}

impl ProducerContext for Context {
    type DeliveryOpaque = Box<Pending>;

    fn delivery(&self, result: &DeliveryResult<'_>, pending: Box<Pending>) {
        self.books.settle(pending.bytes, result.is_ok());
        let answer = match result {
            Ok(message) => Ok(Written {
                partition: message.partition(),
                offset: message.offset(),
            }),
            Err((error, message)) => {
                let fault = self.fault(error);
                let said = || {
                    let body = message.payload().unwrap_or_default();
                    vec![Said::new("record", message.topic(), body)]
                };
                let failures = &self.watch.failures;
                failures.note_said("not acknowledged", &fault.to_string(), said);
                Err(fault)
            }
        };
        // It may not be waited for.
        let _ = pending.waiter.send(answer);
    }
}

impl Context {
    fn new(limits: Limits, watch: Watch) -> Self {
        Self {
            limits,
            watch,
            closed: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            books: OutBooks::default(),
        }
    }

    /// Room for a record.
    fn reserve(&self, bytes: usize) -> Result<(), Fault> {
        if self.closed.load(Ordering::Acquire) {
            return Err(closed());
        }
        let max = self.limits.waiting_bytes_max;
        self.books.reserve(bytes, max, "Kafka")
    }

    fn fault(&self, error: &KafkaError) -> Fault {
        use RDKafkaErrorCode as Code;
        let Some(code) = error.rdkafka_error_code() else {
            return Fault::new(Kind::Refused, format!("cannot write to Kafka: {error}"));
        };
        match code {
            Code::MessageTimedOut => Fault::new(
                Kind::Away,
                format!(
                    "Kafka did not acknowledge the record within {} ms: it may be stored all the same",
                    self.limits.time.as_millis()
                ),
            ),
            Code::PurgeQueue | Code::PurgeInflight => closed(),
            Code::QueueFull => Fault::new(
                Kind::Full,
                "too many records wait for Kafka: try again later",
            ),
            Code::Fatal => {
                self.broken.store(true, Ordering::Relaxed);
                let text = format!("the client of Kafka has failed for good: {error}");
                Fault::new(Kind::Broken, text)
            }
            Code::UnknownTopic
            | Code::UnknownTopicOrPartition
            | Code::UnknownPartition
            | Code::TopicAuthorizationFailed
            | Code::MessageSizeTooLarge
            | Code::InvalidRecord
            | Code::PolicyViolation => Fault::new(
                Kind::Refused,
                format!("Kafka does not take the record: {code}"),
            ),
            _ => Fault::new(
                Kind::Away,
                format!(
                    "Kafka did not acknowledge the record: {code}: it may be stored all the same"
                ),
            ),
        }
    }
}

/// A record as it goes out.
pub(crate) struct Out<'a> {
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) headers: OwnedHeaders,
    pub(crate) headers_bytes: usize,
    pub(crate) value: Option<&'a [u8]>,
}

/// Of one topic.
pub(crate) struct Writer {
    producer: ThreadedProducer<Context>,
    topic: String,
}

impl Writer {
    /// Brokers may be away: they are looked for in the background.
    pub(crate) fn new(settings: &Settings, topic: &str, limits: Limits) -> Result<Self, Fault> {
        let topic = topics::checked(topic)?.to_owned();
        let message_bytes_max = limits.record_bytes_max.saturating_add(65_536);
        let mut config = settings.client();
        config
            .set("acks", "all")
            .set("enable.idempotence", "true")
            // A name that was mistyped must not become a topic with whatever replicas.
            .set("allow.auto.create.topics", "false")
            // As Java's clients and kafkajs do it: keys of all programs meet.
            .set("partitioner", "murmur2_random")
            .set("message.timeout.ms", limits.time.as_millis().to_string())
            .set("message.max.bytes", message_bytes_max.to_string())
            // Our own bound is the lower one.
            .set("queue.buffering.max.messages", "0")
            .set("queue.buffering.max.kbytes", "2147483647");
        let producer = config
            .create_with_context(Context::new(limits, Watch::new(settings.failures())))
            .map_err(|error| Fault::new(Kind::Settings, format!("cannot use Kafka: {error}")))?;
        Ok(Self { producer, topic })
    }

    /// Takes a record, or says why not. Never waits.
    pub(crate) fn write(&self, out: Out<'_>) -> Result<Delivery, Fault> {
        let context = self.producer.context();
        let taken = self.take(out);
        if taken.is_err() {
            context.books.refuse();
        }
        taken
    }

    fn take(&self, out: Out<'_>) -> Result<Delivery, Fault> {
        let context = self.producer.context();
        let length = |part: Option<&[u8]>| part.map_or(0, <[u8]>::len);
        let bytes = length(out.key) + length(out.value) + out.headers_bytes;
        let max = context.limits.record_bytes_max;
        if bytes > max {
            let text = format!("the record has {bytes} bytes, at most {max} are allowed");
            return Err(Fault::new(Kind::Refused, text));
        }
        let bytes = bytes + OVERHEAD_BYTES;
        context.reserve(bytes)?;
        let (waiter, answer) = oneshot::channel();
        let pending = Box::new(Pending { waiter, bytes });
        let mut record: BaseRecord<'_, [u8], [u8], _> =
            BaseRecord::with_opaque_to(&self.topic, pending).headers(out.headers);
        record.key = out.key;
        record.payload = out.value;
        match self.producer.send(record) {
            Ok(()) => Ok(Delivery(answer)),
            Err((error, _)) => {
                context.books.release(bytes);
                Err(context.fault(&error))
            }
        }
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.producer.context().broken.load(Ordering::Relaxed)
    }

    pub(crate) fn figures(&self) -> OutFigures {
        let context = self.producer.context();
        OutFigures {
            retried: context.watch.retried(),
            ..context.books.figures()
        }
    }

    /// Takes nothing more and waits, so long at most; then gives up what is left, and says how much that is. Blocks.
    pub(crate) fn close(&self, within: Duration) -> u64 {
        let context = self.producer.context();
        context.closed.store(true, Ordering::Release);
        // What is left when the time is over is counted below.
        let _ = self.producer.flush(within);
        let left = context.books.waiting();
        if left > 0 {
            self.producer
                .purge(PurgeConfig::default().queue().inflight());
            let _ = self.producer.flush(TELL_TIME);
        }
        left
    }
}
