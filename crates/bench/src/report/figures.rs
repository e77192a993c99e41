//! Owns the tables of one run: the summary by phase, latency, the account of deliveries,
//! connections, server processes, errors. Each is a function of the result alone.

use super::document::Block;
use super::number::{self, bytes, digits, percent, short};
use super::table::Table;
use super::verdict::connect_success;
use crate::outcome::{Distribution, Memory, Outcome, Phase, ServerProcess};
use std::collections::BTreeMap;

const NONE: &str = "–";
const REFUSED: &str = "refused";
/// What the columns of a summary mean.
pub const SUMMARY_LEGEND: &str = "msgs/s: deliveries and acknowledgements that reached clients, per \
    second. avg, p95 and p99 in milliseconds from the moment a message was due. Memory: resident, \
    highest of the phase. CPU of the server: 100 % = one core.";

/// What a page shows large; what was not measured is left out.
pub fn tiles(outcome: &Outcome) -> Vec<(String, String)> {
    let totals = &outcome.totals;
    let p99 = || {
        outcome
            .main_latency()
            .percentiles()
            .map(|latency| latency.p99_ms)
    };
    let p99 = match outcome.latency_refused() {
        Some(_) => Some(REFUSED.into()),
        None => p99().map(|p99| format!("{} ms", short(p99))),
    };
    let rate = outcome.received_per_s();
    let cpu_us = outcome.cpu_us_per_delivery();
    let tiles = [
        ("connections", Some(digits(totals.connections_peak))),
        ("connect success", Some(connect_success(totals))),
        (
            "messages received",
            (rate > 0.0).then(|| format!("{}/s", short(rate))),
        ),
        ("p99 latency", p99),
        (
            "server CPU per message",
            cpu_us.map(|us| format!("{} us", short(us))),
        ),
        (
            "memory per connection",
            outcome.rss_per_connection_bytes().map(bytes),
        ),
        ("lost", (totals.expected > 0).then(|| digits(totals.lost))),
    ];
    let shown = tiles
        .into_iter()
        .filter_map(|(name, figure)| Some((name.into(), figure?)));
    shown.collect()
}

/// Connections, msgs/s, latency, memory, CPU, errors; a row for each phase.
pub fn summary(outcome: &Outcome) -> Vec<Block> {
    let mut table = Table::new(summary_header("phase"));
    for phase in &outcome.phases {
        table.push(phase_row(outcome, phase));
    }
    // Users that are brought in before a phase begins belong to none.
    let in_phases: u64 = outcome.phases.iter().map(|phase| phase.errors).sum();
    if outcome.phases.len() != 1 || outcome.error_count() != in_phases {
        table.push(summary_row("whole run", outcome));
    }
    vec![Block::Table(table), Block::Text(SUMMARY_LEGEND.into())]
}

pub fn summary_header(first: &str) -> Vec<String> {
    let columns = [
        "connections",
        "msgs/s",
        "avg ms",
        "p95 ms",
        "p99 ms",
        "memory",
        "CPU",
        "errors",
    ];
    [first]
        .iter()
        .chain(&columns)
        .map(ToString::to_string)
        .collect()
}

/// The summary of the whole run.
pub fn summary_row(label: &str, outcome: &Outcome) -> Vec<String> {
    let latency = outcome.latency_refused().is_none();
    let rate = outcome.received_per_s();
    row(
        (
            label,
            outcome.totals.connections_peak,
            outcome.error_count(),
        ),
        (outcome.duration_s > 0.0).then_some(rate),
        latency.then(|| outcome.main_latency()),
        outcome.server_rss_peak_bytes(),
        outcome.server_cores(),
    )
}

