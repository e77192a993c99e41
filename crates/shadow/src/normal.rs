//! Named rules that make equal what two right servers never say alike: ids of sockets, times, random ids.

use serde_json::Value;
use std::collections::{BTreeSet, HashMap};

/// Numbers this close to now, in seconds or milliseconds since 1970, are times.
const DAY_S: f64 = 86_400.0;

/// A rule that can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Rule {
    /// Ids of sockets that were seen: each side has its own.
    Sockets,
    /// RFC 3339 texts, and numbers that are a time within a day of now.
    Times,
    /// UUIDs.
    Uuids,
}

impl Rule {
    pub const ALL: [Rule; 3] = [Rule::Sockets, Rule::Times, Rule::Uuids];
}

/// A part of an event's arguments that is not compared: `EVENT:0.id`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    event: String,
    path: Vec<String>,
}

impl std::str::FromStr for Ignored {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (event, path) = text
            .rsplit_once(':')
            .filter(|(event, path)| !event.is_empty() && !path.is_empty())
            .ok_or_else(|| format!("{text:?} is not EVENT:PATH, as in `order:0.id` for the member `id` of the first argument"))?;
        Ok(Self {
            event: event.to_owned(),
            path: path.split('.').map(str::to_owned).collect(),
        })
    }
}

#[derive(Debug, Default)]
pub struct Normal {
    rules: BTreeSet<Rule>,
    ignored: Vec<Ignored>,
    /// Events whose arrays have no order.
    unordered: BTreeSet<String>,
    /// Ids of sockets on both sides, and what stands for them.
    sockets: HashMap<String, String>,
}

impl Normal {
    pub fn new(
        rules: impl IntoIterator<Item = Rule>,
        ignored: Vec<Ignored>,
        unordered: Vec<String>,
    ) -> Self {
        Self {
            rules: rules.into_iter().collect(),
            ignored,
            unordered: unordered.into_iter().collect(),
            sockets: HashMap::new(),
        }
    }

    /// A side named a socket so.
    pub fn know(&mut self, id: &str, stands_for: String) {
        self.sockets.insert(id.to_owned(), stands_for);
    }

    pub fn forget(&mut self, id: &str) {
        self.sockets.remove(id);
    }

    /// `content`: an event's array, with its name first, or what else a packet carries.
    pub fn apply(&self, event: &str, mut content: Value, now_s: f64) -> Value {
        for ignored in self.ignored.iter().filter(|ignored| ignored.event == event) {
            let args = match &mut content {
                Value::Object(whole) => whole.get_mut("data"),
                other => Some(other),
            };
            if let Some(args) = args {
                hide(args, &ignored.path, true);
            }
        }
        let unordered = self.unordered.contains(event);
        match &mut content {
            // Arguments have an order, whatever their lists have.
            Value::Array(args) => args
                .iter_mut()
                .for_each(|arg| self.walk(arg, now_s, unordered)),
            other => self.walk(other, now_s, unordered),
        }
        content
    }

