//! What a handler can read of sockets and rooms.

use crate::books::claims::Grants;
use crate::clients::session::Protocol;
use crate::clients::socket::Socket;
use crate::rooms::directory::RoomName;
use crate::rooms::membership::is_room_name;
use crate::rooms::room::RoomKind;
use crate::seam::context::Context;
use crate::seam::inside::Inside;
use crate::tables::slot::SocketKey;
use std::net::IpAddr;

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

impl Context<'_> {
    /// What is read of a socket can be read until `Handler::disconnected` returns.
    fn known(&self, socket: SocketKey) -> Option<&Socket> {
        self.parts.people.sockets.live(socket)
    }

    /// Names of the rooms a socket is in, its own id first.
    pub fn rooms(&self, socket: SocketKey) -> Vec<String> {
        let _inside = Inside::enter();
        self.known(socket).map_or_else(Vec::new, |_| {
            self.parts.rooms.names_of(&self.parts.people, socket.id())
        })
    }

    /// Whether the socket is in a room.
    pub fn is_in(&self, socket: SocketKey, room: &str) -> bool {
        let _inside = Inside::enter();
        self.known(socket).is_some_and(|slot| {
            let room = self.parts.rooms.find(slot.namespace, RoomKind::Named, room);
            room.is_some_and(|room| slot.rooms.iter().any(|membership| membership.room == room))
        })
    }

    /// The name is (or was) the id of a socket: what is sent to that room is meant for that socket alone, so clients have no
    /// business in it. A name that people think of does not hold our node, a shard of ours and a time gone by.
    pub fn is_socket_id(&self, name: &str) -> bool {
        let _inside = Inside::enter();
        let id = wire::base64url::Id20::decode(name.as_bytes());
        let wall_ms = self.parts.clock.now.wall_ms;
        let away = self.parts.away.as_ref();
        id.is_some_and(|id| {
            let elsewhere = away.is_some_and(|away| away.is_socket(&id, wall_ms));
            elsewhere || self.parts.ids.is_socket(&id, wall_ms)
        })
    }

    /// Whether a room may have that name.
    pub fn is_room_name(&self, name: &str) -> bool {
        let _inside = Inside::enter();
        is_room_name(&self.parts.books.config.limits, name)
    }

    /// The user a socket belongs to.
    pub fn user(&self, socket: SocketKey) -> Option<&str> {
        let _inside = Inside::enter();
        self.known(socket)?;
        self.parts.people.user_of(socket.id())
    }

    /// What the socket's token allows with rooms; `None` = it says nothing of them.
    pub fn grants(&self, socket: SocketKey) -> Option<&Grants> {
        let _inside = Inside::enter();
        self.known(socket)?.extra.as_ref()?.grants.as_deref()
    }

    /// The raw JSON that a handler attached.
    pub fn data(&self, socket: SocketKey) -> Option<&str> {
        let _inside = Inside::enter();
        self.known(socket)?.extra.as_ref()?.data.as_deref()
    }

    /// The id that the client knows the socket by.
    pub fn id(&self, socket: SocketKey) -> Option<wire::base64url::Id20> {
        let _inside = Inside::enter();
        self.parts.people.sockets.live(socket).map(|slot| slot.id)
    }

    /// The namespace a socket is in.
    pub fn namespace(&self, socket: SocketKey) -> Option<&str> {
        let _inside = Inside::enter();
        let slot = self.parts.people.sockets.live(socket)?;
        Some(self.parts.people.label(slot.namespace)?)
    }

    /// What the socket is, while it is connected.
    pub fn info(&self, socket: SocketKey) -> Option<SocketInfo<'_>> {
        let _inside = Inside::enter();
        let slot = self.parts.people.socket(socket)?;
        let session = self.parts.people.sessions.get(slot.session)?;
        let auth = slot.extra.as_ref().and_then(|extra| extra.auth.as_deref());
        Some(SocketInfo {
            id: slot.id.to_string(),
            namespace: self.parts.people.label(slot.namespace)?,
            protocol: session.protocol,
            transport: session.transport(),
            peer: session.peer,
            query: session.rare.as_ref().map_or("", |rare| &rare.query),
            auth: auth.unwrap_or("{}"),
        })
    }

    /// Sockets in a room on all shards.
    pub fn room_count(&self, namespace: &str, room: &str) -> u64 {
        let _inside = Inside::enter();
        let name = RoomName {
            namespace,
            kind: RoomKind::Named,
            name: room,
        };
        let namespace = self.parts.people.find_namespace(namespace);
        self.parts.rooms.total(namespace, name)
    }
}
