//! Owns the reading of a flow's steps: each is a table with one verb and the verb's options.
//! Loops are flattened into jumps, references are resolved, impossible orders refused.

use super::fields::{Fields, Reader, Value};
use super::file::check_payload;
use super::problem::suggestion;
use super::template::Template;
use super::value;
use super::{Backoff, Emit, Endpoint, Loop, Pace, Payload, Protocol, Step};
use std::collections::BTreeMap;
use std::time::Duration;
use toml::de::{DeTable, DeValue};

/// Names that steps refer to.
#[derive(Debug)]
pub struct Names {
    pub payloads: BTreeMap<String, Payload>,
    pub phases: Vec<String>,
    /// A phase has a `rate`, which paced loops need.
    pub has_rate: bool,
}

/// Each verb with its options.
const VERBS: [(&str, &[&str]); 11] = [
    ("connect", &["room", "within"]),
    ("auth", &[]),
    ("join", &["within"]),
    ("leave", &["within"]),
    ("emit", &["payload", "body", "to", "echo", "ack", "within"]),
    ("expect", &["count", "within"]),
    ("think", &[]),
    ("loop", &["times", "for", "every", "pace"]),
    ("disconnect", &[]),
    (
        "reconnect",
        &["room", "within", "min", "max", "jitter", "attempts"],
    ),
    ("wait", &[]),
];

const CONNECT_WITHIN: Duration = Duration::from_secs(30);
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
const EXPECT_WITHIN: Duration = Duration::from_secs(30);
/// Loops within loops: each user carries a counter for each level.
pub const LOOP_DEPTH_MAX: usize = 4;
/// Different events that one flow may expect: each user carries a counter for each.
pub const EXPECTED_EVENTS_MAX: usize = 4;
const STEPS_MAX: usize = 1_000;

#[derive(Debug)]
pub struct FlowReader<'r, 't> {
    reader: &'r mut Reader<'t>,
    names: &'r Names,
    endpoint: &'r Endpoint,
    steps: Vec<Step>,
    expected_events: Vec<String>,
    /// Whether the user has a connection after the steps so far.
    connected: bool,
    depth: usize,
}

impl<'r, 't> FlowReader<'r, 't> {
    pub fn new(reader: &'r mut Reader<'t>, names: &'r Names, endpoint: &'r Endpoint) -> Self {
        FlowReader {
            reader,
            names,
            endpoint,
            steps: Vec::new(),
            expected_events: Vec::new(),
            connected: false,
            depth: 0,
        }
    }

    /// The flat steps and the events they expect.
    pub fn finish(self, at: usize) -> (Vec<Step>, Vec<String>) {
        if self.steps.len() > STEPS_MAX {
            self.reader
                .problem(at, format!("more than {STEPS_MAX} steps: use a loop"));
        }
        (self.steps, self.expected_events)
    }

    pub fn read(&mut self, steps: &Value<'_>) {
        let DeValue::Array(items) = steps.get_ref() else {
            return self.reader.wrong_kind("steps", steps, "a list of steps");
        };
        for item in items.iter() {
            match item.get_ref() {
                DeValue::Table(table) => self.step(item.span().start, table),
                _ => self
                    .reader
                    .wrong_kind("a step", item, "a table such as { join = \"lobby\" }"),
            }
        }
    }

    fn step(&mut self, at: usize, table: &DeTable<'_>) {
        let given: Vec<(&str, usize)> = table
            .keys()
            .map(|key| (&**key.get_ref(), key.span().start))
            .collect();
        let verbs: Vec<_> = VERBS
            .iter()
            .filter(|(verb, _)| given.iter().any(|(key, _)| key == verb))
            .collect();
        let [(verb, options)] = verbs[..] else {
            return self.no_single_verb(at, &given, verbs.len());
        };
        let known = [&[*verb][..], options].concat();
        let fields = self
            .reader
            .open(format!("a {verb:?} step"), at, table, &known);
        self.check_order(verb, at);
        match *verb {
            "connect" => self.connect(&fields),
            "auth" => self.auth(&fields),
            "join" | "leave" => self.membership(&fields, verb),
            "emit" => self.emit(&fields),
            "expect" => self.expect(&fields),
            "think" => self.think(&fields),
            "loop" => self.repeat(&fields),
            "reconnect" => self.reconnect(&fields),
            "wait" => self.wait(&fields),
            _ => {
                self.reader.boolean(&fields, verb);
                self.steps.push(Step::Disconnect);
            }
        }
    }

    fn no_single_verb(&mut self, at: usize, given: &[(&str, usize)], verbs: usize) {
        let names = || VERBS.iter().map(|(verb, _)| *verb);
        if verbs > 1 {
            let both: Vec<&str> = names()
                .filter(|v| given.iter().any(|(k, _)| k == v))
                .collect();
            let both = both.join(" and ");
            return self
                .reader
                .problem(at, format!("one step, two verbs: {both}; write two steps"));
        }
        match given.first() {
            None => self.reader.problem(at, "an empty step"),
            Some(&(first, at)) => {
                let hint = suggestion(first, names());
                self.reader
                    .problem(at, format!("unknown step {first:?}{hint}"));
            }
        }
    }

