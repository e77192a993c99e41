//! One item on its way to a worker.

use crate::bounds::{MET_ALONE, MET_MAX, OWN_DEATHS_MAX};
use crate::event::{Event, put_varint};
use crate::name::Name;
use crate::proto;
use crate::proto::item::What;
use crate::weight::{answer_bytes, member_bytes};
use bytes::Bytes;
use handoff::Unfit;
use handoff::backend::Item as Record;
use prost::Message;
use prost::encoding::{WireType, encode_key, encoded_len_varint};

/// Bytes that an entry costs beside its message.
const ENTRY_BYTES: usize = 160;
/// Bytes that a text or a header line costs beside its own.
const PART_BYTES: usize = 48;

/// Numbers of the fields of `Item` that events have. The keys are one byte each.
const REDELIVERED: u32 = 1;
const EVENT: u32 = 4;
const SEQUENCE: u32 = 9;
const KEY_BYTES: usize = 1;
/// This one has a key of two.
const ALONE: u32 = 17;
const ALONE_BYTES: usize = 3;

/// Events are the many, and entries are moved often: all else stands beside them.
#[derive(Debug)]
enum Body {
    Event(Event),
    Other(Box<What>),
}

/// An item on its way to a worker.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The socket that it is about; `None` = the answer to a worker's query.
    pub(crate) about: Option<Name>,
    /// The life of the socket; 0 until it is booked.
    pub(crate) life: u64,
    body: Body,
    pub(crate) redelivered: bool,
    /// Its number among the items of its socket.
    pub(crate) sequence: u64,
    pub(crate) bytes: usize,
    /// When it came from the shard.
    pub(crate) came_ms: u64,
    /// It is the only item that is under way.
    pub(crate) alone: bool,
    /// Its part in ends of workers.
    pub(crate) suspicion: Suspicion,
}

/// The part of an entry in ends of workers that had it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Suspicion {
    /// Ends at which it was under way, perhaps with others.
    met: u8,
    /// Those at which it was alone, and had begun.
    alone: u8,
}

impl Suspicion {
    /// A worker ended while it was under way.
    pub(crate) fn note(&mut self, alone: bool) {
        self.met = self.met.saturating_add(1);
        self.alone = self.alone.saturating_add(u8::from(alone));
    }

    pub(crate) fn goes_alone(self) -> bool {
        self.met >= MET_ALONE
    }

    pub(crate) fn is_deadly(self) -> bool {
        self.alone >= OWN_DEATHS_MAX || self.met >= MET_MAX
    }
}

impl Entry {
    /// Bytes of an entry beyond those that are counted when workers take it at once: queues grow by halves.
    pub(crate) const KEPT_BYTES: usize = (size_of::<Self>() * 3 / 2).saturating_sub(ENTRY_BYTES);

    pub(crate) fn new(about: Option<Name>, what: What, now_ms: u64) -> Self {
        let bytes = what.encoded_len() + parts(&what);
        Self::of(about, Body::Other(what.into()), bytes, now_ms)
    }

    pub(crate) fn event(event: Event, now_ms: u64) -> Self {
        let bytes = event.field_len();
        Self::of(Some(event.socket), Body::Event(event), bytes, now_ms)
    }

    fn of(about: Option<Name>, body: Body, bytes: usize, now_ms: u64) -> Self {
        Self {
            about,
            life: 0,
            body,
            redelivered: false,
            sequence: 0,
            bytes: ENTRY_BYTES + bytes,
            came_ms: now_ms,
            alone: false,
            suspicion: Suspicion::default(),
        }
    }

    /// It costs so much beside its message, from now on. Returns by how much that is more than it was.
    pub(crate) fn weigh(&mut self, beside: usize) -> usize {
        let own = self
            .what()
            .map_or(0, |what| what.encoded_len() + parts(what));
        let more = (ENTRY_BYTES + own + beside).saturating_sub(self.bytes);
        self.bytes += more;
        more
    }

