//! Owns the tables of one run: the summary by phase, latency, the account of deliveries,
//! connections, server processes, errors. Each is a function of the result alone.

use super::document::Block;
use super::table::Table;
use outcome::number::{self, NONE, bytes, digits, percent, short, told, whole};
use outcome::verdict::connect_success;
use outcome::{Memory, Outcome, Percentiles, Phase, Reasons, ServerProcess};

const REFUSED: &str = "refused";
/// What the columns of a summary mean.
const SUMMARY_LEGEND: &str = "msgs/s: deliveries and acknowledgements that reached clients, per \
    second. avg, p95 and p99 in milliseconds from the moment a message was due. Memory: resident, \
    highest of the phase. CPU of the server: 100 % = one core.";

/// What a page shows large; what was not measured is left out.
pub fn tiles(outcome: &Outcome) -> Vec<(String, String)> {
    let totals = &outcome.totals;
    let p99 = outcome.main_latency().percentiles();
    let p99 = match outcome.latency_refused() {
        Some(_) => Some(REFUSED.into()),
        None => p99.map(|latency| short(latency.p99_ms) + " ms"),
    };
    let rate = Some(outcome.received_per_s()).filter(|rate| *rate > 0.0);
    let cpu_us = outcome.cpu_us_per_delivery();
    let memory = outcome.rss_per_connection_bytes();
    let tiles = [
        ("connections", Some(digits(totals.connections_peak))),
        ("connect success", Some(connect_success(totals))),
        ("messages received", rate.map(|rate| short(rate) + "/s")),
        ("p99 latency", p99),
        ("server CPU per message", cpu_us.map(|us| short(us) + " us")),
        ("memory per connection", memory.map(bytes)),
        ("lost", (totals.expected > 0).then(|| digits(totals.lost))),
    ];
    let shown = tiles.into_iter();
    let shown = shown.filter_map(|(name, figure)| Some((name.into(), figure?)));
    shown.collect()
}

/// Connections, msgs/s, latency, memory, CPU, errors; a row for each phase.
pub fn summary(outcome: &Outcome) -> Vec<Block> {
    let phases = outcome.phases.iter();
    let row = |phase| summary_row(phase, outcome.is_refused_in(phase));
    let mut rows: Vec<_> = phases.clone().map(row).collect();
    // Users that are brought in before a phase begins belong to none.
    let in_phases: u64 = phases.map(|phase| phase.errors).sum();
    if outcome.phases.len() != 1 || outcome.error_count() != in_phases {
        rows.push(whole_row("whole run", outcome));
    }
    summary_of("phase", rows)
}

/// Such rows, and what they mean.
pub fn summary_of(first: &str, rows: impl IntoIterator<Item = Vec<String>>) -> Vec<Block> {
    let table = Table::of(summary_header(first), rows);
    vec![Block::Table(table), Block::Text(SUMMARY_LEGEND.into())]
}

pub fn summary_header(first: &str) -> Vec<String> {
    let columns = "connections,msgs/s,avg ms,p95 ms,p99 ms,memory,CPU,errors";
    let columns = columns.split(',').map(str::to_owned);
    std::iter::once(first.to_owned()).chain(columns).collect()
}

/// The summary of the whole run.
pub fn whole_row(label: &str, outcome: &Outcome) -> Vec<String> {
    let is_refused = outcome.latency_refused().is_some();
    summary_row(&outcome.whole(label), is_refused)
}

