//! A member of a room as a shard knows it. Each shard that has the room pays for each member, so what few members have is apart.

use super::word::Who;
use crate::tables::id::Place;
use crate::tables::slot::SocketId;
use std::num::NonZeroU64;
use std::sync::Arc;

/// Something that holds of a member, or does not.
#[derive(Clone, Copy, Debug)]
pub(super) enum Flag {
    /// It is a user, and no socket by itself.
    User = 1,
    /// Others were told that it is here.
    Told = 1 << 1,
    /// Members here were told that it is in the room.
    Shown = 1 << 2,
    /// It stands in the list of members that others are to be told of.
    Unsaid = 1 << 3,
    /// It stands in the list of members that those here are to be told of.
    Unshown = 1 << 4,
    /// The last shards that had it are gone without a word.
    Lost = 1 << 5,
    /// What others may see of it is known. Until then it is read from the data of a socket here when others are told.
    Informed = 1 << 6,
}

#[derive(Debug)]
pub(super) struct Entry {
    name: Arc<str>,
    apart: Option<Box<Apart>>,
    /// A shard that has it, too; there are more of them only if there is this one.
    elsewhere: Option<Place>,
    flags: u8,
}

#[derive(Debug, Default)]
struct Apart {
    /// Sockets here, and one of them.
    sockets: u32,
    socket: Option<SocketId>,
    /// A socket here lost its connection; until then it may come back, whatever the others do.
    lingers_ms: Option<NonZeroU64>,
    info: Arc<str>,
    /// More shards that have it.
    others: Box<[Place]>,
}

impl Apart {
    /// The bytes that it costs a member that has it.
    pub(super) const BYTES: usize = size_of::<Self>();

    fn is_empty(&self) -> bool {
        let is_here = self.sockets > 0 || self.lingers_ms.is_some();
        !is_here && self.info.is_empty() && self.others.is_empty()
    }
}

impl Entry {
    pub(super) fn new(who: &Who) -> Self {
        let (Who::User(name) | Who::Socket(name)) = who;
        let mut entry = Self {
            name: Arc::clone(name),
            apart: None,
            elsewhere: None,
            flags: 0,
        };
        entry.set(Flag::User, matches!(who, Who::User(_)));
        entry
    }

    pub(super) fn who(&self) -> Who {
        let name = Arc::clone(&self.name);
        match self.is(Flag::User) {
            true => Who::User(name),
            false => Who::Socket(name),
        }
    }

    pub(super) fn is_of(&self, who: &Who) -> bool {
        self.key() == key(who)
    }

    /// Equal for two entries of the same member.
    pub(super) fn key(&self) -> (bool, &str) {
        (self.is(Flag::User), &self.name)
    }

    pub(super) fn is(&self, flag: Flag) -> bool {
        self.flags & flag as u8 != 0
    }

    /// Whether it was so before.
    pub(super) fn set(&mut self, flag: Flag, is: bool) -> bool {
        let before = self.is(flag);
        match is {
            true => self.flags |= flag as u8,
            false => self.flags &= !(flag as u8),
        }
        before
    }

    // ---- here -------------------------------------------------------------------------------------------------------

    pub(super) fn is_here(&self) -> bool {
        self.sockets() > 0 || self.lingers_ms().is_some()
    }

    pub(super) fn is_present(&self) -> bool {
        self.is_elsewhere() || self.is_here()
    }

    pub(super) fn sockets(&self) -> u32 {
        self.apart.as_ref().map_or(0, |apart| apart.sockets)
    }

    /// One of its sockets here.
    pub(super) fn socket(&self) -> Option<SocketId> {
        self.apart.as_ref()?.socket
    }

    pub(super) fn sits_down(&mut self, socket: SocketId) {
        let apart = self.apart.get_or_insert_default();
        apart.sockets += 1;
        apart.socket.get_or_insert(socket);
    }

    /// `seat`: another socket of it.
    pub(super) fn gets_up(&mut self, socket: SocketId, seat: Option<SocketId>) {
        if let Some(apart) = &mut self.apart {
            apart.sockets -= 1;
            if apart.socket == Some(socket) {
                apart.socket = seat;
            }
        }
    }

    pub(super) fn lingers_ms(&self) -> Option<u64> {
        Some(self.apart.as_ref()?.lingers_ms?.get())
    }

    /// What it was before.
    pub(super) fn linger(&mut self, until_ms: Option<u64>) -> Option<u64> {
        let before = self.lingers_ms();
        if before != until_ms {
            // 0 means that nobody lingers, so a time of 0 becomes 1.
            let until_ms = until_ms.map(|ms| NonZeroU64::MIN.saturating_add(ms.saturating_sub(1)));
            self.apart.get_or_insert_default().lingers_ms = until_ms;
        }
        before
    }

