//! The keys and values of the directory, and the commands that write them. Each command has one key.

use super::entry::{Entry, Traces};
use crate::redis::Command;
use std::sync::Arc;
use std::time::Duration;

/// Names of users and rooms that are listed. Longer ones are left out: a key of Redis is no place for them.
const NAME_BYTES_MAX: usize = 1_024;
/// Names of rooms in one entry.
const ROOMS_BYTES_MAX: usize = 16 * 1_024;

/// Whether a name is listed.
pub(super) fn fits(name: &str) -> bool {
    name.len() <= NAME_BYTES_MAX
}

/// As many rooms as an entry may have.
pub(super) fn bounded(rooms: Vec<Arc<str>>) -> Vec<Arc<str>> {
    let mut bytes = 0;
    let fit = |room: &Arc<str>| {
        let own = room.len() + 3;
        let fits = fits(room) && bytes + own <= ROOMS_BYTES_MAX;
        bytes += if fits { own } else { 0 };
        fits
    };
    rooms.into_iter().filter(fit).collect()
}

/// The rooms that are documents: their names match a pattern, in which `*` stands for any text.
#[derive(Clone, Debug, Default)]
pub struct Documents(Vec<String>);

impl Documents {
    pub fn new(patterns: Vec<String>) -> Self {
        Self(patterns)
    }

    pub(super) fn has(&self, room: &str) -> bool {
        self.0.iter().any(|pattern| matches(pattern, room))
    }
}

/// The first part of a pattern begins the name, the last one ends it, and those between stand in it one after the other.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut name) = name.strip_prefix(first) else {
        return false;
    };
    let (between, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    for part in between.split('*') {
        match name.find(part) {
            Some(at) => name = &name[at + part.len()..],
            None => return false,
        }
    }
    name.ends_with(last)
}

pub(super) fn client_key(socket: &str) -> Vec<u8> {
    format!("ws:client:{socket}").into_bytes()
}

fn user_key(user: &str) -> Vec<u8> {
    format!("ws:user:clients:{user}").into_bytes()
}

fn document_key(document: &str) -> Vec<u8> {
    format!("ws:guid:clients:{document}").into_bytes()
}

/// The facts that all writes of one time share.
#[derive(Clone, Debug)]
pub(super) struct Words {
    pub(super) node: u16,
    pub(super) now_ms: u64,
    /// Keys that nobody renews end after this.
    pub(super) keep: Duration,
}

impl Words {
    /// Writes a socket's entry, and the keys that name it. `expiries`: when keys end, each with the command before it: a key that
    /// another program has is to be left alone.
    pub(super) fn write(
        &self,
        socket: &str,
        entry: &Entry,
        before: Option<&Traces>,
        out: &mut Vec<Command>,
        expiries: &mut Vec<(usize, Command)>,
    ) {
        let rooms: Vec<&str> = entry.rooms.iter().map(|room| &**room).collect();
        let key = client_key(socket);
        let hash = Command::new("HSET", &key)
            .arg("node")
            .arg(self.node)
            .arg("uid")
            .arg(entry.user.as_deref().unwrap_or_default())
            .arg("rooms")
            // A list of texts can be written.
            .arg(serde_json::to_string(&rooms).unwrap_or_default())
            .arg("connected")
            .arg(entry.connected_ms)
            .arg("namespace")
            .arg(&*entry.namespace);
        expiries.push((out.len(), self.expire(&key)));
        out.push(hash);
        let before = before.cloned().unwrap_or_default();
        let (users, documents) = (before.users.iter(), before.documents.iter());
        for user in users.filter(|user| Some(*user) != entry.user.as_ref()) {
            out.push(remove(&user_key(user), socket));
        }
        for document in documents.filter(|document| !entry.documents.contains(document)) {
            out.push(remove(&document_key(document), socket));
        }
        let user = entry.user.iter().map(|user| user_key(user));
        let documents = entry.documents.iter();
        for key in user.chain(documents.map(|document| document_key(document))) {
            let add = Command::new("ZADD", &key).arg(self.now_ms).arg(socket);
            expiries.push((out.len(), self.expire(&key)));
            out.push(add);
        }
    }

    fn expire(&self, key: &[u8]) -> Command {
        let ms = u64::try_from(self.keep.as_millis()).unwrap_or(u64::MAX);
        Command::new("PEXPIRE", key).arg(ms)
    }
}

/// Nothing names the socket any more.
pub(super) fn delete<'a>(
    socket: &str,
    users: impl Iterator<Item = &'a str>,
    documents: impl Iterator<Item = &'a str>,
    out: &mut Vec<Command>,
) {
    out.push(Command::new("DEL", &client_key(socket)));
    let users = users.map(user_key);
    let keys = users.chain(documents.map(document_key));
    out.extend(keys.map(|key| remove(&key, socket)));
}

fn remove(key: &[u8], socket: &str) -> Command {
    Command::new("ZREM", key).arg(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, wanted) in [
            ("doc:*", "doc:7", true),
            ("doc:*", "doc:", true),
            ("doc:*", "a doc:7", false),
            ("*", "", true),
            ("*", "anything * at all", true),
            ("exact", "exact", true),
            ("exact", "exactly", false),
            ("*:doc", "team:doc", true),
            ("*:doc", "team:docs", false),
            ("a*b*c", "a--b--c", true),
            ("a*b*c", "a--c--b", false),
            ("a*b*c", "abc", true),
            ("ab*ba", "aba", false),
            ("*ä*", "bär", true),
            ("", "", true),
            ("", "x", false),
        ] {
            assert_eq!(matches(pattern, name), wanted, "{pattern:?} {name:?}");
        }
    }

    #[test]
    fn an_entry_has_a_bounded_list_of_rooms() {
        let rooms = (0..10_000).map(|n| Arc::from(format!("room-{n}")));
        let long = Arc::from("x".repeat(2_000));
        let kept = bounded(std::iter::once(long).chain(rooms).collect());
        let bytes: usize = kept.iter().map(|room| room.len() + 3).sum();
        assert!(bytes <= ROOMS_BYTES_MAX && bytes > ROOMS_BYTES_MAX - 20);
        assert_eq!(&*kept[0], "room-0");
        assert!(fits(&"u".repeat(1_024)) && !fits(&"u".repeat(16 * 1_024)));
    }
}
