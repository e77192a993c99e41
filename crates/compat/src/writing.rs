//! JSON text of what we say, in the order in which Node writes its members. MessagePack is made of the same text.

use crate::bounds::NUMBER_DIGITS_MAX;
use crate::verb::{Args, Event, Fetched, Selection};
use wire::plain::msgpack;
use wire::{json, socketio};

/// What Node's servers report of a handshake and we do not keep. Its members must be there: applications read them.
const HANDSHAKE: &str = r#"{"headers":{},"time":"","address":"","xdomain":false,"secure":false,"issued":0,"url":"","query":{},"auth":{}}"#;

pub(crate) fn quoted(text: &str) -> String {
    let mut out = Vec::new();
    json::quote(&mut out, text);
    String::from_utf8(out).unwrap_or_default()
}

/// A list of names; `twice` writes names that are numbers in both forms. In Node, room 42 is another room than "42", and here they
/// are one.
fn list(names: &[String], twice: bool) -> String {
    let mut elements = Vec::with_capacity(names.len());
    for name in names {
        elements.push(quoted(name));
        if twice && is_number(name) {
            elements.push(name.clone());
        }
    }
    format!("[{}]", elements.join(","))
}

/// A whole number, as JavaScript writes it.
fn is_number(name: &str) -> bool {
    let digits = name.strip_prefix('-').unwrap_or(name);
    (1..=NUMBER_DIGITS_MAX).contains(&digits.len())
        && digits.bytes().all(|digit| digit.is_ascii_digit())
        && (!digits.starts_with('0') || name == "0")
}

/// Rooms whose members are meant.
pub(crate) fn meant(names: &[String]) -> String {
    list(names, true)
}

/// Rooms to join: one is enough, and it is the one that a client of ours would name.
pub(crate) fn joined(names: &[String]) -> String {
    list(names, false)
}

/// `{rooms, except}`, and `flags` where there are some.
pub(crate) fn opts(of: &Selection, flags: Option<&str>) -> String {
    let (rooms, except) = (meant(&of.rooms), meant(&of.except));
    match flags {
        Some(flags) => format!("{{\"rooms\":{rooms},\"except\":{except},\"flags\":{flags}}}"),
        None => format!("{{\"rooms\":{rooms},\"except\":{except}}}"),
    }
}

pub(crate) fn flags(volatile: bool, timeout_ms: Option<u64>) -> String {
    match (volatile, timeout_ms) {
        (true, Some(timeout)) => format!("{{\"volatile\":true,\"timeout\":{timeout}}}"),
        (false, Some(timeout)) => format!("{{\"timeout\":{timeout}}}"),
        (true, None) => "{\"volatile\":true}".to_owned(),
        (false, None) => "{}".to_owned(),
    }
}

/// `{type, data}`, and `nsp` where the dialect names the namespace here.
pub(crate) fn packet(event: &Event, namespace: Option<&str>) -> String {
    let comma = if event.args.json.is_empty() { "" } else { "," };
    let data = format!("[{}{comma}{}]", quoted(&event.name), event.args.json);
    match namespace {
        Some(namespace) => {
            let namespace = quoted(namespace);
            format!("{{\"type\":2,\"data\":{data},\"nsp\":{namespace}}}")
        }
        None => format!("{{\"type\":2,\"data\":{data}}}"),
    }
}

/// `[{id, handshake, rooms, data}, …]`.
pub(crate) fn sockets(found: &[Fetched]) -> String {
    let one = |socket: &Fetched| {
        let (id, rooms, data) = (quoted(&socket.id), joined(&socket.rooms), &socket.data);
        format!("{{\"id\":{id},\"handshake\":{HANDSHAKE},\"rooms\":{rooms},\"data\":{data}}}")
    };
    format!("[{}]", found.iter().map(one).collect::<Vec<_>>().join(","))
}

/// About what [`sockets`] writes for one.
pub(crate) fn socket_bytes(socket: &Fetched) -> usize {
    let rooms: usize = socket.rooms.iter().map(|room| name_bytes(room)).sum();
    HANDSHAKE.len() + 48 + socket.id.len() + rooms + socket.data.len()
}

/// About what a name takes in a list.
pub(crate) fn name_bytes(name: &str) -> usize {
    name.len() + 3
}

/// `,"key":first` of an ack's arguments, and whether it holds bytes. Node's acks of broadcasts have one argument; without any, the
/// member is missing.
pub(crate) fn first_arg(key: &str, args: &Args) -> (String, bool) {
    match json::first(&args.json) {
        Some(first) => {
            let binary = !args.attachments.is_empty() && socketio::placeholders(first).count() > 0;
            (format!(",\"{key}\":{first}"), binary)
        }
        None => (String::new(), false),
    }
}

/// JSON to MessagePack, with the bytes in their places.
pub(crate) fn packed(json: &str, attachments: &[Vec<u8>]) -> Vec<u8> {
    let attachments: Vec<&[u8]> = attachments.iter().map(Vec::as_slice).collect();
    let mut out = Vec::with_capacity(json.len());
    msgpack::from_json(&mut out, json, &attachments);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_a_number_means_both_rooms_of_node() {
        let names = [
            "42",
            "-7",
            "0",
            "042",
            "4.5",
            "",
            "-",
            "-0",
            "1234567890123456",
            "a",
        ];
        let names: Vec<String> = names.map(str::to_owned).to_vec();
        let expected = r#"["42",42,"-7",-7,"0",0,"042","4.5","","-","-0","1234567890123456","a"]"#;
        assert_eq!(meant(&names), expected);
        assert_eq!(joined(&names[..1]), r#"["42"]"#);
    }
}
