//! Socket.IO packets as they are compared, and how they are put together from messages of Engine.IO.

use bytes::Bytes;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
pub use wire::socketio::PacketType;
use wire::socketio::{self, ParseError, event};

/// Packets beyond these bytes are not compared.
const WAITING_BYTES_MAX: usize = 512 << 20;

/// A packet with its attachments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub kind: PacketType,
    pub namespace: String,
    /// The id of a question or of its answer.
    pub id: Option<u64>,
    /// Raw JSON.
    pub data: String,
    pub attachments: Vec<Bytes>,
    /// Its part of what may wait in this process.
    pub share: Share,
}

/// Bytes of all packets that wait for something: to be compared, or for the gateway.
#[derive(Clone, Debug, Default)]
pub struct Budget(Arc<AtomicUsize>);

/// Given back when the packet goes. It says nothing of the packet: all are equal, and a copy has none.
#[derive(Debug, Default)]
pub struct Share(Option<(Budget, usize)>);

impl Budget {
    /// `None`: too much waits.
    pub fn take(&self, bytes: usize) -> Option<Share> {
        let before = self.0.fetch_add(bytes, Ordering::Relaxed);
        let share = Share(Some((self.clone(), bytes)));
        (before + bytes <= WAITING_BYTES_MAX).then_some(share)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if let Some((Budget(bytes), own)) = self.0.take() {
            bytes.fetch_sub(own, Ordering::Relaxed);
        }
    }
}

impl Clone for Share {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Share {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Share {}

/// The message is no packet of Socket.IO in its usual form (protocol 5, JSON).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

impl Packet {
    /// The event's name; empty for other packets.
    pub fn event(&self) -> String {
        match self.kind {
            PacketType::Event | PacketType::BinaryEvent => event(&self.data).name.into_owned(),
            _ => String::new(),
        }
    }

    /// What it carries. An attachment is told by its length and a sum: placeholders have no meaning beyond their packet.
    pub fn content(&self) -> Value {
        let data = serde_json::from_str(&self.data).unwrap_or(Value::Null);
        let sums = self.attachments.iter().map(|bytes| {
            let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
                (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
            });
            Value::from(format!("<{} bytes, {sum:016x}>", bytes.len()))
        });
        let sums: Vec<Value> = sums.collect();
        match sums.is_empty() {
            true => data,
            false => serde_json::json!({ "data": data, "attachments": sums }),
        }
    }

    pub fn bytes(&self) -> usize {
        self.data.len() + self.attachments.iter().map(Bytes::len).sum::<usize>()
    }

    /// The text of its first message, with Engine.IO's `4`. The attachments follow, each a message of its own.
    pub fn to_text(&self) -> Vec<u8> {
        let mut text = b"4".to_vec();
        socketio::write(
            &mut text,
            &socketio::Packet {
                kind: self.kind,
                attachments: self.attachments.len(),
                namespace: &self.namespace,
                id: self.id,
                data: &self.data,
            },
        );
        text
    }
}

/// The packets of one direction of a session.
#[derive(Debug, Default)]
pub struct Reader {
    /// A packet whose attachments have not all come, and how many they are.
    waits: Option<(Packet, usize)>,
}

impl Reader {
    /// Content of a text message, without Engine.IO's `4`.
    pub fn text(&mut self, text: &str) -> Result<Option<Packet>, Unreadable> {
        if self.waits.is_some() {
            return Err(Unreadable);
        }
        let read = match socketio::parse(text) {
            Ok(read) => read,
            Err(ParseError::Empty) => return Ok(None),
            Err(_) => return Err(Unreadable),
        };
        let whole = Packet {
            kind: read.kind,
            namespace: read.namespace.to_owned(),
            id: read.id,
            data: read.data.to_owned(),
            attachments: Vec::new(),
            share: Share::default(),
        };
        if read.attachments == 0 {
            return Ok(Some(whole));
        }
        self.waits = Some((whole, read.attachments));
        Ok(None)
    }

    /// Content of a binary message.
    pub fn binary(&mut self, bytes: Bytes) -> Result<Option<Packet>, Unreadable> {
        let (packet, wanted) = self.waits.as_mut().ok_or(Unreadable)?;
        packet.attachments.push(bytes);
        if packet.attachments.len() < *wanted {
            return Ok(None);
        }
        Ok(self.waits.take().map(|(packet, _)| packet))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_put_together_and_taken_apart() {
        let mut reader = Reader::default();
        let event = reader
            .text(r#"2/a,7["x",{"b":1}]"#)
            .expect("read")
            .expect("whole");
        assert_eq!((event.event().as_str(), event.id), ("x", Some(7)));
        assert_eq!(event.to_text(), br#"42/a,7["x",{"b":1}]"#);
        let begun = reader.text(r#"51-["f",{"_placeholder":true,"num":0}]"#);
        assert_eq!(begun, Ok(None));
        assert_eq!(reader.text(r#"2["early"]"#), Err(Unreadable));
        let file = reader
            .binary(Bytes::from_static(b"abc"))
            .expect("read")
            .expect("whole");
        assert_eq!(file.attachments.len(), 1);
        assert!(file.to_text().starts_with(b"451-["));
        assert_eq!(reader.binary(Bytes::new()), Err(Unreadable));
        assert_eq!(reader.text("9"), Err(Unreadable));
    }

    #[test]
    fn shares_are_given_back() {
        let budget = Budget::default();
        let most = budget.take(WAITING_BYTES_MAX).expect("room");
        assert!(budget.take(1).is_none());
        assert!(most.clone().0.is_none());
        drop(most);
        assert!(budget.take(1).is_some());
        assert_eq!(budget.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn equal_lengths_are_not_equal_attachments() {
        let of = |bytes: &'static [u8]| Packet {
            kind: PacketType::BinaryEvent,
            namespace: "/".to_owned(),
            id: None,
            data: r#"["f",{"_placeholder":true,"num":0}]"#.to_owned(),
            attachments: vec![Bytes::from_static(bytes)],
            share: Share::default(),
        };
        assert_ne!(of(b"abc").content(), of(b"abd").content());
        assert_eq!(of(b"abc").content(), of(b"abc").content());
    }
}
