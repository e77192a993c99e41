//! What each table of `[kafka]` may have, and all of them together may not.

use super::Resolver;
use crate::config::keys::{KAFKA_INS, KafkaIn};
use crate::config::rules::names_below;
use control::kafka::Settings;

/// What librdkafka waits for its next poll; no session may be longer.
const POLL_MS: f64 = 300_000.0;
/// Ours for a dead letter.
const LETTER_MS: f64 = 10_000.0;
/// Ours in place of librdkafka's (`reconnect.backoff.max.ms`).
const BACKOFF_MAX_MS: f64 = 2_000.0;
/// librdkafka's for a record; no fetch may be smaller.
const FETCH_MIN: f64 = 1_000_000.0;

impl Resolver<'_> {
    /// A topic has one reader, and nobody reads what the gateway itself writes.
    pub(super) fn kafka_topics(&mut self) {
        let (layer, out) = (self.layer, &self.settings.kafka_out.topic);
        let out = out.as_deref();
        let names = names_below(layer, &KAFKA_INS).into_iter();
        let tables: Vec<(&str, KafkaIn)> =
            names.map(|name| (name, KafkaIn::of(layer, name))).collect();
        let reader = |of: &[(&str, KafkaIn)], topic: &str| {
            let reads = |keys: &KafkaIn| keys.topics.iter().any(|own| own == topic);
            let found = of.iter().find(|(_, keys)| reads(keys));
            found.map(|(name, _)| (*name).to_owned())
        };
        for (at, (_, keys)) in tables.iter().enumerate() {
            for topic in keys.topics.iter() {
                if let Some(other) = reader(&tables[..at], topic) {
                    let message = format!(
                        "{topic:?} is read by kafka.in.{other} already: chance would decide whose rights hold; give it to one of both"
                    );
                    self.problem(&keys.topics, message);
                }
                if out == Some(topic.as_str()) {
                    let message = format!(
                        "{topic:?} is kafka.out.topic: what clients say would be carried out; use another topic"
                    );
                    self.problem(&keys.topics, message);
                }
            }
            let Some(dead) = keys.dead_letters.as_deref() else {
                continue;
            };
            if let Some(other) = reader(&tables, dead) {
                let message = format!(
                    "{dead:?} is read by kafka.in.{other}: its letters would come back for ever; use another topic"
                );
                self.problem(&keys.dead_letters, message);
            }
            if out == Some(dead) {
                let message = format!(
                    "{dead:?} is kafka.out.topic: programs would take letters for events of clients; use another topic"
                );
                self.problem(&keys.dead_letters, message);
            }
        }
    }

    /// Pairs that librdkafka compares when a client is made: too late for `sockeye doctor`.
    pub(super) fn kafka_pairs(&mut self, settings: &Settings) {
        let given = |name: &str| {
            // The last one holds.
            let mut all = settings.properties.iter().rev();
            let value = all.find(|(own, _)| own == name).map(|(_, value)| value)?;
            value.parse::<f64>().ok()
        };
        let over = |name: &str, max: f64| given(name).is_some_and(|value| value > max);
        let reads = !settings.inlets.is_empty();
        let letters = settings
            .inlets
            .iter()
            .any(|of| of.reads.dead_letters.is_some());
        let time = settings
            .out
            .as_ref()
            .map(|out| out.writes.time.as_secs_f64() * 1e3);
        let times = [time, letters.then_some(LETTER_MS)];
        let lingers = given("linger.ms").unwrap_or_default();
        let backoff_max = given("reconnect.backoff.max.ms").unwrap_or(BACKOFF_MAX_MS);
        let mut wrong = Vec::new();
        if times.into_iter().flatten().any(|time| lingers >= time) {
            wrong.push(
                "linger.ms must be shorter than kafka.out.time, and than the 10 s of a dead letter",
            );
        }
        if reads && over("session.timeout.ms", POLL_MS) {
            wrong.push("session.timeout.ms must be at most 300000");
        }
        if over("reconnect.backoff.ms", backoff_max) {
            wrong.push(
                "reconnect.backoff.ms must be at most reconnect.backoff.max.ms (2000 unless set)",
            );
        }
        if reads && given("fetch.max.bytes").is_some_and(|bytes| bytes < FETCH_MIN) {
            wrong.push("fetch.max.bytes must be at least 1000000");
        }
        for message in wrong {
            self.problem(&self.settings.kafka.properties, message);
        }
    }
}
