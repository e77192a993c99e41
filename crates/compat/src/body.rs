//! What arrives, as raw JSON: MessagePack becomes the same text, with placeholders for its bytes. All dialects are read from that.

use crate::bounds::{MESSAGE_BYTES_MAX, ROOMS_MAX, SOCKETS_MAX};
use crate::refused::Refused;
use crate::verb::{Args, Event, Fetched, Selection};
use wire::engineio::payload;
use wire::plain::msgpack;
use wire::{json, socketio};

/// A message: validated JSON, and what its placeholders stand for.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) text: String,
    pub(crate) attachments: Vec<Vec<u8>>,
}

impl Body {
    /// JSON if it begins as an object does, MessagePack otherwise: so all of Node's adapters tell.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Refused> {
        match bytes.first() {
            Some(b'{') => Self::json(bytes),
            _ => Self::msgpack(bytes),
        }
    }

    pub(crate) fn json(bytes: &[u8]) -> Result<Self, Refused> {
        check_size(bytes)?;
        json::validate(bytes).map_err(|_| Refused::Garbage)?;
        let text = std::str::from_utf8(bytes).map_err(|_| Refused::Garbage)?;
        Ok(Self {
            text: text.to_owned(),
            attachments: Vec::new(),
        })
    }

    pub(crate) fn msgpack(bytes: &[u8]) -> Result<Self, Refused> {
        check_size(bytes)?;
        let decoded = msgpack::decode(bytes).ok_or(Refused::Garbage)?;
        Ok(Self {
            text: decoded.json,
            attachments: decoded.attachments,
        })
    }
}

fn check_size(bytes: &[u8]) -> Result<(), Refused> {
    match bytes.len() {
        0..=MESSAGE_BYTES_MAX => Ok(()),
        _ => Err(Refused::TooLarge),
    }
}

/// Raw values of an object's members, in the order of `keys`, which have their quotes. Of members with the same name the last
/// counts. `Shape` for what is no object.
pub(crate) fn members<'a, const N: usize>(
    object: &'a str,
    keys: [&str; N],
) -> Result<[Option<&'a str>; N], Refused> {
    if !object.trim_ascii_start().starts_with('{') {
        return Err(Refused::Shape);
    }
    let mut values = [None; N];
    for (key, value) in json::members(object) {
        if let Some(index) = keys.iter().position(|known| *known == key) {
            values[index] = Some(value);
        }
    }
    Ok(values)
}

/// A string that must be there.
pub(crate) fn string(raw: Option<&str>) -> Result<String, Refused> {
    let text = raw.and_then(json::unquote).ok_or(Refused::Shape)?;
    Ok(text.into_owned())
}

/// A string that may be missing.
pub(crate) fn text(raw: Option<&str>) -> Result<Option<String>, Refused> {
    match raw {
        None | Some("null") => Ok(None),
        raw => string(raw).map(Some),
    }
}

/// A whole number that must be there.
pub(crate) fn number(raw: Option<&str>) -> Result<u64, Refused> {
    raw.and_then(|raw| raw.parse().ok()).ok_or(Refused::Shape)
}

/// The name of a room. Node takes any value; numbers become their digits. Other values, and texts with lone surrogates, become names that
/// no client can ask for (NUL), so that `to(undefined)` reaches nobody, as in Node.
fn room(raw: &str) -> String {
    match json::unquote_name(raw) {
        Some(name) => name.into_owned(),
        None if raw.starts_with(|first: char| first == '-' || first.is_ascii_digit()) => {
            raw.to_owned()
        }
        None => format!("\0{raw}"),
    }
}

/// The elements of an array.
fn list<'a>(raw: &'a str, most: usize) -> Result<Vec<&'a str>, Refused> {
    if !raw.starts_with('[') {
        return Err(Refused::Shape);
    }
    let elements: Vec<&'a str> = json::elements(raw).take(most + 1).collect();
    match elements.len() > most {
        true => Err(Refused::TooMany),
        false => Ok(elements),
    }
}

/// A list of rooms; a missing one is empty, as `new Set(undefined)` is.
pub(crate) fn rooms(raw: Option<&str>) -> Result<Vec<String>, Refused> {
    match raw {
        None | Some("null") => Ok(Vec::new()),
        Some(raw) => Ok(list(raw, ROOMS_MAX)?.into_iter().map(room).collect()),
    }
}

/// One room, or a list of them, or none.
pub(crate) fn one_or_more(raw: Option<&str>) -> Result<Vec<String>, Refused> {
    match raw {
        Some(raw) if raw != "null" && !raw.starts_with('[') => Ok(vec![room(raw)]),
        raw => rooms(raw),
    }
}

/// `{rooms, except}`.
pub(crate) fn selection(opts: Option<&str>) -> Result<Selection, Refused> {
    let [to, except] = members(opts.ok_or(Refused::Shape)?, ["\"rooms\"", "\"except\""])?;
    Ok(Selection {
        rooms: rooms(to)?,
        except: rooms(except)?,
    })
}

