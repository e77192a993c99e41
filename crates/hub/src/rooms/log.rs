//! The last events of rooms, kept in memory by the home of their namespace for clients that join later. Bounded in events, bytes and
//! rooms.
//!
//! One sequence of offsets for all rooms of a home: an offset names a place in every room, also in one that keeps nothing yet, or
//! nothing any more.

mod handing;

use crate::books::faults::{self, Fault};
use crate::books::ledger::{Account, Booked};
use crate::bounds::{HISTORY_BYTES_MAX, HISTORY_EVENTS_MAX, HISTORY_ROOMS_MAX};
use crate::rooms::keeping::{Keeping, Record};
use crate::tables::id::Ids;
use crate::tables::position::Position;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// What a room keeps, for a client that comes.
#[derive(Debug, Default)]
pub struct Kept {
    /// Raw JSON, separated by commas.
    pub(crate) events: String,
    /// The client has then all of the room up to here.
    pub(crate) at: Option<Position>,
    /// The client said what it has, and these are all that it missed, or may not be.
    pub(crate) resumed: Option<bool>,
}

#[derive(Debug)]
struct Ring {
    /// Each with its offset.
    events: VecDeque<(u64, Arc<str>)>,
    bytes: Booked,
    /// The offset of the last event that should be here and is not.
    floor: u64,
}

#[derive(Debug)]
pub(crate) struct Log {
    /// Which events are kept, and what of them.
    pub(crate) keeping: Arc<Keeping>,
    rooms: HashMap<(String, String), Ring>,
    /// A random name: positions of another process, or of another shard, are not taken for its own. 0: not named yet.
    name: u64,
    /// The last one that was given.
    offset: u64,
    /// The offset of the last event that a room without a ring had and forgot.
    floor: u64,
    /// Holds the bytes of all rings.
    account: Account,
    /// Another process has it, and gives out its next positions.
    is_over: bool,
}

impl Ring {
    /// The last one that is gone is at this offset.
    fn new(floor: u64, account: &Account) -> Self {
        Self {
            events: VecDeque::new(),
            bytes: account.entry(),
            floor,
        }
    }

    /// The offset of the last event that is here or should be.
    fn last(&self) -> u64 {
        let last = self.events.back().map_or(0, |(offset, _)| *offset);
        last.max(self.floor)
    }

    fn push(&mut self, offset: u64, event: Arc<str>) {
        // A program may name a room twice.
        if self.events.back().is_some_and(|(last, _)| *last == offset) {
            return;
        }
        let mut bytes = self.bytes.bytes() + event.len();
        self.events.push_back((offset, event));
        while (self.events.len() > HISTORY_EVENTS_MAX || bytes > HISTORY_BYTES_MAX)
            && let Some((offset, event)) = self.events.pop_front()
        {
            bytes -= event.len();
            self.floor = self.floor.max(offset);
        }
        self.bytes.set(bytes);
    }
}

impl Log {
    pub(crate) fn new(account: Account) -> Self {
        Self {
            keeping: Arc::default(),
            rooms: HashMap::new(),
            name: 0,
            offset: 0,
            floor: 0,
            account,
            is_over: false,
        }
    }

    /// Another process goes on with it: here no position is given any more.
    pub(crate) fn end(&mut self) {
        self.is_over = true;
    }

    fn head(&mut self, ids: &mut Ids) -> Position {
        while self.name == 0 {
            self.name = match faults::is_back(Fault::LogsAlike) {
                true => 1,
                false => u64::from_be_bytes(ids.random()),
            };
        }
        let (log, offset) = (self.name, self.offset);
        Position { log, offset }
    }

