//! Packets: round trips and damage.

use crate::values;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use wire::json;
use wire::socketio::{self, ATTACHMENTS_MAX, Packet, PacketType};

fn namespace() -> impl Strategy<Value = String> {
    prop_oneof![Just("/".to_owned()), "/[a-z0-9?=é]{1,12}"]
}

/// Name, arguments and attachments of an event whose first arguments are its attachments.
fn event() -> impl Strategy<Value = (String, Vec<Value>, usize)> {
    (
        values::string(),
        vec(values::value(), 0..5),
        0..=ATTACHMENTS_MAX,
    )
        .prop_filter("reserved", |(name, ..)| !socketio::is_reserved(name))
        .prop_map(|(name, values, attachments)| {
            let placeholder = |num| json!({ "_placeholder": true, "num": num });
            let args = (0..attachments).map(placeholder).chain(values).collect();
            (name, args, attachments)
        })
}

fn id() -> impl Strategy<Value = Option<u64>> {
    proptest::option::of(prop_oneof![0_u64..100, 0..(1_u64 << 53)])
}

/// Text of a packet that is right.
fn packet_text() -> impl Strategy<Value = String> {
    let kinds = vec![
        PacketType::Connect,
        PacketType::Disconnect,
        PacketType::ConnectError,
    ];
    let plain = (
        proptest::sample::select(kinds),
        namespace(),
        values::value(),
    );
    let control = plain.prop_map(|(kind, namespace, value)| {
        let data = match kind {
            PacketType::Disconnect => String::new(),
            _ => json!({ "message": value }).to_string(),
        };
        written(&Packet {
            kind,
            attachments: 0,
            namespace: &namespace,
            id: None,
            data: &data,
        })
    });
    // Only acks may have an id larger than any event's.
    let ack = proptest::option::of(prop_oneof![0_u64..100, Just(u64::MAX)]);
    let event = (event(), namespace(), id(), ack);
    let event = event.prop_map(|((name, args, attachments), namespace, id, ack)| {
        let kind = match (attachments, ack.is_some()) {
            (0, false) => PacketType::Event,
            (0, true) => PacketType::Ack,
            (_, false) => PacketType::BinaryEvent,
            (_, true) => PacketType::BinaryAck,
        };
        let id = ack.or(id);
        let data = Value::from([vec![Value::from(name)], args].concat()).to_string();
        written(&Packet {
            kind,
            attachments,
            namespace: &namespace,
            id,
            data: &data,
        })
    });
    prop_oneof![control, event]
}

fn written(packet: &Packet<'_>) -> String {
    let mut out = Vec::new();
    socketio::write(&mut out, packet);
    assert_eq!(out.len(), socketio::written_len(packet));
    String::from_utf8(out).expect("UTF-8 in, UTF-8 out")
}

proptest! {
    #[test]
    fn packets_are_read_as_they_were_written(
        (name, args, attachments) in event(),
        namespace in namespace(),
        id in id(),
    ) {
        let kind = if attachments == 0 { PacketType::Event } else { PacketType::BinaryEvent };
        let items = [vec![Value::from(name.as_str())], args.clone()].concat();
        let data = Value::from(items).to_string();
        let packet = Packet { kind, attachments, namespace: &namespace, id, data: &data };
        let text = written(&packet);
        prop_assert_eq!(socketio::parse(&text), Ok(packet));

        let event = socketio::event(packet.data);
        prop_assert_eq!(event.name.as_ref(), name.as_str());
        let split: Vec<&str> = json::Elements::bare(event.args).collect();
        let expected: Vec<String> = args.iter().map(Value::to_string).collect();
        prop_assert_eq!(split, expected);
        let found = socketio::placeholders(event.args).filter(Result::is_ok).count();
        prop_assert!(found >= attachments);
    }

    #[test]
    fn what_passes_damage_is_written_and_read_the_same(
        text in packet_text(),
        damages in vec(values::damage(), 0..4),
    ) {
        let text = values::apply(&text, &damages);
        if let Ok(packet) = socketio::parse(&text) {
            prop_assert!(packet.attachments <= ATTACHMENTS_MAX);
            prop_assert_eq!(packet.kind.is_binary(), packet.attachments > 0);
            prop_assert!(packet.data.is_empty() || json::validate(packet.data.as_bytes()).is_ok());
            let again = written(&packet);
            prop_assert_eq!(socketio::parse(&again), Ok(packet));
            let event = socketio::event(packet.data);
            let list = format!("[{}]", event.args);
            prop_assert_eq!(json::validate(list.as_bytes()), Ok(()), "{}", text);
        }
    }

    #[test]
    fn any_text_is_judged_without_panic(text in "[0-9/,\\[\\]{}\":a\\\\-]{0,30}") {
        if let Ok(packet) = socketio::parse(&text) {
            let again = written(&packet);
            prop_assert_eq!(socketio::parse(&again), Ok(packet));
        }
    }
}