fn summary_row(phase: &Phase, is_refused: bool) -> Vec<String> {
    let latency = phase.main_latency().percentiles();
    let of: [fn(Percentiles) -> f64; 3] = [|p| p.mean_ms, |p| p.p95_ms, |p| p.p99_ms];
    let [avg, p95, p99] = of.map(|of| match is_refused {
        true => REFUSED.into(),
        false => told(latency.map(of), short),
    });
    vec![
        phase.name.clone(),
        digits(phase.connections),
        told(phase.rate(), whole),
        avg,
        p95,
        p99,
        told(phase.server_rss_bytes.map(|rss| rss as f64), bytes),
        told(phase.server_cores(), number::cores),
        digits(phase.errors),
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
    let header = "ms,count,avg,p50,p90,p95,p99,p99.9,p99.99,max".split(',');
    let rows = outcome.latency.kinds().into_iter().map(|(name, latency)| {
        let quantiles = [0.5, 0.9, 0.95, 0.99, 0.999, 0.9999];
        let quantiles = quantiles.map(|quantile| latency.at_ms(quantile));
        let times = [
            &[latency.mean_ns() / 1e6],
            &quantiles[..],
            &[latency.max_ms()],
        ]
        .concat();
        let first = [name.into(), digits(latency.count())].into_iter();
        first.chain(times.into_iter().map(short)).collect()
    });
    let table = Table::of(header, rows);
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
    let acks = |count: u64| Some(count).filter(|count| *count > 0);
    let not_waited_for = totals.not_waited_for + totals.acks_not_waited_for > 0;
    let rows = [
        (
            true,
            "expected",
            totals.expected,
            Some(totals.acks_expected),
        ),
        (true, "arrived", totals.received, Some(totals.acked)),
        (true, "lost", totals.lost, Some(totals.acks_missing())),
        (
            not_waited_for,
            "not waited for",
            totals.not_waited_for,
            Some(totals.acks_not_waited_for),
        ),
        (
            totals.acked_late > 0,
            "too late",
            0,
            Some(totals.acked_late),
        ),
        (
            true,
            "duplicated",
            totals.duplicated,
            acks(totals.acks_duplicated),
        ),
        (true, "out of order", totals.reordered, None),
        (true, "not meant for the receiver", totals.stray, None),
    ];
    let columns = if totals.acks_expected > 0 { 5 } else { 3 };
    let header = ["", "deliveries", "share", "acknowledgements", "share"];
    let rows = rows
        .into_iter()
        .filter(|row| row.0)
        .map(|(_, name, count, acks)| {
            let share = acks.map(|acks| percent(acks, totals.acks_expected));
            let mut row = vec![name.into(), digits(count), percent(count, totals.expected)];
            row.extend([acks.map(digits), share].map(Option::unwrap_or_default));
            row.truncate(columns);
            row
        });
    let mut blocks = vec![Block::Table(Table::of(header[..columns].to_vec(), rows))];
    if totals.either_allowed > 0 {
        blocks.push(Block::Text(format!(
            "Besides, {} deliveries were free to arrive or not, because their receiver was \
             joining, leaving or disconnected just then; {} did.",
            digits(totals.either_allowed),
            digits(totals.either_received)
        )));
    }
    blocks
}

/// Attempts, success, and what ended connections.
pub fn connections(outcome: &Outcome) -> Vec<Block> {
    let totals = &outcome.totals;
    let rows = [
        ("attempted", digits(totals.connects_attempted)),
        ("succeeded", digits(totals.connects_succeeded)),
        ("connect success", connect_success(totals)),
        ("open at once, most", digits(totals.connections_peak)),
    ];
    let rows = rows.map(|(name, figure)| vec![name.to_owned(), figure]);
    let failed = most_first("failed: ", &totals.connect_failures);
    let dropped = most_first("dropped: ", &totals.drops);
    let rows = rows.into_iter().chain(failed).chain(dropped);
    vec![Block::Table(Table::of(vec!["", "connections"], rows))]
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
    let rates = outcome.accept_rates().into_iter().flatten();
    let rates = ["first tenth", "all", "last tenth"].into_iter().zip(rates);
    let rates = rates.map(|(name, rate)| (format!("connects per second, {name}"), whole(rate)));
    let heartbeats = digits(outcome.totals.heartbeats);
    let counts = rates.chain([("heartbeats answered".into(), heartbeats)]);
    let counts = counts.map(|(name, count)| vec![name, count, NONE.into()]);
    let growth = outcome.both_ends.map(|both_ends| both_ends.growth());
    let grown = growth
        .map(grown)
        .into_iter()
        .flatten()
        .map(|(name, grown)| {
            let each = short(grown as f64 / connections as f64) + " B";
            vec![name.into(), bytes(grown as f64), each]
        });
    let header = vec!["", "in all", "by connection"];
    Some(vec![Block::Table(Table::of(header, counts.chain(grown)))])
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

/// CPU and memory of each watched process, or of all together where there are many.
pub fn processes(outcome: &Outcome) -> Vec<Block> {
    let processes = &outcome.processes;
    if processes.is_empty() {
        let how = "No server process was watched; --pid adds its CPU and memory.";
        return vec![Block::Text(how.into())];
    }
    let header = "process,CPU s,CPU us/delivery,memory before,peak,after,bytes/connection";
    let row = |process: &ServerProcess| {
        vec![
            match process.pid {
                0 => process.name.clone(),
                pid => format!("{} ({pid})", process.name),
            },
            short(process.cpu_s),
            told(process.cpu_us_per_delivery, short),
            bytes(process.rss_before_bytes as f64),
            bytes(process.rss_peak_bytes as f64),
            bytes(process.rss_after_bytes as f64),
            told(process.rss_per_connection_bytes, short),
        ]
    };
    let rows = match processes.len() > PROCESSES_MAX {
        true => vec![row(&sum_of(processes, outcome.totals.connections_peak))],
        false => processes.iter().map(row).collect(),
    };
    let table = Table::of(header.split(','), rows);
    vec![Block::Table(table), Block::Text(MEMORY_LEGEND.into())]
}

fn sum_of(processes: &[ServerProcess], connections: u64) -> ServerProcess {
    let sum = |of: fn(&ServerProcess) -> u64| processes.iter().map(of).sum::<u64>();
    let (before, peak) = (sum(|p| p.rss_before_bytes), sum(|p| p.rss_peak_bytes));
    let grown = peak as f64 - before as f64;
    ServerProcess {
        name: format!("all {}", processes.len()),
        cpu_s: processes.iter().map(|process| process.cpu_s).sum(),
        rss_before_bytes: before,
        rss_peak_bytes: peak,
        rss_after_bytes: sum(|p| p.rss_after_bytes),
        rss_per_connection_bytes: (connections > 0).then(|| grown / connections as f64),
        ..ServerProcess::default()
    }
}

/// What the generator itself spent, which is what makes the rest believable.
pub fn generator(outcome: &Outcome) -> Vec<Block> {
    let generator = &outcome.generator;
    let is_saturated = outcome.latency_refused().is_some();
    let seconds = Some(outcome.duration_s).filter(|seconds| *seconds > 0.0);
    let cores = seconds.map(|seconds| generator.cpu_s / seconds);
    let rows = [
        ("workers", digits(generator.workers)),
        ("CPU time", short(generator.cpu_s) + " s"),
        ("CPU", told(cores, number::cores)),
        (
            "CPU us by received message",
            told(generator.cpu_us_per_received, short),
        ),
        ("turn lag p50 ms", told(generator.turn_lag_p50_ms, short)),
        ("turn lag p99 ms", told(generator.turn_lag_p99_ms, short)),
        ("turn lag max ms", told(generator.turn_lag_max_ms, short)),
        ("read lag p50 ms", told(generator.read_lag_p50_ms, short)),
        ("read lag p99 ms", told(generator.read_lag_p99_ms, short)),
        ("read lag max ms", told(generator.read_lag_max_ms, short)),
        ("saturated", if is_saturated { "yes" } else { "no" }.into()),
    ];
    let rows = rows.map(|(name, figure)| vec![name.into(), figure]);
    vec![Block::Table(Table::of(vec!["", "generator"], rows))]
}

/// Errors by kind, most frequent first; `None` when there was none.
pub fn errors(outcome: &Outcome) -> Option<Block> {
    let rows = most_first("", &outcome.errors);
    let table = Table::of(vec!["error", "count"], rows);
    (!table.is_empty()).then_some(Block::Table(table))
}

fn most_first(prefix: &str, counts: &Reasons) -> Vec<Vec<String>> {
    let mut sorted: Vec<(&String, &u64)> = counts.iter().collect();
    sorted.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let rows = sorted.into_iter();
    rows.map(|(kind, count)| vec![format!("{prefix}{kind}"), digits(*count)])
        .collect()
}
