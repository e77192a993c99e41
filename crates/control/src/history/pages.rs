//! Pages, deletions and requests of clients.

use super::History;
use super::range::Range;
use super::wanted::{Wanted, answer, refusal};
use ::history::{Fault, Forget, Page, Position};
use rules::history::Request;
use std::sync::Arc;

/// Of one page.
const PAGE_BYTES_MAX: usize = 1 << 20;
/// Of a page for a client: its outbox is bounded.
const CLIENT_PAGE_BYTES_MAX: usize = 256 << 10;

/// A deletion, as its caller names it.
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
        // What is stored may have a later place than its time; so both are looked at.
        let since_ms = request.since_ms;
        let range = match since_ms {
            0 => range,
            since_ms => range.since(Some(since_ms)),
        };
        let ask = range.of(request.namespace, request.room, CLIENT_PAGE_BYTES_MAX);
        let history = Arc::clone(self);
        self.runtime.spawn(async move {
            let mut page = history.page(ask).await;
            if let Ok(page) = &mut page {
                page.events.retain(|kept| kept.event.time_ms >= since_ms);
            }
            if let Err(fault) = &page {
                tracing::warn!(%fault, "a client's request for history failed");
            }
            answered(Some(answer(&page).into_bytes().into()));
        });
    }
}
