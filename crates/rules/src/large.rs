//! Large events: a store outside keeps the body, and members get a reference in the place of the event, in order with the others.
//!
//! While one is on its way to the store, later publications of the same socket wait behind it. Nobody else waits.

use crate::bounds::{LARGE_SHARD_BYTES_MAX, LARGE_SOCKET_BYTES_MAX};
use crate::forbidden::Forbidden;
use bytes::Bytes;
use hub::{AckTo, Author, Context, Emit, Member, SocketKey, notices};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use wire::json;

/// The treatment of events with many bytes, in one namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "a variant says what its fields are")]
pub enum Large {
    /// They are sent like all others.
    #[default]
    Through,
    /// Those with more bytes are kept by a store; it has so long to take one.
    Store { above: usize, timeout: Duration },
    /// Those with more bytes are refused.
    Refuse { above: usize },
}

impl Large {
    /// The bound that an event of so many bytes is above, if it is to be stored.
    pub fn stores(self, bytes: usize) -> bool {
        matches!(self, Self::Store { above, .. } if bytes > above)
    }

    /// The bound that an event of so many bytes is refused for.
    pub fn refuses(self, bytes: usize) -> Option<usize> {
        match self {
            Self::Refuse { above } if bytes > above => Some(above),
            _ => None,
        }
    }
}

/// The form of an event's body in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyForm {
    /// A JSON array of the arguments.
    Json,
    /// A line that is a JSON array of lengths, then the array of the arguments, then the attachments: parts of these lengths.
    Parts,
}

/// An event whose body a store is to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "a field says what it is")]
pub struct LargeEvent {
    pub namespace: String,
    pub event: String,
    pub form: BodyForm,
    pub body: Bytes,
}

/// The answer of a store: the reference, which is one JSON object, or why there is none.
pub type Kept = Result<String, String>;

const JSON: u8 = b'j';
const PARTS: u8 = b'p';
const KEPT: u8 = b'+';
const FAILED: u8 = b'-';

/// Bytes of an event, as bounds of large events count them.
pub fn event_bytes(name: &str, args: &str, attachments: &[impl AsRef<[u8]>]) -> usize {
    let attached: usize = attachments.iter().map(|bytes| bytes.as_ref().len()).sum();
    name.len() + args.len() + attached
}

impl LargeEvent {
    /// `args` are raw JSON elements separated by commas.
    pub fn new(namespace: &str, event: &str, args: &str, attachments: &[impl AsRef<[u8]>]) -> Self {
        let mut body = Vec::with_capacity(event_bytes("", args, attachments) + 64);
        let form = write_body(&mut body, args, attachments);
        Self {
            namespace: namespace.to_owned(),
            event: event.to_owned(),
            form,
            body: body.into(),
        }
    }

    /// As a question of a shard.
    fn ask(namespace: &str, event: &Emit<'_>) -> Box<[u8]> {
        let bytes = event_bytes(event.name, event.args, event.attachments);
        let mut question = Vec::with_capacity(bytes + namespace.len() + 128);
        question.push(JSON);
        for name in [namespace, event.name] {
            // Names are shorter than messages, whose length 32 bits hold.
            question.extend_from_slice(&(name.len() as u32).to_be_bytes());
            question.extend_from_slice(name.as_bytes());
        }
        if write_body(&mut question, event.args, event.attachments) == BodyForm::Parts {
            question[0] = PARTS;
        }
        question.into()
    }

    /// Reads a question of a shard. `None`: it is no such question.
    pub fn read(question: Box<[u8]>) -> Option<Self> {
        let mut rest = Bytes::from(question);
        let form = match *rest.first()? {
            JSON => BodyForm::Json,
            PARTS => BodyForm::Parts,
            _ => return None,
        };
        let _ = rest.split_to(1);
        let mut name = || {
            let len: [u8; 4] = rest.get(..4)?.try_into().ok()?;
            let len = u32::from_be_bytes(len) as usize;
            let text = String::from_utf8(rest.get(4..4 + len)?.to_vec()).ok();
            let _ = rest.split_to(4 + len);
            text
        };
        let (namespace, event) = (name()?, name()?);
        Some(Self {
            namespace,
            event,
            form,
            body: rest,
        })
    }
}