    /// The item, unless it is an event.
    pub(crate) fn what(&self) -> Option<&What> {
        match &self.body {
            Body::Event(_) => None,
            Body::Other(what) => Some(what),
        }
    }

    /// As the protocol has it.
    pub(crate) fn item(&self) -> proto::Item {
        let what = match &self.body {
            Body::Event(event) => What::Event(event.open()),
            Body::Other(what) => (**what).clone(),
        };
        proto::Item {
            redelivered: self.redelivered,
            sequence: self.sequence,
            alone: self.alone,
            what: Some(what),
        }
    }

    /// Appends it as the field of a message.
    pub(crate) fn write(&self, field: u32, out: &mut Vec<u8>) {
        encode_key(field, WireType::LengthDelimited, out);
        put_varint(self.item_len() as u64, out);
        self.write_item(out);
    }

    fn write_item(&self, out: &mut Vec<u8>) {
        if self.redelivered {
            encode_key(REDELIVERED, WireType::Varint, out);
            out.push(1);
        }
        match &self.body {
            Body::Event(event) => event.write(EVENT, out),
            Body::Other(what) => what.encode(out),
        }
        if self.sequence != 0 {
            encode_key(SEQUENCE, WireType::Varint, out);
            put_varint(self.sequence, out);
        }
        if self.alone {
            encode_key(ALONE, WireType::Varint, out);
            out.push(1);
        }
    }

    fn item_len(&self) -> usize {
        let redelivered = usize::from(self.redelivered) * (KEY_BYTES + 1);
        let alone = usize::from(self.alone) * ALONE_BYTES;
        let sequence = match self.sequence {
            0 => 0,
            sequence => KEY_BYTES + encoded_len_varint(sequence),
        };
        let what = match &self.body {
            Body::Event(event) => event.field_len(),
            Body::Other(what) => what.encoded_len(),
        };
        redelivered + what + sequence + alone
    }

    // ---- for the next process ---------------------------------------------------------------------------------------------------

    pub(crate) fn record(&self, now_ms: u64) -> Record {
        let mut item = Vec::with_capacity(self.item_len());
        self.write_item(&mut item);
        Record {
            item,
            about: self
                .about
                .map_or_else(String::new, |name| name.as_str().to_owned()),
            age_ms: now_ms.saturating_sub(self.came_ms),
            met: u32::from(self.suspicion.met),
            alone: u32::from(self.suspicion.alone),
            number: 0,
            life: self.life,
        }
    }

    /// Its cost is counted anew.
    pub(crate) fn restored(record: &Record, now_ms: u64) -> Result<Self, Unfit> {
        let unfit = |field: &str, wanted| Unfit {
            field: field.to_owned(),
            wanted,
        };
        let item = proto::Item::decode(&*record.item).ok().and_then(|item| {
            let what = item.what.clone()?;
            Some((item, what))
        });
        let (item, what) = item.ok_or_else(|| unfit("item.item", "an item of the protocol"))?;
        let about = match record.about.as_str() {
            "" => None,
            name => Some(Name::parse(name).ok_or_else(|| unfit("item.about", "a socket's id"))?),
        };
        let came_ms = now_ms.saturating_sub(record.age_ms);
        let mut entry = match (what, about) {
            (What::Event(event), Some(_)) => {
                let event =
                    Event::of(&event).ok_or_else(|| unfit("item.item", "a text's event"))?;
                Self::event(event, came_ms)
            }
            (What::Event(_), None) => return Err(unfit("item.about", "there, for an event")),
            (what, about) => Self::new(about, what, came_ms),
        };
        (entry.about, entry.life) = (about, record.life);
        entry.redelivered = item.redelivered;
        entry.sequence = item.sequence;
        entry.alone = item.alone;
        entry.suspicion = Suspicion {
            met: u8::try_from(record.met).unwrap_or(u8::MAX),
            alone: u8::try_from(record.alone).unwrap_or(u8::MAX),
        };
        Ok(entry)
    }

