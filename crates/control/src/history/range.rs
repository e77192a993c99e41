//! Which part of a room's history is asked for.

use ::history::{Ask, Position, Way};

/// Events of a page when nobody says how many, and the most.
pub(crate) const LIMIT: usize = 100;
pub(crate) const LIMIT_MAX: usize = 1_000;

/// A part of a history: what is after a place, oldest first, or before one, newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    way: Way,
    after: Option<Position>,
    before: Option<Position>,
    limit: usize,
}

impl Range {
    /// Places as text. The error says which cannot be used, and why.
    pub(crate) fn read(
        before: Option<&str>,
        after: Option<&str>,
        limit: Option<usize>,
    ) -> Result<Self, String> {
        let place = |name: &str, text: Option<&str>| match text.map(str::parse::<Position>) {
            None => Ok(None),
            Some(Ok(at)) => Ok(Some(at)),
            Some(Err(error)) => Err(format!("{name}: {error}")),
        };
        let (before, after) = (place("before", before)?, place("after", after)?);
        let limit = limit.unwrap_or(LIMIT);
        if limit == 0 || limit > LIMIT_MAX {
            return Err(format!("limit: must be from 1 to {LIMIT_MAX}, not {limit}"));
        }
        let way = match after {
            Some(_) => Way::Forward,
            None => Way::Backward,
        };
        Ok(Self {
            way,
            after,
            before,
            limit,
        })
    }

    /// Nothing that is older.
    #[must_use]
    pub(crate) fn since(mut self, time_ms: Option<u64>) -> Self {
        let first = time_ms.map(|time_ms| Position::at_time(time_ms).before());
        self.after = self.after.max(first);
        self
    }

    pub(super) fn of(self, namespace: &str, room: &str, bytes_max: usize) -> Ask {
        Ask {
            namespace: namespace.to_owned(),
            room: room.to_owned(),
            after: self.after,
            before: self.before,
            way: self.way,
            events_max: self.limit,
            bytes_max,
        }
    }
}
