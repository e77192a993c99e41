//! One packet in or out: `<type>[<attachments>-][<namespace>,][<ack id>][<JSON>]`.
//! HOT PATH: `parse` and `write` of events allocate nothing.

use super::event::{is_event_array, is_reserved_first};
use super::placeholder::match_attachments;
use crate::bounds::{ATTACHMENTS_MAX, SAFE_INTEGER_MAX};
use crate::json;

/// First character of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PacketType {
    /// A client asks for a namespace; the server confirms.
    Connect = b'0',
    /// A socket leaves its namespace.
    Disconnect = b'1',
    /// An event, with an id if it wants an ack.
    Event = b'2',
    /// Answer to an event with an id.
    Ack = b'3',
    /// The server refuses a namespace.
    ConnectError = b'4',
    /// An event with attachments.
    BinaryEvent = b'5',
    /// An ack with attachments.
    BinaryAck = b'6',
}

impl PacketType {
    #[inline]
    fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            b'0' => Self::Connect,
            b'1' => Self::Disconnect,
            b'2' => Self::Event,
            b'3' => Self::Ack,
            b'4' => Self::ConnectError,
            b'5' => Self::BinaryEvent,
            b'6' => Self::BinaryAck,
            _ => return None,
        })
    }

    /// Attachments follow the packet.
    pub fn is_binary(self) -> bool {
        matches!(self, Self::BinaryEvent | Self::BinaryAck)
    }
}

/// One checked packet: shape and JSON syntax are right, arguments are raw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Type.
    pub kind: PacketType,
    /// Announced attachments: 0 unless binary, then 1..=[`ATTACHMENTS_MAX`].
    pub attachments: usize,
    /// `/` when left out.
    pub namespace: &'a str,
    /// Ack id, at most 2^53 - 1; that of an ack can also be `u64::MAX`, which stands for all larger
    /// ones: nobody ever asked for them, nor for an ack without an id.
    pub id: Option<u64>,
    /// Raw JSON without white space around it: the array of events and acks, the object (or
    /// nothing) of connect.
    pub data: &'a str,
}

/// Why a packet is refused. All but [`ParseError::Empty`] end the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// Unknown type, or no text at all.
    Type,
    /// Attachment count missing, 0, garbage or above [`ATTACHMENTS_MAX`].
    Attachments,
    /// Control character in the namespace.
    Namespace,
    /// Event with an id above 2^53 - 1, which its client could not tell from its neighbours.
    Id,
    /// The payload is not JSON or nested too deep.
    Json,
    /// The payload is JSON of the wrong shape for this type.
    Shape,
    /// Event name that only the libraries themselves may emit.
    ReservedEvent,
    /// Placeholder that names no attachment or one that is named already, or is not written as one; attachment that none names.
    Placeholder,
    /// Event or ack without any payload. No violation: the reference server takes it and does
    /// nothing, so ignore the packet.
    Empty,
}

/// Parses the data of one Engine.IO message.
///
/// Payloads: CONNECT takes an object or nothing, DISCONNECT nothing, EVENT an array whose first
/// item is a number or a string that is not reserved, ACK an array or nothing, CONNECT_ERROR an object or a
/// string. In binary kinds each attachment must be named by exactly one placeholder, and
/// each placeholder must name one.
///
/// # Errors
/// Any [`ParseError`].
pub fn parse(text: &str) -> Result<Packet<'_>, ParseError> {
    let bytes = text.as_bytes();
    let kind = bytes
        .first()
        .copied()
        .and_then(PacketType::from_byte)
        .ok_or(ParseError::Type)?;
    let (attachments, at) = if kind.is_binary() {
        parse_attachments(bytes, 1)?
    } else {
        (0, 1)
    };
    let (namespace, at) = parse_namespace(text, at)?;
    let (id, at) = parse_id(bytes, at);
    let data = text.get(at..).ok_or(ParseError::Json)?;
    let data = parse_data(data)?;
    let packet = Packet {
        kind,
        attachments,
        namespace,
        id,
        data,
    };
    check_shape(&packet)?;
    Ok(packet)
}

/// Digits and a dash.
fn parse_attachments(bytes: &[u8], at: usize) -> Result<(usize, usize), ParseError> {
    let (count, end) = parse_id(bytes, at);
    let count = usize::try_from(count.unwrap_or(0)).map_err(|_| ParseError::Attachments)?;
    if bytes.get(end) != Some(&b'-') || !(1..=ATTACHMENTS_MAX).contains(&count) {
        return Err(ParseError::Attachments);
    }
    Ok((count, end + 1))
}

