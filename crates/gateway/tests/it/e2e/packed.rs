//! `socket.io-msgpack-parser` by namespace: each client has one parser, and a namespace takes those that have its own.

use super::client::msgpack;
use crate::harness::{Gateway, PATIENCE, RawConn};
use serde_json::{Value, json};

const WEBSOCKET: &str = "/socket.io/?EIO=4&transport=websocket";

fn gateway() -> Gateway {
    Gateway::start(
        "profile = \"socket.io\"\n\
         [namespaces.\"/packed\"]\nparser = \"msgpack\"\nclient_joins = true\n\
         [namespaces.\"/packed\".events.echo]\naction = \"reply\"\n\
         [namespaces.\"/packed\".events.say]\naction = \"rooms\"\n",
    )
}

/// A packet as the parser writes it: a map, by a codec that is not ours.
fn packed(packet: &Value) -> Vec<u8> {
    msgpack::encode(packet)
}

fn connected(gateway: &Gateway, namespace: &str) -> (RawConn, Value) {
    let mut conn = RawConn::websocket(gateway.addr, WEBSOCKET);
    conn.frame();
    conn.send_binary(packed(&json!({ "type": 0, "nsp": namespace })));
    let reply = heard(&mut conn);
    (conn, reply)
}

fn heard(conn: &mut RawConn) -> Value {
    msgpack::decode(&conn.frame().payload)
}

fn emit(conn: &mut RawConn, data: &Value, id: Option<u64>) {
    let mut packet = json!({ "type": 2, "nsp": "/packed", "data": data });
    if let Some(id) = id {
        packet["id"] = id.into();
    }
    conn.send_binary(packed(&packet));
}

#[test]
fn packets_are_messagepack_both_ways_and_rooms_are_shared() {
    let gateway = gateway();
    let [(mut ann, hello), (mut ben, _)] = [(); 2].map(|()| connected(&gateway, "/packed"));
    assert_eq!(
        (&hello["type"], &hello["nsp"]),
        (&json!(0), &json!("/packed"))
    );
    assert_eq!(
        hello["data"]["sid"].as_str().map(str::len),
        Some(20),
        "{hello}"
    );
    emit(
        &mut ann,
        &json!(["echo", { "bytes": "020100" }, 1.5]),
        Some(7),
    );
    let ack = json!({ "type": 3, "nsp": "/packed", "id": 7, "data": [{ "bytes": "020100" }, 1.5] });
    assert_eq!(heard(&mut ann), ack);
    for conn in [&mut ann, &mut ben] {
        emit(conn, &json!(["join", "den"]), Some(1));
        assert_eq!(heard(conn)["type"], 3);
    }
    emit(&mut ann, &json!(["say", "hi"]), None);
    assert_eq!(
        heard(&mut ben),
        json!({ "type": 2, "nsp": "/packed", "data": ["say", "hi"] })
    );
}

#[test]
fn a_client_with_another_parser_is_refused_by_the_namespace_and_told_in_its_own() {
    let gateway = gateway();
    let (_, refused) = connected(&gateway, "/");
    let error = json!({ "type": 4, "nsp": "/", "data": { "message": "Invalid parser" } });
    assert_eq!(refused, error);
    let mut text = RawConn::websocket(gateway.addr, WEBSOCKET);
    text.frame();
    text.send_text("40/packed,");
    assert_eq!(
        text.frame().text(),
        "44/packed,{\"message\":\"Invalid parser\"}"
    );
    text.send_text("40");
    assert!(text.frame().text().starts_with("40{\"sid\":"));
}

#[test]
fn nobody_changes_the_parser_and_noise_ends_the_session() {
    let gateway = gateway();
    let (mut changes, _) = connected(&gateway, "/packed");
    changes.send_text("42/packed,[\"echo\",1]");
    assert_eq!(changes.close_code(PATIENCE), 4500);
    for noise in [
        &b""[..],
        b"\xc1",
        b"\x82\xa4type\x02\xa3nsp\xc4\x01/",
        &[0x91; 600],
    ] {
        let (mut conn, _) = connected(&gateway, "/packed");
        conn.send_binary(noise);
        assert_eq!(conn.close_code(PATIENCE), 4500, "{noise:02x?}");
    }
    // Where no namespace has that parser, bytes are no first packet.
    let gateway = Gateway::start("profile = \"socket.io\"\n");
    let mut conn = RawConn::websocket(gateway.addr, WEBSOCKET);
    conn.frame();
    conn.send_binary(packed(&json!({ "type": 0, "nsp": "/" })));
    assert_eq!(conn.close_code(PATIENCE), 4500);
}
