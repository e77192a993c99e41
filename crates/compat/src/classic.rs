//! The classic adapter (`createAdapter` of `@socket.io/redis-adapter` 8.x) and the emitters that write for it.

use crate::body::{self, Body};
use crate::names::{Channel, Names};
use crate::refused::Refused;
use crate::verb::{Answer, Letter, Verb, is_own};
use crate::writing::{self, first_arg, flags, joined, opts, packed, packet, quoted, sockets};
use wire::json;

/// A message to publish.
#[derive(Clone, Debug, PartialEq)]
pub struct Publish {
    /// Where.
    pub channel: String,
    /// What.
    pub body: Vec<u8>,
}

/// Reads a message of a channel.
///
/// # Errors
/// Why it is not taken.
pub fn decode(channel: Channel<'_>, bytes: &[u8]) -> Result<Letter, Refused> {
    let namespace = channel.namespace();
    let (from, verb) = match channel {
        Channel::Main { .. } => broadcast(namespace, bytes)?,
        Channel::Requests { .. } => request(namespace, bytes)?,
        Channel::Responses { .. } => response(bytes)?,
    };
    if is_own(&from) {
        return Err(Refused::Own);
    }
    Ok(Letter {
        from,
        namespace: namespace.to_owned(),
        verb,
    })
}

/// `[uid, packet, opts]`.
fn broadcast(namespace: &str, bytes: &[u8]) -> Result<(String, Verb), Refused> {
    let Body { text, attachments } = Body::msgpack(bytes)?;
    if !text.starts_with('[') {
        return Err(Refused::Shape);
    }
    let mut elements = json::elements(&text);
    let (uid, packet, opts) = (elements.next(), elements.next(), elements.next());
    // A packet without a namespace is for the main one.
    if namespace != "/" {
        let named = packet.and_then(|packet| json::member(packet, "\"nsp\""));
        named.ok_or(Refused::Elsewhere)?;
    }
    let (volatile, _) = body::flags(opts);
    let verb = Verb::Broadcast {
        to: body::selection(opts)?,
        event: body::packet(packet, namespace, attachments, volatile)?,
    };
    Ok((body::text(uid)?.unwrap_or_default(), verb))
}

fn request(namespace: &str, bytes: &[u8]) -> Result<(String, Verb), Refused> {
    let Body { text, attachments } = Body::read(bytes)?;
    let keys = [
        "\"uid\"",
        "\"type\"",
        "\"requestId\"",
        "\"opts\"",
        "\"rooms\"",
    ];
    let [uid, kind, id, opts, rooms] = body::members(&text, keys)?;
    let [close, data, packet] = body::members(&text, ["\"close\"", "\"data\"", "\"packet\""])?;
    let from = body::text(uid)?.unwrap_or_default();
    let request = || body::string(id);
    let of = || body::selection(opts);
    let verb = match kind {
        Some("0") => Verb::Ids {
            request: request()?,
            rooms: body::rooms(rooms)?,
        },
        Some("1") => Verb::Rooms {
            request: request()?,
        },
        Some("2") => Verb::Join {
            of: of()?,
            rooms: body::rooms(rooms)?,
        },
        Some("3") => Verb::Leave {
            of: of()?,
            rooms: body::rooms(rooms)?,
        },
        Some("4") => Verb::Disconnect {
            of: of()?,
            close: close == Some("true"),
        },
        Some("5") => Verb::Fetch {
            request: request()?,
            of: of()?,
        },
        Some("6") => Verb::ServerEmit {
            request: id.map(|_| request()).transpose()?,
            args: body::args(body::bare(data.ok_or(Refused::Shape)?)?, attachments)?,
        },
        Some("7") => {
            let (volatile, timeout_ms) = body::flags(opts);
            Verb::Ask {
                request: request()?,
                to: of()?,
                event: body::packet(packet, namespace, attachments, volatile)?,
                timeout_ms,
            }
        }
        Some(_) => return Err(Refused::Unknown),
        None => return Err(Refused::Shape),
    };
    Ok((from, verb))
}

fn response(bytes: &[u8]) -> Result<(String, Verb), Refused> {
    let Body { text, attachments } = Body::read(bytes)?;
    let keys = ["\"type\"", "\"requestId\"", "\"sockets\"", "\"rooms\""];
    let [kind, id, found, rooms] = body::members(&text, keys)?;
    let [data, count, packet] =
        body::members(&text, ["\"data\"", "\"clientCount\"", "\"packet\""])?;
    let answer = match (kind, found, rooms) {
        (Some("6"), ..) => Answer::Emitted(body::args(data.unwrap_or_default(), attachments)?),
        (Some("8"), ..) => Answer::Count(body::number(count)?),
        (Some("9"), ..) => Answer::Ack(body::args(packet.unwrap_or_default(), attachments)?),
        // Ids of sockets, or sockets.
        (None, Some(found), _) => match json::elements(found).next() {
            Some(first) if first.starts_with('"') => Answer::Ids(body::rooms(Some(found))?),
            _ => Answer::Sockets(body::sockets(Some(found), &attachments)?),
        },
        (None, None, Some(rooms)) => Answer::Rooms(body::rooms(Some(rooms))?),
        (None, None, None) => return Err(Refused::Shape),
        _ => return Err(Refused::Unknown),
    };
    let verb = Verb::Answer {
        request: body::string(id)?,
        to: String::new(),
        answer,
    };
    Ok((String::new(), verb))
}

