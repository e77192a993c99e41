//! What a plain client said.

use super::{binary, msgpack};
use crate::bounds::{ATTACHMENTS_MAX, SAFE_INTEGER_MAX};
use crate::json;
use crate::socketio::{is_reserved, placeholders};
use std::borrow::Cow;

/// One message of a plain client. `args` are raw JSON elements as in
/// [`crate::socketio::Event::args`], with Socket.IO placeholders where `attachments` stood.
#[derive(Debug, PartialEq)]
pub enum Incoming<'a> {
    /// `{"type":"join","room":"general"}`.
    Join {
        /// Room to enter.
        room: Cow<'a, str>,
        /// Ack id, if the client wants an answer.
        id: Option<u64>,
    },
    /// `{"type":"leave","room":"general"}`.
    Leave {
        /// Room to leave.
        room: Cow<'a, str>,
        /// Ack id, if the client wants an answer.
        id: Option<u64>,
    },
    /// `{"type":"message","room"?,"payload"}` and every other event. In
    /// `{"type":"message","text":…}` (no payload, but other members) the payload is the rest of
    /// the object without `type`, `room` and `id`.
    Event {
        /// The `type`.
        name: Cow<'a, str>,
        /// Room it is meant for.
        room: Option<Cow<'a, str>>,
        /// Raw arguments.
        args: Cow<'a, str>,
        /// Binary arguments, at most [`ATTACHMENTS_MAX`].
        attachments: Vec<Vec<u8>>,
        /// Ack id, if the client wants an answer.
        id: Option<u64>,
    },
    /// `{"type":"ack","id":7,"payload":…}`: answer to a server's question.
    Ack {
        /// Id of the question.
        id: u64,
        /// Raw arguments.
        args: Cow<'a, str>,
        /// Binary arguments, at most [`ATTACHMENTS_MAX`].
        attachments: Vec<Vec<u8>>,
    },
}

/// No such message: lacks `type` or `payload`, is no map, cannot be parsed, is too deep, has a `type`
/// that only the libraries may emit, or a `room`, `id` or `args` of the wrong type. Answered `INVALID_MESSAGE_FORMAT`; the connection is
/// kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Invalid {
    /// The member that is missing or wrong; `None`: it is no message at all.
    pub field: Option<&'static str>,
    /// The message's `id`, if it has one that can be read: the answer names it.
    pub id: Option<u64>,
    /// It is an `ack`: the id is that of a question.
    pub is_ack: bool,
}

impl Invalid {
    const fn at(field: &'static str) -> Self {
        Self {
            field: Some(field),
            id: None,
            is_ack: false,
        }
    }

    /// What is wrong, for people.
    pub fn message(&self) -> &'static str {
        match self.field {
            Some("type") => {
                "Invalid message format: `type` must be a string that no library reserves"
            }
            Some("room") => "Invalid message format: `room` must be a string",
            Some("id") => "Invalid message format: `id` must be a whole number below 2^53",
            Some("args") => {
                "Invalid message format: `args` must be the number of elements of `payload`"
            }
            Some(_) => {
                "Invalid message format: `payload` is missing or holds bytes that cannot be read"
            }
            None => "Invalid message format: a message is an object with `type` and `payload`",
        }
    }
}

const TYPE: Invalid = Invalid::at("type");
const PAYLOAD: Invalid = Invalid::at("payload");
const ARGS: Invalid = Invalid::at("args");

/// Parses one text message.
///
/// # Errors
/// [`Invalid`].
pub fn parse_json(text: &str) -> Result<Incoming<'_>, Invalid> {
    let fields = Fields::read(text).ok_or_else(|| no_object(text))?;
    interpret(text, &fields, Binary::InText)
}

/// The fault of a text that is not one object: another JSON value lacks a `type`. One that is nested too deep has members all the same.
#[cold]
fn no_object(text: &str) -> Invalid {
    let mut fields = Fields::default();
    for (key, value) in json::members(text) {
        if let Some(field) = fields.named(key) {
            *field = Some(value);
        }
    }
    fields.about(match json::validate(text.as_bytes()) {
        Ok(()) => TYPE,
        Err(_) => Invalid::default(),
    })
}

/// The fault of bytes that have no JSON form: they may be a message of which only the payload cannot be read.
#[cold]
fn no_json(bytes: &[u8]) -> Invalid {
    let outline = msgpack::outline(bytes).unwrap_or_default();
    let fields = Fields::read(&outline).unwrap_or_default();
    fields.about(Invalid::default())
}

