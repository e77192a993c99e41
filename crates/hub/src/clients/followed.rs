//! Sessions and sockets that somebody follows, and the lines about what passes them.

use crate::bounds::FOLLOWED_MAX;
use crate::clients::people::People;
use crate::clients::trace::{self, Speaker, Subject, TraceDecision, TraceWho};
use crate::clients::traces::{Followers, NOT_READY, Passing, Traces, is_in_share};
use crate::dialect::speech::{Author, Emit};
use crate::tables::id::socket_made_ms;
use crate::tables::slot::{NamespaceId, SessionId, SocketId, SocketKey};
use smallvec::SmallVec;
use std::sync::Arc;

impl Traces {
    /// Traces that follow this socket or its session. Most sockets are followed by nobody, so a subject looks up only what it needs.
    pub(crate) fn followers(&self, people: &People, index: SocketId) -> Followers {
        let Some(socket) = people.sockets.get(index) else {
            return Followers::new();
        };
        let sid = || people.sessions.get(socket.session).map(|slot| slot.sid);
        self.those(|trace| {
            let is_meant = match trace.subject() {
                Subject::Session(id) => *id == socket.id || Some(*id) == sid(),
                Subject::User(user) => people.user_of(index) == Some(user),
                Subject::Share(share) => {
                    // The socket may have been chosen for another share, before this trace began.
                    let is_new = socket_made_ms(&socket.id) >= trace.began_ms();
                    let is_chosen = self.chosen.contains(&people.sockets.key(index));
                    is_chosen && is_new && sid().is_some_and(|sid| is_in_share(&sid, *share))
                }
                Subject::Room(_) | Subject::Event(_) => false,
            };
            is_meant && trace.is_in(namespace_of(people, index))
        })
    }

    /// Traces that follow a session as a whole, or one of its sockets.
    fn followers_of_session(&self, people: &People, session: SessionId) -> Followers {
        let Some(slot) = people.sessions.get(session) else {
            return Followers::new();
        };
        let mut all: Followers = SmallVec::new();
        for index in &slot.sockets {
            for trace in self.followers(people, *index) {
                // A trace of a user may follow several sockets of the session, and is told once.
                if !all.iter().any(|known| Arc::ptr_eq(known, &trace)) {
                    all.push(trace);
                }
            }
        }
        let whole = self.live.iter().filter(|trace| {
            let is_it = *trace.subject() == Subject::Session(slot.sid);
            // A session is of no namespace, so a trace of one namespace does not show it.
            is_it && !trace.is_limited()
        });
        for trace in whole {
            if !all.iter().any(|known| Arc::ptr_eq(known, trace)) {
                all.push(Arc::clone(trace));
            }
        }
        all
    }

    /// The sockets of a namespace that somebody follows.
    pub(crate) fn followed(&self, people: &People, namespace: NamespaceId) -> Vec<SocketId> {
        let mut found = Vec::new();
        for trace in &self.live {
            match trace.subject() {
                Subject::Session(id) => {
                    // The id is a session's or a socket's.
                    let session = people.sessions.find(id);
                    let session = session.and_then(|session| people.sessions.get(session));
                    let sockets = session.into_iter().flat_map(|slot| slot.sockets.iter());
                    found.extend(sockets.copied());
                    found.extend(people.sockets.find(id));
                }
                Subject::User(user) => {
                    let mut at = people.first_of_user(namespace, user);
                    while let Some(index) = at.filter(|_| found.len() < FOLLOWED_MAX) {
                        found.push(index);
                        at = people.next_of_user(index);
                    }
                }
                Subject::Room(_) | Subject::Event(_) | Subject::Share(_) => {}
            }
        }
        let chosen = self.chosen.iter();
        found.extend(
            chosen
                .filter(|key| people.sockets.live(**key).is_some())
                .map(|key| key.id()),
        );
        found.retain(|index| {
            let socket = people.sockets.get(*index);
            socket.is_some_and(|socket| socket.namespace == namespace)
        });
        // A socket may have been found in several ways.
        found.sort_unstable();
        found.dedup();
        found
    }

    // ---- what passes one socket --------------------------------------------------------------------------------------