/// The answer, as a shard reads it.
pub fn answer(kept: &Kept) -> Box<[u8]> {
    let (mark, text) = match kept {
        Ok(reference) => (KEPT, reference),
        Err(why) => (FAILED, why),
    };
    let mut answer = vec![mark];
    answer.extend_from_slice(text.as_bytes());
    answer.into()
}

fn read_answer(answer: Option<&[u8]>) -> Kept {
    let silent = || "the store did not answer in time".to_owned();
    let (mark, text) = answer.and_then(<[u8]>::split_first).ok_or_else(silent)?;
    let text = String::from_utf8_lossy(text).into_owned();
    if *mark == KEPT { Ok(text) } else { Err(text) }
}

fn write_body(out: &mut Vec<u8>, args: &str, attachments: &[impl AsRef<[u8]>]) -> BodyForm {
    let form = match attachments.is_empty() {
        true => BodyForm::Json,
        false => BodyForm::Parts,
    };
    if form == BodyForm::Parts {
        let mut lengths = format!("[{}", args.len() + 2);
        for attachment in attachments {
            lengths.push_str(&format!(",{}", attachment.as_ref().len()));
        }
        out.extend_from_slice(lengths.as_bytes());
        out.extend_from_slice(b"]\n");
    }
    out.push(b'[');
    out.extend_from_slice(args.as_bytes());
    out.push(b']');
    for attachment in attachments {
        out.extend_from_slice(attachment.as_ref());
    }
    form
}

/// Something that a socket publishes.
pub(crate) struct Publication<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) rooms: &'a [&'a str],
    /// The sender gets it, too.
    pub(crate) echo: bool,
    pub(crate) event: Emit<'a>,
    /// The arguments of the answer, once everybody gets it.
    pub(crate) answer: &'a str,
}

/// A publication that waits for its turn.
struct Waiting {
    namespace: Box<str>,
    rooms: Box<[Box<str>]>,
    except: Option<Box<str>>,
    body: Body,
    volatile: bool,
    /// Its client's.
    user: Option<Box<str>>,
    ack: Option<AckTo>,
    answer: Box<str>,
}

enum Body {
    /// The store has not answered.
    Asked(u64),
    Kept(String),
    Failed(String),
    /// It is not large, and came later.
    Small {
        name: Box<str>,
        args: Box<str>,
        attachments: Box<[Vec<u8>]>,
    },
}

impl Waiting {
    fn bytes(&self) -> usize {
        let rooms: usize = self.rooms.iter().map(|room| room.len()).sum();
        let body = match &self.body {
            Body::Small {
                name,
                args,
                attachments,
            } => event_bytes(name, args, attachments),
            // The question keeps it.
            Body::Asked(_) | Body::Kept(_) | Body::Failed(_) => 0,
        };
        let user = self.user.as_ref().map_or(0, |user| user.len());
        size_of::<Self>() + rooms + self.namespace.len() + user + self.answer.len() + body
    }
}

const BUSY: &str = "Too much waits for the store of large events";

/// The publications of this shard that wait for the store, or behind one that does.
#[derive(Default)]
pub(crate) struct Queue {
    sockets: HashMap<SocketKey, Line>,
    asked: HashMap<u64, SocketKey>,
    bytes: usize,
    made: u64,
}

#[derive(Default)]
struct Line {
    waiting: VecDeque<Waiting>,
    bytes: usize,
}

