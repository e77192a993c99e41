//! A program with kafkajs, as docs/kafka.md has it.

use crate::{event, limits, make_topics, reading, runtime, settings};
use kafka::{Action, Command, Inlet, Outlet, Place, Unhandled};
use servers::{Kafka, NodeProgram};
use std::collections::HashMap;
use std::sync::mpsc;
use std::time::{Duration, Instant};

const EVENTS: usize = 300;
const USERS: usize = 7;

#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn a_node_program_answers_each_event_in_the_order_of_its_user() {
    let kafka = Kafka::start();
    make_topics(&kafka, &["events", "commands", "dead"], 4);
    let _program = NodeProgram::start("kafka", "answer.mjs", &[&kafka.brokers()]);
    let (sender, answers) = mpsc::channel();
    let hand = move |place: Place<'_>, command: Command<'_>| {
        let Action::Emit { body, .. } = command.action else {
            return Err("not expected".to_owned().into());
        };
        assert_eq!(command.of.sockets, ["socket"]);
        let body = String::from_utf8_lossy(body).into_owned();
        let answer = (place.partition, body);
        sender.send(answer).map_err(|_| Unhandled::Later)
    };
    let inlet = Inlet::start(&settings(&kafka), reading(&["commands"]), hand).expect("it reads");
    let outlet = Outlet::new(&settings(&kafka), "events", limits(servers::PATIENCE));
    let outlet = outlet.expect("an outlet");
    let send = |n: usize| {
        let body = format!("[\"say\",\"ä\",{},{n}]", n % USERS);
        let user = format!("user-{}", n % USERS);
        let sent = outlet.send(&event(&user, body.as_bytes()));
        sent.expect("there is room")
    };
    let deliveries: Vec<_> = (0..EVENTS).map(send).collect();
    let runtime = runtime();
    let partitions: Vec<i32> = deliveries
        .into_iter()
        .map(|delivery| {
            let written = runtime.block_on(delivery.answer());
            written.expect("Kafka has it").partition
        })
        .collect();
    let deadline = Instant::now() + servers::PATIENCE;
    let mut of: HashMap<String, Vec<usize>> = HashMap::new();
    for _ in 0..EVENTS {
        let left = deadline.saturating_duration_since(Instant::now());
        let (partition, answer) = answers.recv_timeout(left).expect("an answer to each");
        let numbers = answer.strip_prefix("[\"answer\",\"say\",\"ä\",");
        let numbers = numbers.and_then(|rest| rest.strip_suffix("]"));
        let (user, n) = numbers
            .and_then(|numbers| numbers.split_once(','))
            .expect("the event's own arguments");
        let n: usize = n.parse().expect("a number");
        // Both topics have four: kafkajs and librdkafka agree about the key.
        assert_eq!(partition, partitions[n], "event {n}");
        of.entry(user.to_owned()).or_default().push(n);
    }
    // None twice.
    assert!(answers.recv_timeout(Duration::from_secs(1)).is_err());
    assert_eq!(of.len(), USERS);
    for (user, numbers) in of {
        let first: usize = user.parse().expect("a number");
        let expected: Vec<usize> = (first..EVENTS).step_by(USERS).collect();
        assert_eq!(numbers, expected, "user {user}");
    }
    inlet.stop();
}

#[test]
fn the_page_shows_the_program_that_is_tested() {
    let page = include_str!("../../../../docs/kafka.md");
    let program = include_str!("../../../../conformance/kafka/answer.mjs");
    assert!(page.contains(program));
}
