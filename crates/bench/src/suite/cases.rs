//! Owns the cases of the suite: each is a scenario of the engine, in the words of the server that it runs on, and one figure.

use crate::outcome::{Figure, Outcome, Phase};
use crate::report::number::digits;
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

/// One thing to measure: a scenario in any server's words, and what is looked at.
#[derive(Clone, Debug)]
pub struct Case {
    /// Name in results and on the command line.
    pub id: String,
    /// What tables call it.
    pub about: String,
    pub family: Family,
    pub figure: Figure,
    /// The floor that it stands on; `None` where a bare loop has nothing to compare.
    floor: Option<&'static str>,
    /// It is about the plain protocol, which only Sockeye speaks.
    is_plain: bool,
    rooms: u32,
    /// That are due in a second.
    deliveries: u32,
    /// The last phase is the one that is measured.
    phases: String,
    flows: String,
}

/// How much time a case may take, in seconds.
#[derive(Clone, Copy, Debug)]
struct Effort {
    warm_up: u32,
    span: u32,
    settle: u32,
    hold: u32,
}

const FULL: Effort = Effort {
    warm_up: 2,
    span: 5,
    settle: 3,
    hold: 30,
};
const QUICK: Effort = Effort {
    warm_up: 1,
    span: 2,
    settle: 2,
    hold: 5,
};

/// Bytes of the one argument, quotes included.
const ARGUMENT_BYTES: u32 = 130;
/// Envelope that bare servers do not have: `42["pub",` and `]`.
const ENVELOPE_BYTES: u32 = 10;
/// The most deliveries a second that other servers can finish rather than queue.
const OTHERS_MAX: u32 = 40_000;
const USER: &str = "[flows.user]\nsteps = [{ connect = true }]";

/// Cases at full size.
pub fn full() -> Vec<Case> {
    let holds = [100, 1].map(|rooms| hold(18_000, rooms, 100, FULL));
    cases([2_000, 18_000], 8_000, &[100, 1_000, 5_000], holds, FULL)
}

/// The same shape in a few minutes; figures are rougher.
pub fn quick() -> Vec<Case> {
    let hold = hold(5_000, 50, 100, QUICK);
    cases([1_000, 6_000], 3_000, &[100, 1_000], [hold], QUICK)
}

fn cases(
    idles: [u32; 2],
    connects: u32,
    rooms: &[u32],
    holds: impl IntoIterator<Item = Case>,
    effort: Effort,
) -> Vec<Case> {
    let mut cases = Vec::from([false, true].map(|is_plain| idle(idles, is_plain, effort)));
    cases.push(connect(connects));
    cases.extend([1, 8].map(|depth| ack(1_000, depth, effort)));
    let deliveries = rooms.iter().map(|&members| (members, 16));
    let deliveries = deliveries.chain([(1_000, 1)]);
    cases.extend(deliveries.map(|(members, window)| delivery(members, window, effort)));
    cases.push(latency(1_000, 20_000, effort));
    cases.extend(holds);
    cases
}

/// Memory between two counts of idle connections.
fn idle([low, high]: [u32; 2], is_plain: bool, effort: Effort) -> Case {
    let (id, what) = match is_plain {
        true => ("idle-plain", "idle, plain WebSocket"),
        false => ("idle", "idle connection"),
    };
    let about = format!("{what} ({} → {})", digits(low), digits(high));
    let few = phase("few", Some(low), None, effort.settle);
    Case {
        floor: Some("accept"),
        is_plain,
        phases: few + &phase("many", Some(high), None, effort.settle),
        ..Case::new(id, about, Family::Idle, Figure::BytesPerConnection)
    }
}

/// CPU of accept, upgrade, Engine.IO open and Socket.IO connect.
fn connect(connections: u32) -> Case {
    let about = format!("connect, {} times", digits(connections));
    Case {
        floor: Some("accept"),
        phases: phase("connected", Some(connections), None, 1),
        ..Case::new("connect", about, Family::Connect, Figure::CpuUsPerConnect)
    }
}

/// CPU of an event and its acknowledgement; each user keeps `depth` in flight.
fn ack(connections: u32, depth: u32, effort: Effort) -> Case {
    let id = format!("ack-depth-{depth}");
    let about = format!(
        "acked event, {} connections, depth {depth}",
        digits(connections)
    );
    let emit = format!("emit = \"echo\", payload = \"argument\", ack = true, window = {depth}");
    let steps =
        format!("{{ connect = true }}, {{ wait = \"warm-up\" }}, {{ loop = [{{ {emit} }}] }}");
    Case {
        floor: Some("echo"),
        phases: warmed(connections, None, effort.warm_up, effort.span),
        flows: format!("[flows.user]\nsteps = [{steps}]"),
        ..Case::new(&id, about, Family::Ack, Figure::CpuUsPerMessage)
    }
}

