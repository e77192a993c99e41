//! What clients do, as records.

use super::{broker, comes, config, header, key, read, text};
use crate::harness::Gateway;
use crate::harness::token::token_with;
use ::client::full::{Encoding, Plain, SocketIo, bytes};
use rdkafka::message::{Message, OwnedMessage};
use serde_json::json;
use std::collections::HashMap;

const BESIDE: &str = "kafka_beside";

/// `/` with lives, and rules that write beside what they do.
fn rules() -> String {
    let table = "[namespaces.\"/\".events";
    format!(
        "{table}.join]\nkafka = true\n{table}.leave]\nkafka = true\n\
         {table}.{BESIDE}]\naction = \"reply\"\nkafka = true\n{table}.not]\naction = \"reply\"\n"
    )
}

fn start(brokers: &str, out: &str) -> Gateway {
    let text = config(brokers, out, &rules());
    Gateway::start(&text.replace(
        "client_joins = true",
        "client_joins = true\nkafka_lifecycle = true",
    ))
}

fn row(message: &OwnedMessage) -> [String; 4] {
    ["X-Event", "X-Inner", "X-Guid"]
        .map(|name| header(message, name).unwrap_or_default())
        .into_iter()
        .chain([text(message)])
        .collect::<Vec<_>>()
        .try_into()
        .expect("four")
}

#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn a_life_is_a_row_of_records_with_headers() {
    let kafka = broker(4);
    let out = "key = \"user\"\nroom = \"doc-*\"\noperator = \"unicast\"\nack = \"kafka\"";
    let node = start(&kafka.brokers(), out);
    let mut ada = comes(&node, "ada");
    let id = ada.id.clone();
    assert_eq!(ada.ask("join", &[json!("doc-1")]), [json!(["doc-1"])]);
    // Nothing changes, and nothing is written.
    ada.ask("join", &[json!("doc-1")]);
    ada.ask("join", &[json!("hall")]);
    assert!(ada.ask("order", &[json!({"n": 1.50})]).is_empty());
    // A document that she is not in, and a name that is none.
    for (doc, why) in [
        (json!("doc-2"), "Not in that room"),
        (json!(7), "Room must be a string"),
    ] {
        let refused = ada.ask("order", &[json!({ "doc": doc })]);
        assert_eq!(refused[0]["error"], why);
    }
    ada.ask("join", &[json!("doc-2")]);
    assert!(
        ada.ask("order", &[json!({"doc": "doc-2", "ä": "\u{1F600}"})])
            .is_empty()
    );
    ada.ask("leave", &[json!("doc-2")]);
    ada.ask(BESIDE, &[json!(7)]);
    ada.ask("not", &[]);
    assert!(
        ada.ask("order", &[bytes(b"\x00\xff"), bytes(b"abc")])
            .is_empty()
    );
    ada.ask("leave", &[json!("doc-1")]);
    ada.leave_namespace();
    let records = read(&kafka, "events", 11);
    let rows: Vec<[String; 4]> = records.iter().map(row).collect();
    let binary = "[\"order\",{\"_placeholder\":true,\"num\":0},{\"_placeholder\":true,\"num\":1}]";
    let expected = [
        ["Connect", "", "", "[\"connect\"]"],
        ["Message", "join", "doc-1", "[\"join\",\"doc-1\"]"],
        ["Message", "join", "hall", "[\"join\",\"hall\"]"],
        ["Message", "", "doc-1", "[\"order\",{\"n\":1.5}]"],
        ["Message", "join", "doc-2", "[\"join\",\"doc-2\"]"],
        [
            "Message",
            "",
            "doc-2",
            "[\"order\",{\"doc\":\"doc-2\",\"ä\":\"\u{1F600}\"}]",
        ],
        ["Message", "leave", "doc-2", "[\"leave\",\"doc-2\"]"],
        ["Message", "", "doc-1", "[\"kafka_beside\",7]"],
        ["Message", "", "doc-1", ""],
        ["Message", "leave", "doc-1", "[\"leave\",\"doc-1\"]"],
        [
            "Disconnect",
            "",
            "",
            "[\"disconnect\",\"client namespace disconnect\"]",
        ],
    ];
    for (at, (row, expected)) in rows.iter().zip(expected).enumerate() {
        if at == 8 {
            assert_eq!(row[..3], expected[..3]);
            let value = records[at].payload().expect("a value");
            assert_eq!(value, [binary.as_bytes(), b"\x00\xffabc"].concat());
            let sizes = header(&records[at], "X-Sockeye-Attachments");
            assert_eq!(sizes.as_deref(), Some("2,3"));
        } else {
            assert_eq!(row, &expected.map(str::to_owned), "{at}");
        }
    }
    assert_eq!(rows.len(), expected.len());
    for (at, record) in records.iter().enumerate() {
        let is = |name: &str| header(record, name).unwrap_or_default();
        let said = [
            "X-ID",
            "X-Uid",
            "X-Operator",
            "X-Auth-Type",
            "X-Sockeye-Namespace",
        ]
        .map(is);
        assert_eq!(said, [&id, "ada", "unicast", "token", "/"]);
        assert_eq!(is("X-Sockeye-Sequence"), (at + 1).to_string());
        assert_eq!(is("X-Sockeye-Encoding"), "json");
        assert_eq!(key(record), "ada");
        assert_eq!(record.partition(), records[0].partition());
    }
    let produced = "sockeye_kafka_events_total{outcome=\"produced\"}";
    assert!(node.reaches(produced, 11.0) >= 11.0);
}

