//! Plain MessagePack messages: what is taken has canonical arguments and survives both encodings.
use wire::plain;

pub fn run(bytes: &[u8]) {
    if let Ok(incoming) = plain::parse_msgpack(bytes) {
        crate::relay(&incoming);
    }
}
