//! Payloads and ids.

use crate::values;
use proptest::collection::vec;
use proptest::prelude::*;
use wire::base64url::Id20;
use wire::engineio::payload::{self, Packet, SEPARATOR};
use wire::engineio::{PacketType, parse_text};

#[derive(Clone, Debug, PartialEq)]
enum Owned {
    Text(u8, String),
    Binary(Vec<u8>),
}

fn packet() -> impl Strategy<Value = Owned> {
    let text = values::string().prop_map(|text| text.replace(char::from(SEPARATOR), ""));
    prop_oneof![
        (b'0'..=b'6', text).prop_map(|(kind, text)| Owned::Text(kind, text)),
        vec(any::<u8>(), 0..40).prop_map(Owned::Binary),
    ]
}

proptest! {
    #[test]
    fn payloads_are_split_into_what_was_joined(packets in vec(packet(), 1..8)) {
        let mut body = Vec::new();
        for (index, packet) in packets.iter().enumerate() {
            if index > 0 {
                body.push(SEPARATOR);
            }
            match packet {
                Owned::Text(kind, text) => {
                    body.push(*kind);
                    body.extend_from_slice(text.as_bytes());
                }
                Owned::Binary(bytes) => payload::write_binary(&mut body, bytes),
            }
        }
        let mut seen = Vec::new();
        for packet in payload::split(&body).expect("UTF-8") {
            seen.push(match packet.expect("well-formed") {
                Packet::Text(kind, text) => Owned::Text(kind as u8, text.to_owned()),
                Packet::Base64(text) => {
                    let mut bytes = Vec::new();
                    payload::decode_base64(text, &mut bytes).expect("own base64");
                    Owned::Binary(bytes)
                }
            });
        }
        prop_assert_eq!(seen, packets);
    }

    #[test]
    fn random_bodies_end_at_the_first_fault(
        body in vec(any::<u8>(), 0..80),
        text in "[0-9b\u{1e}=A]{0,40}",
    ) {
        for body in [body.as_slice(), text.as_bytes()] {
            let Some(packets) = payload::split(body) else {
                prop_assert!(std::str::from_utf8(body).is_err());
                continue;
            };
            let packets: Vec<_> = packets.collect();
            let parts = body.split(|byte| *byte == SEPARATOR).count();
            let fault = packets.iter().position(Result::is_err);
            prop_assert_eq!(packets.len(), fault.map_or(parts, |at| at + 1));
        }
    }

    #[test]
    fn text_packets_are_their_digit_and_rest(text in values::string()) {
        match parse_text(&text) {
            Some((kind, rest)) => {
                prop_assert_eq!(format!("{}{rest}", char::from(kind as u8)), text)
            }
            None => {
                let first = text.bytes().next();
                prop_assert!(first.and_then(PacketType::from_byte).is_none());
            }
        }
    }

    #[test]
    fn ids_go_both_ways(bytes in any::<[u8; 15]>(), text in "[A-Za-z0-9_-]{20}") {
        prop_assert_eq!(Id20::decode(&Id20(bytes).encode()), Some(Id20(bytes)));
        let id = Id20::decode(text.as_bytes()).expect("20 characters of the alphabet");
        prop_assert_eq!(id.to_string(), text);
    }

    #[test]
    fn other_texts_are_no_ids(text in vec(any::<u8>(), 0..24)) {
        let is_alphabet = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
        let expected = text.len() == 20 && text.iter().all(is_alphabet);
        prop_assert_eq!(Id20::decode(&text).is_some(), expected);
    }
}
