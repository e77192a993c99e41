//! A live trace: what an operator wants to see as it passes, and the lines that wait for him. Shards write, one reader outside reads;
//! nobody waits for the reader.

use crate::bounds::{
    TRACE_ARGS_BYTES_MAX, TRACE_BYTES_MAX, TRACE_NAME_BYTES_MAX, TRACE_ROOMS_MAX, TRACE_SHAPES_MAX,
};
use crate::clients::marks::Marks;
use crate::output::copies::{Copies, Weigh};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use wire::base64url::Id20;
use wire::json;

/// Cost of a line beside its texts.
const OVERHEAD_BYTES: usize = 256;

/// The thing that is followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The session of this id, or of the socket of this id.
    Session(Id20),
    /// All sockets of a user.
    User(Box<str>),
    /// Events to a room, and events whose first argument is its name.
    Room(Box<str>),
    /// Events of a name.
    Event(Box<str>),
    /// So many of 10,000 sessions, of those that begin while it runs. Their ids decide.
    Share(u16),
}

/// What a trace may cost and show.
#[derive(Clone, Copy, Debug)]
pub struct TraceBounds {
    /// The time at which the trace ends by itself: Unix time, milliseconds.
    pub until_ms: u64,
    /// Lines of one second. More are counted and not told.
    pub lines_per_s: u32,
    /// Arguments are shown as they are; else only their types and sizes.
    pub payload: bool,
    /// Names of users and rooms are shown by these marks.
    pub marks: Option<Marks>,
}

/// What is followed, and the lines about it.
#[derive(Debug)]
pub struct LiveTrace {
    subject: Subject,
    /// The namespace whose sockets and events alone are followed, if there is one. Traces of rooms and events always have one.
    namespace: Option<Box<str>>,
    bounds: TraceBounds,
    lines: Copies<TraceLine>,
    /// The second, and the lines that it had: 32 bits each.
    pace: AtomicU64,
    /// Lines above the pace.
    hurried: AtomicU64,
    ended: AtomicBool,
    /// Unix time, milliseconds; 0: no shard follows it yet.
    began_ms: AtomicU64,
}

/// One thing that passed.
#[derive(Clone, Debug)]
pub struct TraceLine {
    /// Unix time, milliseconds.
    pub at_ms: u64,
    /// The shard that saw it.
    pub shard: u16,
    /// It came from a client.
    pub inward: bool,
    /// `event`, `answer`, `connect`, `disconnect`, `end` or `refusal`.
    pub what: &'static str,
    /// The client whose socket it passed; none where it went to many.
    pub who: Option<TraceWho>,
    /// The namespace, where there is one.
    pub namespace: Option<Arc<str>>,
    /// The event's name; empty where there is none.
    pub event: Box<str>,
    /// Rooms that it was for, the first of them.
    pub rooms: Vec<Box<str>>,
    /// Bytes of its arguments and attachments.
    pub bytes: usize,
    /// Its arguments, or their types and sizes.
    pub args: Option<Box<str>>,
    /// The mark in the place of a first argument that is a text, where names are not shown.
    pub mark: Option<Box<str>>,
    /// Sizes of its attachments.
    pub attachments: Vec<usize>,
    /// The number by which it is answered, or that it answers.
    pub ack: Option<u64>,
    /// The rule that decided.
    pub rule: Option<Box<str>>,
    /// What became of it.
    pub decision: TraceDecision,
}

/// A client, as a line names it.
#[derive(Clone, Debug)]
pub struct TraceWho {
    /// The beginning of its session's id. The whole id is the secret by which a client polls.
    pub session: Box<str>,
    /// Its socket.
    pub socket: Option<Id20>,
    /// The user of that socket.
    pub user: Option<Box<str>>,
}

/// A client that says something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Speaker {
    /// A user, by name.
    User(Box<str>),
    /// A socket without a user.
    Socket(Id20),
}

impl fmt::Display for Speaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => f.write_str(name),
            Self::Socket(id) => id.fmt(f),
        }
    }
}

