//! Sessions and sockets that somebody follows, and the lines about what passes them.

use crate::clients::people::People;
use crate::clients::trace::{self, Speaker, Subject, TraceDecision, TraceWho};
use crate::clients::traces::{FOLLOWED_MAX, Followers, NOT_READY, Passing, is_in_share};
use crate::dialect::speech::{Author, Emit};
use crate::tables::id::socket_made_ms;
use crate::tables::slot::{NamespaceId, SessionId, SocketId, SocketKey};
use smallvec::SmallVec;
use std::sync::Arc;

impl People {
    /// Those that follow this socket or its session. Most sockets are followed by nobody: what a subject does not need is not looked up.
    pub(crate) fn followers(&self, index: SocketId) -> Followers {
        let Some(socket) = self.sockets.get(index) else {
            return Followers::new();
        };
        let sid = || self.sessions.get(socket.session).map(|slot| slot.sid);
        self.traces.those(|trace| {
            let is_meant = match trace.subject() {
                Subject::Session(id) => *id == socket.id || Some(*id) == sid(),
                Subject::User(user) => self.user_of(index) == Some(user),
                Subject::Share(share) => {
                    // Another share may have chosen it, before this one began.
                    let is_new = socket_made_ms(&socket.id) >= trace.began_ms();
                    let is_chosen = self.traces.chosen.contains(&self.sockets.key(index));
                    is_chosen && is_new && sid().is_some_and(|sid| is_in_share(&sid, *share))
                }
                Subject::Room(_) | Subject::Event(_) => false,
            };
            is_meant && trace.is_in(self.namespace_of(index))
        })
    }

