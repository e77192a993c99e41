//! The bridge against a real broker: what comes out, what goes in, and what happens when the broker or a reader fails.

mod inwards;
mod outwards;
mod poison;
mod program;

use kafka::{Encoding, Event, Key, Limits, Moment, Operator, Reading, Settings, Topic};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{Headers, Message, OwnedHeaders, OwnedMessage};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use servers::Kafka;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

const PATIENCE: Duration = servers::PATIENCE;

fn runtime() -> Runtime {
    Runtime::new().expect("a runtime")
}

fn client(kafka: &Kafka) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", kafka.brokers())
        .set("message.max.bytes", "33000000");
    config
}

/// A program that knows nothing of ours.
fn settings(kafka: &Kafka) -> Settings {
    Settings::new(&kafka.brokers(), []).expect("good settings")
}

fn make_topics(kafka: &Kafka, names: &[&str], partitions: i32) {
    let admin: AdminClient<DefaultClientContext> = client(kafka).create().expect("a client");
    let topics: Vec<_> = names
        .iter()
        .map(|name| NewTopic::new(name, partitions, TopicReplication::Fixed(1)))
        .collect();
    let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
    let made = runtime().block_on(admin.create_topics(&topics, &options));
    for topic in made.expect("an answer") {
        topic.expect("a topic");
    }
}

/// Writes records as any program would; each is acknowledged when this returns.
struct Program {
    producer: BaseProducer,
}

impl Program {
    fn new(kafka: &Kafka) -> Program {
        let mut config = client(kafka);
        // kafkajs has no other compression of its own.
        config.set("compression.type", "gzip");
        config.set("enable.idempotence", "true");
        let producer = config.create().expect("a client");
        Program { producer }
    }

    fn write(&self, topic: &str, partition: i32, headers: OwnedHeaders, value: Option<&[u8]>) {
        let mut record: BaseRecord<'_, [u8], [u8], ()> =
            BaseRecord::to(topic).partition(partition).headers(headers);
        record.payload = value;
        self.producer.send(record).expect("it is taken");
    }

    fn flush(&self) {
        self.producer.flush(PATIENCE).expect("all are written");
    }
}

/// The first records of a topic, those of a partition in order.
fn read(kafka: &Kafka, topic: &str, count: usize) -> Vec<OwnedMessage> {
    let consumer: BaseConsumer = client(kafka)
        .set("group.id", "reader")
        .create()
        .expect("a client");
    let metadata = consumer
        .fetch_metadata(Some(topic), PATIENCE)
        .expect("the topic is there");
    let mut all = TopicPartitionList::new();
    for partition in metadata.topics()[0].partitions() {
        all.add_partition_offset(topic, partition.id(), Offset::Beginning)
            .expect("a partition");
    }
    consumer.assign(&all).expect("it reads");
    let deadline = Instant::now() + PATIENCE;
    let mut found = Vec::new();
    while found.len() < count {
        assert!(
            Instant::now() < deadline,
            "{} of {count} records",
            found.len()
        );
        if let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) {
            found.push(message.detach());
        }
    }
    // What should not be there comes as quickly.
    if let Some(Ok(message)) = consumer.poll(Duration::from_secs(1)) {
        found.push(message.detach());
    }
    found
}

/// Names of all topics.
fn topics(kafka: &Kafka) -> Vec<String> {
    let consumer: BaseConsumer = client(kafka).create().expect("a client");
    let metadata = consumer.fetch_metadata(None, PATIENCE);
    let metadata = metadata.expect("the broker answers");
    let names = metadata.topics().iter().map(|topic| topic.name());
    names.map(str::to_owned).collect()
}

fn header(message: &OwnedMessage, name: &str) -> Option<String> {
    let headers = message.headers()?;
    let found = headers.iter().find(|header| header.key == name)?;
    Some(String::from_utf8_lossy(found.value?).into_owned())
}

fn limits(time: Duration) -> Limits {
    Limits {
        waiting_bytes_max: 16 << 20,
        record_bytes_max: 1 << 20,
        time,
    }
}

/// A message of `user` from a socket of its own.
fn event<'a>(user: &'a str, body: &'a [u8]) -> Event<'a> {
    Event {
        moment: Moment::Message,
        socket: "socket",
        user: Some(user),
        room: None,
        inner: None,
        operator: None,
        auth: None,
        trace: None,
        namespace: "/",
        name: Some("say"),
        sequence: None,
        encoding: Encoding::Json,
        attachments: None,
        key: Key::User,
        body,
    }
}

/// All operators in `/`.
fn reading(topics: &[&str]) -> Reading {
    let topics = topics
        .iter()
        .map(|name| Topic::new(name, vec!["/".to_owned()], Operator::ALL.to_vec()).expect("a name"))
        .collect();
    Reading {
        group: "sockeye".to_owned(),
        topics,
        dead_letters: Some("dead".to_owned()),
        value_bytes_max: 1 << 20,
    }
}

fn headers(pairs: &[(&str, &str)]) -> OwnedHeaders {
    pairs
        .iter()
        .fold(OwnedHeaders::new(), |headers, (key, value)| {
            headers.insert(rdkafka::message::Header {
                key,
                value: Some(*value),
            })
        })
}

fn broadcast() -> OwnedHeaders {
    headers(&[("X-Operator", "broadcast")])
}

/// What the group has committed, of all partitions together.
fn committed(kafka: &Kafka, topic: &str, partitions: i32) -> Result<i64, KafkaError> {
    let consumer: BaseConsumer = client(kafka).set("group.id", "sockeye").create()?;
    let mut all = TopicPartitionList::new();
    for partition in 0..partitions {
        all.add_partition(topic, partition);
    }
    let committed = consumer.committed_offsets(all, PATIENCE)?;
    let offsets = committed
        .elements()
        .iter()
        .map(|of| of.offset().to_raw().unwrap_or(0).max(0))
        .sum();
    Ok(offsets)
}
