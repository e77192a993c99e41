//! A socket in the directory, and the names under which it stands there.

use std::sync::Arc;

/// A socket as it is to stand in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) namespace: Arc<str>,
    pub(super) user: Option<Arc<str>>,
    pub(super) rooms: Box<[Arc<str>]>,
    pub(super) documents: Box<[Arc<str>]>,
    pub(super) connected_ms: u64,
}

/// Names under which a socket may stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Traces {
    pub(super) users: Vec<Arc<str>>,
    pub(super) documents: Vec<Arc<str>>,
}

impl Traces {
    pub(super) fn of(entry: &Entry) -> Self {
        Self {
            users: entry.user.iter().cloned().collect(),
            documents: entry.documents.to_vec(),
        }
    }

    /// Also those of another time.
    pub(super) fn add(&mut self, more: Self) {
        for (names, more) in [
            (&mut self.users, more.users),
            (&mut self.documents, more.documents),
        ] {
            for name in more {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
    }
}
