//! A store in memory, for as long as the process lives.

use crate::ask::{Ask, Filling, Forget, Page, Shed, Trimmed, Usage, Way};
use crate::event::{Batch, Event, Kept};
use crate::fault::{Fault, Kind};
use crate::plan::{Keep, Plan};
use crate::position::Position;
use crate::store::{Answer, Store};
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};

/// Events of the rooms of a [`Plan`], bounded in bytes for all together.
#[derive(Debug)]
pub struct Memory {
    plan: Plan,
    bytes_max: u64,
    state: Mutex<State>,
}

type Name = Arc<(String, String)>;

#[derive(Debug, Default)]
struct State {
    rooms: HashMap<Name, Room>,
    /// All events in the order of their places, which are those of the whole store.
    order: BTreeMap<Position, Name>,
    last: Position,
    bytes: u64,
    /// Writer, number and places of the last batch.
    batch: (u64, u64, Vec<Position>),
}

#[derive(Debug, Default)]
struct Room {
    /// In the order of their places.
    events: VecDeque<Kept>,
    bytes: u64,
}

impl Room {
    fn at(&self, at: Position) -> Option<&Kept> {
        let index = self.events.binary_search_by_key(&at, |kept| kept.at);
        self.events.get(index.ok()?)
    }
}

impl Memory {
    /// An empty store. Above `bytes_max` the oldest events of all rooms make way.
    pub fn new(plan: Plan, bytes_max: u64) -> Self {
        Self {
            plan,
            bytes_max,
            state: Mutex::default(),
        }
    }

    /// Events behind a place, in the order of the store: about so many bytes of them. For a process that goes on.
    pub fn behind(&self, place: Position, bytes: usize) -> Vec<Kept> {
        self.with(|state| {
            let (mut found, mut sum) = (Vec::new(), 0);
            let later = state
                .order
                .range((Bound::Excluded(place), Bound::Unbounded));
            for (at, name) in later {
                if sum >= bytes {
                    break;
                }
                if let Some(kept) = state.rooms.get(name).and_then(|room| room.at(*at)) {
                    sum += kept.event.bytes();
                    found.push(kept.clone());
                }
            }
            found
        })
    }

