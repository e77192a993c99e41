//! Owns what one scenario run against one server yields: the structure of the JSON result file.
//! Every table, plot and plan is computed from this file and nothing else, so field names carry
//! their units and a missing figure is absent instead of zero.
//!
//! Times named `…_s` count from the start of the run. `file` reads and writes.

mod file;
mod memory;

pub use file::{ResultFile, load, save};
pub use memory::{BothEnds, Memory};

pub use crate::latency::{Distribution, Percentiles};
use crate::machine::Machine;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the result file; a reader refuses any other.
pub const FORMAT: u32 = 1;

/// How `Outcome::partial` begins when somebody asked for the end.
pub const INTERRUPTED: &str = "interrupted";

/// What joins several reasons in `Outcome::partial`.
pub const AND_THEN: &str = "; ";

/// How the reason ends when an acknowledgement did not come in time.
pub const NO_ANSWER: &str = "no acknowledgement in time";

/// One scenario run against one server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    pub scenario: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What the server is called in tables: `sockeye`, `socket.io`.
    pub server: String,
    /// Client protocol: `socket.io`, `websocket`, `sse`, `centrifugo`.
    pub protocol: String,
    /// Share of the scenario's full size that was run; anything but 1 is said prominently.
    pub scale: f64,
    /// Share of the full time.
    #[serde(default = "whole")]
    pub time_scale: f64,
    pub targets: Vec<String>,
    pub started_unix_ms: u64,
    pub duration_s: f64,
    pub machine: Machine,
    /// Why the run ended before its last phase: `interrupted` after Ctrl-C, or what went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    pub generator: Generator,
    pub phases: Vec<Phase>,
    pub totals: Totals,
    pub latency: Latencies,
    /// One entry for each `--pid`.
    pub processes: Vec<ServerProcess>,
    /// Memory of the whole machine, for runs whose two ends are on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub both_ends: Option<BothEnds>,
    /// Everything that went wrong, by kind: `connect: refused`, `server closed: 1011`.
    pub errors: BTreeMap<String, u64>,
    pub timeline: Vec<Second>,
    /// Remarks a reader of the figures must know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Facts about the generator, which decide whether latencies may be believed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    pub version: String,
    pub workers: u32,
    /// User + system time of all workers during the run.
    pub cpu_s: f64,
    /// CPU of the generator by message that it received.
    pub cpu_us_per_received: Option<f64>,
    /// How late a turn was against the generator's own schedule.
    pub turn_lag_p50_ms: Option<f64>,
    pub turn_lag_p99_ms: Option<f64>,
    pub turn_lag_max_ms: Option<f64>,
    /// How late it read what had come.
    pub read_lag_p50_ms: Option<f64>,
    pub read_lag_p99_ms: Option<f64>,
    pub read_lag_max_ms: Option<f64>,
    /// Why the generator measured itself: there is no latency table then.
    pub saturated: Option<String>,
}

/// One phase of the scenario: a row of the summary.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Phase {
    pub name: String,
    pub from_s: f64,
    pub duration_s: f64,
    /// Open connections, highest during the phase.
    pub connections: u64,
    pub connects: u64,
    pub sent: u64,
    pub expected: u64,
    pub received: u64,
    pub acked: u64,
    pub errors: u64,
    pub delivery: Distribution,
    pub ack: Distribution,
    /// CPU time of all server processes in this phase.
    pub server_cpu_s: Option<f64>,
    /// The same of each process, in the order of `Outcome::processes`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub process_cpu_s: Vec<f64>,
    /// Share of the time that the server's thread worst off was ready and had no core.
    pub server_waited: f64,
    /// Resident memory of all server processes, highest during the phase.
    pub server_rss_bytes: Option<u64>,
    pub generator_cpu_s: f64,
    /// Share of the time that the worker worst off was ready and had no core.
    pub generator_waited: f64,
    /// Set when the generator could not keep up in this phase.
    pub generator_saturated: Option<String>,
}

