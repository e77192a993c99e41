//! Connections that were accepted from the reserve, by age: which of them gives its place to a newcomer.

use crate::tables::slot::ConnKey;
use std::collections::VecDeque;

/// So many entries are kept before those of connections that are gone are swept out.
const SWEPT: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Reserve(VecDeque<ConnKey>);

impl Reserve {
    /// A connection enters. `lives`: which of the others are still there.
    pub(crate) fn enter(&mut self, conn: ConnKey, lives: impl Fn(ConnKey) -> bool) {
        if self.0.len() >= SWEPT {
            self.0.retain(|conn| lives(*conn));
        }
        self.0.push_back(conn);
    }

    /// The oldest that may go. `may_go` is `None` for one that is gone already.
    pub(crate) fn give_way(&mut self, may_go: impl Fn(ConnKey) -> Option<bool>) -> Option<ConnKey> {
        self.0.retain(|conn| may_go(*conn).is_some());
        let at = self.0.iter().position(|conn| may_go(*conn) == Some(true))?;
        self.0.remove(at)
    }

    /// Connections in it, with those that went since the last call of `give_way`.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
