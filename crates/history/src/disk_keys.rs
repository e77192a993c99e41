//! The bytes of the disk store: names of rooms and events that sort by room and place, and rows.

use crate::bounds::NAMES_BYTES_MAX;
use crate::event::{Batch, Event};
use crate::fault::{Fault, Kind};
use crate::position::Position;

pub(crate) const LAST: &[u8] = b"last";
pub(crate) const BATCH: &[u8] = b"batch";

/// An event whose names are too long for a key is refused.
pub(crate) fn check(event: &Event) -> Result<(), Fault> {
    let user = event.user.as_ref().map_or(0, String::len);
    let bytes = event.namespace.len() + event.room.len() + user;
    if bytes <= NAMES_BYTES_MAX {
        return Ok(());
    }
    let text = format!(
        "the names of namespace, room and user have {bytes} bytes, and {NAMES_BYTES_MAX} are allowed"
    );
    Err(Fault::new(Kind::Refused, text))
}

/// Its length comes first: no name is the beginning of another.
fn text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u32).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn read_text(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (text, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    Some((std::str::from_utf8(text).ok()?, rest))
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u64::from_be_bytes(*number), rest))
}

/// The beginning of the names of a room's events.
pub(crate) fn room(namespace: &str, room: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(namespace.len() + room.len() + 16);
    text(&mut key, namespace);
    text(&mut key, room);
    key
}

/// The beginning of the names of a namespace's rooms.
pub(crate) fn namespace(namespace: &str) -> Vec<u8> {
    let mut key = Vec::new();
    text(&mut key, namespace);
    key
}

/// The name of an event.
pub(crate) fn event(room: &[u8], at: Position) -> Vec<u8> {
    [room, &at.as_u64().to_be_bytes()].concat()
}

/// The place in the name of an event.
pub(crate) fn place(event: &[u8]) -> Option<Position> {
    let (_, place) = event.split_last_chunk()?;
    Some(Position::from_u64(u64::from_be_bytes(*place)))
}

/// Namespace and room in the name of an event.
pub(crate) fn names(event: &[u8]) -> Option<(&str, &str)> {
    let (namespace, rest) = read_text(event)?;
    let (room, _) = read_text(rest)?;
    Some((namespace, room))
}

pub(crate) fn time(at: Position, event: &[u8]) -> Vec<u8> {
    [&at.as_u64().to_be_bytes(), event].concat()
}

pub(crate) fn of_time(key: &[u8]) -> Option<(Position, &[u8])> {
    number(key).map(|(at, event)| (Position::from_u64(at), event))
}

/// The beginning of the rows of a user, in one namespace or in all.
pub(crate) fn user(user: &str, namespace: Option<&str>) -> Vec<u8> {
    let mut key = Vec::new();
    text(&mut key, user);
    namespace
        .into_iter()
        .for_each(|namespace| text(&mut key, namespace));
    key
}

pub(crate) fn user_event(name: &str, namespace: &str, event: &[u8]) -> Vec<u8> {
    [&user(name, Some(namespace)), event].concat()
}

/// The event in a row of a user.
pub(crate) fn of_user(key: &[u8]) -> Option<&[u8]> {
    let (_, rest) = read_text(key)?;
    read_text(rest).map(|(_, event)| event)
}

pub(crate) fn pair(one: u64, other: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&one.to_be_bytes());
    bytes[8..].copy_from_slice(&other.to_be_bytes());
    bytes
}

pub(crate) fn read_pair(bytes: &[u8]) -> Option<(u64, u64)> {
    let (one, rest) = number(bytes)?;
    number(rest).map(|(other, _)| (one, other))
}

pub(crate) fn batch(batch: &Batch, places: &[Position]) -> Vec<u8> {
    let mut bytes = pair(batch.writer, batch.number).to_vec();
    places
        .iter()
        .for_each(|at| bytes.extend_from_slice(&at.as_u64().to_be_bytes()));
    bytes
}

/// Number and places of the last batch, if it is this writer's.
pub(crate) fn read_batch(bytes: &[u8], writer: u64) -> Option<(u64, Vec<Position>)> {
    let (own, number) = read_pair(bytes)?;
    let places = bytes.get(16..)?.as_chunks().0.iter();
    let places = places.map(|at| Position::from_u64(u64::from_be_bytes(*at)));
    (own == writer).then(|| (number, places.collect()))
}

/// What one needs to know of an event to remove it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Gist {
    bytes: u64,
    user: Option<String>,
}

impl Gist {
    pub(crate) fn of(event: &Event) -> Self {
        Self {
            bytes: event.bytes() as u64,
            user: event.user.clone(),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        let mut out = self.bytes.to_be_bytes().to_vec();
        if let Some(user) = &self.user {
            text(&mut out, user);
        }
        out
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (bytes, rest) = number(bytes)?;
        let user = match rest {
            [] => None,
            rest => Some(read_text(rest)?.0.to_owned()),
        };
        Some(Self { bytes, user })
    }
}

/// An event without its room and place.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    time_ms: u64,
    user: Option<&'a str>,
    name: &'a str,
    args: &'a str,
}

impl<'a> Row<'a> {
    pub(crate) fn write(event: &Event) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(event.bytes());
        bytes.extend_from_slice(&event.time_ms.to_be_bytes());
        bytes.push(u8::from(event.user.is_some()));
        text(&mut bytes, event.user.as_deref().unwrap_or_default());
        text(&mut bytes, &event.name);
        bytes.extend_from_slice(event.args.as_bytes());
        bytes
    }

    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let (time_ms, rest) = number(bytes)?;
        let (has_user, rest) = rest.split_first()?;
        let (user, rest) = read_text(rest)?;
        let (name, args) = read_text(rest)?;
        Some(Self {
            time_ms,
            user: (*has_user == 1).then_some(user),
            name,
            args: std::str::from_utf8(args).ok()?,
        })
    }

    pub(crate) fn into_event(self, namespace: &str, room: &str) -> Event {
        Event {
            namespace: namespace.to_owned(),
            room: room.to_owned(),
            name: self.name.to_owned(),
            args: self.args.to_owned(),
            user: self.user.map(str::to_owned),
            time_ms: self.time_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_as_it_was_written() {
        for user in [None, Some(String::new()), Some("ada".to_owned())] {
            let event = Event {
                namespace: "/".to_owned(),
                room: "r\0".to_owned(),
                name: "say".to_owned(),
                args: "1,{\"a\":2}".to_owned(),
                user,
                time_ms: 7,
            };
            let gist = Gist::of(&event);
            assert_eq!(Gist::read(&gist.write()), Some(gist));
            let bytes = Row::write(&event);
            let row = Row::read(&bytes).expect("a row");
            assert_eq!(row.into_event("/", "r\0"), event);
            let head = bytes.len() - event.args.len();
            assert!((0..head).all(|end| Row::read(&bytes[..end]).is_none()));
        }
    }

    #[test]
    fn names_of_one_room_are_not_those_of_another() {
        let at = Position::at_time(5);
        let [one, other] =
            [("a", "bc"), ("ab", "c")].map(|(namespace, name)| room(namespace, name));
        assert_ne!(one, other);
        let name = event(&one, at);
        assert!(!name.starts_with(&other));
        assert_eq!((names(&name), place(&name)), (Some(("a", "bc")), Some(at)));
        assert_eq!(of_user(&user_event("ada", "a", &name)), Some(&*name));
        assert_eq!(of_time(&time(at, &name)), Some((at, &*name)));
        assert!(user_event("ada", "a", &name).starts_with(&user("ada", None)));
        assert!(!user_event("adam", "a", &name).starts_with(&user("ada", None)));
    }
}
