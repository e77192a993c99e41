//! The adapters that are made of Socket.IO's `ClusterAdapter`: the sharded one of `@socket.io/redis-adapter` 8.x, and
//! `@socket.io/redis-streams-adapter` 0.3. Both write `{type, data, uid, nsp}`; they differ in where they put it.

use crate::body::{self, Body};
use crate::classic::Publish;
use crate::names::Names;
use crate::refused::Refused;
use crate::verb::{Answer, Letter, Verb, is_own};
use crate::writing::{first_arg, flags, joined, meant, opts, packed, packet, quoted, sockets};
use wire::engineio::payload;

/// As long as the id of a socket: the sharded adapter takes a room whose name has so many characters for a socket, and gives it no
/// channel.
const ID_LEN: usize = 20;

/// Which rooms have channels of their own in sharded adapters. All servers of a cluster must have the same mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Rooms whose names are not as long as a socket's id.
    #[default]
    Dynamic,
    /// All rooms.
    DynamicPrivate,
    /// None.
    Static,
}

/// A message to publish or to append.
#[derive(Clone, Debug, PartialEq)]
pub enum Post {
    /// SPUBLISH of sharded adapters, PUBLISH of streams adapters.
    Publish(Publish),
    /// XADD: the fields of an entry of the stream, in order.
    Entry([(&'static str, String); 4]),
}

/// Reads what was published.
///
/// # Errors
/// Why it is not taken.
pub fn decode(namespace: &str, bytes: &[u8]) -> Result<Letter, Refused> {
    let Body { text, attachments } = Body::read(bytes)?;
    let [kind, data, uid, named] =
        body::members(&text, ["\"type\"", "\"data\"", "\"uid\"", "\"nsp\""])?;
    body::same_namespace(named, namespace)?;
    let from = body::text(uid)?.unwrap_or_default();
    letter(from, namespace, kind.unwrap_or_default(), data, attachments)
}

/// Reads the fields of an entry of the stream.
///
/// # Errors
/// Why it is not taken.
pub fn decode_entry<'a>(
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
) -> Result<Letter, Refused> {
    let [mut uid, mut namespace, mut kind, mut data] = [None; 4];
    for (key, value) in fields {
        match key {
            b"uid" => uid = Some(value),
            b"nsp" => namespace = Some(value),
            b"type" => kind = Some(value),
            b"data" => data = Some(value),
            _ => {}
        }
    }
    let text = |bytes: &'a [u8]| std::str::from_utf8(bytes).map_err(|_| Refused::Garbage);
    let from = uid.map(text).transpose()?.unwrap_or_default().to_owned();
    let namespace = text(namespace.ok_or(Refused::Shape)?)?;
    let kind = text(kind.ok_or(Refused::Shape)?)?;
    let body = match data {
        None => None,
        Some(json) if json.starts_with(b"{") => Some(Body::json(json)?),
        Some(base64) => Some(Body::msgpack(&body::base64(text(base64)?)?)?),
    };
    match body {
        Some(Body { text, attachments }) => letter(from, namespace, kind, Some(&text), attachments),
        None => letter(from, namespace, kind, None, Vec::new()),
    }
}

fn letter(
    from: String,
    namespace: &str,
    kind: &str,
    data: Option<&str>,
    attachments: Vec<Vec<u8>>,
) -> Result<Letter, Refused> {
    if is_own(&from) {
        return Err(Refused::Own);
    }
    let verb = match kind {
        "1" | "2" => Verb::Alive,
        "13" => Verb::Bye,
        kind => verb(namespace, kind, data.ok_or(Refused::Shape)?, attachments)?,
    };
    Ok(Letter {
        from,
        namespace: namespace.to_owned(),
        verb,
    })
}

fn verb(
    namespace: &str,
    kind: &str,
    data: &str,
    attachments: Vec<Vec<u8>>,
) -> Result<Verb, Refused> {
    let [packet, id, opts] = body::members(data, ["\"packet\"", "\"requestId\"", "\"opts\""])?;
    let [rooms, close] = body::members(data, ["\"rooms\"", "\"close\""])?;
    let of = || body::selection(opts);
    Ok(match kind {
        "3" => {
            let (volatile, timeout_ms) = body::flags(opts);
            let event = body::packet(packet, namespace, attachments, volatile)?;
            let to = of()?;
            match body::text(id)? {
                None => Verb::Broadcast { to, event },
                Some(request) => Verb::Ask {
                    request,
                    to,
                    event,
                    timeout_ms,
                },
            }
        }
        "4" => Verb::Join {
            of: of()?,
            rooms: body::rooms(rooms)?,
        },
        "5" => Verb::Leave {
            of: of()?,
            rooms: body::rooms(rooms)?,
        },
        "6" => Verb::Disconnect {
            of: of()?,
            close: close == Some("true"),
        },
        "7" => Verb::Fetch {
            request: body::string(id)?,
            of: of()?,
        },
        "9" => Verb::ServerEmit {
            request: body::text(id)?,
            args: body::args(body::bare(packet.ok_or(Refused::Shape)?)?, attachments)?,
        },
        kind => Verb::Answer {
            request: body::string(id)?,
            to: String::new(),
            answer: answer(kind, data, packet, attachments)?,
        },
    })
}

fn answer(
    kind: &str,
    data: &str,
    packet: Option<&str>,
    attachments: Vec<Vec<u8>>,
) -> Result<Answer, Refused> {
    let [found, count] = body::members(data, ["\"sockets\"", "\"clientCount\""])?;
    let args = |attachments| body::args(packet.unwrap_or_default(), attachments);
    Ok(match kind {
        "8" => Answer::Sockets(body::sockets(found, &attachments)?),
        "10" => Answer::Emitted(args(attachments)?),
        "11" => Answer::Count(body::number(count)?),
        "12" => Answer::Ack(args(attachments)?),
        _ => return Err(Refused::Unknown),
    })
}

/// `type` and `data` of a letter, and what binary there is in `data`.
struct Said<'a> {
    kind: u8,
    data: String,
    /// Node writes MessagePack instead of JSON when `data` holds bytes.
    attachments: &'a [Vec<u8>],
}

impl<'a> Said<'a> {
    fn new(kind: u8, data: String, attachments: &'a [Vec<u8>]) -> Self {
        Self {
            kind,
            data,
            attachments,
        }
    }

