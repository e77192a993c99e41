//! Owns the report of the suite: what each case costs on each server, and how the runs went that say so.

use super::document::{Block, Document, Section};
use super::rounds;
use super::run::origins;
use super::table::Table;
use outcome::number::{bytes, cores, digits, short, told, whole};
use outcome::verdict::{self, Level, Verdict};
use outcome::{CaseResult, Contestant, Figure, Outcome, Suite};
use std::collections::BTreeMap;

const LEGEND: &str = "Middle of the rounds, range in brackets. CPU: user and system time of the server, all threads, by message that reached a \
    client (or by connect). Memory: growth between two counts of connections, by connection. Ratios are drawn to the first server.";

/// The report of `suite`, read from the file called `source`.
pub fn document(suite: &Suite, source: &str) -> Document {
    let cost = vec![Block::Table(costs(suite)), Block::Text(LEGEND.into())];
    let mut sections = vec![
        Section::new("Cost", cost),
        Section::new("Runs", vec![Block::Table(runs(suite))]),
    ];
    let left_out = left_out(suite);
    if !left_out.is_empty() {
        let left_out = left_out.iter().cloned().map(Block::Text).collect();
        sections.push(Section::new("Left out", left_out));
    }
    Document {
        title: "Suite".into(),
        description: "The same cases on several servers, round after round in turn".into(),
        badges: Vec::new(),
        verdict: judgement(suite, &left_out),
        tiles: Vec::new(),
        sections,
        origin: origins(suite.runs().first().copied(), source),
    }
}

/// Only runs in which nothing was lost count.
fn is_valid(run: &Outcome) -> bool {
    verdict::verdict(run).level < Level::Mismatched
}

fn values(case: &CaseResult, server: &Contestant) -> Vec<f64> {
    let valid = server.runs.iter().filter(|run| is_valid(run));
    valid.filter_map(|run| case.figure.of(run)).collect()
}

fn costs(suite: &Suite) -> Table {
    let servers = suite.servers();
    let names: Vec<&str> = servers.iter().map(String::as_str).collect();
    let first = vec![String::new(), "unit".into()];
    let mut table = Table::new([first, rounds::columns(&names)].concat());
    for case in &suite.cases {
        let of = |name: &String| {
            case.server(name)
                .map_or(Vec::new(), |server| values(case, server))
        };
        let all: Vec<Vec<f64>> = servers.iter().map(of).collect();
        let unit = match case.figure {
            Figure::BytesPerConnection => "B/connection",
            Figure::CpuUsPerConnect | Figure::CpuUsPerMessage => "CPU us",
            Figure::P99Ms => "p99 ms",
        };
        let mut row = vec![case.about.clone(), unit.into()];
        row.extend(all.iter().map(|values| rounds::spread(values, short)));
        row.extend(rounds::ratios(&all));
        table.push(row);
    }
    table
}

/// The middle round of each server in each case.
fn runs(suite: &Suite) -> Table {
    let header = [
        "",
        "server",
        "connections",
        "msgs/s",
        "CPU us",
        "p50 ms",
        "p99 ms",
        "memory",
        "CPU",
        "generator CPU",
        "judgement",
    ];
    let mut table = Table::new(header.to_vec());
    for case in &suite.cases {
        for server in &case.servers {
            let figure = |run: &Outcome| case.figure.of(run).unwrap_or(f64::INFINITY);
            if let Some(run) = rounds::middle_run(server, figure) {
                table.push(row(case, &server.name, run));
            }
        }
    }
    table
}

fn row(case: &CaseResult, server: &str, run: &Outcome) -> Vec<String> {
    let phase = run.phases.last().cloned().unwrap_or_default();
    let latency = phase.main_latency().percentiles();
    let latency = latency.filter(|_| run.latency_refused().is_none());
    let seconds = phase.duration_s.max(1e-9);
    vec![
        case.about.clone(),
        server.to_owned(),
        digits(run.totals.connections_peak),
        told(phase.rate().filter(|rate| *rate > 0.0), whole),
        told(phase.cpu_us_per_message(), short),
        told(latency.map(|latency| latency.p50_ms), short),
        told(latency.map(|latency| latency.p99_ms), short),
        told(phase.server_rss_bytes.map(|rss| rss as f64), bytes),
        told(phase.server_cpu_s.map(|cpu_s| cpu_s / seconds), cores),
        cores(phase.generator_cpu_s / seconds),
        verdict::verdict(run).level.word().into(),
    ]
}

fn left_out(suite: &Suite) -> Vec<String> {
    let mut told = Vec::new();
    for CaseResult {
        about,
        failures,
        servers,
        ..
    } in &suite.cases
    {
        told.extend(failures.iter().map(|why| format!("{about}: {why}")));
        for server in servers {
            let invalid = server.runs.iter().filter(|run| !is_valid(run));
            let headlines = invalid.map(|run| verdict::verdict(run).headline);
            told.extend(headlines.map(|why| format!("{about}, {}: {why}", server.name)));
        }
    }
    told
}

/// As good as its worst run that counts; nothing may be left out without a word.
fn judgement(suite: &Suite, left_out: &[String]) -> Verdict {
    let mut level = match left_out.is_empty() {
        true => Level::Good,
        false => Level::Doubtful,
    };
    let runs = suite.runs();
    let mut doubts = BTreeMap::new();
    for run in runs.iter().filter(|run| is_valid(run)) {
        let verdict = verdict::verdict(run);
        level = level.max(verdict.level);
        // Figures differ from run to run: what stands before them is the kind of doubt.
        for reason in verdict.reasons {
            let kind = reason.split(|c: char| c.is_ascii_digit()).next();
            let kind = kind.unwrap_or_default().trim().to_owned();
            *doubts.entry(kind).or_insert(0u64) += 1;
        }
    }
    let (cases, left_out) = (suite.cases.len(), left_out.len());
    let reasons = doubts.into_iter();
    let reasons = reasons.map(|(kind, count)| match count {
        1 => format!("1 run: {kind} …"),
        _ => format!("{} runs: {kind} …", digits(count)),
    });
    Verdict {
        level,
        headline: format!("{} runs of {cases} cases, {left_out} left out", runs.len()),
        reasons: reasons.collect(),
    }
}
