//! The document says what the calls do: each of them is made, and its answer is held against the document.

use super::{accepted, call, config, members};
use crate::harness::Gateway;
use ::client::full::request;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn document(gateway: &Gateway) -> Value {
    // Programs that are made from it need no key.
    let answer = request(gateway.admin, "GET", "/v1/openapi.json", "", "");
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, Some("application/json"))
    );
    serde_json::from_str(&answer.body).expect("JSON")
}

/// Holds a value against a schema that may refer to others of the document.
fn hold(document: &Value, mut schema: Value, value: &Value) -> Result<(), String> {
    schema["components"] = document["components"].clone();
    let schema = jsonschema::draft202012::new(&schema).expect("a schema");
    schema
        .validate(value)
        .map_err(|error| format!("{error} at {}", error.instance_path()))
}

#[test]
fn every_operation_answers_as_the_document_says() {
    let gateway = Gateway::start(&config(""));
    let document = document(&gateway);
    assert_eq!(document["openapi"], "3.1.0");
    let client = &members(&gateway, "room", 1)[0];
    let of = json!([client.id]);
    let calls = [
        (
            "post",
            "/v1/emit",
            "/v1/emit".to_owned(),
            json!({"event": "a", "sockets": of, "args": [1, "x"], "volatile": true}),
        ),
        (
            "post",
            "/v1/emit",
            "/v1/emit".to_owned(),
            json!({"event": "a", "rooms": ["none"], "ack": {"timeout_ms": 1}}),
        ),
        (
            "post",
            "/v1/emit",
            "/v1/emit".to_owned(),
            json!({"event": ""}),
        ),
        (
            "post",
            "/v1/join",
            "/v1/join".to_owned(),
            json!({"sockets": of, "join": ["x"]}),
        ),
        (
            "post",
            "/v1/join",
            "/v1/join".to_owned(),
            json!({"join": ["x"]}),
        ),
        (
            "get",
            "/v1/sockets",
            "/v1/sockets?all=true&limit=1".to_owned(),
            Value::Null,
        ),
        (
            "get",
            "/v1/sockets",
            "/v1/sockets?limit=0".to_owned(),
            Value::Null,
        ),
        (
            "get",
            "/v1/rooms",
            "/v1/rooms?prefix=r".to_owned(),
            Value::Null,
        ),
        (
            "get",
            "/v1/rooms/{room}/count",
            "/v1/rooms/room/count".to_owned(),
            Value::Null,
        ),
        (
            "post",
            "/v1/leave",
            "/v1/leave".to_owned(),
            json!({"sockets": of, "leave": ["x"]}),
        ),
        (
            "post",
            "/v1/disconnect",
            "/v1/disconnect".to_owned(),
            json!({"sockets": of, "close": true}),
        ),
        ("get", "/v1/nodes", "/v1/nodes".to_owned(), Value::Null),
        (
            "post",
            "/v1/nodes/{number}/drain",
            "/v1/nodes/999/drain".to_owned(),
            Value::Null,
        ),
        (
            "post",
            "/v1/nodes/{number}/drain",
            "/v1/nodes/0/drain".to_owned(),
            Value::Null,
        ),
        (
            "post",
            "/v1/nodes/rebalance",
            "/v1/nodes/rebalance?rate=5&dry_run=true".to_owned(),
            Value::Null,
        ),
        (
            "post",
            "/v1/nodes/rebalance",
            "/v1/nodes/rebalance".to_owned(),
            Value::Null,
        ),
        (
            "post",
            "/v1/nodes/rebalance",
            "/v1/nodes/rebalance?rate=0".to_owned(),
            Value::Null,
        ),
        (
            "delete",
            "/v1/nodes/rebalance",
            "/v1/nodes/rebalance".to_owned(),
            Value::Null,
        ),
        (
            "get",
            "/v1/node/drain",
            "/v1/node/drain".to_owned(),
            Value::Null,
        ),
        (
            "get",
            "/v1/node/overview",
            "/v1/node/overview?limit=2".to_owned(),
            Value::Null,
        ),
        (
            "get",
            "/v1/node/overview",
            "/v1/node/overview?after=x".to_owned(),
            Value::Null,
        ),
        (
            "get",
            "/v1/node/sessions",
            "/v1/node/sessions?room=room".to_owned(),
            Value::Null,
        ),
        (
            "get",
            "/v1/node/rooms",
            "/v1/node/rooms?contains=oo".to_owned(),
            Value::Null,
        ),
        (
            "get",
            "/v1/node/ends",
            "/v1/node/ends".to_owned(),
            Value::Null,
        ),
        (
            "get",
            "/v1/node/backends",
            "/v1/node/backends".to_owned(),
            Value::Null,
        ),
        (
            "get",
            "/v1/nodes/sessions",
            "/v1/nodes/sessions?limit=3".to_owned(),
            Value::Null,
        ),
        (
            "get",
            "/v1/nodes/rooms",
            "/v1/nodes/rooms?limit=3".to_owned(),
            Value::Null,
        ),
        (
            "get",
            "/v1/nodes/ends",
            "/v1/nodes/ends?limit=3".to_owned(),
            Value::Null,
        ),
        (
            "get",
            "/v1/nodes/links",
            "/v1/nodes/links".to_owned(),
            Value::Null,
        ),
        (
            "get",
            "/v1/node/config",
            "/v1/node/config".to_owned(),
            Value::Null,
        ),
        (
            "get",
            "/v1/node/audit",
            "/v1/node/audit".to_owned(),
            Value::Null,
        ),
        (
            "get",
            "/v1/node/failures",
            "/v1/node/failures?backend=none&reason=x".to_owned(),
            Value::Null,
        ),
        (
            "get",
            "/v1/node/failures",
            "/v1/node/failures?backend=none".to_owned(),
            Value::Null,
        ),
        (
            "get",
            "/v1/node/listen",
            "/v1/node/listen".to_owned(),
            Value::Null,
        ),
        // What it streams is held against the document by its own tests.
        ("get", "/v1/trace", "/v1/trace".to_owned(), Value::Null),
        (
            "get",
            "/v1/presence",
            "/v1/presence?room=r".to_owned(),
            Value::Null,
        ),
        (
            "get",
            "/v1/presence",
            "/v1/presence".to_owned(),
            Value::Null,
        ),
        (
            "get",
            "/v1/history",
            "/v1/history?room=r".to_owned(),
            Value::Null,
        ),
        (
            "get",
            "/v1/history",
            "/v1/history?room=r&limit=0".to_owned(),
            Value::Null,
        ),
        (
            "post",
            "/v1/history",
            "/v1/history".to_owned(),
            json!({"room": "r", "events": [{"time": 1, "event": "a", "args": []}]}),
        ),
        (
            "delete",
            "/v1/history",
            "/v1/history?user=u".to_owned(),
            Value::Null,
        ),
        (
            "delete",
            "/v1/large/{key}",
            "/v1/large/none".to_owned(),
            Value::Null,
        ),
    ];
    let mut made = BTreeSet::new();
    for (method, path, target, body) in calls {
        let operation = &document["paths"][path][method];
        made.insert((path, method));
        let (status, answer) = call(&gateway, &method.to_uppercase(), &target, &body);
        if body.is_object() {
            let schema = operation["requestBody"]["content"]["application/json"]["schema"].clone();
            let fits = hold(&document, schema, &body);
            assert_eq!(
                fits.is_ok(),
                body["event"] != "",
                "{target} {body}: {fits:?}"
            );
        }
        let kind = if status < 400 {
            "application/json"
        } else {
            "application/problem+json"
        };
        let schema = &operation["responses"][status.to_string()]["content"][kind]["schema"];
        assert!(
            schema.is_object(),
            "{target} answers {status}, which the document does not know: {answer}"
        );
        hold(&document, schema.clone(), &answer)
            .unwrap_or_else(|error| panic!("{target}: {error}: {answer}"));
    }
    let paths = document["paths"].as_object().expect("paths");
    let all = paths.iter().flat_map(|(path, item)| {
        let methods = item.as_object().into_iter().flat_map(|item| item.keys());
        methods.map(|method| (path.as_str(), method.as_str()))
    });
    assert_eq!(made, all.collect());
    // The check can fail.
    let schema = json!({"$ref": "#/components/schemas/Accepted"});
    assert!(hold(&document, schema.clone(), &accepted().1).is_ok());
    assert!(hold(&document, schema, &json!({"accepted": "yes"})).is_err());
}
