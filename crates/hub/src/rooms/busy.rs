//! The busiest rooms of a shard: the room of one event in sixteen is noted, in tables that do not grow. A room that is not in them and
//! comes takes the place of the quietest, with its figures: so a room with more than one in 64 of the deliveries is there, and a quiet one
//! may seem busier than it is.

use crate::bounds::BUSY_WINDOW_MS;
use crate::tables::slot::RoomId;

/// One event in so many is looked at: as many as `EVERY_BITS` can count.
const EVERY: u64 = 1 << EVERY_BITS;
const EVERY_BITS: u32 = 4;
/// Rooms that are told apart.
const PLACES: usize = 64;

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
    /// The length of the window before; 0: there is none.
    before_ms: u64,
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
        // Both tables have all their room from the start: nothing is allocated while events pass.
        Self {
            now: Vec::with_capacity(PLACES),
            before: Vec::with_capacity(PLACES),
            began_ms: 0,
            before_ms: 0,
        }
    }
}

impl Busy {
    /// Whether the event with this number is looked at. The number is mixed well, or rooms that are spoken to in turns would be seen by
    /// some beat of theirs, or never.
    #[inline]
    pub(crate) fn wants(number: u64) -> bool {
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        mixed >> (u64::BITS - EVERY_BITS) == 0
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
        if gone_ms < BUSY_WINDOW_MS && self.began_ms > 0 {
            return;
        }
        // Nobody spoke for two windows: what was before is no news.
        let is_late = gone_ms >= 2 * BUSY_WINDOW_MS;
        let is_first = self.began_ms == 0;
        self.before_ms = if is_first || is_late { 0 } else { gone_ms };
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
        if gone_ms >= 2 * BUSY_WINDOW_MS {
            return Vec::new();
        }
        // A window that is long enough needs no other one.
        let (before, before_ms) = match gone_ms < BUSY_WINDOW_MS {
            true => (&self.before[..], self.before_ms),
            false => (&[][..], 0),
        };
        let seconds = (before_ms + gone_ms).max(1_000) as f64 / 1e3;
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

    /// A tick over so many rooms, in the same order each time.
    #[test]
    fn rooms_that_are_spoken_to_in_turns_are_seen_alike() {
        for period in [1, 2, 3, 16, 21, 32, 34, 48, 55, 64, 144, 233, 256] {
            let mut seen = vec![0_u64; period];
            let rounds = 4_096;
            for number in 0..period * rounds {
                seen[number % period] += u64::from(Busy::wants(number as u64));
            }
            let fair = rounds as u64 / EVERY;
            let (least, most) = (seen.iter().min(), seen.iter().max());
            assert!(least > Some(&(fair / 2)), "{period}: {least:?} of {fair}");
            assert!(most < Some(&(fair * 3 / 2)), "{period}: {most:?} of {fair}");
        }
    }

    #[test]
    fn a_window_is_as_long_as_it_was() {
        let (rooms, mut busy) = (rooms(1), Busy::default());
        let real = EVERY as f64 / 10.0;
        let about = |pace: f64| (0.9 * real..1.1 * real).contains(&pace);
        // Each ten seconds: the first window is of twenty.
        for second in [10, 20, 30] {
            busy.note(second * 1_000, rooms[0], 1);
        }
        let pace = busy.paces(39_900)[0].events_per_s;
        assert!(about(pace), "{pace}");
        let pace = busy.paces(49_900)[0].events_per_s;
        assert!(pace < real, "only the window that goes on: {pace}");
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