    // ---- elsewhere --------------------------------------------------------------------------------------------------

    pub(super) fn is_elsewhere(&self) -> bool {
        self.elsewhere.is_some()
    }

    pub(super) fn is_at(&self, place: Place) -> bool {
        self.elsewhere == Some(place) || self.others().contains(&place)
    }

    fn others(&self) -> &[Place] {
        self.apart.as_ref().map_or(&[], |apart| &apart.others)
    }

    pub(super) fn appears(&mut self, place: Place) {
        if self.is_at(place) {
            return;
        }
        // A member on one other shard needs nothing apart.
        if self.elsewhere.is_none() {
            self.elsewhere = Some(place);
            return;
        }
        let others = [self.others(), &[place]].concat();
        self.apart.get_or_insert_default().others = others.into();
    }

    pub(super) fn disappears(&mut self, place: Place) {
        if !self.is_at(place) {
            return;
        }
        let all = self.elsewhere.iter().chain(self.others());
        let left: Vec<Place> = all.filter(|other| **other != place).copied().collect();
        let (first, others) = match left.split_first() {
            Some((first, others)) => (Some(*first), others),
            None => (None, &[][..]),
        };
        self.elsewhere = first;
        if let Some(apart) = &mut self.apart {
            apart.others = others.into();
        }
    }

    pub(super) fn is_nowhere_else(&mut self) {
        self.elsewhere = None;
        if let Some(apart) = &mut self.apart {
            apart.others = Box::default();
        }
    }

    // ---- bytes ------------------------------------------------------------------------------------------------------

    /// What others may see of it, if that is known.
    pub(super) fn info(&self) -> Option<Arc<str>> {
        let apart = self.apart.as_ref();
        let info = || apart.map_or_else(Arc::default, |apart| Arc::clone(&apart.info));
        self.is(Flag::Informed).then(info)
    }

    pub(super) fn set_info(&mut self, info: &Arc<str>) {
        self.set(Flag::Informed, true);
        if !info.is_empty() {
            self.apart.get_or_insert_default().info = Arc::clone(info);
        } else if let Some(apart) = &mut self.apart {
            // All entries without one share it.
            apart.info = Arc::default();
        }
    }

    /// Frees what is not needed any more after a change.
    pub(super) fn tidy(&mut self) {
        if self.apart.as_ref().is_some_and(|apart| apart.is_empty()) {
            self.apart = None;
        }
    }

    /// Besides its row.
    pub(super) fn heap_bytes(&self) -> usize {
        let apart = self.apart.as_ref();
        let apart = apart.map_or(0, |apart| {
            Apart::BYTES + size_of_val(&*apart.others) + apart.info.len()
        });
        self.name.len() + apart
    }
}

/// The same as [`Entry::key`].
pub(super) fn key(who: &Who) -> (bool, &str) {
    (matches!(who, Who::User(_)), who.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry::new(&Who::User("ann".into()))
    }

    #[test]
    fn a_member_is_small() {
        const { assert!(size_of::<Entry>() <= 32 && Apart::BYTES <= 48) }
    }

    #[test]
    fn each_place_is_there_once() {
        let place = |shard| Place { node: 1, shard };
        let mut entry = entry();
        for shard in [1, 1, 2, 3, 2] {
            entry.appears(place(shard));
        }
        let places = |entry: &Entry| usize::from(entry.is_elsewhere()) + entry.others().len();
        assert_eq!(places(&entry), 3);
        for (shard, left) in [(9, 3), (1, 2), (2, 1), (2, 1), (3, 0)] {
            entry.disappears(place(shard));
            assert_eq!((places(&entry), entry.is_at(place(shard))), (left, false));
        }
        entry.tidy();
        assert!(!entry.is_present() && entry.apart.is_none());
    }

    #[test]
    fn members_elsewhere_have_nothing_apart() {
        let mut entry = entry();
        entry.appears(Place { node: 1, shard: 0 });
        assert_eq!(entry.linger(None), None);
        entry.set_info(&Arc::default());
        assert_eq!(
            (entry.apart.is_none(), entry.info()),
            (true, Some(Arc::default()))
        );
        entry.set_info(&"{}".into());
        entry.tidy();
        assert_eq!(entry.info().as_deref(), Some("{}"));
        assert_eq!(entry.linger(Some(7)), None);
        assert_eq!(entry.linger(None), Some(7));
    }
}