    /// The number under which a client waits for its answer.
    pub(crate) fn ack(&self) -> Option<u64> {
        match &self.body {
            Body::Event(event) if event.ack != 0 => Some(event.ack),
            _ => None,
        }
    }

    pub(crate) fn is_gone(&self) -> bool {
        matches!(self.what(), Some(What::Gone(_) | What::NodeGone(_)))
    }

    pub(crate) fn is_event(&self) -> bool {
        matches!(self.body, Body::Event(_))
    }

    /// A worker may end over it.
    pub(crate) fn may_end_a_worker(&self) -> bool {
        self.is_event() || matches!(self.what(), Some(What::Connect(_)))
    }

    /// Nothing else is under way while it is.
    pub(crate) fn goes_alone(&self) -> bool {
        self.suspicion.goes_alone() && self.may_end_a_worker()
    }

    /// The event's name and arguments, for operators.
    pub(crate) fn event_said(&self) -> Option<(String, Bytes)> {
        match &self.body {
            Body::Event(event) => {
                let event = event.open();
                Some((event.event, event.args))
            }
            Body::Other(_) => None,
        }
    }

    /// It answers a query of a worker.
    pub(crate) fn is_answer(&self) -> bool {
        matches!(self.what(), Some(What::Found(_) | What::Answers(_)))
    }

    pub(crate) fn is_failed(&self) -> bool {
        matches!(self.what(), Some(What::Failed(_)))
    }

    /// A client waits for what an endpoint makes of it: it has a call of its own.
    pub(crate) fn stands_alone(&self, decides: bool) -> bool {
        self.ack().is_some() || (decides && self.introduces())
    }

    /// A socket leaves its worker by it.
    pub(crate) fn parts(&self) -> bool {
        matches!(self.what(), Some(What::Part(_)))
    }

    /// A socket comes into a worker's hands by it.
    pub(crate) fn introduces(&self) -> bool {
        matches!(self.what(), Some(What::Connect(_) | What::Resume(_)))
    }
}

/// Memory of its own that its texts and lists have, beside their bytes. Lists are twice in memory while they are written.
fn parts(what: &What) -> usize {
    match what {
        What::Connect(connect) => {
            size_of::<proto::Connect>() + 2 * connect.headers.len() * PART_BYTES
        }
        What::Opening(opening) => 2 * opening.headers.len() * PART_BYTES,
        What::Gone(gone) => gone.rooms.len() * PART_BYTES,
        What::Found(found) => found.sockets.iter().map(member_bytes).sum(),
        What::Answers(answers) => answers.answers.iter().map(answer_bytes).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Said;

    #[test]
    fn an_entry_is_written_as_the_message_says() {
        let socket = Name::parse("abcdefghijklmnopqrst").unwrap();
        let args = "1".repeat(300);
        let said = Said {
            event: "e",
            args: &args,
            ack: 9,
            ..Said::default()
        };
        let gone = proto::Gone {
            socket: socket.as_str().to_owned(),
            ..proto::Gone::default()
        };
        for (redelivered, sequence) in [(false, 0), (true, 1), (true, 300), (false, u64::MAX)] {
            let alone = sequence % 2 == 0;
            let event = Entry::event(Event::new(socket, &said), 1);
            for mut entry in [event, Entry::new(Some(socket), What::Gone(gone.clone()), 1)] {
                (entry.redelivered, entry.sequence) = (redelivered, sequence);
                entry.alone = alone;
                let mut written = Vec::new();
                entry.write(3, &mut written);
                let message = proto::ToWorker::decode(written.as_slice()).unwrap();
                assert_eq!(message.items, [entry.item()]);
                let item = &message.items[0];
                assert_eq!((item.redelivered, item.sequence), (redelivered, sequence));
                assert_eq!(item.alone, alone);
                assert_eq!(entry.item_len(), item.encoded_len());
                assert_eq!(entry.is_event(), matches!(item.what, Some(What::Event(_))));
            }
        }
    }
}
