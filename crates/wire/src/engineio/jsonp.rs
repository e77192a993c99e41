//! JSONP of protocol 3: a poll is answered by a script, and packets come as a form.

use crate::http;
use crate::json;
use std::borrow::Cow;

/// The function of a page that a script calls: `___eio[7]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Callback(u32);

impl Callback {
    /// From the parameter `j`. It goes into a script, so nothing but a number is taken from it; what is none is 0.
    pub fn parse(j: &str) -> Self {
        Self(j.parse().unwrap_or(0))
    }

    /// Appends the script that hands a text payload to the page.
    pub fn write(self, out: &mut Vec<u8>, payload: &str) {
        let mut quoted = Vec::with_capacity(payload.len() + 2);
        json::quote(&mut quoted, payload);
        out.extend_from_slice(b"___eio[");
        out.extend_from_slice(itoa::Buffer::new().format(self.0).as_bytes());
        out.extend_from_slice(b"](");
        // Two characters that end a line in scripts of old browsers, and not in JSON.
        let mut rest = quoted.as_slice();
        while let Some(at) = memchr::memmem::find(rest, b"\xe2\x80") {
            let (before, behind) = rest.split_at(at);
            out.extend_from_slice(before);
            let (escaped, used): (&[u8], _) = match behind.get(2) {
                Some(0xa8) => (b"\\u2028", 3),
                Some(0xa9) => (b"\\u2029", 3),
                _ => (b"\xe2\x80", 2),
            };
            out.extend_from_slice(escaped);
            rest = &behind[used..];
        }
        out.extend_from_slice(rest);
        out.extend_from_slice(b");");
    }
}

/// Bytes that a form may have whose payload has at most so many: each of them may come as `%xx`, behind `d=`.
pub fn form_bytes_max(payload_bytes_max: usize) -> usize {
    payload_bytes_max.saturating_mul(3).saturating_add(2)
}

/// The payload in the field `d` of a form. `None`: not UTF-8, or no such field.
pub fn read_form(body: &[u8]) -> Option<String> {
    let body = simdutf8::basic::from_utf8(body).ok()?;
    let mut pairs = http::query_pairs(body);
    let (_, payload) = pairs.find(|(name, _)| name == "d")?;
    Some(restore_line_ends(payload))
}

/// Clients write a line end as `\n`, so that forms do not change it, and what looked like that before as `\\n`.
fn restore_line_ends(text: Cow<'_, str>) -> String {
    if !text.contains("\\n") {
        return text.into_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = &*text;
    while let Some(at) = rest.find("\\n") {
        let before = &rest[..at];
        match before.strip_suffix('\\') {
            Some(before) => {
                out.push_str(before);
                out.push_str("\\n");
            }
            None => {
                out.push_str(before);
                out.push('\n');
            }
        }
        rest = &rest[at + 2..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_calls_the_function_of_the_page_and_nothing_else() {
        for (j, payload, script) in [
            ("0", "2:4a", r#"___eio[0]("2:4a");"#),
            ("17", "4:4\"\\n", r#"___eio[17]("4:4\"\\n");"#),
            ("alert(1)", "", r#"___eio[0]("");"#),
            ("1];alert(1)//", "\n", r#"___eio[0]("\n");"#),
            ("99999999999999", "1:2", r#"___eio[0]("1:2");"#),
            (
                "1",
                "a\u{2028}b\u{2029}\u{2026}ü",
                "___eio[1](\"a\\u2028b\\u2029\u{2026}ü\");",
            ),
        ] {
            let mut out = Vec::new();
            Callback::parse(j).write(&mut out, payload);
            assert_eq!(String::from_utf8_lossy(&out), script, "{j} {payload:?}");
        }
    }

    #[test]
    fn forms_give_back_what_the_client_put_in() {
        for (body, payload) in [
            ("d=2%3A4a", Some("2:4a")),
            ("x=1&d=2:4a&d=2:4b", Some("2:4a")),
            ("d=", Some("")),
            ("", None),
            ("e=1", None),
            ("d=a%5Cnb", Some("a\nb")),
            ("d=a%5C%5Cnb", Some("a\\nb")),
            ("d=a%5C%5C%5Cnb%5C", Some("a\\\\nb\\")),
            ("d=%F0%9F%98%80+x", Some("😀 x")),
        ] {
            assert_eq!(read_form(body.as_bytes()).as_deref(), payload, "{body}");
        }
        assert_eq!(read_form(b"d=\xff"), None);
        assert_eq!(form_bytes_max(10), 32);
        assert_eq!(form_bytes_max(usize::MAX), usize::MAX);
    }
}
