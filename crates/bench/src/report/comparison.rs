//! Owns the report of several servers doing the same work: the ratio table, and their lines beside
//! each other. Ratios are drawn to the first server, between the middles of the rounds.

use super::document::{Block, Document, Section};
use super::run::{notes, origins};
use super::table::Table;
use super::{course, figures, rounds};
use outcome::number::{bytes, digits, short};
use outcome::verdict::{self, Badge, Level, Verdict};
use outcome::{Comparison, Contestant, Outcome, Percentiles};

/// A row of the ratio table.
struct Metric {
    name: &'static str,
    /// What the headline calls it: one of those that people ask for first.
    asked: Option<&'static str>,
    of: fn(&Outcome) -> Option<f64>,
    write: fn(f64) -> String,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Figure,
    /// Not compared when one of them was the generator's own.
    Latency,
    /// Counts of faults are shown, but a ratio to none says nothing.
    Faults,
}

const METRICS: [Metric; 14] = [
    figure("connections held", |run| {
        Some(run.totals.connections_peak as f64)
    }),
    figure("messages received/s", |run| {
        Some(run.received_per_s()).filter(|rate| *rate > 0.0)
    }),
    latency("p50 ms", |run| main(run, |p| p.p50_ms)),
    latency("p95 ms", |run| main(run, |p| p.p95_ms)),
    latency("p99 ms", |run| main(run, |p| p.p99_ms)).asked("p99 latency"),
    latency("p99.9 ms", |run| main(run, |p| p.p999_ms)),
    latency("first connect p99 ms", |run| {
        Some(run.latency.connect.percentiles()?.p99_ms)
    }),
    latency("return p99 ms", |run| {
        Some(run.latency.again.percentiles()?.p99_ms)
    }),
    figure("server CPU s", Outcome::server_cpu_s),
    figure("server CPU us per message", Outcome::cpu_us_per_delivery).asked("CPU per message"),
    memory("server memory, most", |run| {
        run.server_rss_peak_bytes().map(|b| b as f64)
    }),
    memory("memory per connection", Outcome::rss_per_connection_bytes)
        .asked("memory per connection"),
    faults("lost or duplicated", |run| {
        Some((run.totals.lost + run.totals.duplicated) as f64)
    }),
    faults("errors", |run| Some(run.error_count() as f64)),
];

const fn metric(name: &'static str, of: fn(&Outcome) -> Option<f64>, kind: Kind) -> Metric {
    Metric {
        name,
        asked: None,
        of,
        write: short,
        kind,
    }
}

const fn figure(name: &'static str, of: fn(&Outcome) -> Option<f64>) -> Metric {
    metric(name, of, Kind::Figure)
}

const fn latency(name: &'static str, of: fn(&Outcome) -> Option<f64>) -> Metric {
    metric(name, of, Kind::Latency)
}

const fn memory(name: &'static str, of: fn(&Outcome) -> Option<f64>) -> Metric {
    Metric {
        write: bytes,
        ..metric(name, of, Kind::Figure)
    }
}

const fn faults(name: &'static str, of: fn(&Outcome) -> Option<f64>) -> Metric {
    Metric {
        write: |count| digits(count as u64),
        ..metric(name, of, Kind::Faults)
    }
}

fn main(run: &Outcome, of: fn(Percentiles) -> f64) -> Option<f64> {
    run.main_latency().percentiles().map(of)
}

impl Metric {
    const fn asked(self, words: &'static str) -> Metric {
        Metric {
            asked: Some(words),
            ..self
        }
    }

    fn values(&self, server: &Contestant) -> Vec<f64> {
        server.runs.iter().filter_map(self.of).collect()
    }
}

/// Those that can be compared.
fn metrics(comparison: &Comparison) -> impl Iterator<Item = &'static Metric> {
    let is_refused = refused(comparison).is_some();
    let metrics = METRICS.iter();
    metrics.filter(move |metric| !(is_refused && metric.kind == Kind::Latency))
}

