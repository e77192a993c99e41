//! Rooms whose number of members changed, or whose people did, until that is told: to handlers and other shards in rounds, and to other
//! nodes as soon as there is room on the way.

use crate::rooms::presence::Rolls;
use crate::rooms::table::{RoomKind, RoomTable, SPARE};
use crate::tables::shards::ShardSet;
use crate::tables::slot::RoomId;

/// A room whose count changed, as it is told.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) room: RoomId,
    /// Whether the handler is told; otherwise only others are.
    pub(crate) tell: bool,
    /// The other shards with members that are told, because the change was made here.
    pub(crate) announce: ShardSet,
    /// The word to other nodes: members on this shard, and whether the nodes are to answer.
    pub(crate) away: Option<(u32, bool)>,
    /// Whether other nodes cannot be told now.
    pub(crate) withheld: bool,
}

/// Each room that is marked as changed is in the list or in the round, once.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    list: Vec<RoomId>,
    /// What is left of a round through those that had changed.
    round: std::vec::IntoIter<RoomId>,
    /// Rooms whose news found no room on the way to other nodes; `None`: they are taken.
    owed: Option<Vec<RoomId>>,
}

impl Changes {
    /// The number of a room's members changed, here or on another shard.
    pub(crate) fn mark(&mut self, rooms: &mut RoomTable, room: RoomId) {
        if let Some(slot) = rooms.get_mut(room)
            && !std::mem::replace(&mut slot.news.changed, true)
        {
            self.list.push(room);
        }
    }

    /// Other nodes are told how many members a room has on this shard, though that did not change.
    pub(super) fn tell_again(&mut self, rooms: &mut RoomTable, room: RoomId, asks: bool) {
        if let Some(slot) = rooms.get_mut(room)
            && slot.kind() == RoomKind::Named
        {
            // No room has so many members, so the next count is news.
            slot.news.announced = u32::MAX;
            slot.news.asks |= asks;
            self.mark(rooms, room);
        }
    }

    pub(crate) fn any(&self) -> bool {
        let owed = self.owed.as_ref().is_some_and(|owed| !owed.is_empty());
        owed || !self.list.is_empty() || self.round.len() > 0
    }

    /// Notes whether there is room on the way to other nodes for news of rooms. News that had none are told as soon as there is. Only rooms
    /// that nodes know of, or that have members, are told, so that rooms that come and go in between make nothing grow.
    pub(crate) fn nodes_take_counts(&mut self, rooms: &mut RoomTable, take: bool) {
        if !take {
            let owed = self.owed.get_or_insert_default();
            // Rooms that went still stand in the list.
            if owed.len() > 2 * rooms.len() + SPARE {
                owed.retain(|room| rooms.get(*room).is_some_and(|room| room.news.owed));
            }
            return;
        }
        for room in self.owed.take().unwrap_or_default() {
            if let Some(slot) = rooms.get_mut(room) {
                slot.news.owed = false;
                self.mark(rooms, room);
            }
        }
    }

    /// The next room whose number of members or whose people changed. A round goes once over all that had changed when it began: rooms that
    /// are told later than others come in the next one.
    pub(super) fn next(&mut self) -> Option<RoomId> {
        self.round.next()
    }

    /// Begins a round, if none is under way.
    pub(super) fn begin_round(&mut self) {
        if self.is_round_over() {
            self.round = std::mem::take(&mut self.list).into_iter();
        }
    }

    pub(super) fn is_round_over(&self) -> bool {
        self.round.len() == 0
    }

    /// What is told now of a room that changed. The larger a room, the less often: telling its members costs at most about a thousand
    /// deliveries a second.
    pub(super) fn change(
        &mut self,
        (rooms, rolls): (&mut RoomTable, &mut Rolls),
        room: RoomId,
        now_ms: u64,
    ) -> Option<Change> {
        let me = rooms.me();
        let slot = rooms.get_mut(room)?;
        let named = slot.kind() == RoomKind::Named && !slot.own;
        let here = slot.members.len() as u32;
        let waits = named && rolls.waits(room, now_ms);
        let paced = named && now_ms < slot.news.told_ms + u64::from(here);
        slot.news.changed = waits || paced;
        if slot.news.changed {
            self.list.push(room);
        }
        // Others are told of people at once: they tell their own members at their own pace.
        let says = !waits && named && rolls.has_news(room);
        if slot.news.changed && !says {
            return None;
        }
        let is_news = says || named && slot.news.announced != here;
        let announce = match is_news {
            true => slot.elsewhere(me),
            false => ShardSet::default(),
        };
        let news = &mut slot.news;
        if !paced {
            news.told_ms = now_ms;
        }
        let withheld = self.owed.is_some();
        let away = match &mut self.owed {
            Some(owed) if is_news => {
                if !std::mem::replace(&mut news.owed, true) {
                    owed.push(room);
                }
                None
            }
            _ => {
                news.announced = here;
                is_news.then(|| (here, std::mem::take(&mut news.asks)))
            }
        };
        Some(Change {
            room,
            tell: named && !paced,
            announce,
            away,
            withheld,
        })
    }

    /// Members came over from another process, which is no change that anybody is told of. Rooms whose members are told of each other say
    /// all they have, as to anybody new.
    pub(super) fn forget(&mut self, rooms: &mut RoomTable, rolls: &Rolls) {
        let round = std::mem::take(&mut self.round);
        for room in round.chain(std::mem::take(&mut self.list)) {
            if rolls.holds(room) {
                self.list.push(room);
            } else if let Some(slot) = rooms.get_mut(room) {
                slot.news.changed = false;
                slot.news.announced = slot.members.len() as u32;
            }
        }
    }

    /// Whether the room is in the list of those that changed.
    pub(crate) fn lists(&self, room: RoomId) -> bool {
        self.list.contains(&room) || self.round.as_slice().contains(&room)
    }

    pub(super) fn shrink(&mut self) {
        self.list.shrink_to(SPARE);
    }

    pub(super) fn heap_bytes(&self) -> usize {
        (self.list.capacity() + self.round.len()) * size_of::<RoomId>()
    }
}