/// Parses one MessagePack message. `bin` becomes an attachment; dates (notepack's ext type 0 and
/// the timestamp type -1) become ISO strings, NaN and infinities null; other ext types and keys
/// that are no strings are refused.
///
/// # Errors
/// [`Invalid`].
pub fn parse_msgpack(bytes: &[u8]) -> Result<Incoming<'static>, Invalid> {
    let decoded = msgpack::decode(bytes).ok_or_else(|| no_json(bytes))?;
    let msgpack::Decoded { json, attachments } = decoded;
    let fields = Fields::read(&json).ok_or_else(|| no_object(&json))?;
    interpret(&json, &fields, Binary::Apart(attachments)).map(Incoming::into_owned)
}

/// Where the bytes of a message are.
enum Binary {
    /// In the text, as base64.
    InText,
    /// Taken out already, placeholders stand for them.
    Apart(Vec<Vec<u8>>),
}

type Args<'a> = (Cow<'a, str>, Vec<Vec<u8>>);

impl Binary {
    /// Arguments with placeholders, and what those stand for.
    fn attach(self, args: Cow<'_, str>) -> Result<Args<'_>, Invalid> {
        let (args, attachments) = match self {
            Self::InText => binary::extract(args).ok_or(PAYLOAD)?,
            Self::Apart(attachments) => (args, attachments),
        };
        check_attachments(&args, &attachments)?;
        Ok((args, attachments))
    }
}

/// Each attachment is referred to once and nothing else looks like a placeholder.
fn check_attachments(args: &str, attachments: &[Vec<u8>]) -> Result<(), Invalid> {
    if attachments.is_empty() {
        return Ok(());
    }
    let mut count = 0;
    for placeholder in placeholders(args) {
        let index = placeholder.map_err(|_| PAYLOAD)?.index;
        if index != count {
            return Err(PAYLOAD);
        }
        count += 1;
    }
    let complete = count == attachments.len() && count <= ATTACHMENTS_MAX;
    if complete { Ok(()) } else { Err(PAYLOAD) }
}

/// The members that mean something, raw. Of repeated ones the last counts, as in JSON.parse.
#[derive(Default)]
struct Fields<'a> {
    kind: Option<&'a str>,
    room: Option<&'a str>,
    id: Option<&'a str>,
    payload: Option<&'a str>,
    args: Option<&'a str>,
}

impl<'a> Fields<'a> {
    /// `None`: it is not one object.
    fn read(object: &'a str) -> Option<Self> {
        let mut fields = Self::default();
        let read = json::read_members(object, |key, value| {
            if let Some(field) = fields.named(key) {
                *field = Some(value);
            }
        });
        read.ok().map(|()| fields)
    }

    /// The member of this raw key.
    #[inline]
    fn named(&mut self, key: &str) -> Option<&mut Option<&'a str>> {
        match key {
            "\"type\"" => Some(&mut self.kind),
            "\"room\"" => Some(&mut self.room),
            "\"id\"" => Some(&mut self.id),
            "\"payload\"" => Some(&mut self.payload),
            "\"args\"" => Some(&mut self.args),
            _ if key.contains('\\') => self.escaped(key),
            _ => None,
        }
    }

    /// The same for keys such as `"\u0069d"`, which nobody writes and JSON allows.
    #[cold]
    fn escaped(&mut self, key: &str) -> Option<&mut Option<&'a str>> {
        let name = json::unquote(key)?;
        let quoted = ["type", "room", "id", "payload", "args"];
        let known = quoted.into_iter().find(|known| *known == name)?;
        self.named(&format!("\"{known}\""))
    }

    fn room(&self) -> Result<Option<Cow<'a, str>>, Invalid> {
        match self.room {
            None | Some("null") => Ok(None),
            Some(raw) => json::unquote_name(raw).map(Some).ok_or(Invalid::at("room")),
        }
    }

    fn id(&self) -> Result<Option<u64>, Invalid> {
        match self.id {
            None | Some("null") => Ok(None),
            Some(raw) => match raw.parse() {
                Ok(id) if id <= SAFE_INTEGER_MAX => Ok(Some(id)),
                _ => Err(Invalid::at("id")),
            },
        }
    }

    /// Says which message is invalid.
    fn about(&self, invalid: Invalid) -> Invalid {
        Invalid {
            id: self.id().ok().flatten(),
            is_ack: self.kind.and_then(json::unquote).as_deref() == Some("ack"),
            ..invalid
        }
    }

    /// The arguments that `payload` and `args` stand for.
    fn args(&self) -> Result<Option<&'a str>, Invalid> {
        let Some(payload) = self.payload else {
            return Ok(None);
        };
        let Some(count) = self.args else {
            return Ok(Some(payload));
        };
        match count.parse().map_err(|_| ARGS)? {
            0_usize if payload == "null" => Ok(Some("")),
            1 => Ok(Some(payload)),
            count if count > 1 && json::elements(payload).count() == count => {
                let inside = payload
                    .strip_prefix('[')
                    .and_then(|rest| rest.strip_suffix(']'));
                inside.map(|list| Some(list.trim_ascii())).ok_or(ARGS)
            }
            _ => Err(ARGS),
        }
    }
}

