//! Owns the report of the suite: what each case costs on each server, and how the runs went that say so.

use super::document::{Block, Document, Level, Section, Verdict};
use super::number::{self, bytes, digits, short};
use super::run::origin;
use super::table::Table;
use super::{rounds, verdict};
use crate::outcome::{CaseResult, Contestant, Figure, Outcome, Suite};
use crate::suite::cpu_us_per_message;
use std::collections::BTreeMap;

const NONE: &str = "–";

/// The report of `suite`, read from the file called `source`.
pub fn document(suite: &Suite, source: &str) -> Document {
    let mut sections = vec![
        Section::new(
            "Cost",
            vec![Block::Table(costs(suite)), Block::Text(LEGEND.into())],
        ),
        Section::new("Runs", vec![Block::Table(runs(suite))]),
    ];
    let left_out = left_out(suite);
    if !left_out.is_empty() {
        let left_out = left_out.iter().cloned().map(Block::Text).collect();
        sections.push(Section::new("Left out", left_out));
    }
    let runs = suite.runs();
    Document {
        title: "Suite".into(),
        description: "The same cases on several servers, round after round in turn".into(),
        badges: Vec::new(),
        verdict: judgement(suite, &left_out),
        tiles: Vec::new(),
        sections,
        origin: runs
            .first()
            .map(|run| origin(&run.machine, source))
            .into_iter()
            .collect(),
    }
}

const LEGEND: &str = "Middle of the rounds, range in brackets. CPU: user and system time of the server, all threads, by message that reached a \
    client (or by connect). Memory: growth between two counts of connections, by connection. Ratios are drawn to the first server.";

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
            let server = case.server(name);
            server.map_or(Vec::new(), |server| values(case, server))
        };
        let all: Vec<Vec<f64>> = servers.iter().map(of).collect();
        let mut row = vec![case.about.clone(), unit(case.figure).into()];
        row.extend(all.iter().map(|values| rounds::spread(values, short)));
        row.extend(rounds::ratios(&all));
        table.push(row);
    }
    table
}

fn unit(figure: Figure) -> &'static str {
    match figure {
        Figure::BytesPerConnection => "B/connection",
        Figure::CpuUsPerConnect | Figure::CpuUsPerMessage => "CPU us",
        Figure::P99Ms => "p99 ms",
    }
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
    let text = |value: Option<f64>, write: fn(f64) -> String| value.map_or(NONE.into(), write);
    let phase = run.phases.last();
    let seconds = phase.map_or(0.0, |phase| phase.duration_s).max(1e-9);
    let rate = phase.map(|phase| (phase.received + phase.acked) as f64 / seconds);
    let latency = phase.and_then(|phase| phase.main_latency().percentiles());
    let latency = latency.filter(|_| run.latency_refused().is_none());
    vec![
        case.about.clone(),
        server.to_owned(),
        digits(run.totals.connections_peak),
        text(rate.filter(|rate| *rate > 0.0), |rate| {
            digits(rate.round() as u64)
        }),
        text(phase.and_then(cpu_us_per_message), short),
        text(latency.map(|latency| latency.p50_ms), short),
        text(latency.map(|latency| latency.p99_ms), short),
        text(
            phase
                .and_then(|phase| phase.server_rss_bytes)
                .map(|rss| rss as f64),
            bytes,
        ),
        text(
            phase
                .and_then(|phase| phase.server_cpu_s)
                .map(|cpu_s| cpu_s / seconds),
            number::cores,
        ),
        text(
            phase.map(|phase| phase.generator_cpu_s / seconds),
            number::cores,
        ),
        verdict::verdict(run).level.word().into(),
    ]
}

fn left_out(suite: &Suite) -> Vec<String> {
    let mut told = Vec::new();
    for case in &suite.cases {
        told.extend(
            case.failures
                .iter()
                .map(|why| format!("{}: {why}", case.about)),
        );
        for server in &case.servers {
            let invalid = server.runs.iter().filter(|run| !is_valid(run));
            told.extend(invalid.map(|run| {
                let headline = verdict::verdict(run).headline;
                format!("{}, {}: {headline}", case.about, server.name)
            }));
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
            *doubts
                .entry(kind.unwrap_or_default().trim().to_owned())
                .or_insert(0u64) += 1;
        }
    }
    let reasons = doubts.into_iter();
    let reasons = reasons.map(|(kind, count)| format!("{} runs: {kind} …", digits(count)));
    Verdict {
        level,
        headline: format!(
            "{} runs of {} cases, {} left out",
            digits(runs.len() as u64),
            digits(suite.cases.len() as u64),
            digits(left_out.len() as u64)
        ),
        reasons: reasons.collect(),
    }
}
