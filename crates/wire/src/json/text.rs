//! JSON strings to text and back (RFC 8259 §7).

use super::syntax::find_special;
use std::borrow::Cow;

/// Text of a raw JSON string (with its quotes): borrowed when it has no escape; lone surrogates
/// become U+FFFD. `None` if `raw` is not a string.
pub fn unquote(raw: &str) -> Option<Cow<'_, str>> {
    read(raw, Some(char::REPLACEMENT_CHARACTER))
}

/// The same of a name: a lone surrogate makes it none, for two names with different ones would become one text.
pub fn unquote_name(raw: &str) -> Option<Cow<'_, str>> {
    read(raw, None)
}

/// `lone` stands for a surrogate without its other half.
fn read(raw: &str, lone: Option<char>) -> Option<Cow<'_, str>> {
    let bytes = raw.as_bytes();
    if bytes.first() != Some(&b'"') {
        return None;
    }
    let special = find_special(bytes, 1);
    match bytes.get(special) {
        Some(b'"') if special + 1 == raw.len() => raw.get(1..special).map(Cow::Borrowed),
        Some(b'\\') => unescape(raw, lone).map(Cow::Owned),
        _ => None,
    }
}

#[cold]
fn unescape(raw: &str, lone: Option<char>) -> Option<String> {
    let bytes = raw.as_bytes();
    let mut text = String::with_capacity(raw.len());
    let mut at = 1;
    loop {
        let special = find_special(bytes, at);
        text.push_str(raw.get(at..special)?);
        match bytes.get(special)? {
            b'"' if special + 1 == raw.len() => return Some(text),
            b'\\' => {
                let (character, behind) = escape(bytes, special + 1, lone)?;
                text.push(character);
                at = behind;
            }
            _ => return None,
        }
    }
}

/// The character of the escape whose letter is at `at`, and the index behind the escape.
fn escape(bytes: &[u8], at: usize, lone: Option<char>) -> Option<(char, usize)> {
    let character = match bytes.get(at)? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return unicode_escape(bytes, at + 1, lone),
        _ => return None,
    };
    Some((character, at + 1))
}

/// Four hex digits, and the low half behind them if they are the high half of a pair.
fn unicode_escape(bytes: &[u8], at: usize, lone: Option<char>) -> Option<(char, usize)> {
    let high = hex4(bytes, at)?;
    let behind = at + 4;
    if (0xd800..0xdc00).contains(&high) && bytes.get(behind..behind + 2) == Some(b"\\u") {
        let low = hex4(bytes, behind + 2)?;
        if (0xdc00..0xe000).contains(&low) {
            let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
            return Some((char::from_u32(code)?, behind + 6));
        }
    }
    Some((char::from_u32(high).or(lone)?, behind))
}

fn hex4(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.iter().try_fold(0, |code, &digit| {
        Some(code << 4 | char::from(digit).to_digit(16)?)
    })
}

/// Appends `text` as a JSON string with quotes, escaping what RFC 8259 demands and nothing else:
/// U+2028 and U+2029 stay raw, as JSON.stringify has them.
pub fn quote(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    let mut at = 0;
    loop {
        let special = find_special(bytes, at);
        out.extend_from_slice(&bytes[at..special]);
        let Some(&byte) = bytes.get(special) else {
            break;
        };
        push_escape(out, byte);
        at = special + 1;
    }
    out.push(b'"');
}

fn push_escape(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let letter = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x09 => b't',
        0x0a => b'n',
        0x0c => b'f',
        0x0d => b'r',
        _ => {
            let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 0xf)]];
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&digits);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', letter]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_read_with_all_their_escapes() {
        let cases = [
            (r#""""#, ""),
            (r#""abc""#, "abc"),
            (r#""a\"\\\/\b\f\n\r\tz""#, "a\"\\/\u{8}\u{c}\n\r\tz"),
            (r#""\u00e9\u20AC""#, "é€"),
            (r#""\ud83d\ude00!""#, "😀!"),
            (r#""\ud83d""#, "\u{fffd}"),
            (r#""\ud83dx""#, "\u{fffd}x"),
            (r#""\ude00\ud83d""#, "\u{fffd}\u{fffd}"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀"),
            (r#""\ud83d\u0041""#, "\u{fffd}A"),
            (r#""\u0000""#, "\0"),
        ];
        for (raw, expected) in cases {
            assert_eq!(unquote(raw).as_deref(), Some(expected), "{raw}");
            let name = Some(expected).filter(|name| !name.contains('\u{fffd}'));
            assert_eq!(unquote_name(raw).as_deref(), name, "{raw}");
        }
        // It is a character like any other, where it was said.
        for raw in ["\"\u{fffd}\"", r#""\ufffd""#] {
            assert_eq!(unquote_name(raw).as_deref(), Some("\u{fffd}"), "{raw}");
        }
        assert!(matches!(unquote(r#""abc""#), Some(Cow::Borrowed("abc"))));
    }

    #[test]
    fn other_text_is_no_string() {
        let bad = [
            "",
            "1",
            "abc",
            r#"""#,
            r#""a"#,
            r#""a"b"#,
            r#""a"b""#,
            r#""\"#,
            r#""\""#,
            r#""\x""#,
            r#""\u12""#,
            r#""\u+123""#,
            r#""\ud83d\u+123""#,
            "\"\n\"",
            r#""\n"x""#,
        ];
        for raw in bad {
            assert_eq!(unquote(raw), None, "{raw}");
            assert_eq!(unquote_name(raw), None, "{raw}");
        }
    }

    #[test]
    fn strings_are_written_as_json_stringify_does() {
        let cases = [
            ("", r#""""#),
            ("a\"\\/", r#""a\"\\/""#),
            ("\u{8}\t\n\u{c}\r", r#""\b\t\n\f\r""#),
            ("\0\u{1f}\u{1e}\u{b}", r#""\u0000\u001f\u001e\u000b""#),
            ("é\u{2028}\u{2029}\u{7f}😀", "\"é\u{2028}\u{2029}\u{7f}😀\""),
        ];
        for (text, expected) in cases {
            let mut out = Vec::new();
            quote(&mut out, text);
            assert_eq!(String::from_utf8_lossy(&out), expected);
            assert_eq!(unquote(expected).as_deref(), Some(text));
        }
    }
}