/// Writes a letter; `None` for what this dialect has no word for.
pub fn encode(names: &Names, letter: &Letter) -> Option<Publish> {
    let (uid, namespace) = (quoted(&letter.from), letter.namespace.as_str());
    let mut channel = names.requests(namespace);
    let body = match &letter.verb {
        Verb::Broadcast { to, event } => {
            let opts = opts(to, Some(&flags(event.volatile, None)));
            let packet = packet(event, Some(namespace));
            channel = match &to.rooms[..] {
                [room] => names.room(namespace, room),
                _ => names.main(namespace),
            };
            let text = format!("[{uid},{packet},{opts}]");
            packed(&text, &event.args.attachments)
        }
        Verb::Ask {
            request,
            to,
            event,
            timeout_ms,
        } => {
            let (id, packet) = (quoted(request), packet(event, Some(namespace)));
            let opts = opts(to, Some(&flags(event.volatile, *timeout_ms)));
            let text = format!(
                "{{\"uid\":{uid},\"requestId\":{id},\"type\":7,\"packet\":{packet},\"opts\":{opts}}}"
            );
            packed(&text, &event.args.attachments)
        }
        Verb::Answer {
            request,
            to,
            answer,
        } => {
            channel = match answer {
                // Servers before 7.1.0 have no channel of their own, and say their name with this question alone.
                Answer::Emitted(_) => names.responses(namespace),
                _ if to.is_empty() => names.responses(namespace),
                _ => names.responses_to(namespace, to),
            };
            encode_answer(&quoted(request), answer)
        }
        verb => {
            let text = encode_request(&uid, verb)?;
            match verb {
                Verb::ServerEmit { args, .. } if !args.attachments.is_empty() => {
                    packed(&text, &args.attachments)
                }
                _ => text.into_bytes(),
            }
        }
    };
    Some(Publish { channel, body })
}

fn encode_request(uid: &str, verb: &Verb) -> Option<String> {
    let orders = |kind: u8, of, rooms: &[String]| {
        let (of, rooms) = (opts(of, None), joined(rooms));
        format!("{{\"uid\":{uid},\"type\":{kind},\"opts\":{of},\"rooms\":{rooms}}}")
    };
    let asks = |request: &str, kind: u8, rest: &str| {
        let id = quoted(request);
        format!("{{\"uid\":{uid},\"requestId\":{id},\"type\":{kind}{rest}}}")
    };
    Some(match verb {
        Verb::Join { of, rooms } => orders(2, of, rooms),
        Verb::Leave { of, rooms } => {
            let (of, rooms) = (opts(of, None), writing::meant(rooms));
            format!("{{\"uid\":{uid},\"type\":3,\"opts\":{of},\"rooms\":{rooms}}}")
        }
        Verb::Disconnect { of, close } => {
            let of = opts(of, None);
            format!("{{\"uid\":{uid},\"type\":4,\"opts\":{of},\"close\":{close}}}")
        }
        Verb::Ids { request, rooms } => {
            asks(request, 0, &format!(",\"rooms\":{}", writing::meant(rooms)))
        }
        Verb::Rooms { request } => asks(request, 1, ""),
        Verb::Fetch { request, of } => asks(request, 5, &format!(",\"opts\":{}", opts(of, None))),
        Verb::ServerEmit { request, args } => {
            let data = format!(",\"data\":[{}]", args.json);
            match request {
                Some(request) => asks(request, 6, &data),
                None => format!("{{\"uid\":{uid},\"type\":6{data}}}"),
            }
        }
        _ => return None,
    })
}

fn encode_answer(id: &str, answer: &Answer) -> Vec<u8> {
    match answer {
        Answer::Sockets(found) => {
            format!("{{\"requestId\":{id},\"sockets\":{}}}", sockets(found)).into_bytes()
        }
        Answer::Ids(ids) => {
            format!("{{\"requestId\":{id},\"sockets\":{}}}", joined(ids)).into_bytes()
        }
        Answer::Rooms(rooms) => {
            format!("{{\"requestId\":{id},\"rooms\":{}}}", joined(rooms)).into_bytes()
        }
        Answer::Emitted(args) => {
            let (data, _) = first_arg("data", args);
            format!("{{\"type\":6,\"requestId\":{id}{data}}}").into_bytes()
        }
        Answer::Count(count) => {
            format!("{{\"type\":8,\"requestId\":{id},\"clientCount\":{count}}}").into_bytes()
        }
        Answer::Ack(args) => {
            let (data, _) = first_arg("packet", args);
            let text = format!("{{\"type\":9,\"requestId\":{id}{data}}}");
            packed(&text, &args.attachments)
        }
    }
}

/// Where the name of a question stands in a long answer: before or after the one member that is long.
const ENDS_BYTES: usize = 256;
/// An answer of so many bytes is read, whoever asked.
const SHORT_BYTES: usize = 4_096;

/// Whether an answer may be to a question of the server with this uid, whose questions have names that begin with it. Servers answer each
/// other in the same channel, and a list of sockets has megabytes: it is not read to find that out.
pub fn may_answer(bytes: &[u8], uid: &str) -> bool {
    if bytes.len() <= SHORT_BYTES {
        return true;
    }
    let ends = [&bytes[..ENDS_BYTES], &bytes[bytes.len() - ENDS_BYTES..]];
    let has = |end: &&[u8]| end.windows(uid.len()).any(|part| part == uid.as_bytes());
    ends.iter().any(has)
}

/// Whether a message in the main channel is of this dialect: the others write maps or JSON there.
pub fn is_ours(bytes: &[u8]) -> bool {
    !matches!(bytes.first(), Some(b'{' | 0x80..=0x8f | 0xde | 0xdf))
}
