//! Owns the reading of a flow's steps: each is a table with one verb and the verb's options.
//! Loops are flattened into jumps, references are resolved, impossible orders refused.

use super::check::{check_auth, check_payload, event, socket_io_event};
use super::fields::{Fields, Reader, Value, in_order};
use super::problem::suggestion;
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

const TOKEN_KEYS: [&str; 2] = ["user", "secret"];
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
pub struct FlowReader<'r> {
    reader: &'r Reader<'r>,
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

impl<'r> FlowReader<'r> {
    pub fn new(reader: &'r Reader<'r>, names: &'r Names, endpoint: &'r Endpoint) -> Self {
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
            let why = format!("more than {STEPS_MAX} steps: use a loop");
            self.reader.problem(at, why);
        }
        (self.steps, self.expected_events)
    }

    pub fn read(&mut self, steps: &'r Value<'r>) {
        let reader = self.reader;
        let DeValue::Array(items) = steps.get_ref() else {
            return reader.refuse_kind("steps", steps, "a list of steps");
        };
        for item in items.iter() {
            match item.get_ref() {
                DeValue::Table(table) => {
                    let step = self.step(item.span().start, table);
                    self.steps.extend(step);
                }
                _ => reader.refuse_kind("a step", item, "a table such as { join = \"lobby\" }"),
            }
        }
    }

    /// A step by its one verb; a loop has its other steps appended already.
    fn step(&mut self, at: usize, table: &'r DeTable<'r>) -> Option<Step> {
        let is_given = |verb: &str| table.keys().any(|key| key.get_ref() == verb);
        let verbs: Vec<_> = VERBS.iter().filter(|(verb, _)| is_given(verb)).collect();
        let [(verb, options)] = verbs[..] else {
            let verbs: Vec<&str> = verbs.iter().map(|(verb, _)| *verb).collect();
            return self.no_single_verb(at, table, &verbs);
        };
        let known = [&[*verb][..], options].concat();
        let fields = self
            .reader
            .open(format!("a {verb:?} step"), at, table, &known);
        self.check_order(verb, &fields);
        match *verb {
            "connect" => Some(self.connect(&fields)),
            "auth" => self.auth(&fields),
            "join" | "leave" => membership(&fields, verb),
            "emit" => self.emit(&fields),
            "expect" => self.expect(&fields),
            "think" => think(&fields),
            "loop" => Some(self.repeat(&fields)),
            "reconnect" => Some(reconnect(&fields)),
            "wait" => self.wait(&fields),
            _ => {
                fields.affirmed(verb);
                Some(Step::Disconnect)
            }
        }
    }

    fn no_single_verb(&self, at: usize, table: &DeTable<'_>, verbs: &[&str]) -> Option<Step> {
        let first = in_order(table).into_iter().next();
        let (at, why) = match first {
            _ if verbs.len() > 1 => {
                let both = verbs.join(" and ");
                (at, format!("one step, two verbs: {both}; write two steps"))
            }
            None => (at, "an empty step".into()),
            Some((first, at, _)) => {
                let hint = suggestion(&first, VERBS.iter().map(|(verb, _)| *verb));
                (at, format!("unknown step {first:?}{hint}"))
            }
        };
        self.reader.problem(at, why);
        None
    }

    /// Refuses what cannot work whatever the server does.
    fn check_order(&mut self, verb: &str, fields: &Fields<'_>) {
        let protocol = self.endpoint.protocol;
        let needs_connection = matches!(verb, "join" | "leave" | "emit" | "expect" | "disconnect");
        if needs_connection && !self.connected {
            let why = "the user is not connected here; \"connect\" comes first";
            fields.problem(format!("{verb}: {why}"));
        }
        if protocol == Protocol::Sse && matches!(verb, "join" | "leave" | "emit") {
            let why = "an event stream goes one way only; name the room in \"connect\" and let another flow send";
            fields.problem(format!("{verb}: {why}"));
        }
        if verb == "leave" && protocol == Protocol::Bare {
            fields.problem("leave: bare servers have one room, and no way out of it");
        }
        match verb {
            "connect" if self.connected => fields.problem("connect: the user is connected already"),
            "connect" | "reconnect" => self.connected = true,
            "disconnect" => self.connected = false,
            _ => {}
        }
    }

    fn connect(&self, fields: &Fields<'_>) -> Step {
        fields.affirmed("connect");
        let room = fields.room("room");
        let within = within(fields, CONNECT_WITHIN);
        Step::Connect { room, within }
    }

    fn auth(&self, fields: &Fields<'r>) -> Option<Step> {
        if let Some(value) = fields.get("auth")
            && let DeValue::Table(table) = value.get_ref()
        {
            return token(
                &self
                    .reader
                    .open("\"auth\"", value.span().start, table, &TOKEN_KEYS),
            );
        }
        let template = fields.template("auth")?;
        if self.endpoint.protocol == Protocol::SocketIo
            && let Err(error) = check_auth(&template)
        {
            fields.problem_at("auth", format!("auth: {error}"));
        }
        Some(Step::Auth(Credentials::Text(template)))
    }

    fn emit(&self, fields: &Fields<'_>) -> Option<Step> {
        let readable = match self.endpoint.protocol {
            Protocol::SocketIo => socket_io_event,
            _ => event,
        };
        let event = fields.text("emit", readable);
        let payload = self.payload(fields);
        let to = fields.room("to");
        // Centrifugo sends a publication to its publisher as well, with any value of `echo`.
        let always = self.endpoint.protocol == Protocol::Centrifugo;
        let echo = fields.boolean("echo").unwrap_or(false) || always;
        let ack = fields.boolean("ack").unwrap_or(false);
        let window = fields.count("window", 1..=WINDOW_MAX);
        if fields.has("window") && !ack && !(echo && fields.has("to")) {
            let why = "emit: \"window\" is how many may be unanswered: it needs \"ack = true\" or \"echo = true\"";
            fields.problem_at("window", why);
        }
        let within = within(fields, ANSWER_WITHIN);
        if fields.has("echo") && !fields.has("to") {
            fields.problem("emit: \"echo\" says something about \"to\", which is missing");
        }
        if fields.has("within") && !ack {
            fields.problem("emit: \"within\" needs \"ack = true\"");
        }
        let (event, payload) = (event?, payload?);
        if to.is_some() && payload.body.stamps() == 0 {
            let why =
                "emit: what is sent \"to\" a room is counted, so its payload needs \"${stamp}\"";
            fields.problem(why);
        }
        Some(Step::Emit(Emit {
            event,
            payload,
            to,
            echo,
            ack,
            window,
            within,
        }))
    }

    /// A named payload, or a body written in place.
    fn payload(&self, fields: &Fields<'_>) -> Option<Payload> {
        fields.exclude("payload", "body", "emit:");
        if fields.has("body") {
            let body = fields.body("body")?;
            let payload = Payload { body, size: 0 };
            if let Err(error) = check_payload(&payload) {
                fields.problem_at("body", format!("body: {error}"));
            }
            return Some(payload);
        }
        if !fields.has("payload") {
            return Some(Payload::plain());
        }
        let payloads = &self.names.payloads;
        fields.text("payload", |text| {
            let names = payloads.keys().map(String::as_str);
            let unknown = || format!("there is no payload {text:?}{}", suggestion(text, names));
            payloads.get(text).cloned().ok_or_else(unknown)
        })
    }

    fn expect(&mut self, fields: &Fields<'_>) -> Option<Step> {
        let event = fields.name("expect");
        let count = fields.count("count", 1..=u32::MAX).unwrap_or(1);
        let within = within(fields, EXPECT_WITHIN);
        let name = event?;
        let known = self.expected_events.iter().position(|known| *known == name);
        let event = known.unwrap_or_else(|| {
            self.expected_events.push(name);
            self.expected_events.len() - 1
        });
        if event >= EXPECTED_EVENTS_MAX {
            fields.problem(format!(
                "expect: a flow may wait for {EXPECTED_EVENTS_MAX} different events at most"
            ));
        }
        Some(Step::Expect {
            event,
            count,
            within,
        })
    }

    fn repeat(&mut self, fields: &Fields<'r>) -> Step {
        let faults = self.reader.faults();
        let mut repeat = Loop {
            pace: self.pace(fields),
            times: fields.count("times", 1..=u32::MAX),
            lasts: fields.duration_above_zero("for"),
            end: 0,
        };
        let start = self.steps.len();
        self.steps.push(Step::Disconnect);
        let beside = std::mem::replace(&mut self.burst, 1);
        self.depth += 1;
        if self.depth > LOOP_DEPTH_MAX {
            let why = format!("loop: more than {LOOP_DEPTH_MAX} loops inside each other");
            fields.problem(why);
        }
        if let Some(inner) = fields.get("loop") {
            self.read(inner);
        }
        self.depth -= 1;
        // A step that could not be read may be the one that takes time.
        let burst = match self.reader.faults() == faults {
            true => self.check_burst(fields, start, &repeat),
            false => 1,
        };
        self.burst = beside.max(burst);
        repeat.end = self.steps.len() + 1;
        self.steps[start] = Step::Loop(repeat);
        Step::EndLoop { start }
    }

    /// Rounds of the loop at `start` that follow each other without a pause. Too many of them are
    /// refused: they would fill the user's worker, and the server's buffers.
    fn check_burst(&self, fields: &Fields<'_>, start: usize, repeat: &Loop) -> u64 {
        let body = start + 1..self.steps.len();
        if repeat.pace != Pace::Free || takes_time(&self.steps, body.clone()) {
            return 1;
        }
        let times = repeat.times.map(u64::from);
        let what = match times.map(|times| self.burst.saturating_mul(times)) {
            Some(rounds) if rounds <= BURST_MAX => return rounds,
            Some(rounds) => format!("{rounds} rounds without a pause are more than {BURST_MAX}"),
            None => "it would never pause".to_owned(),
        };
        let is_wait = |step: &Step| matches!(step, Step::Wait { .. });
        let hint = match self.steps[body].iter().any(is_wait) {
            true => "; \"wait\" takes no time once its phase has begun",
            false => "",
        };
        fields.problem(format!(
            "loop: {what}; give it \"every\", \"pace\", a \"think\" or an answer to wait for \
             (\"ack = true\", \"expect\"){hint}"
        ));
        1
    }

    fn pace(&self, fields: &Fields<'_>) -> Pace {
        let every = fields.duration_above_zero("every");
        fields.exclude("every", "pace", "loop:");
        let paced = fields.text("pace", |text| match text {
            "phase" => Ok(()),
            _ => Err(format!("{text:?} is no pace: the only one is \"phase\"")),
        });
        if paced.is_some() && !self.names.has_rate {
            fields.problem("loop: its pace is the phase's, but no phase has a \"rate\"");
        }
        match every {
            Some(every) => Pace::Every(every),
            None if fields.has("pace") => Pace::Phase,
            None => Pace::Free,
        }
    }

    fn wait(&self, fields: &Fields<'_>) -> Option<Step> {
        let phases = &self.names.phases;
        let phase = fields.text("wait", |text| {
            let hint = || suggestion(text, phases.iter().map(String::as_str));
            let phase = phases.iter().position(|name| name == text);
            phase.ok_or_else(|| format!("there is no phase {text:?}{}", hint()))
        });
        phase.map(|phase| Step::Wait { phase })
    }
}

