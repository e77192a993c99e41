//! One target a file: it reads any bytes, and panics where the code under test breaks a promise.

mod base64url;
mod compat;
mod deflate;
mod engineio_payload;
mod engineio_payload3;
mod handoff;
mod http_chunked;
mod http_head;
mod hub;
mod json;
mod plain_json;
mod plain_msgpack;
mod proxy;
mod socketio_packet;
mod websocket;
mod webtransport;

/// Reads one input.
pub type Target = fn(&[u8]);

/// Every target by the name of its seeds' folder.
pub const TARGETS: [(&str, Target); 16] = [
    ("base64url", base64url::run),
    ("compat", compat::run),
    ("deflate", deflate::run),
    ("engineio_payload", engineio_payload::run),
    ("engineio_payload3", engineio_payload3::run),
    ("handoff", handoff::run),
    ("http_chunked", http_chunked::run),
    ("http_head", http_head::run),
    ("hub", hub::run),
    ("json", json::run),
    ("plain_json", plain_json::run),
    ("plain_msgpack", plain_msgpack::run),
    ("proxy", proxy::run),
    ("socketio_packet", socketio_packet::run),
    ("websocket", websocket::run),
    ("webtransport", webtransport::run),
];

/// The text that noise begins with.
fn text(bytes: &[u8]) -> &str {
    let valid = match std::str::from_utf8(bytes) {
        Ok(text) => return text,
        Err(error) => error.valid_up_to(),
    };
    std::str::from_utf8(&bytes[..valid]).unwrap_or_default()
}
