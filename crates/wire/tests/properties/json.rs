//! The validator against serde_json, and splitting against parsing.

use crate::values;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;
use serde_json::value::RawValue;
use wire::json;

/// Syntax as serde_json has it when it does not look at what numbers and surrogates mean: exactly
/// the freedom of JSON.parse.
fn is_json(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

/// Only these two make serde_json refuse what JSON.parse takes.
fn is_range_or_surrogate(error: &serde_json::Error) -> bool {
    let text = error.to_string();
    ["out of range", "surrogate", "hex escape"]
        .iter()
        .any(|part| text.contains(part))
}

proptest! {
    #[test]
    fn serde_json_and_the_validator_agree(
        text in values::text(),
        damages in vec(values::damage(), 0..4),
    ) {
        let text = values::apply(&text, &damages);
        let ours = json::validate(text.as_bytes());
        prop_assert_eq!(ours.is_ok(), is_json(&text), "{}", &text);
        match serde_json::from_str::<Value>(&text) {
            Ok(_) => prop_assert_eq!(ours, Ok(())),
            Err(error) => prop_assert!(ours.is_err() || is_range_or_surrogate(&error), "{}", error),
        }
        let raw = json::unquote(&text);
        if let Ok(Value::String(string)) = serde_json::from_str(text.trim()) {
            let unquoted = json::unquote(text.trim());
            prop_assert_eq!(unquoted.as_deref(), Some(string.as_str()));
        }
        prop_assert!(raw.is_none() || ours.is_ok());
    }

    #[test]
    fn depth_is_bounded_as_in_serde_json(depth in 100_usize..150, objects in any::<bool>()) {
        let (open, close) = if objects { ("{\"a\":", "}") } else { ("[", "]") };
        let text = format!("{}0{}", open.repeat(depth), close.repeat(depth));
        let theirs = serde_json::from_str::<Value>(&text);
        prop_assert_eq!(json::validate(text.as_bytes()).is_ok(), theirs.is_ok());
        prop_assert_eq!(theirs.is_ok(), depth <= json::DEPTH_MAX);
    }

    #[test]
    fn a_value_ends_where_it_ends(text in values::text(), behind in "[ ,\\]}a]{0,3}") {
        let whole = format!("{text}{behind}");
        // A number could go on behind its end; nothing in `behind` continues one.
        let end = json::skip_value(whole.as_bytes(), 0);
        prop_assert_eq!(end, Ok(text.trim_end_matches([' ', '\n']).len()));
    }

    #[test]
    fn elements_and_members_are_those_of_the_parser(text in values::text()) {
        let value: Value = serde_json::from_str(&text).expect("generated JSON");
        let parse = |raw: &str| serde_json::from_str::<Value>(raw).expect("raw part is JSON");
        let elements: Vec<Value> = json::elements(&text).map(parse).collect();
        let expected = value.as_array().cloned().unwrap_or_default();
        prop_assert_eq!(elements, expected);
        let members: Vec<(Value, Value)> =
            json::members(&text).map(|(key, value)| (parse(key), parse(value))).collect();
        let expected: Vec<(Value, Value)> = value
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| (Value::from(key.as_str()), value.clone()))
            .collect();
        prop_assert_eq!(members, expected);
    }

    #[test]
    fn strings_survive_quoting(text in values::string()) {
        let mut quoted = Vec::new();
        json::quote(&mut quoted, &text);
        prop_assert_eq!(json::validate(&quoted), Ok(()));
        let quoted = String::from_utf8(quoted).expect("UTF-8 in, UTF-8 out");
        prop_assert_eq!(serde_json::from_str::<String>(&quoted).ok(), Some(text.clone()));
        let unquoted = json::unquote(&quoted);
        prop_assert_eq!(unquoted.as_deref(), Some(text.as_str()));

        let escaped: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
        let escaped = format!("\"{escaped}\"");
        let unquoted = json::unquote(&escaped);
        prop_assert_eq!(unquoted.as_deref(), Some(text.as_str()));
    }

    #[test]
    fn any_bytes_are_judged_without_panic(bytes in vec(any::<u8>(), 0..64), at in 0_usize..80) {
        if let Ok(end) = json::skip_value(&bytes, at) {
            prop_assert!(at < end && end <= bytes.len());
        }
    }
}
