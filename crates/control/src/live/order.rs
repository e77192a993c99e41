//! What is to be followed, and for how long: as an operator asks for it, and as one node asks another.

use crate::api::http::Query;
use crate::api::problem::{Kind, Problem};
use aws_lc_rs::rand;
use hub::{LiveTrace, Marks, Subject, TraceBounds};
use identity::keys::{Caller, Scope};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wire::base64url::Id20;

/// Longer traces are begun again. Spec and operators' listener end none before.
pub(super) const SECONDS_MAX: u64 = 600;
const SECONDS: u64 = 300;
const LINES_MAX: u32 = 1_000;
const LINES: u32 = 200;
const REASON_CHARS_MAX: usize = 200;
const NAME_BYTES_MAX: usize = 1_024;
/// Their names in queries and on the wire.
const SUBJECTS: [&str; 5] = ["session", "user", "room", "event", "share"];
/// Stands before the subject of a recording, between nodes.
const RECORDED: &str = "recorded ";
pub(super) const KNOWN: [&str; 12] = [
    "session",
    "user",
    "room",
    "event",
    "share",
    "record",
    "namespace",
    "seconds",
    "lines",
    "payload",
    "reason",
    "local",
];

/// An order to follow something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    subject: Subject,
    /// `None`: all namespaces.
    namespace: Option<String>,
    seconds: u64,
    lines: u32,
    payload: bool,
    /// Why payload is to be shown.
    reason: String,
    /// It is a recording without payload: names are shown by these marks.
    marks: Option<Marks>,
    /// It is a recording.
    record: bool,
    /// Only at the node that is asked.
    pub(super) local: bool,
}

impl Order {
    /// Reads the query of a caller, who may not ask for everything.
    pub(super) fn read(caller: &Caller, query: &Query) -> Result<Self, Problem> {
        if !caller.may(Scope::Trace) {
            return Err(Problem::without_scope(caller, Scope::Trace));
        }
        let subject = subject(query)?;
        let payload = query.parsed("payload", "true or false")?;
        let record = query.parsed("record", "true or false")?.unwrap_or_default();
        let order = Self {
            namespace: namespace(caller, query, &subject)?,
            subject,
            seconds: bounded(query, "seconds", SECONDS, SECONDS_MAX)?,
            lines: bounded(query, "lines", LINES, LINES_MAX)?,
            payload: payload.unwrap_or_default(),
            record,
            marks: match record && payload != Some(true) {
                true => Some(marks()?),
                false => None,
            },
            reason: query.get("reason").unwrap_or_default().trim().to_owned(),
            local: query.parsed("local", "true or false")?.unwrap_or_default(),
        };
        if order.payload && !caller.may(Scope::Payload) {
            return Err(Problem::without_scope(caller, Scope::Payload));
        }
        let chars = order.reason.chars().count();
        if order.payload && !(1..=REASON_CHARS_MAX).contains(&chars) {
            let detail = format!(
                "payload is shown for a reason only: give it in 1 to {REASON_CHARS_MAX} letters; the audit keeps it"
            );
            return Err(Problem::field("reason", detail));
        }
        Ok(order)
    }

    /// Whether a caller may still see what it asked for.
    pub(super) fn is_for(&self, caller: &Caller) -> bool {
        let namespace = self.namespace.as_deref();
        let may_in = namespace.map_or(caller.may_everywhere(Scope::Trace), |name| {
            caller.may_in(name)
        });
        caller.may(Scope::Trace) && may_in && (!self.payload || caller.may(Scope::Payload))
    }

    pub(super) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    pub(super) fn shows_payload(&self) -> bool {
        self.payload
    }

    /// For people: the audit and the log.
    pub(super) fn words(&self) -> String {
        let (kind, name) = self.named();
        let recorded = if self.record { ", recorded" } else { "" };
        match self.payload {
            true => format!(
                "{kind} {name}{recorded} with payload, because: {}",
                self.reason
            ),
            false => format!("{kind} {name}{recorded}"),
        }
    }

    fn named(&self) -> (&'static str, String) {
        match &self.subject {
            // Who knows the id of a polling session may speak for it.
            Subject::Session(id) => {
                let id = id.to_string();
                ("session", format!("{}…", &id[..8.min(id.len())]))
            }
            Subject::User(name) => ("user", name.to_string()),
            Subject::Room(name) => ("room", name.to_string()),
            Subject::Event(name) => ("event", name.to_string()),
            Subject::Share(share) => ("share", format!("{}%", f64::from(*share) / 100.0)),
        }
    }

