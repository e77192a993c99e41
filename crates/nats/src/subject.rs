//! Subjects: the pattern that events are published by, and what may be read.

use bridge::{Fault, Kind};

/// Servers take lines of 4,096 bytes, with more than the subject in them.
const BYTES_MAX: usize = 1_024;
const NAMESPACE: &str = "{namespace}";
const NAME: &str = "{name}";

/// Subjects of events: tokens with dots between them, two of which may stand for something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    tokens: Vec<String>,
}

impl Pattern {
    /// `sockeye.{namespace}.{name}`: the two in braces stand for the event's namespace and its name.
    ///
    /// # Errors
    /// No server takes such a subject.
    pub fn new(text: &str) -> Result<Self, Fault> {
        let tokens: Vec<String> = text.split('.').map(str::to_owned).collect();
        let fits = |token: &String| is_token(token) && !token.contains(['*', '>']);
        let braces = |token: &&String| token.contains(['{', '}']);
        let known = |token: &String| token == NAMESPACE || token == NAME;
        if !tokens.iter().all(fits) || text.starts_with('$') || text.len() > BYTES_MAX {
            return Err(wrong(
                text,
                "it is tokens with dots between them, without spaces, `*` and `>`, and begins with no `$`",
            ));
        }
        if !tokens.iter().filter(braces).all(known) {
            return Err(wrong(text, "only {namespace} and {name} stand in braces"));
        }
        Ok(Self { tokens })
    }

    /// Of an event.
    ///
    /// # Errors
    /// It is too long.
    pub(crate) fn subject(&self, namespace: &str, name: &str) -> Result<String, Fault> {
        let mut subject = String::new();
        for (at, token) in self.tokens.iter().enumerate() {
            if at > 0 {
                subject.push('.');
            }
            match token.as_str() {
                NAMESPACE => push(
                    &mut subject,
                    namespace.strip_prefix('/').unwrap_or(namespace),
                ),
                NAME => push(&mut subject, name),
                _ => subject.push_str(token),
            }
        }
        if subject.len() > BYTES_MAX {
            let text = format!(
                "the subject of the event has {} bytes, at most {BYTES_MAX} are allowed",
                subject.len()
            );
            return Err(Fault::new(Kind::Refused, text));
        }
        Ok(subject)
    }

    /// All subjects that it makes.
    pub fn wildcard(&self) -> String {
        let tokens = self.tokens.iter().map(|token| match token.as_str() {
            NAMESPACE | NAME => "*",
            token => token,
        });
        tokens.collect::<Vec<_>>().join(".")
    }
}

fn wrong(text: &str, why: &str) -> Fault {
    Fault::new(
        Kind::Settings,
        format!("cannot use the subject {text:?}: {why}"),
    )
}

/// No token can be empty, so `_` stands for nothing, and is itself written otherwise.
fn push(subject: &mut String, text: &str) {
    match text {
        "" => subject.push('_'),
        "_" => subject.push_str("%5F"),
        _ => {
            for byte in text.bytes() {
                match byte {
                    b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => {
                        subject.push(char::from(byte));
                    }
                    _ => subject.push_str(&format!("%{byte:02X}")),
                }
            }
        }
    }
}

fn is_token(token: &str) -> bool {
    !token.is_empty() && !token.contains(|c: char| c.is_whitespace() || c.is_control())
}

/// The subject that is read, `*` and `>` included.
pub(crate) fn readable(text: &str) -> Result<&str, Fault> {
    let tokens: Vec<&str> = text.split('.').collect();
    let fits = |(at, token): (usize, &&str)| match *token {
        "*" => true,
        ">" => at + 1 == tokens.len(),
        token => is_token(token) && !token.contains(['*', '>']),
    };
    if text.starts_with('$') || text.len() > BYTES_MAX || !tokens.iter().enumerate().all(fits) {
        return Err(wrong(
            text,
            "it is tokens with dots between them, without spaces; `*` stands for a token, `>` at the end for all that follow; it begins with no `$`",
        ));
    }
    Ok(text)
}

/// One to which something is written.
pub(crate) fn writable(text: &str) -> Result<&str, Fault> {
    readable(text)?;
    match text.contains(['*', '>']) {
        true => Err(wrong(
            text,
            "nothing can be written to many subjects: leave `*` and `>` out",
        )),
        false => Ok(text),
    }
}

/// Whether a subject fits both.
pub fn overlap(one: &str, other: &str) -> bool {
    let (mut one, mut other) = (one.split('.'), other.split('.'));
    loop {
        match (one.next(), other.next()) {
            (None, None) => return true,
            (Some(">"), Some(_)) | (Some(_), Some(">")) => return true,
            (Some(a), Some(b)) if a == b || a == "*" || b == "*" => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_a_subject_of_its_own() {
        let pattern = Pattern::new("sockeye.{namespace}.{name}").expect("a pattern");
        let subject = |namespace, name| pattern.subject(namespace, name).expect("a subject");
        assert_eq!(subject("/", "chat"), "sockeye._.chat");
        assert_eq!(subject("/chat/a", "x.y z"), "sockeye.chat%2Fa.x%2Ey%20z");
        assert_eq!(subject("/_", ""), "sockeye.%5F._");
        assert_eq!(subject("/%", "*>ä"), "sockeye.%25.%2A%3E%C3%A4");
        assert_eq!(pattern.wildcard(), "sockeye.*.*");
        let long = "x".repeat(BYTES_MAX);
        let fault = pattern.subject("/", &long).expect_err("too long");
        assert_eq!(fault.kind(), Kind::Refused);
    }

    #[test]
    fn patterns_and_subjects_are_those_of_the_servers() {
        for text in ["events", "a.{name}.b", "{namespace}"] {
            assert!(Pattern::new(text).is_ok(), "{text}");
        }
        for text in [
            "",
            "a..b",
            "a b",
            "a.*",
            "a.>",
            "$JS.x",
            "a.{user}",
            "a.x{name}",
            "a\n",
        ] {
            assert!(Pattern::new(text).is_err(), "{text:?}");
        }
        for text in ["commands", "commands.*", "commands.>", "*.a"] {
            assert!(readable(text).is_ok(), "{text}");
        }
        for text in ["", ">.a", "a*", "a. b", "$SYS.>"] {
            assert!(readable(text).is_err(), "{text:?}");
        }
        assert!(writable("dead").is_ok() && writable("dead.*").is_err());
    }

    #[test]
    fn subjects_overlap_where_one_fits_both() {
        let yes = [
            ("a.b", "a.b"),
            ("a.*", "*.b"),
            ("a.>", "a.b.c"),
            (">", "a"),
            ("a.*.c", "a.>"),
        ];
        let no = [
            ("a", "b"),
            ("a", "a.b"),
            ("a.>", "a"),
            ("a.*", "a.b.c"),
            ("a.*.c", "a.b.d"),
        ];
        for (one, other) in yes {
            assert!(overlap(one, other) && overlap(other, one), "{one} {other}");
        }
        for (one, other) in no {
            assert!(
                !overlap(one, other) && !overlap(other, one),
                "{one} {other}"
            );
        }
    }
}
