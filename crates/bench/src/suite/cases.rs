//! Owns the cases of the suite: each is a scenario of the engine, in the words of the server that it runs on, and one figure.

use crate::outcome::{Figure, Outcome, Phase};
use crate::scenario::Protocol;
use crate::server::Kind;

/// Cases of one kind, in the order they are reported; as named by `--only`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Family {
    Idle,
    Connect,
    Ack,
    Delivery,
    Latency,
    Hold,
}

/// One thing to measure, with its size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Case {
    /// Memory between two counts of idle connections.
    Idle { low: u32, high: u32, plain: bool },
    /// CPU of accept, upgrade, Engine.IO open and Socket.IO connect.
    Connect { connections: u32 },
    /// CPU of an event and its acknowledgement; each user keeps `depth` in flight.
    Ack { connections: u32, depth: u32 },
    /// CPU of one delivery; `window` messages of one sender have not come back to it.
    Delivery { members: u32, window: u32 },
    /// p99 at a constant rate of deliveries to one room.
    Latency { members: u32, per_second: u32 },
    /// Many connections while messages flow.
    Hold {
        connections: u32,
        rooms: u32,
        per_second: u32,
    },
}

/// How much time a case may take, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    pub warm_up: u32,
    pub span: u32,
    pub settle: u32,
    pub hold: u32,
}

/// Bytes of the one argument, quotes included.
const ARGUMENT_BYTES: u32 = 130;
/// Envelope that bare servers do not have: `42["pub",` and `]`.
const ENVELOPE_BYTES: u32 = 10;
/// The most deliveries a second that other servers can finish rather than queue.
const OTHERS_MAX: u32 = 40_000;

/// Cases at full size.
pub fn full() -> Vec<Case> {
    let holds = [100, 1].map(|rooms| Case::Hold {
        connections: 18_000,
        rooms,
        per_second: 100,
    });
    cases([2_000, 18_000], 8_000, &[100, 1_000, 5_000], &holds)
}

/// The same shape in a few minutes; figures are rougher.
pub fn quick() -> Vec<Case> {
    let hold = Case::Hold {
        connections: 5_000,
        rooms: 50,
        per_second: 100,
    };
    cases([1_000, 6_000], 3_000, &[100, 1_000], &[hold])
}

fn cases([low, high]: [u32; 2], connections: u32, rooms: &[u32], holds: &[Case]) -> Vec<Case> {
    let mut cases = Vec::from([false, true].map(|plain| Case::Idle { low, high, plain }));
    cases.push(Case::Connect { connections });
    cases.extend([1, 8].map(|depth| Case::Ack {
        connections: 1_000,
        depth,
    }));
    let deliveries = rooms.iter().map(|&members| (members, 16));
    let deliveries = deliveries.chain([(1_000, 1)]);
    cases.extend(deliveries.map(|(members, window)| Case::Delivery { members, window }));
    cases.push(Case::Latency {
        members: 1_000,
        per_second: 20_000,
    });
    cases.extend_from_slice(holds);
    cases
}

impl Case {
    pub fn family(&self) -> Family {
        match self {
            Case::Idle { .. } => Family::Idle,
            Case::Connect { .. } => Family::Connect,
            Case::Ack { .. } => Family::Ack,
            Case::Delivery { .. } => Family::Delivery,
            Case::Latency { .. } => Family::Latency,
            Case::Hold { .. } => Family::Hold,
        }
    }

    /// Name of the case in results and on the command line.
    pub fn id(&self) -> String {
        match self {
            Case::Idle { plain: false, .. } => "idle".into(),
            Case::Idle { plain: true, .. } => "idle-plain".into(),
            Case::Connect { .. } => "connect".into(),
            Case::Ack { depth, .. } => format!("ack-depth-{depth}"),
            Case::Delivery { members, window } => format!("delivery-{members}-window-{window}"),
            Case::Latency { members, .. } => format!("latency-{members}"),
            Case::Hold {
                connections, rooms, ..
            } => format!("hold-{connections}-rooms-{rooms}"),
        }
    }

    pub fn figure(&self) -> Figure {
        match self {
            Case::Idle { .. } => Figure::BytesPerConnection,
            Case::Connect { .. } => Figure::CpuUsPerConnect,
            Case::Ack { .. } | Case::Delivery { .. } => Figure::CpuUsPerMessage,
            Case::Latency { .. } | Case::Hold { .. } => Figure::P99Ms,
        }
    }

