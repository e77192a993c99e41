//! What must hold between any two entry points, whatever peers did: every reference between the tables has its counterpart.
//! Walks everything, so it is for tests, simulation and fuzzing only. A violation panics and names what contradicts what.

use crate::books::ledger::Stock;
use crate::clients::conn::{Conn, State};
use crate::clients::session::{Protocol, Session};
use crate::dialect::speech::Framing;
use crate::hub::Hub;
use crate::parts::Parts;
use crate::rooms::room::RoomKind;
use crate::tables::slot::{ConnId, Key, SessionId};

/// How much of everything a hub holds.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    pub conns: usize,
    pub sessions: usize,
    pub sockets: usize,
    pub rooms: usize,
    pub namespaces: usize,
}

impl Hub {
    /// Panics unless all tables agree with each other.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        self.stage.parts.check_conns();
        self.stage.parts.check_sessions();
        self.stage.parts.check_sockets();
        self.stage.parts.check_rooms();
        let parts = &self.stage.parts;
        parts.people.check_ids();
        parts.people.check_tags();
        parts.people.check_users();
        parts.check_questions();
        parts.people.namespaces.check(|namespace| {
            let rooms = parts.rooms.table.iter();
            rooms
                .filter(|(_, room)| room.namespace() == namespace)
                .count()
        });
        self.stage.parts.check_lists();
    }

    #[doc(hidden)]
    pub fn census(&self) -> Census {
        Census {
            conns: self.stage.parts.line.conns.len(),
            sessions: self.stage.parts.people.sessions.len(),
            sockets: self.stage.parts.people.sockets.len(),
            rooms: self.stage.parts.rooms.table.len(),
            namespaces: self.stage.parts.people.namespaces.len(),
        }
    }

    /// What is kept for those who come later: each kind with its bytes, counted anew, and as the books have them.
    #[doc(hidden)]
    pub fn audit(&self) -> Vec<(&'static str, usize, usize)> {
        let parts = &self.stage.parts;
        let booked = parts.books.ledger.sum(Stock::History);
        let mut kept = vec![("history", parts.rooms.kept.audit(), booked)];
        if let Some(recovery) = &parts.recovery {
            let (journal, parked) = (&recovery.journal, &recovery.parked);
            kept.push(("journal", journal.audit(), journal.bytes()));
            kept.push(("parked sockets", parked.audit(), parked.bytes()));
        }
        kept
    }

    /// Names and sizes of the rooms clients may name: (namespace, room, members here, members on all shards).
    #[doc(hidden)]
    pub fn room_census(&self) -> Vec<(String, String, u64, u64)> {
        let named = self
            .stage
            .parts
            .rooms
            .table
            .iter()
            .filter(|(_, room)| room.kind() == RoomKind::Named);
        let mut rooms: Vec<_> = named
            .filter_map(|(_, room)| {
                let namespace = self.stage.parts.people.namespaces.label(room.namespace())?;
                let (name, here) = (room.name().to_string(), room.members().len() as u64);
                Some((namespace.to_string(), name, here, room.total()))
            })
            .collect();
        rooms.sort();
        rooms
    }
}

impl Parts {
    fn check_conns(&self) {
        for conn in self.access.proxied() {
            assert!(
                self.line.conns.get(conn).is_some(),
                "conn {conn} came through a proxy and is gone"
            );
        }
        for (index, conn) in self.line.conns.iter() {
            let session = self.people.sessions.get(conn.session);
            match conn.state {
                State::Head | State::Held | State::Finishing | State::Linger => {
                    assert_eq!(
                        conn.session, None,
                        "conn {index} in {:?} has a session",
                        conn.state
                    );
                }
                state => {
                    let slot = session.unwrap_or_else(|| {
                        panic!(
                            "conn {index} in {state:?} has dead session {:?}",
                            conn.session
                        )
                    });
                    assert_eq!(
                        end(slot, conn),
                        Some(index),
                        "conn {index} in {state:?} and its session"
                    );
                }
            }
        }
        let of = |carried| {
            let conns = self.line.conns.iter();
            let conns = conns.filter(|(_, conn)| conn.handshake.is_done());
            conns
                .filter(|(_, conn)| conn.origin.is_carried() == carried)
                .count() as u64
        };
        let counts = &self.books.counts;
        let counted = [counts.websockets, counts.webtransports];
        assert_eq!(counted, [of(false), of(true)], "count of transports");
        let inflating = self
            .line
            .conns
            .iter()
            .filter(|(_, conn)| conn.handshake.inflates());
        assert_eq!(
            self.books.counts.deflate_websockets,
            inflating.count() as u64,
            "count of WebSockets that agreed on compression"
        );
        let kept = self
            .line
            .conns
            .iter()
            .filter(|(_, conn)| conn.handshake.keeps_window());
        let kept: Vec<ConnId> = kept.map(|(index, _)| index).collect();
        self.line.codecs.check_contexts(&kept);
        assert_eq!(
            self.books.counts.takeover_contexts,
            kept.len() as u64,
            "count of kept windows"
        );
    }

