//! Plain JSON messages: what is taken has canonical arguments and survives both encodings.
use wire::plain;

pub fn run(bytes: &[u8]) {
    let text = super::text(bytes);
    if let Ok(incoming) = plain::parse_json(text) {
        assert!(wire::json::validate(text.as_bytes()).is_ok());
        crate::relay(&incoming);
    }
}
