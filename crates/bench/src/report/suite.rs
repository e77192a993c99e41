//! Owns the report of the suite: what each case costs on each server, and how the runs went that say so.

use super::document::{Block, Document, Level, Section, Verdict};
use super::number::{self, bytes, digits, short};
use super::run::origin;
use super::table::Table;
use super::verdict;
use crate::outcome::{CaseResult, Contestant, Figure, Outcome, Suite, middle};
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
    let mut header = vec![String::new(), "unit".into()];
    header.extend(servers.iter().cloned());
    let first = servers.first().cloned().unwrap_or_default();
    header.extend(
        servers
            .iter()
            .skip(1)
            .map(|name| format!("{name} ÷ {first}")),
    );
    let mut table = Table::new(header);
    for case in &suite.cases {
        let all: Vec<Vec<f64>> = servers
            .iter()
            .map(|name| {
                case.server(name)
                    .map_or(Vec::new(), |server| values(case, server))
            })
            .collect();
        let mut row = vec![case.about.clone(), unit(case.figure).into()];
        row.extend(all.iter().map(|values| spread(values)));
        let own = middle(all.first().cloned().unwrap_or_default());
        row.extend(
            all.into_iter()
                .skip(1)
                .map(|values| match (middle(values), own) {
                    (Some(other), Some(own)) if own > 0.0 => format!("{} x", short(other / own)),
                    _ => NONE.into(),
                }),
        );
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

fn spread(values: &[f64]) -> String {
    let Some(middle) = middle(values.to_vec()) else {
        return NONE.into();
    };
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match values.len() {
        1 => short(middle),
        _ => format!("{} ({}–{})", short(middle), short(low), short(high)),
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
            if let Some(run) = middle_run(case, server) {
                table.push(row(case, &server.name, run));
            }
        }
    }
    table
}

fn middle_run<'a>(case: &CaseResult, server: &'a Contestant) -> Option<&'a Outcome> {
    let mut runs: Vec<&Outcome> = server.runs.iter().collect();
    let figure = |run: &Outcome| case.figure.of(run).unwrap_or(f64::INFINITY);
    runs.sort_by(|a, b| figure(a).total_cmp(&figure(b)));
    runs.get(runs.len().saturating_sub(1) / 2).copied()
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
