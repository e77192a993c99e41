//! The busiest rooms of a shard: the room of one event in sixteen is noted, in tables that do not grow. A room that is not in them and comes
//! takes the place of the quietest, with its figures: so a busy room is always there, and a quiet one may seem busier than it is.

use crate::tables::slot::RoomId;

/// One event in so many is looked at; a power of two.
const EVERY: u64 = 16;
/// Rooms that are told apart.
const PLACES: usize = 64;
/// The last whole window is shown with the one that fills.
const WINDOW_MS: u64 = 15_000;

#[derive(Clone, Copy, Debug)]
struct Place {
    room: RoomId,
    events: u64,
    deliveries: u64,
}

#[derive(Debug)]
pub(crate) struct Busy {
    now: Vec<Place>,
    before: Vec<Place>,
    began_ms: u64,
    /// A whole window went before.
    is_warm: bool,
}

/// A room, and what went to its members here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pace {
    pub(crate) room: RoomId,
    pub(crate) events_per_s: f64,
    pub(crate) deliveries_per_s: f64,
}

impl Default for Busy {
    fn default() -> Self {
        // They are there before the first event: nothing is allocated while events pass.
        Self {
            now: Vec::with_capacity(PLACES),
            before: Vec::with_capacity(PLACES),
            began_ms: 0,
            is_warm: false,
        }
    }
}

impl Busy {
    /// Whether the event with this number is looked at.
    #[inline]
    pub(crate) fn wants(number: u64) -> bool {
        number.is_multiple_of(EVERY)
    }

    /// An event goes to so many members of a room.
    #[cold]
    pub(crate) fn note(&mut self, now_ms: u64, room: RoomId, members: usize) {
        self.pass_time(now_ms);
        let known = self.now.iter().position(|place| place.room == room);
        let at = known.unwrap_or_else(|| self.place_of_newcomer(room));
        if let Some(place) = self.now.get_mut(at) {
            place.room = room;
            place.events += 1;
            place.deliveries += members as u64;
        }
    }

    /// A free place, or that of the quietest.
    fn place_of_newcomer(&mut self, room: RoomId) -> usize {
        if self.now.len() < PLACES {
            let (events, deliveries) = (0, 0);
            self.now.push(Place {
                room,
                events,
                deliveries,
            });
            return self.now.len() - 1;
        }
        let places = self.now.iter().enumerate();
        let quietest = places.min_by_key(|(_, place)| place.deliveries);
        quietest.map_or(0, |(at, _)| at)
    }

    fn pass_time(&mut self, now_ms: u64) {
        let gone_ms = now_ms.saturating_sub(self.began_ms);
        if gone_ms < WINDOW_MS && self.began_ms > 0 {
            return;
        }
        // Nobody spoke for longer: what was before is no news.
        let is_late = gone_ms >= 2 * WINDOW_MS;
        self.is_warm = self.began_ms > 0 && !is_late;
        std::mem::swap(&mut self.now, &mut self.before);
        self.now.clear();
        if is_late {
            self.before.clear();
        }
        self.began_ms = now_ms;
    }

    /// The room is no more: another one may get its number.
    pub(crate) fn forget(&mut self, room: RoomId) {
        self.now.retain(|place| place.room != room);
        self.before.retain(|place| place.room != room);
    }

    /// The busiest first.
    pub(crate) fn paces(&self, now_ms: u64) -> Vec<Pace> {
        let gone_ms = now_ms.saturating_sub(self.began_ms);
        if gone_ms >= 2 * WINDOW_MS {
            return Vec::new();
        }
        let before = if self.is_warm { &self.before[..] } else { &[] };
        let whole_ms = if self.is_warm { WINDOW_MS } else { 0 };
        let seconds = (whole_ms + gone_ms).max(1_000) as f64 / 1e3;
        let mut rooms: Vec<Place> = self.now.clone();
        for place in before {
            match rooms.iter_mut().find(|known| known.room == place.room) {
                Some(known) => {
                    known.events += place.events;
                    known.deliveries += place.deliveries;
                }
                None => rooms.push(*place),
            }
        }
        rooms.sort_by_key(|place| std::cmp::Reverse(place.deliveries));
        let a_second = |count: u64| (count * EVERY) as f64 / seconds;
        let pace = |place: Place| Pace {
            room: place.room,
            events_per_s: a_second(place.events),
            deliveries_per_s: a_second(place.deliveries),
        };
        rooms.into_iter().map(pace).collect()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        (self.now.capacity() + self.before.capacity()) * size_of::<Place>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::slab::Slab;

    fn rooms(count: usize) -> Vec<RoomId> {
        let mut slots = Slab::<RoomId, (), ()>::default();
        (0..count).map(|_| slots.insert(()).id()).collect()
    }

    #[test]
    fn a_busy_room_is_found_among_thousands_of_quiet_ones() {
        let (rooms, mut busy) = (rooms(2_000), Busy::default());
        for second in 1..=20_u64 {
            for (n, room) in rooms.iter().enumerate() {
                busy.note(second * 1_000, *room, 1);
                if n % 10 == 0 {
                    busy.note(second * 1_000, rooms[7], 50);
                }
            }
        }
        let paces = busy.paces(20_000);
        assert_eq!(paces[0].room, rooms[7]);
        let pace = paces[0].deliveries_per_s;
        let real = (EVERY * 200 * 50) as f64;
        assert!((0.9 * real..1.2 * real).contains(&pace), "{pace}");
        assert!(paces.len() <= 2 * PLACES);
        assert!(busy.now.capacity() <= PLACES, "{}", busy.now.capacity());
    }

    #[test]
    fn what_is_long_ago_is_forgotten_and_so_is_a_room_that_went() {
        let (rooms, mut busy) = (rooms(2), Busy::default());
        busy.note(1_000, rooms[0], 3);
        busy.note(1_000, rooms[1], 2);
        busy.forget(rooms[0]);
        let paces = busy.paces(2_000);
        assert_eq!((paces.len(), paces[0].room), (1, rooms[1]));
        assert!(busy.paces(40_000).is_empty());
        busy.note(60_000, rooms[0], 1);
        let paces = busy.paces(60_500);
        assert_eq!((paces.len(), paces[0].events_per_s), (1, EVERY as f64));
    }
}
