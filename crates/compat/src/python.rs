//! python-socketio's manager (5.14 or later) and its emitters: JSON in one channel for all namespaces.

use crate::body::{self, Body};
use crate::refused::Refused;
use crate::verb::{Answer, Args, Event, Letter, Selection, Verb, is_own};
use crate::writing::{meant, quoted};
use wire::engineio::payload;
use wire::json;

/// The channel, unless an application names another.
pub const CHANNEL: &str = "socketio";
/// How the pickles begin that older versions write (protocol 2 and later).
const PICKLE: u8 = 0x80;

/// Reads a message of the channel.
///
/// # Errors
/// Why it is not taken.
pub fn decode(bytes: &[u8]) -> Result<Letter, Refused> {
    if bytes.first() == Some(&PICKLE) {
        return Err(Refused::Pickle);
    }
    let text = Body::json(bytes)?.text;
    let keys = [
        "\"method\"",
        "\"host_id\"",
        "\"namespace\"",
        "\"room\"",
        "\"sid\"",
    ];
    let [method, host, namespace, room, sid] = body::members(&text, keys)?;
    let from = body::text(host)?.unwrap_or_default();
    if is_own(&from) {
        return Err(Refused::Own);
    }
    let namespace = body::text(namespace)?.unwrap_or_else(|| "/".to_owned());
    let socket = || body::string(sid).map(only);
    let room = || body::one_or_more(room);
    let verb = match method {
        Some("\"emit\"") => emit(&text, room()?)?,
        Some("\"callback\"") => callback(&text, body::string(sid)?, &namespace)?,
        Some("\"disconnect\"") => Verb::Disconnect {
            of: socket()?,
            close: false,
        },
        Some("\"enter_room\"") => Verb::Join {
            of: socket()?,
            rooms: room()?,
        },
        Some("\"leave_room\"") => Verb::Leave {
            of: socket()?,
            rooms: room()?,
        },
        Some("\"close_room\"") => close_room(room()?)?,
        Some(_) => return Err(Refused::Unknown),
        None => return Err(Refused::Shape),
    };
    Ok(Letter {
        from,
        namespace,
        verb,
    })
}

fn only(socket: String) -> Selection {
    Selection {
        rooms: vec![socket],
        except: Vec::new(),
    }
}

fn emit(text: &str, rooms: Vec<String>) -> Result<Verb, Refused> {
    let keys = [
        "\"event\"",
        "\"data\"",
        "\"binary\"",
        "\"skip_sid\"",
        "\"callback\"",
    ];
    let [event, data, binary, skip, callback] = body::members(text, keys)?;
    let event = Event {
        name: body::string(event)?,
        args: match binary {
            Some("true") => binary_args(data.unwrap_or_default())?,
            _ => text_args(data.unwrap_or("null"))?,
        },
        volatile: false,
    };
    let to = Selection {
        rooms,
        except: body::one_or_more(skip)?,
    };
    Ok(match callback {
        None | Some("null") => Verb::Broadcast { to, event },
        // Room, namespace and id: all of them come back with the answer.
        Some(callback) => Verb::Ask {
            request: callback.to_owned(),
            to,
            event,
            timeout_ms: None,
        },
    })
}

/// A list of arguments; what is none is the one argument.
fn text_args(data: &str) -> Result<Args, Refused> {
    body::args(body::bare(data).unwrap_or(data), Vec::new())
}

/// `[[arguments with placeholders], base64, …]`.
fn binary_args(data: &str) -> Result<Args, Refused> {
    let mut elements = json::elements(data);
    let args = elements.next().ok_or(Refused::Shape)?;
    let attachments: Result<Vec<_>, _> = elements
        .map(|raw| body::base64(&body::string(Some(raw))?))
        .collect();
    let attachments = attachments?;
    if attachments.len() > wire::socketio::ATTACHMENTS_MAX {
        return Err(Refused::Garbage);
    }
    body::args(body::bare(args)?, attachments)
}

/// `{sid, namespace, id, args}`, made to the request that asked.
fn callback(text: &str, sid: String, namespace: &str) -> Result<Verb, Refused> {
    let [id, args] = body::members(text, ["\"id\"", "\"args\""])?;
    let args = body::bare(args.ok_or(Refused::Shape)?)?;
    Ok(Verb::Answer {
        request: question(&sid, namespace, body::number(id)?),
        to: String::new(),
        answer: Answer::Ack(body::args(args, Vec::new())?),
    })
}

