//! What the store knows of a socket that may come back when its node died: which events of the one stream were for it.

use crate::bounds::PAST_MEMBERSHIPS_MAX;
use crate::recovery::headings::{Kind, Membership};
use crate::recovery::members::Members;
use crate::recovery::repeated::Stood;
use crate::tables::bytes::{Reader, bytes, number};
use std::collections::VecDeque;

const KINDS: [Kind; 4] = [Kind::Everyone, Kind::Room, Kind::User, Kind::Socket];

/// The socket was a member for the events with a number above `after`, up to `upto`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stay {
    member: Membership,
    after: u64,
    upto: u64,
}

impl Stay {
    fn is_of(&self, kind: Kind, name: &str) -> bool {
        self.member.kind == kind && *self.member.name == *name
    }
}

/// The stays of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deed {
    /// Each later owner has a larger one.
    pub(crate) fence: u64,
    /// The socket began after this number: nothing up to it was for the socket.
    begun: u64,
    /// The socket came to this node at this number: it did not hear here what was told before.
    pub(crate) here: u64,
    /// Nobody knows what was for the socket of all that has a number up to here.
    floor: u64,
    /// Memberships that it has now.
    open: Vec<Stay>,
    past: VecDeque<Stay>,
    /// It changed, and no word to the store says so yet.
    pub(crate) is_dirty: bool,
    /// When the store was told its client's place last, monotonic milliseconds.
    pub(crate) told_ms: u64,
    /// It was stored anew since then (`told_ms`).
    pub(crate) is_renewed: bool,
    /// Its client may not know yet that it lost something: the store is told that nobody knows what was for it.
    pub(crate) is_doubted: bool,
    /// Its client said something that may not be stored yet.
    pub(crate) has_said: bool,
    /// The ticket of its last word to the store.
    pub(crate) ticket: u64,
}

impl Deed {
    pub(crate) fn new(begun: u64, members: impl Iterator<Item = Membership>) -> Self {
        let open = members.map(|member| Stay {
            member,
            after: begun,
            upto: u64::MAX,
        });
        Self {
            fence: 1,
            begun,
            here: begun,
            floor: 0,
            open: open.collect(),
            past: VecDeque::new(),
            is_dirty: false,
            told_ms: 0,
            is_renewed: false,
            is_doubted: false,
            has_said: false,
            ticket: 0,
        }
    }

    /// A membership begins or ends after this number.
    pub(crate) fn change(&mut self, joined: bool, member: &Membership, at: u64) {
        let kind = member.kind;
        let known = self
            .open
            .iter()
            .position(|stay| stay.is_of(kind, &member.name));
        match (joined, known) {
            (true, None) => self.open.push(Stay {
                member: member.clone(),
                after: at,
                upto: u64::MAX,
            }),
            (false, Some(index)) => {
                let mut stay = self.open.swap_remove(index);
                stay.upto = at;
                self.past.push_back(stay);
                if self.past.len() > PAST_MEMBERSHIPS_MAX
                    && let Some(oldest) = self.past.pop_front()
                {
                    self.floor = self.floor.max(oldest.upto);
                }
            }
            // A second join keeps the first beginning: what was said since then was for the socket.
            (true, Some(_)) | (false, None) => {}
        }
    }

    /// The store lost what nobody knows up to this number.
    pub(crate) fn forgets(&mut self, upto: u64) {
        self.floor = self.floor.max(upto);
    }

    /// What its client missed is read from after this number; `None`: not all of it can be known.
    pub(crate) fn after(&self, shown: Option<u64>, confirmed: u64) -> Option<u64> {
        let after = shown.unwrap_or_default().max(confirmed).max(self.begun);
        (!self.is_doubted && after >= self.floor).then_some(after)
    }

    /// Whether it was a member when that was said.
    pub(crate) fn holds(&self, kind: Kind, name: &str, at: u64) -> bool {
        let mut all = self.open.iter().chain(&self.past);
        all.any(|stay| stay.is_of(kind, name) && stay.after < at && at <= stay.upto)
    }

    /// Whether the socket was told all of that here.
    pub(crate) fn heard(&self, kind: Kind, name: &str, stood: Stood) -> bool {
        let mut all = self.open.iter().chain(&self.past);
        let mut stayed = || {
            all.any(|stay| {
                stay.is_of(kind, name) && stay.after < stood.from && stood.upto <= stay.upto
            })
        };
        self.here < stood.from && stayed()
    }

    pub(crate) fn members(&self) -> Members {
        self.open.iter().map(|stay| stay.member.clone()).collect()
    }