    /// Traces that follow a session as a whole, or one of its sockets.
    fn followers_of_session(&self, session: SessionId) -> Followers {
        let Some(slot) = self.sessions.get(session) else {
            return Followers::new();
        };
        let mut all: Followers = SmallVec::new();
        for index in &slot.sockets {
            for trace in self.followers(*index) {
                if !all.iter().any(|known| Arc::ptr_eq(known, &trace)) {
                    all.push(trace);
                }
            }
        }
        let whole = self.traces.live.iter().filter(|trace| {
            let is_it = *trace.subject() == Subject::Session(slot.sid);
            // A session is of no namespace: whoever may see only one does not see it.
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
    pub(crate) fn followed(&self, namespace: NamespaceId) -> Vec<SocketId> {
        let mut found = Vec::new();
        for trace in &self.traces.live {
            match trace.subject() {
                Subject::Session(id) => {
                    let session = self.find_session(id);
                    let session = session.and_then(|session| self.sessions.get(session));
                    let sockets = session.into_iter().flat_map(|slot| slot.sockets.iter());
                    found.extend(sockets.copied());
                    found.extend(self.find_socket(id));
                }
                Subject::User(user) => {
                    let mut at = self.first_of_user(namespace, user);
                    while let Some(index) = at.filter(|_| found.len() < FOLLOWED_MAX) {
                        found.push(index);
                        at = self.next_of_user(index);
                    }
                }
                Subject::Room(_) | Subject::Event(_) | Subject::Share(_) => {}
            }
        }
        let chosen = self.traces.chosen.iter();
        found.extend(
            chosen
                .filter(|key| self.sockets.live(**key).is_some())
                .map(|key| key.id()),
        );
        found.retain(|index| {
            let socket = self.sockets.get(*index);
            socket.is_some_and(|socket| socket.namespace == namespace)
        });
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The name of its namespace; empty if there is no such socket.
    pub(crate) fn namespace_of(&self, index: SocketId) -> &str {
        let socket = self.sockets.get(index);
        let label = socket.and_then(|socket| self.label(socket.namespace));
        label.map_or("", |name| name)
    }

    /// A socket and its client, as lines name them.
    pub(crate) fn described(&self, index: SocketId) -> (Option<TraceWho>, Option<Arc<str>>) {
        let Some(socket) = self.sockets.get(index) else {
            return (None, None);
        };
        let who = self.who(socket.session).map(|who| TraceWho {
            socket: Some(socket.id),
            user: self.user_of(index).map(trace::name),
            ..who
        });
        (who, self.label(socket.namespace).cloned())
    }

    fn who(&self, session: SessionId) -> Option<TraceWho> {
        let sid = self.sessions.get(session)?.sid.encode();
        let beginning = String::from_utf8_lossy(&sid[..8]);
        Some(TraceWho {
            session: format!("{beginning}…").into(),
            socket: None,
            user: None,
        })
    }

    /// The user or socket that said something, if a client did.
    pub(crate) fn speaker_name(&self, author: Author<'_>) -> Option<Speaker> {
        let user = self.user_behind(author).map(trace::name);
        user.map(Speaker::User).or_else(|| match author {
            Author::Client(key) => Some(Speaker::Socket(self.sockets.live(key)?.id)),
            _ => None,
        })
    }

    // ---- what passes one socket --------------------------------------------------------------------------------------

    /// An event for this socket alone.
    #[cold]
    pub(crate) fn trace_emit(&mut self, key: SocketKey, event: &Emit<'_>, ack: Option<u64>) {
        let is_missed = self.traces.take_missed().contains(&key.id());
        let decision = match is_missed {
            true => NOT_READY,
            false => TraceDecision::Delivered { to: 1, by: None },
        };
        self.trace_delivery(key.id(), event, &decision, (Vec::new(), ack));
        let namespace = self.namespace_of(key.id());
        let followers = self.traces.of_event(namespace, event.name);
        if followers.is_empty() {
            return;
        }
        let (who, namespace) = self.described(key.id());
        let passing = Passing {
            who,
            namespace,
            ack,
            ..Passing::event(event)
        };
        self.traces.tell(&followers, &passing, &decision);
    }

    /// An event reached this socket, or did not.
    pub(crate) fn trace_delivery(
        &mut self,
        index: SocketId,
        event: &Emit<'_>,
        decision: &TraceDecision,
        (rooms, ack): (Vec<Box<str>>, Option<u64>),
    ) {
        let followers = self.followers(index);
        if followers.is_empty() {
            return;
        }
        let (who, namespace) = self.described(index);
        let passing = Passing {
            who,
            namespace,
            rooms,
            ack,
            ..Passing::event(event)
        };
        self.traces.tell(&followers, &passing, decision);
    }

    /// The answer to an event.
    #[cold]
    pub(crate) fn trace_answer(
        &mut self,
        to: SocketKey,
        id: u64,
        args: &str,
        attachments: &[Vec<u8>],
    ) {
        let asked = self.traces.answered(to, id);
        let mut followers = self.followers(to.id());
        let event = asked.as_ref().map_or("", |asked| &*asked.event);
        if !event.is_empty() {
            let namespace = self.namespace_of(to.id());
            followers.extend(self.traces.of_event(namespace, event));
        }
        if followers.is_empty() {
            return;
        }
        let (who, namespace) = self.described(to.id());
        let now_ms = self.traces.now.mono_ms;
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
        self.traces.tell(&followers, &passing, &decision);
    }

    /// A client answers an event that it was sent.
    #[cold]
    pub(crate) fn trace_ack(
        &mut self,
        from: SocketKey,
        id: u64,
        args: &str,
        attachments: &[Vec<u8>],
    ) {
        let followers = self.followers(from.id());
        if followers.is_empty() {
            return;
        }
        let (who, namespace) = self.described(from.id());
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
        self.traces.tell(&followers, &passing, &decision);
    }

    /// Something that a client sent is not carried out.
    #[cold]
    pub(crate) fn trace_refusal(&mut self, socket: SocketKey, code: &str, why: &str) {
        let refusal = (trace::name(code), trace::name(why));
        if let Some(hearing) = &mut self.traces.hearing {
            hearing.refusal.get_or_insert(refusal);
            return;
        }
        let (who, namespace) = self.described(socket.id());
        let passing = Passing {
            what: "refusal",
            who,
            namespace,
            ..Passing::default()
        };
        let (code, why) = refusal;
        let decision = TraceDecision::Refused { code, why };
        let followers = self.followers(socket.id());
        self.traces.tell(&followers, &passing, &decision);
    }

    // ---- beginnings and ends -----------------------------------------------------------------------------------------

    #[cold]
    pub(crate) fn trace_connect(&mut self, index: SocketId) {
        let socket = self.sockets.get(index);
        let slot = socket.and_then(|socket| self.sessions.get(socket.session));
        let Some(slot) = slot else { return };
        let (key, sid) = (self.sockets.key(index), slot.sid);
        let (who, namespace) = self.described(index);
        let label = namespace.as_deref().unwrap_or_default();
        self.traces.choose(key, &sid, label);
        let passing = Passing {
            inward: true,
            what: "connect",
            who,
            namespace,
            ..Passing::default()
        };
        let decision = TraceDecision::Joined {
            transport: slot.transport(),
            protocol: slot.protocol.name(),
        };
        let followers = self.followers(index);
        self.traces.tell(&followers, &passing, &decision);
    }

    #[cold]
    pub(crate) fn trace_refused_connect(&mut self, session: SessionId, namespace: &str, why: &str) {
        let passing = Passing {
            inward: true,
            what: "connect",
            who: self.who(session),
            namespace: Some(trace::name(namespace).into()),
            ..Passing::default()
        };
        let decision = TraceDecision::Refused {
            code: "connect_error".into(),
            why: trace::name(why),
        };
        let mut followers = self.followers_of_session(session);
        followers.retain(|trace| trace.is_in(namespace));
        self.traces.tell(&followers, &passing, &decision);
    }

    /// A socket leaves, and its session stays.
    #[cold]
    pub(crate) fn trace_disconnect(&mut self, index: SocketId, why: &'static str) {
        let (who, namespace) = self.described(index);
        let passing = Passing {
            inward: true,
            what: "disconnect",
            who,
            namespace,
            ..Passing::default()
        };
        let decision = TraceDecision::Ended { why, waiting: 0 };
        let followers = self.followers(index);
        self.traces.tell(&followers, &passing, &decision);
        self.traces.chosen.remove(&self.sockets.key(index));
    }

    /// A session ends; to be called while it has its sockets.
    #[cold]
    pub(crate) fn trace_end(&mut self, session: SessionId, why: &'static str, waiting: usize) {
        let followers = self.followers_of_session(session);
        let first = self.sessions.get(session);
        let first = first.and_then(|slot| slot.sockets.first().copied());
        let (socket, namespace) = first.map_or((None, None), |index| self.described(index));
        // Its first socket may be in a namespace that one of those who look may not see.
        let is_seen = |name: &str| followers.iter().all(|trace| trace.is_in(name));
        let seen = namespace.as_deref().is_some_and(is_seen);
        let passing = Passing {
            inward: true,
            what: "end",
            who: socket.filter(|_| seen).or_else(|| self.who(session)),
            ..Passing::default()
        };
        let decision = TraceDecision::Ended { why, waiting };
        self.traces.tell(&followers, &passing, &decision);
        let ended = self.sessions.get(session);
        for index in ended.into_iter().flat_map(|slot| &slot.sockets) {
            self.traces.chosen.remove(&self.sockets.key(*index));
        }
    }
}