    /// Takes in what another process stored, behind all that is here. Events of rooms that are not to be stored are left out.
    ///
    /// # Errors
    /// Their places do not grow.
    pub fn go_on_with(&self, events: Vec<Kept>) -> Result<(), Fault> {
        self.with(|state| {
            for Kept { at, event } in events {
                if at <= state.last {
                    return Err(Fault::new(
                        Kind::Refused,
                        format!("an event at {at} is not behind {}", state.last),
                    ));
                }
                let Ok(keep) = keep_of(&self.plan, &event) else {
                    continue;
                };
                state.put_at(at, &event, &keep);
                while state.bytes > self.bytes_max && state.drop_oldest() {}
            }
            Ok(())
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn put(&self, batch: &Batch) -> Result<Vec<Position>, Fault> {
        let keeps = batch.events.iter();
        let keeps = keeps.map(|event| keep_of(&self.plan, event));
        let keeps: Vec<Keep> = keeps.collect::<Result<_, _>>()?;
        let rows = batch.events.iter().zip(keeps);
        self.with(|state| {
            let (writer, number, known) = &state.batch;
            if *writer == batch.writer && !known.is_empty() {
                match number.cmp(&batch.number) {
                    Ordering::Less => {}
                    Ordering::Equal => return Ok(known.clone()),
                    Ordering::Greater => return Err(Fault::late()),
                }
            }
            let places: Vec<_> = rows.map(|(event, keep)| state.put(event, &keep)).collect();
            state.batch = (batch.writer, batch.number, places.clone());
            while state.bytes > self.bytes_max && state.drop_oldest() {}
            Ok(places)
        })
    }
}

/// The bounds of an event's room.
pub(crate) fn keep_of(plan: &Plan, event: &Event) -> Result<Keep, Fault> {
    plan.of(&event.namespace, &event.room)
        .copied()
        .ok_or_else(|| {
            let text = format!(
                "the room {:?} of {:?} is not to be stored",
                event.room, event.namespace
            );
            Fault::new(Kind::Refused, text)
        })
}

impl State {
    fn put(&mut self, event: &Event, keep: &Keep) -> Position {
        let at = self.last.next(event.time_ms);
        self.put_at(at, event, keep);
        at
    }

    fn put_at(&mut self, at: Position, event: &Event, keep: &Keep) {
        self.last = at;
        let name: Name = Arc::new((event.namespace.clone(), event.room.clone()));
        let name = match self.rooms.get_key_value(&name) {
            Some((known, _)) => Arc::clone(known),
            None => name,
        };
        self.order.insert(at, Arc::clone(&name));
        let bytes = event.bytes() as u64;
        self.bytes += bytes;
        let room = self.rooms.entry(Arc::clone(&name)).or_default();
        room.bytes += bytes;
        let event = event.clone();
        room.events.push_back(Kept { at, event });
        while self.is_above(&name, keep) && self.drop_first(&name) {}
    }

    fn is_above(&self, name: &Name, keep: &Keep) -> bool {
        let room = self.rooms.get(name);
        room.is_some_and(|room| room.events.len() as u64 > keep.events || room.bytes > keep.bytes)
    }

    /// `false`: the room has none.
    fn drop_first(&mut self, name: &Name) -> bool {
        let first = self.rooms.get(name).and_then(|room| room.events.front());
        let Some(at) = first.map(|kept| kept.at) else {
            return false;
        };
        self.remove(name, at)
    }

    fn drop_oldest(&mut self) -> bool {
        let Some((at, name)) = self.order.first_key_value() else {
            return false;
        };
        let (at, name) = (*at, Arc::clone(name));
        self.remove(&name, at)
    }

    /// `false`: there is no such event.
    fn remove(&mut self, name: &Name, at: Position) -> bool {
        let Some(room) = self.rooms.get_mut(name) else {
            return false;
        };
        let Ok(index) = room.events.binary_search_by_key(&at, |kept| kept.at) else {
            return false;
        };
        let bytes = room
            .events
            .remove(index)
            .map_or(0, |kept| kept.event.bytes() as u64);
        room.bytes -= bytes;
        self.bytes -= bytes;
        self.order.remove(&at);
        if room.events.is_empty() {
            self.rooms.remove(name);
        }
        true
    }

    fn page(&self, ask: &Ask) -> Page {
        let mut filling = Filling::new(ask);
        let name = (ask.namespace.clone(), ask.room.clone());
        let Some(room) = self.rooms.get(&name) else {
            return filling.done();
        };
        let is_asked = |kept: &&Kept| {
            ask.after.is_none_or(|after| kept.at > after)
                && ask.before.is_none_or(|before| kept.at < before)
        };
        let from = ask.after.map_or(0, |after| {
            room.events.partition_point(|kept| kept.at <= after)
        });
        let to = ask.before.map_or(room.events.len(), |before| {
            room.events.partition_point(|kept| kept.at < before)
        });
        let events = room.events.range(from..to.max(from)).filter(is_asked);
        match ask.way {
            Way::Forward => events.cloned().all(|kept| filling.push(kept)),
            Way::Backward => events.rev().cloned().all(|kept| filling.push(kept)),
        };
        filling.done()
    }

    fn bytes_of(&self, name: &Name, at: Position) -> u64 {
        let kept = self.rooms.get(name).and_then(|room| room.at(at));
        kept.map_or(0, |kept| kept.event.bytes() as u64)
    }

    fn usage(&self, namespace: &str) -> Usage {
        let rooms = self.rooms.iter();
        let own = rooms.filter(|(name, _)| name.0 == namespace);
        own.fold(Usage::default(), |sum, (_, room)| Usage {
            rooms: sum.rooms + 1,
            bytes: sum.bytes + room.bytes,
        })
    }

    fn shed(&mut self, namespace: &str, what: &Shed) -> u64 {
        let own = |name: &Name| name.0 == namespace;
        let meant: Vec<(Name, Position)> = match what {
            Shed::Bytes(bytes) => {
                let oldest = self.order.iter().filter(|(_, name)| own(name));
                let mut left = *bytes;
                let oldest = oldest.take_while(|(at, name)| {
                    let more = left > 0;
                    left = left.saturating_sub(self.bytes_of(name, **at));
                    more
                });
                oldest.map(|(at, name)| (Arc::clone(name), *at)).collect()
            }
            Shed::Rooms(count) => {
                let rooms = self.rooms.iter().filter(|(name, _)| own(name));
                let last = |room: &Room| room.events.back().map(|kept| kept.at);
                let mut rooms: Vec<_> = rooms.map(|(name, room)| (last(room), name)).collect();
                rooms.sort_unstable();
                let silent = rooms.into_iter().take(*count as usize);
                silent
                    .flat_map(|(_, name)| {
                        let events = self.rooms.get(name).into_iter();
                        let events = events.flat_map(|room| &room.events);
                        events.map(|kept| (Arc::clone(name), kept.at))
                    })
                    .collect()
            }
        };
        let gone = meant.iter().filter(|(name, at)| self.remove(name, *at));
        gone.count() as u64
    }

    fn forget(&mut self, what: &Forget) -> u64 {
        let meant: Vec<(Name, Position)> = match what {
            Forget::Event {
                namespace,
                room,
                at,
            } => vec![(Arc::new((namespace.clone(), room.clone())), *at)],
            Forget::Room { namespace, room } => {
                let name = Arc::new((namespace.clone(), room.clone()));
                let events = self
                    .rooms
                    .get(&name)
                    .into_iter()
                    .flat_map(|room| &room.events);
                events.map(|kept| (Arc::clone(&name), kept.at)).collect()
            }
            Forget::User { namespace, user } => {
                let rooms = self.rooms.iter();
                let rooms =
                    rooms.filter(|(name, _)| namespace.as_ref().is_none_or(|own| *own == name.0));
                let of_user = |kept: &&Kept| kept.event.user.as_ref() == Some(user);
                rooms
                    .flat_map(|(name, room)| {
                        let events = room.events.iter().filter(of_user);
                        events.map(|kept| (Arc::clone(name), kept.at))
                    })
                    .collect()
            }
        };
        let gone = meant.iter().filter(|(name, at)| self.remove(name, *at));
        gone.count() as u64
    }

    fn trim(&mut self, plan: &Plan, now_ms: u64) -> u64 {
        let too_old = |kept: &Kept| {
            let keep = plan.of(&kept.event.namespace, &kept.event.room);
            keep.is_none_or(|keep| kept.event.time_ms.saturating_add(keep.age_ms) < now_ms)
        };
        let old: Vec<(Name, Position)> = self
            .rooms
            .iter()
            .flat_map(|(name, room)| {
                let old = room.events.iter().take_while(|kept| too_old(kept));
                old.map(|kept| (Arc::clone(name), kept.at))
            })
            .collect();
        let gone = old.iter().filter(|(name, at)| self.remove(name, *at));
        gone.count() as u64
    }
}

impl Store for Memory {
    fn append<'a>(&'a self, batch: &'a Batch) -> Answer<'a, Vec<Position>> {
        Box::pin(async move { self.put(batch) })
    }

    fn page(&self, ask: Ask) -> Answer<'_, Page> {
        Box::pin(async move { Ok(self.with(|state| state.page(&ask))) })
    }

    fn forget(&self, what: Forget) -> Answer<'_, u64> {
        Box::pin(async move { Ok(self.with(|state| state.forget(&what))) })
    }

    fn trim(&self, now_ms: u64) -> Answer<'_, Trimmed> {
        let events = self.with(|state| state.trim(&self.plan, now_ms));
        Box::pin(async move {
            Ok(Trimmed {
                events,
                more: false,
            })
        })
    }