    /// Refuses what cannot work whatever the server does.
    fn check_order(&mut self, verb: &str, at: usize) {
        let needs_connection = matches!(verb, "join" | "leave" | "emit" | "expect" | "disconnect");
        if needs_connection && !self.connected {
            self.reader.problem(
                at,
                format!("{verb}: the user is not connected here; \"connect\" comes first"),
            );
        }
        let is_sse = self.endpoint.protocol == Protocol::Sse;
        if is_sse && matches!(verb, "join" | "leave" | "emit") {
            self.reader.problem(at, format!(
                "{verb}: an event stream goes one way only; name the room in \"connect\" and let another flow send"
            ));
        }
        match verb {
            "connect" if self.connected => {
                self.reader
                    .problem(at, "connect: the user is connected already");
            }
            "connect" | "reconnect" => self.connected = true,
            "disconnect" => self.connected = false,
            _ => {}
        }
    }

    fn within(&mut self, fields: &Fields<'_>, usual: Duration) -> Duration {
        self.reader.duration(fields, "within").unwrap_or(usual)
    }

    fn connect(&mut self, fields: &Fields<'_>) {
        self.reader.boolean(fields, "connect");
        let room = self.reader.template(fields, "room");
        let within = self.within(fields, CONNECT_WITHIN);
        self.steps.push(Step::Connect { room, within });
    }

    fn auth(&mut self, fields: &Fields<'_>) {
        if let Some(template) = self.reader.template(fields, "auth") {
            self.steps.push(Step::Auth(template));
        }
    }

    fn membership(&mut self, fields: &Fields<'_>, verb: &str) {
        let within = self.within(fields, ANSWER_WITHIN);
        let Some(room) = self.reader.template(fields, verb) else {
            return;
        };
        self.steps.push(match verb {
            "join" => Step::Join { room, within },
            _ => Step::Leave { room, within },
        });
    }

    fn emit(&mut self, fields: &Fields<'_>) {
        let event = self
            .reader
            .text(fields, "emit", |text| match text.contains(['"', '\\']) {
                true => Err(format!("{text:?} holds a quote or a backslash")),
                false => Ok(text.to_owned()),
            });
        let payload = self.payload(fields);
        let to = self.reader.template(fields, "to");
        // Centrifugo sends a publication to its publisher as well, whoever asks.
        let always = self.endpoint.protocol == Protocol::Centrifugo;
        let echo = self.reader.boolean(fields, "echo").unwrap_or(false) || always;
        let ack = self.reader.boolean(fields, "ack").unwrap_or(false);
        let within = self.within(fields, ANSWER_WITHIN);
        if fields.has("echo") && !fields.has("to") {
            self.reader.problem(
                fields.at,
                "emit: \"echo\" says something about \"to\", which is missing",
            );
        }
        if fields.has("within") && !ack {
            self.reader
                .problem(fields.at, "emit: \"within\" needs \"ack = true\"");
        }
        let (Some(event), Some(payload)) = (event, payload) else {
            return;
        };
        if to.is_some() && payload.body.stamps() == 0 {
            self.reader.problem(
                fields.at,
                "emit: what is sent \"to\" a room is counted, so its payload needs \"${stamp}\"",
            );
        }
        self.steps.push(Step::Emit(Emit {
            event,
            payload,
            to,
            echo,
            ack,
            within,
        }));
    }

    /// A named payload, or a body written in place.
    fn payload(&mut self, fields: &Fields<'_>) -> Option<Payload> {
        if fields.has("payload") && fields.has("body") {
            self.reader
                .problem(fields.at, "emit: both \"payload\" and \"body\"");
        }
        if fields.has("body") {
            let body = self.reader.template(fields, "body")?;
            let payload = Payload { body, size: 0 };
            if let Err(error) = check_payload(&payload) {
                self.reader
                    .problem(fields.get("body")?.span().start, format!("body: {error}"));
            }
            return Some(payload);
        }
        if !fields.has("payload") {
            let body = Template::compile("\"${stamp}${fill}\"", &BTreeMap::new()).ok()?;
            return Some(Payload { body, size: 0 });
        }
        let payloads = &self.names.payloads;
        self.reader.text(fields, "payload", |text| {
            let names = payloads.keys().map(String::as_str);
            let unknown = || format!("there is no payload {text:?}{}", suggestion(text, names));
            payloads.get(text).cloned().ok_or_else(unknown)
        })
    }

    fn expect(&mut self, fields: &Fields<'_>) {
        let event = self
            .reader
            .text(fields, "expect", |text| Ok(text.to_owned()));
        let count = self.reader.count(fields, "count", 1).unwrap_or(1);
        let within = self.within(fields, EXPECT_WITHIN);
        let Some(name) = event else { return };
        let known = self.expected_events.iter().position(|known| *known == name);
        let event = known.unwrap_or_else(|| {
            self.expected_events.push(name);
            self.expected_events.len() - 1
        });
        if event >= EXPECTED_EVENTS_MAX {
            self.reader.problem(
                fields.at,
                format!(
                    "expect: a flow may wait for {EXPECTED_EVENTS_MAX} different events at most"
                ),
            );
        }
        self.steps.push(Step::Expect {
            event,
            count,
            within,
        });
    }