/// One second of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// End of this second.
    pub t_s: f64,
    /// Index into `phases`.
    pub phase: usize,
    /// Open at the end of the second.
    pub connections: u64,
    pub connects: u64,
    /// Connections that ended without the scenario asking for it.
    pub drops: u64,
    pub sent: u64,
    /// Deliveries that the messages sent in this second must cause.
    pub expected: u64,
    pub received: u64,
    pub acked: u64,
    pub errors: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Percentiles>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack: Option<Percentiles>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect: Option<Percentiles>,
    /// All server processes together; 100 = one core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_cpu_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_rss_bytes: Option<u64>,
    /// Share of the second that the server's thread worst off was ready and had no core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_waited: Option<f64>,
    pub generator_cpu_percent: f64,
    /// Some worker had no core left: latencies of this second are its own.
    #[serde(default, skip_serializing_if = "is_false")]
    pub generator_busy: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generator_lag_p99_ms: Option<f64>,
}

fn whole() -> f64 {
    1.0
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// Reasons with how often each occurred.
pub type Reasons = BTreeMap<String, u64>;

macro_rules! totals {
    ($($(#[$about:meta])* $name:ident;)*) => {
        /// What is counted: by a worker in a second, and settled of the whole run.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Totals {
            $($(#[$about])* pub $name: u64,)*
            /// Of all workers together.
            pub connections_peak: u64,
            pub connect_failures: Reasons,
            /// Connections that ended without the scenario asking for it, by reason.
            pub drops: Reasons,
            /// What else a user waited for in vain or was told, by reason: `expect: no "x" in time`.
            pub failures: Reasons,
            /// Rounds of loops that were due and not begun, by reason: load that was never offered.
            pub unbegun: Reasons,
        }

        impl Totals {
            /// Takes in another worker's or another second's; peaks do not add up.
            pub fn add(&mut self, more: &Totals) {
                $(self.$name += more.$name;)*
                let own = [&mut self.connect_failures, &mut self.drops, &mut self.failures, &mut self.unbegun];
                for (total, more) in own.into_iter().zip(more.reasons()) {
                    for (reason, count) in more {
                        *total.entry(reason.clone()).or_default() += count;
                    }
                }
            }
        }
    };
}

totals! {
    connects_attempted;
    connects_succeeded;
    /// Pings of the server that were answered.
    heartbeats;
    /// Messages of another run on the same server, counted nowhere else.
    foreign;
    sent;
    /// Events that reached clients: deliveries, copies, strays, and what the server sent by itself.
    heard;
    /// Deliveries that had to arrive; always `received + lost + not_waited_for`.
    expected;
    /// Expected deliveries that arrived, each counted once.
    received;
    /// Deliveries that may arrive or not, because their receiver was joining, leaving or lost.
    either_allowed;
    /// How many of those arrived.
    either_received;
    lost;
    duplicated;
    /// Arrived after a later message of the same publisher.
    reordered;
    /// Arrived although nobody sent it, or at a connection outside its room.
    stray;
    /// How many of those arrived at users that never asked for the room.
    outside;
    /// Own messages that had to come back to their sender, and did. Both are among the deliveries.
    echoes_expected;
    echoes_received;
    /// Joins and leaves asked for, and confirmed. Both are among the acknowledgements.
    joins_expected;
    joined;
    acks_expected;
    /// In time.
    acked;
    /// Answered after the step's `within`.
    acked_late;
    /// Deliveries, acknowledgements and connects that were under way or lost when somebody ended the
    /// wait for stragglers: which of both is not known.
    not_waited_for;
    acks_not_waited_for;
    connects_not_waited_for;
    /// Answers to what had been answered before, or was never asked.
    acks_duplicated;
    bytes_sent;
    bytes_received;
}

/// Latencies of the whole run by what was waited for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Latencies {
    /// From the moment a message was due until a member has it.
    pub delivery: Distribution,
    /// From the moment an event was due until its acknowledgement.
    pub ack: Distribution,
    /// From the moment a user's first connection was due until the protocol is ready.
    pub connect: Distribution,
    /// The same for every later connection: from the moment the one before ended.
    pub again: Distribution,
    /// How late the generator was against its schedule. Not in results.
    #[serde(skip_serializing_if = "Distribution::is_empty")]
    pub turn_lag: Distribution,
    /// How late it was to read what had come. Kept apart: there are as many as reads, which would
    /// hide the few turns that were late.
    #[serde(skip_serializing_if = "Distribution::is_empty")]
    pub read_lag: Distribution,
}

impl Latencies {
    fn all_mut(&mut self) -> [&mut Distribution; 6] {
        let Latencies {
            delivery,
            ack,
            connect,
            again,
            turn_lag,
            read_lag,
        } = self;
        [delivery, ack, connect, again, turn_lag, read_lag]
    }

    pub fn merge(&mut self, more: &Latencies) {
        let Latencies {
            delivery,
            ack,
            connect,
            again,
            turn_lag,
            read_lag,
        } = more;
        let more = [delivery, ack, connect, again, turn_lag, read_lag];
        self.all_mut()
            .into_iter()
            .zip(more)
            .for_each(|(own, more)| own.merge(more));
    }

    /// Those of which there are any, by name.
    pub fn kinds(&self) -> Vec<(&'static str, &Distribution)> {
        let kinds = [
            ("delivery", &self.delivery),
            ("acknowledgement", &self.ack),
            ("first connect", &self.connect),
            ("return", &self.again),
        ];
        let kinds = kinds.into_iter();
        kinds.filter(|(_, latency)| !latency.is_empty()).collect()
    }
}

/// One process of the measured server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerProcess {
    pub pid: u32,
    pub name: String,
    pub cpu_s: f64,
    /// Before the first connection.
    pub rss_before_bytes: u64,
    pub rss_peak_bytes: u64,
    pub rss_after_bytes: u64,
    /// (peak − before) by connection that the process held at its peak.
    pub rss_per_connection_bytes: Option<f64>,
    pub cpu_us_per_delivery: Option<f64>,
}

impl ServerProcess {
    /// Fills what follows from the figures: `connections` held by this process at its peak and
    /// `deliveries` (acknowledgements included) that it made.
    pub fn settle(&mut self, connections: u64, deliveries: u64) {
        let grown = self.rss_peak_bytes.saturating_sub(self.rss_before_bytes);
        self.rss_per_connection_bytes = by_connection(grown, connections);
        self.cpu_us_per_delivery = (deliveries > 0).then(|| self.cpu_s * 1e6 / deliveries as f64);
    }
}

/// Less growth than this may as well be the kernel's own rounding: its counters of resident memory
/// run 64 pages behind on each core.
const GROWTH_MIN_BYTES: u64 = 512 * 1024;

fn by_connection(grown_bytes: u64, connections: u64) -> Option<f64> {
    let is_measurable = connections > 0 && grown_bytes >= GROWTH_MIN_BYTES;
    is_measurable.then(|| grown_bytes as f64 / connections as f64)
}

impl Second {
    /// What a view with room for one latency shows: deliveries, or else acknowledgements.
    pub fn latency(&self) -> Option<Percentiles> {
        self.delivery.or(self.ack)
    }
}

impl Outcome {
    /// CPU time of all server processes; `None` when none was watched.
    pub fn server_cpu_s(&self) -> Option<f64> {
        (!self.processes.is_empty()).then(|| self.processes.iter().map(|p| p.cpu_s).sum())
    }

    /// Highest resident memory of all server processes together, as sampled each second.
    pub fn server_rss_peak_bytes(&self) -> Option<u64> {
        let sampled = self
            .timeline
            .iter()
            .filter_map(|s| s.server_rss_bytes)
            .max();
        let ends = || self.processes.iter().map(|p| p.rss_peak_bytes).sum();
        sampled.or_else(|| (!self.processes.is_empty()).then(ends))
    }

    /// Deliveries and acknowledgements that reached clients, per second of the phases. What users
    /// did while others were still brought in is in the totals, and in no rate.
    pub fn received_per_s(&self) -> f64 {
        let received: u64 = self.phases.iter().map(|p| p.received + p.acked).sum();
        if self.duration_s > 0.0 {
            received as f64 / self.duration_s
        } else {
            0.0
        }
    }

    /// Cores that all server processes used during the phases; `None` when none was watched.
    pub fn server_cores(&self) -> Option<f64> {
        let used: Vec<f64> = self.phases.iter().filter_map(|p| p.server_cpu_s).collect();
        let is_measured = self.duration_s > 0.0 && !used.is_empty();
        is_measured.then(|| used.iter().sum::<f64>() / self.duration_s)
    }

    /// CPU of all server processes by delivery or acknowledgement.
    pub fn cpu_us_per_delivery(&self) -> Option<f64> {
        let received = self.totals.received + self.totals.acked;
        let cpu_s = self.server_cpu_s().filter(|_| received > 0)?;
        Some(cpu_s * 1e6 / received as f64)
    }

    /// Growth of all server processes by connection at the peak; `None` where it is too little to be
    /// measured.
    pub fn rss_per_connection_bytes(&self) -> Option<f64> {
        let grown = |p: &ServerProcess| p.rss_peak_bytes.saturating_sub(p.rss_before_bytes);
        let grown: u64 = self.processes.iter().map(grown).sum();
        by_connection(grown, self.totals.connections_peak)
    }

    /// Counts growth from before the first round on: memory that a process kept from rounds before
    /// was needed for their connections.
    pub fn measure_memory_since(&mut self, first: &Outcome) {
        for process in &mut self.processes {
            let then = first.processes.iter().find(|p| p.pid == process.pid);
            let before = then.map_or(process.rss_before_bytes, |then| then.rss_before_bytes);
            process.rss_before_bytes = process.rss_before_bytes.min(before);
            let connections = self.totals.connections_peak / first.processes.len().max(1) as u64;
            let grown = process
                .rss_peak_bytes
                .saturating_sub(process.rss_before_bytes);
            process.rss_per_connection_bytes = by_connection(grown, connections);
        }
    }

    /// Connects per second while users were brought in: of the first tenth of that time, of all, of the last tenth. `None` where it was over in a moment.
    pub fn accept_rates(&self) -> Option<[f64; 3]> {
        let connects: Vec<u64> = self.timeline.iter().map(|second| second.connects).collect();
        let first = connects.iter().position(|count| *count > 0)?;
        let last = connects.iter().rposition(|count| *count > 0)?;
        let connects = &connects[first..=last];
        let tenth = connects.len() / 10;
        let rate = |part: &[u64]| part.iter().sum::<u64>() as f64 / part.len() as f64;
        (tenth > 0).then(|| {
            let end = &connects[connects.len() - tenth..];
            [rate(&connects[..tenth]), rate(connects), rate(end)]
        })
    }

    /// Failed connects, drops, lost messages and every other kind.
    pub fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }

    /// The reason why no latency of this run may be shown: it holds for the whole as soon as the
    /// generator was too slow in one phase.
    pub fn latency_refused(&self) -> Option<String> {
        let in_phase = |phase: &Phase| {
            let why = phase.generator_saturated.as_deref()?;
            Some(format!("{why} (phase {})", phase.name))
        };
        let blamed = self.phases.iter().find_map(in_phase);
        blamed.or_else(|| self.generator.saturated.clone())
    }

    /// Whether latencies of one phase may not be shown: its own fault, or one that no phase can be
    /// blamed for.
    pub fn is_refused_in(&self, phase: &Phase) -> bool {
        let blamed = self
            .phases
            .iter()
            .any(|phase| phase.generator_saturated.is_some());
        phase.generator_saturated.is_some() || (!blamed && self.generator.saturated.is_some())
    }

    /// What a table with room for one latency shows: deliveries, or else acknowledgements.
    pub fn main_latency(&self) -> &Distribution {
        main(&self.latency.delivery, &self.latency.ack)
    }

    /// Leaves the seconds and all single latencies out: of a hundred runs, they would be most of a file.
    pub fn thin_out(&mut self) {
        self.timeline.clear();
        let of_phases = self.phases.iter_mut();
        let of_phases = of_phases.flat_map(|phase| [&mut phase.delivery, &mut phase.ack]);
        for latency in self.latency.all_mut().into_iter().chain(of_phases) {
            *latency = latency.thinned();
        }
    }
}

/// How the note begins that tells of a watched process that is gone.
pub const PROCESS_ENDED: &str = "during the run ended server process";

impl Outcome {
    /// Notes of watched processes that were gone at the end.
    pub fn ended_processes(&self) -> impl Iterator<Item = String> {
        let notes = self.notes.iter();
        notes
            .filter(|note| note.starts_with(PROCESS_ENDED))
            .cloned()
    }
}

impl Phase {
    /// Deliveries and acknowledgements that reached clients, per second.
    pub fn rate(&self) -> Option<f64> {
        let received = self.received + self.acked;
        (self.duration_s > 0.0).then(|| received as f64 / self.duration_s)
    }

    pub fn main_latency(&self) -> &Distribution {
        main(&self.delivery, &self.ack)
    }
}

fn main<'a>(delivery: &'a Distribution, ack: &'a Distribution) -> &'a Distribution {
    if delivery.is_empty() { ack } else { delivery }
}

impl Totals {
    fn reasons(&self) -> [&Reasons; 4] {
        let Totals {
            connect_failures,
            drops,
            failures,
            unbegun,
            ..
        } = self;
        [connect_failures, drops, failures, unbegun]
    }

    /// All that went wrong, as far as it is known before accounts are settled.
    pub fn fault_count(&self) -> u64 {
        let reasons = self.reasons().into_iter();
        reasons.flat_map(|reasons| reasons.values()).sum()
    }

    pub fn failed_connects(&self) -> u64 {
        self.connect_failures.values().sum()
    }

    pub fn dropped(&self) -> u64 {
        self.drops.values().sum()
    }

    /// Answers and events that were waited for in vain, and complaints of the server.
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    /// Acknowledgements that were still waited for when the run ended; those that were given up
    /// before are failures.
    pub fn unanswered(&self) -> u64 {
        let is_late = |(why, _): &(&String, &u64)| why.ends_with(NO_ANSWER);
        let given_up: u64 = self.failures.iter().filter(is_late).map(|(_, n)| n).sum();
        let missing = self.acks_expected.saturating_sub(self.acked);
        missing.saturating_sub(given_up + self.acks_not_waited_for)
    }

    /// Acknowledgements that never came.
    pub fn acks_missing(&self) -> u64 {
        self.acks_expected
            .saturating_sub(self.acked + self.acked_late + self.acks_not_waited_for)
    }

    /// Share of all deliveries that could go either way, so that their loss would not show.
    pub fn unjudged(&self) -> f64 {
        let all = (self.expected + self.either_allowed).max(1);
        self.either_allowed as f64 / all as f64
    }

    pub fn rounds_unbegun(&self) -> u64 {
        self.unbegun.values().sum()
    }

    /// Every expected delivery arrived exactly once and in order.
    pub fn is_clean(&self) -> bool {
        self.lost + self.not_waited_for + self.duplicated + self.reordered + self.stray == 0
            && self.acked >= self.acks_expected
    }
}

/// The same scenario on several servers in one run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Comparison {
    pub scenario: String,
    /// In the order of the command line; the first is what ratios are drawn to.
    pub servers: Vec<Contestant>,
    /// How the rounds were interleaved, for the reader.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Several servers on many cases.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Suite {
    pub cases: Vec<CaseResult>,
}