/// `opts.flags`: volatile, and a timeout in milliseconds.
pub(crate) fn flags(opts: Option<&str>) -> (bool, Option<u64>) {
    let flags = opts.and_then(|opts| json::member(opts, "\"flags\""));
    let flag = |key| flags.and_then(|flags| json::member(flags, key));
    let timeout = flag("\"timeout\"").and_then(|raw| raw.parse().ok());
    (flag("\"volatile\"") == Some("true"), timeout)
}

/// Arguments with all attachments of the message: each must stand where exactly one placeholder is, or receivers would disagree.
pub(crate) fn args(json: &str, attachments: Vec<Vec<u8>>) -> Result<Args, Refused> {
    let found: Result<Vec<_>, _> = socketio::placeholders(json).collect();
    let mut found = found.map_err(|_| Refused::Shape)?;
    found.sort_unstable_by_key(|placeholder| placeholder.index);
    let in_order = found.iter().map(|placeholder| placeholder.index);
    if !in_order.eq(0..attachments.len()) {
        return Err(Refused::Shape);
    }
    Ok(Args {
        json: json.to_owned(),
        attachments,
    })
}

/// `[name, …args]`.
pub(crate) fn event(
    data: &str,
    attachments: Vec<Vec<u8>>,
    volatile: bool,
) -> Result<Event, Refused> {
    let list = bare(data)?;
    let name = json::first(list).ok_or(Refused::Shape)?;
    let rest = list[name.len()..].trim_ascii_start();
    let rest = rest.strip_prefix(',').unwrap_or_default();
    let name = string(Some(name))?;
    // It would end the sessions of those who hear it.
    if socketio::is_reserved(&name) {
        return Err(Refused::Shape);
    }
    Ok(Event {
        name,
        args: args(rest.trim_ascii(), attachments)?,
        volatile,
    })
}

/// A list without its brackets.
pub(crate) fn bare(list: &str) -> Result<&str, Refused> {
    let inside = list.trim_ascii().strip_prefix('[');
    let inside = inside.and_then(|list| list.strip_suffix(']'));
    Ok(inside.ok_or(Refused::Shape)?.trim_ascii())
}

/// `{type, data, nsp}` of an event. Some writers leave the namespace out.
pub(crate) fn packet(
    packet: Option<&str>,
    namespace: &str,
    attachments: Vec<Vec<u8>>,
    volatile: bool,
) -> Result<Event, Refused> {
    let keys = ["\"type\"", "\"data\"", "\"nsp\""];
    let [kind, data, named] = members(packet.ok_or(Refused::Shape)?, keys)?;
    same_namespace(named, namespace)?;
    match kind {
        // EVENT and BINARY_EVENT of the Socket.IO protocol.
        Some("2" | "5") => event(data.ok_or(Refused::Shape)?, attachments, volatile),
        _ => Err(Refused::Unknown),
    }
}

/// A message that names a namespace must name that of its channel.
pub(crate) fn same_namespace(named: Option<&str>, namespace: &str) -> Result<(), Refused> {
    match text(named)? {
        Some(named) if named != namespace => Err(Refused::Elsewhere),
        _ => Ok(()),
    }
}

/// `[{id, handshake, rooms, data}, …]`.
pub(crate) fn sockets(raw: Option<&str>, attachments: &[Vec<u8>]) -> Result<Vec<Fetched>, Refused> {
    let list = list(raw.ok_or(Refused::Shape)?, SOCKETS_MAX)?;
    let one = |raw| {
        let [id, its, data] = members(raw, ["\"id\"", "\"rooms\"", "\"data\""])?;
        Ok(Fetched {
            id: string(id)?,
            rooms: rooms(its)?,
            data: without_placeholders(data.unwrap_or("{}"), attachments),
        })
    };
    list.into_iter().map(one).collect()
}

/// Bytes within a socket's data, as `JSON.stringify` writes a Buffer.
fn without_placeholders(data: &str, attachments: &[Vec<u8>]) -> String {
    let (mut text, mut copied) = (String::new(), 0);
    if !attachments.is_empty() {
        for placeholder in socketio::placeholders(data).map_while(Result::ok) {
            let bytes = attachments.get(placeholder.index).map(Vec::as_slice);
            let bytes = bytes.unwrap_or_default().iter().map(u8::to_string);
            let bytes = bytes.collect::<Vec<_>>().join(",");
            text.push_str(&data[copied..placeholder.range.start]);
            text.push_str(&format!("{{\"type\":\"Buffer\",\"data\":[{bytes}]}}"));
            copied = placeholder.range.end;
        }
    }
    text.push_str(&data[copied..]);
    text
}

/// Bytes from base64.
pub(crate) fn base64(text: &str) -> Result<Vec<u8>, Refused> {
    let mut bytes = Vec::new();
    payload::decode_base64(text, &mut bytes).map_err(|()| Refused::Garbage)?;
    Ok(bytes)
}
