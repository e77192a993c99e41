//! The live traces that a shard follows. While there are none, an event pays one test for them at each of its stations; all the rest is
//! here, and cold.

use crate::clients::people::People;
use crate::clients::trace::{self, LiveTrace, Subject, TraceDecision, TraceLine, TraceWho};
use crate::dialect::notices;
use crate::dialect::speech::{Author, Emit};
use crate::tables::clock::Now;
use crate::tables::slot::{NamespaceId, SessionId, SocketId, SocketKey};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;
use wire::json;

/// Traces of one shard. Those who begin them bound themselves below it.
const LIVE_MAX: usize = 64;
/// Events whose answers are waited for. The newest takes the place of the oldest.
const ASKED_MAX: usize = 1_024;
/// Rooms that one event may be noted for.
const SPOKEN_MAX: usize = 32;
/// Lines that wait for the line of the event that caused them.
const HELD_MAX: usize = 256;
/// Sockets of one user that one event is told of.
const FOLLOWED_MAX: usize = 32;

/// The traces that something is a line of.
pub(crate) type Followers = SmallVec<[Arc<LiveTrace>; 2]>;

#[derive(Debug, Default)]
pub(crate) struct Traces {
    live: Vec<Arc<LiveTrace>>,
    shard: u16,
    now: Now,
    /// Events that were followed and want an answer.
    asked: VecDeque<Asked>,
    /// The event that is at its handler.
    hearing: Option<Hearing>,
    /// Sockets that the last event did not reach, because it is volatile and they were not ready.
    missed: Vec<SocketId>,
}

/// What the handler has done with an event so far.
#[derive(Debug, Default)]
pub(crate) struct Hearing {
    /// Code and reason.
    pub(crate) refusal: Option<(Box<str>, Box<str>)>,
    /// Rooms that it was sent to.
    pub(crate) rooms: Vec<Box<str>>,
    /// Lines about what came of it, for behind its own.
    held: Vec<(Arc<LiveTrace>, TraceLine)>,
}

#[derive(Debug)]
struct Asked {
    socket: SocketKey,
    id: u64,
    since_ms: u64,
    event: Box<str>,
}

/// Something that passes, as its lines will show it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Passing<'a> {
    pub(crate) inward: bool,
    pub(crate) what: &'static str,
    pub(crate) who: Option<TraceWho>,
    pub(crate) namespace: Option<Arc<str>>,
    pub(crate) event: &'a str,
    pub(crate) rooms: Vec<Box<str>>,
    pub(crate) args: Option<&'a str>,
    pub(crate) attachments: &'a [Vec<u8>],
    pub(crate) rule: Option<Box<str>>,
}

impl Traces {
    /// Whether anybody follows anything. HOT PATH.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        !self.live.is_empty()
    }

    pub(crate) fn begin(&mut self, shard: u16, now: Now, trace: Arc<LiveTrace>) {
        self.begin_turn(now);
        self.shard = shard;
        if self.live.len() < LIVE_MAX && !trace.is_over(now.wall_ms) {
            self.live.push(trace);
        }
    }

    /// Forgets what is over.
    #[cold]
    pub(crate) fn begin_turn(&mut self, now: Now) {
        self.now = now;
        self.live.retain(|trace| !trace.is_over(now.wall_ms));
        if self.live.is_empty() {
            self.asked = VecDeque::new();
        }
    }

    pub(crate) fn begin_hearing(&mut self) {
        self.hearing = Some(Hearing::default());
    }

    pub(crate) fn end_hearing(&mut self) -> Hearing {
        self.hearing.take().unwrap_or_default()
    }

    /// The event's own line was told: those about what came of it follow.
    pub(crate) fn tell_held(hearing: Hearing) {
        for (trace, line) in hearing.held {
            trace.note(line);
        }
    }

    /// An answer to this event is to be told.
    pub(crate) fn expect(&mut self, socket: SocketKey, id: u64, event: &str) {
        if self.asked.len() == ASKED_MAX {
            self.asked.pop_front();
        }
        self.asked.push_back(Asked {
            socket,
            id,
            since_ms: self.now.mono_ms,
            event: trace::name(event),
        });
    }

    fn answered(&mut self, socket: SocketKey, id: u64) -> Option<Asked> {
        let mut asked = self.asked.iter();
        let at = asked.position(|asked| asked.socket == socket && asked.id == id)?;
        self.asked.remove(at)
    }

    /// The event that is at its handler goes to these rooms.
    pub(crate) fn spoken(&mut self, rooms: &[&str]) {
        if let Some(hearing) = &mut self.hearing
            && hearing.rooms.len() < SPOKEN_MAX
        {
            hearing.rooms.extend(trace::rooms(rooms));
        }
    }

    pub(crate) fn follows_rooms(&self) -> bool {
        let mut live = self.live.iter();
        live.any(|trace| matches!(trace.subject(), Subject::Room(_)))
    }

    /// Those of a room, by its name.
    pub(crate) fn of_rooms(&self, namespace: &str, is_meant: impl Fn(&str) -> bool) -> Followers {
        let of = |trace: &&Arc<LiveTrace>| match trace.subject() {
            Subject::Room(room) => trace.is_in(namespace) && is_meant(room),
            _ => false,
        };
        self.live.iter().filter(of).cloned().collect()
    }

    /// Those of an event's name.
    pub(crate) fn of_event(&self, namespace: &str, event: &str) -> Followers {
        let of = |trace: &&Arc<LiveTrace>| match trace.subject() {
            Subject::Event(name) => trace.is_in(namespace) && **name == *event,
            _ => false,
        };
        self.live.iter().filter(of).cloned().collect()
    }

    /// A volatile event was dropped for this socket.
    #[cold]
    pub(crate) fn miss(&mut self, socket: SocketId) {
        if self.is_on() && self.missed.len() < FOLLOWED_MAX {
            self.missed.push(socket);
        }
    }

    pub(crate) fn take_missed(&mut self) -> Vec<SocketId> {
        std::mem::take(&mut self.missed)
    }

    /// A line for each of the traces that have room for it.
    pub(crate) fn tell(
        &mut self,
        followers: &Followers,
        passing: &Passing<'_>,
        decision: &TraceDecision,
    ) {
        let at_ms = self.now.wall_ms;
        for trace in followers.iter().filter(|trace| trace.admits(at_ms)) {
            let attached: usize = passing.attachments.iter().map(Vec::len).sum();
            let line = TraceLine {
                at_ms,
                shard: self.shard,
                inward: passing.inward,
                what: passing.what,
                who: passing.who.clone(),
                namespace: passing.namespace.clone(),
                event: trace::name(passing.event),
                rooms: passing.rooms.clone(),
                bytes: passing.args.map_or(0, str::len) + attached,
                args: passing.args.map(|args| match trace.shows_payload() {
                    true if !is_secret(passing.event, args) => trace::payload(args),
                    _ => trace::shape(args, passing.attachments),
                }),
                rule: passing.rule.clone(),
                decision: decision.clone(),
            };
            match &mut self.hearing {
                Some(hearing) if hearing.held.len() < HELD_MAX => {
                    hearing.held.push((Arc::clone(trace), line));
                }
                _ => trace.note(line),
            }
        }
    }
}

