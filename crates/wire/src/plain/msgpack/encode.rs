//! Validated JSON text to MessagePack.

use crate::json;
use crate::plain::binary::Unwritten;
use crate::socketio::placeholder_at;
use rmp::encode;

/// Appends the head of a map of `len` pairs.
pub(crate) fn map(out: &mut Vec<u8>, len: u32) {
    infallible(encode::write_map_len(out, len));
}

/// Appends the head of an array of `len` elements.
pub(crate) fn array(out: &mut Vec<u8>, len: u32) {
    infallible(encode::write_array_len(out, len));
}

/// Appends a string.
pub(crate) fn text(out: &mut Vec<u8>, text: &str) {
    infallible(encode::write_str(out, text));
}

/// Appends a whole number in its shortest form.
pub(crate) fn unsigned(out: &mut Vec<u8>, number: u64) {
    infallible(encode::write_uint(out, number));
}

/// Appends nil.
pub(crate) fn nil(out: &mut Vec<u8>) {
    infallible(encode::write_nil(out));
}

/// Writing to a `Vec` cannot fail; rmp's signatures do not know that.
fn infallible<T, E>(result: Result<T, E>) {
    debug_assert!(result.is_ok(), "a Vec takes every byte");
}

/// Appends the values of a validated JSON value or bare list of values, one after the other.
/// Placeholders become the bytes they stand for when there are `attachments`; one that stands for
/// none, or for one that an earlier one stood for, becomes nil.
pub fn from_json(out: &mut Vec<u8>, json: &str, attachments: &[&[u8]]) {
    let bytes = json.as_bytes();
    // MessagePack wants lengths in front; one pass finds them all, another writes.
    let mut lens = container_lens(bytes).into_iter();
    let mut unwritten = Unwritten::new(attachments);
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'{' => {
                let len = lens.next().unwrap_or(0);
                let placeholder = if unwritten.is_empty() {
                    None
                } else {
                    placeholder_at(json, at)
                };
                let Some((index, end)) = placeholder else {
                    map(out, len);
                    at += 1;
                    continue;
                };
                match unwritten.take(index) {
                    Some(attachment) => infallible(encode::write_bin(out, attachment)),
                    None => nil(out),
                }
                at = end;
            }
            b'[' => {
                array(out, lens.next().unwrap_or(0));
                at += 1;
            }
            _ => at = scalar(out, json, at),
        }
    }
}

/// Appends the string, number or word at `at`, if it is one, and returns the index behind it.
fn scalar(out: &mut Vec<u8>, json: &str, at: usize) -> usize {
    let bytes = json.as_bytes();
    let is_punctuation = matches!(
        bytes.get(at),
        Some(b',' | b':' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r')
    );
    let (false, Ok(end)) = (is_punctuation, json::skip_value(bytes, at)) else {
        return at + 1;
    };
    match json.get(at..end).unwrap_or_default() {
        "null" => nil(out),
        "true" => infallible(encode::write_bool(out, true)),
        "false" => infallible(encode::write_bool(out, false)),
        raw => match json::unquote(raw) {
            Some(string) => text(out, &string),
            None => number(out, raw),
        },
    }
    end
}

/// Whole numbers keep all their digits up to 64 bits; the rest are doubles, as in JavaScript.
fn number(out: &mut Vec<u8>, raw: &str) {
    if let Ok(number) = raw.parse::<i64>() {
        infallible(encode::write_sint(out, number));
    } else if let Ok(number) = raw.parse::<u64>() {
        unsigned(out, number);
    } else {
        infallible(encode::write_f64(out, raw.parse().unwrap_or(f64::NAN)));
    }
}

/// Number of elements or pairs of each container, in the order in which they open.
fn container_lens(json: &[u8]) -> Vec<u32> {
    let mut lens: Vec<u32> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut at = 0;
    while let Some(&byte) = json.get(at) {
        at += 1;
        match byte {
            b'"' => at = json::skip_string(json, at).unwrap_or(json.len()),
            b'{' | b'[' => {
                let first = json.get(json::skip_space(json, at));
                open.push(lens.len());
                lens.push(u32::from(!matches!(first, Some(b'}' | b']'))));
            }
            b'}' | b']' => {
                open.pop();
            }
            b',' => {
                if let Some(len) = open.last().and_then(|&index| lens.get_mut(index)) {
                    *len = len.saturating_add(1);
                }
            }
            _ => {}
        }
    }
    lens
}
