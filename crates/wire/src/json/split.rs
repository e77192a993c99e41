//! Arrays and objects cut into their raw parts, one level deep. The text must have been validated;
//! on any other text the iterators end early.

use super::syntax::{Error, skip_member, skip_space, skip_string, skip_value};

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

/// Reads the members of an object that nobody has checked yet, raw like those of [`members`], and checks it on the way: one walk
/// instead of two. Exactly one object is taken, white space around it allowed.
///
/// # Errors
/// [`Error`] at the first fault; members before it were read.
#[inline]
pub fn read_members<'a>(
    object: &'a str,
    mut read: impl FnMut(&'a str, &'a str),
) -> Result<(), Error> {
    let bytes = object.as_bytes();
    let expect = |at: usize, byte: u8| match bytes.get(at) {
        Some(found) if *found == byte => Ok(skip_space(bytes, at + 1)),
        _ => Err(Error::Syntax),
    };
    let text = |from, to| object.get(from..to).ok_or(Error::Syntax);
    let mut at = expect(skip_space(bytes, 0), b'{')?;
    let mut more = bytes.get(at) != Some(&b'}');
    while more {
        let key = at;
        if bytes.get(key) != Some(&b'"') {
            return Err(Error::Syntax);
        }
        let key_end = skip_string(bytes, key + 1)?;
        let value = expect(skip_space(bytes, key_end), b':')?;
        // Most values are strings.
        let value_end = match bytes.get(value) {
            Some(b'"') => skip_string(bytes, value + 1)?,
            _ => skip_member(bytes, value)?,
        };
        read(text(key, key_end)?, text(value, value_end)?);
        at = skip_space(bytes, value_end);
        more = bytes.get(at) == Some(&b',');
        if more {
            at = expect(at, b',')?;
        }
    }
    match expect(at, b'}')? == bytes.len() {
        true => Ok(()),
        false => Err(Error::Syntax),
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

/// From behind the opening quote of a valid string to behind the closing one. What is inside was checked before: there is no need
/// to look at every byte again.
fn behind_string(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        match text[at] {
            b'"' => return Some(at + 1),
            _ => at += 2,
        }
    }
}

/// From the opening bracket of a valid array or object to behind the closing one: what is inside was checked before.
fn behind_brackets(text: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    loop {
        match text.get(at)? {
            b'"' => {
                at = skip_string(text, at + 1).ok()?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 1 => return Some(at + 1),
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
}

/// Takes one value and the separator behind it from the front of `rest`.
fn take_value<'a>(rest: &mut &'a str, separator: u8) -> Option<&'a str> {
    let bytes = rest.as_bytes();
    let start = skip_space(bytes, 0);
    let end = match bytes.get(start) {
        Some(b'"') => behind_string(bytes, start + 1)?,
        Some(b'{' | b'[') => behind_brackets(bytes, start)?,
        _ => skip_value(bytes, start).ok()?,
    };
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
    use super::super::syntax::validate;
    use super::*;
    use crate::bounds::DEPTH_MAX;

    #[test]
    fn reading_members_checks_what_validate_checks() {
        let deep = |depth: usize| format!("{{\"a\":{}1{}}}", "[".repeat(depth), "]".repeat(depth));
        let (deepest, too_deep) = (deep(DEPTH_MAX - 1), deep(DEPTH_MAX));
        for text in [
            "{}",
            " { } ",
            r#"{"a":1}"#,
            r#" { "a" : "b" , "c\"" : [ 1 , {} ] } "#,
            r#"{"a":1,"a":null}"#,
            &deepest,
            &too_deep,
            "",
            "{",
            "[]",
            "7",
            r#"{"a":1,}"#,
            r#"{,"a":1}"#,
            r#"{"a" 1}"#,
            r#"{"a":}"#,
            r#"{"a":1 "b":2}"#,
            r#"{"a":1}}"#,
            r#"{"a":1} x"#,
            r#"{a:1}"#,
            r#"{"a":01}"#,
            r#"{"a":"\x"}"#,
        ] {
            let mut read = Vec::new();
            let checked = read_members(text, |key, value| read.push((key, value)));
            let sound = validate(text.as_bytes()).is_ok() && trim(text).starts_with('{');
            assert_eq!(checked.is_ok(), sound, "{text}");
            if sound {
                assert_eq!(read, members(text).collect::<Vec<_>>(), "{text}");
            }
        }
        assert_eq!(read_members(&too_deep, |_, _| ()), Err(Error::TooDeep));
    }

    #[test]
    fn arrays_are_cut_one_level_deep() {
        let cases: [(&str, &[&str]); 7] = [
            ("[]", &[]),
            (" [ ] ", &[]),
            ("[1]", &["1"]),
            (
                r#"[ 1 , "a,]" ,[2,[3]],{"b":[]} ]"#,
                &["1", r#""a,]""#, "[2,[3]]", r#"{"b":[]}"#],
            ),
            (
                r#"[{"a}]":"\"}],{[","b":[{},[ ] ]} , [["]",1],{}],"\\",{}]"#,
                &[
                    r#"{"a}]":"\"}],{[","b":[{},[ ] ]}"#,
                    r#"[["]",1],{}]"#,
                    r#""\\""#,
                    "{}",
                ],
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
        assert_eq!(elements(r#"[1,{"\u{fc}]"#).collect::<Vec<_>>(), ["1"]);
        assert_eq!(elements(r#"[1,{"a":[2],3]"#).collect::<Vec<_>>(), ["1"]);
        assert_eq!(members(r#"{"a":1,"b"}"#).count(), 1);
    }
}