    /// The floor that a case stands on; `None` where a bare loop has nothing to compare.
    pub fn floor(&self) -> Option<&'static str> {
        match self {
            Case::Idle { .. } | Case::Connect { .. } => Some("accept"),
            Case::Ack { .. } => Some("echo"),
            Case::Delivery { window: 1, .. } | Case::Latency { .. } => Some("send"),
            Case::Delivery { .. } => Some("send-coalesced"),
            Case::Hold { .. } => None,
        }
    }

    /// Whether a server can be measured in the case at all.
    pub fn suits(&self, kind: &Kind) -> bool {
        match (kind, self) {
            (Kind::Floor { mode, .. }, _) => self.floor() == Some(mode),
            // Only Sockeye speaks the plain protocol at `/ws`.
            (_, Case::Idle { plain: true, .. }) => matches!(kind, Kind::Sockeye { .. }),
            (
                Kind::Node { .. },
                Case::Hold {
                    connections,
                    rooms,
                    per_second,
                },
            ) => {
                kind.protocol() != Protocol::Bare && connections / rooms * per_second <= OTHERS_MAX
            }
            // Bare servers have one room.
            (_, Case::Hold { rooms, .. }) => *rooms == 1 || kind.protocol() != Protocol::Bare,
            _ => true,
        }
    }

    /// The scenario's text, for a server that speaks `protocol`.
    pub fn scenario(&self, protocol: Protocol, effort: Effort) -> String {
        let protocol = match self {
            Case::Idle { plain: true, .. } => Protocol::WebSocket,
            _ => protocol,
        };
        let bytes = match protocol {
            Protocol::Bare => ARGUMENT_BYTES + ENVELOPE_BYTES,
            _ => ARGUMENT_BYTES,
        };
        format!(
            "name = \"{}\"\nabout = \"{}\"\nprotocol = \"{}\"\n[payloads.argument]\nsize = \"{bytes}B\"\n{}\n{}\n",
            self.id(),
            self.about(),
            protocol.name(),
            self.phases(effort),
            self.flows()
        )
    }

    /// What tables call it.
    pub fn about(&self) -> String {
        use crate::report::number::digits;
        match *self {
            Case::Idle { low, high, plain } => {
                let what = if plain {
                    "idle, plain WebSocket"
                } else {
                    "idle connection"
                };
                format!("{what} ({} → {})", digits(low), digits(high))
            }
            Case::Connect { connections } => format!("connect, {} times", digits(connections)),
            Case::Ack { connections, depth } => {
                format!(
                    "acked event, {} connections, depth {depth}",
                    digits(connections)
                )
            }
            Case::Delivery { members, window } => {
                format!("delivery, room of {}, window {window}", digits(members))
            }
            Case::Latency {
                members,
                per_second,
            } => {
                format!("room of {}, {}/s", digits(members), digits(per_second))
            }
            Case::Hold {
                connections,
                rooms,
                per_second,
            } => {
                let rooms = match rooms {
                    1 => "to everyone".into(),
                    rooms => format!("in {} rooms", digits(rooms)),
                };
                format!(
                    "{} held, {per_second} messages/s {rooms}",
                    digits(connections)
                )
            }
        }
    }

    /// The last phase is the one that is measured.
    fn phases(&self, effort: Effort) -> String {
        let (rate, span) = match self {
            Case::Latency {
                members,
                per_second,
            } => {
                let rate = f64::from(*per_second) / f64::from(*members);
                (format!("rate = \"{rate}/s\"\n"), effort.span * 2)
            }
            Case::Hold { per_second, .. } => (format!("rate = \"{per_second}/s\"\n"), effort.hold),
            _ => (String::new(), effort.span),
        };
        let phase = |name: &str, connections: Option<u32>, seconds: u32| {
            let connections = connections.map_or(String::new(), |n| format!("connections = {n}\n"));
            format!("[[phases]]\nname = \"{name}\"\n{connections}{rate}duration = \"{seconds}s\"\n")
        };
        let (first, second) = match *self {
            Case::Idle { low, high, .. } => {
                let first = phase("few", Some(low), effort.settle);
                return first + &phase("many", Some(high), effort.settle);
            }
            Case::Connect { connections } => return phase("connected", Some(connections), 1),
            Case::Ack { connections, .. } | Case::Hold { connections, .. } => (connections, span),
            Case::Delivery { members, .. } | Case::Latency { members, .. } => (members, span),
        };
        phase("warm-up", Some(first), effort.warm_up) + &phase("measured", None, second)
    }

    fn flows(&self) -> String {
        let ready = "{ wait = \"warm-up\" }";
        let emit = |event: &str, more: &str| {
            format!("{{ emit = \"{event}\", payload = \"argument\", {more} }}")
        };
        match *self {
            Case::Idle { .. } | Case::Connect { .. } => {
                "[flows.user]\nsteps = [{ connect = true }]".into()
            }
            Case::Ack { depth, .. } => {
                let emit = emit("echo", &format!("ack = true, window = {depth}"));
                format!(
                    "[flows.user]\nsteps = [{{ connect = true }}, {ready}, {{ loop = [{emit}] }}]"
                )
            }
            Case::Delivery { window, .. } => {
                let emit = emit(
                    "pub",
                    &format!("to = \"bench\", echo = true, window = {window}"),
                );
                senders(1, "bench", &format!("{{ loop = [{emit}] }}"))
            }
            Case::Latency { .. } => {
                let emit = emit("pub", "to = \"bench\", echo = true");
                senders(
                    1,
                    "bench",
                    &format!("{{ loop = [{emit}], pace = \"phase\" }}"),
                )
            }
            Case::Hold { rooms, .. } => {
                let room = format!("room-${{user % {rooms}}}");
                let emit = emit("pub-own", &format!("to = \"{room}\", echo = true"));
                senders(
                    rooms,
                    &room,
                    &format!("{{ loop = [{emit}], pace = \"phase\" }}"),
                )
            }
        }
    }
}