    /// An event for this socket alone.
    #[cold]
    pub(crate) fn emit(
        &mut self,
        people: &People,
        key: SocketKey,
        event: &Emit<'_>,
        ack: Option<u64>,
    ) {
        // The list is taken in any case: it is of this event alone.
        let is_missed = self.take_missed().contains(&key.id());
        let decision = match is_missed {
            true => NOT_READY,
            false => TraceDecision::Delivered { to: 1, by: None },
        };
        self.delivery(people, key.id(), event, &decision, (Vec::new(), ack));
        let namespace = namespace_of(people, key.id());
        let followers = self.of_event(namespace, event.name);
        if followers.is_empty() {
            return;
        }
        let (who, namespace) = described(people, key.id());
        let passing = Passing {
            who,
            namespace,
            ack,
            ..Passing::event(event)
        };
        self.tell(&followers, &passing, &decision);
    }

    /// An event reached this socket, or did not.
    pub(crate) fn delivery(
        &mut self,
        people: &People,
        index: SocketId,
        event: &Emit<'_>,
        decision: &TraceDecision,
        (rooms, ack): (Vec<Box<str>>, Option<u64>),
    ) {
        let followers = self.followers(people, index);
        if followers.is_empty() {
            return;
        }
        let (who, namespace) = described(people, index);
        let passing = Passing {
            who,
            namespace,
            rooms,
            ack,
            ..Passing::event(event)
        };
        self.tell(&followers, &passing, decision);
    }

    /// The answer to an event.
    #[cold]
    pub(crate) fn answer(
        &mut self,
        people: &People,
        to: SocketKey,
        id: u64,
        args: &str,
        attachments: &[Vec<u8>],
    ) {
        let asked = self.answered(to, id);
        let mut followers = self.followers(people, to.id());
        let event = asked.as_ref().map_or("", |asked| &*asked.event);
        if !event.is_empty() {
            let namespace = namespace_of(people, to.id());
            followers.extend(self.of_event(namespace, event));
        }
        if followers.is_empty() {
            return;
        }
        let (who, namespace) = described(people, to.id());
        let now_ms = self.now.mono_ms;
        let passing = Passing {
            what: "answer",
            who,
            namespace,
            event,
            args: Some(args),
            attachments,
            ack: Some(id),
            ..Passing::default()
        };
        let after_ms = asked.as_ref().map(|asked| now_ms - asked.since_ms);
        let decision = TraceDecision::Answered { after_ms };
        self.tell(&followers, &passing, &decision);
    }

    /// A client answers an event that it was sent.
    #[cold]
    pub(crate) fn ack(
        &mut self,
        people: &People,
        from: SocketKey,
        id: u64,
        args: &str,
        attachments: &[Vec<u8>],
    ) {
        let followers = self.followers(people, from.id());
        if followers.is_empty() {
            return;
        }
        let (who, namespace) = described(people, from.id());
        let passing = Passing {
            inward: true,
            what: "answer",
            who,
            namespace,
            args: Some(args),
            attachments,
            ack: Some(id),
            ..Passing::default()
        };
        let decision = TraceDecision::Answered { after_ms: None };
        self.tell(&followers, &passing, &decision);
    }

    /// Something that a client sent is not carried out.
    #[cold]
    pub(crate) fn refusal(&mut self, people: &People, socket: SocketKey, code: &str, why: &str) {
        let refusal = (trace::name(code), trace::name(why));
        if let Some(hearing) = &mut self.hearing {
            // The event's own line tells of the refusal. Of several, the first is the cause.
            hearing.refusal.get_or_insert(refusal);
            return;
        }
        let (who, namespace) = described(people, socket.id());
        let passing = Passing {
            what: "refusal",
            who,
            namespace,
            ..Passing::default()
        };
        let (code, why) = refusal;
        let decision = TraceDecision::Refused { code, why };
        let followers = self.followers(people, socket.id());
        self.tell(&followers, &passing, &decision);
    }

    // ---- beginnings and ends -----------------------------------------------------------------------------------------

