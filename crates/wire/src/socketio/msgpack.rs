//! Packets of `socket.io-msgpack-parser`: one MessagePack map each, in which binary stands in its place.

use super::{PacketType, placeholders};
use crate::json;
use crate::plain::msgpack;

/// A packet in the words of the text parser: its text, with a placeholder for each of `attachments`.
#[derive(Debug, PartialEq, Eq)]
pub struct Decoded {
    /// What [`super::parse`] takes, without a count of attachments.
    pub text: String,
    /// Binary values, in the order of their placeholders.
    pub attachments: Vec<Vec<u8>>,
}

/// Reads one packet. `None` for anything else: no map, a type beyond CONNECT_ERROR, a namespace that text could not name,
/// an id that is no whole number, bytes outside of `data`.
pub fn read(bytes: &[u8]) -> Option<Decoded> {
    let msgpack::Decoded { json, attachments } = msgpack::decode(bytes)?;
    let (mut kind, mut namespace, mut data, mut id) = (None, None, "null", "null");
    for (key, value) in json::members(&json) {
        match json::unquote(key).as_deref() {
            Some("type") => kind = Some(value),
            Some("nsp") => namespace = json::unquote(value),
            Some("data") => data = value,
            Some("id") => id = value,
            _ => {}
        }
    }
    let kind = kind.filter(|kind| matches!(*kind, "0" | "1" | "2" | "3" | "4"))?;
    let namespace = namespace.filter(|name| name.starts_with('/') && !name.contains(','))?;
    let mut text = String::with_capacity(json.len());
    text.push_str(kind);
    if namespace != "/" {
        text.push_str(&namespace);
        text.push(',');
    }
    if id != "null" {
        text.push_str(&id.parse::<u64>().ok()?.to_string());
    }
    if data != "null" {
        text.push_str(data);
    }
    stand_in_order(data, attachments.len()).then_some(Decoded { text, attachments })
}

/// Each attachment has its placeholder there, in order; without any, what looks like one is data.
fn stand_in_order(data: &str, attachments: usize) -> bool {
    let mut next = 0;
    attachments == 0
        || placeholders(data).all(|placeholder| {
            next += 1;
            placeholder.is_ok_and(|found| found.index + 1 == next)
        }) && next == attachments
}

/// A packet to write.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// One of the five without binary.
    pub kind: PacketType,
    /// Namespace.
    pub namespace: &'a str,
    /// Ack id.
    pub id: Option<u64>,
    /// Name of an event.
    pub name: &'a str,
    /// Raw elements behind the name or in an ack; the raw object of CONNECT and CONNECT_ERROR.
    pub data: &'a str,
    /// What placeholders in `data` stand for.
    pub attachments: &'a [&'a [u8]],
}

/// Appends a packet.
pub fn write(out: &mut Vec<u8>, packet: &Outgoing<'_>) {
    let elements = match packet.kind {
        PacketType::Event | PacketType::BinaryEvent => Some(1),
        PacketType::Ack | PacketType::BinaryAck => Some(0),
        _ => None,
    };
    let has_data = elements.is_some() || !packet.data.is_empty();
    msgpack::map(
        out,
        2 + u32::from(has_data) + u32::from(packet.id.is_some()),
    );
    msgpack::text(out, "type");
    let kind = match packet.kind {
        PacketType::BinaryEvent => PacketType::Event,
        PacketType::BinaryAck => PacketType::Ack,
        kind => kind,
    };
    msgpack::unsigned(out, u64::from(kind as u8 - PacketType::Connect as u8));
    if has_data {
        msgpack::text(out, "data");
    }
    if let Some(names) = elements {
        let count = json::Elements::bare(packet.data).count() + names;
        msgpack::array(out, u32::try_from(count).unwrap_or(u32::MAX));
        if names > 0 {
            msgpack::text(out, packet.name);
        }
    }
    msgpack::from_json(out, packet.data, packet.attachments);
    msgpack::text(out, "nsp");
    msgpack::text(out, packet.namespace);
    if let Some(id) = packet.id {
        msgpack::text(out, "id");
        msgpack::unsigned(out, id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        digits.chunks(2).filter_map(byte).collect()
    }

    #[test]
    fn what_clients_of_the_field_write_is_read() {
        for (hex, text, attachments) in [
            ("82 a474797065 00 a36e7370 a42f6c6162", "0/lab,", 0),
            ("82 a474797065 00 a36e7370 a12f", "0", 0),
            // The reference's `undefined` is an extension of type 0.
            ("83 a474797065 01 a464617461 d40000 a36e7370 a12f", "1", 0),
            (
                "83 a474797065 02 a36e7370 a42f6c6162 a464617461 92 a46563686f 01",
                "2/lab,[\"echo\",1]",
                0,
            ),
            (
                "84 a474797065 02 a36e7370 a42f6c6162 a464617461 92 a46563686f c4020102 a26964 07",
                "2/lab,7[\"echo\",{\"_placeholder\":true,\"num\":0}]",
                1,
            ),
        ] {
            let decoded = read(&bytes(hex)).expect(hex);
            assert_eq!(
                (decoded.text.as_str(), decoded.attachments.len()),
                (text, attachments)
            );
            assert!(super::super::parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn what_is_no_packet_is_refused() {
        for hex in [
            "",
            "c0",
            "90",
            // No namespace, no type, a type of the text parser, a namespace with a comma, an id that is text, bytes for a namespace.
            "81 a474797065 00",
            "81 a36e7370 a12f",
            "82 a474797065 05 a36e7370 a12f",
            "82 a474797065 02 a36e7370 a32f2c62",
            "83 a474797065 02 a36e7370 a12f a26964 a137",
            "82 a474797065 00 a36e7370 c4012f",
        ] {
            assert_eq!(read(&bytes(hex)), None, "{hex}");
        }
        // Bytes that stand nowhere in the data.
        let beside = "83 a474797065 02 a36e7370 a12f a178 c40100";
        assert_eq!(read(&bytes(beside)), None);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let attachments: [&[u8]; 1] = [&[1, 2, 3]];
        for (kind, name, data, text) in [
            (
                PacketType::Connect,
                "",
                "{\"sid\":\"x\"}",
                "0/lab,{\"sid\":\"x\"}",
            ),
            (PacketType::Disconnect, "", "", "1/lab,"),
            (
                PacketType::Event,
                "e",
                "1,{\"a\":[]}",
                "2/lab,[\"e\",1,{\"a\":[]}]",
            ),
            (PacketType::Event, "e", "", "2/lab,[\"e\"]"),
            (PacketType::Ack, "", "", "3/lab,[]"),
            (
                PacketType::BinaryAck,
                "",
                "{\"_placeholder\":true,\"num\":0}",
                "3/lab,[{\"_placeholder\":true,\"num\":0}]",
            ),
            (
                PacketType::ConnectError,
                "",
                "{\"message\":\"no\"}",
                "4/lab,{\"message\":\"no\"}",
            ),
        ] {
            let mut out = Vec::new();
            let binary = kind == PacketType::BinaryAck;
            let packet = Outgoing {
                kind,
                namespace: "/lab",
                id: None,
                name,
                data,
                attachments: if binary { &attachments } else { &[] },
            };
            write(&mut out, &packet);
            let decoded = read(&out).expect(text);
            assert_eq!(decoded.text, text);
            assert_eq!(decoded.attachments.len(), usize::from(binary));
        }
    }
}