fn phase_row(outcome: &Outcome, phase: &Phase) -> Vec<String> {
    let seconds = Some(phase.duration_s).filter(|seconds| *seconds > 0.0);
    let received = phase.received + phase.acked;
    row(
        (&phase.name, phase.connections, phase.errors),
        seconds.map(|seconds| received as f64 / seconds),
        (!outcome.is_refused_in(phase)).then(|| phase.main_latency()),
        phase.server_rss_bytes,
        phase
            .server_cpu_s
            .zip(seconds)
            .map(|(cpu_s, seconds)| cpu_s / seconds),
    )
}

/// Without a latency it was refused.
fn row(
    (label, connections, errors): (&str, u64, u64),
    rate: Option<f64>,
    latency: Option<&Distribution>,
    rss_bytes: Option<u64>,
    cores: Option<f64>,
) -> Vec<String> {
    let none = || NONE.to_owned();
    let [avg, p95, p99] = match latency.map(Distribution::percentiles) {
        None => [REFUSED; 3].map(String::from),
        Some(None) => [none(), none(), none()],
        Some(Some(latency)) => [latency.mean_ms, latency.p95_ms, latency.p99_ms].map(short),
    };
    vec![
        label.into(),
        digits(connections),
        rate.map_or_else(none, |rate| digits(rate.round() as u64)),
        avg,
        p95,
        p99,
        rss_bytes.map_or_else(none, |rss| bytes(rss as f64)),
        cores.map_or_else(none, number::cores),
        digits(errors),
    ]
}

/// Percentiles of everything that was waited for, or the reason why they are not shown.
pub fn latency(outcome: &Outcome) -> Vec<Block> {
    if let Some(why) = outcome.latency_refused() {
        return vec![Block::Refusal(format!(
            "the generator was saturated and would have measured itself: {why}. Use fewer \
             connections or a lower rate, more workers, or another machine for the generator."
        ))];
    }
    let header = [
        "ms", "count", "avg", "p50", "p90", "p95", "p99", "p99.9", "p99.99", "max",
    ];
    let mut table = Table::new(header.to_vec());
    for (name, latency) in outcome.latency.kinds() {
        let mut row = vec![
            name.into(),
            digits(latency.count()),
            short(latency.mean_ns() / 1e6),
        ];
        row.extend(
            [0.5, 0.9, 0.95, 0.99, 0.999, 0.9999].map(|quantile| short(latency.at_ms(quantile))),
        );
        row.push(short(latency.max_ms()));
        table.push(row);
    }
    match table.is_empty() {
        true => vec![Block::Text("Nothing that was waited for arrived.".into())],
        false => vec![Block::Table(table)],
    }
}

/// Loss, duplicates and order, against what had to arrive.
pub fn account(outcome: &Outcome) -> Vec<Block> {
    let totals = &outcome.totals;
    if totals.expected + totals.acks_expected + totals.received + totals.stray == 0 {
        let text = match (totals.sent, totals.connects_succeeded) {
            (0, 0) => "Nothing was connected, so nothing was sent.".into(),
            (0, _) => "Nothing was sent, so nothing could be lost.".into(),
            (sent, _) => format!(
                "{} messages were sent. None of them is for a room or asks for an acknowledgement: \
                 whether they arrived is not known.",
                digits(sent)
            ),
        };
        return vec![Block::Text(text)];
    }
    let has_acks = totals.acks_expected > 0;
    let header = ["", "deliveries", "share", "acknowledgements", "share"];
    let mut table = Table::new(header[..if has_acks { 5 } else { 3 }].to_vec());
    let mut push = |name: &str, count: u64, acks: Option<u64>| {
        let mut row = vec![
            name.to_string(),
            digits(count),
            percent(count, totals.expected),
        ];
        if has_acks {
            row.push(acks.map_or(String::new(), digits));
            row.push(acks.map_or(String::new(), |acks| percent(acks, totals.acks_expected)));
        }
        table.push(row);
    };
    push("expected", totals.expected, Some(totals.acks_expected));
    push("arrived", totals.received, Some(totals.acked));
    push("lost", totals.lost, Some(totals.acks_missing()));
    if totals.not_waited_for + totals.acks_not_waited_for > 0 {
        let acks = totals.acks_not_waited_for;
        push("not waited for", totals.not_waited_for, Some(acks));
    }
    if totals.acked_late > 0 {
        push("too late", 0, Some(totals.acked_late));
    }
    let acks_duplicated = Some(totals.acks_duplicated).filter(|count| *count > 0);
    push("duplicated", totals.duplicated, acks_duplicated);
    push("out of order", totals.reordered, None);
    push("not meant for the receiver", totals.stray, None);
    let either = (totals.either_allowed > 0).then(|| {
        Block::Text(format!(
            "Besides, {} deliveries were free to arrive or not, because their receiver was \
             joining, leaving or disconnected just then; {} did.",
            digits(totals.either_allowed),
            digits(totals.either_received)
        ))
    });
    [Block::Table(table)].into_iter().chain(either).collect()
}

