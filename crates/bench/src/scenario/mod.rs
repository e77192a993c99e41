//! Owns what a scenario says: phases, flows and their steps, as read from a TOML file and checked
//! as a whole before anything connects. `file` reads, `steps` reads a flow, `builtin` has the
//! embedded ones.

pub mod builtin;
mod check;
mod expression;
mod fields;
mod file;
pub mod problem;
mod steps;
pub mod template;
mod value;

pub use problem::{Problem, Problems};
pub use steps::EXPECTED_EVENTS_MAX;
pub use template::{Scope, Template};

use anyhow::{Context, Result};
use fastrand::Rng;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// A checked scenario at the size it is run in.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub name: String,
    pub about: String,
    pub source: Source,
    pub phases: Vec<Phase>,
    pub flows: Vec<Flow>,
}

/// Where a scenario comes from: what worker processes read again.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Source {
    /// What messages call the text.
    pub file: String,
    pub text: String,
    /// Spoken instead of the text's own.
    pub protocol: Option<Protocol>,
    /// Share of the full size, 1 unless asked otherwise.
    pub scale: f64,
    /// Share of the full time, 1 unless asked otherwise.
    pub time_scale: f64,
}

impl Source {
    /// The scenario at its size, in its time.
    pub fn read(&self) -> Result<Scenario, Problems> {
        let whole = Source {
            scale: 1.0,
            time_scale: 1.0,
            ..self.clone()
        };
        let scenario = file::read(whole)?;
        Ok(scenario.scaled(self.scale).shortened(self.time_scale))
    }
}

/// A stretch of time with its own load.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    pub name: String,
    /// Whole seconds, but for the last phase.
    pub duration: Duration,
    /// Users that exist from here on. Without `arrivals` they come before the phase's clock starts.
    pub connections: Option<u32>,
    /// New users a second.
    pub arrivals: Option<f64>,
    /// Rounds a second of all loops with `pace = "phase"` together.
    pub rate: Option<f64>,
}

/// What one kind of user does.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    pub name: String,
    pub share: Share,
    pub endpoint: Endpoint,
    pub on_loss: OnLoss,
    pub steps: Vec<Step>,
    /// Event names that `expect` steps wait for; steps refer to them by index.
    pub expected_events: Vec<String>,
}

/// How many of all users follow a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// So many, whatever the scale; they have the lowest user numbers.
    Count(u32),
    /// In proportion among the users that are left.
    Weight(u32),
}

/// What a user does when its connection ends although the scenario did not ask for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OnLoss {
    Stop,
    /// Begins the flow again.
    Restart(Backoff),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protocol {
    SocketIo,
    /// Sockeye's plain protocol: JSON objects over WebSocket.
    WebSocket,
    Sse,
    /// Centrifugo's client protocol, JSON, version 2.
    Centrifugo,
    /// One letter in front of each message, for servers with nothing above the WebSocket frame.
    Bare,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    WebSocket,
    Polling,
    /// Polling first, then WebSocket.
    Upgrade,
}

/// How a flow reaches the server.
#[derive(Clone, Debug, PartialEq)]
pub struct Endpoint {
    pub protocol: Protocol,
    pub transport: Transport,
    /// Asks for permessage-deflate, and does not go on without.
    pub compression: bool,
    pub path: Template,
    pub namespace: String,
    pub join_event: String,
    pub leave_event: String,
    /// Users for whom this gives the same text use the same one of several servers.
    pub spread: Template,
}

/// One step; loops are jumps.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// `room`: connecting alone makes a member of it.
    Connect {
        room: Option<Template>,
        within: Duration,
    },
    /// What later connects present.
    Auth(Credentials),
    Join {
        room: Template,
        within: Duration,
    },
    Leave {
        room: Template,
        within: Duration,
    },
    Emit(Emit),
    Expect {
        event: usize,
        count: u32,
        within: Duration,
    },
    Think {
        min: Duration,
        max: Duration,
    },
    Loop(Loop),
    EndLoop {
        start: usize,
    },
    Disconnect,
    Reconnect {
        room: Option<Template>,
        within: Duration,
        backoff: Backoff,
    },
    /// Until this phase begins.
    Wait {
        phase: usize,
    },
}

