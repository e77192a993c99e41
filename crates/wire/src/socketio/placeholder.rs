//! Placeholders: `{"_placeholder":true,"num":0}` where an attachment stood.
//!
//! Every client writes exactly these two members. An object that is marked as a placeholder but
//! written otherwise is refused: receivers would disagree on what it stands for.

use crate::bounds::{ATTACHMENTS_MAX, INDEX_DIGITS_MAX};
use crate::json;
use std::ops::Range;

const KEY: &str = "_placeholder";

/// One placeholder of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placeholder {
    /// Where the object stands in the text.
    pub range: Range<usize>,
    /// Number of the attachment, to be compared with how many there are.
    pub index: usize,
}

/// An object is marked as a placeholder but its `num` is no small whole number, or it has other
/// members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceholderError;

/// Finds the placeholders in validated JSON (or a bare list of elements), at any depth, in order.
/// Linear time, no allocation unless a key is escaped.
pub fn placeholders(text: &str) -> Placeholders<'_> {
    Placeholders { text, at: 0 }
}

/// Why attachments cannot go with these arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// More than [`ATTACHMENTS_MAX`].
    Many,
    /// A placeholder with more members than it has.
    Placeholder,
    /// Some attachment does not stand in the arguments exactly once.
    Unmatched,
}

const _: () = assert!(ATTACHMENTS_MAX <= u16::BITS as usize, "one bit each");

/// Each attachment stands in the arguments once: receivers would wait for another number of them for ever. Without attachments nothing
/// is a placeholder.
///
/// # Errors
/// What is wrong.
pub fn match_attachments(args: &str, attachments: usize) -> Result<(), Misfit> {
    if attachments == 0 {
        return Ok(());
    }
    if attachments > ATTACHMENTS_MAX {
        return Err(Misfit::Many);
    }
    // Encoders number every occurrence anew. Named again and again, one attachment would become as many copies where bytes are
    // written into the text.
    let mut named = 0_u16;
    for placeholder in placeholders(args) {
        let index = placeholder.map_err(|_| Misfit::Placeholder)?.index;
        if index >= attachments || named & 1 << index != 0 {
            return Err(Misfit::Unmatched);
        }
        named |= 1 << index;
    }
    // An attachment that nothing names would be kept and sent on for no reader.
    match named.count_ones() as usize == attachments {
        true => Ok(()),
        false => Err(Misfit::Unmatched),
    }
}

/// Iterator of [`placeholders`]; ends after an error.
#[derive(Clone, Debug)]
pub struct Placeholders<'a> {
    text: &'a str,
    at: usize,
}

impl Iterator for Placeholders<'_> {
    type Item = Result<Placeholder, PlaceholderError>;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.text.as_bytes();
        loop {
            let start = self.at + memchr::memchr2(b'{', b'"', bytes.get(self.at..)?)?;
            if bytes[start] == b'{' {
                if let Some((index, end)) = placeholder_at(self.text, start) {
                    self.at = end;
                    return Some(Ok(Placeholder {
                        range: start..end,
                        index,
                    }));
                }
                self.at = start + 1;
                continue;
            }
            let Ok(end) = json::skip_string(bytes, start + 1) else {
                self.at = bytes.len();
                return None;
            };
            self.at = end;
            if marks_placeholder(self.text, start, end) {
                self.at = bytes.len();
                return Some(Err(PlaceholderError));
            }
        }
    }
}

/// The string `text[start..end]` is the key of a `"_placeholder":true` member.
fn marks_placeholder(text: &str, start: usize, end: usize) -> bool {
    let bytes = text.as_bytes();
    let colon = json::skip_space(bytes, end);
    if bytes.get(colon) != Some(&b':') {
        return false;
    }
    let value = json::skip_space(bytes, colon + 1);
    bytes
        .get(value..)
        .is_some_and(|value| value.starts_with(b"true"))
        && text
            .get(start..end)
            .and_then(json::unquote)
            .is_some_and(|key| key == KEY)
}

/// The placeholder that is written at `text[start..]`: its number and the index behind it.
pub(crate) fn placeholder_at(text: &str, start: usize) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    let mut at = start;
    let mut marked = false;
    let mut index = None;
    for opening in [b'{', b','] {
        at = expect(bytes, at, opening)?;
        let key_start = json::skip_space(bytes, at);
        let key_end = json::skip_string(bytes, expect(bytes, key_start, b'"')?).ok()?;
        at = json::skip_space(bytes, expect(bytes, key_end, b':')?);
        match json::unquote(text.get(key_start..key_end)?)?.as_ref() {
            KEY if !marked && bytes.get(at..at + 4) == Some(b"true") => {
                marked = true;
                at += 4;
            }
            "num" if index.is_none() => {
                let (number, behind) = parse_index(text, at)?;
                index = Some(number);
                at = behind;
            }
            _ => return None,
        }
    }
    Some((index?, expect(bytes, at, b'}')?))
}

/// Skips white space and then `byte`.
fn expect(bytes: &[u8], at: usize, byte: u8) -> Option<usize> {
    let at = json::skip_space(bytes, at);
    (bytes.get(at) == Some(&byte)).then_some(at + 1)
}

fn parse_index(text: &str, at: usize) -> Option<(usize, usize)> {
    let digits = text
        .as_bytes()
        .get(at..)?
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    if digits > INDEX_DIGITS_MAX {
        return None;
    }
    Some((text.get(at..at + digits)?.parse().ok()?, at + digits))
}

/// Appends the placeholder of attachment `index` as the reference client writes it.
pub fn write_placeholder(out: &mut Vec<u8>, index: usize) {
    out.extend_from_slice(b"{\"_placeholder\":true,\"num\":");
    out.extend_from_slice(itoa::Buffer::new().format(index).as_bytes());
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_found_at_any_depth_and_in_order() {
        let text = r#"[{"a":{"_placeholder":true,"num":1}},"{",{ "num" : 0,"_placeholder":true }]"#;
        let found: Result<Vec<_>, _> = placeholders(text).collect();
        let found: Vec<_> = found
            .expect("all well-formed")
            .into_iter()
            .map(|placeholder| (placeholder.index, &text[placeholder.range]))
            .collect();
        let expected = [
            (1, r#"{"_placeholder":true,"num":1}"#),
            (0, r#"{ "num" : 0,"_placeholder":true }"#),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn an_error_is_the_last_item() {
        let text = r#"{"_placeholder":true},{"_placeholder":true,"num":0}"#;
        assert_eq!(
            placeholders(text).collect::<Vec<_>>(),
            [Err(PlaceholderError)]
        );
    }

    #[test]
    fn written_placeholders_are_found_again() {
        for index in [0, 7, 10, 999_999_999] {
            let mut out = Vec::new();
            write_placeholder(&mut out, index);
            let text = String::from_utf8(out).expect("ASCII");
            let range = 0..text.len();
            let found: Vec<_> = placeholders(&text).collect();
            assert_eq!(found, [Ok(Placeholder { range, index })]);
        }
    }

    #[test]
    fn hostile_text_takes_linear_time() {
        // Each opening brace looks like a placeholder until its second key.
        let text = format!("[{}0]", r#"{"num":0,"a":"#.repeat(100_000));
        assert_eq!(placeholders(&text).count(), 0);
        let digits = format!(r#"[{{"num":{}}}]"#, "1".repeat(1_000_000));
        assert_eq!(placeholders(&digits).count(), 0);
    }
}