/// Attempts, success, and what ended connections.
pub fn connections(outcome: &Outcome) -> Vec<Block> {
    let totals = &outcome.totals;
    let mut table = Table::new(vec!["", "connections"]);
    let mut push = |name: String, figure: String| table.push(vec![name, figure]);
    push("attempted".into(), digits(totals.connects_attempted));
    push("succeeded".into(), digits(totals.connects_succeeded));
    push("connect success".into(), connect_success(totals));
    push("open at once, most".into(), digits(totals.connections_peak));
    for (prefix, reasons) in [
        ("failed", &totals.connect_failures),
        ("dropped", &totals.drops),
    ] {
        for (why, count) in most_first(reasons) {
            push(format!("{prefix}: {why}"), digits(count));
        }
    }
    vec![Block::Table(table)]
}

/// Why a small run shows more memory per connection than a large one.
pub const MEMORY_LEGEND: &str = "bytes/connection: growth from before the first connection to the \
    peak, by connection then open. With few connections that is the process warming up.";

/// Processes that are shown one by one; of more their sum is.
const PROCESSES_MAX: usize = 8;
/// Fewer connections need less than what a machine's memory goes up and down by itself.
const CROWD_MIN: u64 = 10_000;

/// Many connections: how fast they were accepted, and what one takes of a machine that has both its ends.
pub fn crowd(outcome: &Outcome) -> Option<Vec<Block>> {
    let connections = outcome.totals.connections_peak;
    if connections < CROWD_MIN {
        return None;
    }
    let mut table = Table::new(vec!["", "in all", "by connection"]);
    for (name, rate) in ["first tenth", "all", "last tenth"]
        .into_iter()
        .zip(outcome.accept_rates().into_iter().flatten())
    {
        let name = format!("connects per second, {name}");
        table.push(vec![name, digits(rate.round() as u64), NONE.into()]);
    }
    let heartbeats = digits(outcome.totals.heartbeats);
    table.push(vec!["heartbeats answered".into(), heartbeats, NONE.into()]);
    let growth = outcome.both_ends.map(|both_ends| both_ends.growth());
    for (name, grown) in growth.map(grown).into_iter().flatten() {
        let each = format!("{} B", short(grown as f64 / connections as f64));
        table.push(vec![name.into(), bytes(grown as f64), each]);
    }
    Some(vec![Block::Table(table)])
}

