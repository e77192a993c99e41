//! An event as it is kept for clients that come back.

use crate::dialect::speech::Emit;

/// An event that was said, without framing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Said {
    name: Box<str>,
    args: Box<str>,
    attachments: Vec<Vec<u8>>,
    /// The one room that it was for: plain clients are told it (ADR 67).
    room: Option<Box<str>>,
    /// Its number in the stream that all nodes read; 0: it is not there.
    number: u64,
}

impl Said {
    pub(crate) fn from_parts(name: String, args: String, attachments: Vec<Vec<u8>>) -> Self {
        Self {
            name: name.into(),
            args: args.into(),
            attachments,
            room: None,
            number: 0,
        }
    }

    /// It was for this room alone.
    pub(crate) fn for_room(self, room: Option<&str>) -> Self {
        let room = room.map(Into::into);
        Self { room, ..self }
    }

    pub(crate) fn room(&self) -> Option<&str> {
        self.room.as_deref()
    }

    /// It has this number in the stream that all nodes read.
    pub(crate) fn numbered(self, number: u64) -> Self {
        Self { number, ..self }
    }

    pub(crate) fn number(&self) -> Option<u64> {
        (self.number != 0).then_some(self.number)
    }

    pub(crate) fn new(event: &Emit<'_>) -> Self {
        Self {
            name: event.name.into(),
            args: event.args.into(),
            attachments: event.attachments.to_vec(),
            room: None,
            number: 0,
        }
    }

    pub(crate) fn event(&self) -> Emit<'_> {
        Emit {
            attachments: &self.attachments,
            ..Emit::new(&self.name, &self.args)
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        let attached = self.attachments.iter();
        let attached = attached.map(|bytes| size_of::<Vec<u8>>() + bytes.len());
        let texts = self.name.len() + self.args.len() + self.room().map_or(0, str::len);
        size_of::<Self>() + texts + attached.sum::<usize>()
    }
}
