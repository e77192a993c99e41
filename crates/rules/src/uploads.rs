//! The rules of events that are announced for uploads: their bodies came by HTTP and not through a socket.

use crate::book::{Book, RulesFactory};
use crate::config::{Action, BuiltIn};
use crate::large::Large;
use hub::notices;
use std::fmt;
use std::sync::Arc;

/// Stands in the configuration for every namespace that it does not name.
const OTHERS: &str = "*";

/// The rules, as uploads ask them.
#[derive(Clone)]
pub struct Uploads(Arc<Book>);

impl fmt::Debug for Uploads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Uploads").finish_non_exhaustive()
    }
}

/// An event that may be announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announced<'a> {
    /// The rule's own room: it is open to all that the rule lets speak.
    pub room: Option<&'a str>,
    /// The sender gets it, too.
    pub echo: bool,
}

/// Why an event cannot be announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unannounced {
    /// There is no such namespace.
    NoNamespace,
    /// The namespace stores no large events.
    NotStored,
    /// The gateway's own word, or a name that only the libraries may emit.
    Reserved,
    /// The rule of the event does not send it to rooms.
    NotForRooms,
    /// The rule has a schema, and an upload cannot be checked.
    Schema,
}

impl Unannounced {
    /// For people.
    pub fn message(self) -> &'static str {
        match self {
            Self::NoNamespace => "there is no such namespace",
            Self::NotStored => "the namespace keeps no large events (large = \"store\")",
            Self::Reserved => "clients may not send an event of this name",
            Self::NotForRooms => "the rule of this event does not send it to rooms",
            Self::Schema => "the rule of this event has a schema, and uploads are not checked",
        }
    }
}

impl RulesFactory {
    /// The same rules, for uploads.
    pub fn uploads(&self) -> Uploads {
        Uploads(Arc::clone(&self.0))
    }
}

impl Uploads {
    /// The rule of an event.
    pub fn rule(&self, namespace: &str, event: &str) -> Result<Announced<'_>, Unannounced> {
        let all = &self.0.namespaces;
        let named = |wanted: &str| all.iter().find(|(name, _)| name == wanted);
        let found = named(namespace).or_else(|| named(OTHERS));
        let (_, namespace) = found.ok_or(Unannounced::NoNamespace)?;
        if !matches!(namespace.large, Large::Store { .. }) {
            return Err(Unannounced::NotStored);
        }
        if event.is_empty() || notices::is_notice(event) || hub::is_reserved(event) {
            return Err(Unannounced::Reserved);
        }
        let own = namespace.events.get(event);
        let built_in = BuiltIn::of(event, namespace.offers, || true);
        if built_in.is_some() && own.is_none_or(|rule| !rule.replaces) {
            return Err(Unannounced::NotForRooms);
        }
        let rule = own.unwrap_or(&namespace.default);
        match &rule.action {
            Action::Rooms { .. } if rule.schema.is_some() => Err(Unannounced::Schema),
            Action::Rooms { room, echo } => Ok(Announced {
                room: room.as_deref(),
                echo: *echo,
            }),
            _ => Err(Unannounced::NotForRooms),
        }
    }
}