/// What a user presents.
#[derive(Clone, Debug, PartialEq)]
pub enum Credentials {
    Text(Template),
    /// A token that is signed for each user, by a secret that the server knows.
    Token {
        user: Template,
        secret: String,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Emit {
    pub event: String,
    pub payload: Payload,
    /// The room whose members the server must send it to.
    pub to: Option<Template>,
    /// The sender is among them.
    pub echo: bool,
    pub ack: bool,
    /// How many may be without an answer at a time; without `ack` the message that comes back is the answer.
    pub window: Option<u32>,
    pub within: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Payload {
    pub body: Template,
    pub size: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Loop {
    pub pace: Pace,
    pub times: Option<u32>,
    pub lasts: Option<Duration>,
    /// Index behind the loop's last step.
    pub end: usize,
}

/// What decides when the next round of a loop is due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// When the last one is done.
    Free,
    /// Each user on its own schedule; the schedules are spread evenly over the period.
    Every(Duration),
    /// All users together at the phase's `rate`.
    Phase,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    pub min: Duration,
    pub max: Duration,
    /// Share by which a delay may be longer or shorter.
    pub jitter: f64,
    pub attempts: u32,
}

impl Default for Backoff {
    /// socket.io-client's own.
    fn default() -> Self {
        Backoff {
            min: Duration::from_secs(1),
            max: Duration::from_secs(5),
            jitter: 0.5,
            attempts: 20,
        }
    }
}

impl Backoff {
    /// Delay before attempt `number`, counted from 0 for the first one after a failure.
    pub fn delay(&self, number: u32, dice: &mut Rng) -> Duration {
        let doubled = self.min.as_secs_f64() * 2f64.powi(number.min(30) as i32);
        let base = doubled.min(self.max.as_secs_f64());
        Duration::from_secs_f64(base * (1.0 + self.jitter * (2.0 * dice.f64() - 1.0)))
    }
}

impl Payload {
    /// The message's identity and nothing else.
    fn plain() -> Payload {
        Payload {
            body: Template::stamp_and_fill(),
            size: 0,
        }
    }
}

impl Flow {
    /// It has a loop whose pace is the phase's.
    pub fn is_paced(&self) -> bool {
        let paced = |repeat: &Loop| matches!(repeat.pace, Pace::Phase);
        let mut steps = self.steps.iter();
        steps.any(|step| matches!(step, Step::Loop(repeat) if paced(repeat)))
    }
}

impl Scenario {
    /// Reads a built-in scenario or, if there is none of that name, a file.
    pub fn load(name_or_path: &str) -> Result<Scenario> {
        if let Some(text) = builtin::text(name_or_path) {
            return Ok(Scenario::parse(name_or_path, text)?);
        }
        let path = Path::new(name_or_path);
        if !path.exists() && path.extension().is_none() {
            let known = builtin::names();
            anyhow::bail!(
                "there is no scenario {name_or_path:?}{}; a file ends in .toml",
                problem::suggestion(name_or_path, known)
            );
        }
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read scenario {name_or_path}"))?;
        Ok(Scenario::parse(name_or_path, &text)?)
    }

    /// Reads and checks a scenario's text; `file` is what messages call it.
    pub fn parse(file: &str, text: &str) -> Result<Scenario, Problems> {
        let source = Source {
            file: file.to_owned(),
            text: text.to_owned(),
            protocol: None,
            scale: 1.0,
            time_scale: 1.0,
        };
        source.read()
    }

    /// The same scenario in another protocol; paths go with the protocol.
    pub fn spoken(&self, protocol: Protocol) -> Result<Scenario, Problems> {
        let protocol = Some(protocol);
        let source = self.source.clone();
        Source { protocol, ..source }.read()
    }

    /// The same scenario with `scale` times the connections, arrivals and rates. What each user
    /// does stays as it is.
    pub fn scaled(mut self, scale: f64) -> Scenario {
        for phase in &mut self.phases {
            phase.connections = phase
                .connections
                .map(|count| ((f64::from(count) * scale).round() as u32).max(1));
            phase.arrivals = phase.arrivals.map(|rate| rate * scale);
            phase.rate = phase.rate.map(|rate| rate * scale);
        }
        self.source.scale *= scale;
        self
    }

    /// The same scenario in `share` of its time, each phase a second at least. As many users arrive,
    /// so they arrive faster; what each of them does keeps its own time.
    pub fn shortened(mut self, share: f64) -> Scenario {
        for phase in &mut self.phases {
            let wanted = phase.duration.mul_f64(share).max(Duration::from_secs(1));
            let duration = match share == 1.0 {
                true => phase.duration,
                false => Duration::from_secs(wanted.as_secs_f64().ceil() as u64),
            };
            let faster = phase.duration.as_secs_f64() / duration.as_secs_f64();
            phase.arrivals = phase.arrivals.map(|rate| rate * faster);
            phase.duration = duration;
        }
        self.source.time_scale *= share;
        self
    }

    /// Users that the scenario has once its last phase has begun.
    pub fn users(&self) -> u32 {
        (0..self.phases.len())
            .map(|at| self.users_by(at))
            .max()
            .unwrap_or(0)
    }

    /// Users that exist by the end of phase `at`.
    pub fn users_by(&self, at: usize) -> u32 {
        self.phases.iter().take(at + 1).fold(0, |before, phase| {
            let arriving = phase.arrivals.map(|rate| {
                before.saturating_add((rate * phase.duration.as_secs_f64()).ceil() as u32)
            });
            match (phase.connections, arriving) {
                (Some(target), Some(arriving)) => arriving.min(target).max(before),
                (Some(target), None) => target.max(before),
                (None, Some(arriving)) => arriving,
                (None, None) => before,
            }
        })
    }

    /// Index of the flow that user number `user` follows.
    pub fn flow_of(&self, user: u32) -> usize {
        let mut counted = 0u32;
        let mut weights = 0u32;
        for (at, flow) in self.flows.iter().enumerate() {
            match flow.share {
                Share::Count(count) if user < counted.saturating_add(count) => return at,
                Share::Count(count) => counted = counted.saturating_add(count),
                Share::Weight(weight) => weights = weights.saturating_add(weight),
            }
        }
        let mut place = user
            .saturating_sub(counted)
            .checked_rem(weights)
            .unwrap_or(0);
        let weighted = self
            .flows
            .iter()
            .enumerate()
            .filter_map(|(at, flow)| match flow.share {
                Share::Weight(weight) => Some((at, weight)),
                Share::Count(_) => None,
            });
        for (at, weight) in weighted {
            if place < weight {
                return at;
            }
            place -= weight;
        }
        0
    }

    /// How many users follow each flow in the end.
    pub fn users_of_flows(&self) -> Vec<u32> {
        let mut users = vec![0; self.flows.len()];
        (0..self.users()).for_each(|user| users[self.flow_of(user)] += 1);
        users
    }

    /// Every user needs a flow: counts alone must be enough for all.
    ///
    /// # Errors
    /// How many there are too many.
    pub fn check_counts(&self) -> Result<(), String> {
        let mut counted = 0u32;
        for flow in &self.flows {
            match flow.share {
                Share::Count(count) => counted = counted.saturating_add(count),
                Share::Weight(_) => return Ok(()),
            }
        }
        let users = self.users();
        match users > counted {
            true => Err(format!(
                "the flows' counts are for {counted} users and there are {users}: leave one \"count\" out, and that flow \
                 has everyone else"
            )),
            false => Ok(()),
        }
    }

    /// The protocols of all flows, for the report.
    pub fn protocol_names(&self) -> String {
        let mut names: Vec<&str> = self
            .flows
            .iter()
            .map(|f| f.endpoint.protocol.name())
            .collect();
        names.dedup();
        names.join(" + ")
    }
}

/// Each with its name and the path that servers usually serve it at, in the order of the type.
const PROTOCOLS: [(Protocol, &str, &str); 5] = [
    (Protocol::SocketIo, "socket.io", "/socket.io/"),
    (Protocol::WebSocket, "websocket", "/ws"),
    (Protocol::Sse, "sse", "/sse"),
    (Protocol::Centrifugo, "centrifugo", "/connection/websocket"),
    (Protocol::Bare, "bare", "/"),
];

impl Protocol {
    /// The protocol of that name; the error says which there are.
    pub fn named(name: &str) -> Result<Protocol, String> {
        let named = PROTOCOLS.map(|(protocol, own, _)| (own, protocol));
        chosen(name, "protocol", &named)
    }

    pub fn name(self) -> &'static str {
        PROTOCOLS[self as usize].1
    }

    pub fn usual_path(self) -> &'static str {
        PROTOCOLS[self as usize].2
    }
}

impl Transport {
    pub fn named(name: &str) -> Result<Transport, String> {
        let named = [
            ("websocket", Transport::WebSocket),
            ("polling", Transport::Polling),
            ("upgrade", Transport::Upgrade),
        ];
        chosen(name, "transport", &named)
    }
}

fn chosen<T: Copy>(name: &str, noun: &str, named: &[(&str, T)]) -> Result<T, String> {
    let found = named.iter().find(|(own, _)| *own == name);
    let hint = || problem::suggestion(name, named.iter().map(|(own, _)| *own));
    let chosen = found.map(|(_, chosen)| *chosen);
    chosen.ok_or_else(|| format!("{name:?} is no {noun}{}", hint()))
}

#[cfg(test)]
mod check_tests;
