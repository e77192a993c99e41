//! Clients of every protocol that know events, acknowledgements and binary, whatever carries them. Bytes in arguments are written `{"bytes":"0a0b"}` whatever the protocol, so that events can be compared.

mod http;
pub mod msgpack;
mod plain;
mod socketio;
mod transport;
mod websocket;

pub use crate::PATIENCE;
pub use http::request;
pub use plain::{Encoding, Plain};
pub use socketio::SocketIo;
pub use transport::{Packet, Polling, Transport, open_session};
pub use websocket::{Frame, WebSocket};

use serde_json::{Value, json};

/// An event as a client sees it, in whatever protocol it came.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub name: String,
    pub args: Vec<Value>,
    /// The question's id, if the server wants an answer.
    pub ack: Option<u64>,
    /// Room, where the protocol says it.
    pub room: Option<String>,
}

/// Bytes as the tests write them.
pub fn bytes(bytes: &[u8]) -> Value {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    json!({ "bytes": hex })
}

/// The bytes that a value of [`bytes`] means.
fn as_bytes(value: &Value) -> Option<Vec<u8>> {
    let object = value.as_object().filter(|object| object.len() == 1)?;
    let hex = object.get("bytes")?.as_str()?;
    let pairs = (0..hex.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok())
        .collect()
}

/// Replaces every value in `value` for which `with` has another.
fn replace(value: &mut Value, with: &mut dyn FnMut(&Value) -> Option<Value>) {
    if let Some(other) = with(value) {
        *value = other;
        return;
    }
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, with)),
        Value::Object(members) => members
            .values_mut()
            .for_each(|member| replace(member, with)),
        _ => {}
    }
}
