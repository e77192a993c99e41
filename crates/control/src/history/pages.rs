//! Which part of a room's history is asked for, and requests of clients.

use super::History;
use super::wanted::{Wanted, answer, refusal};
use ::history::{Ask, Fault, Forget, Page, Position, Way};
use rules::history::Request;
use std::sync::Arc;

/// Events of a page when nobody says how many, and the most.
pub(crate) const LIMIT: usize = 100;
pub(crate) const LIMIT_MAX: usize = 1_000;
/// Of one page.
const PAGE_BYTES_MAX: usize = 1 << 20;
/// Of a page for a client: its outbox is bounded.
const CLIENT_PAGE_BYTES_MAX: usize = 256 << 10;

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

    fn of(self, namespace: &str, room: &str, bytes_max: usize) -> Ask {
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

/// What is to be deleted, as its caller names it.
#[derive(Clone, Debug)]
pub(crate) enum Deletion {
    Room { room: String, at: Option<Position> },
    User { user: String },
}

impl Deletion {
    /// `None`: it concerns all rooms.
    pub(crate) fn room(&self) -> Option<&str> {
        match self {
            Self::Room { room, .. } => Some(room),
            Self::User { .. } => None,
        }
    }
}

impl History {
    pub(crate) async fn read(
        &self,
        namespace: &str,
        room: &str,
        range: Range,
    ) -> Result<Page, Fault> {
        self.page(range.of(namespace, room, PAGE_BYTES_MAX)).await
    }

    pub(crate) async fn delete(&self, namespace: &str, what: Deletion) -> Result<u64, Fault> {
        let namespace = namespace.to_owned();
        self.forget(match what {
            Deletion::Room { room, at: None } => Forget::Room { namespace, room },
            Deletion::Room { room, at: Some(at) } => Forget::Event {
                namespace,
                room,
                at,
            },
            Deletion::User { user } => Forget::User {
                namespace: Some(namespace),
                user,
            },
        })
        .await
    }

    /// A client's request, by the rules; `false`: the question is about something else. The answer is that of the client's ack.
    pub fn ask(
        self: &Arc<Self>,
        question: &[u8],
        answered: impl FnOnce(Option<Box<[u8]>>) + Send + 'static,
    ) {
        let Some(request) = Request::read(question) else {
            return answered(None);
        };
        let range = match Wanted::read(request.wanted) {
            Ok(range) => range,
            Err(error) => {
                let refusal = refusal(&error, "INVALID_REQUEST");
                return answered(Some(refusal.into_bytes().into()));
            }
        };
        let ask = range.of(request.namespace, request.room, CLIENT_PAGE_BYTES_MAX);
        let history = Arc::clone(self);
        self.runtime.spawn(async move {
            let page = history.page(ask).await;
            if let Err(fault) = &page {
                tracing::warn!(%fault, "a client's request for history failed");
            }
            answered(Some(answer(&page).into_bytes().into()));
        });
    }
}
