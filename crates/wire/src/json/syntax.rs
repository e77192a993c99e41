//! Syntax check (RFC 8259), and with it the length of a value.
//! Takes what `JSON.parse` takes, lone surrogate escapes and huge numbers included. Bytes above
//! 0x7F are not judged: UTF-8 is checked once per message, before.
//! HOT PATH: no allocation, no recursion.

use crate::bounds::DEPTH_MAX;

// One bit per open container must fit.
const _: () = assert!(DEPTH_MAX <= u128::BITS as usize);

/// Why a text is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// Not JSON, or cut short.
    Syntax,
    /// More than [`DEPTH_MAX`] containers inside each other.
    TooDeep,
}

/// Checks that the whole text is exactly one value, white space around it allowed.
///
/// # Errors
/// [`Error`] at the first fault.
pub fn validate(text: &[u8]) -> Result<(), Error> {
    let end = skip_value(text, 0)?;
    if skip_space(text, end) == text.len() {
        Ok(())
    } else {
        Err(Error::Syntax)
    }
}

/// The text, if it is what may stand between the brackets of an array: values separated by commas, or nothing.
pub fn read_elements(list: &[u8]) -> Option<&str> {
    let text = simdutf8::basic::from_utf8(list).ok()?;
    validate_elements(list).is_ok().then_some(text)
}

fn validate_elements(list: &[u8]) -> Result<(), Error> {
    let mut at = skip_space(list, 0);
    if at == list.len() {
        return Ok(());
    }
    loop {
        // The brackets count.
        let end = skip_nested::<{ DEPTH_MAX - 1 }>(list, at)?;
        at = skip_space(list, end);
        match list.get(at) {
            None => return Ok(()),
            Some(b',') => at += 1,
            Some(_) => return Err(Error::Syntax),
        }
    }
}

/// Open containers: the lowest bit is the innermost one, set for an object.
#[derive(Default)]
struct Nesting<const DEPTH: usize> {
    objects: u128,
    depth: usize,
}

impl<const DEPTH: usize> Nesting<DEPTH> {
    #[inline]
    fn open(&mut self, is_object: bool) -> Result<(), Error> {
        if self.depth == DEPTH {
            return Err(Error::TooDeep);
        }
        self.depth += 1;
        self.objects = self.objects << 1 | u128::from(is_object);
        Ok(())
    }

    #[inline]
    fn close(&mut self) {
        self.depth -= 1;
        self.objects >>= 1;
    }

    #[inline]
    fn in_object(&self) -> bool {
        self.objects & 1 == 1
    }
}

/// Checks the value at `text[at..]`, white space in front of it allowed, and returns the index just
/// behind it. Linear time, no recursion.
///
/// # Errors
/// [`Error`] at the first fault; what follows the value is not looked at.
pub fn skip_value(text: &[u8], at: usize) -> Result<usize, Error> {
    skip_nested::<DEPTH_MAX>(text, at)
}

/// The same for a value of an object's member.
pub(super) fn skip_member(text: &[u8], at: usize) -> Result<usize, Error> {
    skip_nested::<{ DEPTH_MAX - 1 }>(text, at)
}

#[inline]
fn skip_nested<const DEPTH: usize>(text: &[u8], at: usize) -> Result<usize, Error> {
    let mut nesting = Nesting::<DEPTH>::default();
    let mut at = skip_space(text, at);
    loop {
        let Some(&first) = text.get(at) else {
            return Err(Error::Syntax);
        };
        at = match first {
            b'"' => skip_string(text, at + 1)?,
            b'-' | b'0'..=b'9' => skip_number(text, at)?,
            b'{' => {
                nesting.open(true)?;
                at = skip_space(text, at + 1);
                if text.get(at) != Some(&b'}') {
                    at = skip_key(text, at)?;
                    continue;
                }
                nesting.close();
                at + 1
            }
            b'[' => {
                nesting.open(false)?;
                at = skip_space(text, at + 1);
                if text.get(at) != Some(&b']') {
                    continue;
                }
                nesting.close();
                at + 1
            }
            _ => skip_word(text, at)?,
        };
        match behind_value(text, at, &mut nesting)? {
            Next::Value(next) => at = next,
            Next::End(end) => return Ok(end),
        }
    }
}

enum Next {
    /// Another value begins here.
    Value(usize),
    /// The outermost value ended just before here.
    End(usize),
}

/// Closes containers until a comma announces another value or everything is closed.
#[inline]
fn behind_value<const DEPTH: usize>(
    text: &[u8],
    mut at: usize,
    nesting: &mut Nesting<DEPTH>,
) -> Result<Next, Error> {
    while nesting.depth > 0 {
        at = skip_space(text, at);
        match (text.get(at), nesting.in_object()) {
            (Some(b','), false) => return Ok(Next::Value(skip_space(text, at + 1))),
            (Some(b','), true) => {
                let key = skip_space(text, at + 1);
                return Ok(Next::Value(skip_key(text, key)?));
            }
            (Some(b'}'), true) | (Some(b']'), false) => nesting.close(),
            _ => return Err(Error::Syntax),
        }
        at += 1;
    }
    Ok(Next::End(at))
}