    /// Keeps an event of these rooms; its position, if it is kept.
    pub(crate) fn append<'a>(
        &mut self,
        ids: &mut Ids,
        namespace: &str,
        rooms: impl Iterator<Item = &'a str>,
        record: Record,
    ) -> Option<Position> {
        let text = match record {
            _ if self.is_over => return None,
            Record::Passing => return None,
            Record::Lost => None,
            Record::Kept(text) => Some(text),
        };
        let mut any = false;
        for room in rooms {
            // All rooms of an event share one offset, and an event without rooms takes none.
            if !std::mem::replace(&mut any, true) {
                self.offset += 1;
            }
            // Nobody is ever in a room without a name.
            if room.is_empty() {
                continue;
            }
            match &text {
                Some(text) => self.keep(namespace, room, text),
                None => self.miss(namespace, room),
            }
        }
        let kept = any && text.is_some();
        kept.then(|| self.head(ids))
    }

    fn keep(&mut self, namespace: &str, room: &str, text: &Arc<str>) {
        let key = (namespace.to_owned(), room.to_owned());
        if self.rooms.len() >= HISTORY_ROOMS_MAX && !self.rooms.contains_key(&key) {
            self.evict();
        }
        let ring = self.rooms.entry(key);
        // The room may have had a ring that is forgotten, so it begins at the common floor.
        let ring = ring.or_insert_with(|| Ring::new(self.floor, &self.account));
        ring.push(self.offset, Arc::clone(text));
        while self.account.is_exceeded() {
            self.evict();
        }
    }

    /// Forgets what these rooms keep, or all rooms of the namespace when none is named. Clients that missed something of it are not told
    /// that they have all.
    pub(crate) fn forget(&mut self, namespace: &str, rooms: &[&str]) {
        for (key, ring) in &mut self.rooms {
            if key.0 == namespace && (rooms.is_empty() || rooms.contains(&&*key.1)) {
                *ring = Ring::new(ring.last(), &self.account);
            }
        }
    }

    /// Notes an event that cannot be kept: a client that missed it is not told that it has all.
    fn miss(&mut self, namespace: &str, room: &str) {
        let key = (namespace.to_owned(), room.to_owned());
        let floor = match self.rooms.get_mut(&key) {
            Some(ring) => &mut ring.floor,
            None => &mut self.floor,
        };
        *floor = self.offset;
    }

    /// Makes room by forgetting a sixteenth of the rooms, those written longest ago.
    fn evict(&mut self) {
        // One look through all rooms frees many, or each new room would cost such a look.
        let mut written: Vec<u64> = self.rooms.values().map(Ring::last).collect();
        written.sort_unstable();
        let limit = written.get(written.len() / 16).copied().unwrap_or(u64::MAX);
        self.rooms.retain(|_, ring| ring.last() > limit);
        self.floor = self.floor.max(limit.min(self.offset));
    }

    /// The bytes of all events, counted anew for the census.
    pub(crate) fn audit(&self) -> usize {
        let events = self.rooms.values().flat_map(|ring| &ring.events);
        events.map(|(_, event)| event.len()).sum()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let names = |(namespace, room): &(String, String)| namespace.len() + room.len();
        let entry = size_of::<(u64, Arc<str>)>() + 2 * size_of::<usize>();
        let rings: usize = self
            .rooms
            .iter()
            .map(|(key, ring)| names(key) + ring.bytes.bytes() + ring.events.capacity() * entry)
            .sum();
        rings + self.rooms.capacity() * size_of::<((String, String), Ring)>()
    }

    /// What is kept of a room, or of it what came after a position.
    pub(crate) fn kept(
        &mut self,
        ids: &mut Ids,
        namespace: &str,
        room: &str,
        after: Option<Position>,
    ) -> Kept {
        let head = self.head(ids);
        let key = (namespace.to_owned(), room.to_owned());
        let ring = self.rooms.get(&key);
        let floor = ring.map_or(self.floor, |ring| ring.floor);
        // A place below the floor was followed by events that are gone.
        let known = after
            .filter(|after| after.log == head.log && (floor..=head.offset).contains(&after.offset));
        let first = known.map_or(0, |known| known.offset + 1);
        let mut events = String::new();
        for (offset, event) in ring.iter().flat_map(|ring| &ring.events) {
            if *offset < first {
                continue;
            }
            if !events.is_empty() {
                events.push(',');
            }
            events.push_str(event);
        }
        Kept {
            events,
            at: Some(head),
            resumed: after.map(|_| known.is_some()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::books::ledger::{Ledger, Stock};
    use crate::bounds::HISTORY_TOTAL_BYTES_MAX;
    use crate::tables::id::Identity;

    struct Home {
        log: Log,
        ids: Ids,
    }

    fn home(seed: u8) -> Home {
        let me = Identity {
            node: 1,
            shard: 0,
            shards: 1,
        };
        Home {
            log: Log::new(Ledger::default().open(Stock::History, HISTORY_TOTAL_BYTES_MAX)),
            ids: Ids::new(me, Box::new(move |bytes| bytes.fill(seed))),
        }
    }

    impl Home {
        fn append(&mut self, rooms: &[&str], text: &str) -> Position {
            let record = Record::Kept(text.into());
            let rooms = rooms.iter().copied();
            let at = self.log.append(&mut self.ids, "/", rooms, record);
            at.expect("kept")
        }

        fn lose(&mut self, room: &str) {
            let rooms = [room].into_iter();
            let at = self.log.append(&mut self.ids, "/", rooms, Record::Lost);
            assert_eq!(at, None);
        }

        fn kept(&mut self, room: &str, after: Option<Position>) -> Kept {
            self.log.kept(&mut self.ids, "/", room, after)
        }

        fn all(&mut self, room: &str) -> String {
            self.kept(room, None).events
        }
    }

    #[test]
    fn keeps_the_newest_within_bounds() {
        let mut home = home(1);
        for n in 0..HISTORY_EVENTS_MAX + 3 {
            home.append(&["r"], &n.to_string());
        }
        assert!(home.all("r").starts_with("3,4,"));
        home.append(&["r"], &"x".repeat(HISTORY_BYTES_MAX));
        assert_eq!(home.all("r").len(), HISTORY_BYTES_MAX);
        assert_eq!(home.log.account.bytes(), HISTORY_BYTES_MAX);
        assert_eq!(home.all("other"), "");
    }

    #[test]
    fn what_a_client_missed_begins_behind_its_position() {
        let mut home = home(1);
        let all: Vec<Position> = (0..HISTORY_EVENTS_MAX + 3)
            .map(|n| home.append(&["r", "s"], &n.to_string()))
            .collect();
        let last = all[HISTORY_EVENTS_MAX + 2];
        let missed = home.kept("r", Some(all[HISTORY_EVENTS_MAX]));
        let texts = format!("{},{}", HISTORY_EVENTS_MAX + 1, HISTORY_EVENTS_MAX + 2);
        assert_eq!((missed.events, missed.resumed), (texts, Some(true)));
        assert_eq!(home.kept("s", Some(last)).events, "");
        // The last one that is not kept any more is the first that need not be.
        assert_eq!(home.kept("r", Some(all[2])).resumed, Some(true));
        assert_eq!(home.kept("r", Some(all[1])).resumed, Some(false));
        let ahead = Position {
            offset: last.offset + 1,
            ..last
        };
        for strange in [ahead, Position::default()] {
            let kept = home.kept("r", Some(strange));
            assert_eq!((kept.resumed, kept.at), (Some(false), Some(last)));
            assert!(kept.events.starts_with("3,4,"), "{strange:?}");
        }
    }

    /// Two nodes that began in the same millisecond had one epoch for two orders.
    #[test]
    fn positions_in_one_log_mean_nothing_in_another() {
        let (mut one, mut other) = (home(1), home(2));
        let had = one.append(&["r"], "1");
        other.append(&["r"], "2");
        other.append(&["r"], "1");
        let kept = other.kept("r", Some(had));
        assert_eq!((kept.resumed, &*kept.events), (Some(false), "2,1"));
    }

    #[test]
    fn a_room_that_keeps_nothing_yet_has_a_place_too() {
        let mut home = home(1);
        let at = home.kept("r", None).at;
        home.append(&["other"], "1");
        assert_eq!(home.kept("r", at).resumed, Some(true));
        home.append(&["r"], "2");
        let kept = home.kept("r", at);
        assert_eq!((kept.resumed, &*kept.events), (Some(true), "2"));
    }

    /// An event that was too long took no offset: a client that had missed it was told that it had all.
    #[test]
    fn what_could_not_be_kept_is_a_hole() {
        let mut home = home(1);
        for room in ["r", "without a ring"] {
            let before = home.append(&["r"], "1");
            home.lose(room);
            home.append(&["r"], "2");
            assert_eq!(home.kept(room, Some(before)).resumed, Some(false), "{room}");
        }
        let after = home.append(&["r"], "3");
        assert_eq!(home.kept("r", Some(after)).resumed, Some(true));
        assert!(
            home.all("r").starts_with("1,2,"),
            "newcomers get the others"
        );
    }

    /// A client that had missed only such an event was told that it had all.
    #[test]
    fn a_hole_behind_the_last_event_outlives_what_the_room_kept() {
        let mut home = home(1);
        home.append(&["r"], "1");
        let before = home.append(&["other"], "2");
        home.lose("r");
        home.log.forget("/", &["r"]);
        assert_eq!(home.kept("r", Some(before)).resumed, Some(false));
    }

    /// A client that joined got it twice, and no other process took the room: an upgrade was given up.
    #[test]
    fn a_room_that_is_named_twice_keeps_an_event_once() {
        let mut home = home(1);
        home.append(&["r", "", "r"], "1");
        assert_eq!((&*home.all("r"), &*home.all("")), ("1", ""));
        assert_eq!(home.log.account.bytes(), 1);
    }

    /// It ended every upgrade.
    #[test]
    fn a_room_that_no_record_names_stays_and_is_not_denied() {
        let long = "x".repeat(handoff::bounds::NAME_BYTES_MAX + 1);
        let (mut home, mut heir) = (home(1), home(2));
        home.append(&["r", &long], "1");
        let before = home.append(&["r"], "2");
        home.append(&[&long], "3");
        assert_eq!(home.log.left_behind(), 1);
        heir.log.go_on_as(home.log.record().expect("a place"));
        for key in home.log.names() {
            let room = home.log.room(&key).expect("a room");
            assert!(heir.log.take_in(&room));
        }
        assert_eq!((&*heir.all("r"), &*heir.all(&long)), ("1,2", ""));
        assert_eq!(heir.kept("r", Some(before)).resumed, Some(true));
        assert_eq!(heir.kept(&long, Some(before)).resumed, Some(false));
        let after = heir.append(&[&long], "4");
        assert_eq!(heir.kept(&long, Some(after)).resumed, Some(true));
    }

    #[test]
    fn what_is_forgotten_is_a_hole() {
        let mut home = home(1);
        let before = home.append(&["r", "s"], "1");
        home.append(&["r", "s"], "2");
        home.log.forget("/other", &[]);
        home.log.forget("/", &["r"]);
        assert_eq!(
            (home.all("r"), home.all("s")),
            (String::new(), "1,2".to_owned())
        );
        assert_eq!(home.kept("r", Some(before)).resumed, Some(false));
        let after = home.append(&["r"], "3");
        assert_eq!(home.all("r"), "3");
        home.log.forget("/", &[]);
        assert_eq!(
            (home.log.account.bytes(), home.all("s")),
            (0, String::new())
        );
        assert_eq!(
            home.kept("r", Some(after)).resumed,
            Some(true),
            "it has all that there was"
        );
    }

    #[test]
    fn full_rooms_are_bounded_together() {
        let (mut home, event) = (home(1), "x".repeat(HISTORY_BYTES_MAX));
        for n in 0..=HISTORY_TOTAL_BYTES_MAX / HISTORY_BYTES_MAX {
            home.append(&[&n.to_string()], &event);
        }
        let kept = home.log.account.bytes();
        assert!(kept <= HISTORY_TOTAL_BYTES_MAX);
        let rings = home.log.rooms.values();
        let events = rings.flat_map(|ring| &ring.events);
        assert_eq!(events.map(|(_, event)| event.len()).sum::<usize>(), kept);
        assert_eq!(home.all("0"), "");
    }

    #[test]
    fn forgets_old_rooms_first_and_does_not_deny_it() {
        let mut home = home(1);
        let nothing = home.kept("0", None).at;
        let first = home.append(&["0"], "1");
        for n in 1..HISTORY_ROOMS_MAX + 1 {
            home.append(&[&n.to_string()], "1");
        }
        assert!(home.log.rooms.len() <= HISTORY_ROOMS_MAX);
        assert_eq!(home.all("0"), "");
        assert_eq!(home.all(&HISTORY_ROOMS_MAX.to_string()), "1");
        assert_eq!(home.kept("0", nothing).resumed, Some(false));
        assert_eq!(
            home.kept("0", Some(first)).resumed,
            Some(false),
            "in doubt, no"
        );
        home.append(&["0"], "2");
        assert_eq!(home.kept("0", Some(first)).resumed, Some(false));
    }
}