    fn check_sessions(&self) {
        for (index, session) in self.people.sessions.iter() {
            let state = match session.language.protocol() {
                Protocol::EventStream => State::Stream,
                _ => State::WebSocket,
            };
            self.check_end(index, session.conn, state);
            self.check_end(index, session.probe(), State::Probe);
            if let Some(polling) = &session.polling {
                assert_eq!(
                    session.conn, None,
                    "session {index} polls and has a WebSocket"
                );
                self.check_end(index, polling.waiting(), State::Poll);
                if polling.post.conn.is_some() {
                    let conn = self.line.conns.get(polling.post.conn);
                    let conn = conn.unwrap_or_else(|| panic!("session {index}: dead POST"));
                    let body = matches!(conn.state, State::Body { .. } | State::ChunkedBody);
                    assert!(body, "session {index}: its POST is in {:?}", conn.state);
                    assert_eq!(conn.session, Some(index), "session of a POST");
                }
            } else {
                assert_ne!(session.conn, None, "session {index} has no transport");
                assert!(
                    !session.flags.closing,
                    "session {index} is closed and still here"
                );
            }
            if session.language.protocol().is_engineio() {
                assert_eq!(
                    self.people.sessions.find(&session.sid),
                    Some(index),
                    "sid of {index}"
                );
            }
            if session.flags.closing {
                assert!(
                    session.sockets.is_empty(),
                    "closed session {index} has sockets"
                );
            }
            self.check_sockets_of(index, session);
        }
    }

    fn check_end(&self, session: SessionId, conn: Option<ConnId>, state: State) {
        let Some(conn) = conn else { return };
        let slot = self.line.conns.get(conn);
        let slot = slot.unwrap_or_else(|| panic!("session {session}: {state:?} {conn} is dead"));
        assert_eq!(
            (slot.state, slot.session),
            (state, Some(session)),
            "conn {conn} of session {session}"
        );
    }

    fn check_sockets_of(&self, index: SessionId, session: &Session) {
        for (n, socket) in session.sockets.iter().enumerate() {
            let slot = self.people.sockets.get(*socket);
            let slot = slot.unwrap_or_else(|| panic!("session {index}: dead socket {socket}"));
            assert_eq!(
                (slot.session, slot.route.conn()),
                (index, session.conn),
                "socket {socket}"
            );
            let polls = slot.route.variant().framing == Framing::Polling;
            assert_eq!(
                polls,
                session.polling.is_some(),
                "socket {socket}: {:?}",
                slot.route.variant()
            );
            let twin = session.sockets[..n]
                .iter()
                .filter_map(|other| self.people.sockets.get(*other));
            let twins = twin
                .filter(|other| other.namespace == slot.namespace)
                .count();
            assert_eq!(twins, 0, "session {index} is in one namespace twice");
        }
    }

    fn check_sockets(&self) {
        assert!(!self.outbound.has_news(), "the handler was not told all");
        for (index, socket) in self.people.sockets.iter() {
            assert!(!socket.flags.gone, "socket {index} is gone and still here");
            assert_eq!(
                self.people.sockets.find(&socket.id),
                Some(index),
                "id of socket {index}"
            );
            let session = self.people.sessions.get(socket.session);
            let listed = session.is_some_and(|session| session.sockets.contains(&index));
            assert!(
                listed,
                "socket {index} is not in its session {}",
                socket.session
            );
            let mut everyone = 0;
            for membership in &socket.rooms {
                let room = self.rooms.table.get(membership.room);
                let room = room.unwrap_or_else(|| panic!("socket {index} is in a dead room"));
                let at = room.members().get(membership.at as usize);
                assert_eq!(at, Some(&index), "socket {index} in room {:?}", room.name());
                assert_eq!(
                    room.namespace(),
                    socket.namespace,
                    "namespace of room {:?}",
                    room.name()
                );
                everyone += usize::from(room.kind() == RoomKind::All);
            }
            assert_eq!(everyone, 1, "socket {index}: memberships in its namespace");
        }
    }