    fn walk(&self, value: &mut Value, now_s: f64, unordered: bool) {
        match value {
            Value::String(text) => {
                if let Some(stands_for) = self.stands_for(text) {
                    *text = stands_for;
                }
            }
            Value::Number(number) => {
                let number = number.as_f64().unwrap_or(0.0);
                let near = |seconds: f64| (seconds - now_s).abs() < DAY_S;
                if self.rules.contains(&Rule::Times) && (near(number) || near(number / 1_000.0)) {
                    *value = Value::from("<time>");
                }
            }
            Value::Array(items) => {
                items
                    .iter_mut()
                    .for_each(|item| self.walk(item, now_s, unordered));
                if unordered {
                    items.sort_by_cached_key(Value::to_string);
                }
            }
            Value::Object(members) => {
                let named = std::mem::take(members);
                for (name, mut member) in named {
                    self.walk(&mut member, now_s, unordered);
                    members.insert(self.stands_for(&name).unwrap_or(name), member);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn stands_for(&self, text: &str) -> Option<String> {
        if self.rules.contains(&Rule::Sockets)
            && let Some(known) = self.sockets.get(text)
        {
            return Some(known.clone());
        }
        if self.rules.contains(&Rule::Uuids) && is_uuid(text) {
            return Some("<uuid>".to_owned());
        }
        (self.rules.contains(&Rule::Times) && is_time(text)).then(|| "<time>".to_owned())
    }
}

/// `first`: the name of the event stands before its arguments.
fn hide(value: &mut Value, path: &[String], first: bool) {
    let Some((step, rest)) = path.split_first() else {
        *value = Value::from("<ignored>");
        return;
    };
    let next = match value {
        Value::Array(items) => {
            let at = step.parse::<usize>().ok();
            at.and_then(|at| items.get_mut(at + usize::from(first)))
        }
        Value::Object(members) => members.get_mut(step),
        _ => None,
    };
    if let Some(next) = next {
        hide(next, rest, false);
    }
}

fn is_uuid(text: &str) -> bool {
    let is_right = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.bytes().enumerate().all(is_right)
}

/// `2026-01-31T12:00:00`, with whatever follows.
fn is_time(text: &str) -> bool {
    let fits = |(at, byte): (usize, u8)| match at {
        4 | 7 => byte == b'-',
        10 => byte == b'T' || byte == b' ',
        13 | 16 => byte == b':',
        _ => byte.is_ascii_digit(),
    };
    let rest_fits = |rest: &str| {
        rest.bytes()
            .all(|byte| byte.is_ascii_digit() || b".+:-Z".contains(&byte))
    };
    text.len() >= 19
        && text.is_char_boundary(19)
        && text[..19].bytes().enumerate().all(fits)
        && rest_fits(&text[19..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOW_S: f64 = 1_790_000_000.0;

    fn normal(ignored: &[&str], unordered: &[&str]) -> Normal {
        let ignored = ignored.iter().map(|text| text.parse().expect("a path"));
        let unordered = unordered.iter().map(|name| (*name).to_owned());
        let mut normal = Normal::new(Rule::ALL, ignored.collect(), unordered.collect());
        normal.know("real-1", "<socket 1>".to_owned());
        normal.know("own-1", "<socket 1>".to_owned());
        normal
    }

    #[test]
    fn two_right_servers_say_the_same() {
        let normal = normal(&[], &[]);
        let real = json!(["m", { "from": "real-1", "at": 1_790_000_000_123_u64, "id": "6ba7b810-9dad-11d1-80b4-00c04fd430c8" }, { "real-1": 1 }]);
        let own = json!(["m", { "from": "own-1", "at": 1_790_000_000_456_u64, "id": "6ba7b811-9dad-11d1-80b4-00c04fd430c8" }, { "own-1": 1 }]);
        assert_eq!(
            normal.apply("m", real, NOW_S),
            normal.apply("m", own, NOW_S)
        );
    }

    #[test]
    fn what_only_looks_alike_is_another_value() {
        let normal = normal(&[], &[]);
        for (one, other) in [
            (json!(["m", 1]), json!(["m", 2])),
            (json!(["m", 1]), json!(["m", "1"])),
            (json!(["m", "real-2"]), json!(["m", "own-2"])),
            (json!(["m", 1_790_000_000]), json!(["m", 1_690_000_000])),
            (json!(["m", "2026-13"]), json!(["m", "2026-14"])),
            (json!(["m", [1, 2]]), json!(["m", [2, 1]])),
            (json!(["m", null]), json!(["m"])),
        ] {
            assert_ne!(
                normal.apply("m", one, NOW_S),
                normal.apply("m", other, NOW_S)
            );
        }
    }

    #[test]
    fn parts_are_ignored_and_lists_have_no_order_where_that_is_said() {
        let normal = normal(&["m:0.id", "a:b:1"], &["who"]);
        let of = |event: &str, content| normal.apply(event, content, NOW_S);
        assert_eq!(
            of("m", json!(["m", { "id": 1, "x": 2 }])),
            of("m", json!(["m", { "id": 9, "x": 2 }]))
        );
        assert_ne!(
            of("m", json!(["m", { "id": 1, "x": 2 }])),
            of("m", json!(["m", { "id": 1, "x": 3 }]))
        );
        assert_eq!(
            of("a:b", json!(["a:b", 1, 2])),
            of("a:b", json!(["a:b", 1, 3]))
        );
        assert_eq!(
            of("who", json!(["who", ["a", "b"]])),
            of("who", json!(["who", ["b", "a"]]))
        );
        assert_ne!(
            of("who", json!(["who", 1, 2])),
            of("who", json!(["who", 2, 1]))
        );
        assert!("nothing".parse::<Ignored>().is_err());
        assert!(":0".parse::<Ignored>().is_err());
    }
}