    pub(super) fn time(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// A trace that shards follow from now on.
    pub(super) fn trace(&self) -> LiveTrace {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_ms = now.map_or(0, |now| now.as_millis() as u64);
        let bounds = TraceBounds {
            until_ms: now_ms + self.seconds * 1_000,
            lines_per_s: self.lines,
            payload: self.payload,
            marks: self.marks,
        };
        LiveTrace::new(self.subject.clone(), self.namespace(), bounds)
    }

    /// For another node, with the time that is left.
    pub(super) fn text(&self, left: Duration) -> String {
        let (kind, name) = match &self.subject {
            Subject::Session(id) => ("session", id.to_string()),
            _ => self.named(),
        };
        // A node of an earlier version, which has no marks, does not know this word, and says so.
        let recorded = if self.record { RECORDED } else { "" };
        let order = json!({
            "subject": format!("{recorded}{kind}"), "name": name, "namespace": self.namespace, "seconds": left.as_secs().max(1),
            "lines": self.lines, "payload": self.payload, "reason": self.reason,
            "marks": self.marks.map(Marks::key),
        });
        format!("{order}\n")
    }

    /// The order of another node. It has looked at the caller.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let order: Value = serde_json::from_str(text).ok()?;
        let text = |member: &str| order[member].as_str();
        let kind = text("subject")?;
        let recorded = kind.strip_prefix(RECORDED);
        Some(Self {
            subject: named(recorded.unwrap_or(kind), text("name")?)?,
            namespace: text("namespace").map(str::to_owned),
            seconds: order["seconds"].as_u64()?.min(SECONDS_MAX),
            lines: u32::try_from(order["lines"].as_u64()?).ok()?.min(LINES_MAX),
            payload: order["payload"].as_bool()?,
            reason: text("reason").unwrap_or_default().to_owned(),
            record: recorded.is_some(),
            marks: serde_json::from_value(order["marks"].clone())
                .ok()
                .map(Marks::new),
            local: true,
        })
    }
}

fn named(kind: &str, name: &str) -> Option<Subject> {
    Some(match kind {
        "session" => Subject::Session(Id20::decode(name.as_bytes())?),
        "user" => Subject::User(name.into()),
        "room" => Subject::Room(name.into()),
        "event" => Subject::Event(name.into()),
        "share" => Subject::Share(share(name)?),
        _ => return None,
    })
}

/// `2.5` or `2.5%` of all sessions, as so many of 10,000.
fn share(text: &str) -> Option<u16> {
    let percent: f64 = text.strip_suffix('%').unwrap_or(text).parse().ok()?;
    let share = (percent * 100.0).round();
    (1.0..=10_000.0).contains(&share).then_some(share as u16)
}

/// A key for marks that is in no line.
fn marks() -> Result<Marks, Problem> {
    let mut bytes = [[0; 8]; 2];
    let filled = bytes.iter_mut().try_for_each(|half| rand::fill(half));
    filled.map_err(|_| Problem::new(Kind::Busy, "the system gives no random bytes"))?;
    Ok(Marks::new(bytes.map(u64::from_be_bytes)))
}

fn subject(query: &Query) -> Result<Subject, Problem> {
    let given = SUBJECTS
        .iter()
        .filter_map(|kind| Some((*kind, query.get(kind)?)));
    let given: Vec<(&str, &str)> = given.collect();
    let [(kind, name)] = given[..] else {
        let detail = "give one of session, user, room, event and share: that is what is followed";
        return Err(Problem::new(Kind::InvalidRequest, detail));
    };
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        let detail = format!("a name of 1 to {NAME_BYTES_MAX} bytes is needed");
        return Err(Problem::field(kind, detail));
    }
    named(kind, name).ok_or_else(|| {
        let detail = match kind {
            "share" => format!("{name:?} is no part of all sessions: give 0.01% to 100%"),
            _ => format!("{name:?} is no id of a session or socket"),
        };
        Problem::field(kind, detail)
    })
}