    /// `None` for what these dialects have no word for.
    fn of(verb: &'a Verb) -> Option<Self> {
        Some(match verb {
            Verb::Broadcast { to, event } => {
                let opts = opts(to, Some(&flags(event.volatile, None)));
                let data = format!("{{\"packet\":{},\"opts\":{opts}}}", packet(event, None));
                Self::new(3, data, &event.args.attachments)
            }
            Verb::Ask {
                request,
                to,
                event,
                timeout_ms,
            } => {
                let (packet, id) = (packet(event, None), quoted(request));
                let opts = opts(to, Some(&flags(event.volatile, *timeout_ms)));
                let data = format!("{{\"packet\":{packet},\"requestId\":{id},\"opts\":{opts}}}");
                Self::new(3, data, &event.args.attachments)
            }
            Verb::ServerEmit { request, args } => {
                let data = match request {
                    Some(id) => {
                        let id = quoted(id);
                        format!("{{\"requestId\":{id},\"packet\":[{}]}}", args.json)
                    }
                    None => format!("{{\"packet\":[{}]}}", args.json),
                };
                Self::new(9, data, &args.attachments)
            }
            Verb::Answer {
                request, answer, ..
            } => Self::answer(&quoted(request), answer)?,
            verb => {
                let (kind, data) = order(verb)?;
                Self::new(kind, data, &[])
            }
        })
    }