impl Queue {
    /// Publishes an event, now or when its turn has come, and answers its client. HOT PATH.
    pub(crate) fn publish(
        &mut self,
        socket: &mut Member<'_>,
        large: Large,
        what: &Publication<'_>,
        ack: Option<AckTo>,
    ) {
        let Emit {
            name,
            args,
            attachments,
            ..
        } = what.event;
        if large != Large::Through {
            let bytes = event_bytes(name, args, attachments);
            if let Large::Store { timeout, .. } = large
                && large.stores(bytes)
            {
                return self.keep(socket, what, ack, timeout);
            }
            if let Some(above) = large.refuses(bytes) {
                let message = format!("The event has {bytes} bytes, and {above} are allowed");
                return socket.refuse(ack, &message, "EVENT_TOO_LARGE");
            }
        }
        if !self.sockets.is_empty() && self.sockets.contains_key(&socket.key()) {
            let body = Body::Small {
                name: name.into(),
                args: args.into(),
                attachments: attachments.into(),
            };
            return self.wait(socket, what, ack, body);
        }
        let sent = match what.echo {
            true => socket
                .cx()
                .of(what.namespace)
                .to(what.rooms)
                .emit(&what.event),
            false => socket.to(what.rooms).emit(&what.event),
        };
        finish(socket, ack, what.answer, Forbidden::unless_everyone(sent));
    }

    /// Asks the store to keep an event.
    fn keep(
        &mut self,
        socket: &mut Member<'_>,
        what: &Publication<'_>,
        ack: Option<AckTo>,
        timeout: Duration,
    ) {
        if !self.has_room(socket.key(), 0) {
            return socket.refuse(ack, BUSY, "STORE_BUSY");
        }
        self.made += 1;
        let token = self.made;
        let question = LargeEvent::ask(what.namespace, &what.event);
        if !socket.ask_outside(question, timeout, token) {
            return socket.refuse(ack, BUSY, "STORE_BUSY");
        }
        self.asked.insert(token, socket.key());
        self.wait(socket, what, ack, Body::Asked(token));
    }

    fn has_room(&self, socket: SocketKey, bytes: usize) -> bool {
        let own = self.sockets.get(&socket).map_or(0, |line| line.bytes);
        own + bytes <= LARGE_SOCKET_BYTES_MAX && self.bytes + bytes <= LARGE_SHARD_BYTES_MAX
    }

    fn wait(
        &mut self,
        socket: &mut Member<'_>,
        what: &Publication<'_>,
        ack: Option<AckTo>,
        body: Body,
    ) {
        let id = socket.id().filter(|_| !what.echo);
        let is_asked = matches!(body, Body::Asked(_));
        let waiting = Waiting {
            namespace: what.namespace.into(),
            rooms: what.rooms.iter().map(|room| (*room).into()).collect(),
            except: id.map(|id| id.to_string().into()),
            body,
            volatile: what.event.volatile,
            user: socket.user().map(Into::into),
            ack,
            answer: what.answer.into(),
        };
        let bytes = waiting.bytes();
        if !is_asked && !self.has_room(socket.key(), bytes) {
            return socket.refuse(waiting.ack, BUSY, "STORE_BUSY");
        }
        self.bytes += bytes;
        let line = self.sockets.entry(socket.key()).or_default();
        line.bytes += bytes;
        line.waiting.push_back(waiting);
    }

    /// The store has answered, or has not in time: what waited only for that is published.
    pub(crate) fn answered(&mut self, cx: &mut Context<'_>, token: u64, answer: Option<&[u8]>) {
        let Some(socket) = self.asked.remove(&token) else {
            return;
        };
        let Some(line) = self.sockets.get_mut(&socket) else {
            return;
        };
        let asked = line.waiting.iter_mut().map(|waiting| &mut waiting.body);
        let mut asked = asked.filter(|body| matches!(body, Body::Asked(own) if *own == token));
        if let Some(body) = asked.next() {
            *body = match read_answer(answer) {
                Ok(reference) => Body::Kept(reference),
                Err(why) => Body::Failed(why),
            };
        }
        while let Some(first) = line.waiting.front()
            && !matches!(first.body, Body::Asked(_))
            && let Some(first) = line.waiting.pop_front()
        {
            let bytes = first.bytes();
            line.bytes -= bytes;
            self.bytes -= bytes;
            release(&mut cx.socket(socket), first);
        }
        if line.waiting.is_empty() {
            self.sockets.remove(&socket);
        }
    }
}