/// What became of something that passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceDecision {
    /// Sent on to others.
    Relayed {
        /// Sockets of this shard.
        here: u64,
        /// Letters to other shards of this node.
        shards: u64,
        /// Letters to other nodes.
        away: u64,
    },
    /// Handed to the namespace's backend.
    Backend,
    /// Not carried out, and its sender was told.
    Refused {
        /// The reason, for programs.
        code: Box<str>,
        /// The reason, for people.
        why: Box<str>,
    },
    /// The event came to nothing.
    Dropped {
        /// Why.
        why: &'static str,
    },
    /// Done by the rule itself, and nothing was sent on.
    Handled,
    /// Given to sockets of this shard.
    Delivered {
        /// The number of these sockets.
        to: u64,
        /// The client that said it, if one did.
        by: Option<Speaker>,
    },
    /// The answer to an event.
    Answered {
        /// The time since the event was heard, milliseconds; none if nobody followed it then.
        after_ms: Option<u64>,
    },
    /// A socket is in its namespace.
    Joined {
        /// `polling`, `websocket`, `webtransport` or `sse`.
        transport: &'static str,
        /// The protocol of its client.
        protocol: &'static str,
    },
    /// A socket left, or its session was cut.
    Ended {
        /// The reason, as in `sockeye_closes_total`.
        why: &'static str,
        /// Bytes that waited for the client.
        waiting: usize,
    },
}

impl Weigh for TraceLine {
    fn bytes(&self) -> usize {
        let args = self.args.as_ref().map_or(0, |args| args.len());
        let rooms: usize = self.rooms.iter().map(|room| room.len() + 16).sum();
        OVERHEAD_BYTES + self.event.len() + args + rooms
    }
}

impl LiveTrace {
    /// Follows something in one namespace, or (a session or a user) in all.
    pub fn new(subject: Subject, namespace: Option<&str>, bounds: TraceBounds) -> Self {
        Self {
            subject,
            namespace: namespace.map(Box::from),
            bounds,
            lines: Copies::bounded(TRACE_BYTES_MAX),
            pace: AtomicU64::new(0),
            hurried: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            began_ms: AtomicU64::new(0),
        }
    }

    /// The next line; those of one shard are in order.
    pub fn next(&self) -> Option<TraceLine> {
        self.lines.next()
    }

    /// Lines that were not told because there were too many.
    pub fn dropped(&self) -> u64 {
        self.lines.dropped() + self.hurried.load(Ordering::Relaxed)
    }

