//! Owns the reading of a flow's steps: each is a table with one verb and the verb's options.
//! Loops are flattened into jumps, references are resolved, impossible orders refused.

use super::check::{check_auth, check_payload, event, socket_io_event};
use super::fields::{Fields, Reader, Value};
use super::problem::suggestion;
use super::value;
use super::{Backoff, Credentials, Emit, Endpoint, Loop, Pace, Payload, Protocol, Step};
use std::collections::BTreeMap;
use std::ops::Range;
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
    (
        "emit",
        &["payload", "body", "to", "echo", "ack", "window", "within"],
    ),
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
/// Each user remembers what is unanswered.
const WINDOW_MAX: u32 = 1_000;
const STEPS_MAX: usize = 1_000;
/// Rounds without a pause, over all loops inside each other.
const BURST_MAX: u64 = 1_000;

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
    /// Most rounds without a pause that a loop read so far makes.
    burst: u64,
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
            burst: 1,
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
                self.reader.affirmed(&fields, verb);
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
        if verb == "leave" && self.endpoint.protocol == Protocol::Bare {
            self.reader.problem(
                at,
                "leave: bare servers have one room, and no way out of it",
            );
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
        let within = self.reader.duration_above_zero(fields, "within");
        within.unwrap_or(usual)
    }

    fn connect(&mut self, fields: &Fields<'_>) {
        self.reader.affirmed(fields, "connect");
        let room = self.reader.room(fields, "room");
        let within = self.within(fields, CONNECT_WITHIN);
        self.steps.push(Step::Connect { room, within });
    }

    fn auth(&mut self, fields: &Fields<'_>) {
        if let Some(value) = fields.get("auth")
            && let DeValue::Table(table) = value.get_ref()
        {
            return self.token(value.span().start, table);
        }
        let Some(template) = self.reader.template(fields, "auth") else {
            return;
        };
        if self.endpoint.protocol == Protocol::SocketIo
            && let Err(error) = check_auth(&template)
        {
            let at = fields.place("auth");
            self.reader.problem(at, format!("auth: {error}"));
        }
        self.steps.push(Step::Auth(Credentials::Text(template)));
    }

    fn token(&mut self, at: usize, table: &DeTable<'_>) {
        let fields = self.reader.open("\"auth\"", at, table, &["user", "secret"]);
        for key in ["user", "secret"] {
            if !fields.has(key) {
                self.reader.missing(&fields, key);
            }
        }
        let user = self.reader.template(&fields, "user");
        let secret = self.reader.name(&fields, "secret");
        if let (Some(user), Some(secret)) = (user, secret) {
            let token = Credentials::Token { user, secret };
            self.steps.push(Step::Auth(token));
        }
    }

    fn membership(&mut self, fields: &Fields<'_>, verb: &str) {
        let within = self.within(fields, ANSWER_WITHIN);
        let Some(room) = self.reader.room(fields, verb) else {
            return;
        };
        self.steps.push(match verb {
            "join" => Step::Join { room, within },
            _ => Step::Leave { room, within },
        });
    }

    fn emit(&mut self, fields: &Fields<'_>) {
        let readable = match self.endpoint.protocol {
            Protocol::SocketIo => socket_io_event,
            _ => event,
        };
        let event = self.reader.text(fields, "emit", readable);
        let payload = self.payload(fields);
        let to = self.reader.room(fields, "to");
        // Centrifugo sends a publication to its publisher as well, whoever asks.
        let always = self.endpoint.protocol == Protocol::Centrifugo;
        let echo = self.reader.boolean(fields, "echo").unwrap_or(false) || always;
        let ack = self.reader.boolean(fields, "ack").unwrap_or(false);
        let window = self.reader.count(fields, "window", 1..=WINDOW_MAX);
        if fields.has("window") && !ack && !(echo && fields.has("to")) {
            let why = "emit: \"window\" is how many may be unanswered: it needs \"ack = true\" or \"echo = true\"";
            self.reader.problem(fields.place("window"), why);
        }
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
            window,
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
            let body = self.reader.body(fields, "body")?;
            let payload = Payload { body, size: 0 };
            if let Err(error) = check_payload(&payload) {
                let at = fields.place("body");
                self.reader.problem(at, format!("body: {error}"));
            }
            return Some(payload);
        }
        if !fields.has("payload") {
            return Some(Payload::plain());
        }
        let payloads = &self.names.payloads;
        self.reader.text(fields, "payload", |text| {
            let names = payloads.keys().map(String::as_str);
            let unknown = || format!("there is no payload {text:?}{}", suggestion(text, names));
            payloads.get(text).cloned().ok_or_else(unknown)
        })
    }

    fn expect(&mut self, fields: &Fields<'_>) {
        let event = self.reader.name(fields, "expect");
        let count = self.reader.count(fields, "count", 1..=u32::MAX);
        let count = count.unwrap_or(1);
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
        let faults = self.reader.faults;
        let mut repeat = Loop {
            pace: self.pace(fields),
            times: self.reader.count(fields, "times", 1..=u32::MAX),
            lasts: self.reader.duration_above_zero(fields, "for"),
            end: 0,
        };
        let start = self.steps.len();
        self.steps.push(Step::Disconnect);
        let beside = std::mem::replace(&mut self.burst, 1);
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
        // A step that could not be read may be the one that takes time.
        let burst = match self.reader.faults == faults {
            true => self.check_burst(fields, start, &repeat),
            false => 1,
        };
        self.burst = beside.max(burst);
        self.steps.push(Step::EndLoop { start });
        repeat.end = self.steps.len();
        self.steps[start] = Step::Loop(repeat);
    }

    /// Rounds of the loop at `start` that follow each other without a pause. Too many of them are
    /// refused: they would fill the user's worker, and the server's buffers.
    fn check_burst(&mut self, fields: &Fields<'_>, start: usize, repeat: &Loop) -> u64 {
        let body = start + 1..self.steps.len();
        if repeat.pace != Pace::Free || takes_time(&self.steps, body.clone()) {
            return 1;
        }
        let rounds = repeat
            .times
            .map(|times| self.burst.saturating_mul(times.into()));
        let what = match rounds {
            Some(rounds) if rounds <= BURST_MAX => return rounds,
            Some(rounds) => {
                format!("{rounds} rounds without a pause are more than {BURST_MAX}")
            }
            None => "it would never pause".to_owned(),
        };
        let waits = self.steps[body]
            .iter()
            .any(|step| matches!(step, Step::Wait { .. }));
        let hint = match waits {
            true => "; \"wait\" takes no time once its phase has begun",
            false => "",
        };
        self.reader.problem(
            fields.at,
            format!(
                "loop: {what}; give it \"every\", \"pace\", a \"think\" or an answer to wait for \
                 (\"ack = true\", \"expect\"){hint}"
            ),
        );
        1
    }

    fn pace(&mut self, fields: &Fields<'_>) -> Pace {
        let every = self.reader.duration_above_zero(fields, "every");
        if fields.has("every") && fields.has("pace") {
            self.reader
                .problem(fields.at, "loop: both \"every\" and \"pace\"");
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
        self.reader.affirmed(fields, "reconnect");
        let usual = Backoff::default();
        let backoff = Backoff {
            min: self.reader.duration(fields, "min").unwrap_or(usual.min),
            max: self.reader.duration(fields, "max").unwrap_or(usual.max),
            jitter: self.reader.share(fields, "jitter").unwrap_or(usual.jitter),
            attempts: self
                .reader
                .count(fields, "attempts", 1..=u32::MAX)
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
        let room = self.reader.room(fields, "room");
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

/// Whether going through these steps takes time, whatever was before.
fn takes_time(steps: &[Step], range: Range<usize>) -> bool {
    let mut at = range.start;
    while let Some(step) = steps.get(at).filter(|_| at < range.end) {
        let takes = match step {
            Step::Emit(emit) => emit.ack || emit.window.is_some(),
            Step::Think { max, .. } => *max > Duration::ZERO,
            Step::Loop(inner) => loop_takes_time(steps, at, inner),
            // A phase begins once: later waits for it are over at once.
            Step::Wait { .. } => false,
            Step::Auth(_) | Step::EndLoop { .. } | Step::Disconnect => false,
            Step::Connect { .. } | Step::Reconnect { .. } => true,
            Step::Join { .. } | Step::Leave { .. } | Step::Expect { .. } => true,
        };
        if takes {
            return true;
        }
        at = match step {
            Step::Loop(inner) => inner.end,
            _ => at + 1,
        };
    }
    false
}

fn loop_takes_time(steps: &[Step], at: usize, inner: &Loop) -> bool {
    let body = || takes_time(steps, at + 1..inner.end);
    match inner.pace {
        Pace::Phase => true,
        Pace::Free => body(),
        // The first round may be due at once, and a short "for" be over before it.
        Pace::Every(period) => {
            let is_long = inner.lasts.is_none_or(|lasts| lasts > period);
            is_long && (inner.times != Some(1) || body())
        }
    }
}
