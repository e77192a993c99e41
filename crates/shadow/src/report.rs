//! Figures and samples of a comparison, for the page, the file and the last words.

use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Samples that are kept in all, and of one event.
const SAMPLES_MAX: usize = 200;
const SAMPLES_OF_EVENT_MAX: usize = 10;
/// Events that are counted apart. All others are counted as one.
const EVENTS_MAX: usize = 1_000;
const OTHERS: &str = "(other events)";
/// Parts of two packets that a sample names.
const PARTS_MAX: usize = 10;
/// Characters of a value in a sample.
const SHOWN_MAX: usize = 200;

/// Packets of one event, as clients got them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Both said the same.
    pub equal: u64,
    /// Equal, but in another order, although one client brought them about and no other spoke meanwhile. They count as `equal`, too.
    pub reordered: u64,
    /// Only the running server said it.
    pub missing: u64,
    /// Only the gateway said it.
    pub additional: u64,
    /// Both said something at the same place, and not the same.
    pub different: u64,
}

impl Counts {
    pub fn differences(&self) -> u64 {
        self.reordered + self.missing + self.additional + self.different
    }
}

/// The kind of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Missing,
    Additional,
    Different,
    Reordered,
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sample {
    pub kind: Kind,
    pub session: u64,
    pub namespace: String,
    pub event: String,
    /// Where the packets differ, or their form if there is one only. Values are shown only if that was asked for.
    pub parts: Vec<String>,
}

/// All that is known so far.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    pub seconds: u64,
    pub sessions: u64,
    /// Of these, the gateway has a copy now.
    pub played: u64,
    /// Of clients.
    pub packets: u64,
    /// By event; `CONNECT`, `CONNECT_ERROR`, `DISCONNECT` and `ack of EVENT` are the other packets.
    pub events: BTreeMap<String, Counts>,
    pub samples: Vec<Sample>,
    /// Sessions that cannot be compared, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// Packets of clients that the gateway could not be given, by reason.
    pub unplayed: BTreeMap<String, u64>,
    /// Packets that nobody could compare, because too many waited.
    pub unjudged: u64,
    /// Answers of the gateway that a later packet of a client did not wait for.
    pub late: u64,
    /// Packets of the running server whose order was compared.
    pub ordered: u64,
    /// Sessions that were given to the gateway (`--switch`).
    pub switched: u64,
}

impl Report {
    pub fn differences(&self) -> u64 {
        self.events.values().map(Counts::differences).sum()
    }

    /// Everything was compared, and nothing differs.
    pub fn is_clean(&self) -> bool {
        self.differences() == 0
            && self.unjudged == 0
            && self.skipped.is_empty()
            && self.unplayed.is_empty()
    }

    pub fn counts(&mut self, event: &str) -> &mut Counts {
        let known = self.events.contains_key(event) || self.events.len() < EVENTS_MAX;
        let event = if known { event } else { OTHERS };
        self.events.entry(event.to_owned()).or_default()
    }

    pub fn sample(&mut self, sample: Sample) {
        let alike = self
            .samples
            .iter()
            .filter(|other| other.event == sample.event);
        if self.samples.len() < SAMPLES_MAX && alike.count() < SAMPLES_OF_EVENT_MAX {
            self.samples.push(sample);
        }
    }

    pub fn skip(&mut self, why: &str) {
        *self.skipped.entry(why.to_owned()).or_default() += 1;
    }

    pub fn leave_out(&mut self, why: &str) {
        *self.unplayed.entry(why.to_owned()).or_default() += 1;
    }

    /// For a terminal.
    fn order(&self) -> String {
        format!(
            "order: compared among {} packets of the running server; beside the others, several clients spoke",
            self.ordered
        )
    }

    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let mut line = |line: String| text.extend([plain(&line).as_str(), "\n"]);
        line(format!(
            "{} sessions, {} packets of clients, {} s",
            self.sessions, self.packets, self.seconds
        ));
        let width = self
            .events
            .keys()
            .map(|name| name.chars().count())
            .max()
            .unwrap_or(0)
            .clamp(5, 60);
        line(format!(
            "{:width$} {:>10} {:>10} {:>10} {:>10} {:>10}",
            "event", "equal", "missing", "additional", "different", "reordered"
        ));
        for (name, counts) in &self.events {
            let Counts {
                equal,
                reordered,
                missing,
                additional,
                different,
            } = counts;
            line(format!(
                "{name:width$} {equal:>10} {missing:>10} {additional:>10} {different:>10} {reordered:>10}"
            ));
        }
        for (why, count) in &self.skipped {
            line(format!("not compared: {count} sessions: {why}"));
        }
        for (why, count) in &self.unplayed {
            line(format!("not played: {count} packets: {why}"));
        }
        if self.unjudged > 0 {
            line(format!(
                "not judged: {} packets: too many waited for their like",
                self.unjudged
            ));
        }
        line(self.order());
        if self.late > 0 {
            line(format!(
                "late: {} answers of the gateway came after packets that clients sent later",
                self.late
            ));
        }
        for Sample {
            kind,
            session,
            namespace,
            event,
            parts,
        } in &self.samples
        {
            line(format!(
                "{} in session {session}, {namespace}: {event}: {}",
                format!("{kind:?}").to_lowercase(),
                parts.join("; ")
            ));
        }
        line(match self.differences() {
            0 if self.is_clean() => "no difference".to_owned(),
            0 => "no difference in what was compared".to_owned(),
            count => format!("{count} differences"),
        });
        text
    }
}

