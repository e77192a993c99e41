//! Calls about what rooms said.

use super::model::{Deleted, HistoryEvent, HistoryPage};
use super::problem::{Kind, Problem};
use super::{Api, may, outcome_of, raw};
use crate::admin::keys::{Caller, Scope};
use crate::history::{Deletion, History, Range};
use ::history::Fault;
use rules::{Chosen, Outcome, Wanted};
use std::sync::Arc;
use std::time::Duration;

impl Api {
    /// A page of what a room said.
    pub(super) async fn read_history(
        &self,
        caller: &Caller,
        namespace: &str,
        room: &str,
        range: Range,
    ) -> Result<HistoryPage, Problem> {
        may(caller, Scope::History, namespace)?;
        let history = self.history_of(namespace)?;
        if !history.keeps(namespace, room) {
            let detail = format!(
                "rooms like {room:?} are not stored: namespaces.{namespace:?}.history.rooms names those that are"
            );
            return Err(Problem::new(Kind::NotFound, detail));
        }
        let page = history.read(namespace, room, range).await;
        let page = page.map_err(unread)?;
        let events = page.events.into_iter().map(|kept| HistoryEvent {
            at: kept.at.to_string(),
            time: kept.event.time_ms,
            event: kept.event.name,
            args: raw(format!("[{}]", kept.event.args)),
            user: kept.event.user,
        });
        Ok(HistoryPage {
            events: events.collect(),
            next: page.next.map(|at| at.to_string()),
        })
    }

    /// Deletes from the store.
    pub(super) async fn delete_history(
        &self,
        caller: &Caller,
        namespace: &str,
        what: Deletion,
    ) -> Result<Deleted, Problem> {
        let of = match &what {
            Deletion::Room { room, at: None } => format!("room {room}"),
            Deletion::Room { room, at: Some(at) } => format!("event {at} of room {room}"),
            Deletion::User { user } => format!("user {user}"),
        };
        let noted = self.audit.begin(caller, ("forget", Some(namespace)), &of);
        let deleted = self.delete_admitted(caller, namespace, what).await;
        self.audit.end(noted, outcome_of(&deleted));
        deleted
    }

    async fn delete_admitted(
        &self,
        caller: &Caller,
        namespace: &str,
        what: Deletion,
    ) -> Result<Deleted, Problem> {
        may(caller, Scope::Forget, namespace)?;
        let history = self.history_of(namespace)?;
        tracing::info!(
            key = caller.name(),
            namespace,
            ?what,
            "deletion of history ordered"
        );
        let rooms = what.room().map(str::to_owned);
        let deleted = history.delete(namespace, what).await;
        let deleted = deleted.map_err(unread)?;
        // The last events that rooms keep in memory have no user and no place: all of the room, or of the namespace, go.
        let of = Chosen {
            namespace: namespace.to_owned(),
            ..Chosen::default()
        };
        let forget = Wanted::Forget(rooms.into_iter().collect());
        let forgotten = self.ask(of, forget, Duration::ZERO).await?;
        let everywhere = matches!(forgotten, Outcome::Done { everywhere: true });
        Ok(Deleted {
            deleted,
            everywhere,
        })
    }

    fn history_of(&self, namespace: &str) -> Result<&Arc<History>, Problem> {
        let history = self.history.as_ref();
        let history = history.filter(|history| history.keeps_some_of(namespace));
        history.ok_or_else(|| {
            let detail = format!("nothing of the namespace {namespace:?} is stored: set namespaces.{namespace:?}.history.stored");
            Problem::new(Kind::NotFound, detail)
        })
    }

    /// Whether an event whose caller waits for the store gets there at all.
    pub(super) fn check_stored(&self, of: &Chosen, wanted: &Wanted) -> Result<(), Problem> {
        let refused = |detail: String| Err(Problem::field("stored", detail));
        let Wanted::Emit(message) = wanted else {
            return refused(
                "an event that waits for the answers of clients cannot wait for the store"
                    .to_owned(),
            );
        };
        if message.volatile || !message.attachments.is_empty() {
            return refused("volatile events and those with attachments are not stored".to_owned());
        }
        if of.rooms.is_empty() {
            return refused("name the rooms: only rooms have a history".to_owned());
        }
        let history = self.history_of(&of.namespace)?;
        if !self.keeping.keeps(&of.namespace, &message.event) {
            let detail = format!(
                "events {:?} are not kept: set namespaces.{:?}.events.{:?}.history",
                message.event, of.namespace, message.event
            );
            return refused(detail);
        }
        match of
            .rooms
            .iter()
            .find(|room| !history.keeps(&of.namespace, room))
        {
            Some(room) => refused(format!("rooms like {room:?} are not stored")),
            None => Ok(()),
        }
    }
}

fn unread(fault: Fault) -> Problem {
    Problem::new(Kind::Busy, fault.to_string())
}