/// A room beside the payload needs no `room_field`: only one that the client is in stands in its records.
#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn a_plain_client_names_only_documents_that_it_is_in() {
    let kafka = broker(1);
    let node = start(&kafka.brokers(), "room = \"doc-*\"\nack = \"kafka\"");
    let mut client = Plain::connect(node.addr, Encoding::Json);
    let order = json!({"type": "order", "payload": 1, "room": "doc-9"});
    client.send(&order);
    assert_eq!(client.receive()["error"], "NOT_IN_ROOM");
    client.ask(json!({"type": BESIDE, "payload": 7, "room": "doc-9"}));
    client.join("doc-9");
    client.ask(order);
    let records = read(&kafka, "events", 4);
    let rooms: Vec<String> = records
        .iter()
        .map(|record| row(record)[2].clone())
        .collect();
    assert_eq!(rooms, ["", "", "doc-9", "doc-9"]);
}

/// Users of one company share a key; who has no company has the socket.
#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn a_claim_can_be_the_key() {
    let kafka = broker(4);
    let out = "key = \"claim\"\nclaim = \"/org/id\"";
    let node = Gateway::start(&config(&kafka.brokers(), out, ""));
    let mut keys = Vec::new();
    for (user, claim) in [
        ("ada", "org={\"id\":\"acme\"}"),
        ("bob", "org={\"id\":7}"),
        ("cat", "x=1"),
    ] {
        let auth = json!({"token": token_with(&["--uid", user, "--claim", claim])});
        let mut client = SocketIo::websocket(node.addr, "/", auth);
        client.ask("order", &[]);
        keys.push(client.id.clone());
    }
    keys[0] = "acme".to_owned();
    keys[1] = "7".to_owned();
    let mut read: Vec<String> = read(&kafka, "events", 3).iter().map(key).collect();
    keys.sort_unstable();
    read.sort_unstable();
    assert_eq!(read, keys);
}

#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn events_of_a_socket_keep_their_order() {
    const EACH: u64 = 200;
    let kafka = broker(4);
    let node = Gateway::start(&config(&kafka.brokers(), "key = \"socket\"", ""));
    let mut clients: Vec<_> = (0..8).map(|_| comes(&node, "")).collect();
    for n in 0..EACH {
        for client in &mut clients {
            client.emit("order", &[json!(n)]);
        }
    }
    let records = read(&kafka, "events", 8 * EACH as usize);
    let mut of: HashMap<String, Vec<&OwnedMessage>> = HashMap::new();
    for record in &records {
        of.entry(key(record)).or_default().push(record);
    }
    for client in &clients {
        let own = &of[&client.id];
        let bodies: Vec<String> = own.iter().map(|record| text(record)).collect();
        let expected: Vec<String> = (0..EACH).map(|n| format!("[\"order\",{n}]")).collect();
        assert_eq!(bodies, expected);
        assert!(
            own.iter()
                .all(|record| record.partition() == own[0].partition())
        );
        assert_eq!(header(own[0], "X-Auth-Type").as_deref(), Some("none"));
        assert_eq!(header(own[0], "X-Uid"), None);
    }
    assert_eq!(records.len(), 8 * EACH as usize);
}
