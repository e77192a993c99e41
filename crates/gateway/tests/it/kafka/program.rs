//! Programs with clients of Kafka in other languages, between clients of the real gateway.

use super::{broker, comes, config};
use crate::harness::Gateway;
use serde_json::json;
use servers::{GoProgram, Kafka, NodeProgram};

/// A program answers each event to the socket that sent it.
fn each_client_gets_its_answers_in_order<T>(start: impl Fn(&Kafka) -> T) {
    const EVENTS: u64 = 100;
    let kafka = broker(4);
    let node = Gateway::start(&config(&kafka.brokers(), "key = \"socket\"", ""));
    let _program = start(&kafka);
    let mut clients: Vec<_> = (0..4).map(|_| comes(&node, "")).collect();
    for n in 0..EVENTS {
        for client in &mut clients {
            client.emit("order", &[json!({"n": n, "ä": 1.5})]);
        }
    }
    for client in &mut clients {
        for n in 0..EVENTS {
            let said = [json!("order"), json!({"n": n, "ä": 1.5})];
            assert_eq!(client.expect("answer"), said);
        }
    }
}

/// The one of docs/kafka.md.
#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn a_program_in_node_answers_each_client_in_order() {
    each_client_gets_its_answers_in_order(|kafka| {
        NodeProgram::start("kafka", "answer.mjs", &[&kafka.brokers()])
    });
}

#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn a_program_in_go_answers_each_client_in_order() {
    each_client_gets_its_answers_in_order(|kafka| {
        GoProgram::start("kafka/go", &[&kafka.brokers()])
    });
}
