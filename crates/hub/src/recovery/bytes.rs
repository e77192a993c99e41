//! The messages about claims as bytes between nodes: `kind u8 | pid or nothing | claim | fields`. What is read comes from a stranger.

use crate::recovery::headings::{Kind, Membership};
use crate::recovery::journal::Said;
use crate::recovery::messages::{Claim, Handover, Message, NotRecovered};
use crate::recovery::pid::{OFFSET_LIMIT, Pid};
use crate::recovery::record::{Life, Record};
use crate::recovery::stamp::{ShardLife, Stamp, Vector};
use crate::tables::bytes::{Reader, attachments, bytes, number};
use crate::tables::id::Place;
use crate::tables::position::Position;
use std::sync::Arc;
use wire::base64url::Id20;

const CLAIM: u8 = 1;
const REFUSED: u8 = 2;
const OFFER: u8 = 3;
const FENCE: u8 = 4;
const FENCED: u8 = 5;
const HANDED: u8 = 6;
const FLUSH: u8 = 7;
const FLUSHED: u8 = 8;
const CONFIRMED: u8 = 9;
const RELEASED: u8 = 10;

/// The reasons by their number between nodes: a new one goes to the end.
const REASONS: [NotRecovered; 8] = [
    NotRecovered::Unknown,
    NotRecovered::Claimed,
    NotRecovered::OtherUser,
    NotRecovered::Trimmed,
    NotRecovered::TooMuch,
    NotRecovered::Disconnected,
    NotRecovered::Late,
    NotRecovered::Nodes,
];

// The order is that of the enum: `kind as u8` is what is written.
const KINDS: [Kind; 4] = [Kind::Everyone, Kind::Room, Kind::User, Kind::Socket];

// ---- writing ------------------------------------------------------------------------------------------------------------------

/// Appends a message.
pub(crate) fn write(out: &mut Vec<u8>, message: &Message) {
    match message {
        Message::Claim {
            pid,
            claim,
            shown,
            uid,
            nodes,
        } => {
            named(out, CLAIM, Some(pid), *claim);
            option(out, shown.as_ref(), |out, at| position(out, *at));
            option(out, uid.as_ref(), |out, uid| bytes(out, uid.as_bytes()));
            // A claim without nodes stays within its process and is never written.
            let nodes = nodes.as_deref().unwrap_or_default();
            list(out, nodes, |out, node| number(out, u64::from(*node)));
        }
        Message::Refused { claim, why } => {
            named(out, REFUSED, None, *claim);
            let reason = REASONS.iter().position(|reason| reason == why);
            number(out, reason.unwrap_or_default() as u64);
        }
        Message::Offer {
            claim,
            round,
            record,
        } => {
            named(out, OFFER, None, *claim);
            number(out, u64::from(*round));
            write_record(out, record);
        }
        Message::Fence {
            pid,
            claim,
            round,
            owner,
            last,
        } => {
            named(out, FENCE, Some(pid), *claim);
            number(out, u64::from(*round));
            place(out, *owner);
            vector(out, last);
        }
        Message::Fenced {
            pid,
            claim,
            round,
            last,
        } => {
            named(out, FENCED, Some(pid), *claim);
            number(out, u64::from(*round));
            vector(out, last);
        }
        Message::Handed { claim, handover } => {
            named(out, HANDED, None, *claim);
            write_handover(out, handover);
        }
        Message::Flush { claim } => named(out, FLUSH, None, *claim),
        Message::Flushed { claim } => named(out, FLUSHED, None, *claim),
        Message::Confirmed { pid, claim } => named(out, CONFIRMED, Some(pid), *claim),
        Message::Released { pid, claim } => named(out, RELEASED, Some(pid), *claim),
    }
}

fn named(out: &mut Vec<u8>, kind: u8, pid: Option<&Pid>, claim: Claim) {
    out.push(kind);
    // An answer names no `pid`: the claimer finds its claim by the number.
    if let Some(pid) = pid {
        bytes(out, &pid.text());
    }
    place(out, claim.by);
    number(out, claim.number);
}

fn place(out: &mut Vec<u8>, place: Place) {
    number(out, u64::from(place.node));
    number(out, u64::from(place.shard));
}

fn position(out: &mut Vec<u8>, at: Position) {
    number(out, at.log);
    number(out, at.offset);
}

fn option<T>(out: &mut Vec<u8>, value: Option<&T>, write: impl FnOnce(&mut Vec<u8>, &T)) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        write(out, value);
    }
}

fn list<T>(out: &mut Vec<u8>, items: &[T], write: impl Fn(&mut Vec<u8>, &T)) {
    number(out, items.len() as u64);
    items.iter().for_each(|item| write(out, item));
}

fn vector(out: &mut Vec<u8>, vector: &Vector) {
    number(out, vector.len() as u64);
    for stamp in vector.iter() {
        place(out, stamp.from);
        number(out, stamp.life.0);
        number(out, stamp.number);
    }
}

fn write_record(out: &mut Vec<u8>, record: &Record) {
    bytes(out, &record.pid.text());
    bytes(out, &record.socket.encode());
    bytes(out, record.namespace.as_bytes());
    let members: Vec<&Membership> = record.members.iter().collect();
    list(out, &members, |out, member| {
        out.push(member.kind as u8);
        bytes(out, member.name.as_bytes());
    });
    for text in [&record.uid, &record.data] {
        option(out, text.as_ref(), |out, text| bytes(out, text.as_bytes()));
    }
    let (begun, confirmed, formers) = record.life.parts();
    number(out, begun);
    number(out, confirmed);
    let formers: Vec<(u64, &[u64])> = formers.collect();
    list(out, &formers, |out, (log, places)| {
        number(out, *log);
        list(out, places, |out, at| number(out, *at));
    });
}

