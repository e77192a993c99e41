//! The facts of a socket that a handler can read.

use crate::books::claims::Grants;
use crate::clients::session::Protocol;
use crate::clients::socket::{Extra, Socket};
use crate::rooms::room::RoomKind;
use crate::seam::inside::Inside;
use crate::seam::member::Member;
use std::net::IpAddr;
use wire::base64url::Id20;

/// What a socket is.
#[derive(Clone, Debug)]
pub struct SocketInfo<'a> {
    /// The id that the client knows it by.
    pub id: String,
    /// The namespace that it is in.
    pub namespace: &'a str,
    /// The protocol that its client speaks.
    pub protocol: Protocol,
    /// `polling` or `websocket`, as of now.
    pub transport: &'static str,
    /// The client's address, as trusted proxies tell it.
    pub peer: IpAddr,
    /// Query string of the opening request; empty unless handshakes are kept.
    pub query: &'a str,
    /// Raw JSON of the CONNECT payload; `{}` unless handshakes are kept.
    pub auth: &'a str,
}

impl Member<'_> {
    /// The socket, which can be read until `Handler::disconnected` returns.
    pub(crate) fn known(&self) -> Option<&Socket> {
        self.parts.people.sockets.live(self.key())
    }

    fn extra(&self) -> Option<&Extra> {
        self.known()?.extra.as_deref()
    }

    /// The id that its client knows it by.
    pub fn id(&self) -> Option<Id20> {
        let _inside = Inside::enter();
        self.known().map(|slot| slot.id)
    }

    /// The namespace it is in.
    pub fn namespace(&self) -> Option<&str> {
        let _inside = Inside::enter();
        let slot = self.known()?;
        Some(self.parts.people.namespaces.label(slot.namespace)?)
    }

    /// Whether it came back with this connection: its rooms and its data are what they were, and its client gets what it missed.
    pub fn recovered(&self) -> bool {
        let _inside = Inside::enter();
        let lifeline = self.extra().and_then(|extra| extra.lifeline.as_ref());
        lifeline.is_some_and(|lifeline| lifeline.recovered)
    }

    /// Names of the rooms it is in, its own id first.
    pub fn rooms(&self) -> Vec<String> {
        let _inside = Inside::enter();
        self.known().map_or_else(Vec::new, |_| {
            let people = &self.parts.people;
            self.parts.rooms.names_of(people, self.key().id())
        })
    }

    /// Whether it is in a room.
    pub fn is_in(&self, room: &str) -> bool {
        let _inside = Inside::enter();
        self.known().is_some_and(|slot| {
            let room = self
                .parts
                .rooms
                .table
                .find(slot.namespace, RoomKind::Named, room);
            room.is_some_and(|room| slot.rooms.iter().any(|membership| membership.room == room))
        })
    }

    /// The time in ms since 1970 from which on it may see what a room said; `None`: it may see all. If nobody knows when it joined, it has
    /// joined now.
    pub fn sees_since_ms(&self, room: &str) -> Option<u64> {
        let _inside = Inside::enter();
        let (people, rooms) = (&self.parts.people, &self.parts.rooms);
        let slot = self.known()?;
        let label = people.namespaces.label(slot.namespace)?;
        if !rooms.arrivals.hide_the_past_of(label) {
            return None;
        }
        let room = rooms.table.find(slot.namespace, RoomKind::Named, room);
        let since = room.and_then(|room| rooms.arrivals.since_ms(room, self.key().id()));
        Some(since.unwrap_or(self.parts.clock.now.wall_ms))
    }

    /// The user it belongs to.
    pub fn user(&self) -> Option<&str> {
        let _inside = Inside::enter();
        self.known()?;
        self.parts.people.user_of(self.key().id())
    }

    /// The rights of its token with rooms; `None` = it says nothing of them.
    pub fn grants(&self) -> Option<&Grants> {
        let _inside = Inside::enter();
        self.extra()?.grants.as_deref()
    }

    /// The claim of its token that the configuration names for handlers.
    pub fn label(&self) -> Option<&str> {
        let _inside = Inside::enter();
        self.extra()?.label.as_deref()
    }

    /// The raw JSON that a handler attached.
    pub fn data(&self) -> Option<&str> {
        let _inside = Inside::enter();
        self.extra()?.data.as_deref()
    }

    /// `polling` or `websocket`, as of now.
    pub fn transport(&self) -> Option<&'static str> {
        let _inside = Inside::enter();
        let slot = self.live()?;
        let session = self.parts.people.sessions.get(slot.session)?;
        Some(session.transport())
    }

    /// Its facts, while it is connected.
    pub fn info(&self) -> Option<SocketInfo<'_>> {
        let _inside = Inside::enter();
        let slot = self.live()?;
        let session = self.parts.people.sessions.get(slot.session)?;
        let auth = slot.extra.as_ref().and_then(|extra| extra.auth.as_deref());
        Some(SocketInfo {
            id: slot.id.to_string(),
            namespace: self.parts.people.namespaces.label(slot.namespace)?,
            protocol: session.language.protocol(),
            transport: session.transport(),
            peer: session.client.peer(),
            query: session.rare.as_ref().map_or("", |rare| &rare.query),
            auth: auth.unwrap_or("{}"),
        })
    }
}
