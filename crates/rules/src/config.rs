//! What the rules are told at start. Plain data: reading files is the binary's business.

use crate::bridge::{Bus, Buses};
use hub::config::Rate;
use hub::notices;
use std::collections::BTreeMap;

/// What client events do without any backend, per namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// Rules by the name of their namespace; clients may join these namespaces and no others.
    pub namespaces: BTreeMap<String, NamespaceRules>,
}

/// The rules of one namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct NamespaceRules {
    /// Name of the backend that decides who may join, and gets the events of action [`Action::Backend`].
    pub backend: Option<String>,
    /// The chat profile: everyone is in room `global`, `chat-message` is checked, stamped and broadcast.
    pub chat: bool,
    /// Clients may `emit("join", room)` / `emit("leave", room)`.
    pub client_joins: bool,
    /// Rooms each socket is put into on connect.
    pub auto_join: Vec<String>,
    /// Members may read what a store has of their rooms.
    pub reads_history: bool,
    /// Members of rooms may ask who is there, where the hub knows it.
    pub presence: bool,
    /// The beginnings and ends of its sockets are written to these.
    pub lives: Buses,
    /// Clients come back to what they missed: all that is said has one order.
    pub recovers: bool,
    /// Rules by the name of their event.
    pub events: BTreeMap<String, EventRule>,
    /// For events not named in `events`.
    pub default_event: EventRule,
}

impl NamespaceRules {
    /// A namespace in which all events have one rule, and nothing else is allowed or kept.
    pub fn new(default_event: EventRule) -> Self {
        Self {
            backend: None,
            chat: false,
            client_joins: false,
            auto_join: Vec::new(),
            reads_history: false,
            presence: false,
            lives: Buses::default(),
            recovers: false,
            events: BTreeMap::new(),
            default_event,
        }
    }
}

/// What is done with one event.
#[derive(Clone, Debug, PartialEq)]
pub struct EventRule {
    /// What the event does. Where the gateway handles the event itself ([`BuiltIn`]), only with `replaces`.
    pub action: Action,
    /// The action was chosen for this event by name: it stands in place of what the gateway does itself.
    pub replaces: bool,
    /// JSON Schema of the first argument, as JSON text.
    pub schema: Option<String>,
    /// Events allowed to one socket.
    pub rate: Option<Rate>,
    /// Keep the last events of each room for those who join later.
    pub history: bool,
    /// Written to these as well, beside the action.
    pub beside: Buses,
    /// Member of the first argument, an object, that names the room the event is for.
    pub room_field: Option<String>,
}

impl EventRule {
    /// A rule that does this and bounds nothing.
    pub fn new(action: Action) -> Self {
        Self {
            action,
            replaces: true,
            schema: None,
            rate: None,
            history: false,
            beside: Buses::default(),
            room_field: None,
        }
    }
}

/// What an event does.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Goes to the room that the event names, else to `room`, else to all rooms of its sender.
    Rooms {
        /// Room of events that name none.
        room: Option<String>,
        /// The sender gets it, too.
        echo: bool,
    },
    /// Send the arguments back: through the ack if the client asked for one, else as the same event.
    Reply,
    /// Goes to the namespace's backend.
    Backend,
    /// Is written there.
    Bus(Bus),
    /// Goes nowhere.
    Drop,
}

/// Events that the gateway handles itself where a namespace says so. A rule of such an event refines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuiltIn {
    /// Joins the named room.
    Join,
    /// Leaves the named room.
    Leave,
    /// Checked, stamped and sent to its room.
    ChatMessage,
    /// Answered with a page of what a room said.
    History,
    /// Answered with the members of a room.
    Presence,
}

/// What a namespace does by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offers {
    /// The chat events.
    pub chat: bool,
    /// Clients may join and leave rooms.
    pub client_joins: bool,
    /// Members may read the history of their rooms.
    pub reads_history: bool,
    /// Members may ask for the members of their rooms.
    pub presence: bool,
}

impl BuiltIn {
    /// What the namespace does with an event of that name by itself. `granted`: the client's token speaks of rooms.
    pub fn of(event: &str, offers: Offers, granted: impl Fn() -> bool) -> Option<Self> {
        match event {
            "join" if offers.client_joins || granted() => Some(Self::Join),
            "leave" if offers.client_joins || granted() => Some(Self::Leave),
            "chat-message" if offers.chat => Some(Self::ChatMessage),
            notices::WHO if offers.presence => Some(Self::Presence),
            notices::HISTORY if offers.reads_history => Some(Self::History),
            _ => None,
        }
    }

    /// What is missing when a rule replaces it.
    pub fn loss(self) -> &'static str {
        match self {
            Self::Join => "clients that emit it join no room and get no history",
            Self::Leave => "clients that emit it leave no room",
            Self::Presence => "clients that emit it do not learn the members of a room",
            Self::History => "clients that emit it get no page of a room's history",
            Self::ChatMessage => {
                "content is not checked; messages and their acks have no id and no timestamp, and the sender is what the \
                 client claims"
            }
        }
    }
}