/// Tokens, and signed addresses of bodies: whoever has them may use them. They are shown to nobody.
fn is_secret(event: &str, args: &str) -> bool {
    event == notices::REFRESH || event == notices::LARGE || args.contains(notices::LARGE)
}

impl People {
    /// Those that follow this socket or its session.
    pub(crate) fn followers(&self, index: SocketId) -> Followers {
        let Some(socket) = self.sockets.get(index) else {
            return Followers::new();
        };
        let namespace = self.namespace_of(index);
        let sid = self.sessions.get(socket.session).map(|slot| slot.sid);
        let of = |trace: &&Arc<LiveTrace>| {
            let is_meant = match trace.subject() {
                Subject::Session(id) => *id == socket.id || Some(*id) == sid,
                Subject::User(user) => self.user_of(index) == Some(user),
                Subject::Room(_) | Subject::Event(_) => false,
            };
            is_meant && trace.is_in(namespace)
        };
        self.traces.live.iter().filter(of).cloned().collect()
    }

    /// Those that follow a session as a whole, or one of its sockets.
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
            // What is no namespace's is not for those who see one only.
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
                Subject::Room(_) | Subject::Event(_) => {}
            }
        }
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
    pub(crate) fn speaker_name(&self, author: Author<'_>) -> Option<Box<str>> {
        let user = self.user_behind(author).map(trace::name);
        user.or_else(|| match author {
            Author::Client(key) => Some(self.sockets.live(key)?.id.to_string().into()),
            _ => None,
        })
    }

    // ---- what passes one socket --------------------------------------------------------------------------------------

    /// An event for this socket alone.
    #[cold]
    pub(crate) fn trace_emit(&mut self, key: SocketKey, event: &Emit<'_>) {
        let is_missed = self.traces.take_missed().contains(&key.id());
        let decision = match is_missed {
            true => NOT_READY,
            false => TraceDecision::Delivered { to: 1, by: None },
        };
        self.trace_delivery(key.id(), event, &decision, Vec::new());
        let namespace = self.namespace_of(key.id());
        let followers = self.traces.of_event(namespace, event.name);
        if followers.is_empty() {
            return;
        }
        let (who, namespace) = self.described(key.id());
        let passing = Passing {
            who,
            namespace,
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
        rooms: Vec<Box<str>>,
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
            ..Passing::default()
        };
        let after_ms = asked.as_ref().map(|asked| now_ms - asked.since_ms);
        let decision = TraceDecision::Answered { after_ms };
        self.traces.tell(&followers, &passing, &decision);
    }

    /// A client answers an event that it was sent.
    #[cold]
    pub(crate) fn trace_ack(&mut self, from: SocketKey, args: &str, attachments: &[Vec<u8>]) {
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
        let (who, namespace) = self.described(index);
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
            code: "CONNECT_ERROR".into(),
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
    }

    /// A session ends; to be called while it has its sockets.
    #[cold]
    pub(crate) fn trace_end(&mut self, session: SessionId, why: &'static str, waiting: usize) {
        let first = self.sessions.get(session);
        let first = first.and_then(|slot| slot.sockets.first());
        let who = match first {
            Some(index) => self.described(*index).0,
            None => self.who(session),
        };
        let passing = Passing {
            inward: true,
            what: "end",
            who,
            ..Passing::default()
        };
        let decision = TraceDecision::Ended { why, waiting };
        let followers = self.followers_of_session(session);
        self.traces.tell(&followers, &passing, &decision);
    }
}

/// For a volatile event whose receiver was not ready.
pub(crate) const NOT_READY: TraceDecision = TraceDecision::Dropped {
    why: "it is volatile, and the client was not ready",
};

impl<'a> Passing<'a> {
    /// An event on its way out.
    pub(crate) fn event(event: &Emit<'a>) -> Self {
        Self {
            what: "event",
            event: event.name,
            args: Some(event.args),
            attachments: event.attachments,
            ..Self::default()
        }
    }
}

/// Whether the first argument of an event is this name.
pub(crate) fn names_first(args: &str, name: &str) -> bool {
    let first = json::first(args).and_then(json::unquote);
    first.is_some_and(|first| first == name)
}