/// Turns one object into its meaning.
fn interpret<'a>(
    text: &'a str,
    fields: &Fields<'a>,
    binary: Binary,
) -> Result<Incoming<'a>, Invalid> {
    meaning(text, fields, binary).map_err(|invalid| fields.about(invalid))
}

fn meaning<'a>(
    text: &'a str,
    fields: &Fields<'a>,
    binary: Binary,
) -> Result<Incoming<'a>, Invalid> {
    let name = fields.kind.and_then(json::unquote).ok_or(TYPE)?;
    let (room, id) = (fields.room()?, fields.id()?);
    let args = fields.args()?.map(Cow::Borrowed);
    match (name.as_ref(), room) {
        ("join", Some(room)) => Ok(Incoming::Join { room, id }),
        ("leave", Some(room)) => Ok(Incoming::Leave { room, id }),
        ("join" | "leave", None) if args.is_none() => Err(Invalid::at("room")),
        ("ack", _) => {
            let (args, attachments) = binary.attach(args.ok_or(PAYLOAD)?)?;
            Ok(Incoming::Ack {
                id: id.ok_or(Invalid::at("id"))?,
                args,
                attachments,
            })
        }
        // Stock clients in the room would take the event for a broken packet and go.
        (name, _) if is_reserved(name) => Err(TYPE),
        (_, room) => {
            let rest = || (name == "message").then(|| rest_as_payload(text)).flatten();
            let args = args.or_else(|| rest().map(Cow::Owned)).ok_or(PAYLOAD)?;
            let (args, attachments) = binary.attach(args)?;
            Ok(Incoming::Event {
                name,
                room,
                args,
                attachments,
                id,
            })
        }
    }
}

/// The object without `type`, `room` and `id`; `None` if nothing is left.
fn rest_as_payload(object: &str) -> Option<String> {
    let mut payload = String::with_capacity(object.len());
    for (key, value) in json::members(object) {
        if let Some("type" | "room" | "id") = json::unquote(key).as_deref() {
            continue;
        }
        payload.push(if payload.is_empty() { '{' } else { ',' });
        for part in [key, ":", value] {
            payload.push_str(part);
        }
    }
    if payload.is_empty() {
        return None;
    }
    payload.push('}');
    Some(payload)
}

/// Whether a text message is `{"type":"resume",…}`: all else that it says, its reader takes out.
pub fn resumes_json(text: &str) -> bool {
    let kind = Fields::read(text).and_then(|fields| fields.kind);
    kind.and_then(json::unquote).as_deref() == Some("resume")
}

/// A MessagePack message of that kind, as JSON.
pub fn resumes_msgpack(bytes: &[u8]) -> Option<String> {
    let decoded = msgpack::decode(bytes)?;
    resumes_json(&decoded.json).then_some(decoded.json)
}

impl Incoming<'_> {
    /// Frees the message from the buffer it was parsed in.
    pub fn into_owned(self) -> Incoming<'static> {
        let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        match self {
            Self::Join { room, id } => Incoming::Join {
                room: owned(room),
                id,
            },
            Self::Leave { room, id } => Incoming::Leave {
                room: owned(room),
                id,
            },
            Self::Event {
                name,
                room,
                args,
                attachments,
                id,
            } => Incoming::Event {
                name: owned(name),
                room: room.map(owned),
                args: owned(args),
                attachments,
                id,
            },
            Self::Ack {
                id,
                args,
                attachments,
            } => Incoming::Ack {
                id,
                args: owned(args),
                attachments,
            },
        }
    }
}

#[cfg(test)]
mod tests;