/// The report of `comparison`, read from the file called `source`.
pub fn document(comparison: &Comparison, source: &str) -> Document {
    let servers = &comparison.servers;
    let lines: Vec<(String, &Outcome)> = (servers.iter())
        .filter_map(|server| Some((server.name.clone(), middle_run(server)?)))
        .collect();
    let first = lines.first().map(|(_, run)| *run);
    let mut sections = vec![Section::new("Ratios", ratio_blocks(comparison))];
    if !lines.is_empty() {
        let rows = lines
            .iter()
            .map(|(name, run)| figures::whole_row(name, run));
        sections.push(Section::new("Summary", figures::summary_of("server", rows)));
        let plots = course::of_servers(&lines, refused(comparison).is_none());
        sections.push(Section::new("Side by side", vec![Block::Plots(plots)]));
    }
    sections.extend(notes(&comparison.notes));
    let names: Vec<&str> = servers.iter().map(|server| &*server.name).collect();
    let rounds = |server: &Contestant| format!("{} ({} rounds)", server.name, server.runs.len());
    let badges = servers.iter().map(|server| Badge::fact(rounds(server)));
    Document {
        title: format!("{}: {}", comparison.scenario, names.join(" and ")),
        description: first.map_or(String::new(), |run| run.description.clone()),
        badges: first
            .map_or(Vec::new(), verdict::scale_badges)
            .into_iter()
            .chain(badges)
            .collect(),
        verdict: judgement(comparison),
        tiles: Vec::new(),
        sections,
        origin: origins(first, source),
    }
}

/// The round with the middle CPU time (the middle p99 when no process was watched).
fn middle_run(server: &Contestant) -> Option<&Outcome> {
    let figure = |run: &Outcome| run.server_cpu_s().unwrap_or(run.main_latency().at_ms(0.99));
    rounds::middle_run(server, figure)
}

fn ratio_blocks(comparison: &Comparison) -> Vec<Block> {
    let mut blocks = vec![Block::Table(ratio_table(comparison))];
    let rounds = comparison.servers.iter().map(|server| server.runs.len());
    if let Some(rounds) = rounds.max().filter(|rounds| *rounds > 1) {
        let text = format!("Middle of {rounds} rounds, range in brackets; ratios of the middles.");
        blocks.push(Block::Text(text));
    }
    let has_memory = |run: &Outcome| run.rss_per_connection_bytes().is_some();
    if comparison.runs().any(has_memory) {
        blocks.push(Block::Text(figures::MEMORY_LEGEND.into()));
    }
    let why = refused(comparison);
    blocks.extend(why.map(|why| Block::Refusal(format!("latencies, because {why}."))));
    blocks
}

fn ratio_table(comparison: &Comparison) -> Table {
    let servers = &comparison.servers;
    let names: Vec<&str> = servers.iter().map(|server| &*server.name).collect();
    let mut table = Table::new([vec![String::new()], rounds::columns(&names)].concat());
    for metric in metrics(comparison) {
        let values: Vec<Vec<f64>> = servers.iter().map(|server| metric.values(server)).collect();
        if values.iter().all(Vec::is_empty) {
            continue;
        }
        let mut row = vec![metric.name.to_string()];
        row.extend(
            values
                .iter()
                .map(|values| rounds::spread(values, metric.write)),
        );
        row.extend(match metric.kind {
            Kind::Faults => rounds::no_ratios(&values),
            _ => rounds::ratios(&values),
        });
        table.push(row);
    }
    table
}

fn judgement(comparison: &Comparison) -> Verdict {
    let mut level = Level::Good;
    let mut reasons = Vec::new();
    for server in &comparison.servers {
        let name = &server.name;
        for (number, run) in (1..).zip(&server.runs) {
            let own = verdict::verdict(run);
            level = level.max(own.level);
            if own.level != Level::Good {
                reasons.push(format!("{name}, round {number}: {}", own.headline));
                let more = own.reasons.iter();
                reasons.extend(more.map(|why| format!("{name}: {why}")));
            }
        }
        if server.runs.is_empty() {
            level = level.max(Level::Doubtful);
            reasons.push(format!("{name} has no result"));
        }
    }
    Verdict {
        level,
        headline: headline(comparison),
        reasons,
    }
}

/// The ratios that people ask for first, as far as both sides have them.
fn headline(comparison: &Comparison) -> String {
    let Some((first, others)) = comparison.servers.split_first() else {
        return "No server was compared".into();
    };
    let sentence = |other: &Contestant| {
        let ratios = metrics(comparison).filter_map(|metric| {
            let ratio = rounds::ratio(&metric.values(first), &metric.values(other))?;
            Some(format!("{} x the {}", short(ratio), metric.asked?))
        });
        let (ratios, own) = (ratios.collect::<Vec<_>>().join(", "), &first.name);
        match ratios.is_empty() {
            true => format!("{} has no figure to set beside {own}", other.name),
            false => format!("{} takes {ratios} of {own}", other.name),
        }
    };
    let rounds = first.runs.len();
    match others.is_empty() {
        true => format!("Only {} was measured, with {rounds} rounds", first.name),
        false => others.iter().map(sentence).collect::<Vec<_>>().join("; "),
    }
}

fn refused(comparison: &Comparison) -> Option<String> {
    let mut runs = comparison.runs();
    runs.find_map(|run| {
        let (why, server) = (run.latency_refused()?, &run.server);
        Some(format!(
            "the generator was saturated against {server}: {why}"
        ))
    })
}
