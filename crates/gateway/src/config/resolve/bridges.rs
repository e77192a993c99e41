//! What the tables of all bridges have in common.

use super::Resolver;
use crate::config::keys::Operator;
use crate::config::typed::{Bytes, Field, Typed};
use crate::config::value::Value;
use control::bridge::{Key, Reads, Writes};
use rules::Rules;
use std::time::Duration;

/// Keys of `[BUS.out]`.
pub(super) struct WriteKeys<'k> {
    pub(super) key: &'k Field<Key>,
    pub(super) room: &'k Field<Option<String>>,
    pub(super) operator: &'k Field<Option<Operator>>,
    /// The ack of a client waits for the bus.
    pub(super) waits: bool,
    pub(super) waiting_max: &'k Field<Bytes>,
    pub(super) record_max: &'k Field<Bytes>,
    pub(super) time: &'k Field<Duration>,
    /// Bounds of the time, as numbers and in words.
    pub(super) times: (Duration, Duration, &'static str),
}

/// Keys of a table `[BUS.in.NAME]`.
pub(super) struct ReadKeys<'k> {
    pub(super) group: &'k Field<String>,
    pub(super) namespaces: &'k Field<Vec<String>>,
    pub(super) operators: &'k Field<Vec<String>>,
    pub(super) dead_letters: &'k Field<Option<String>>,
    pub(super) value_max: &'k Field<Bytes>,
}

impl Resolver<'_> {
    /// `bus`: the first word of its keys.
    pub(super) fn bus_writes(&mut self, bus: &str, keys: &WriteKeys<'_>) -> Writes {
        let (shortest, longest, words) = keys.times;
        if !(shortest..=longest).contains(&**keys.time) {
            self.problem(keys.time, format!("must be {words}"));
        }
        let (record, waiting) = (keys.record_max.get(), keys.waiting_max.get());
        if waiting < record.saturating_add(1_024) {
            let message = format!(
                "must be 1KiB more than {bus}.out.record_max: the largest one would never be taken"
            );
            self.problem(keys.waiting_max, message);
        }
        Writes {
            key: **keys.key,
            room: (**keys.room).clone(),
            operator: keys.operator.map(|operator| operator.0.to_owned()),
            waits: keys.waits,
            // The other half is for tokens and all else that shards ask about.
            acks_max: self.settings.limits.asks_outstanding_max.div_ceil(2),
            waiting_bytes_max: waiting,
            record_bytes_max: record,
            time: **keys.time,
        }
    }

    pub(super) fn bus_reads(&mut self, keys: &ReadKeys<'_>, rules: &Rules) -> Reads {
        if keys.group.is_empty() {
            self.problem(keys.group, "a group has a name");
        }
        self.check_operators(keys.operators);
        self.check_namespaces(keys.namespaces, rules);
        Reads {
            group: (**keys.group).clone(),
            namespaces: keys.namespaces.to_vec(),
            operators: keys.operators.to_vec(),
            dead_letters: (**keys.dead_letters).clone(),
            value_bytes_max: keys.value_max.get(),
        }
    }

    /// What programs may ask for.
    fn check_operators(&mut self, operators: &Field<Vec<String>>) {
        if operators.is_empty() {
            let message =
                "the records may ask for nothing: name operators, such as [\"unicast\", \"room\"]";
            self.problem(operators, message);
        }
        for word in operators.iter() {
            let text = Value::Text(word.clone());
            if Operator::of(&text).is_none() {
                let message = format!(
                    "there is no operator {word:?}: known are unicast, user, room, broadcast, internal"
                );
                self.problem(operators, message);
            }
        }
    }

    /// And where.
    fn check_namespaces(&mut self, namespaces: &Field<Vec<String>>, rules: &Rules) {
        let open = rules.namespaces.contains_key("*");
        for namespace in namespaces.iter() {
            if namespace == "*" {
                let message = "a right is one to a namespace: name each, such as \"/\"";
                self.problem(namespaces, message);
            } else if !open && !rules.namespaces.contains_key(namespace) {
                let message = format!(
                    "no client can be in {namespace:?}: add a table [namespaces.{namespace:?}], or leave it out"
                );
                self.problem(namespaces, message);
            }
        }
    }
}