/// Its client may be gone: what it said before is said all the same.
fn release(socket: &mut Member<'_>, waiting: Waiting) {
    let Waiting {
        namespace,
        rooms,
        except,
        body,
        volatile,
        user,
        ack,
        answer,
    } = waiting;
    // Its client may be gone, and its user's events must be found by the user all the same.
    let author = user.as_deref().map_or(Author::Program, Author::User);
    let rooms: Vec<&str> = rooms.iter().map(|room| &**room).collect();
    let event = match &body {
        Body::Kept(reference) => Emit {
            volatile,
            author,
            ..Emit::new(notices::LARGE, reference)
        },
        Body::Small {
            name,
            args,
            attachments,
        } => Emit {
            attachments,
            volatile,
            author,
            ..Emit::new(name, args)
        },
        Body::Failed(why) => {
            let message = format!("The event is too large to send, and could not be stored: {why}");
            return socket.refuse(ack, &message, "STORE_UNAVAILABLE");
        }
        Body::Asked(_) => return,
    };
    let mut cx = socket.cx();
    let group = cx.of(&namespace).to(&rooms);
    let sent = group.except(except.as_deref().as_slice()).emit(&event);
    finish(socket, ack, &answer, Forbidden::unless_everyone(sent));
}

/// Answers a publisher.
pub(crate) fn finish(
    socket: &mut Member<'_>,
    ack: Option<AckTo>,
    answer: &str,
    sent: Result<(), Forbidden>,
) {
    match sent {
        Err(forbidden) => socket.refuse(ack, forbidden.message(), forbidden.code()),
        Ok(()) => {
            if let Some(ack) = ack {
                socket.cx().ack(ack, answer, &[]);
            }
        }
    }
}

/// The reference to a stored body: what members get in the place of its event.
pub fn reference(key: &str, url: &str, size: u64, event: &str, more: &[(&str, &str)]) -> String {
    let mut text = b"{\"type\":".to_vec();
    json::quote(&mut text, notices::LARGE);
    for (name, value) in [("key", key), ("url", url)] {
        member(&mut text, name, value);
    }
    text.extend_from_slice(format!(",\"size\":{size}").as_bytes());
    member(&mut text, "event", event);
    for (name, value) in more {
        member(&mut text, name, value);
    }
    text.push(b'}');
    String::from_utf8_lossy(&text).into_owned()
}

fn member(text: &mut Vec<u8>, name: &str, value: &str) {
    text.push(b',');
    json::quote(text, name);
    text.push(b':');
    json::quote(text, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_read_as_it_was_asked() {
        for attachments in [vec![], vec![vec![1, 2, 3], vec![]]] {
            let event = Emit {
                attachments: &attachments,
                ..Emit::new("e", "1,\"ä\"")
            };
            let question = LargeEvent::ask("/chat", &event);
            for end in 0..question.len().min(12) {
                assert_eq!(LargeEvent::read(question[..end].into()), None, "{end}");
            }
            let read = LargeEvent::read(question).expect("a question");
            let expected = LargeEvent::new("/chat", "e", event.args, &attachments);
            assert_eq!(read, expected);
        }
    }

    #[test]
    fn a_body_with_attachments_says_where_each_part_ends() {
        let event = LargeEvent::new("/", "e", "{\"n\":1}", &[b"ab".to_vec(), b"\n".to_vec()]);
        assert_eq!(event.form, BodyForm::Parts);
        assert_eq!(&event.body[..], b"[9,2,1]\n[{\"n\":1}]ab\n");
    }

    #[test]
    fn an_answer_is_a_reference_or_a_reason() {
        assert_eq!(
            read_answer(Some(&answer(&Ok("{}".into())))),
            Ok("{}".into())
        );
        assert_eq!(
            read_answer(Some(&answer(&Err("full".into())))),
            Err("full".into())
        );
        assert!(read_answer(None).is_err());
        assert!(read_answer(Some(b"")).is_err());
    }
}
