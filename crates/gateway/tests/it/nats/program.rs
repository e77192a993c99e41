//! A program with a client of NATS in another language, between clients of the real gateway: the one of docs/nats.md.

use super::{Program, STREAM, comes, config};
use crate::harness::Gateway;
use serde_json::json;
use servers::{Nats, NodeProgram};

#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn a_program_in_node_answers_each_client_in_order() {
    const EVENTS: u64 = 100;
    let nats = Nats::start();
    drop(Program::with_streams(&nats));
    let inlet = format!("{STREAM}\npending_max = 1");
    let node = Gateway::start(&config(&nats.url(), "key = \"socket\"", &inlet, ""));
    let _program = NodeProgram::start("nats", "answer.mjs", &[&nats.url()]);
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