    fn think(&mut self, fields: &Fields<'_>) {
        let Some(value) = fields.get("think") else {
            return;
        };
        let (min, max) = match value.get_ref() {
            DeValue::Table(table) => {
                let inner =
                    self.reader
                        .open("\"think\"", value.span().start, table, &["min", "max"]);
                for key in ["min", "max"].into_iter().filter(|key| !inner.has(key)) {
                    self.reader.missing(&inner, key);
                }
                (
                    self.reader.duration(&inner, "min"),
                    self.reader.duration(&inner, "max"),
                )
            }
            _ => {
                let fixed = self.reader.text_value("think", value, value::duration);
                (fixed, fixed)
            }
        };
        let (Some(min), Some(max)) = (min, max) else {
            return;
        };
        if min > max {
            self.reader.problem(
                value.span().start,
                format!("think: min {min:?} is longer than max {max:?}"),
            );
        }
        self.steps.push(Step::Think { min, max });
    }

    fn repeat(&mut self, fields: &Fields<'_>) {
        let pace = self.pace(fields);
        let times = self.reader.count(fields, "times", 1);
        let lasts = self.reader.duration(fields, "for");
        let start = self.steps.len();
        self.steps.push(Step::Disconnect);
        self.depth += 1;
        if self.depth > LOOP_DEPTH_MAX {
            self.reader.problem(
                fields.at,
                format!("loop: more than {LOOP_DEPTH_MAX} loops inside each other"),
            );
        }
        if let Some(inner) = fields.get("loop") {
            self.read(inner);
        }
        self.depth -= 1;
        let body = &self.steps[start + 1..];
        let waits = |step: &Step| match step {
            Step::Emit(emit) => emit.ack,
            Step::Think { max, .. } => *max > Duration::ZERO,
            Step::Auth(_) | Step::EndLoop { .. } | Step::Disconnect => false,
            Step::Loop(inner) => inner.pace != Pace::Free,
            _ => true,
        };
        if pace == Pace::Free && times.is_none() && !body.iter().any(waits) {
            self.reader.problem(
                fields.at,
                "loop: it would never pause; give it \"every\", \"pace\", \"times\" or a \"think\"",
            );
        }
        self.steps.push(Step::EndLoop { start });
        let end = self.steps.len();
        self.steps[start] = Step::Loop(Loop {
            pace,
            times,
            lasts,
            end,
        });
    }

    fn pace(&mut self, fields: &Fields<'_>) -> Pace {
        let every = self.reader.duration(fields, "every");
        if fields.has("every") && fields.has("pace") {
            self.reader
                .problem(fields.at, "loop: both \"every\" and \"pace\"");
        }
        if every == Some(Duration::ZERO) {
            self.reader
                .problem(fields.at, "loop: \"every\" must be longer than nothing");
        }
        let paced = self.reader.text(fields, "pace", |text| match text {
            "phase" => Ok(()),
            _ => Err(format!("{text:?} is no pace: the only one is \"phase\"")),
        });
        if paced.is_some() && !self.names.has_rate {
            self.reader.problem(
                fields.at,
                "loop: its pace is the phase's, but no phase has a \"rate\"",
            );
        }
        match every {
            Some(every) => Pace::Every(every),
            None if fields.has("pace") => Pace::Phase,
            None => Pace::Free,
        }
    }

    fn reconnect(&mut self, fields: &Fields<'_>) {
        self.reader.boolean(fields, "reconnect");
        let usual = Backoff::default();
        let backoff = Backoff {
            min: self.reader.duration(fields, "min").unwrap_or(usual.min),
            max: self.reader.duration(fields, "max").unwrap_or(usual.max),
            jitter: self.reader.share(fields, "jitter").unwrap_or(usual.jitter),
            attempts: self
                .reader
                .count(fields, "attempts", 1)
                .unwrap_or(usual.attempts),
        };
        if backoff.min > backoff.max {
            self.reader.problem(
                fields.at,
                format!(
                    "reconnect: min {:?} is longer than max {:?}",
                    backoff.min, backoff.max
                ),
            );
        }
        let room = self.reader.template(fields, "room");
        let within = self.within(fields, CONNECT_WITHIN);
        self.steps.push(Step::Reconnect {
            room,
            within,
            backoff,
        });
    }

    fn wait(&mut self, fields: &Fields<'_>) {
        let phases = &self.names.phases;
        let phase = self.reader.text(fields, "wait", |text| {
            let unknown = || {
                let hint = suggestion(text, phases.iter().map(String::as_str));
                format!("there is no phase {text:?}{hint}")
            };
            phases
                .iter()
                .position(|name| name == text)
                .ok_or_else(unknown)
        });
        if let Some(phase) = phase {
            self.steps.push(Step::Wait { phase });
        }
    }
}
