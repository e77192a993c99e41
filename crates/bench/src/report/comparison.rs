//! Owns the report of several servers doing the same work: the ratio table, and their lines beside
//! each other. Ratios are drawn to the first server, between the middles of the rounds.

use super::document::{Badge, Block, Document, Level, Section, Verdict};
use super::number::{bytes, digits, short};
use super::run::origin;
use super::table::Table;
use super::{course, figures, rounds, verdict};
use crate::outcome::{Comparison, Contestant, Outcome, middle};

const NONE: &str = "–";

/// A figure of the ratio table.
struct Metric {
    name: &'static str,
    of: fn(&Outcome) -> Option<f64>,
    write: fn(f64) -> String,
    /// Latencies are not compared when one of them was the generator's own.
    is_latency: bool,
    /// Counts of faults are shown, but a ratio to none says nothing.
    has_ratio: bool,
}

const METRICS: [Metric; 14] = [
    figure(
        "connections held",
        |run| Some(run.totals.connections_peak as f64),
        short,
    ),
    figure(
        "messages received/s",
        |run| positive(run.received_per_s()),
        short,
    ),
    latency("p50 ms", |run| {
        run.main_latency().percentiles().map(|p| p.p50_ms)
    }),
    latency("p95 ms", |run| {
        run.main_latency().percentiles().map(|p| p.p95_ms)
    }),
    latency("p99 ms", |run| {
        run.main_latency().percentiles().map(|p| p.p99_ms)
    }),
    latency("p99.9 ms", |run| {
        run.main_latency().percentiles().map(|p| p.p999_ms)
    }),
    latency("first connect p99 ms", |run| {
        run.latency.connect.percentiles().map(|p| p.p99_ms)
    }),
    latency("return p99 ms", |run| {
        run.latency.again.percentiles().map(|p| p.p99_ms)
    }),
    figure("server CPU s", Outcome::server_cpu_s, short),
    figure(
        "server CPU us per message",
        Outcome::cpu_us_per_delivery,
        short,
    ),
    figure(
        "server memory, most",
        |run| run.server_rss_peak_bytes().map(|b| b as f64),
        bytes,
    ),
    figure(
        "memory per connection",
        Outcome::rss_per_connection_bytes,
        bytes,
    ),
    count("lost or duplicated", |run| {
        Some((run.totals.lost + run.totals.duplicated) as f64)
    }),
    count("errors", |run| Some(run.error_count() as f64)),
];

/// What the headline says of the ratio table, and in which words.
const ASKED_FIRST: [(&str, &str); 3] = [
    ("p99 ms", "p99 latency"),
    ("server CPU us per message", "CPU per message"),
    ("memory per connection", "memory per connection"),
];

const fn figure(
    name: &'static str,
    of: fn(&Outcome) -> Option<f64>,
    write: fn(f64) -> String,
) -> Metric {
    Metric {
        name,
        of,
        write,
        is_latency: false,
        has_ratio: true,
    }
}

const fn latency(name: &'static str, of: fn(&Outcome) -> Option<f64>) -> Metric {
    Metric {
        name,
        of,
        write: short,
        is_latency: true,
        has_ratio: true,
    }
}

const fn count(name: &'static str, of: fn(&Outcome) -> Option<f64>) -> Metric {
    Metric {
        name,
        of,
        write: |count| digits(count as u64),
        is_latency: false,
        has_ratio: false,
    }
}

/// The report of `comparison`, read from the file called `source`.
pub fn document(comparison: &Comparison, source: &str) -> Document {
    let lines: Vec<(String, &Outcome)> = comparison
        .servers
        .iter()
        .filter_map(|server| Some((server.name.clone(), middle_run(server)?)))
        .collect();
    let mut sections = vec![Section::new("Ratios", ratio_blocks(comparison))];
    if !lines.is_empty() {
        sections.push(Section::new("Summary", summary(&lines)));
        let plots = course::of_servers(&lines, refused(comparison).is_none());
        sections.push(Section::new("Side by side", vec![Block::Plots(plots)]));
    }
    if !comparison.notes.is_empty() {
        let notes = comparison.notes.iter().cloned().map(Block::Text).collect();
        sections.push(Section::new("Notes", notes));
    }
    let names: Vec<&str> = comparison
        .servers
        .iter()
        .map(|server| server.name.as_str())
        .collect();
    Document {
        title: format!("{}: {}", comparison.scenario, names.join(" and ")),
        description: lines
            .first()
            .map_or(String::new(), |(_, run)| run.description.clone()),
        badges: badges(comparison, &lines),
        verdict: verdict(comparison),
        tiles: Vec::new(),
        sections,
        origin: lines
            .first()
            .map(|(_, run)| origin(&run.machine, source))
            .into_iter()
            .collect(),
    }
}