fn grown(growth: Memory) -> [(&'static str, u64); 4] {
    let user = growth.servers_bytes + growth.generator_bytes;
    let kernel = growth.machine_bytes.saturating_sub(user);
    [
        ("memory of the servers", growth.servers_bytes),
        ("memory of the generator", growth.generator_bytes),
        ("kernel, both ends, and other programs", kernel),
        ("memory of the whole machine", growth.machine_bytes),
    ]
}

fn sum_of(processes: &[ServerProcess], connections: u64) -> Vec<String> {
    let sum = |of: fn(&ServerProcess) -> u64| processes.iter().map(of).sum::<u64>() as f64;
    let (before, peak) = (sum(|p| p.rss_before_bytes), sum(|p| p.rss_peak_bytes));
    let each = (connections > 0).then(|| short((peak - before) / connections as f64));
    vec![
        format!("all {}", processes.len()),
        short(processes.iter().map(|process| process.cpu_s).sum()),
        NONE.into(),
        bytes(before),
        bytes(peak),
        bytes(sum(|p| p.rss_after_bytes)),
        each.unwrap_or_else(|| NONE.into()),
    ]
}

/// CPU and memory of each watched process, or of all together where there are many.
pub fn processes(outcome: &Outcome) -> Vec<Block> {
    if outcome.processes.is_empty() {
        let how = "No server process was watched; --pid adds its CPU and memory.";
        return vec![Block::Text(how.into())];
    }
    let header = [
        "process",
        "CPU s",
        "CPU us/delivery",
        "memory before",
        "peak",
        "after",
        "bytes/connection",
    ];
    let mut table = Table::new(header.to_vec());
    if outcome.processes.len() > PROCESSES_MAX {
        let connections = outcome.totals.connections_peak;
        table.push(sum_of(&outcome.processes, connections));
        return vec![Block::Table(table), Block::Text(MEMORY_LEGEND.into())];
    }
    for process in &outcome.processes {
        table.push(vec![
            format!("{} ({})", process.name, process.pid),
            short(process.cpu_s),
            process.cpu_us_per_delivery.map_or(NONE.into(), short),
            bytes(process.rss_before_bytes as f64),
            bytes(process.rss_peak_bytes as f64),
            bytes(process.rss_after_bytes as f64),
            process.rss_per_connection_bytes.map_or(NONE.into(), short),
        ]);
    }
    vec![Block::Table(table), Block::Text(MEMORY_LEGEND.into())]
}

/// What the generator itself spent, which is what makes the rest believable.
pub fn generator(outcome: &Outcome) -> Vec<Block> {
    let generator = &outcome.generator;
    let figure = |value: Option<f64>| value.map_or(NONE.into(), short);
    let is_saturated = outcome.latency_refused().is_some();
    let rows = [
        ("workers", digits(generator.workers)),
        ("CPU time", format!("{} s", short(generator.cpu_s))),
        ("CPU", cores(Some(generator.cpu_s), outcome.duration_s)),
        (
            "CPU us by received message",
            figure(generator.cpu_us_per_received),
        ),
        ("turn lag p50 ms", figure(generator.turn_lag_p50_ms)),
        ("turn lag p99 ms", figure(generator.turn_lag_p99_ms)),
        ("turn lag max ms", figure(generator.turn_lag_max_ms)),
        ("read lag p50 ms", figure(generator.read_lag_p50_ms)),
        ("read lag p99 ms", figure(generator.read_lag_p99_ms)),
        ("read lag max ms", figure(generator.read_lag_max_ms)),
        ("saturated", if is_saturated { "yes" } else { "no" }.into()),
    ];
    let mut table = Table::new(vec!["", "generator"]);
    for (name, figure) in rows {
        table.push(vec![name.into(), figure]);
    }
    vec![Block::Table(table)]
}

/// Errors by kind, most frequent first; `None` when there was none.
pub fn errors(outcome: &Outcome) -> Option<Block> {
    let mut table = Table::new(vec!["error", "count"]);
    for (kind, count) in most_first(&outcome.errors) {
        table.push(vec![kind, digits(count)]);
    }
    (!table.is_empty()).then_some(Block::Table(table))
}

fn most_first(counts: &BTreeMap<String, u64>) -> Vec<(String, u64)> {
    let mut sorted: Vec<(String, u64)> = counts.iter().map(|(k, n)| (k.clone(), *n)).collect();
    sorted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    sorted
}

fn cores(cpu_s: Option<f64>, seconds: f64) -> String {
    match cpu_s {
        Some(cpu_s) if seconds > 0.0 => number::cores(cpu_s / seconds),
        _ => NONE.into(),
    }
}