fn within(fields: &Fields<'_>, usual: Duration) -> Duration {
    fields.duration_above_zero("within").unwrap_or(usual)
}

fn token(fields: &Fields<'_>) -> Option<Step> {
    fields.need(&TOKEN_KEYS);
    let (user, secret) = (fields.template("user"), fields.name("secret"));
    let (user, secret) = (user?, secret?);
    Some(Step::Auth(Credentials::Token { user, secret }))
}

fn membership(fields: &Fields<'_>, verb: &str) -> Option<Step> {
    let within = within(fields, ANSWER_WITHIN);
    let room = fields.room(verb)?;
    Some(match verb {
        "join" => Step::Join { room, within },
        _ => Step::Leave { room, within },
    })
}

fn think(fields: &Fields<'_>) -> Option<Step> {
    let value = fields.get("think")?;
    let (min, max) = match value.get_ref() {
        DeValue::Table(table) => {
            let keys = ["min", "max"];
            let inner = fields
                .reader
                .open("\"think\"", value.span().start, table, &keys);
            inner.need(&keys);
            (inner.duration("min"), inner.duration("max"))
        }
        _ => {
            let fixed = fields.duration("think");
            (fixed, fixed)
        }
    };
    let (min, max) = (min?, max?);
    if min > max {
        let why = format!("think: min {min:?} is longer than max {max:?}");
        fields.problem_at("think", why);
    }
    Some(Step::Think { min, max })
}

fn reconnect(fields: &Fields<'_>) -> Step {
    fields.affirmed("reconnect");
    let usual = Backoff::default();
    let attempts = fields.count("attempts", 1..=u32::MAX);
    let backoff = Backoff {
        min: fields.duration("min").unwrap_or(usual.min),
        max: fields.duration("max").unwrap_or(usual.max),
        jitter: fields.share("jitter").unwrap_or(usual.jitter),
        attempts: attempts.unwrap_or(usual.attempts),
    };
    if backoff.min > backoff.max {
        let (min, max) = (backoff.min, backoff.max);
        fields.problem(format!("reconnect: min {min:?} is longer than max {max:?}"));
    }
    Step::Reconnect {
        room: fields.room("room"),
        within: within(fields, CONNECT_WITHIN),
        backoff,
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
