//! The bridge to Kafka on the real binary with a real broker: what clients do comes out, what programs write goes in, and what clients
//! notice while a broker or a gateway fails.

mod flood;
mod group;
mod inwards;
mod leaders;
mod outwards;
mod program;
mod troubles;
mod upgrades;

use crate::harness::token::{SECRET, token};
use crate::harness::{Gateway, PATIENCE, eventually};
use ::client::full::SocketIo;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, Headers, Message, OwnedHeaders, OwnedMessage};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};
use serde_json::json;
use servers::Kafka;
use std::time::{Duration, Instant};

/// Clients lose their patience when nothing comes, and brokers need longer than that to agree on a leader where the machine is busy: pings tell them
/// that the gateway is there. Events go to `events`, commands of all operators come from `commands`, letters to `dead`.
fn config(brokers: &str, out: &str, more: &str) -> String {
    let brokers: Vec<&str> = brokers.split(',').collect();
    format!(
        "profile = \"socket.io\"\n[socketio]\nping_interval = \"5s\"\nping_timeout = \"60s\"\n[server]\nshards = 2\n[auth]\nsecret = \"{SECRET}\"\nrequired = false\n\
         [kafka]\nbrokers = {brokers:?}\nproperties = [\"session.timeout.ms=2000\", \"heartbeat.interval.ms=500\"]\n\
         [kafka.out]\ntopic = \"events\"\n{out}\n\
         [kafka.in.programs]\ntopics = [\"commands\"]\ndead_letters = \"dead\"\n\
         operators = [\"unicast\", \"user\", \"room\", \"broadcast\", \"internal\"]\n\
         [namespaces.\"/\"]\nclient_joins = true\n\
         [namespaces.\"/\".events.order]\naction = \"kafka\"\nroom_field = \"doc\"\n{more}\n"
    )
}

/// One broker, or several that are one cluster.
trait Brokers {
    /// Of a record.
    const COPIES: i32;

    fn addrs(&self) -> String;
}

impl Brokers for Kafka {
    const COPIES: i32 = 1;

    fn addrs(&self) -> String {
        self.brokers()
    }
}

impl Brokers for [Kafka; 3] {
    const COPIES: i32 = 3;

    fn addrs(&self) -> String {
        self.each_ref().map(Kafka::brokers).join(",")
    }
}

/// With its three topics.
fn broker(partitions: i32) -> Kafka {
    let kafka = Kafka::start();
    make_topics(&kafka, partitions);
    kafka
}

fn make_topics<K: Brokers>(kafka: &K, partitions: i32) {
    let admin: AdminClient<DefaultClientContext> = client(kafka).create().expect("a client");
    let names = ["events", "commands", "dead"];
    let copies = || TopicReplication::Fixed(K::COPIES);
    let topics = names.map(|name| NewTopic::new(name, partitions, copies()));
    let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let made = runtime.block_on(admin.create_topics(&topics, &options));
    for topic in made.expect("an answer") {
        topic.expect("a topic");
    }
}

fn client(kafka: &impl Brokers) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", kafka.addrs());
    config
}

/// Writes records as any program would.
struct Program(BaseProducer);

impl Program {
    fn new(kafka: &impl Brokers) -> Program {
        let mut config = client(kafka);
        // Also acks=all. What it writes to a partition stays in order, whatever happens to brokers.
        config.set("enable.idempotence", "true");
        Program(config.create().expect("a client"))
    }

    fn write(&self, partition: i32, headers: &[(&str, &str)], value: &str) {
        let headers = headers
            .iter()
            .fold(OwnedHeaders::new(), |all, (key, value)| {
                let value = Some(*value);
                all.insert(Header { key, value })
            });
        let record: BaseRecord<'_, [u8], [u8], ()> = BaseRecord::to("commands");
        let record = record.partition(partition).headers(headers);
        let mut record = record.payload(value.as_bytes());
        while let Err((error, back)) = self.0.send(record) {
            // While brokers are away for long, as much as may wait does.
            let full = Some(RDKafkaErrorCode::QueueFull);
            assert_eq!(error.rdkafka_error_code(), full, "{error}");
            self.0.poll(Duration::from_millis(100));
            record = back;
        }
    }

    fn flush(&self) {
        self.0.flush(PATIENCE).expect("all are written");
    }

    /// One command, which Kafka has when this returns.
    fn say(&self, headers: &[(&str, &str)], value: &str) {
        self.write(0, headers, value);
        self.flush();
    }
}

/// The first records of a topic, those of a partition in order; and those that should not be there.
fn read(kafka: &impl Brokers, topic: &str, count: usize) -> Vec<OwnedMessage> {
    let consumer: BaseConsumer = client(kafka)
        .set("group.id", "reader")
        .create()
        .expect("a client");
    let metadata = consumer.fetch_metadata(Some(topic), PATIENCE);
    let metadata = metadata.expect("the topic is there");
    let mut all = TopicPartitionList::new();
    for partition in metadata.topics()[0].partitions() {
        all.add_partition_offset(topic, partition.id(), Offset::Beginning)
            .expect("a partition");
    }
    consumer.assign(&all).expect("it reads");
    let deadline = Instant::now() + PATIENCE;
    let mut found = Vec::new();
    while found.len() < count {
        let (have, late) = (found.len(), Instant::now() >= deadline);
        assert!(!late, "{have} of {count} records of {topic}");
        if let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) {
            found.push(message.detach());
        }
    }
    while let Some(Ok(message)) = consumer.poll(Duration::from_secs(1)) {
        found.push(message.detach());
    }
    found
}

fn header(message: &OwnedMessage, name: &str) -> Option<String> {
    let headers = message.headers()?;
    let found = headers.iter().find(|header| header.key == name)?;
    Some(String::from_utf8_lossy(found.value?).into_owned())
}

fn text(message: &OwnedMessage) -> String {
    String::from_utf8_lossy(message.payload().expect("a value")).into_owned()
}

fn key(message: &OwnedMessage) -> String {
    String::from_utf8_lossy(message.key().expect("a key")).into_owned()
}

/// A socket of a user; with an empty name, of none.
fn comes(node: &Gateway, user: &str) -> SocketIo {
    let auth = match user {
        "" => json!({}),
        user => json!({"token": token(user)}),
    };
    SocketIo::websocket(node.addr, "/", auth)
}

/// Waits until it is so. Brokers take half a minute to agree on another leader where the machine is busy.
fn soon(what: &str, is_so: impl FnMut() -> bool) {
    assert!(eventually(3 * PATIENCE, is_so), "waited in vain: {what}");
}
