//! `[kafka]`, for the control plane: brokers, the topic of events, topics with commands.

use super::Resolver;
use super::bridges::{ReadKeys, WriteKeys};
use crate::config::keys::{KAFKA_INS, KafkaAck, KafkaIn};
use crate::config::rules::{bus_user, names_below};
use crate::config::typed::Field;
use control::bridge::Key;
use control::kafka::{In, MISSING, Out, Settings, check};
use rules::Rules;
use rules::bridge::Bus;
use std::time::Duration;

/// librdkafka takes no shorter one.
const TIME_MIN: Duration = Duration::from_millis(100);
/// And no longer one.
const TIME_MAX: Duration = Duration::from_secs(24 * 3_600);

impl Resolver<'_> {
    /// `None`: there is no bridge.
    pub(super) fn kafka(&mut self, rules: &Rules) -> Option<Settings> {
        let brokers = &self.settings.kafka.brokers;
        if brokers.is_empty() {
            self.kafka_without_brokers();
            return None;
        }
        if !self.machine.has_kafka {
            self.problem(brokers, MISSING);
            return None;
        }
        for broker in brokers.iter().filter(|broker| !is_broker(broker)) {
            let message = format!("cannot use the broker {broker:?}: HOST:PORT is needed");
            self.problem(brokers, message);
        }
        let before = self.problems.len();
        let properties = self.kafka_properties();
        let out = self.kafka_out();
        let names = names_below(self.layer, &KAFKA_INS).into_iter();
        let inlets = names.map(|name| self.kafka_in(name, rules)).collect();
        let settings = Settings {
            brokers: brokers.to_vec(),
            properties,
            out,
            inlets,
        };
        if settings.out.is_none() && settings.inlets.is_empty() {
            let message =
                "nothing uses the brokers: set kafka.out.topic, or add a table [kafka.in.NAME]";
            self.problem(brokers, message);
        }
        self.kafka_topics();
        if self.problems.len() == before {
            self.kafka_pairs(&settings);
        }
        if self.problems.len() == before
            && let Err(why) = check(&settings)
        {
            self.problem(&self.settings.kafka.properties, why);
        }
        Some(settings)
    }

    /// What needs them is a mistake then.
    fn kafka_without_brokers(&mut self) {
        let message = "there are no brokers: set kafka.brokers = [\"HOST:PORT\"]";
        let topic = &self.settings.kafka_out.topic;
        if topic.is_some() {
            self.problem(topic, message);
        }
        for name in names_below(self.layer, &KAFKA_INS) {
            let keys = KafkaIn::of(self.layer, name);
            self.problem(&keys.topics, message);
        }
        if let Some(place) = bus_user(self.layer, Bus::Kafka) {
            self.problem_at(&place, message);
        }
    }

    fn kafka_properties(&mut self) -> Vec<(String, String)> {
        let key = &self.settings.kafka.properties;
        let mut properties = Vec::new();
        for text in key.iter() {
            match text.split_once('=') {
                Some((name, value)) => {
                    properties.push((name.trim().to_owned(), value.trim().to_owned()));
                }
                None => {
                    let message = format!(
                        "cannot read the property {text:?}: it is \"name=value\", such as \"linger.ms=20\""
                    );
                    self.problem(key, message);
                }
            }
        }
        properties
    }

    fn kafka_out(&mut self) -> Option<Out> {
        let keys = &self.settings.kafka_out;
        let user = bus_user(self.layer, Bus::Kafka);
        let Some(topic) = (*keys.topic).clone() else {
            if let Some(place) = user {
                self.problem_at(&place, "there is no topic for it: set kafka.out.topic");
            }
            return None;
        };
        if user.is_none() {
            let message = "nothing is written to it: set `action = \"kafka\"` or `kafka = true` in a rule of an event, or `kafka_lifecycle` in a namespace";
            self.problem(&keys.topic, message);
        }
        self.check_topic(&keys.topic, &topic);
        if (*keys.key == Key::Claim) != keys.claim.as_ref().is_some_and(|name| !name.is_empty()) {
            let message = "it belongs to kafka.out.key = \"claim\": set both, or none";
            self.problem(&keys.claim, message);
        }
        let writes = WriteKeys {
            key: &keys.key,
            room: &keys.room,
            operator: &keys.operator,
            waits: *keys.ack == KafkaAck::Kafka,
            waiting_max: &keys.waiting_max,
            record_max: &keys.record_max,
            time: &keys.time,
            times: (TIME_MIN, TIME_MAX, "\"100ms\" to \"24h\""),
        };
        Some(Out {
            topic,
            writes: self.bus_writes("kafka", &writes),
        })
    }

    fn kafka_in(&mut self, name: &str, rules: &Rules) -> In {
        let keys = KafkaIn::of(self.layer, name);
        if keys.topics.is_empty() {
            self.problem(&keys.topics, "name at least one topic");
        }
        for topic in keys.topics.iter().chain(keys.dead_letters.iter()) {
            self.check_topic(&keys.topics, topic);
        }
        let reads = ReadKeys {
            group: &keys.group,
            namespaces: &keys.namespaces,
            operators: &keys.operators,
            dead_letters: &keys.dead_letters,
            value_max: &keys.value_max,
        };
        In {
            topics: keys.topics.to_vec(),
            reads: self.bus_reads(&reads, rules),
        }
    }

    /// In the words of Kafka itself.
    fn check_topic<T>(&mut self, key: &Field<T>, name: &str) {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let named = (1..=249).contains(&name.len()) && name.bytes().all(fits);
        if !named || name == "." || name == ".." {
            let message = format!(
                "cannot use the topic {name:?}: a name has 1 to 249 letters, digits, dots, underscores and hyphens"
            );
            self.problem(key, message);
        }
    }
}

fn is_broker(text: &str) -> bool {
    let parts = text.rsplit_once(':');
    parts.is_some_and(|(host, port)| {
        !host.is_empty() && !host.contains(['/', ',', ' ']) && port.parse::<u16>().is_ok()
    })
}