/// One case of the suite, with every round of every server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CaseResult {
    pub case: String,
    pub about: String,
    /// Subject of the case; `suite` says how it follows from a run.
    pub figure: Figure,
    pub servers: Vec<Contestant>,
    /// Runs without any result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
}

/// Kind of figure that a case yields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    BytesPerConnection,
    CpuUsPerConnect,
    CpuUsPerMessage,
    P99Ms,
}

impl Suite {
    /// Names in the order in which they first occur.
    pub fn servers(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for server in self.cases.iter().flat_map(|case| &case.servers) {
            if !names.contains(&server.name) {
                names.push(server.name.clone());
            }
        }
        names
    }

    pub fn runs(&self) -> Vec<&Outcome> {
        let servers = self.cases.iter().flat_map(|case| &case.servers);
        servers.flat_map(|server| &server.runs).collect()
    }

    /// Takes over the cases of `old` that were not measured again, in its order.
    pub fn keep(&mut self, old: Suite) {
        let mut fresh = std::mem::take(&mut self.cases);
        for case in old.cases {
            match fresh.iter().position(|own| own.case == case.case) {
                Some(at) => self.cases.push(fresh.remove(at)),
                None => self.cases.push(case),
            }
        }
        self.cases.append(&mut fresh);
    }
}