    pub(crate) fn bytes(&self) -> usize {
        let all = self.open.iter().chain(&self.past);
        let names = all.map(|stay| size_of::<Stay>() + stay.member.name.len());
        size_of::<Self>() + names.sum::<usize>()
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        number(out, self.begun);
        number(
            out,
            // A client may not know of its gap: the highest floor says that nobody knows what was for it (ADR 67).
            if self.is_doubted {
                u64::MAX
            } else {
                self.floor
            },
        );
        number(out, (self.open.len() + self.past.len()) as u64);
        for stay in self.open.iter().chain(&self.past) {
            out.push(stay.member.kind as u8);
            bytes(out, stay.member.name.as_bytes());
            number(out, stay.after);
            number(out, stay.upto);
        }
    }

    /// `None`: it is none.
    pub(crate) fn read(body: &mut Reader<'_>, fence: u64) -> Option<Self> {
        let (begun, floor) = (body.number()?, body.number()?);
        let is_doubted = floor == u64::MAX;
        let stays = body.list(|one| {
            let kind = KINDS.get(usize::from(one.byte()?))?;
            Some(Stay {
                member: Membership::new(*kind, &one.text()?),
                after: one.number()?,
                upto: one.number()?,
            })
        })?;
        let (open, past) = stays.into_iter().partition(|stay| stay.upto == u64::MAX);
        let past: Vec<Stay> = past;
        Some(Self {
            fence,
            begun,
            // This node has told it nothing so far.
            here: u64::MAX,
            floor: if is_doubted { 0 } else { floor },
            open,
            past: past.into(),
            is_dirty: false,
            told_ms: 0,
            is_renewed: false,
            is_doubted,
            has_said: false,
            ticket: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(name: &str) -> Membership {
        Membership::new(Kind::Room, name)
    }

    #[test]
    fn it_was_a_member_of_what_was_said_between_joining_and_leaving() {
        let mut deed = Deed::new(10, [Membership::new(Kind::Everyone, "")].into_iter());
        deed.change(true, &room("a"), 20);
        deed.change(true, &room("a"), 25);
        deed.change(false, &room("a"), 30);
        deed.change(true, &room("a"), 40);
        let mut out = Vec::new();
        deed.write(&mut out);
        let mut read = Deed::read(&mut Reader(&out), 1).expect("a deed");
        read.here = deed.here;
        assert_eq!(read, deed);
        let of = |at| read.holds(Kind::Room, "a", at);
        let all = [20, 21, 30, 31, 40, 41].map(of);
        assert_eq!(all, [false, true, true, false, false, true]);
        assert!(!read.holds(Kind::Everyone, "", 10) && read.holds(Kind::Everyone, "", 11));
        assert_eq!(read.after(None, 0), Some(10));
        assert_eq!(read.after(Some(15), 0), Some(15));
        assert_eq!(read.after(Some(15), 17), Some(17));
    }

    #[test]
    fn somebody_who_left_meanwhile_did_not_hear_all() {
        let mut deed = Deed::new(10, std::iter::empty());
        deed.change(true, &room("a"), 20);
        deed.change(false, &room("a"), 30);
        deed.change(true, &room("a"), 40);
        let heard = |from, upto| deed.heard(Kind::Room, "a", Stood { from, upto });
        assert!(heard(21, 30) && heard(41, 90));
        assert!(!heard(20, 25) && !heard(25, 31) && !heard(21, 41) && !heard(35, 36));
        // It came from another node since.
        deed.here = 50;
        assert!(!deed.heard(Kind::Room, "a", Stood::at(50)));
        assert!(deed.heard(Kind::Room, "a", Stood::at(51)));
    }

    #[test]
    fn what_is_forgotten_is_not_known() {
        let mut deed = Deed::new(0, std::iter::empty());
        for n in 0..100 {
            deed.change(true, &room("a"), 2 * n + 1);
            deed.change(false, &room("a"), 2 * n + 2);
        }
        assert_eq!(deed.after(Some(10), 0), None);
        assert_eq!(deed.after(Some(150), 0), Some(150));
        deed.forgets(1_000);
        assert_eq!(deed.after(Some(999), 0), None);
        assert_eq!(deed.after(Some(999), 1_000), Some(1_000));
    }

    #[test]
    fn noise_is_no_deed() {
        let mut deed = Deed::new(7, [room("a"), room("b")].into_iter());
        deed.change(false, &room("a"), 9);
        let mut whole = Vec::new();
        deed.write(&mut whole);
        for end in 0..whole.len() {
            assert_eq!(Deed::read(&mut Reader(&whole[..end]), 1), None, "{end}");
        }
    }
}
