//! Owns what one scenario run against one server yields: the structure of the JSON result file.
//! Every table, plot and plan is computed from this file and nothing else, so field names carry
//! their units and a missing figure is absent instead of zero.
//!
//! Times named `…_s` count from the start of the run. `file` reads and writes.

mod file;
mod latency;
pub mod machine;
mod memory;
pub mod number;
mod several;
mod totals;
pub mod verdict;

pub use file::{ResultFile, load, save};
pub use latency::{Distribution, Percentiles};
pub use memory::{BothEnds, Memory};
pub use several::{CaseResult, Comparison, Contestant, Figure, Suite, middle};
pub use totals::{Reasons, Totals};

use machine::Machine;
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
    /// Of users that were connected before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub again: Option<Percentiles>,
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
    /// All phases as if they were one.
    pub fn whole(&self, name: &str) -> Phase {
        let phases = self.phases.iter();
        let cpu_s: Vec<f64> = phases.clone().filter_map(|p| p.server_cpu_s).collect();
        Phase {
            name: name.to_owned(),
            duration_s: self.duration_s,
            connections: self.totals.connections_peak,
            received: phases.clone().map(|phase| phase.received).sum(),
            acked: phases.map(|phase| phase.acked).sum(),
            errors: self.error_count(),
            delivery: self.latency.delivery.clone(),
            ack: self.latency.ack.clone(),
            server_cpu_s: (!cpu_s.is_empty()).then(|| cpu_s.iter().sum()),
            server_rss_bytes: self.server_rss_peak_bytes(),
            ..Phase::default()
        }
    }

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
        self.whole("").rate().unwrap_or(0.0)
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
    /// CPU of the server by delivery or acknowledgement that reached a client.
    pub fn cpu_us_per_message(&self) -> Option<f64> {
        let messages = self.received + self.acked;
        (messages > 0).then_some(self.server_cpu_s? * 1e6 / messages as f64)
    }

    /// Deliveries and acknowledgements that reached clients, per second.
    pub fn rate(&self) -> Option<f64> {
        let received = self.received + self.acked;
        (self.duration_s > 0.0).then(|| received as f64 / self.duration_s)
    }

    /// Cores that all server processes used; `None` when none was watched.
    pub fn server_cores(&self) -> Option<f64> {
        let is_measured = self.duration_s > 0.0;
        Some(self.server_cpu_s? / self.duration_s).filter(|_| is_measured)
    }

    pub fn main_latency(&self) -> &Distribution {
        main(&self.delivery, &self.ack)
    }
}

fn main<'a>(delivery: &'a Distribution, ack: &'a Distribution) -> &'a Distribution {
    if delivery.is_empty() { ack } else { delivery }
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
}