impl CaseResult {
    pub fn server(&self, name: &str) -> Option<&Contestant> {
        self.servers.iter().find(|server| server.name == name)
    }
}

impl Contestant {
    pub fn new(name: &str) -> Contestant {
        Contestant {
            name: name.to_owned(),
            runs: Vec::new(),
        }
    }
}

/// The median.
pub fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => None,
        len if len % 2 == 1 => Some(values[half]),
        _ => Some((values[half - 1] + values[half]) / 2.0),
    }
}

/// One server of a comparison with its rounds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Contestant {
    pub name: String,
    pub runs: Vec<Outcome>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn run(before: u64, peak: u64) -> Outcome {
        let process = ServerProcess {
            pid: 7,
            rss_before_bytes: before,
            rss_peak_bytes: peak,
            ..ServerProcess::default()
        };
        let mut run = Outcome {
            processes: vec![process],
            ..Outcome::default()
        };
        run.totals.connections_peak = 1_000;
        run
    }

    #[test]
    fn accepting_is_compared_from_first_to_last() {
        let second = |connects| Second {
            connects,
            ..Second::default()
        };
        let rates = [0, 50, 40, 40, 40, 40, 40, 40, 40, 40, 30, 0];
        let run = Outcome {
            timeline: rates.map(second).to_vec(),
            ..Outcome::default()
        };
        assert_eq!(run.accept_rates(), Some([50.0, 40.0, 30.0]));
        let brief = Outcome {
            timeline: [100, 3].map(second).to_vec(),
            ..Outcome::default()
        };
        assert_eq!(brief.accept_rates(), None);
    }

    #[test]
    fn the_middle_of_an_even_count_is_between_the_two() {
        assert_eq!(middle(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(middle(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(middle(vec![]), None);
    }

    #[test]
    fn a_second_suite_replaces_its_cases_and_keeps_the_others() {
        let suite = |cases: &[(&str, &str)]| Suite {
            cases: cases
                .iter()
                .map(|(case, about)| CaseResult {
                    case: (*case).into(),
                    about: (*about).into(),
                    figure: Figure::P99Ms,
                    servers: Vec::new(),
                    failures: Vec::new(),
                })
                .collect(),
        };
        let mut new = suite(&[("d", "new"), ("b", "new")]);
        new.keep(suite(&[("a", "old"), ("b", "old"), ("c", "old")]));
        let kept = new.cases.iter().map(|case| (&*case.case, &*case.about));
        let expected = [("a", "old"), ("b", "new"), ("c", "old"), ("d", "new")];
        assert_eq!(kept.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_process_that_kept_its_memory_needed_it_all_the_same() {
        let (first, mut later) = (run(10 * MIB, 12 * MIB), run(12 * MIB, 12 * MIB));
        assert_eq!(later.rss_per_connection_bytes(), None, "it did not grow");
        later.measure_memory_since(&first);
        assert_eq!(
            later.rss_per_connection_bytes(),
            first.rss_per_connection_bytes()
        );
        let own = later.processes[0].rss_per_connection_bytes;
        assert_eq!(own, Some((2 * MIB) as f64 / 1_000.0));
    }

    #[test]
    fn growth_below_what_can_be_measured_is_no_figure() {
        assert_eq!(
            run(10 * MIB, 10 * MIB + 20_480).rss_per_connection_bytes(),
            None
        );
    }

    #[test]
    fn answers_given_up_are_not_missing_twice() {
        let mut totals = Totals {
            acks_expected: 10,
            acked: 4,
            ..Totals::default()
        };
        assert_eq!(totals.unanswered(), 6);
        totals.failures.insert(format!("emit: {NO_ANSWER}"), 5);
        totals.failures.insert("expect: no \"x\" in time".into(), 3);
        assert_eq!(totals.unanswered(), 1);
    }
}
