//! A socket whose node has it no more, made again from what the store knows: its record, and what the one stream has for it.

use crate::cluster::letter::{Address, Broadcast, Order};
use crate::cluster::wire::{self, Post};
use crate::recovery::deed::Deed;
use crate::recovery::headings::{Kind, Membership};
use crate::recovery::journal::Said;
use crate::recovery::members::Members;
use crate::recovery::messages::{Handover, NotRecovered};
use crate::recovery::pid::Pid;
use crate::recovery::record::{Life, Record};
use crate::recovery::stamp::{Stamp, Vector};
use crate::tables::bytes::{Reader, bytes};
use ::wire::base64url::Id20;
use std::sync::Arc;

/// Stands for the name of a journal: no journal of a shard has it.
const NO_JOURNAL: u64 = 0;

/// What the store says of a socket.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// The secret of its client.
    pub pid: &'a str,
    /// The user of its token.
    pub uid: Option<&'a str>,
    /// The body of [`Saving`](crate::Saving).
    pub body: &'a [u8],
    /// The fence of the claim that takes it now.
    pub fence: u64,
    /// Its client has all up to here.
    pub confirmed: u64,
    /// Orders up to this number are part of the record.
    pub written: u64,
}

/// A socket on its way from the store to a shard.
#[derive(Debug)]
pub struct Adoption {
    record: Record,
    deed: Deed,
    members: Members,
    after: u64,
    written: u64,
    bytes_max: usize,
    bytes: usize,
    missed: Vec<(u64, Arc<Said>)>,
    why: Option<NotRecovered>,
}

/// Appends what [`Adoption::new`] reads.
pub(crate) fn write_body(out: &mut Vec<u8>, socket: &Id20, data: Option<&str>, deed: &Deed) {
    bytes(out, &socket.encode());
    out.push(u8::from(data.is_some()));
    bytes(out, data.unwrap_or_default().as_bytes());
    deed.write(out);
}

impl Adoption {
    /// `shown`: the number up to which its client says that it has all. A client that missed more bytes gets a new socket. `None`: what is
    /// stored is no socket.
    pub fn new(stored: Stored<'_>, shown: Option<u64>, bytes_max: usize) -> Option<Self> {
        let mut body = Reader(stored.body);
        let socket = Id20::decode(body.bytes()?)?;
        let has_data = body.flag()?;
        let data = body.text()?;
        let deed = Deed::read(&mut body, stored.fence)?;
        if !body.is_empty() {
            return None;
        }
        let after = deed.after(shown, stored.confirmed);
        let members = deed.members();
        Some(Self {
            record: Record {
                pid: Pid::read(stored.pid)?,
                socket,
                namespace: stored.namespace.into(),
                members: members.clone(),
                uid: stored.uid.map(Into::into),
                data: has_data.then(|| data.into()),
                life: Life::default(),
            },
            deed,
            members,
            after: after.unwrap_or_default(),
            written: stored.written,
            bytes_max,
            bytes: 0,
            missed: Vec::new(),
            why: after.is_none().then_some(NotRecovered::Trimmed),
        })
    }

    /// The number after which the stream is to be read.
    pub fn after(&self) -> u64 {
        self.after
    }

    /// Whether it will not come back: no more needs to be read.
    pub fn is_over(&self) -> bool {
        self.why.is_some()
    }

    /// The stream lacks what it had up to this number.
    pub fn trimmed(&mut self, upto: u64) {
        if upto > self.after {
            self.why.get_or_insert(NotRecovered::Trimmed);
        }
    }

    /// Somebody took the socket, with this fence.
    pub fn taken(&mut self, fence: u64) {
        if fence > self.deed.fence {
            self.why.get_or_insert(NotRecovered::Claimed);
        }
    }

    /// Reads the next entry of the stream.
    pub fn read(&mut self, number: u64, letter: &[u8]) {
        // A letter of a newer version may be for the socket: nobody knows.
        let Ok(Post::Order(order)) = wire::read(letter, 0) else {
            self.why.get_or_insert(NotRecovered::Trimmed);
            return;
        };
        match order {
            Order::Broadcast(event, None) => self.say(number, event),
            Order::Join { of, rooms, .. } => self.change(number, &of, &rooms, true),
            Order::Leave { of, rooms } => self.change(number, &of, &rooms, false),
            Order::Disconnect { of, .. } if self.is_meant(number, &of) => {
                self.why.get_or_insert(NotRecovered::Disconnected);
            }
            _ => {}
        }
    }

    fn is_meant(&self, number: u64, of: &Address) -> bool {
        number > self.written && of.with(|target| self.members.are_meant(&target.aim()))
    }

    fn change(&mut self, number: u64, of: &Address, rooms: &[String], joined: bool) {
        if !self.is_meant(number, of) {
            return;
        }
        for room in rooms {
            let member = Membership::new(Kind::Room, room);
            self.deed.change(joined, &member, number);
        }
        // A later order may mean the socket by a room that this one put it into.
        self.members = self.deed.members();
    }

