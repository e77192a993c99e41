//! Calls about what rooms said.

use super::model::{Deleted, HistoryEvent, HistoryPage, Import, ImportEvent, Imported};
use super::problem::{Kind, Problem};
use super::{Api, check, may, outcome_of, raw};
use crate::history::{Deletion, History, Range};
use ::history::{Event, Fault};
use identity::keys::{Caller, Scope};
use rules::{Message, Outcome, Wanted};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use types::Target;

/// Of one call.
const IMPORT_MAX: usize = 1_000;
/// Clocks differ. A place in the far future would be before all that comes.
const AHEAD_MAX: Duration = Duration::from_secs(60);

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
        let history = self.history_of_room(namespace, room)?;
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

    /// Stores what another store had.
    pub(super) async fn import_history(
        &self,
        caller: &Caller,
        import: Import,
    ) -> Result<Imported, Problem> {
        let (namespace, room) = (import.namespace.clone(), import.room.clone());
        let of = format!("{} events of room {room}", import.events.len());
        let noted = self.audit.begin(caller, ("import", Some(&namespace)), &of);
        let imported = self.import_admitted(caller, import).await;
        self.audit.end(noted, outcome_of(&imported));
        imported
    }

    async fn import_admitted(&self, caller: &Caller, import: Import) -> Result<Imported, Problem> {
        // It changes what was said, as a deletion does.
        may(caller, Scope::Forget, &import.namespace)?;
        let history = self.history_of_room(&import.namespace, &import.room)?;
        let count = import.events.len();
        if count == 0 || count > IMPORT_MAX {
            let detail = format!("there are {count}, and 1 to {IMPORT_MAX} are allowed");
            return Err(Problem::field("events", detail));
        }
        let read = |(at, event)| {
            let event = imported(&import.namespace, &import.room, event);
            event.map_err(|problem: Problem| problem.under(&format!("events[{at}]")))
        };
        let events = import.events.into_iter().enumerate().map(read);
        let events: Vec<Event> = events.collect::<Result<_, Problem>>()?;
        tracing::info!(
            key = caller.name(),
            namespace = import.namespace,
            room = import.room,
            events = count,
            "import of history ordered"
        );
        let stored = history.import(events).await.map_err(unread)?;
        Ok(Imported { stored })
    }

    fn history_of_room(&self, namespace: &str, room: &str) -> Result<&Arc<History>, Problem> {
        let history = self.history_of(namespace)?;
        if history.keeps(namespace, room) {
            return Ok(history);
        }
        let detail = format!(
            "rooms like {room:?} are not stored: namespaces.{namespace:?}.history.rooms names those that are"
        );
        Err(Problem::new(Kind::NotFound, detail))
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
        let of = Target::all_of(namespace);
        let forget = Wanted::Forget(rooms.into_iter().collect());
        let forgotten = self.ask(of, (forget, None), Duration::ZERO).await?;
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
    pub(super) fn check_stored(&self, of: &Target, wanted: &Wanted) -> Result<(), Problem> {
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
        if let Some(fault) = history.refusal(&of.namespace) {
            let detail = format!("{fault}: nothing was sent");
            return Err(Problem::new(Kind::Busy, detail));
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

fn imported(namespace: &str, room: &str, event: ImportEvent) -> Result<Event, Problem> {
    let message = Message {
        args: check::arguments(&event.args)?,
        attachments: Vec::new(),
        event: event.event,
        volatile: false,
        receipt: None,
        spot: None,
    };
    let Wanted::Emit(message) = check::event(message, None)? else {
        return Err(Problem::field("event", "it cannot be stored"));
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let latest = now.unwrap_or_default() + AHEAD_MAX;
    if u128::from(event.time) > latest.as_millis() {
        let detail = format!("{} is later than now, in ms since 1970", event.time);
        return Err(Problem::field("time", detail));
    }
    Ok(Event {
        namespace: namespace.to_owned(),
        room: room.to_owned(),
        name: message.event,
        args: message.args,
        user: event.user,
        time_ms: event.time,
    })
}

fn unread(fault: Fault) -> Problem {
    Problem::new(Kind::Busy, fault.to_string())
}
