//! A client's event as workers get it: its shard encodes it, once, and nobody copies it into another shape on the way.

use crate::name::Name;
use crate::proto;
use bytes::Bytes;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};

/// Numbers of the fields of `Event`. Each is below 16, so that its key is one byte.
const SOCKET: u32 = 1;
const NAME: u32 = 2;
const ARGS: u32 = 3;
const ATTACHMENTS: u32 = 4;
const ACK: u32 = 5;
const TRACEPARENT: u32 = 15;
const KEY_BYTES: usize = 1;

/// An event, as its client says it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Said<'a> {
    pub event: &'a str,
    /// JSON elements without brackets.
    pub args: &'a str,
    pub attachments: &'a [Vec<u8>],
    /// The number under which the client waits for its answer; 0 = it does not.
    pub ack: u64,
    pub traceparent: &'a str,
}

/// An encoded `Event`, and what a backend must know of it.
#[derive(Clone, Debug)]
pub struct Event {
    pub(crate) socket: Name,
    pub(crate) ack: u64,
    encoded: Box<[u8]>,
}

impl Event {
    pub fn new(socket: Name, said: &Said<'_>) -> Self {
        let mut encoded = Vec::with_capacity(encoded_len(said, socket.as_str()));
        put(SOCKET, socket.as_str().as_bytes(), &mut encoded);
        put_text(NAME, said.event, &mut encoded);
        put_text(ARGS, said.args, &mut encoded);
        for attachment in said.attachments {
            put(ATTACHMENTS, attachment, &mut encoded);
        }
        if said.ack != 0 {
            encode_key(ACK, WireType::Varint, &mut encoded);
            put_varint(said.ack, &mut encoded);
        }
        put_text(TRACEPARENT, said.traceparent, &mut encoded);
        Self {
            socket,
            ack: said.ack,
            encoded: encoded.into(),
        }
    }

    /// As it was kept elsewhere; `None`: it is no event of a client.
    pub(crate) fn of(event: &proto::Event) -> Option<Self> {
        let attachments: Vec<Vec<u8>> =
            event.attachments.iter().map(|part| part.to_vec()).collect();
        let said = Said {
            event: &event.event,
            args: std::str::from_utf8(&event.args).ok()?,
            attachments: &attachments,
            ack: event.ack,
            traceparent: &event.traceparent,
        };
        Some(Self::new(Name::parse(&event.socket)?, &said))
    }

    /// Memory that it takes beside its own size.
    pub fn bytes(&self) -> usize {
        self.encoded.len()
    }

    /// Appends it as the field of a message.
    pub(crate) fn write(&self, field: u32, into: &mut Vec<u8>) {
        put(field, &self.encoded, into);
    }

    /// Bytes of that, for a field below 16.
    pub(crate) fn field_len(&self) -> usize {
        part_len(&self.encoded)
    }

    /// For an endpoint, which is told in JSON.
    pub(crate) fn open(&self) -> proto::Event {
        proto::Event::decode(Bytes::copy_from_slice(&self.encoded)).unwrap_or_default()
    }
}

fn encoded_len(said: &Said<'_>, socket: &str) -> usize {
    let texts = [socket, said.event, said.args, said.traceparent];
    let texts = texts.iter().filter(|text| !text.is_empty());
    let texts: usize = texts.map(|text| part_len(text.as_bytes())).sum();
    let attachments: usize = said.attachments.iter().map(|part| part_len(part)).sum();
    let ack = match said.ack {
        0 => 0,
        ack => KEY_BYTES + encoded_len_varint(ack),
    };
    texts + attachments + ack
}

fn part_len(part: &[u8]) -> usize {
    KEY_BYTES + encoded_len_varint(part.len() as u64) + part.len()
}

/// An empty text is not sent: that is its default.
fn put_text(field: u32, text: &str, into: &mut Vec<u8>) {
    if !text.is_empty() {
        put(field, text.as_bytes(), into);
    }
}

fn put(field: u32, bytes: &[u8], into: &mut Vec<u8>) {
    encode_key(field, WireType::LengthDelimited, into);
    put_varint(bytes.len() as u64, into);
    into.extend_from_slice(bytes);
}

/// Most numbers are one byte or two.
pub(crate) fn put_varint(number: u64, into: &mut Vec<u8>) {
    match number {
        0..0x80 => into.push(number as u8),
        0x80..0x4000 => into.extend_from_slice(&[number as u8 | 0x80, (number >> 7) as u8]),
        _ => encode_varint(number, into),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_encoded_as_the_message_says() {
        let socket = Name::parse("abcdefghijklmnopqrst").unwrap();
        let long = "\"".to_owned() + &"é".repeat(300) + "\"";
        let (none, two) = (Vec::new(), vec![vec![1, 2, 3], Vec::new()]);
        for event in ["e", ""] {
            for args in ["", "1", &long] {
                for attachments in [&none, &two] {
                    for ack in [0, 1, 300, u64::MAX] {
                        for traceparent in [
                            "",
                            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                        ] {
                            let said = Said {
                                event,
                                args,
                                attachments,
                                ack,
                                traceparent,
                            };
                            let made = Event::new(socket, &said);
                            let meant = proto::Event {
                                socket: socket.as_str().to_owned(),
                                event: event.to_owned(),
                                args: args.to_owned().into(),
                                attachments: attachments.iter().cloned().map(Bytes::from).collect(),
                                ack,
                                traceparent: traceparent.to_owned(),
                            };
                            assert_eq!(*made.encoded, meant.encode_to_vec());
                            assert_eq!(made.open(), meant);
                            assert_eq!(encoded_len(&said, socket.as_str()), made.bytes());
                        }
                    }
                }
            }
        }
    }
}