fn write_handover(out: &mut Vec<u8>, handover: &Handover) {
    write_record(out, &handover.record);
    list(out, &handover.missed, |out, (at, said)| {
        let event = said.event();
        number(out, *at);
        bytes(out, event.name.as_bytes());
        bytes(out, event.args.as_bytes());
        attachments(out, event.attachments);
        let room = said.room();
        option(out, room.as_ref(), |out, room| bytes(out, room.as_bytes()));
    });
    number(out, handover.log);
    vector(out, &handover.seen);
}

// ---- reading ------------------------------------------------------------------------------------------------------------------

/// The message that stands there.
pub(crate) fn read(body: &mut Reader<'_>) -> Option<Message> {
    let kind = body.byte()?;
    let pid = match kind {
        CLAIM | FENCE | FENCED | CONFIRMED | RELEASED => Some(body.pid()?),
        _ => None,
    };
    let claim = Claim {
        by: body.place()?,
        number: body.number()?,
    };
    match pid {
        Some(pid) => body.about(kind, pid, claim),
        None => body.answer(kind, claim),
    }
}

impl Reader<'_> {
    fn about(&mut self, kind: u8, pid: Pid, claim: Claim) -> Option<Message> {
        Some(match kind {
            CLAIM => Message::Claim {
                pid,
                claim,
                shown: self.option(Self::position)?,
                uid: self.option(Self::text)?.map(Into::into),
                nodes: Some(self.list(Self::small)?.into()),
            },
            FENCE => Message::Fence {
                pid,
                claim,
                round: self.round_number()?,
                owner: self.place()?,
                last: self.vector()?,
            },
            FENCED => Message::Fenced {
                pid,
                claim,
                round: self.round_number()?,
                last: self.vector()?,
            },
            CONFIRMED => Message::Confirmed { pid, claim },
            _ => Message::Released { pid, claim },
        })
    }

    fn answer(&mut self, kind: u8, claim: Claim) -> Option<Message> {
        Some(match kind {
            REFUSED => Message::Refused {
                claim,
                why: self.reason()?,
            },
            OFFER => Message::Offer {
                claim,
                round: self.round_number()?,
                record: Box::new(self.record()?),
            },
            HANDED => Message::Handed {
                claim,
                handover: Box::new(self.handover()?),
            },
            FLUSH => Message::Flush { claim },
            FLUSHED => Message::Flushed { claim },
            _ => return None,
        })
    }

    fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.flag()? {
            true => read(self).map(Some),
            false => Some(None),
        }
    }

    fn pid(&mut self) -> Option<Pid> {
        Pid::read(std::str::from_utf8(self.bytes()?).ok()?)
    }

    fn place(&mut self) -> Option<Place> {
        Some(Place {
            node: self.small()?,
            shard: self.small()?,
        })
    }

    fn round_number(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    /// A reason that only newer nodes know ends the claim like `Nodes`.
    fn reason(&mut self) -> Option<NotRecovered> {
        let reason = usize::try_from(self.number()?).ok()?;
        Some(*REASONS.get(reason).unwrap_or(&NotRecovered::Nodes))
    }

    /// Reads a place in a journal. The limit keeps sums of two places from an overflow.
    fn offset(&mut self) -> Option<u64> {
        self.number().filter(|at| *at < OFFSET_LIMIT)
    }

    fn position(&mut self) -> Option<Position> {
        Some(Position {
            log: self.offset()?,
            offset: self.offset()?,
        })
    }

    fn vector(&mut self) -> Option<Vector> {
        let stamps = self.list(|one| {
            Some(Stamp {
                from: one.place()?,
                life: ShardLife(one.number()?),
                number: one.number()?,
            })
        });
        Some(stamps?.into_iter().collect())
    }

    fn member(&mut self) -> Option<Membership> {
        let kind = KINDS.get(usize::from(self.byte()?))?;
        Some(Membership::new(*kind, &self.text()?))
    }

    fn record(&mut self) -> Option<Record> {
        Some(Record {
            pid: self.pid()?,
            socket: Id20::decode(self.bytes()?)?,
            namespace: self.text()?.into(),
            members: self.list(Self::member)?.into_iter().collect(),
            uid: self.option(Self::text)?.map(Into::into),
            data: self.option(Self::text)?.map(Into::into),
            life: self.life()?,
        })
    }

    fn life(&mut self) -> Option<Life> {
        let (begun, confirmed) = (self.offset()?, self.offset()?);
        let formers = self.list(|one| Some((one.offset()?, one.list(Self::offset)?)));
        Life::from_parts(begun, confirmed, formers?)
    }

    fn handover(&mut self) -> Option<Handover> {
        let record = self.record()?;
        let missed = self.list(|one| {
            let at = one.offset()?;
            let said = Said::from_parts(one.text()?, one.text()?, one.attachments()?);
            let room = one.option(Self::text)?;
            Some((at, Arc::new(said.for_room(room.as_deref()))))
        });
        Some(Handover {
            record,
            missed: missed?,
            log: self.offset()?,
            seen: self.vector()?,
        })
    }
}

#[cfg(test)]
#[path = "bytes_tests.rs"]
mod tests;