    fn check_rooms(&self) {
        let (mut members, mut following) = (0, 0);
        for (index, room) in self.rooms.table.iter() {
            members += room.members().len();
            following += room.members().len() - room.live();
            let found = self
                .rooms
                .table
                .find(room.namespace(), room.kind(), room.name());
            assert_eq!(found, Some(index), "name of room {:?}", room.name());
            assert!(
                self.people.namespaces.label(room.namespace()).is_some(),
                "room {:?}",
                room.name()
            );
            let kept = room.is_used() || self.rooms.rolls.holds(index);
            assert!(kept, "room {:?} is empty and still here", room.name());
            if let Some(seated) = self.rooms.rolls.seated(index) {
                let members = room.members().len();
                assert_eq!(seated, members, "seats of room {:?}", room.name());
            }
            let listed = self.rooms.changes.lists(index);
            assert_eq!(
                room.is_changed(),
                listed,
                "changed mark of room {:?}",
                room.name()
            );
            for (at, member) in room.members().iter().enumerate() {
                let socket = self.people.sockets.get(*member);
                let mut memberships = socket.into_iter().flat_map(|socket| &socket.rooms);
                let known = memberships.any(|own| own.room == index && own.at == at as u32);
                assert!(
                    known,
                    "member {member} at {at} of {:?} does not know",
                    room.name()
                );
            }
        }
        let memberships: usize = self
            .people
            .sockets
            .iter()
            .map(|(_, slot)| slot.rooms.len())
            .sum();
        assert_eq!(members, memberships, "members and memberships");
        assert_eq!(
            following,
            self.rooms.followers.sockets().count(),
            "members that wait for a history"
        );
        assert!(
            self.rooms.arrivals.len() <= memberships,
            "members that joined and are none any more"
        );
    }

    /// Gates of sessions and the questions that they wait for are pairs.
    fn check_questions(&self) {
        let (open, kept, booked) = self.outbound.asks.audit();
        assert_eq!(
            self.books.counts.asks_outstanding, open as u64,
            "open questions"
        );
        assert_eq!(kept, booked, "bytes that questions keep");
        let newcomers = self.outbound.asks.iter().filter(|(_, pending)| {
            let live = pending.session.map(|key| self.people.sessions.live(key));
            pending.waiting.is_of_newcomer() && live.flatten().is_some()
        });
        let mut gates = 0;
        for (index, slot) in self.people.sessions.iter() {
            for ask in slot.joining.gates.iter() {
                let pending = self
                    .outbound
                    .asks
                    .get(ask)
                    .expect("a gate has its question");
                assert_eq!(pending.session.map(Key::id), Some(index), "gate of {index}");
                gates += 1;
            }
        }
        assert_eq!(newcomers.count(), gates, "gates of sessions");
    }

    /// Marks that say "is in a list" and the lists.
    fn check_lists(&self) {
        for (index, conn) in self.line.conns.iter() {
            let waits = self.line.is_dirty(index);
            assert!(!conn.dirty || waits, "conn {index} will not be flushed");
            assert!(
                !conn.unread.is_stalled() || self.line.intake.lists(index),
                "conn {index} will not be resumed"
            );
            let listed = self.line.polls.sent_on(index);
            assert_eq!(
                conn.exchange.is_unproven(),
                listed.is_some(),
                "answer on its way on conn {index}"
            );
        }
        for conn in self.line.polls.unconfirmed() {
            assert!(
                self.line.conns.get(conn).is_some(),
                "answer on its way on dead conn {conn}"
            );
        }
        for (index, session) in self.people.sessions.iter() {
            assert!(
                !session.flags.poll_ready || self.line.polls.lists(index),
                "session {index} will not be answered"
            );
        }
    }
}

/// The connection that a session has in the place of this one.
fn end(session: &Session, conn: &Conn) -> Option<ConnId> {
    let polling = session.polling.as_deref();
    match conn.state {
        State::WebSocket | State::Stream => session.conn,
        State::Probe => session.probe(),
        State::Poll => polling?.waiting(),
        _ => polling?.post.conn,
    }
}