    /// Shards write no more.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// A shard follows it from now on.
    pub(crate) fn begin(&self, now_ms: u64) {
        let began = &self.began_ms;
        // Another shard may have been first.
        let _ = began.compare_exchange(0, now_ms, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(crate) fn began_ms(&self) -> u64 {
        self.began_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn is_over(&self, now_ms: u64) -> bool {
        self.ended.load(Ordering::Relaxed) || now_ms >= self.bounds.until_ms
    }

    pub(crate) fn subject(&self) -> &Subject {
        &self.subject
    }

    pub(crate) fn shows_payload(&self) -> bool {
        self.bounds.payload
    }

    pub(crate) fn marks(&self) -> Option<Marks> {
        self.bounds.marks
    }

    /// Something of it is not told, and its reader learns that.
    pub(crate) fn pass_over(&self) {
        self.hurried.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn is_in(&self, namespace: &str) -> bool {
        let own = self.namespace.as_deref();
        own.is_none_or(|own| own == namespace)
    }

    /// Whether it has a namespace of its own: sessions and users of all namespaces have none.
    pub(crate) fn is_limited(&self) -> bool {
        self.namespace.is_some()
    }

    /// Counts a line; `false`: the second has had its lines.
    pub(crate) fn admits(&self, now_ms: u64) -> bool {
        let (second, max) = ((now_ms / 1_000) & 0xffff_ffff, self.bounds.lines_per_s);
        let next = |pace: u64| match (pace >> 32 == second, pace as u32) {
            (false, _) => Some((second << 32) | 1),
            (true, told) if told < max => Some(pace + 1),
            (true, _) => None,
        };
        // All shards share the lines of one second.
        let told = self
            .pace
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        if told.is_err() {
            self.pass_over();
        }
        told.is_ok()
    }

    pub(crate) fn note(&self, line: TraceLine) {
        // The queue counts a line that finds no room.
        let _ = self.lines.push(line);
    }
}

/// A name, or its beginning.
pub(crate) fn name(text: &str) -> Box<str> {
    cut(text, TRACE_NAME_BYTES_MAX).into()
}

pub(crate) fn rooms(names: &[&str]) -> Vec<Box<str>> {
    names
        .iter()
        .take(TRACE_ROOMS_MAX)
        .map(|room| name(room))
        .collect()
}

fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// Arguments as they are.
pub(crate) fn payload(args: &str) -> Box<str> {
    cut(args, TRACE_ARGS_BYTES_MAX).into()
}

/// Types and sizes of arguments, and nothing of their content.
pub(crate) fn shape(args: &str, attachments: &[Vec<u8>]) -> Box<str> {
    let mut shapes: Vec<String> = Vec::new();
    let mut all = json::Elements::bare(args);
    for raw in all.by_ref().take(TRACE_SHAPES_MAX) {
        shapes.push(match raw.as_bytes().first() {
            Some(b'"') => format!("string({})", raw.len().saturating_sub(2)),
            Some(b'{') if raw.starts_with("{\"_placeholder\"") => "binary".to_owned(),
            Some(b'{') => format!("object({})", raw.len()),
            Some(b'[') => format!("array({})", raw.len()),
            Some(b't' | b'f') => "boolean".to_owned(),
            Some(b'n') => "null".to_owned(),
            _ => "number".to_owned(),
        });
    }
    if all.next().is_some() {
        shapes.push("…".to_owned());
    }
    let sizes = attachments.iter().take(TRACE_SHAPES_MAX);
    shapes.extend(sizes.map(|bytes| format!("attachment({})", bytes.len())));
    shapes.join(", ").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(lines_per_s: u32) -> LiveTrace {
        let bounds = TraceBounds {
            until_ms: 10_000,
            lines_per_s,
            payload: true,
            marks: None,
        };
        LiveTrace::new(Subject::User("ada".into()), None, bounds)
    }

    fn line(args: &str) -> TraceLine {
        TraceLine {
            at_ms: 1,
            shard: 0,
            inward: true,
            what: "event",
            who: None,
            namespace: None,
            event: "chat".into(),
            rooms: Vec::new(),
            bytes: args.len(),
            args: Some(payload(args)),
            mark: None,
            attachments: Vec::new(),
            ack: None,
            rule: None,
            decision: TraceDecision::Handled,
        }
    }

    #[test]
    fn a_shape_tells_nothing_of_the_content() {
        let args = r#""secret",{"a":"secret"},[1,2],42,true,null,{"_placeholder":true,"num":0}"#;
        let shape = shape(args, &[vec![0; 7]]);
        assert_eq!(
            &*shape,
            "string(6), object(14), array(5), number, boolean, null, binary, attachment(7)"
        );
        assert_eq!(
            super::shape("1,2,3,4,5,6,7,8,9,10", &[])
                .matches("number")
                .count(),
            8
        );
        assert_eq!(&*super::shape("", &[]), "");
    }

    #[test]
    fn a_second_has_its_lines_and_the_next_one_too() {
        let trace = trace(3);
        let admitted = |at| (0..5).filter(|_| trace.admits(at)).count();
        assert_eq!(
            (admitted(1_000), admitted(1_999), admitted(2_000)),
            (3, 0, 3)
        );
        assert_eq!(trace.dropped(), 2 + 5 + 2);
        assert!(!trace.is_over(9_999) && trace.is_over(10_000));
    }

    #[test]
    fn a_reader_that_stands_still_costs_bounded_memory() {
        let trace = trace(u32::MAX);
        let long = "7".repeat(1_000_000);
        for _ in 0..1_000 {
            trace.note(line(&long));
        }
        let kept = std::iter::from_fn(|| trace.next());
        let (lines, bytes) = kept.fold((0, 0), |(lines, bytes), line| {
            (lines + 1, bytes + line.bytes())
        });
        assert_eq!(lines + trace.dropped(), 1_000);
        assert!(bytes <= TRACE_BYTES_MAX && lines > 200, "{lines} {bytes}");
    }

    #[test]
    fn names_are_cut_between_letters() {
        let long = "é".repeat(500);
        assert_eq!(name(&long).len(), TRACE_NAME_BYTES_MAX);
        assert_eq!(name(&format!("x{long}")).len(), TRACE_NAME_BYTES_MAX - 1);
    }
}