/// How a question is named: as the answer names it.
pub fn question(room: &str, namespace: &str, id: u64) -> String {
    format!("[{}, {}, {id}]", quoted(room), quoted(namespace))
}

/// All members leave. Without a room there would be none to leave, and everyone would be meant.
fn close_room(rooms: Vec<String>) -> Result<Verb, Refused> {
    if rooms.is_empty() {
        return Err(Refused::Shape);
    }
    let of = Selection {
        rooms: rooms.clone(),
        except: Vec::new(),
    };
    Ok(Verb::Leave { of, rooms })
}

/// Writes a letter; `None` for what this dialect has no word for.
pub fn encode(letter: &Letter) -> Option<Vec<u8>> {
    let (namespace, host) = (quoted(&letter.namespace), quoted(&letter.from));
    let text = match &letter.verb {
        Verb::Broadcast { to, event } => {
            let (binary, data) = encode_args(&event.args);
            let (event, room, skip) = (quoted(&event.name), one(&to.rooms), one(&to.except));
            format!(
                "{{\"method\": \"emit\", \"event\": {event}, \"data\": {data}, \"binary\": {binary}, \
                 \"namespace\": {namespace}, \"room\": {room}, \"skip_sid\": {skip}, \
                 \"callback\": null, \"host_id\": {host}}}"
            )
        }
        // Answers go to the host that asked, under the names that it gave.
        Verb::Answer {
            request,
            to,
            answer: Answer::Ack(args),
        } => {
            let host = quoted(to);
            let mut parts = json::elements(request);
            let (room, namespace, id) = (parts.next()?, parts.next()?, parts.next()?);
            format!(
                "{{\"method\": \"callback\", \"host_id\": {host}, \"sid\": {room}, \
                 \"namespace\": {namespace}, \"id\": {id}, \"args\": [{}]}}",
                args.json
            )
        }
        Verb::Disconnect { of, .. } => {
            let sid = one_socket(of)?;
            format!(
                "{{\"method\": \"disconnect\", \"sid\": {sid}, \"namespace\": {namespace}, \
                 \"host_id\": {host}}}"
            )
        }
        Verb::Join { of, rooms } => in_room("enter_room", &namespace, &host, of, rooms)?,
        // Members of a room leave it: the one order of Python for many sockets.
        Verb::Leave { of, rooms } if of.except.is_empty() && of.rooms == *rooms => {
            let [room] = &rooms[..] else { return None };
            let room = quoted(room);
            format!(
                "{{\"method\": \"close_room\", \"room\": {room}, \"namespace\": {namespace}, \
                 \"host_id\": {host}}}"
            )
        }
        Verb::Leave { of, rooms } => in_room("leave_room", &namespace, &host, of, rooms)?,
        _ => return None,
    };
    Some(text.into_bytes())
}

fn in_room(
    method: &str,
    namespace: &str,
    host: &str,
    of: &Selection,
    rooms: &[String],
) -> Option<String> {
    let [room] = rooms else { return None };
    let (sid, room) = (one_socket(of)?, quoted(room));
    Some(format!(
        "{{\"method\": \"{method}\", \"sid\": {sid}, \"room\": {room}, \"namespace\": {namespace}, \
         \"host_id\": {host}}}"
    ))
}

/// Python's methods take one socket.
fn one_socket(of: &Selection) -> Option<String> {
    match (&of.rooms[..], &of.except[..]) {
        ([socket], []) => Some(quoted(socket)),
        _ => None,
    }
}

fn one(names: &[String]) -> String {
    match names {
        [] => "null".to_owned(),
        [name] => quoted(name),
        names => meant(names),
    }
}

/// Whether there are bytes, and the arguments with them.
fn encode_args(args: &Args) -> (bool, String) {
    if args.attachments.is_empty() {
        return (false, format!("[{}]", args.json));
    }
    let mut data = format!("[[{}]", args.json).into_bytes();
    for attachment in &args.attachments {
        data.extend_from_slice(b", \"");
        payload::append_base64(&mut data, attachment);
        data.push(b'"');
    }
    data.push(b']');
    (true, String::from_utf8(data).unwrap_or_default())
}
