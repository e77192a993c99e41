//! Name and arguments of an event's array.
//! HOT PATH: allocates only for a name with escapes.

use crate::json;
use std::borrow::Cow;

/// An event, its arguments still raw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// Unescaped; the text of the number for a numeric name.
    pub name: Cow<'a, str>,
    /// Raw elements behind the name without the comma and the brackets, `1,{"a":2}`; empty when
    /// there are none. [`json::Elements::bare`] splits them.
    pub args: &'a str,
}

/// Splits `data` of a parsed EVENT or BINARY_EVENT. Other text gives an event without a name.
#[inline]
pub fn event(data: &str) -> Event<'_> {
    let nothing = Event {
        name: Cow::Borrowed(""),
        args: "",
    };
    let Some((raw, behind)) = first_element(data) else {
        return nothing;
    };
    let name = json::unquote(raw).unwrap_or(Cow::Borrowed(raw));
    let bytes = data.as_bytes();
    let comma = json::skip_space(bytes, behind);
    if bytes.get(comma) != Some(&b',') {
        return Event { name, args: "" };
    }
    let args = data
        .get(comma + 1..)
        .and_then(|args| args.strip_suffix(']'))
        .unwrap_or_default();
    Event {
        name,
        args: args.trim_matches([' ', '\t', '\n', '\r']),
    }
}

/// Names that only the libraries themselves may emit: a client that meets one ends its session with
/// `parse error`, and parsers here refuse packets with them.
const RESERVED: [&str; 6] = [
    "connect",
    "connect_error",
    "disconnect",
    "disconnecting",
    "newListener",
    "removeListener",
];

/// The name if it is a reserved one.
#[inline]
pub fn reserved(name: &str) -> Option<&'static str> {
    RESERVED.into_iter().find(|reserved| *reserved == name)
}

/// Whether only the libraries themselves may emit this name.
#[inline]
pub fn is_reserved(name: &str) -> bool {
    reserved(name).is_some()
}

/// The first element is a string or a number.
#[inline]
pub(super) fn is_event_array(data: &str) -> bool {
    let bytes = data.as_bytes();
    matches!(
        bytes.get(json::skip_space(bytes, 1)),
        Some(b'"' | b'-' | b'0'..=b'9')
    )
}

/// The first element is a reserved name, however it is escaped.
#[inline]
pub(super) fn is_reserved_first(data: &str) -> bool {
    first_element(data)
        .and_then(|(raw, _)| json::unquote(raw))
        .is_some_and(|name| is_reserved(&name))
}

/// Raw first element of an array's text and the index behind it.
#[inline]
fn first_element(data: &str) -> Option<(&str, usize)> {
    let bytes = data.as_bytes();
    if bytes.first() != Some(&b'[') {
        return None;
    }
    let start = json::skip_space(bytes, 1);
    let end = match bytes.get(start)? {
        b'"' => json::skip_string(bytes, start + 1),
        _ => json::skip_value(bytes, start),
    };
    let end = end.ok()?;
    Some((data.get(start..end)?, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_and_arguments_are_cut_apart() {
        let cases = [
            (r#"["a"]"#, "a", ""),
            (r#"[ "a" ]"#, "a", ""),
            (r#"["a",1,{"b":[2]}]"#, "a", r#"1,{"b":[2]}"#),
            (r#"[ "a" , "]," ]"#, "a", r#""],""#),
            (r#"["",null]"#, "", "null"),
            (r#"["\u0061\"",1]"#, "a\"", "1"),
            ("[1]", "1", ""),
            ("[-1.50,2]", "-1.50", "2"),
        ];
        for (data, name, args) in cases {
            assert_eq!(
                event(data),
                Event {
                    name: name.into(),
                    args
                },
                "{data}"
            );
        }
        assert!(matches!(event(r#"["abc"]"#).name, Cow::Borrowed("abc")));
    }

    #[test]
    fn text_that_was_not_parsed_gives_no_event() {
        for data in ["", "[", "[]", "{}", "x", "[\""] {
            assert_eq!(
                event(data),
                Event {
                    name: "".into(),
                    args: ""
                },
                "{data}"
            );
        }
    }

    #[test]
    fn six_names_are_reserved() {
        assert!(RESERVED.into_iter().all(is_reserved));
        assert!(
            !["Connect", "error", "connection", "", "message"]
                .into_iter()
                .any(is_reserved)
        );
    }
}
