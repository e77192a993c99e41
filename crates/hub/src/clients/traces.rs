//! The live traces that a shard follows. While there are none, an event pays one test for them at each of its stations; all the rest is
//! here, and cold.

use crate::bounds::{
    CHOSEN_MAX, FOLLOWED_MAX, TRACED_ACKS_MAX, TRACED_LINES_MAX, TRACED_ROOMS_MAX, TRACES_MAX,
};
use crate::clients::marks::Marks;
use crate::clients::trace::{
    self, LiveTrace, Speaker, Subject, TraceDecision, TraceLine, TraceWho,
};
use crate::dialect::notices;
use crate::dialect::speech::Emit;
use crate::tables::clock::Now;
use crate::tables::slot::{SocketId, SocketKey};
use smallvec::SmallVec;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use wire::base64url::Id20;
use wire::json;

/// A share is so many of these.
const SHARE_OF: u64 = 10_000;

/// The traces that something is a line of.
pub(crate) type Followers = SmallVec<[Arc<LiveTrace>; 2]>;

#[derive(Debug, Default)]
pub(crate) struct Traces {
    pub(super) live: Vec<Arc<LiveTrace>>,
    shard: u16,
    pub(super) now: Now,
    /// Events that were followed and want an answer.
    asked: VecDeque<Asked>,
    /// The event that is at its handler.
    pub(super) hearing: Option<Hearing>,
    /// Sockets that are in a share of all that is followed. They came after that trace began.
    pub(super) chosen: HashSet<SocketKey>,
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
    /// Lines about what came of it, which follow its own.
    held: Vec<(Arc<LiveTrace>, TraceLine)>,
}

#[derive(Debug)]
pub(super) struct Asked {
    socket: SocketKey,
    id: u64,
    pub(super) since_ms: u64,
    pub(super) event: Box<str>,
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
    pub(crate) ack: Option<u64>,
}

impl Traces {
    /// Whether anybody follows anything. HOT PATH.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        !cfg!(feature = "untraced") && !self.live.is_empty()
    }

    pub(crate) fn begin(&mut self, shard: u16, now: Now, trace: Arc<LiveTrace>) {
        // Traces that are over make room first.
        self.begin_turn(now);
        self.shard = shard;
        if self.live.len() < TRACES_MAX && !trace.is_over(now.wall_ms) {
            trace.begin(now.wall_ms);
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
            self.chosen = HashSet::new();
        }
    }

    /// A socket has come: chance decides whether it is followed.
    pub(super) fn choose(&mut self, key: SocketKey, sid: &Id20, namespace: &str) {
        let (chosen, live) = (&mut self.chosen, &self.live);
        let is_in = |trace: &&Arc<LiveTrace>| match trace.subject() {
            Subject::Share(share) => trace.is_in(namespace) && is_in_share(sid, *share),
            _ => false,
        };
        for trace in live.iter().filter(is_in) {
            if chosen.len() < CHOSEN_MAX || chosen.contains(&key) {
                chosen.insert(key);
            } else {
                trace.pass_over();
            }
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
        if self.asked.len() == TRACED_ACKS_MAX {
            self.asked.pop_front();
        }
        self.asked.push_back(Asked {
            socket,
            id,
            since_ms: self.now.mono_ms,
            event: trace::name(event),
        });
    }

    pub(super) fn answered(&mut self, socket: SocketKey, id: u64) -> Option<Asked> {
        let mut asked = self.asked.iter();
        let at = asked.position(|asked| asked.socket == socket && asked.id == id)?;
        self.asked.remove(at)
    }

    /// The event that is at its handler goes to these rooms.
    pub(crate) fn spoken(&mut self, rooms: &[&str]) {
        if let Some(hearing) = &mut self.hearing
            && hearing.rooms.len() < TRACED_ROOMS_MAX
        {
            hearing.rooms.extend(trace::rooms(rooms));
        }
    }

    pub(crate) fn follows_rooms(&self) -> bool {
        let mut live = self.live.iter();
        live.any(|trace| matches!(trace.subject(), Subject::Room(_)))
    }

    pub(super) fn those(&self, is_meant: impl Fn(&LiveTrace) -> bool) -> Followers {
        let mut found = Followers::new();
        for trace in &self.live {
            if is_meant(trace) {
                found.push(Arc::clone(trace));
            }
        }
        found
    }

    /// Followers of a room, by its name.
    pub(crate) fn of_rooms(&self, namespace: &str, is_meant: impl Fn(&str) -> bool) -> Followers {
        self.those(|trace| match trace.subject() {
            Subject::Room(room) => trace.is_in(namespace) && is_meant(room),
            _ => false,
        })
    }

    /// Followers of an event's name.
    pub(crate) fn of_event(&self, namespace: &str, event: &str) -> Followers {
        self.those(|trace| match trace.subject() {
            Subject::Event(name) => trace.is_in(namespace) && **name == *event,
            _ => false,
        })
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
            let mut line = TraceLine {
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
                    // Tokens and signed addresses are shown to nobody.
                    true if !notices::has_secret(passing.event, args) => trace::payload(args),
                    _ => trace::shape(args, passing.attachments),
                }),
                mark: None,
                attachments: passing.attachments.iter().map(Vec::len).collect(),
                ack: passing.ack,
                rule: passing.rule.clone(),
                decision: decision.clone(),
            };
            if let Some(marks) = trace.marks() {
                redact(marks, &mut line, passing.args);
            }
            match &mut self.hearing {
                Some(hearing) if hearing.held.len() < TRACED_LINES_MAX => {
                    hearing.held.push((Arc::clone(trace), line));
                }
                _ => trace.note(line),
            }
        }
    }
}

/// Takes words and names of clients out of a line. `args` is the text that the line's shapes are made of.
fn redact(marks: Marks, line: &mut TraceLine, args: Option<&str>) {
    let user = line.who.as_mut().and_then(|who| who.user.as_mut());
    if let Some(user) = user {
        *user = marks.of(user);
    }
    for room in &mut line.rooms {
        *room = marks.of(room);
    }
    match &mut line.decision {
        TraceDecision::Delivered {
            by: Some(Speaker::User(name)),
            ..
        } => *name = marks.of(name),
        // The reason may quote what was said.
        TraceDecision::Refused { why, .. } => *why = Box::default(),
        _ => {}
    }
    let first = args.and_then(json::first).and_then(json::unquote);
    line.mark = first.map(|first| marks.of(&first));
}

/// Whether a session is among so many of 10,000. Its id is random; the order of ids tells nothing.
pub(super) fn is_in_share(sid: &Id20, share: u16) -> bool {
    let mut random = [0; 8];
    random.copy_from_slice(&sid.0[..8]);
    u64::from_be_bytes(random) % SHARE_OF < u64::from(share)
}

/// The decision about a volatile event whose receiver was not ready.
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