/// Where two values differ. Without `values`, the kinds of the values only.
pub fn differences(real: &Value, own: &Value, values: bool) -> Vec<String> {
    let mut parts = Vec::new();
    differ(real, own, values, &mut String::from("$"), &mut parts);
    parts
}

fn differ(real: &Value, own: &Value, values: bool, path: &mut String, parts: &mut Vec<String>) {
    if real == own || parts.len() >= PARTS_MAX {
        return;
    }
    let len = path.len();
    match (real, own) {
        (Value::Array(real), Value::Array(own)) => {
            for at in 0..real.len().max(own.len()) {
                let _ = write!(path, "[{at}]");
                differ_in(real.get(at), own.get(at), values, path, parts);
                path.truncate(len);
            }
        }
        (Value::Object(real), Value::Object(own)) => {
            let names = real
                .keys()
                .chain(own.keys().filter(|name| !real.contains_key(*name)));
            for name in names {
                let _ = write!(path, ".{}", shortened(name));
                differ_in(real.get(name), own.get(name), values, path, parts);
                path.truncate(len);
            }
        }
        _ => parts.push(format!(
            "{path}: {} there, {} here",
            form(real, values),
            form(own, values)
        )),
    }
}

fn differ_in(
    real: Option<&Value>,
    own: Option<&Value>,
    values: bool,
    path: &mut String,
    parts: &mut Vec<String>,
) {
    match (real, own) {
        (Some(real), Some(own)) => differ(real, own, values, path, parts),
        (Some(real), None) if parts.len() < PARTS_MAX => parts.push(format!(
            "{path}: {} there, nothing here",
            form(real, values)
        )),
        (None, Some(own)) if parts.len() < PARTS_MAX => {
            parts.push(format!("{path}: nothing there, {} here", form(own, values)))
        }
        _ => {}
    }
}

/// The form of a value, or the value itself.
pub fn form(value: &Value, values: bool) -> String {
    if values {
        return shortened(&value.to_string());
    }
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "a boolean".to_owned(),
        Value::Number(_) => "a number".to_owned(),
        Value::String(text) => format!("a text of {} characters", text.chars().count()),
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(members) => {
            let names: Vec<String> = members.keys().map(|name| shortened(name)).collect();
            shortened(&format!("an object with {}", names.join(", ")))
        }
    }
}

/// Names come from strangers: nothing in them may reach a terminal as a command.
fn plain(text: &str) -> String {
    let shown = text
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c });
    shown.collect()
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_sample_says_where_packets_differ_and_no_value_unless_asked() {
        let (real, own) = (
            json!(["m", { "card": "4111", "n": 1, "a": [1] }]),
            json!(["m", { "card": "4112", "n": 1, "b": 2, "a": [] }]),
        );
        let told = differences(&real, &own, false);
        assert_eq!(
            told,
            [
                "$[1].a[0]: a number there, nothing here",
                "$[1].card: a text of 4 characters there, a text of 4 characters here",
                "$[1].b: nothing there, a number here",
            ]
        );
        assert!(!told.concat().contains("411"));
        assert!(differences(&real, &own, true).concat().contains("4111"));
    }

    #[test]
    fn samples_and_names_of_events_are_bounded() {
        let mut report = Report::default();
        for number in 0..2_000 {
            let event = format!("e{number}");
            report.counts(&event).missing += 1;
            for _ in 0..20 {
                let (namespace, event, parts) = ("/".to_owned(), event.clone(), Vec::new());
                report.sample(Sample {
                    kind: Kind::Missing,
                    session: 1,
                    namespace,
                    event,
                    parts,
                });
            }
        }
        assert_eq!(report.events.len(), EVENTS_MAX + 1);
        assert_eq!(report.samples.len(), SAMPLES_MAX);
        assert_eq!(report.differences(), 2_000);
        assert!(!report.is_clean());
        report.counts("\u{1b}[2J").missing += 1;
        assert!(!report.to_text().contains('\u{1b}'));
        let long = "é".repeat(1_000);
        assert!(form(&json!(long), true).chars().count() <= SHOWN_MAX + 1);
    }
}
