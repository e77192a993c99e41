//! The JSON validator against serde_json, on syntax and on depth; strings go both ways.
use serde_json::Value;
use serde_json::value::RawValue;
use wire::json;

pub fn run(bytes: &[u8]) {
    let text = super::text(bytes);
    let ours = json::validate(text.as_bytes());
    let theirs = serde_json::from_str::<&RawValue>(text);
    // serde_json skips a raw value without a depth limit, so only it may go further.
    assert!(ours == Err(json::Error::TooDeep) || ours.is_ok() == theirs.is_ok());
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        assert_eq!(ours, Ok(()));
        let array = value.as_array().map_or(0, Vec::len);
        assert_eq!(json::elements(text).count(), array);
        let keys = value.as_object().map_or(0, serde_json::Map::len);
        assert!(json::members(text).count() >= keys);
        let unquoted = json::unquote(text.trim());
        assert_eq!(unquoted.as_deref(), value.as_str());
    }
    let mut quoted = Vec::new();
    json::quote(&mut quoted, text);
    let quoted = std::str::from_utf8(&quoted).expect("UTF-8 in, UTF-8 out");
    assert_eq!(json::unquote(quoted).as_deref(), Some(text));
}