/// From a slash to the first comma or the end of the packet.
#[inline]
fn parse_namespace(text: &str, at: usize) -> Result<(&str, usize), ParseError> {
    let rest = text.get(at..).unwrap_or_default();
    if !rest.starts_with('/') {
        return Ok(("/", at));
    }
    let (namespace, end) = match memchr::memchr(b',', rest.as_bytes()) {
        Some(comma) => (&rest[..comma], at + comma + 1),
        None => (rest, text.len()),
    };
    // An echoed 0x1E would cut a polling payload in two; no real namespace has such characters.
    if namespace.bytes().any(|byte| byte < 0x20) {
        return Err(ParseError::Namespace);
    }
    Ok((namespace, end))
}

/// A run of decimal digits, saturating at `u64::MAX` above [`SAFE_INTEGER_MAX`].
#[inline]
fn parse_id(bytes: &[u8], start: usize) -> (Option<u64>, usize) {
    let mut at = start;
    let mut id = 0_u64;
    while let Some(&digit @ b'0'..=b'9') = bytes.get(at) {
        id = id
            .saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'));
        at += 1;
    }
    let id = if id > SAFE_INTEGER_MAX { u64::MAX } else { id };
    ((at > start).then_some(id), at)
}

/// Checks that the rest of the packet is one JSON value or nothing; returns it trimmed.
#[inline]
fn parse_data(rest: &str) -> Result<&str, ParseError> {
    if rest.is_empty() {
        return Ok("");
    }
    let bytes = rest.as_bytes();
    let start = json::skip_space(bytes, 0);
    let end = json::skip_value(bytes, start).map_err(|_| ParseError::Json)?;
    if json::skip_space(bytes, end) != bytes.len() {
        return Err(ParseError::Json);
    }
    rest.get(start..end).ok_or(ParseError::Json)
}

#[inline]
fn check_shape(packet: &Packet<'_>) -> Result<(), ParseError> {
    let first = packet.data.as_bytes().first().copied();
    match (packet.kind, first) {
        (PacketType::Connect, None | Some(b'{'))
        | (PacketType::Disconnect, None)
        | (PacketType::ConnectError, Some(b'{' | b'"')) => Ok(()),
        // An answer without arguments, as the reference takes it.
        (PacketType::Ack, None) => Ok(()),
        (PacketType::Event, None) => Err(ParseError::Empty),
        (PacketType::Event | PacketType::BinaryEvent, Some(b'[')) => {
            if !is_event_array(packet.data) {
                return Err(ParseError::Shape);
            }
            if packet.id.is_some_and(|id| id > SAFE_INTEGER_MAX) {
                return Err(ParseError::Id);
            }
            if is_reserved_first(packet.data) {
                return Err(ParseError::ReservedEvent);
            }
            check_placeholders(packet)
        }
        (PacketType::Ack | PacketType::BinaryAck, Some(b'[')) => check_placeholders(packet),
        _ => Err(ParseError::Shape),
    }
}

#[inline]
fn check_placeholders(packet: &Packet<'_>) -> Result<(), ParseError> {
    match_attachments(packet.data, packet.attachments).map_err(|_| ParseError::Placeholder)
}

/// Bytes that [`write()`] appends.
pub fn written_len(packet: &Packet<'_>) -> usize {
    let namespace = if packet.namespace == "/" {
        0
    } else {
        packet.namespace.len() + 1
    };
    let attachments = if packet.kind.is_binary() {
        digits(packet.attachments as u64) + 1
    } else {
        0
    };
    1 + attachments + namespace + packet.id.map_or(0, digits) + packet.data.len()
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

/// Appends the packet's text, without the Engine.IO `4`.
pub fn write(out: &mut Vec<u8>, packet: &Packet<'_>) {
    let mut number = itoa::Buffer::new();
    out.reserve(written_len(packet));
    out.push(packet.kind as u8);
    if packet.kind.is_binary() {
        out.extend_from_slice(number.format(packet.attachments).as_bytes());
        out.push(b'-');
    }
    if packet.namespace != "/" {
        out.extend_from_slice(packet.namespace.as_bytes());
        out.push(b',');
    }
    if let Some(id) = packet.id {
        out.extend_from_slice(number.format(id).as_bytes());
    }
    out.extend_from_slice(packet.data.as_bytes());
}

#[cfg(test)]
mod tests;
