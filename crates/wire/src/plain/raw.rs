//! Frames of WebSocket clients that speak no protocol of ours: each is the one argument of an event, text as a string, binary as
//! an attachment; and back.

use super::binary;
use crate::json;
use crate::socketio::{self, Placeholder};
use std::borrow::Cow;

/// The text for a client without a protocol: the content of one frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A text frame.
    Text(Cow<'a, str>),
    /// A binary frame.
    Binary(&'a [u8]),
}

/// Appends a text frame as the argument of an event.
pub fn write_text_argument(out: &mut Vec<u8>, text: &str) {
    json::quote(out, text);
}

/// Appends a binary frame as the argument of an event: the placeholder of its one attachment.
pub fn write_binary_argument(out: &mut Vec<u8>) {
    socketio::write_placeholder(out, 0);
}

/// The frame for an event. A single string is its text, a single attachment its bytes; any other argument is JSON text as the
/// plain protocol has it, several are a list, and none is an empty text.
pub fn frame<'a>(args: &'a str, attachments: &'a [Vec<u8>]) -> Frame<'a> {
    let mut elements = json::Elements::bare(args);
    let (first, second) = (elements.next(), elements.next());
    if let (Some(only), None) = (first, second) {
        if let Some(text) = json::unquote(only) {
            return Frame::Text(text);
        }
        if let Some(bytes) = sole_attachment(only, attachments) {
            return Frame::Binary(bytes);
        }
    }
    if attachments.is_empty() && second.is_none() {
        return Frame::Text(Cow::Borrowed(first.unwrap_or_default()));
    }
    let attachments: Vec<&[u8]> = attachments.iter().map(Vec::as_slice).collect();
    let mut text = Vec::with_capacity(args.len() + 2);
    let is_list = second.is_some();
    text.extend(is_list.then_some(b'['));
    binary::embed(&mut text, args, &attachments);
    text.extend(is_list.then_some(b']'));
    Frame::Text(Cow::Owned(String::from_utf8(text).unwrap_or_default()))
}

/// What the element stands for, if it is a placeholder and nothing else.
fn sole_attachment<'a>(element: &str, attachments: &'a [Vec<u8>]) -> Option<&'a [u8]> {
    if attachments.is_empty() {
        return None;
    }
    let Placeholder { index, range } = socketio::placeholders(element).next()?.ok()?;
    let whole = range == (0..element.len());
    attachments.get(index).filter(|_| whole).map(Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLE: &str = r#"{"_placeholder":true,"num":0}"#;

    fn text(text: &str) -> Frame<'_> {
        Frame::Text(Cow::Borrowed(text))
    }

    #[test]
    fn a_text_comes_back_as_it_was() {
        for said in [
            "",
            "x",
            "\"",
            "{\"a\":1}",
            "é\u{0}\n\u{2028}😀",
            HOLE,
            "\\ud800",
        ] {
            let mut args = Vec::new();
            write_text_argument(&mut args, said);
            let args = String::from_utf8(args).expect("UTF-8");
            assert_eq!(frame(&args, &[]), text(said));
        }
    }

    #[test]
    fn bytes_come_back_as_they_were() {
        let mut args = Vec::new();
        write_binary_argument(&mut args);
        let args = String::from_utf8(args).expect("UTF-8");
        for said in [&b""[..], b"\x00\xff", b"text"] {
            let attachments = [said.to_vec()];
            assert_eq!(frame(&args, &attachments), Frame::Binary(said));
        }
    }

    #[test]
    fn what_others_say_is_json_text() {
        let bytes = [vec![1]];
        let inside = format!("{{\"a\":{HOLE}}}");
        let two = format!("{HOLE},2");
        for (args, attachments, said) in [
            ("", &[][..], ""),
            ("7", &[], "7"),
            ("{\"a\":[1, 2]}", &[], "{\"a\":[1, 2]}"),
            ("1,\"b\"", &[], "[1,\"b\"]"),
            ("\"\\ud800\"", &[], "\u{fffd}"),
            (HOLE, &[], HOLE),
            (&inside, &bytes, "{\"a\":{\"_binary\":\"AQ==\"}}"),
            (&two, &bytes, "[{\"_binary\":\"AQ==\"},2]"),
        ] {
            assert_eq!(frame(args, attachments), text(said), "{args}");
        }
    }
}