    fn usage<'a>(&'a self, namespace: &'a str) -> Answer<'a, Usage> {
        Box::pin(async move { Ok(self.with(|state| state.usage(namespace))) })
    }

    fn shed<'a>(&'a self, namespace: &'a str, what: Shed) -> Answer<'a, u64> {
        Box::pin(async move { Ok(self.with(|state| state.shed(namespace, &what))) })
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(room: &str, n: u64) -> Event {
        Event {
            namespace: "/".into(),
            room: room.into(),
            name: "say".into(),
            args: n.to_string(),
            user: None,
            time_ms: 5,
        }
    }

    fn store() -> Memory {
        let keep = Keep {
            events: 50,
            bytes: 1 << 20,
            age_ms: 1 << 40,
        };
        let plan = Plan::new([("/".to_owned(), "*".to_owned(), keep)]);
        Memory::new(plan, 1 << 20)
    }

    /// In parts, while more comes: the next process has what this one has, at the same places, and goes on behind them.
    #[test]
    fn another_store_goes_on_where_this_one_is() {
        let (first, next) = (store(), store());
        let mut at = Position::START;
        for n in 0..200 {
            let batch = Batch {
                writer: 1,
                number: n + 1,
                events: vec![event(["a", "b"][n as usize % 2], n)],
            };
            first.put(&batch).expect("stored");
            if n % 70 == 0 {
                let some = first.behind(at, 500);
                at = some.last().map_or(at, |kept| kept.at);
                next.go_on_with(some).expect("in order");
            }
        }
        loop {
            let some = first.behind(at, 500);
            let Some(last) = some.last() else { break };
            at = last.at;
            next.go_on_with(some).expect("in order");
        }
        let all = |store: &Memory| store.behind(Position::START, usize::MAX);
        assert_eq!(all(&next), all(&first));
        assert_eq!(all(&next).len(), 100);
        let again = all(&first);
        assert!(next.go_on_with(again).is_err(), "they are here");
        let batch = Batch {
            writer: 2,
            number: 1,
            events: vec![event("a", 200)],
        };
        assert!(next.put(&batch).expect("stored")[0] > at);
    }
}
