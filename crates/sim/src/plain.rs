//! The plain protocol for clients that think in packets of Socket.IO.

use wire::plain::{Incoming, Outgoing, parse_json, parse_msgpack, write_json, write_msgpack};
use wire::websocket::frame::{self, OpCode};

/// The request of a client that speaks it, in MessagePack or in JSON.
pub(crate) fn hello(is_packed: bool) -> Vec<u8> {
    let protocol = match is_packed {
        true => "Sec-WebSocket-Protocol: sockeye.msgpack\r\n",
        false => "",
    };
    format!(
        "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{protocol}\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    .into_bytes()
}

/// An event or an ack as a frame.
pub(crate) fn write(packet: &str, is_packed: bool) -> Vec<u8> {
    let (head, list) = packet.split_once('[').expect("arguments");
    let list = list.strip_suffix(']').expect("their end");
    let (kind, id) = head.split_at(2);
    let (name, args) = match kind {
        "42" => list.split_once(',').unwrap_or((list, "")),
        _ => ("\"ack\"", list),
    };
    let name = name.trim_matches('"');
    let is_move = matches!(name, "join" | "leave");
    let message = Outgoing {
        name,
        room: is_move.then(|| args.trim_matches('"')),
        args: if is_move { "" } else { args },
        attachments: &[],
        id: id.parse().ok(),
        offset: None,
    };
    let (mut body, mut out) = (Vec::new(), Vec::new());
    let code = match is_packed {
        true => OpCode::Binary,
        false => OpCode::Text,
    };
    match is_packed {
        true => write_msgpack(&mut body, &message),
        false => write_json(&mut body, &message),
    }
    frame::write_masked(&mut out, true, code, &body, [1, 2, 3, 4]);
    out
}

/// What such a client hears, as a packet.
pub(crate) fn read(payload: &[u8], is_packed: bool) -> String {
    let text = String::from_utf8_lossy(payload);
    let message = match is_packed {
        true => parse_msgpack(payload),
        false => parse_json(&text),
    };
    let number = |id: Option<u64>| id.map_or_else(String::new, |id| id.to_string());
    match message {
        Ok(Incoming::Event { name, args, id, .. }) => {
            format!("42{}[\"{name}\",{args}]", number(id))
        }
        Ok(Incoming::Ack { id, args, .. }) => format!("43{id}[{args}]"),
        // As the others hear it.
        Err(_) if text.contains("CLUSTER_UNAVAILABLE") => {
            "42[\"error\",{\"message\":\"Other nodes cannot be reached\"}]".to_owned()
        }
        other => panic!("a plain client got {text}: {other:?}"),
    }
}