    fn say(&mut self, number: u64, event: Broadcast) {
        let deed = &self.deed;
        let is_for = number > self.after
            && event.to.with(|target| {
                let aim = target.aim();
                let mut named = aim.headings();
                named.any(|heading| deed.holds(heading.kind, heading.name, number))
                    && !aim
                        .except
                        .iter()
                        .any(|name| deed.holds(Kind::Room, name, number))
            });
        if !is_for {
            return;
        }
        let room = event
            .to
            .with(|target| target.aim().one_room().map(str::to_owned));
        let said = Said::from_parts(event.name, event.args, event.attachments);
        let said = said.for_room(room.as_deref()).numbered(number);
        self.bytes += said.bytes();
        if self.bytes > self.bytes_max {
            self.why.get_or_insert(NotRecovered::TooMuch);
            return;
        }
        self.missed.push((number, Arc::new(said)));
    }

    /// The record for the shard, with all that the socket may be a member of.
    pub(crate) fn record(&self) -> Record {
        Record {
            life: Life::of_deed(self.deed.clone()),
            ..self.record.clone()
        }
    }

    /// All up to this stamp was read, whose place is that of the namespace's stream.
    pub(crate) fn finish(mut self, upto: Stamp) -> Result<Handover, NotRecovered> {
        if let Some(why) = self.why {
            return Err(why);
        }
        self.deed.here = upto.number;
        let record = Record {
            members: self.members,
            life: Life::of_deed(self.deed),
            ..self.record
        };
        Ok(Handover {
            record,
            missed: self.missed,
            log: NO_JOURNAL,
            seen: [upto].into_iter().collect::<Vector>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::wire::Ask;
    use crate::dialect::speech::Emit;
    use crate::recovery::stamp::ShardLife;
    use crate::rooms::target::Target;
    use crate::tables::id::Place;

    const PID: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    /// It is in its own room since it began behind 10, and in `a` since 20.
    fn adoption(shown: Option<u64>) -> Adoption {
        let socket = Id20::decode(b"AAAAAAAAAAAAAAAAAAAA").expect("an id");
        let own = Membership::new(Kind::Room, &socket.to_string());
        let mut deed = Deed::new(10, [own, Membership::new(Kind::Everyone, "")].into_iter());
        deed.change(true, &Membership::new(Kind::Room, "a"), 20);
        let mut body = Vec::new();
        write_body(&mut body, &socket, Some("{}"), &deed);
        let stored = Stored {
            namespace: "/",
            pid: PID,
            uid: None,
            body: &body,
            fence: 2,
            confirmed: 0,
            written: 30,
        };
        Adoption::new(stored, shown, 1_000).expect("a socket")
    }

    fn letter(rooms: &[&str], except: &[&str], ask: Ask<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        let to = Target {
            namespace: "/",
            rooms,
            except,
            ..Target::default()
        };
        wire::write(&mut out, &to, ask);
        out
    }

    fn finished(adoption: Adoption) -> Result<Vec<u64>, NotRecovered> {
        let from = Place { node: 9, shard: 0 };
        let handover = adoption.finish(Stamp {
            from,
            life: ShardLife::OF_STREAMS,
            number: 99,
        })?;
        Ok(handover.missed.into_iter().map(|(at, _)| at).collect())
    }

    #[test]
    fn it_gets_what_was_for_it_behind_its_place() {
        let event = Emit::new("e", "1");
        let mut one = adoption(Some(15));
        assert_eq!(one.after(), 15);
        let say = |rooms: &[&str], except: &[&str]| letter(rooms, except, Ask::Event(&event));
        one.read(14, &say(&[], &[]));
        one.read(16, &say(&[], &[]));
        one.read(19, &say(&["a"], &[]));
        one.read(21, &say(&["a"], &[]));
        one.read(22, &say(&["a"], &["AAAAAAAAAAAAAAAAAAAA"]));
        one.read(23, &say(&["b"], &[]));
        // What was ordered by then is part of its record.
        one.read(24, &letter(&["a"], &[], Ask::Leave(&["a"])));
        one.read(31, &say(&["a"], &[]));
        one.read(32, &letter(&["a"], &[], Ask::Join(&["b"])));
        one.read(33, &say(&["b"], &[]));
        one.read(34, &letter(&["b"], &[], Ask::Leave(&["a"])));
        one.read(35, &say(&["a"], &[]));
        assert_eq!(finished(one), Ok(vec![16, 21, 31, 33]));
        assert_eq!(adoption(None).after(), 10);
    }

    #[test]
    fn in_doubt_it_is_a_new_socket() {
        let ends = |act: &dyn Fn(&mut Adoption)| {
            let mut one = adoption(None);
            act(&mut one);
            assert!(one.is_over());
            finished(one).expect_err("a reason")
        };
        assert_eq!(ends(&|one| one.trimmed(11)), NotRecovered::Trimmed);
        assert_eq!(ends(&|one| one.taken(3)), NotRecovered::Claimed);
        assert_eq!(ends(&|one| one.read(40, &[200])), NotRecovered::Trimmed);
        let kick = letter(&["a"], &[], Ask::Disconnect { close: false });
        assert_eq!(ends(&|one| one.read(40, &kick)), NotRecovered::Disconnected);
        let text = "x".repeat(2_000);
        let much = letter(&["a"], &[], Ask::Event(&Emit::new("e", &text)));
        assert_eq!(ends(&|one| one.read(40, &much)), NotRecovered::TooMuch);
        let mut fine = adoption(None);
        fine.trimmed(10);
        fine.taken(2);
        assert!(!fine.is_over());
    }
}
