//! Bytes inside JSON text: `{"_binary":"<base64>"}` <-> Socket.IO placeholder and attachment.

use crate::bounds::ATTACHMENTS_MAX;
use crate::engineio::payload;
use crate::json;
use crate::socketio;
use std::borrow::Cow;

const KEY: &str = "\"_binary\"";

/// Takes the bytes out of validated JSON and leaves placeholders. The text comes back as it was if
/// there are none. `None` for more than [`ATTACHMENTS_MAX`].
///
/// An object that is not exactly such a member with base64 in it stays what it is: data.
pub(super) fn extract(text: Cow<'_, str>) -> Option<(Cow<'_, str>, Vec<Vec<u8>>)> {
    let mut attachments = Vec::new();
    // Few texts have an underscore at all, and looking for one byte costs less than preparing to look for eight.
    if memchr::memchr(b'_', text.as_bytes()).is_none()
        || memchr::memmem::find(text.as_bytes(), KEY.as_bytes()).is_none()
    {
        return Some((text, attachments));
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(text.len());
    let (mut at, mut copied) = (0, 0);
    while let Some(found) = memchr::memchr2(b'{', b'"', bytes.get(at..)?) {
        let start = at + found;
        if bytes[start] == b'"' {
            at = json::skip_string(bytes, start + 1).ok()?;
        } else if let Some((attachment, end)) = binary_at(&text, start) {
            if attachments.len() == ATTACHMENTS_MAX {
                return None;
            }
            out.extend_from_slice(&bytes[copied..start]);
            socketio::write_placeholder(&mut out, attachments.len());
            attachments.push(attachment);
            (at, copied) = (end, end);
        } else {
            at = start + 1;
        }
    }
    if attachments.is_empty() {
        return Some((text, attachments));
    }
    out.extend_from_slice(&bytes[copied..]);
    Some((Cow::Owned(String::from_utf8(out).ok()?), attachments))
}

/// The bytes written at `text[start..]` and the index behind them.
fn binary_at(text: &str, start: usize) -> Option<(Vec<u8>, usize)> {
    let bytes = text.as_bytes();
    let key = json::skip_space(bytes, start + 1);
    if !bytes.get(key..)?.starts_with(KEY.as_bytes()) {
        return None;
    }
    let colon = json::skip_space(bytes, key + KEY.len());
    let value = json::skip_space(bytes, colon + 1);
    if bytes.get(colon) != Some(&b':') || bytes.get(value) != Some(&b'"') {
        return None;
    }
    let value_end = json::skip_string(bytes, value + 1).ok()?;
    let end = json::skip_space(bytes, value_end);
    if bytes.get(end) != Some(&b'}') {
        return None;
    }
    // Some encoders write base64 with `\/`.
    let base64 = json::unquote(text.get(value..value_end)?)?;
    let mut attachment = Vec::new();
    payload::decode_base64(&base64, &mut attachment).ok()?;
    Some((attachment, end + 1))
}

/// Attachments on their way out. Each is given once, as encoders refer to it: what is written grows
/// with the parts of an event, not with the references to them.
pub(super) struct Unwritten<'a> {
    attachments: &'a [&'a [u8]],
    /// One bit each; the first 64 cost no allocation.
    given: u64,
    given_beyond: Vec<u64>,
}

impl<'a> Unwritten<'a> {
    pub(super) fn new(attachments: &'a [&'a [u8]]) -> Self {
        Self {
            attachments,
            given: 0,
            given_beyond: vec![0; attachments.len() / 64],
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.attachments.is_empty()
    }

    pub(super) fn take(&mut self, index: usize) -> Option<&'a [u8]> {
        let given = match index / 64 {
            0 => &mut self.given,
            beyond => self.given_beyond.get_mut(beyond - 1)?,
        };
        let bit = 1 << (index % 64);
        if *given & bit != 0 {
            return None;
        }
        *given |= bit;
        self.attachments.get(index).copied()
    }
}

/// Appends validated JSON, the bytes of `attachments` back in their places. A placeholder without
/// attachment, or with one that an earlier one had, becomes null.
pub(super) fn embed(out: &mut Vec<u8>, text: &str, attachments: &[&[u8]]) {
    let mut copied = 0;
    let mut unwritten = Unwritten::new(attachments);
    if !unwritten.is_empty() {
        for placeholder in socketio::placeholders(text).map_while(Result::ok) {
            out.extend_from_slice(&text.as_bytes()[copied..placeholder.range.start]);
            match unwritten.take(placeholder.index) {
                Some(attachment) => write_binary(out, attachment),
                None => out.extend_from_slice(b"null"),
            }
            copied = placeholder.range.end;
        }
    }
    out.extend_from_slice(&text.as_bytes()[copied..]);
}

fn write_binary(out: &mut Vec<u8>, attachment: &[u8]) {
    out.push(b'{');
    out.extend_from_slice(KEY.as_bytes());
    out.extend_from_slice(b":\"");
    payload::append_base64(out, attachment);
    out.extend_from_slice(b"\"}");
}
