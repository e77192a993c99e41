//! Changes of what this hub has members for: namespaces, rooms, users. Other nodes are told of them by keys, so that they send only what
//! somebody here wants.

use crate::tables::slot::SocketKey;
use wire::base64url::Id20;

/// What a key names.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum Subject {
    Namespace,
    Room,
    User,
    Server,
}

/// The number of a name, the same on every node (FNV-1a, then a finisher). Two names with one key cost a needless message.
pub(crate) fn key(namespace: &str, subject: Subject, name: &str) -> u64 {
    // The zero keeps the end of a namespace apart from what follows it.
    let bytes = namespace.bytes().chain([0, subject as u8]);
    let hash = bytes
        .chain(name.bytes())
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The first member of a key.
    Came(u64),
    /// The last one went.
    Went(u64),
    /// A socket joined the room of a key.
    Joined(SocketKey, u64),
}

/// A room that got its first member here, or lost its last one; `None`: the namespace itself. Only servers of other kinds want names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RoomChange {
    pub(crate) came: bool,
    pub(crate) namespace: Box<str>,
    pub(crate) room: Option<Box<str>>,
}

/// What servers of other kinds are told by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Naming {
    /// There are none.
    #[default]
    Nothing,
    /// Namespaces and rooms.
    Rooms,
    /// Namespaces, rooms, and the ids of sockets: each id is the name of a room that holds its socket alone.
    RoomsAndSockets,
}

/// The nodes and servers that are told of changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Watch {
    #[default]
    Nobody,
    /// Other nodes, by keys; others, by names.
    Nodes(Naming),
}

/// The changes that nobody was told of yet. A node that is alone notes none.
#[derive(Debug, Default)]
pub(crate) struct Interest {
    watch: Watch,
    changes: Vec<Change>,
    rooms: Vec<RoomChange>,
}

impl Interest {
    pub(crate) fn new(watch: Watch) -> Self {
        Self {
            watch,
            ..Self::default()
        }
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.watch != Watch::Nobody
    }

    /// HOT PATH.
    #[inline]
    pub(crate) fn note(
        &mut self,
        namespace: &str,
        subject: Subject,
        name: &str,
        change: impl FnOnce(u64) -> Change,
    ) {
        if self.watch == Watch::Nobody {
            return;
        }
        let change = change(key(namespace, subject, name));
        self.changes.push(change);
        if self.watch != Watch::Nodes(Naming::Nothing) {
            match subject {
                Subject::Room => self.changed(namespace, Some(name), change),
                Subject::Namespace => self.changed(namespace, None, change),
                Subject::User | Subject::Server => {}
            }
        }
    }

    #[cold]
    fn changed(&mut self, namespace: &str, room: Option<&str>, change: Change) {
        match change {
            Change::Came(_) => self.name(namespace, room, true),
            Change::Went(_) => self.name(namespace, room, false),
            Change::Joined(..) => {}
        }
    }

    /// A socket came or went.
    #[inline]
    pub(crate) fn note_socket(&mut self, namespace: &str, id: &Id20, came: bool) {
        if self.watch == Watch::Nodes(Naming::RoomsAndSockets) {
            let id = id.encode();
            self.name(namespace, std::str::from_utf8(&id).ok(), came);
        }
    }

    #[cold]
    fn name(&mut self, namespace: &str, room: Option<&str>, came: bool) {
        let (namespace, room) = (namespace.into(), room.map(Into::into));
        self.rooms.push(RoomChange {
            came,
            namespace,
            room,
        });
    }

    pub(crate) fn take_rooms(&mut self) -> Vec<RoomChange> {
        std::mem::take(&mut self.rooms)
    }

    pub(crate) fn take(&mut self) -> impl Iterator<Item = Change> + '_ {
        self.changes.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes of different releases find each other's members by these numbers.
    #[test]
    fn keys_never_change() {
        let keys = [
            key("/", Subject::Namespace, ""),
            key("/", Subject::Room, "r"),
            key("/chat", Subject::User, "ann"),
            key("", Subject::Server, ""),
        ];
        let expected = [
            6_609_111_459_960_110_395,
            4_379_404_855_229_089_909,
            5_117_094_970_181_479_032,
            12_194_129_375_393_955_113,
        ];
        assert_eq!(keys, expected);
    }
}
