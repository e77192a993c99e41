//! The two things that a client shows when it comes back, in the payload of its CONNECT: `pid` and `offset`. They are taken out before
//! anybody else looks at the payload: the `pid` is a secret, and a schema knows neither.

use crate::recovery::exchange::Comer;
use crate::recovery::pid::{self, Pid};
use crate::tables::position::Position;
use std::borrow::Cow;
use wire::json;

/// The `pid` and offset that a client shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    /// `None`: it shows none of ours.
    pub(crate) pid: Option<Pid>,
    /// `None`: it has no place, or none of ours.
    pub(crate) offset: Option<Position>,
    /// Its place in the stream that all nodes read, if its offset names one.
    pub(crate) number: Option<u64>,
}

impl Shown {
    /// The client that shows it, with the user of its token.
    pub(crate) fn comer<'a>(&self, uid: Option<&'a str>) -> Option<Comer<'a>> {
        let (pid, offset, number) = (self.pid?, self.offset, self.number);
        Some(Comer {
            pid,
            offset,
            number,
            uid,
        })
    }
}

/// The payload without `pid` and `offset`, and what they say; `None`: it has no `pid`. A `pid` that is no string is a field of the
/// application: it stays, and so does the `offset`.
pub(crate) fn take_out(payload: &str) -> (Cow<'_, str>, Option<Shown>) {
    // A payload without a `pid` is not copied, so the first walk only looks for one.
    let mut shown = None;
    for (key, value) in json::members(payload) {
        if is(key, "pid") {
            shown = text(value).map(|text| Pid::read(&text));
        }
    }
    let Some(pid) = shown else {
        return (Cow::Borrowed(payload), None);
    };
    let mut offset = None;
    let mut rest = String::from("{");
    for (key, value) in json::members(payload) {
        if is(key, "offset") {
            offset = text(value).and_then(|text| pid::read_offset(&text));
        } else if !is(key, "pid") {
            // Each repeated `pid` goes, in whatever spelling: any of them may be a secret.
            if rest.len() > 1 {
                rest.push(',');
            }
            rest.extend([key.trim(), ":", value.trim()]);
        }
    }
    rest.push('}');
    let shown = Shown {
        pid,
        offset: offset.map(|(at, _)| at),
        number: offset.and_then(|(_, number)| number),
    };
    (Cow::Owned(rest), Some(shown))
}

fn is(key: &str, name: &str) -> bool {
    json::unquote(key.trim()).is_some_and(|key| key == name)
}

fn text(value: &str) -> Option<Cow<'_, str>> {
    let value = value.trim();
    value.starts_with('"').then(|| json::unquote(value))?
}

#[cfg(test)]
mod tests {
    use super::*;

    const PID: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    const OFFSET: &str = "AAAAAAABAAAAAAAC";

    fn taken(payload: &str) -> (String, Option<Shown>) {
        let (rest, shown) = take_out(payload);
        (rest.into_owned(), shown)
    }

    #[test]
    fn pid_and_offset_leave_and_all_else_stays() {
        let payload =
            format!(r#"{{"a":{{"pid":"x"}},"pid":"{PID}","t":"a\",b","offset":"{OFFSET}"}}"#);
        let (rest, shown) = taken(&payload);
        assert_eq!(rest, r#"{"a":{"pid":"x"},"t":"a\",b"}"#);
        let shown = shown.expect("a pid");
        assert_eq!(shown.pid, Pid::read(PID));
        let at = Position { log: 1, offset: 2 };
        assert_eq!(shown.offset, Some(at));
        let (rest, shown) = taken(&format!(r#"{{ "pid" : "{PID}" }}"#));
        assert_eq!(rest, "{}");
        assert_eq!(shown.and_then(|shown| shown.offset), None);
    }

    /// The keys of an object may be written in many ways, and of repeated ones the last counts.
    #[test]
    fn no_spelling_leaves_a_secret_behind() {
        let other = "B".repeat(28);
        let payload = format!(r#"{{"\u0070id":"{other}","pid":"{PID}","o\u0066fset":"{OFFSET}"}}"#);
        let (rest, shown) = taken(&payload);
        assert_eq!(rest, "{}");
        let shown = shown.expect("a pid");
        assert_eq!((shown.pid, shown.offset.is_some()), (Pid::read(PID), true));
    }

    #[test]
    fn what_is_strange_is_no_pid_of_ours() {
        for payload in [
            r#"{"pid":"of another server","offset":"x"}"#,
            r#"{"pid":""}"#,
        ] {
            let (rest, shown) = taken(payload);
            assert_eq!((&*rest, shown), ("{}", Some(Shown::default())), "{payload}");
        }
        for payload in [
            "{}",
            r#"{"pid":7,"offset":"mine"}"#,
            r#"{"offset":"mine"}"#,
            r#"{"pid":null}"#,
            "[]",
            "",
        ] {
            assert_eq!(taken(payload), (payload.to_owned(), None), "{payload}");
        }
    }
}
