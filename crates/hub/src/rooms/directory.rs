//! Which shards of the process hold members of a room, and how many members it has: one card for each room, shared by all
//! hubs. A member's shard writes the card before the member is told that it joined, and a publisher reads the card, so nobody
//! who acts on a join publishes past the new member. A room costs one card, however many shards there are.

use crate::tables::interest::Subject;
use crate::tables::shards::{self, ShardSet, WORDS};
use papaya::{Equivalent, HashMap};
use std::hash::{Hash, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum RoomKind {
    /// Every socket of the namespace.
    All,
    /// A room by its name.
    Named,
}

impl RoomKind {
    /// The kind of thing that its key names.
    pub(crate) fn subject(self) -> Subject {
        match self {
            Self::All => Subject::Namespace,
            Self::Named => Subject::Room,
        }
    }
}

/// The name of a room in the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RoomName<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) kind: RoomKind,
    pub(crate) name: &'a str,
}

#[derive(Debug)]
pub(crate) struct Card {
    namespace: Arc<str>,
    kind: RoomKind,
    name: Arc<str>,
    shards: [AtomicU64; WORDS],
    /// On all shards.
    members: AtomicU64,
    /// Shards with members and joins under way; `DEAD` once the last one is gone, and for ever.
    holders: AtomicU32,
    /// Joins that shards were asked for and have not carried out: any shard may have members.
    expected: AtomicU32,
}

const DEAD: u32 = u32::MAX;

impl Card {
    fn room(&self) -> RoomName<'_> {
        RoomName {
            namespace: &self.namespace,
            kind: self.kind,
            name: &self.name,
        }
    }

    /// Shards that may have members, of so many.
    pub(crate) fn shards(&self, shards: u16) -> ShardSet {
        if self.expected.load(SeqCst) > 0 {
            return ShardSet::first(shards);
        }
        ShardSet::from_words(std::array::from_fn(|word| self.shards[word].load(SeqCst)))
    }

    pub(crate) fn members(&self) -> u64 {
        self.members.load(SeqCst)
    }

    pub(crate) fn joined(&self) {
        self.members.fetch_add(1, SeqCst);
    }

    pub(crate) fn left(&self) {
        let before = self.members.fetch_sub(1, SeqCst);
        debug_assert!(before > 0, "nobody was in {:?}", self.room());
    }

    /// One holder more, unless the card is already on its way out.
    fn hold(&self) -> bool {
        let more = |holders| (holders != DEAD).then(|| holders + 1);
        self.holders.fetch_update(SeqCst, SeqCst, more).is_ok()
    }

    /// One holder less; `true` if it was the last one and nobody came meanwhile.
    fn release(&self) -> bool {
        // Between the two steps somebody may come: then the count is not 0 any more, and the card stays.
        let last = self.holders.fetch_sub(1, SeqCst) == 1;
        last && self
            .holders
            .compare_exchange(0, DEAD, SeqCst, SeqCst)
            .is_ok()
    }

    /// Bytes of a card and its place in the directory, shared evenly by its holders.
    pub(crate) fn heap_share(&self) -> usize {
        const ENTRY: usize = 48;
        let whole = size_of::<Self>() + ENTRY;
        whole / self.holders.load(SeqCst).max(1) as usize
    }
}

/// A card in the table, where its room's name finds it.
#[derive(Debug)]
struct Entry(Arc<Card>);

impl Hash for Entry {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.room().hash(state);
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.0.room() == other.0.room()
    }
}

impl Eq for Entry {}

impl Equivalent<Entry> for RoomName<'_> {
    fn equivalent(&self, entry: &Entry) -> bool {
        *self == entry.0.room()
    }
}

/// Cards by room. Names are chosen by clients, hence the keyed hash.
#[derive(Debug)]
pub(crate) struct Directory {
    cards: HashMap<Entry, (), RandomState>,
}

impl Default for Directory {
    fn default() -> Self {
        Self {
            cards: HashMap::with_hasher(RandomState::new()),
        }
    }
}

impl Directory {
    /// The card of a room, held once more.
    fn take(&self, namespace: &Arc<str>, kind: RoomKind, name: &Arc<str>) -> Arc<Card> {
        let cards = self.cards.pin();
        let room = RoomName {
            namespace,
            kind,
            name,
        };
        loop {
            let found = cards.get_key_value(&room);
            let card = found.map_or_else(
                || {
                    Arc::new(Card {
                        namespace: Arc::clone(namespace),
                        kind,
                        name: Arc::clone(name),
                        shards: Default::default(),
                        members: AtomicU64::new(0),
                        holders: AtomicU32::new(0),
                        expected: AtomicU32::new(0),
                    })
                },
                |(Entry(card), ())| Arc::clone(card),
            );
            // Another shard may be faster with a card of its own.
            if found.is_none() && cards.try_insert(Entry(Arc::clone(&card)), ()).is_err() {
                continue;
            }
            if card.hold() {
                return card;
            }
            // Its last holder is about to take it out. Either of us may do it; then there is place for a new one.
            self.remove(&card);
        }
    }