/// Index of the first byte at or behind `at` that is not JSON white space.
#[inline]
pub fn skip_space(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\n' | b'\r') = text.get(at) {
        at += 1;
    }
    at
}

/// Key, colon and white space: from the opening quote to the first byte of the value.
#[inline]
fn skip_key(text: &[u8], at: usize) -> Result<usize, Error> {
    if text.get(at) != Some(&b'"') {
        return Err(Error::Syntax);
    }
    let colon = skip_space(text, skip_string(text, at + 1)?);
    if text.get(colon) != Some(&b':') {
        return Err(Error::Syntax);
    }
    Ok(skip_space(text, colon + 1))
}

/// From behind the opening quote to behind the closing one.
#[inline]
pub(crate) fn skip_string(text: &[u8], mut at: usize) -> Result<usize, Error> {
    loop {
        at = find_special(text, at);
        match text.get(at) {
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => at = skip_escape(text, at + 1)?,
            _ => return Err(Error::Syntax),
        }
    }
}

/// Bytes of a text that are looked at together.
const STRIDE: usize = 32;

/// Index of the first quote, backslash or control character at or behind `at`; the length of `text`
/// if there is none.
#[inline]
pub(crate) fn find_special(text: &[u8], mut at: usize) -> usize {
    const LOW: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    // Long texts in strides, which the compiler turns into vectors: most strings have no such byte for long.
    while let Some(stride) = text.get(at..).and_then(|rest| rest.first_chunk::<STRIDE>()) {
        let special = |byte: &u8| u8::from((*byte < 0x20) | (*byte == b'"') | (*byte == b'\\'));
        if stride.iter().map(special).fold(0, |any, one| any | one) != 0 {
            break;
        }
        at += STRIDE;
    }
    // Eight bytes at once. `(x - n) & !x & HIGH` marks bytes of `x` below `n`; a borrow can only
    // spoil bytes above the first marked one, and only the first is asked for.
    while let Some(chunk) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*chunk);
        let quote = word ^ (LOW * u64::from(b'"'));
        let backslash = word ^ (LOW * u64::from(b'\\'));
        let below = |x: u64, n: u64| x.wrapping_sub(LOW * n) & !x;
        let found = (below(word, 0x20) | below(quote, 1) | below(backslash, 1)) & HIGH;
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while let Some(&byte) = text.get(at) {
        if byte < 0x20 || byte == b'"' || byte == b'\\' {
            break;
        }
        at += 1;
    }
    at
}

/// From behind the backslash to behind the escape.
fn skip_escape(text: &[u8], at: usize) -> Result<usize, Error> {
    match text.get(at) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 1),
        Some(b'u') => match text.get(at + 1..at + 5) {
            Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => Ok(at + 5),
            _ => Err(Error::Syntax),
        },
        _ => Err(Error::Syntax),
    }
}

#[inline]
fn skip_number(text: &[u8], mut at: usize) -> Result<usize, Error> {
    if text.get(at) == Some(&b'-') {
        at += 1;
    }
    // RFC 8259 §6: no leading zeros.
    at = if text.get(at) == Some(&b'0') {
        at + 1
    } else {
        skip_digits(text, at)?
    };
    if text.get(at) == Some(&b'.') {
        at = skip_digits(text, at + 1)?;
    }
    if let Some(b'e' | b'E') = text.get(at) {
        let sign = usize::from(matches!(text.get(at + 1), Some(b'+' | b'-')));
        at = skip_digits(text, at + 1 + sign)?;
    }
    Ok(at)
}

/// At least one digit.
#[inline]
fn skip_digits(text: &[u8], start: usize) -> Result<usize, Error> {
    let mut at = start;
    while let Some(b'0'..=b'9') = text.get(at) {
        at += 1;
    }
    if at > start {
        Ok(at)
    } else {
        Err(Error::Syntax)
    }
}

