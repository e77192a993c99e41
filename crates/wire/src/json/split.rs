//! Arrays and objects cut into their raw parts, one level deep. The text must have been validated;
//! on any other text the iterators end early.

use super::syntax::{skip_space, skip_value};

/// Splits an array's text into its raw elements, without the white space around them.
pub fn elements(array: &str) -> Elements<'_> {
    Elements {
        rest: inside(array, '[', ']'),
    }
}

/// Iterator of [`elements`]; also cuts text that is a list of elements without its brackets.
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    rest: &'a str,
}

impl<'a> Elements<'a> {
    /// Splits elements that have no brackets around them, as event arguments are kept:
    /// `1,{"a":2}`.
    pub fn bare(list: &'a str) -> Self {
        Self { rest: list }
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        take_value(&mut self.rest, b',')
    }
}

/// The first of the raw elements of a list without brackets.
pub fn first(list: &str) -> Option<&str> {
    Elements::bare(list).next()
}

/// Raw value of an object's member: the last of that name, as JSON.parse has it. `key` has its quotes; what is no object has no
/// members.
pub fn member<'a>(object: &'a str, key: &str) -> Option<&'a str> {
    let named = members(object).filter(|(name, _)| *name == key);
    named.last().map(|(_, value)| value)
}

/// Splits a validated object's text into raw pairs: the key with its quotes, and the value.
pub fn members(object: &str) -> Members<'_> {
    Members {
        rest: inside(object, '{', '}'),
    }
}

/// Iterator of [`members`].
#[derive(Clone, Debug)]
pub struct Members<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<(&'a str, &'a str)> {
        let key = take_value(&mut self.rest, b':')?;
        Some((key, take_value(&mut self.rest, b',')?))
    }
}

/// What is between the brackets; nothing if `text` does not have them.
fn inside(text: &str, open: char, close: char) -> &str {
    let text = trim(text);
    text.strip_prefix(open)
        .and_then(|text| text.strip_suffix(close))
        .unwrap_or_default()
}

/// Takes one value and the separator behind it from the front of `rest`.
fn take_value<'a>(rest: &mut &'a str, separator: u8) -> Option<&'a str> {
    let bytes = rest.as_bytes();
    let start = skip_space(bytes, 0);
    let end = skip_value(bytes, start).ok()?;
    let value = rest.get(start..end)?;
    let behind = skip_space(bytes, end);
    let next = behind + usize::from(bytes.get(behind) == Some(&separator));
    *rest = rest.get(next..).unwrap_or_default();
    Some(value)
}

/// Without JSON white space at both ends.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\n', '\r'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_cut_one_level_deep() {
        let cases: [(&str, &[&str]); 6] = [
            ("[]", &[]),
            (" [ ] ", &[]),
            ("[1]", &["1"]),
            (
                r#"[ 1 , "a,]" ,[2,[3]],{"b":[]} ]"#,
                &["1", r#""a,]""#, "[2,[3]]", r#"{"b":[]}"#],
            ),
            ("{}", &[]),
            ("7", &[]),
        ];
        for (array, expected) in cases {
            assert_eq!(elements(array).collect::<Vec<_>>(), expected, "{array}");
        }
        assert_eq!(
            Elements::bare(r#"1,{"a":2}"#).collect::<Vec<_>>(),
            ["1", r#"{"a":2}"#]
        );
        assert_eq!(Elements::bare("").next(), None);
    }

    #[test]
    fn objects_are_cut_into_pairs() {
        let object = r#" { "a" : 1 , "b:," :{"c":[2]},"a":null}"#;
        let pairs: Vec<_> = members(object).collect();
        assert_eq!(
            pairs,
            [
                ("\"a\"", "1"),
                ("\"b:,\"", r#"{"c":[2]}"#),
                ("\"a\"", "null")
            ]
        );
        assert_eq!(members("{}").next(), None);
        assert_eq!(members("[1,2]").next(), None);
    }

    #[test]
    fn text_that_was_not_validated_ends_early() {
        assert_eq!(elements("[1,,2]").collect::<Vec<_>>(), ["1"]);
        assert_eq!(elements("[1,\u{fc}]").collect::<Vec<_>>(), ["1"]);
        assert_eq!(members(r#"{"a":1,"b"}"#).count(), 1);
    }
}