    fn remove(&self, card: &Arc<Card>) {
        let cards = self.cards.pin();
        // The name may belong to another card by now.
        let _ = cards.remove_if(&card.room(), |entry, ()| Arc::ptr_eq(&entry.0, card));
    }

    fn give_back(&self, card: &Arc<Card>) {
        if card.release() {
            self.remove(card);
        }
    }

    /// A shard is about to have members of a room.
    pub(crate) fn enter(
        &self,
        namespace: &Arc<str>,
        kind: RoomKind,
        name: &Arc<str>,
        shard: u16,
    ) -> Arc<Card> {
        let card = self.take(namespace, kind, name);
        let (word, bit) = shards::place(shard);
        card.shards[word].fetch_or(bit, SeqCst);
        card
    }

    /// A shard has no members of a room any more.
    pub(crate) fn leave(&self, card: &Arc<Card>, shard: u16) {
        let (word, bit) = shards::place(shard);
        card.shards[word].fetch_and(!bit, SeqCst);
        self.give_back(card);
    }

    /// Other shards were asked to let sockets join a room.
    pub(crate) fn expect(self: &Arc<Self>, namespace: &str, name: &str) -> Expected {
        let card = self.take(&namespace.into(), RoomKind::Named, &name.into());
        card.expected.fetch_add(1, SeqCst);
        Expected {
            card,
            directory: Arc::clone(self),
        }
    }

    /// What is read on a room's card, if it has one.
    pub(crate) fn read<R>(&self, room: RoomName<'_>, read: impl FnOnce(&Card) -> R) -> Option<R> {
        let cards = self.cards.pin();
        let (Entry(card), ()) = cards.get_key_value(&room)?;
        Some(read(card))
    }
}

/// A join that other shards carry out. It goes with the letter that asks for it, and ends with the last copy of it: from when
/// the letter is written until all have done as it says, what is published to the room goes to every shard.
#[derive(Debug)]
pub struct Expected {
    card: Arc<Card>,
    directory: Arc<Directory>,
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.card.expected.fetch_sub(1, SeqCst);
        self.directory.give_back(&self.card);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> RoomName<'_> {
        RoomName {
            namespace: "/",
            kind: RoomKind::Named,
            name,
        }
    }

    fn enter(directory: &Directory, name: &str, shard: u16) -> Arc<Card> {
        directory.enter(&"/".into(), RoomKind::Named, &name.into(), shard)
    }

    fn shards(directory: &Directory, name: &str) -> Option<Vec<u16>> {
        directory.read(named(name), |card| card.shards(4).iter().collect())
    }

    #[test]
    fn a_card_lists_the_shards_that_hold_it() {
        let directory = Directory::default();
        assert_eq!(shards(&directory, "r"), None);
        let (one, three) = (enter(&directory, "r", 1), enter(&directory, "r", 3));
        assert_eq!(shards(&directory, "r"), Some(vec![1, 3]));
        assert_eq!(shards(&directory, "s"), None);
        directory.leave(&one, 1);
        assert_eq!(shards(&directory, "r"), Some(vec![3]));
        directory.leave(&three, 3);
        assert!(directory.cards.is_empty());
    }

    #[test]
    fn while_a_join_is_expected_every_shard_is_meant() {
        let directory = Arc::new(Directory::default());
        let (here, expected) = (enter(&directory, "r", 1), directory.expect("/", "r"));
        assert_eq!(shards(&directory, "r"), Some(vec![0, 1, 2, 3]));
        drop(expected);
        assert_eq!(shards(&directory, "r"), Some(vec![1]));
        directory.leave(&here, 1);
        drop(directory.expect("/", "r"));
        assert!(directory.cards.is_empty());
    }

    /// A card that one shard takes out while another comes must not be written by the newcomer: nobody would read it.
    #[test]
    fn shards_that_come_and_go_at_once_always_find_themselves_on_the_card() {
        let directory = Directory::default();
        std::thread::scope(|scope| {
            for shard in 0..4u16 {
                let directory = &directory;
                scope.spawn(move || {
                    for n in 0..20_000 {
                        let name = ["a", "b"][n % 2];
                        let card = enter(directory, name, shard);
                        card.joined();
                        let found = shards(directory, name).expect("a card");
                        assert!(found.contains(&shard), "shard {shard} is not on {found:?}");
                        card.left();
                        directory.leave(&card, shard);
                    }
                });
            }
        });
        assert!(directory.cards.is_empty());
    }
}