/// So many send, and everyone is in a room.
fn senders(count: u32, room: &str, sends: &str) -> String {
    let begin = format!("{{ connect = true }}, {{ join = \"{room}\" }}");
    format!(
        "[flows.sender]\ncount = {count}\nsteps = [{begin}, {{ wait = \"warm-up\" }}, {sends}]\n\
         [flows.member]\nsteps = [{begin}]"
    )
}

impl Figure {
    /// What the run says; `None` when it says nothing.
    pub fn of(self, run: &Outcome) -> Option<f64> {
        let measured = run.phases.last()?;
        match self {
            Figure::BytesPerConnection => slope(run.phases.first()?, measured),
            Figure::CpuUsPerConnect => {
                let connects = run.totals.connects_succeeded;
                (connects > 0).then_some(run.server_cpu_s()? * 1e6 / connects as f64)
            }
            Figure::CpuUsPerMessage => cpu_us_per_message(measured),
            Figure::P99Ms => Some(measured.main_latency().percentiles()?.p99_ms),
        }
    }
}

/// CPU of the server by delivery or acknowledgement that reached a client.
pub fn cpu_us_per_message(phase: &Phase) -> Option<f64> {
    let messages = phase.received + phase.acked;
    (messages > 0).then_some(phase.server_cpu_s? * 1e6 / messages as f64)
}

/// The process itself, without any connection, cancels out.
fn slope(few: &Phase, many: &Phase) -> Option<f64> {
    let grown = many.server_rss_bytes? as f64 - few.server_rss_bytes? as f64;
    let more = many.connections.checked_sub(few.connections)?;
    (more > 0).then_some(grown / more as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn every_case_is_a_sound_scenario_for_every_server_it_suits() {
        let effort = Effort {
            warm_up: 1,
            span: 2,
            settle: 1,
            hold: 3,
        };
        for case in full().into_iter().chain(quick()) {
            for protocol in [Protocol::SocketIo, Protocol::Bare] {
                if matches!(
                    (case, protocol),
                    (Case::Hold { rooms: 2.., .. }, Protocol::Bare)
                ) {
                    continue;
                }
                let text = case.scenario(protocol, effort);
                let scenario = Scenario::parse(&case.id(), &text);
                let scenario = scenario.unwrap_or_else(|error| panic!("{error}\n{text}"));
                assert_eq!(scenario.name, case.id());
            }
        }
    }

    #[test]
    fn memory_is_the_slope_between_two_counts() {
        let phase = |connections, rss| Phase {
            connections,
            server_rss_bytes: Some(rss),
            ..Phase::default()
        };
        let run = Outcome {
            phases: vec![phase(1_000, 5_000_000), phase(6_000, 7_000_000)],
            ..Outcome::default()
        };
        assert_eq!(Figure::BytesPerConnection.of(&run), Some(400.0));
    }
}