#[inline]
fn skip_word(text: &[u8], at: usize) -> Result<usize, Error> {
    let rest = text.get(at..).unwrap_or_default();
    for word in [b"true".as_slice(), b"false", b"null"] {
        if rest.starts_with(word) {
            return Ok(at + word.len());
        }
    }
    Err(Error::Syntax)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_json_parse_takes_is_taken() {
        let deep = format!("{}1{}", "[".repeat(DEPTH_MAX), "]".repeat(DEPTH_MAX));
        let good = [
            "0",
            "-0",
            "1.5e+10",
            "1E9",
            "-12.0e-3",
            "1e999",
            "123456789012345678901234567890",
            "true",
            "false",
            "null",
            r#""""#,
            r#""a\"b\\\/\b\f\n\r\t""#,
            r#""\ud800""#,
            r#""\u00fF""#,
            "\"\u{2028}\u{7f}\u{10ffff}\"",
            "[]",
            "[ ]",
            "{}",
            "{ }",
            " [1 , 2 ] \t\r\n",
            r#"{"a":{"b":[{}]},"":null}"#,
            r#"{ "a" : 1 , "a" : 2 }"#,
            r#"[[],{},"",0]"#,
            &deep,
        ];
        for text in good {
            assert_eq!(validate(text.as_bytes()), Ok(()), "{text}");
            let behind = format!("{text}]");
            assert_eq!(
                skip_value(behind.as_bytes(), 0).map(|end| &text[..end]),
                Ok(text.trim_end())
            );
        }
    }

    #[test]
    fn what_json_parse_refuses_is_refused() {
        let bad = [
            "",
            " ",
            "01",
            "-",
            "+1",
            ".5",
            "1.",
            "1.e1",
            "1e",
            "1e+",
            "0x1",
            "NaN",
            "tru",
            "nul",
            "True",
            "'a'",
            r#"""#,
            r#""a"#,
            r#""\"#,
            r#""\x""#,
            r#""\u12g4""#,
            r#""\u123"#,
            "\"\n\"",
            "\"\u{1f}\"",
            "\"\0\"",
            "[",
            "]",
            "[1",
            "[1,",
            "[1,]",
            "[,1]",
            "[1 2]",
            "[1}",
            r#"{"a":1]"#,
            r#"[{"a":1]]"#,
            "[}",
            "{",
            "{]",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1,}"#,
            r#"{"a" 1}"#,
            "{1:2}",
            "{a:1}",
            r#"{,"a":1}"#,
            "1 2",
            "[]]",
            "{}}",
            "[1]x",
            "/**/1",
            "\u{feff}1",
            "\u{a0}1",
            "\u{b}1",
        ];
        for text in bad {
            assert_eq!(validate(text.as_bytes()), Err(Error::Syntax), "{text}");
        }
    }

    #[test]
    fn elements_are_judged_as_the_array_of_them() {
        let deep = "[".repeat(DEPTH_MAX - 1) + &"]".repeat(DEPTH_MAX - 1);
        let lists = [
            "",
            " ",
            "1",
            " 1 , \"a\"\t,[2,{}] ",
            "1,",
            ",1",
            ",",
            "1,,2",
            "1 2",
            "1]",
            "[1",
            "1],[2",
            "]",
            "}",
            "{\"a\":1},null",
            "{\"a\":1",
            "\"a",
            "tru",
            &deep,
            &format!("1,[{deep}]"),
            &format!("1,{deep}"),
        ];
        for list in lists {
            let array = validate(format!("[{list}]").as_bytes());
            let read = read_elements(list.as_bytes());
            assert_eq!(read.is_some(), array.is_ok(), "{list}");
            assert!(read.is_none_or(|read| read == list));
        }
    }

    #[test]
    fn elements_that_are_no_text_are_none() {
        assert_eq!(read_elements(b"\"\xff\""), None);
        assert_eq!(read_elements("\"é\"".as_bytes()), Some("\"é\""));
    }

    #[test]
    fn nesting_ends_at_the_limit_not_on_the_stack() {
        let count = 100_000;
        for open in ["[", "{\"\":", "[{\"a\":"] {
            assert_eq!(
                validate(open.repeat(count).as_bytes()),
                Err(Error::TooDeep),
                "{open}"
            );
        }
        let one_more = "[".repeat(DEPTH_MAX + 1) + &"]".repeat(DEPTH_MAX + 1);
        assert_eq!(validate(one_more.as_bytes()), Err(Error::TooDeep));
        // Siblings do not add up.
        let wide = format!("[{}[]]", "[[]],".repeat(count));
        assert_eq!(validate(wide.as_bytes()), Ok(()));
    }

    #[test]
    fn special_bytes_are_found_at_every_place_of_a_word() {
        for len in 0..80 {
            let mut text = vec![0xe9; len];
            assert_eq!(find_special(&text, 0), len);
            for at in 0..len {
                for special in [b'"', b'\\', 0, 0x1f] {
                    text[at] = special;
                    assert_eq!(find_special(&text, 0), at, "{special:02x} at {at} of {len}");
                    assert_eq!(find_special(&text, at + 1), len);
                }
                for plain in [b' ', b'!', b'#', b'[', b']', 0x7f, 0x80, 0xff] {
                    text[at] = plain;
                    assert_eq!(find_special(&text, 0), len, "{plain:02x} at {at} of {len}");
                }
            }
        }
    }
}