/// Rooms and events are in one namespace; a session or user may be in several, of which a key may see some.
fn namespace(caller: &Caller, query: &Query, subject: &Subject) -> Result<Option<String>, Problem> {
    let given = query.get("namespace").map(str::to_owned);
    let is_in_one = matches!(subject, Subject::Room(_) | Subject::Event(_));
    let namespace = given.or_else(|| is_in_one.then(|| "/".to_owned()));
    match &namespace {
        Some(name) if !caller.may_in(name) => {
            let detail = format!("the key {:?} is not for this namespace", caller.name());
            Err(Problem::field("namespace", detail))
        }
        None if !caller.may_everywhere(Scope::Trace) => {
            let detail = format!(
                "the key {:?} is for some namespaces only: name one of them",
                caller.name()
            );
            Err(Problem::field("namespace", detail))
        }
        _ => Ok(namespace),
    }
}

fn bounded<T>(query: &Query, name: &str, usual: T, max: T) -> Result<T, Problem>
where
    T: std::str::FromStr + PartialOrd + From<u8> + std::fmt::Display + Copy,
{
    let given = query.parsed(name, "a whole number")?.unwrap_or(usual);
    match given >= T::from(1) && given <= max {
        true => Ok(given),
        false => {
            let detail = format!("{given} is not between 1 and {max}");
            Err(Problem::field(name, detail))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::callers::{caller, limited};

    fn read(caller: &Caller, query: &str) -> Result<Order, String> {
        let query = Query::read(Some(query), &KNOWN).map_err(|problem| problem.message())?;
        Order::read(caller, &query).map_err(|problem| problem.message())
    }

    #[test]
    fn an_order_is_read_as_another_node_wrote_it() {
        let ops = caller("ops");
        for query in [
            "user=ada",
            "room=a%20b&namespace=/lab&lines=7",
            "event=chat&payload=true&reason=lost%20messages&seconds=600",
            "session=AAAAAAAAAAAAAAAAAAAA",
            "share=2.5%25&record=true",
        ] {
            let order = read(&ops, query).expect(query);
            let text = order.text(order.time());
            let parsed = Order::parse(text.trim_end()).expect(&text);
            let local = true;
            assert_eq!(parsed, Order { local, ..order }, "{query}");
        }
        assert_eq!(Order::parse("{}"), None);
        assert_eq!(Order::parse("7"), None);
    }

    #[test]
    fn an_order_that_cannot_be_used_is_refused_with_its_field() {
        let ops = caller("ops");
        for (query, why) in [
            ("", "give one of"),
            ("user=a&room=b", "give one of"),
            ("user=", "user: "),
            ("session=short", "session: "),
            ("user=a&seconds=601", "seconds: "),
            ("user=a&lines=0", "lines: "),
            ("share=0.001", "share: "),
            ("share=101%25", "share: "),
            ("share=half", "share: "),
            ("user=a&record=yes", "record: "),
            ("user=a&payload=yes", "payload: "),
            ("user=a&payload=true", "reason: "),
            ("user=a&payload=true&reason=%20", "reason: "),
            ("usr=a", "usr: "),
        ] {
            let refused = read(&ops, query).expect_err(query);
            assert!(refused.starts_with(why), "{query}: {refused}");
        }
    }

    #[test]
    fn a_key_sees_its_namespaces_and_payload_only_with_that_scope() {
        let lab = limited("lab", &["trace", "/lab"]);
        for query in ["user=ada", "room=den", "event=chat&namespace=/"] {
            let refused = read(&lab, query).expect_err(query);
            assert!(refused.starts_with("namespace: "), "{refused}");
        }
        let order = read(&lab, "user=ada&namespace=/lab").expect("its own namespace");
        assert!(order.is_for(&lab));
        assert!(!order.is_for(&limited("lab", &["trace", "/other"])));
        assert!(!order.is_for(&limited("lab", &["read", "/lab"])));
        let refused = read(&lab, "user=ada&namespace=/lab&payload=true&reason=x");
        assert!(refused.expect_err("no scope").contains("trace:payload"));
        let refused = read(&limited("desk", &["read"]), "user=ada");
        assert!(refused.expect_err("no scope").contains("\"trace\""));
    }

    #[test]
    fn the_audit_has_the_reason_and_no_id_of_a_session() {
        let ops = caller("ops");
        let order = read(&ops, "user=ada&payload=true&reason=case%207").expect("an order");
        assert_eq!(order.words(), "user ada with payload, because: case 7");
        let order = read(&ops, "session=ABCDEFGHAAAAAAAAAAAA").expect("an order");
        assert_eq!(order.words(), "session ABCDEFGH…");
    }
}