/// The round with the middle CPU time (the middle p99 when no process was watched).
fn middle_run(server: &Contestant) -> Option<&Outcome> {
    let figure = |run: &Outcome| run.server_cpu_s().unwrap_or(run.main_latency().at_ms(0.99));
    rounds::middle_run(server, figure)
}

fn summary(lines: &[(String, &Outcome)]) -> Vec<Block> {
    let mut table = Table::new(figures::summary_header("server"));
    for (name, run) in lines {
        table.push(figures::summary_row(name, run));
    }
    vec![
        Block::Table(table),
        Block::Text(figures::SUMMARY_LEGEND.into()),
    ]
}

fn ratio_blocks(comparison: &Comparison) -> Vec<Block> {
    let mut blocks = vec![Block::Table(ratio_table(comparison))];
    let rounds = comparison
        .servers
        .iter()
        .map(|server| server.runs.len())
        .max()
        .unwrap_or(0);
    if rounds > 1 {
        let text = format!("Middle of {rounds} rounds, range in brackets; ratios of the middles.");
        blocks.push(Block::Text(text));
    }
    let runs = comparison.servers.iter().flat_map(|server| &server.runs);
    if runs
        .into_iter()
        .any(|run| run.rss_per_connection_bytes().is_some())
    {
        blocks.push(Block::Text(figures::MEMORY_LEGEND.into()));
    }
    if let Some(why) = refused(comparison) {
        blocks.push(Block::Refusal(format!("latencies, because {why}.")));
    }
    blocks
}

fn ratio_table(comparison: &Comparison) -> Table {
    let servers = &comparison.servers;
    let names: Vec<&str> = servers.iter().map(|server| &*server.name).collect();
    let mut table = Table::new([vec![String::new()], rounds::columns(&names)].concat());
    let is_refused = refused(comparison).is_some();
    for metric in METRICS
        .iter()
        .filter(|metric| !(metric.is_latency && is_refused))
    {
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
        row.extend(match metric.has_ratio {
            true => rounds::ratios(&values),
            false => vec![NONE.into(); servers.len() - 1],
        });
        table.push(row);
    }
    table
}

impl Metric {
    fn values(&self, server: &Contestant) -> Vec<f64> {
        server.runs.iter().filter_map(self.of).collect()
    }
}

fn verdict(comparison: &Comparison) -> Verdict {
    let mut level = Level::Good;
    let mut reasons = Vec::new();
    for server in &comparison.servers {
        for (number, run) in server.runs.iter().enumerate() {
            let own = verdict::verdict(run);
            level = level.max(own.level);
            if own.level != Level::Good {
                reasons.push(format!(
                    "{}, round {}: {}",
                    server.name,
                    number + 1,
                    own.headline
                ));
                reasons.extend(
                    own.reasons
                        .into_iter()
                        .map(|why| format!("{}: {why}", server.name)),
                );
            }
        }
        if server.runs.is_empty() {
            level = level.max(Level::Doubtful);
            reasons.push(format!("{} has no result", server.name));
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
    let is_refused = refused(comparison).is_some();
    let told = METRICS.iter().filter_map(|metric| {
        let (_, words) = ASKED_FIRST.iter().find(|(name, _)| *name == metric.name)?;
        (!(metric.is_latency && is_refused)).then_some((metric, *words))
    });
    let told: Vec<(&Metric, &str)> = told.collect();
    let sentence = |other: &Contestant| {
        let ratios = told.iter().filter_map(|(metric, words)| {
            let own = middle(metric.values(first)).filter(|&own| own > 0.0)?;
            let ratio = middle(metric.values(other))? / own;
            Some(format!("{} x the {words}", short(ratio)))
        });
        let ratios: Vec<String> = ratios.collect();
        match ratios.is_empty() {
            true => format!("{} has no figure to set beside {}", other.name, first.name),
            false => format!(
                "{} takes {} of {}",
                other.name,
                ratios.join(", "),
                first.name
            ),
        }
    };
    match others.is_empty() {
        true => format!(
            "Only {} was measured, with {} rounds",
            first.name,
            digits(first.runs.len() as u64)
        ),
        false => others.iter().map(sentence).collect::<Vec<_>>().join("; "),
    }
}

fn badges(comparison: &Comparison, lines: &[(String, &Outcome)]) -> Vec<Badge> {
    let scale = lines
        .first()
        .map_or(Vec::new(), |(_, run)| verdict::scale_badges(run));
    let names = comparison.servers.iter().map(|server| Badge {
        text: format!("{} ({} rounds)", server.name, server.runs.len()),
        is_warning: false,
    });
    scale.into_iter().chain(names).collect()
}

fn refused(comparison: &Comparison) -> Option<String> {
    let runs = comparison.servers.iter().flat_map(|server| &server.runs);
    runs.into_iter().find_map(|run| {
        let why = run.latency_refused()?;
        Some(format!(
            "the generator was saturated against {}: {why}",
            run.server
        ))
    })
}

fn positive(value: f64) -> Option<f64> {
    (value > 0.0).then_some(value)
}