    fn answer(id: &str, answer: &'a Answer) -> Option<Self> {
        let one = |kind, args: &'a crate::verb::Args| {
            let (packet, binary) = first_arg("packet", args);
            let attachments = if binary { &args.attachments[..] } else { &[] };
            Self::new(kind, format!("{{\"requestId\":{id}{packet}}}"), attachments)
        };
        Some(match answer {
            Answer::Sockets(found) => {
                let data = format!("{{\"requestId\":{id},\"sockets\":{}}}", sockets(found));
                Self::new(8, data, &[])
            }
            Answer::Emitted(args) => one(10, args),
            Answer::Count(count) => {
                let data = format!("{{\"requestId\":{id},\"clientCount\":{count}}}");
                Self::new(11, data, &[])
            }
            Answer::Ack(args) => one(12, args),
            Answer::Ids(_) | Answer::Rooms(_) => return None,
        })
    }
}

fn order(verb: &Verb) -> Option<(u8, String)> {
    let opts = |of| opts(of, Some("{}"));
    Some(match verb {
        Verb::Join { of, rooms } => {
            let data = format!("{{\"opts\":{},\"rooms\":{}}}", opts(of), joined(rooms));
            (4, data)
        }
        Verb::Leave { of, rooms } => {
            let data = format!("{{\"opts\":{},\"rooms\":{}}}", opts(of), meant(rooms));
            (5, data)
        }
        Verb::Disconnect { of, close } => {
            let data = format!("{{\"opts\":{},\"close\":{close}}}", opts(of));
            (6, data)
        }
        Verb::Fetch { request, of } => {
            let data = format!(
                "{{\"opts\":{},\"requestId\":{}}}",
                opts(of),
                quoted(request)
            );
            (7, data)
        }
        _ => return None,
    })
}

/// Writes a letter for sharded adapters, to be sent by SPUBLISH; `None` for what they have no word for. Servers in each [`Mode`] listen to
/// the main channel, so broadcasts to rooms go there as well, in one order with all else.
pub fn encode_sharded(names: &Names, letter: &Letter) -> Option<Publish> {
    let said = Said::of(&letter.verb)?;
    let text = whole(letter, &said);
    let body = match said.attachments {
        [] => text.into_bytes(),
        attachments => packed(&text, attachments),
    };
    let namespace = letter.namespace.as_str();
    let channel = match &letter.verb {
        Verb::Answer { to, .. } => names.room(namespace, to),
        _ => names.main(namespace),
    };
    Some(Publish { channel, body })
}

/// Whether broadcasts to a room have a channel of their own.
pub fn has_channel(mode: Mode, room: &str) -> bool {
    match mode {
        // JavaScript counts UTF-16 units.
        Mode::Dynamic => room.encode_utf16().count() != ID_LEN,
        Mode::DynamicPrivate => true,
        Mode::Static => false,
    }
}

/// Writes a letter for streams adapters; `None` for what they have no word for. Questions and answers are published, and a classic
/// adapter that hears such a question in its channel ends its process: there must be none with the same prefix.
pub fn encode_streams(names: &Names, letter: &Letter) -> Option<Post> {
    let said = Said::of(&letter.verb)?;
    let namespace = letter.namespace.as_str();
    let channel = match &letter.verb {
        Verb::Answer { to, .. } => names.room(namespace, to),
        Verb::Ask { .. } | Verb::Fetch { .. } | Verb::ServerEmit { .. } => names.main(namespace),
        _ => return Some(Post::Entry(entry(letter, said))),
    };
    let body = packed(&whole(letter, &said), said.attachments);
    Some(Post::Publish(Publish { channel, body }))
}

fn entry(letter: &Letter, said: Said<'_>) -> [(&'static str, String); 4] {
    let data = match said.attachments {
        [] => said.data,
        attachments => {
            let mut base64 = Vec::new();
            payload::append_base64(&mut base64, &packed(&said.data, attachments));
            String::from_utf8(base64).unwrap_or_default()
        }
    };
    [
        ("uid", letter.from.clone()),
        ("nsp", letter.namespace.clone()),
        ("type", said.kind.to_string()),
        ("data", data),
    ]
}

fn whole(letter: &Letter, said: &Said<'_>) -> String {
    let (uid, namespace) = (quoted(&letter.from), quoted(&letter.namespace));
    let Said { kind, data, .. } = said;
    format!("{{\"type\":{kind},\"data\":{data},\"uid\":{uid},\"nsp\":{namespace}}}")
}