    #[cold]
    pub(crate) fn connect(&mut self, people: &People, index: SocketId) {
        let socket = people.sockets.get(index);
        let slot = socket.and_then(|socket| people.sessions.get(socket.session));
        let Some(slot) = slot else { return };
        let (key, sid) = (people.sockets.key(index), slot.sid);
        let (who, namespace) = described(people, index);
        let label = namespace.as_deref().unwrap_or_default();
        // The choice comes first: `followers` looks it up.
        self.choose(key, &sid, label);
        let passing = Passing {
            inward: true,
            what: "connect",
            who,
            namespace,
            ..Passing::default()
        };
        let decision = TraceDecision::Joined {
            transport: slot.transport(),
            protocol: slot.language.protocol().name(),
        };
        let followers = self.followers(people, index);
        self.tell(&followers, &passing, &decision);
    }

    #[cold]
    pub(crate) fn refused_connect(
        &mut self,
        people: &People,
        session: SessionId,
        namespace: &str,
        why: &str,
    ) {
        let passing = Passing {
            inward: true,
            what: "connect",
            who: client_of(people, session),
            namespace: Some(trace::name(namespace).into()),
            ..Passing::default()
        };
        let decision = TraceDecision::Refused {
            code: "connect_error".into(),
            why: trace::name(why),
        };
        let mut followers = self.followers_of_session(people, session);
        followers.retain(|trace| trace.is_in(namespace));
        self.tell(&followers, &passing, &decision);
    }

    /// A socket leaves, and its session stays.
    #[cold]
    pub(crate) fn disconnect(&mut self, people: &People, index: SocketId, why: &'static str) {
        let (who, namespace) = described(people, index);
        let passing = Passing {
            inward: true,
            what: "disconnect",
            who,
            namespace,
            ..Passing::default()
        };
        let decision = TraceDecision::Ended { why, waiting: 0 };
        let followers = self.followers(people, index);
        self.tell(&followers, &passing, &decision);
        self.chosen.remove(&people.sockets.key(index));
    }

    /// A session ends; to be called while it has its sockets.
    #[cold]
    pub(crate) fn end(
        &mut self,
        people: &People,
        session: SessionId,
        why: &'static str,
        waiting: usize,
    ) {
        let followers = self.followers_of_session(people, session);
        let first = people.sessions.get(session);
        let first = first.and_then(|slot| slot.sockets.first().copied());
        let (socket, namespace) = first.map_or((None, None), |index| described(people, index));
        // The first socket may be in a namespace that one of the followers may not see.
        let is_seen = |name: &str| followers.iter().all(|trace| trace.is_in(name));
        let seen = namespace.as_deref().is_some_and(is_seen);
        let passing = Passing {
            inward: true,
            what: "end",
            who: socket
                .filter(|_| seen)
                .or_else(|| client_of(people, session)),
            ..Passing::default()
        };
        let decision = TraceDecision::Ended { why, waiting };
        self.tell(&followers, &passing, &decision);
        let ended = people.sessions.get(session);
        for index in ended.into_iter().flat_map(|slot| &slot.sockets) {
            self.chosen.remove(&people.sockets.key(*index));
        }
    }
}

/// The name of a socket's namespace; empty if there is no such socket.
pub(crate) fn namespace_of(people: &People, index: SocketId) -> &str {
    let socket = people.sockets.get(index);
    let label = socket.and_then(|socket| people.namespaces.label(socket.namespace));
    label.map_or("", |name| name)
}

/// A socket and its client, as lines name them.
pub(crate) fn described(people: &People, index: SocketId) -> (Option<TraceWho>, Option<Arc<str>>) {
    let Some(socket) = people.sockets.get(index) else {
        return (None, None);
    };
    let who = client_of(people, socket.session).map(|who| TraceWho {
        socket: Some(socket.id),
        user: people.user_of(index).map(trace::name),
        ..who
    });
    (who, people.namespaces.label(socket.namespace).cloned())
}

fn client_of(people: &People, session: SessionId) -> Option<TraceWho> {
    let sid = people.sessions.get(session)?.sid.encode();
    // A reader who had the whole sid could poll in the client's place.
    let beginning = String::from_utf8_lossy(&sid[..8]);
    Some(TraceWho {
        session: format!("{beginning}…").into(),
        socket: None,
        user: None,
    })
}

/// The user or socket that said something, if a client did.
pub(crate) fn speaker_name(people: &People, author: Author<'_>) -> Option<Speaker> {
    let user = people.user_behind(author).map(trace::name);
    user.map(Speaker::User).or_else(|| match author {
        Author::Client(key) => Some(Speaker::Socket(people.sockets.live(key)?.id)),
        _ => None,
    })
}