/// CPU of one delivery; `window` messages of one sender have not come back to it.
fn delivery(members: u32, window: u32, effort: Effort) -> Case {
    let id = format!("delivery-{members}-window-{window}");
    let about = format!("delivery, room of {}, window {window}", digits(members));
    let floor = if window == 1 {
        "send"
    } else {
        "send-coalesced"
    };
    Case {
        floor: Some(floor),
        phases: warmed(members, None, effort.warm_up, effort.span),
        flows: senders(1, "pub", "bench", &format!(", window = {window} }}]")),
        ..Case::new(&id, about, Family::Delivery, Figure::CpuUsPerMessage)
    }
}

/// p99 at a constant rate of deliveries to one room.
fn latency(members: u32, deliveries: u32, effort: Effort) -> Case {
    let id = format!("latency-{members}");
    let about = format!("room of {}, {}/s", digits(members), digits(deliveries));
    let rate = f64::from(deliveries) / f64::from(members);
    Case {
        floor: Some("send"),
        deliveries,
        phases: warmed(members, Some(rate), effort.warm_up, effort.span * 2),
        flows: senders(1, "pub", "bench", " }], pace = \"phase\""),
        ..Case::new(&id, about, Family::Latency, Figure::P99Ms)
    }
}

/// Many connections while messages flow.
fn hold(connections: u32, rooms: u32, per_second: u32, effort: Effort) -> Case {
    let id = format!("hold-{connections}-rooms-{rooms}");
    let where_to = match rooms {
        1 => "to everyone".into(),
        rooms => format!("in {} rooms", digits(rooms)),
    };
    let about = format!(
        "{} held, {per_second} messages/s {where_to}",
        digits(connections)
    );
    let room = format!("room-${{user % {rooms}}}");
    Case {
        rooms,
        deliveries: connections / rooms * per_second,
        phases: warmed(
            connections,
            Some(per_second.into()),
            effort.warm_up,
            effort.hold,
        ),
        flows: senders(rooms, "pub-own", &room, " }], pace = \"phase\""),
        ..Case::new(&id, about, Family::Hold, Figure::P99Ms)
    }
}

fn phase(name: &str, connections: Option<u32>, rate: Option<f64>, seconds: u32) -> String {
    let connections = connections.map_or(String::new(), |n| format!("connections = {n}\n"));
    let rate = rate.map_or(String::new(), |rate| format!("rate = \"{rate}/s\"\n"));
    format!("[[phases]]\nname = \"{name}\"\n{connections}{rate}duration = \"{seconds}s\"\n")
}

fn warmed(connections: u32, rate: Option<f64>, warm_up: u32, seconds: u32) -> String {
    phase("warm-up", Some(connections), rate, warm_up) + &phase("measured", None, rate, seconds)
}

/// So many send an event to their room, and everyone is in one; `more` ends the loop.
fn senders(count: u32, event: &str, room: &str, more: &str) -> String {
    let begin = format!("{{ connect = true }}, {{ join = \"{room}\" }}");
    let emit =
        format!("{{ emit = \"{event}\", payload = \"argument\", to = \"{room}\", echo = true");
    format!(
        "[flows.sender]\ncount = {count}\nsteps = [{begin}, {{ wait = \"warm-up\" }}, {{ loop = [{emit}{more} }}]\n\
         [flows.member]\nsteps = [{begin}]"
    )
}

impl Case {
    fn new(id: &str, about: String, family: Family, figure: Figure) -> Case {
        Case {
            id: id.to_owned(),
            about,
            family,
            figure,
            floor: None,
            is_plain: false,
            rooms: 1,
            deliveries: 0,
            phases: String::new(),
            flows: USER.to_owned(),
        }
    }

    /// Whether a server can be measured in the case at all.
    pub fn suits(&self, kind: &Kind) -> bool {
        match kind {
            Kind::Floor { mode, .. } => self.floor == Some(mode),
            Kind::Sockeye { .. } => true,
            Kind::Node { .. } if self.deliveries > OTHERS_MAX => false,
            // Bare servers have one room.
            _ => !self.is_plain && (self.rooms == 1 || kind.protocol() != Protocol::Bare),
        }
    }

    /// The scenario's text, for a server that speaks `protocol`.
    pub fn scenario(&self, protocol: Protocol) -> String {
        let (protocol, envelope) = match protocol {
            _ if self.is_plain => (Protocol::WebSocket, 0),
            Protocol::Bare => (protocol, ENVELOPE_BYTES),
            _ => (protocol, 0),
        };
        format!(
            "name = \"{}\"\nabout = \"{}\"\nprotocol = \"{}\"\n[payloads.argument]\nsize = \"{}B\"\n{}\n{}\n",
            self.id,
            self.about,
            protocol.name(),
            ARGUMENT_BYTES + envelope,
            self.phases,
            self.flows
        )
    }
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
        for case in full().into_iter().chain(quick()) {
            for protocol in [Protocol::SocketIo, Protocol::Bare] {
                let (url, pid) = (String::new(), 1);
                if !case.suits(&Kind::External { url, pid, protocol }) && !case.is_plain {
                    continue;
                }
                let text = case.scenario(protocol);
                let scenario = Scenario::parse(&case.id, &text);
                let scenario = scenario.unwrap_or_else(|error| panic!("{error}\n{text}"));
                assert_eq!(scenario.name, case.id);
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
